//! The GPU time of training steps by part: forward, backward, optimizer, communication.

use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::Interval;
use crate::labels::is_annotation;
use crate::matching::lanes::{Item, Lane};
use crate::phase_facts::TrainingParts;
use crate::program::{OPTIMIZER_STEP, is_backward_op};
use crate::timeline::device_events::Class;

/// When threads computed gradients, and when they updated weights. A kernel belongs to what launched it, on whatever thread.
pub(crate) struct TrainingPlaces {
    backward: Places,
    optimizer: Places,
}

/// Outermost intervals by thread, in order of time.
type Places = FxHashMap<ThreadId, Vec<(i64, i64)>>;

impl TrainingPlaces {
    pub(crate) fn of(trace: &Trace) -> Self {
        Self {
            backward: places(trace, is_backward_op),
            optimizer: places(trace, is_optimizer),
        }
    }

    /// The parts of some intervals on a device; nothing for the host.
    pub(super) fn parts(&self, included: &[&Interval], lane: &Lane) -> Option<TrainingParts> {
        lane.device?;
        let mut parts = TrainingParts::default();
        for interval in included {
            for item in &lane.items[lane.around(interval.window())] {
                if let Some(time) = item.inside(interval.window()) {
                    let part = self.part_of(item, &mut parts);
                    part.0 = part.0.saturating_add(time);
                }
            }
        }
        Some(parts)
    }

    fn part_of<'p>(&self, item: &Item, parts: &'p mut TrainingParts) -> &'p mut Nanos {
        if item.class == Class::Communication {
            return &mut parts.communication_ns;
        }
        match item.place {
            None => &mut parts.unattributed_ns,
            Some(place) if holds(&self.optimizer, place) => &mut parts.optimizer_ns,
            Some(place) if holds(&self.backward, place) => &mut parts.backward_ns,
            Some(_) => &mut parts.forward_ns,
        }
    }
}

/// The range of an optimizer's step, and operators over lists of parameters that optimizers alone call.
fn is_optimizer(name: &str) -> bool {
    name.starts_with(OPTIMIZER_STEP)
        || name.starts_with("aten::_foreach_")
        || name.starts_with("aten::_fused_ada")
        || name.starts_with("aten::_fused_sgd")
}

fn holds(places: &Places, (thread, time): (ThreadId, i64)) -> bool {
    let Some(intervals) = places.get(&thread) else {
        return false;
    };
    let after = intervals.partition_point(|&(start, _)| start <= time);
    after
        .checked_sub(1)
        .is_some_and(|last| time < intervals[last].1)
}

fn places(trace: &Trace, is_part: fn(&str) -> bool) -> Places {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut is_part = |name: StrId| {
        *known
            .entry(name)
            .or_insert_with(|| is_part(trace.text(name)))
    };
    let mut found = Places::default();
    let mut add = |thread: ThreadId, start: i64, duration: i64| {
        let end = start.saturating_add(duration);
        found.entry(thread).or_default().push((start, end));
    };
    for row in 0..hosts.len() {
        if hosts.kind[row] == HostKind::OPERATOR && is_part(hosts.name[row]) {
            add(hosts.thread[row], hosts.start[row], hosts.duration[row]);
        }
    }
    for row in 0..ranges.len() {
        if is_annotation(ranges.kind[row]) && is_part(ranges.name[row]) {
            add(ranges.thread[row], ranges.start[row], ranges.duration[row]);
        }
    }
    for intervals in found.values_mut() {
        intervals.sort_unstable();
        let mut outermost: Vec<(i64, i64)> = Vec::with_capacity(intervals.len());
        for &(start, end) in intervals.iter() {
            match outermost.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => outermost.push((start, end)),
            }
        }
        *intervals = outermost;
    }
    found
}
