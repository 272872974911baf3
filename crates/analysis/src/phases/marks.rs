//! Steps that are not ranges themselves: intervals that end with an optimizer's step, and calls of the outermost modules.

use crate::thresholds::{FIRST_STEP_MAX_RATIO, OPTIMIZER_TURNS_MAX};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::stats::percentile;
use rustc_hash::FxHashMap;

use super::unused_passes::UnusedPasses;
use super::{FORWARD_ONLY, PhaseSource, Phases, TRAINING_STEP};
use crate::labels::is_annotation;
use crate::program::{OPTIMIZER_STEP, backward_starts, is_backward_op, module_class};
use crate::timeline::nesting::module_name;

/// Steps of training: each ends where `Optimizer.step` does, and the next begins there. Of several optimizers the one that
/// steps last ends a step. Nothing where fewer than two steps were recorded.
pub(super) fn optimizer_steps(trace: &Trace) -> Option<Phases> {
    let (thread, steps) = optimizer_ends(trace)?;
    let ends = last_of_iterations(trace, &steps);
    if ends.len() < 2 {
        return None;
    }
    let hosts = &trace.hosts;
    let own = hosts.thread.partition_point(|&on| on < thread);
    let first = (hosts.thread.get(own) == Some(&thread)).then(|| hosts.start[own]);
    let mut phases = Phases::empty(PhaseSource::OptimizerSteps);
    let mut lengths: Vec<f64> = ends
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]) as f64)
        .collect();
    lengths.sort_by(f64::total_cmp);
    let usual = percentile(&lengths, 0.5);
    let mut steps: Vec<(i64, i64)> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let before = first.filter(|&start| start < ends[0]);
    if let Some(start) = before {
        steps.insert(0, (start, ends[0]));
    }
    let passes = UnusedPasses::of(trace, thread, &steps, before.is_some());
    for (number, &(start, end)) in steps.iter().enumerate() {
        let begin = passes.end_within((start, end));
        let length = end.saturating_sub(begin.unwrap_or(start));
        let is_first = number == 0 && before.is_some();
        if is_first && length as f64 > FIRST_STEP_MAX_RATIO * usual {
            let left_out = Issue::info(IssueCode::AnalysisFirstStepLong);
            phases.issues.push(
                left_out
                    .with("first_ns", length)
                    .with("usual_ns", usual.round() as i64),
            );
            continue;
        }
        if let Some(begin) = begin {
            phases.push(FORWARD_ONLY, start, begin);
        }
        phases.push(TRAINING_STEP, begin.unwrap_or(start), end);
    }
    if let Some((start, end)) = ends.last().and_then(|&end| passes.after(end)) {
        phases.push(FORWARD_ONLY, start, end);
    }
    Some(phases)
}

/// The last step of each iteration, where optimizers take turns: their names then return every few steps. Where those of one name take
/// turns, gradients before their steps are those of other layers, and alike every few steps. Other ops do not count: a program may print
/// its loss every few steps. The first iteration is not compared. Where nothing returns, the optimizer with most steps ends iterations.
fn last_of_iterations(trace: &Trace, steps: &[(i64, StrId)]) -> Vec<i64> {
    let names_return = |steps: &[(i64, StrId)], turns: usize| {
        let mut pairs = steps.iter().zip(steps.get(turns..).unwrap_or_default());
        (turns == 1 || steps.len() >= 2 * turns) && pairs.all(|(a, b)| a.1 == b.1)
    };
    let mut turns = 1..=OPTIMIZER_TURNS_MAX;
    if !turns.any(|turns| names_return(steps, turns)) {
        let count = |name: StrId| steps.iter().filter(|step| step.1 == name).count();
        let most = steps
            .iter()
            .map(|step| step.1)
            .max_by_key(|&name| (count(name), name));
        let own: Vec<_> = steps
            .iter()
            .copied()
            .filter(|step| Some(step.1) == most)
            .collect();
        return last_of_iterations(trace, &own);
    }
    let ends: Vec<i64> = steps.iter().map(|step| step.0).collect();
    let backward = backward_starts(trace);
    let begun = |time: i64| backward.partition_point(|&start| start < time);
    let ops: Vec<usize> = ends
        .windows(2)
        .map(|pair| begun(pair[1]) - begun(pair[0]))
        .collect();
    let repeats_after = |steps: &usize| {
        let later = ops.get(*steps..).unwrap_or_default();
        later.len() >= 2 * steps && later.iter().zip(&later[*steps..]).all(|(a, b)| a == b)
    };
    let mut returning = (1..=OPTIMIZER_TURNS_MAX).filter(|&turns| names_return(steps, turns));
    let shortest = returning.clone().next().unwrap_or(1);
    let turns = returning.find(repeats_after).unwrap_or(shortest);
    ends.into_iter().skip(turns - 1).step_by(turns).collect()
}

/// The ends of all steps of optimizers, by time.
pub(super) fn all_optimizer_ends(trace: &Trace) -> Vec<i64> {
    let mut ends: Vec<i64> = ends_by_optimizer(trace)
        .into_iter()
        .flat_map(|(_, ends)| ends)
        .collect();
    ends.sort_unstable();
    ends
}

/// The ends of the steps of optimizers on the thread on which one has most of them, by time, with their names.
fn optimizer_ends(trace: &Trace) -> Option<(ThreadId, Vec<(i64, StrId)>)> {
    let ends_by_name = ends_by_optimizer(trace);
    let ((thread, _), _) = ends_by_name
        .iter()
        .max_by_key(|(key, ends)| (ends.len(), ends.last().copied(), std::cmp::Reverse(*key)))?;
    let own = ends_by_name.iter().filter(|((on, _), _)| on == thread);
    let mut steps: Vec<(i64, StrId)> = own
        .flat_map(|((_, name), ends)| ends.iter().map(|&end| (end, *name)))
        .collect();
    steps.sort_unstable();
    steps.dedup();
    Some((*thread, steps))
}

/// The ends of the steps of each optimizer and thread, by time.
fn ends_by_optimizer(trace: &Trace) -> Vec<((ThreadId, StrId), Vec<i64>)> {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let mut is_step: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut is_step = |name: StrId| {
        *is_step
            .entry(name)
            .or_insert_with(|| trace.text(name).starts_with(OPTIMIZER_STEP))
    };
    let mut ends_by_name: FxHashMap<(ThreadId, StrId), Vec<i64>> = FxHashMap::default();
    for row in 0..ranges.len() {
        if is_annotation(ranges.kind[row]) && is_step(ranges.name[row]) {
            let end = ranges.start[row].saturating_add(ranges.duration[row]);
            let key = (ranges.thread[row], ranges.name[row]);
            ends_by_name.entry(key).or_default().push(end);
        }
    }
    // Older versions of Kineto write ranges as operators.
    for row in 0..hosts.len() {
        if hosts.kind[row] == HostKind::OPERATOR && is_step(hosts.name[row]) {
            let end = hosts.start[row].saturating_add(hosts.duration[row]);
            let key = (hosts.thread[row], hosts.name[row]);
            ends_by_name.entry(key).or_default().push(end);
        }
    }
    let mut ends_by_name: Vec<_> = ends_by_name.into_iter().collect();
    for (_, ends) in &mut ends_by_name {
        ends.sort_unstable();
    }
    ends_by_name
}

/// Calls of the outermost modules, by class. Nothing where none were recorded. What a backward op calls again, as activation checkpointing
/// does, is part of the backward pass.
pub(super) fn outermost_modules(trace: &Trace) -> Option<Phases> {
    let hosts = &trace.hosts;
    if !hosts.kind.contains(&HostKind::PYTHON) {
        return None;
    }
    let mut calls: Vec<(i64, i64, StrId)> = Vec::new();
    let mut around: Option<(ThreadId, i64)> = None;
    let mut is_told: FxHashMap<(StrId, bool), bool> = FxHashMap::default();
    for row in 0..hosts.len() {
        let (start, thread) = (hosts.start[row], hosts.thread[row]);
        if around.is_some_and(|(on, until)| on == thread && start < until) {
            continue;
        }
        let (name, is_python) = (hosts.name[row], hosts.kind[row] == HostKind::PYTHON);
        if !is_python && hosts.kind[row] != HostKind::OPERATOR {
            continue;
        }
        let is_told = is_told.entry((name, is_python)).or_insert_with(|| {
            let name = trace.text(name);
            (is_python && module_name(name).is_some()) || (!is_python && is_backward_op(name))
        });
        if *is_told {
            let end = start.saturating_add(hosts.duration[row]);
            around = Some((thread, end));
            if is_python {
                calls.push((start, end, name));
            }
        }
    }
    calls.sort_unstable();
    let overlap = calls.windows(2).any(|pair| pair[0].1 > pair[1].0);
    if calls.is_empty() || overlap {
        return None;
    }
    let mut phases = Phases::empty(PhaseSource::Modules);
    for (start, end, name) in calls {
        let name = module_name(trace.text(name)).unwrap_or_default();
        phases.push(module_class(name), start, end);
    }
    Some(phases)
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, TraceBuilder};

    use super::*;

    /// Activation checkpointing calls the modules again that a backward op needs.
    #[test]
    fn a_forward_that_is_computed_again_is_part_of_the_backward_pass() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut push = |name: &str, kind, start, end| {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start,
                duration: end - start,
                name,
                thread,
                kind,
                ..Host::default()
            });
        };
        for start in [0, 1000] {
            push("nn.Module: Net_0", HostKind::PYTHON, start, start + 400);
            push(
                "nn.Module: Block_0",
                HostKind::PYTHON,
                start + 10,
                start + 200,
            );
            push(
                "CheckpointFunctionBackward",
                HostKind::OPERATOR,
                start + 500,
                start + 900,
            );
            push(
                "nn.Module: Block_0",
                HostKind::PYTHON,
                start + 510,
                start + 700,
            );
        }
        let phases = outermost_modules(&builder.finish()).unwrap();
        assert_eq!(
            (phases.names, phases.windows.len()),
            (vec!["Net".to_owned()], 2)
        );
    }
}
