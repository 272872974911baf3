//! The intervals of a trace's phases, with what the model did in each.

use std::borrow::Cow;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::Trace;
use llmprof_theory::{Pass, Step, Workload};

use crate::labels::{PROFILER_STEP, STEP, ranges_of};
use crate::phases::{ACCUMULATION_STEP, Phases, TRAINING_STEP};
use crate::roofline::{DecoderWork, Theory};
use crate::row_order::sort_ascending;
use crate::trace::Structure;
use llmprof_record::run::{RunPhase, RunRecord};
use rustc_hash::FxHashMap;

/// One interval of a phase.
#[derive(Clone, Debug)]
pub(crate) struct PhaseInterval {
    /// Index of the interval in [`Phases::windows`].
    pub(crate) window: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The device that alone it concerns, where devices run apart.
    pub(crate) device: Option<u32>,
    /// Its place among the intervals with the same name, and of the same device where they run apart.
    pub(crate) order: usize,
    /// Index of its name in [`Phases::names`].
    pub(crate) name: usize,
    /// Lengths of the steps of decode in it, where ranges show them.
    pub(crate) steps: Vec<i64>,
    /// What the decoder did in it.
    pub(crate) passes: Vec<Pass>,
    /// What an engine states of its step; it goes before [`passes`](Self::passes).
    pub(crate) step: Option<Step>,
    /// Whether nothing but the workload says what the decoder did in it.
    pub(crate) is_assumed: bool,
    /// Whether all of it was recorded.
    pub(crate) is_whole: bool,
    /// Launches whose kernels the trace does not hold.
    pub(crate) missing_kernels: u64,
}

impl PhaseInterval {
    pub(crate) fn window(&self) -> (i64, i64) {
        (self.start, self.end)
    }

    pub(crate) fn work(&self) -> DecoderWork<'_> {
        DecoderWork {
            passes: &self.passes,
            steps: self.step.as_slice(),
        }
    }

    pub(crate) fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The intervals of one phase.
#[derive(Clone, Debug)]
pub(crate) struct TracePhase {
    pub(crate) phase: RunPhase,
    /// Its name in the trace, where that is not the phase's own.
    pub(crate) label: Option<String>,
    pub(crate) intervals: Vec<PhaseInterval>,
}

impl TracePhase {
    /// What of it concerns a device; nothing where it has no interval there.
    pub(crate) fn on_device(&self, device: Option<u32>) -> Option<Cow<'_, Self>> {
        let is_here =
            |interval: &PhaseInterval| interval.device.is_none() || interval.device == device;
        if self.intervals.iter().all(is_here) {
            return Some(Cow::Borrowed(self));
        }
        let intervals = self.intervals.iter().filter(|one| is_here(one));
        let intervals: Vec<PhaseInterval> = intervals.cloned().collect();
        (!intervals.is_empty()).then(|| {
            Cow::Owned(Self {
                phase: self.phase,
                label: self.label.clone(),
                intervals,
            })
        })
    }
}

/// The phase that a name stands for; nothing for warm-up, which belongs to none. Names of a program that is not proven to generate
/// text are its own.
pub(crate) fn run_phase(phases: &Phases, name: &str) -> Option<(RunPhase, Option<String>)> {
    let own = || (RunPhase::Other, Some(name.to_owned()));
    if !phases.are_generation {
        return Some(own());
    }
    Some(match name {
        "prefill" => (RunPhase::Prefill, None),
        "decode" | STEP => (RunPhase::Decode, None),
        "vision" => (RunPhase::Vision, None),
        "encoder" => (RunPhase::Encoder, None),
        "load" => (RunPhase::Load, None),
        "mixed" => (RunPhase::Mixed, None),
        "warmup" => return None,
        _ => own(),
    })
}

/// The workload says what repetitions are, where the model agrees with the trace.
pub(crate) fn name_repetitions(phases: &mut Phases, workload: &Workload) -> Option<Issue> {
    let (name, phase) = if workload.new_tokens > 1 {
        (STEP, RunPhase::Decode)
    } else {
        ("prefill", RunPhase::Prefill)
    };
    phases
        .name_repetitions(name)
        .then(|| Issue::info(IssueCode::RunUnnamedSteps).with("taken_for", phase.name()))
}

/// The phases of a trace in order of first use, load and warm-up left out.
pub(crate) fn phase_intervals(trace: &Trace, structure: &Structure) -> Vec<TracePhase> {
    let phases = &structure.phases;
    let mut trace_phases: Vec<TracePhase> = Vec::new();
    let mut orders: FxHashMap<(usize, Option<u32>), usize> = FxHashMap::default();
    for (window, interval) in phases.windows.iter().enumerate() {
        let next = orders.entry((interval.name, interval.device)).or_default();
        let order = *next;
        *next += 1;
        let Some((phase, label)) = run_phase(phases, &phases.names[interval.name]) else {
            continue;
        };
        if phase == RunPhase::Load {
            continue;
        }
        let known = trace_phases
            .iter()
            .position(|known| known.phase == phase && known.label == label);
        let place = known.unwrap_or_else(|| {
            trace_phases.push(TracePhase {
                phase,
                label,
                intervals: Vec::new(),
            });
            trace_phases.len() - 1
        });
        let step = interval.step_index().map(|step| phases.steps[step].clone());
        let name = phases.names[interval.name].as_str();
        let is_named = [STEP, PROFILER_STEP, TRAINING_STEP, ACCUMULATION_STEP].contains(&name);
        let is_step = (is_named || step.is_some()) && interval.is_whole;
        trace_phases[place].intervals.push(PhaseInterval {
            window,
            start: interval.start,
            end: interval.end,
            device: interval.device,
            order,
            name: interval.name,
            steps: if is_step {
                vec![interval.end.saturating_sub(interval.start)]
            } else {
                Vec::new()
            },
            passes: Vec::new(),
            step,
            is_assumed: false,
            is_whole: interval.is_whole,
            missing_kernels: interval.missing_kernels,
        });
    }
    if phases.are_generation {
        add_steps(&ranges_of(trace, STEP), phases, &mut trace_phases);
    }
    trace_phases
}

/// Leaves out intervals that were recorded in part, where there are whole ones or theory counts what a whole one holds, with
/// which a part of a sample cannot be compared.
pub(crate) fn leave_out_parts(
    trace_phases: &mut Vec<TracePhase>,
    is_counted: bool,
    is_sampled: bool,
    issues: &mut Vec<Issue>,
) {
    for phase in trace_phases.iter_mut() {
        let parts = phase.intervals.iter().filter(|one| !one.is_whole).count();
        let has_whole = parts < phase.intervals.len();
        if parts == 0 || !(has_whole || is_counted && is_sampled) {
            continue;
        }
        phase.intervals.retain(|interval| interval.is_whole);
        // A phase that is left out as a whole is named with those that were not recorded at all.
        if has_whole {
            let name = phase.label.as_deref().unwrap_or(phase.phase.name());
            let issue = Issue::info(IssueCode::RunPartialPhase).with("phase", name);
            issues.push(issue.counting(parts as u64));
        }
    }
    trace_phases.retain(|phase| !phase.intervals.is_empty());
}

/// Puts the ranges of single steps into the intervals of decode that hold them.
fn add_steps(steps: &[(i64, i64)], phases: &Phases, trace_phases: &mut [TracePhase]) {
    let mut by_window = FxHashMap::<usize, Vec<i64>>::default();
    for &(start, end) in steps {
        if let Some(window) = phases.at_launch(start)
            && phases.names[phases.windows[window].name] != STEP
        {
            by_window.entry(window).or_default().push(end - start);
        }
    }
    for interval in trace_phases
        .iter_mut()
        .flat_map(|phase| &mut phase.intervals)
    {
        if let Some(steps) = by_window.remove(&interval.window) {
            interval.steps = steps;
        }
    }
}

/// Says what the decoder did in each interval.
///
/// A measured pass that says so is believed first; then the number of steps that ranges show; then the workload.
pub(crate) fn count_passes(
    trace_phases: &mut [TracePhase],
    trace: &Trace,
    theory: &Theory<'_>,
    record: &RunRecord,
    captured: Option<usize>,
) {
    let (model, workload) = (theory.model, theory.workload);
    let context = model.context_tokens(workload);
    for phase in trace_phases.iter_mut() {
        let stated = stated_passes(phase.phase, record, captured);
        let as_many = stated.len() == phase.intervals.len();
        for (index, interval) in phase.intervals.iter_mut().enumerate() {
            let is_stated = as_many && !stated[index].is_empty();
            interval.is_assumed = interval.step.is_none()
                && !is_stated
                && matches!(phase.phase, RunPhase::Prefill | RunPhase::Decode);
            interval.passes = match phase.phase {
                _ if interval.step.is_some() => Vec::new(),
                _ if is_stated => stated[index].clone(),
                RunPhase::Prefill => model.prefill_passes(workload).collect(),
                RunPhase::Decode => {
                    let steps = match interval.steps.len() as u64 {
                        0 => workload.decode_steps(),
                        steps => steps,
                    };
                    (steps > 0)
                        .then(|| Pass::decode_steps(workload.batch, context, steps))
                        .into_iter()
                        .collect()
                }
                _ => Vec::new(),
            };
        }
    }
    follow_steps(trace_phases, trace);
}

/// Single steps that follow each other each find one token more in the cache; prefill begins anew. Steps that were not
/// recorded count where ranges show them.
fn follow_steps(trace_phases: &mut [TracePhase], trace: &Trace) {
    let steps = ranges_of(trace, STEP);
    let mut beginnings: Vec<i64> = trace_phases
        .iter()
        .filter(|phase| phase.phase == RunPhase::Prefill)
        .flat_map(|phase| phase.intervals.iter().map(|interval| interval.start))
        .chain(ranges_of(trace, "prefill").iter().map(|range| range.0))
        .collect();
    beginnings.sort_unstable();
    let steps_before = |time: i64| steps.partition_point(|step| step.0 < time) as u64;
    for phase in trace_phases
        .iter_mut()
        .filter(|phase| phase.phase == RunPhase::Decode)
    {
        let mut since = None;
        let mut done = 0;
        for interval in &mut phase.intervals {
            let request = beginnings.partition_point(|&begin| begin <= interval.start);
            if since != Some(request) {
                (since, done) = (Some(request), 0);
            }
            // An interval of a whole generation begins where its prefill ended.
            let single = interval.steps.len() == 1;
            let begin = request.checked_sub(1).map_or(i64::MIN, |at| beginnings[at]);
            for pass in &mut interval.passes {
                if single && pass.steps == 1 {
                    let shown = steps_before(interval.start) - steps_before(begin);
                    pass.past = pass.past.saturating_add(done.max(shown));
                    done += 1;
                }
            }
        }
    }
}

/// What the captured pass says that the decoder did in the intervals of a phase, in order of time.
fn stated_passes(phase: RunPhase, record: &RunRecord, captured: Option<usize>) -> Vec<Vec<Pass>> {
    let Some((counted, captured)) = phase.counted().zip(captured) else {
        return Vec::new();
    };
    let mut spans: Vec<_> = record.passes[captured]
        .phases
        .iter()
        .filter(|span| span.phase == phase)
        .collect();
    sort_ascending(&mut spans, |span| span.start_ns.0);
    spans
        .iter()
        .map(|span| {
            let shapes = span.passes.iter();
            shapes.map(|shape| shape.pass(counted)).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Range, RangeKind, TraceBuilder};

    use super::*;

    #[test]
    fn steps_that_were_not_recorded_still_made_the_cache_longer() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut range = |name: &str, start: i64, duration: i64| {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration,
                name,
                kind: RangeKind::NVTX,
                thread,
                ..Range::default()
            });
        };
        // A warm-up of two steps, then prefill and six steps, of which the second and the fifth were recorded.
        range(STEP, 0, 10);
        range(STEP, 10, 10);
        range("prefill", 20, 10);
        for step in 0..6 {
            range(STEP, 30 + 10 * step, 10);
        }
        let trace = builder.finish();
        let interval = |start: i64| PhaseInterval {
            window: 0,
            start,
            end: start + 10,
            device: None,
            order: 0,
            name: 0,
            steps: vec![10],
            passes: vec![Pass::decode_steps(1, 100, 1)],
            step: None,
            is_assumed: false,
            is_whole: true,
            missing_kernels: 0,
        };
        let mut phases = [TracePhase {
            phase: RunPhase::Decode,
            label: None,
            intervals: vec![interval(40), interval(70)],
        }];
        follow_steps(&mut phases, &trace);
        let past: Vec<u64> = phases[0]
            .intervals
            .iter()
            .map(|one| one.passes[0].past)
            .collect();
        assert_eq!(past, [101, 104]);
    }
}
