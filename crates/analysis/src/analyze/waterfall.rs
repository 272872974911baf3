//! The waterfall of one phase: its stretches one by one, each on its own.

use rustc_hash::FxHashMap;

use crate::analyze::stretches::Stretch;
use crate::analyze::tracing::Tracing;
use crate::labels::phase_of_name;
use crate::matching::lanes::Lane;
use crate::matching::unmatched::UnmatchedReason;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::waterfall::{Event, EventClass, Floor, HostInterval, Input, Waterfall};

/// The name of idle time of a host without a device.
const BETWEEN_OPERATORS: &str = "between operators";

impl Tracing<'_> {
    /// Where the time of some stretches went on lane `number`.
    pub(super) fn waterfall(
        &self,
        included: &[&Stretch],
        number: usize,
        breakdowns: &[Option<(&DeviceBreakdown, usize)>],
    ) -> Waterfall {
        let lane = &self.lanes[number];
        let mut sum: Option<Waterfall> = None;
        for (stretch, breakdown) in included.iter().zip(breakdowns) {
            let (events, floors) = self.events(stretch, number);
            let host = self.host_intervals(lane, stretch);
            let mut waterfall = Waterfall::of(&Input {
                window: stretch.window(),
                events: &events,
                floors: floors.as_deref(),
                host: &host,
            });
            if let Some(instance) =
                breakdown.and_then(|(breakdown, order)| breakdown.instances.get(order))
            {
                waterfall = waterfall.with_idle_causes(&instance.idle);
            }
            match &mut sum {
                Some(sum) => sum.add(&waterfall),
                None => sum = Some(waterfall),
            }
        }
        let mut waterfall = sum.unwrap_or_default();
        let whole_graph = included.iter().any(|stretch| {
            let items = lane.items[lane.around(stretch.window())].iter();
            let mut graphs = items.filter(|item| item.whole_graph);
            graphs.any(|item| item.inside(stretch.window()).is_some())
        });
        if whole_graph {
            waterfall.extra_abstains = Some(UnmatchedReason::WholeGraph.to_string());
        }
        waterfall
    }

    /// The events of a stretch in their parts, and the floors of those that are matched; no floors where one is not known.
    fn events(&self, stretch: &Stretch, number: usize) -> (Vec<Event>, Option<Vec<Floor>>) {
        let lane = &self.lanes[number];
        let range = lane.around(stretch.window());
        // Numbers of units are those of the whole trace; a stretch needs few of them.
        let mut local: FxHashMap<u32, u32> = FxHashMap::default();
        let mut floors: Option<Vec<Floor>> =
            self.roof.and(self.theory.as_ref()).map(|_| Vec::new());
        let mut place = |unit: u32| {
            let next = local.len() as u32;
            *local.entry(unit).or_insert_with(|| {
                match (&mut floors, self.floor_in(unit, stretch)) {
                    (Some(floors), Some(floor)) => floors.push(floor),
                    (floors, _) => *floors = None,
                }
                next
            })
        };
        let events = lane.items[range.clone()]
            .iter()
            .zip(&self.matching.verdicts[number][range])
            .filter(|(item, _)| lane.holds(item, stretch.window))
            .map(|(item, verdict)| Event {
                start_ns: item.start,
                end_ns: item.end,
                launched_ns: item.launched,
                class: match verdict.class() {
                    EventClass::Matched(unit) => EventClass::Matched(place(unit)),
                    class => class,
                },
            })
            .collect();
        (events, floors)
    }

    /// What the host did between the events of a lane. A device's idle time has causes of its own.
    fn host_intervals(&self, lane: &Lane, stretch: &Stretch) -> Vec<HostInterval> {
        if lane.device.is_some() {
            return Vec::new();
        }
        if !lane.is_exact {
            return vec![HostInterval {
                name: BETWEEN_OPERATORS.to_owned(),
                start_ns: stretch.start,
                end_ns: stretch.end,
            }];
        }
        // The engine marks what it does between operators, such as sampling, by ranges inside of its phases.
        let ranges = &self.trace.ranges;
        let mut found: Vec<HostInterval> = (0..ranges.len())
            .map(|row| {
                (
                    row,
                    ranges.start[row],
                    ranges.start[row].saturating_add(ranges.duration[row]),
                )
            })
            .filter(|&(row, start, end)| {
                start < stretch.end
                    && end > stretch.start
                    && phase_of_name(self.trace.text(ranges.name[row])).is_none()
            })
            .map(|(row, start_ns, end_ns)| HostInterval {
                name: self.trace.text(ranges.name[row]).to_owned(),
                start_ns,
                end_ns,
            })
            .collect();
        found.sort_by_key(|host| (host.start_ns, host.end_ns));
        found
    }

    /// The floor of a unit in a stretch: an operator counts where its first event began.
    fn floor_in(&self, unit: u32, stretch: &Stretch) -> Option<Floor> {
        let begins = self.first_events[unit as usize] >= stretch.start;
        let floor = self.matching.units[unit as usize].floor?;
        Some(if begins { floor } else { Floor::default() })
    }
}
