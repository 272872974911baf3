//! Steps that are not ranges themselves: intervals that end with an optimizer's step, and calls of the outermost modules.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::stats::percentile;
use rustc_hash::FxHashMap;

use super::{PhaseSource, Phases, TRAINING_STEP};
use crate::labels::is_annotation;
use crate::program::{OPTIMIZER_STEP, backward_starts, module_class};
use crate::thresholds::FIRST_STEP_MAX_RATIO;
use crate::timeline::nesting::module_name;

/// Steps of training: each ends where `Optimizer.step` does, and the next begins there. Of several optimizers the one that
/// steps last ends a step. Nothing where fewer than two steps were recorded.
pub(super) fn optimizer_steps(trace: &Trace) -> Option<Phases> {
    let (thread, mut ends) = optimizer_ends(trace)?;
    ends.dedup();
    let ends = last_of_iterations(trace, &ends);
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
    if let Some(start) = first.filter(|&start| start < ends[0]) {
        let is_long = ends[0].saturating_sub(start) as f64 > FIRST_STEP_MAX_RATIO * usual;
        if is_long {
            let left_out = Issue::info(IssueCode::AnalysisFirstStepLong);
            phases.issues.push(
                left_out
                    .with("first_ns", ends[0].saturating_sub(start))
                    .with("usual_ns", usual.round() as i64),
            );
        } else {
            phases.push(TRAINING_STEP, start, ends[0]);
        }
    }
    for pair in ends.windows(2) {
        phases.push(TRAINING_STEP, pair[0], pair[1]);
    }
    Some(phases)
}

/// Optimizers that take turns in one iteration: those of a GAN, of an actor and a critic.
const OPTIMIZERS_MAX: usize = 4;

/// The last step of each iteration, where optimizers of one name take turns: gradients before their steps then are those of other layers,
/// and alike every few steps. Other ops do not count: a program may print its loss every few steps. The first iteration is not compared.
fn last_of_iterations(trace: &Trace, ends: &[i64]) -> Vec<i64> {
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
    let turns = (1..=OPTIMIZERS_MAX).find(repeats_after).unwrap_or(1);
    ends.iter()
        .copied()
        .skip(turns - 1)
        .step_by(turns)
        .collect()
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

/// The ends of the steps of one optimizer on the thread with most of them, by time.
fn optimizer_ends(trace: &Trace) -> Option<(ThreadId, Vec<i64>)> {
    let found = ends_by_optimizer(trace);
    let (key, ends) = found
        .into_iter()
        .max_by_key(|(key, ends)| (ends.len(), ends.last().copied(), std::cmp::Reverse(*key)))?;
    Some((key.0, ends))
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
    let mut found: FxHashMap<(ThreadId, StrId), Vec<i64>> = FxHashMap::default();
    for row in 0..ranges.len() {
        if is_annotation(ranges.kind[row]) && is_step(ranges.name[row]) {
            let end = ranges.start[row].saturating_add(ranges.duration[row]);
            let key = (ranges.thread[row], ranges.name[row]);
            found.entry(key).or_default().push(end);
        }
    }
    // Older versions of Kineto write ranges as operators.
    for row in 0..hosts.len() {
        if hosts.kind[row] == HostKind::OPERATOR && is_step(hosts.name[row]) {
            let end = hosts.start[row].saturating_add(hosts.duration[row]);
            let key = (hosts.thread[row], hosts.name[row]);
            found.entry(key).or_default().push(end);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    for (_, ends) in &mut found {
        ends.sort_unstable();
    }
    found
}

/// Calls of the outermost modules, by class. Nothing where none were recorded.
pub(super) fn outermost_modules(trace: &Trace) -> Option<Phases> {
    let hosts = &trace.hosts;
    if !hosts.kind.contains(&HostKind::PYTHON) {
        return None;
    }
    let mut calls: Vec<(i64, i64, StrId)> = Vec::new();
    let mut around: Option<(ThreadId, i64)> = None;
    let mut is_module: FxHashMap<StrId, bool> = FxHashMap::default();
    for row in 0..hosts.len() {
        let (start, thread) = (hosts.start[row], hosts.thread[row]);
        if hosts.kind[row] != HostKind::PYTHON
            || around.is_some_and(|(on, until)| on == thread && start < until)
        {
            continue;
        }
        let name = hosts.name[row];
        let is_module = is_module
            .entry(name)
            .or_insert_with(|| module_name(trace.text(name)).is_some());
        if *is_module {
            let end = start.saturating_add(hosts.duration[row]);
            around = Some((thread, end));
            calls.push((start, end, name));
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
