//! What a trace holds by itself.

use llmprof_units::{Count, Percent};

use super::unmatched;
use crate::analyzed::{PhaseSource, TraceAnalysis, TraceTotals};

/// Events, GPU time, attribution and how phases were found. The numbers of events add up.
pub fn facts(timeline: &TraceAnalysis) -> Vec<String> {
    let totals = &timeline.totals;
    let named = totals.host_slices + totals.kernels + totals.copies + totals.memsets;
    let mut parts = host_events(totals);
    let has_device = totals.kernels + totals.copies + totals.memsets > 0;
    if has_device {
        parts.push(Count(totals.kernels, "kernel").to_string());
        parts.push(Count(totals.copies, "copy").to_string());
        parts.push(Count(totals.memsets, "memset").to_string());
    }
    // Ranges, samples of memory, and slices that are no ops where there are some.
    let unnamed_slices = if host_ops(totals) > 0 {
        totals.other_slices
    } else {
        0
    };
    let others = totals.events.saturating_sub(named) + unnamed_slices;
    if others > 0 {
        parts.push(Count(others, "other").to_string());
    }
    let mut facts = vec![format!(
        "{} in a trace of {}: {}.",
        Count(totals.events, "event"),
        totals.span_ns,
        parts.join(", ")
    )];
    if has_device {
        facts.push(format!(
            "GPU time {} (kernels {}), busy {}.",
            totals.device_time_ns, totals.kernel_time_ns, totals.busy_ns
        ));
        facts.push(attribution(timeline));
    }
    facts.push(phases(timeline));
    facts
}

fn host_ops(totals: &TraceTotals) -> u64 {
    let others = totals.api_calls + totals.python_functions + totals.other_slices;
    totals.host_slices.saturating_sub(others)
}

/// `18411 host ops`, `8960 runtime calls`, `2100 Python functions`; slices of another kind where there are no ops.
pub(crate) fn host_events(totals: &TraceTotals) -> Vec<String> {
    let ops = host_ops(totals);
    let is_other = ops == 0 && totals.other_slices > 0;
    let slices = is_other.then_some(Count(totals.other_slices, "host slice"));
    let python = totals.python_functions;
    let python = (python > 0).then_some(Count(python, "Python function"));
    let calls = (totals.api_calls > 0).then_some(Count(totals.api_calls, "runtime call"));
    let is_empty = calls.is_none() && python.is_none() && slices.is_none();
    let ops = (ops > 0 || is_empty).then_some(Count(ops, "host op"));
    let parts = ops.into_iter().chain(calls).chain(python).chain(slices);
    parts.map(|count| count.to_string()).collect()
}

/// Events that a timeline has no place for.
pub(crate) fn not_drawn(events: u64, deepest: u16) -> String {
    format!(
        "Not drawn: {}, which are Python frames, samples, or host ops deeper than {deepest} levels.",
        Count(events, "event")
    )
}

fn attribution(timeline: &TraceAnalysis) -> String {
    if timeline.operators.is_empty() {
        return "No PyTorch ops were recorded.".to_owned();
    }
    let totals = &timeline.totals;
    let share =
        totals.attributed_ns.0 as f64 / totals.device_time_ns.max(llmprof_units::Nanos(1)).0 as f64;
    let rest = timeline.unattributed.first().map(|row| {
        let events = Count(row.events, "event");
        format!(
            "; of the rest, {events}: {}",
            unmatched::attribution(row.reason)
        )
    });
    format!(
        "{} of GPU time is attributed to PyTorch ops by its launch calls{}.",
        Percent(share),
        rest.unwrap_or_default()
    )
}

fn phases(timeline: &TraceAnalysis) -> String {
    match (timeline.phase_source, timeline.phase_confidence) {
        (PhaseSource::Annotation, _) => "Phases are from ranges.".to_owned(),
        (PhaseSource::Shapes, _) => {
            "Phases are the forward passes that operator shapes show.".to_owned()
        }
        (PhaseSource::OptimizerSteps, _) => {
            "Steps are from the end of one `Optimizer.step` to that of the next.".to_owned()
        }
        (PhaseSource::Modules, _) => {
            "Phases are the calls of the outermost `nn.Module`s.".to_owned()
        }
        (PhaseSource::Inferred, Some(likeness)) => {
            format!(
                "No range divides the trace; launches repeat ({} alike).",
                Percent(likeness)
            )
        }
        (PhaseSource::Inferred, None) => "No range divides the trace; launches repeat.".to_owned(),
        (PhaseSource::Whole, _) => {
            "No range divides the trace: it is analyzed as a whole.".to_owned()
        }
    }
}
