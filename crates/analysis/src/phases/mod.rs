//! The phases of a trace: from annotations, else from patterns of launches, else one phase.

mod annotations;

use llmprof_record::trace::Trace;
use serde::{Deserialize, Serialize};

use self::annotations::annotated;
use crate::labels::{STEP, own_name, phase_of_name, ranges_of};
use crate::steps;
use crate::steps::{Repetition, StepLabel};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::extent::host_span;
use crate::timeline::intervals::add;
use crate::timeline::launches::EventCalls;
use crate::timeline::slices;

/// How the phases of a trace are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseSource {
    /// NVTX ranges or annotations of the framework.
    Annotation,
    /// Sequences of kernels that repeat.
    Inferred,
    /// Not at all: the whole trace is one phase.
    Whole,
}

/// A stretch of time that belongs to one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// When it begins, ns.
    pub(crate) start: i64,
    /// When it ends, ns.
    pub(crate) end: i64,
    /// The number of its name in [`Phases::names`].
    pub(crate) name: usize,
    /// Whether all of it was recorded.
    pub(crate) is_whole: bool,
}

/// The phases of a trace: stretches of time that do not overlap, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phases {
    /// How they are known.
    pub(crate) source: PhaseSource,
    /// For inferred phases, how alike the repetitions are: 1 where all steps launch the same kernels.
    pub(crate) confidence: Option<f64>,
    /// The names, in order of first use.
    pub(crate) names: Vec<String>,
    /// The stretches, in order of time.
    pub(crate) windows: Vec<Window>,
    /// Where only slices were recorded, how long the stretches of each name were in all, ns; names that came with the cut
    /// have none.
    pub(crate) spans: Option<Vec<i64>>,
}

/// For every device event, the window of [`Phases::windows`] that it belongs to.
pub(crate) struct EventWindows(Vec<Option<usize>>);

impl EventWindows {
    /// An event belongs to the window in which it was launched where ranges of the host are the phases, else to the one in
    /// which it began.
    pub(crate) fn of(
        trace: &Trace,
        events: &DeviceEvents,
        calls: &EventCalls,
        phases: &Phases,
    ) -> Self {
        let window = |(index, event): (usize, &DeviceEvent)| {
            let launched = || Some(trace.hosts.start[calls.call(index)? as usize]);
            let by_launch = phases.by_launch();
            let launched = by_launch.then(launched).flatten();
            phases.at(launched.unwrap_or(event.start))
        };
        Self(events.all().iter().enumerate().map(window).collect())
    }

    pub(crate) fn get(&self, index: usize) -> Option<usize> {
        self.0[index]
    }
}

impl Phases {
    /// Finds the phases of a trace whose steps by the pattern of launches are known.
    pub(crate) fn with_steps(trace: &Trace, events: &DeviceEvents, steps: &[Repetition]) -> Self {
        let mut phases = annotated(trace, events, phase_of_name)
            .or_else(|| {
                annotated(trace, events, own_name).filter(|phases| phases.names.len() <= 32)
            })
            .or_else(|| inferred(steps))
            .unwrap_or_else(|| whole(trace, events));
        if let Some(slices) = slices::of(trace) {
            let named = ranges_of(trace, STEP);
            if named.is_empty() {
                phases.keep_recorded(&slices, &steps::launched(steps), by_pattern);
            } else {
                phases.keep_recorded(&slices, &named, |_| Some(STEP));
            }
        }
        phases
    }

    /// Leaves out what was not recorded: it belongs to no phase. Of a phase that was recorded in part its whole steps are
    /// kept, as phases of their own, where there are any; `name_of` says what steps are in a phase of a name.
    fn keep_recorded(
        &mut self,
        slices: &[(i64, i64)],
        steps: &[(i64, i64)],
        name_of: impl Fn(&str) -> Option<&'static str>,
    ) {
        let mut spans = vec![0_i64; self.names.len()];
        for window in &self.windows {
            add(
                &mut spans[window.name],
                window.end.saturating_sub(window.start),
            );
        }
        self.spans = Some(spans);
        for window in std::mem::take(&mut self.windows) {
            let (start, end) = (window.start, window.end);
            if slices::hold(slices, (start, end)) {
                self.windows.push(window);
                continue;
            }
            let name = name_of(&self.names[window.name]);
            let first = steps.partition_point(|step| step.0 < start);
            let inside = steps[first..].iter().take_while(|step| step.1 <= end);
            let mut whole = inside
                .filter(|step| slices::hold(slices, **step))
                .filter_map(|&step| Some((name?, step)))
                .peekable();
            if whole.peek().is_none() {
                let parts = slices::inside(slices, (start, end));
                self.windows.extend(parts.map(|(start, end)| Window {
                    start,
                    end,
                    is_whole: false,
                    ..window
                }));
            }
            for (name, (start, end)) in whole {
                self.push(name, start, end);
            }
        }
    }

    /// Says what steps are that only the pattern of launches shows, all of one kind; false where there are none.
    pub(crate) fn name_steps(&mut self, name: &str) -> bool {
        let unnamed = StepLabel::Step.name();
        let found = self.names.iter_mut().find(|known| *known == unnamed);
        let Some(known) = found.filter(|_| self.source == PhaseSource::Inferred) else {
            return false;
        };
        name.clone_into(known);
        true
    }

    /// The window that holds a moment.
    pub(crate) fn at(&self, time: i64) -> Option<usize> {
        let after = self.windows.partition_point(|window| window.start <= time);
        let window = after.checked_sub(1)?;
        let end = self.windows[window].end;
        let at_the_end = time == end && window + 1 == self.windows.len() && !self.by_launch();
        (time < end || at_the_end).then_some(window)
    }

    /// Whether the last window of the phase `name` has its end: then it is the end of the device's events, of which one
    /// without length may lie there.
    pub(crate) fn closed(&self, name: usize) -> bool {
        !self.by_launch()
            && self
                .windows
                .last()
                .is_some_and(|window| window.name == name)
    }

    /// Whether a device event belongs to the phase in which it was launched; otherwise to the one in which it began.
    pub(crate) fn by_launch(&self) -> bool {
        self.source == PhaseSource::Annotation
    }

    fn empty(source: PhaseSource) -> Self {
        Self {
            source,
            confidence: None,
            names: Vec::new(),
            windows: Vec::new(),
            spans: None,
        }
    }

    fn push(&mut self, name: &str, start: i64, end: i64) {
        let found = self.names.iter().position(|known| known == name);
        let name = found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.windows.push(Window {
            start,
            end,
            name,
            is_whole: true,
        });
    }
}

/// What steps by the pattern of launches are in a range of this name: one range may hold all prefills of a program.
fn by_pattern(name: &str) -> Option<&'static str> {
    match name {
        "prefill" => Some("prefill"),
        "decode" => Some(STEP),
        _ => None,
    }
}

fn inferred(steps: &[Repetition]) -> Option<Phases> {
    let steps = steps::phases(steps)?;
    let mut phases = Phases::empty(PhaseSource::Inferred);
    phases.confidence = Some(steps.likeness);
    for (start, end, label) in steps.windows {
        phases.push(label.name(), start, end);
    }
    Some(phases)
}

fn whole(trace: &Trace, events: &DeviceEvents) -> Phases {
    let mut phases = Phases::empty(PhaseSource::Whole);
    let host = host_span(trace);
    let span = match (host, events.span()) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    };
    if let Some((start, end)) = span {
        phases.push("all", start, end);
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::annotations::partition;

    #[test]
    fn of_phases_that_were_recorded_in_part_whole_steps_are_left() {
        let names = ["prefill".to_owned(), "decode".to_owned()];
        let mut phases = partition(&[(0, 30, 0), (30, 100, 1), (100, 120, 0)], &names);
        let steps = [(30, 50), (50, 70), (70, 90), (90, 100)];
        phases.keep_recorded(&[(10, 55), (69, 95), (98, 200)], &steps, |_| Some(STEP));
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| {
                let name = phases.names[window.name].as_str();
                (window.start, window.end, name, window.is_whole)
            })
            .collect();
        assert_eq!(
            windows,
            [
                (10, 30, "prefill", false),
                (30, 50, STEP, true),
                (70, 90, STEP, true),
                (100, 120, "prefill", true)
            ]
        );
        assert_eq!(phases.spans, Some(vec![50, 70]));
    }

    #[test]
    fn in_one_range_around_all_prefills_each_is_one() {
        let names = ["prefill".to_owned(), "other".to_owned()];
        let mut phases = partition(&[(0, 100, 0), (100, 200, 1)], &names);
        let steps = [(0, 20), (20, 40), (40, 60), (60, 80), (110, 120)];
        phases.keep_recorded(&[(10, 65), (105, 130)], &steps, by_pattern);
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| (window.start, window.end, window.name, window.is_whole))
            .collect();
        assert_eq!(
            windows,
            [(20, 40, 0, true), (40, 60, 0, true), (105, 130, 1, false)]
        );
    }
}
