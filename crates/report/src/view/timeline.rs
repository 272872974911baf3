use llmprof_units::Nanos;

/// More events than this at one time in one lane are counted, not drawn.
pub(crate) const MAX_ROWS_PER_LANE: usize = 64;

/// Events over time in named lanes, as columns: made for hundreds of thousands of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What the lanes are: streams, threads, devices.
    pub lanes: Vec<String>,
    /// Names that events point at.
    pub names: Vec<String>,
    /// What is drawn on events of a name; the name itself where there is none.
    pub labels: Vec<String>,
    /// Phases that events point at.
    pub phases: Vec<String>,
    /// When phases ran, in order of time.
    pub windows: Vec<TimelineWindow>,
    /// The moment from which times count; the first event that is drawn where it is absent.
    pub origin_ns: Option<Nanos>,
    lane: Vec<u32>,
    start_ns: Vec<Nanos>,
    duration_ns: Vec<Nanos>,
    name: Vec<u32>,
    phase: Vec<u32>,
}

/// An interval of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineWindow {
    /// Index into [`Timeline::phases`].
    pub phase: u32,
    pub start_ns: Nanos,
    pub end_ns: Nanos,
}

/// One event of a [`Timeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    /// Index into [`Timeline::lanes`].
    pub lane: u32,
    /// When it began, on the run's clock.
    pub start_ns: Nanos,
    /// How long it took; a negative value counts as zero.
    pub duration_ns: Nanos,
    /// Index into [`Timeline::names`].
    pub name: u32,
    /// Index into [`Timeline::phases`]; any index beyond it means none.
    pub phase: u32,
}

impl Timeline {
    pub fn new(lanes: Vec<String>, names: Vec<String>, phases: Vec<String>) -> Self {
        Self {
            lanes,
            names,
            phases,
            ..Self::default()
        }
    }

    /// Adds an event, in any order; one in a lane that does not exist is not drawn.
    pub fn push(&mut self, event: TimelineEvent) {
        self.lane.push(event.lane);
        self.start_ns.push(event.start_ns);
        self.duration_ns.push(event.duration_ns.max(Nanos(0)));
        self.name.push(event.name);
        self.phase.push(event.phase);
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.start_ns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.start_ns.is_empty()
    }

    /// An event by its position.
    pub fn event(&self, index: usize) -> TimelineEvent {
        TimelineEvent {
            lane: self.lane[index],
            start_ns: self.start_ns[index],
            duration_ns: self.duration_ns[index],
            name: self.name[index],
            phase: self.phase[index],
        }
    }

    /// Puts events of a lane that overlap into rows of their own, so that nested calls stack below their callers.
    pub(crate) fn layout(&self) -> TimelineLayout {
        let mut order: Vec<u32> = (0..self.len() as u32)
            .filter(|&index| (self.lane[index as usize] as usize) < self.lanes.len())
            .collect();
        // The longer of two events with one start is the outer one.
        order.sort_unstable_by_key(|&index| {
            let at = index as usize;
            (
                self.lane[at],
                self.start_ns[at],
                std::cmp::Reverse(self.duration_ns[at]),
                index,
            )
        });
        let start = order.iter().map(|&i| self.start_ns[i as usize]).min();
        let end = order.iter().map(|&i| self.end_ns(i)).max();
        let mut layout = TimelineLayout {
            rows: Vec::new(),
            start_ns: start.unwrap_or_default(),
            end_ns: end.unwrap_or_default(),
            hidden: self.len() - order.len(),
        };
        for lane in order.chunk_by(|&a, &b| self.lane[a as usize] == self.lane[b as usize]) {
            let mut rows: Vec<(Nanos, TimelineRow)> = Vec::new();
            for &index in lane {
                let start = self.start_ns[index as usize];
                let free = rows.iter().position(|(end, _)| *end <= start);
                match free {
                    Some(place) => {
                        let (end, row) = &mut rows[place];
                        *end = self.end_ns(index);
                        row.events.push(index);
                    }
                    None if rows.len() < MAX_ROWS_PER_LANE => {
                        let row = TimelineRow {
                            lane: self.lane[index as usize],
                            events: vec![index],
                        };
                        rows.push((self.end_ns(index), row));
                    }
                    None => layout.hidden += 1,
                }
            }
            layout.rows.extend(rows.into_iter().map(|(_, row)| row));
        }
        layout
    }

    fn end_ns(&self, index: u32) -> Nanos {
        let index = index as usize;
        Nanos(
            self.start_ns[index]
                .0
                .saturating_add(self.duration_ns[index].0),
        )
    }
}

/// Where each event of a [`Timeline`] is drawn.
#[derive(Debug)]
pub(crate) struct TimelineLayout {
    /// Rows from the top; those of a lane are neighbours.
    pub(crate) rows: Vec<TimelineRow>,
    pub(crate) start_ns: Nanos,
    pub(crate) end_ns: Nanos,
    /// Events with no place: no such lane, or too many at one time.
    pub(crate) hidden: usize,
}

impl TimelineLayout {
    /// From the first start to the last end, saturating.
    pub(crate) fn span(&self) -> Nanos {
        Nanos(self.end_ns.0.saturating_sub(self.start_ns.0))
    }
}

/// Events of one lane that do not overlap, by start.
#[derive(Debug)]
pub(crate) struct TimelineRow {
    pub(crate) lane: u32,
    pub(crate) events: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(events: &[(u32, i64, i64)]) -> Timeline {
        let mut timeline = Timeline::new(vec!["a".into(), "b".into()], vec!["f".into()], vec![]);
        for &(lane, start, duration) in events {
            timeline.push(TimelineEvent {
                lane,
                start_ns: Nanos(start),
                duration_ns: Nanos(duration),
                name: 0,
                phase: 0,
            });
        }
        timeline
    }

    fn rows(timeline: &Timeline) -> Vec<(u32, Vec<u32>)> {
        let layout = timeline.layout();
        layout
            .rows
            .into_iter()
            .map(|row| (row.lane, row.events))
            .collect()
    }

    #[test]
    fn nested_events_stack_below_their_caller() {
        // 2 calls 0, which calls 1; 3 follows; 4 is another lane. Given out of order.
        let timeline = timeline(&[(0, 10, 50), (0, 20, 5), (0, 10, 80), (0, 90, 5), (1, 0, 1)]);
        assert_eq!(
            rows(&timeline),
            [(0, vec![2, 3]), (0, vec![0]), (0, vec![1]), (1, vec![4])]
        );
    }

    #[test]
    fn what_has_no_place_is_counted() {
        let mut events = vec![(0, 0, 10); MAX_ROWS_PER_LANE + 3];
        events.push((7, 0, 10));
        assert_eq!(timeline(&events).layout().hidden, 4);
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let layout = timeline(&[(0, i64::MAX - 1, i64::MAX), (0, i64::MIN, -5)]).layout();
        assert_eq!(
            (layout.start_ns, layout.end_ns),
            (Nanos(i64::MIN), Nanos(i64::MAX))
        );
    }
}
