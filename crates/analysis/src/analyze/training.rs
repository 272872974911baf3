//! The GPU time of training steps by part: forward, backward, optimizer, communication.

use llmprof_record::trace::{HostKind, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::PhaseInterval;
use crate::labels::{is_annotation, own_name};
use crate::matching::lanes::{Item, WorkLane};
use crate::phase_facts::TrainingParts;
use crate::phases::Phases;
use crate::phases::forward::ForwardPasses;
use crate::program::{OPTIMIZER_STEP, is_backward_op, named_rows};
use crate::timeline::device_events::Class;

/// Parts of the names of ranges in which a step of training computes its loss.
const FORWARD_RANGES: [&str; 4] = ["forward", "fwd", "loss", "train"];

/// When threads computed gradients, and when they updated weights. A kernel belongs to what launched it, on whatever thread.
pub(crate) struct TrainingPlaces {
    backward: Places,
    optimizer: Places,
    operators: Places,
    /// Ranges of the program that hold no backward op and are not named after the forward pass: they load, evaluate, save.
    others: Places,
    /// Passes that generate text: rollouts, of which no gradient is computed.
    rollouts: Places,
    /// When backward ops began, in order.
    backward_starts: Vec<i64>,
    /// When the host launched the work of each window.
    host_windows: Vec<(i64, i64)>,
}

/// Start and end of intervals by thread, in order of time.
type Places = FxHashMap<ThreadId, Vec<(i64, i64)>>;

impl TrainingPlaces {
    pub(crate) fn of_trace(trace: &Trace, phases: &Phases) -> Self {
        let windows = 0..phases.windows.len();
        let backward = outermost_places(read_places(trace, is_backward_op, is_backward_op));
        let starts = backward.values().flatten().map(|&(start, _)| start);
        let mut backward_starts: Vec<i64> = starts.collect();
        backward_starts.sort_unstable();
        let mut others = read_places(trace, |_| false, is_other_range);
        for intervals in others.values_mut() {
            intervals.retain(|&(start, end)| {
                let after = backward_starts.partition_point(|&backward| backward < start);
                backward_starts.get(after).is_none_or(|&next| next >= end)
            });
        }
        Self {
            backward,
            optimizer: outermost_places(read_places(trace, is_optimizer, is_optimizer)),
            // Older versions of Kineto write ranges as operators, of which those of steps have numbers.
            operators: outermost_places(read_places(
                trace,
                |name| !name.contains('#'),
                |name| name.starts_with("aten::"),
            )),
            others: outermost_places(others),
            rollouts: ForwardPasses::of_trace(trace)
                .map(|passes| passes.generation_spans())
                .into_iter()
                .collect(),
            backward_starts,
            host_windows: windows.map(|window| phases.host_window(window)).collect(),
        }
    }

    /// The parts of some intervals on a device; nothing for the host.
    pub(super) fn sum_parts(
        &self,
        included: &[&PhaseInterval],
        lane: &WorkLane,
    ) -> Option<TrainingParts> {
        lane.device?;
        let mut parts = TrainingParts::default();
        for interval in included {
            for item in &lane.items[lane.items_around(interval.window())] {
                if let Some(time) = item.time_inside(interval.window()) {
                    let part = self.part_of(item, interval, &mut parts);
                    part.0 = part.0.saturating_add(time);
                }
            }
        }
        Some(parts)
    }

    fn part_of<'p>(
        &self,
        item: &Item,
        interval: &PhaseInterval,
        parts: &'p mut TrainingParts,
    ) -> &'p mut Nanos {
        let (_, end) = self.host_windows[item.window().unwrap_or(interval.window)];
        if item.class == Class::Communication {
            return &mut parts.communication_ns;
        }
        match item.place {
            None => &mut parts.unattributed_ns,
            Some(place) if holds_time(&self.optimizer, place) => &mut parts.optimizer_ns,
            Some(place) if holds_time(&self.backward, place) => &mut parts.backward_ns,
            Some(place) if item.transfer.is_none() && self.is_forward(place, end) => {
                &mut parts.forward_ns
            }
            Some(_) => &mut parts.other_ns,
        }
    }

    /// Whether an operator launches here what a backward pass of the same step follows. Hooks run operators on the threads of backward
    /// ops too.
    fn is_forward(&self, place: (ThreadId, i64), end: i64) -> bool {
        let (thread, time) = place;
        let of_hooks = self.backward.contains_key(&thread) && !self.optimizer.contains_key(&thread);
        let after = self.backward_starts.partition_point(|&start| start < time);
        let is_followed = self
            .backward_starts
            .get(after)
            .is_some_and(|&next| next < end);
        is_followed
            && !of_hooks
            && holds_time(&self.operators, place)
            && !holds_time(&self.others, place)
            && !holds_time(&self.rollouts, place)
    }
}

/// Whether a range is one of the program that no name shows to be a part of the forward pass. Modules are parts of a model.
fn is_other_range(name: &str) -> bool {
    let Some(own) = own_name(name) else {
        return false;
    };
    let own = own.to_ascii_lowercase();
    let is_module = own.contains('.') && !own.contains(' ');
    !is_module && !FORWARD_RANGES.iter().any(|part| own.contains(part))
}

/// The range of an optimizer's step, and operators over lists of parameters that optimizers alone call.
fn is_optimizer(name: &str) -> bool {
    name.starts_with(OPTIMIZER_STEP)
        || name.starts_with("aten::_foreach_")
        || name.starts_with("aten::_fused_ada")
        || name.starts_with("aten::_fused_sgd")
}

fn holds_time(places: &Places, (thread, time): (ThreadId, i64)) -> bool {
    let Some(intervals) = places.get(&thread) else {
        return false;
    };
    let after = intervals.partition_point(|&(start, _)| start <= time);
    after
        .checked_sub(1)
        .is_some_and(|last| time < intervals[last].1)
}

fn read_places(trace: &Trace, is_op: fn(&str) -> bool, is_range: fn(&str) -> bool) -> Places {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let mut places = Places::default();
    for row in named_rows(trace, &hosts.name, is_op) {
        if hosts.kind[row] != HostKind::OPERATOR {
            continue;
        }
        let (start, own) = (
            hosts.start[row],
            places.entry(hosts.thread[row]).or_default(),
        );
        let end = start.saturating_add(hosts.duration[row]);
        match own.last_mut() {
            // Operators inside another one count with it.
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => own.push((start, end)),
        }
    }
    for row in named_rows(trace, &ranges.name, is_range) {
        if is_annotation(ranges.kind[row]) {
            let end = ranges.start[row].saturating_add(ranges.duration[row]);
            let own = places.entry(ranges.thread[row]).or_default();
            own.push((ranges.start[row], end));
        }
    }
    places
}

/// The intervals of each thread that lie in no other, in order of time.
fn outermost_places(mut places: Places) -> Places {
    for intervals in places.values_mut() {
        intervals.sort_unstable();
        intervals.dedup_by(|next, last| {
            let is_inside = next.0 < last.1;
            last.1 = last.1.max(if is_inside { next.1 } else { last.1 });
            is_inside
        });
    }
    places
}
