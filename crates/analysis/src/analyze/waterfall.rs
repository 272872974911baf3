//! The waterfall of one phase: its intervals one by one, each on its own.

use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::PhaseInterval;
use crate::analyze::tracing::TraceContext;
use crate::labels::phase_of_name;
use crate::matching::lanes::WorkLane;
use crate::matching::unmatched::UnmatchedReason;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::waterfall::{
    ClassedEvent, EventClass, HostInterval, Roofline, Waterfall, WaterfallInput,
};

impl TraceContext<'_> {
    /// Where the time of some intervals went on lane `number`.
    pub(super) fn waterfall(
        &self,
        included: &[&PhaseInterval],
        number: usize,
        breakdowns: &[Option<(&DeviceBreakdown, usize)>],
    ) -> Waterfall {
        let lane = &self.lanes[number];
        let mut sum: Option<Waterfall> = None;
        for (interval, breakdown) in included.iter().zip(breakdowns) {
            let (events, rooflines) = self.events(interval, number);
            let host = self.host_intervals(lane, interval);
            let mut waterfall = Waterfall::from_events(&WaterfallInput {
                window: (Nanos(interval.start), Nanos(interval.end)),
                events: &events,
                rooflines: rooflines.as_deref(),
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
        let whole_graph = included.iter().any(|interval| {
            let items = lane.items[lane.items_around(interval.window())].iter();
            let mut graphs = items.filter(|item| item.whole_graph);
            graphs.any(|item| item.time_inside(interval.window()).is_some())
        });
        if whole_graph {
            waterfall.extra_abstains = Some(UnmatchedReason::WholeGraph);
        }
        waterfall
    }

    /// The events of an interval in their parts, and the rooflines of those that are matched; no rooflines where one is not known.
    fn events(
        &self,
        interval: &PhaseInterval,
        number: usize,
    ) -> (Vec<ClassedEvent>, Option<Vec<Roofline>>) {
        let lane = &self.lanes[number];
        let range = lane.items_around(interval.window());
        // Numbers of units are those of the whole trace; an interval needs few of them.
        let mut local: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rooflines: Option<Vec<Roofline>> =
            self.roof.and(self.theory.as_ref()).map(|_| Vec::new());
        let mut place = |unit: u32| {
            let next = local.len() as u32;
            *local.entry(unit).or_insert_with(|| {
                match (&mut rooflines, self.roofline_in(unit, interval)) {
                    (Some(rooflines), Some(roofline)) => rooflines.push(roofline),
                    (rooflines, _) => *rooflines = None,
                }
                next
            })
        };
        let events = lane.items[range.clone()]
            .iter()
            .zip(&self.matching.verdicts[number][range])
            .filter(|(item, _)| lane.counts_in(item, interval.window))
            .map(|(item, verdict)| ClassedEvent {
                start_ns: Nanos(item.start),
                end_ns: Nanos(item.end),
                launched_ns: item.launch_time().map(Nanos),
                class: match verdict.event_class() {
                    EventClass::Matched(unit) => EventClass::Matched(place(unit)),
                    class => class,
                },
            })
            .collect();
        (events, rooflines)
    }

    /// What llmprof's engine did between its operators. A device's idle time has causes of its own, and other recorders show none.
    fn host_intervals(&self, lane: &WorkLane, interval: &PhaseInterval) -> Vec<HostInterval> {
        if lane.device.is_some() || !lane.is_exact {
            return Vec::new();
        }
        // The engine marks what it does between operators, such as sampling, by ranges inside of its phases.
        let ranges = &self.trace.ranges;
        let mut intervals: Vec<HostInterval> = (0..ranges.len())
            .map(|row| {
                (
                    row,
                    ranges.start[row],
                    ranges.start[row].saturating_add(ranges.duration[row]),
                )
            })
            .filter(|&(row, start, end)| {
                start < interval.end
                    && end > interval.start
                    && phase_of_name(self.trace.text(ranges.name[row])).is_none()
            })
            .map(|(row, start, end)| HostInterval {
                name: self.trace.text(ranges.name[row]).to_owned(),
                start_ns: Nanos(start),
                end_ns: Nanos(end),
            })
            .collect();
        intervals.sort_by_key(|host| (host.start_ns, host.end_ns));
        intervals
    }

    /// The roofline of a unit in an interval: an operator counts where its first event began.
    fn roofline_in(&self, unit: u32, interval: &PhaseInterval) -> Option<Roofline> {
        let begins = self.first_events[unit as usize] >= interval.start;
        let roofline = self.matching.units[unit as usize].roofline?;
        Some(if begins {
            roofline
        } else {
            Roofline::default()
        })
    }
}
