//! Steps of several processes in one trace, such as the ranks of an engine whose traces were merged into one file.

use llmprof_record::trace::{ThreadId, Trace};
use rustc_hash::FxHashMap;

use super::engine::{Labelled, StepsOf, labelled_by_thread};
use crate::program::Program;
use crate::timeline::launch_times::LaunchTimes;
use crate::timeline::launches::EventCalls;

/// What tells processes apart: the id, and the text that a tool wrote in its place.
pub(super) type Process = (i64, u32);

/// The steps of the process with the most of them, and which of them those of the others are.
pub(crate) struct Processes {
    /// Who marked the steps.
    pub(super) by: StepsOf,
    /// By time.
    pub(super) steps: Vec<Labelled>,
    first: Process,
    others: FxHashMap<Process, Vec<OtherStep>>,
    /// Whether other processes run other steps: no step is one of all of them.
    pub(super) differ: bool,
}

/// A step of another process.
struct OtherStep {
    start: i64,
    end: i64,
    /// When the first process begins it.
    begins: i64,
}

impl Processes {
    /// Nothing where fewer than two processes have marked steps. Those of a profiler count for programs without steps of an engine.
    pub(crate) fn of(trace: &Trace, program: &Program) -> Option<Self> {
        let by_profiler = || (!program.generates_text()).then_some(StepsOf::Profiler);
        Self::marked_by(trace, StepsOf::Engine).or_else(|| Self::marked_by(trace, by_profiler()?))
    }

    fn marked_by(trace: &Trace, by: StepsOf) -> Option<Self> {
        let mut by_process: Vec<(Process, Vec<Labelled>)> = Vec::new();
        for (thread, steps) in labelled_by_thread(trace, by) {
            let process = process_of(trace, thread);
            match by_process.iter_mut().find(|(known, _)| *known == process) {
                Some((_, known)) => known.extend(steps),
                None => by_process.push((process, steps)),
            }
        }
        by_process.retain(|(_, steps)| !steps.is_empty());
        for (_, steps) in &mut by_process {
            steps.sort_by_key(|step| step.start);
        }
        by_process.sort_by_key(|(process, _)| *process);
        let longest = by_process.iter().enumerate();
        let (longest, _) = longest.rev().max_by_key(|(_, (_, steps))| steps.len())?;
        let (first, steps) = by_process.swap_remove(longest);
        if by_process.is_empty() {
            return None;
        }
        let mut others = FxHashMap::default();
        let mut differ = false;
        for (process, own) in by_process {
            let Some(shift) = in_lockstep(&steps, &own) else {
                differ = true;
                continue;
            };
            let own = own.iter().zip(&steps[shift..]);
            let own = own.map(|(own, first)| OtherStep {
                start: own.start,
                end: own.end,
                begins: first.start,
            });
            others.insert(process, own.collect());
        }
        Some(Self {
            by,
            steps,
            first,
            others,
            differ,
        })
    }

    /// Lets what a process launches in a step count as launched when the first process begins it.
    pub(crate) fn align(&self, trace: &Trace, calls: &EventCalls, launched: &mut LaunchTimes) {
        if self.differ {
            return;
        }
        launched.alter(|index, time| {
            let call = calls.call(index)? as usize;
            let process = process_of(trace, trace.hosts.thread[call]);
            if process == self.first {
                return Some(time);
            }
            let own = self.others.get(&process)?;
            let after = own.partition_point(|step| step.start <= time);
            let step = &own[after.checked_sub(1)?];
            (time < step.end).then_some(step.begins)
        });
    }
}

pub(super) fn process_of(trace: &Trace, thread: ThreadId) -> Process {
    let row = thread.0 as usize;
    let threads = &trace.threads;
    if row < threads.len() {
        (threads.process[row], threads.process_label[row].0)
    } else {
        Process::default()
    }
}

/// From which of `steps` on another process runs the same kinds of steps, at about the same time: the recordings of processes begin up to
/// a step apart.
fn in_lockstep(steps: &[Labelled], other: &[Labelled]) -> Option<usize> {
    let most = steps
        .len()
        .checked_sub(other.len())
        .filter(|&most| most <= 2)?;
    let fits = |shift: &usize| {
        let mut pairs = steps[*shift..].iter().zip(other);
        pairs.all(|(step, other)| step.label.kind == other.label.kind)
    };
    let apart = |shift: &usize| {
        let pairs = steps[*shift..].iter().zip(other);
        pairs
            .map(|(step, other)| i128::from(step.start).abs_diff(i128::from(other.start)))
            .sum::<u128>()
    };
    let shift = (0..=most).filter(fits).min_by_key(apart)?;
    // Independent engines may run as many steps, but each at its own time.
    let mut pairs = steps[shift..]
        .iter()
        .zip(other)
        .zip(steps[shift..].iter().skip(1));
    let is_near = pairs.all(|((step, other), next)| {
        let step_to_step = next.start.saturating_sub(step.start);
        step.start.abs_diff(other.start) <= step_to_step.unsigned_abs()
    });
    is_near.then_some(shift)
}
