//! The first lines of a report: title, workload, result.

use llmprof_analysis::stats::RepeatSummary;
use llmprof_analysis::waterfall::{HOST_BUSY, HOST_SYNC, LAUNCH_CALL, NOT_STARTED, UNKNOWN};
use llmprof_units::{Count, Nanos, Percent, format_significant};

use super::{phases::sentences as phases, ranks::sentences as ranks, steps::sentences as steps};
use crate::text::{consumers, figure, program, slices, time, waterfall};
use llmprof_analysis::timeline::breakdown::{DeviceBreakdown, DeviceTime};

use crate::analyzed::{Analysis, Evidence, Measure, PhaseAnalysis, PhaseSource, TraceAnalysis};

/// Patterns of steps in the summary.
const PATTERNS_MAX: usize = 2;
/// Phases that have a line of their own.
const PHASES_NAMED: usize = 12;
/// Ranges of the program outside of its phases that are named.
const RANGES_NAMED: usize = 3;
/// An interval wider than this share of its mean is part of the result.
const NOTICED_SPREAD: f64 = 0.05;
/// Host time before the first device event is named from one part in so many of the recording.
const BEFORE_DEVICE_NOTICED_PART: i64 = 10;
/// The part of the GPU span that a GPU is busy is named beside that of the phases where it is less by this.
const BUSY_NOTICED_DIFFERENCE: f64 = 0.1;
/// A GPU that is busy for less than one part in so many of the time of the busiest one is named.
const ALMOST_IDLE_PART: i64 = 100;
/// GPUs that are almost idle and named one by one.
const ALMOST_IDLE_NAMED: usize = 3;
/// What the host did while the GPU waited is named from one part in so many of the time between phases.
const HOST_OPERATOR_NAMED_PART: i64 = 10;
/// Phases below one part in so many of all phases share a line.
const NEGLIGIBLE_PART: i64 = 100;

pub(super) fn title(analysis: &Analysis) -> String {
    format!("{} on {}", model_name(analysis), device(analysis))
}

/// The name of the model; one that was given as a file alone has none but that of its family.
pub(super) fn model_name(analysis: &Analysis) -> String {
    match (analysis.model.as_str(), &analysis.family) {
        (program::UNNAMED_MODEL, Some(family)) => format!("{family} model"),
        (name, _) => name.to_owned(),
    }
}

pub(super) fn device(analysis: &Analysis) -> &str {
    let timeline = analysis.timeline.as_deref();
    let recorded = timeline.and_then(|timeline| timeline.device_name.as_deref());
    let device = analysis.device.as_deref().or(recorded);
    device.unwrap_or("an unknown device")
}

/// The workload in one line. Of an imported trace nobody saw what was asked: there it is what roofline times are computed for.
pub(super) fn subtitle(analysis: &Analysis) -> String {
    let imported = analysis.timeline.is_some() && analysis.latency.measured_in.is_none();
    let phases = analysis.phases.iter();
    let labelled: u64 = phases
        .filter_map(|phase| Some(phase.traced.as_ref()?.labelled_steps))
        .sum();
    if imported && labelled > 0 && analysis.family.is_some() {
        let shown = |timeline: &TraceAnalysis| timeline.phase_source == PhaseSource::Shapes;
        let (source, what) = if analysis.timeline.as_deref().is_some_and(shown) {
            ("operator shapes", "forward pass")
        } else {
            ("labels", "step")
        };
        return format!(
            "{}: {}. Roofline times from the {source} of {}.",
            origin(analysis),
            overhead(analysis),
            Count(labelled, what)
        );
    }
    let Some(workload) = &analysis.workload else {
        return if imported {
            format!("{}: {}.", origin(analysis), overhead(analysis))
        } else {
            String::new()
        };
    };
    let input = format!(
        "batch {}, prompt {}",
        workload.batch,
        Count(workload.prompt, "token")
    );
    if imported {
        return format!(
            "{}: {}. Roofline times for {input}.",
            origin(analysis),
            overhead(analysis)
        );
    }
    let output = Count(workload.new_tokens, "new token");
    let (first, rest) = input.split_at(1);
    format!("{}{rest}, {output}.", first.to_uppercase())
}

/// Whether times of a trace that no plain pass accompanies include its profiler.
fn overhead(analysis: &Analysis) -> &'static str {
    let is_plain = |phase: &PhaseAnalysis| phase.unrecorded_wall().is_some();
    if !analysis.phases.is_empty() && analysis.phases.iter().all(is_plain) {
        "sampled in slices; profiling overhead is removed with the steps between slices"
    } else {
        "times include the profiler's overhead"
    }
}

/// Where a trace that no run measured comes from.
fn origin(analysis: &Analysis) -> String {
    let timeline = analysis.timeline.as_deref();
    match timeline.and_then(|timeline| timeline.tool.as_deref()) {
        Some("llmprof") => "Recorded by llmprof".to_owned(),
        Some("kineto") => "Imported trace of torch.profiler".to_owned(),
        Some("nsys") => "Imported trace of Nsight Systems".to_owned(),
        Some(tool) => format!("Imported trace of {tool}"),
        None => "Imported trace".to_owned(),
    }
}

/// The result, then one line per phase, then what else must be known to read them.
pub(super) fn summary(analysis: &Analysis) -> Vec<String> {
    let mut lines = vec![result(analysis)];
    lines.retain(|line| !line.is_empty());
    lines.extend(program::line(analysis));
    lines.extend(phase_lines(analysis));
    lines.extend(analysis.phases.iter().filter_map(phases::training));
    lines.extend(consumers::lines(analysis));
    lines.extend(consumers::collectives(analysis));
    lines.extend(between_phases(analysis));
    lines.extend(ranks::line(analysis));
    lines.extend(slices::lines(analysis));
    lines.extend(first_use(analysis));
    if let Some(repeated) = steps::step_patterns(analysis).filter(|_| steps::by_pattern(analysis)) {
        let patterns = repeated.patterns.iter().filter(|one| steps::is_told(one));
        let patterns: Vec<String> = patterns.take(PATTERNS_MAX).map(steps::pattern).collect();
        lines.push(format!("Repeating launches: {}.", patterns.join("; ")));
    }
    lines
}

/// Phases, and those that take hardly any time, where there are several of these.
pub(super) fn by_size(phases: &[PhaseAnalysis]) -> (Vec<&PhaseAnalysis>, Vec<&PhaseAnalysis>) {
    let wall = |phase: &PhaseAnalysis| phase.whole_wall().0;
    let all: i64 = phases.iter().map(wall).sum();
    let is_large = |phase: &&PhaseAnalysis| wall(phase).saturating_mul(NEGLIGIBLE_PART) >= all;
    let (large, small): (Vec<_>, Vec<_>) = phases.iter().partition(is_large);
    if small.len() < 3 {
        return (phases.iter().collect(), Vec::new());
    }
    (large, small)
}

/// One line per phase; those that take hardly any time share one.
fn phase_lines(analysis: &Analysis) -> Vec<String> {
    let (large, small) = by_size(&analysis.phases);
    let mut lines: Vec<String> = large
        .iter()
        .copied()
        .take(PHASES_NAMED)
        .map(|phase| phases::line(phase, steps_in(analysis, phase)))
        .collect();
    if let more @ 1.. = large.len().saturating_sub(PHASES_NAMED) {
        lines.push(format!("{more} more phases are in the report"));
    }
    if small.is_empty() {
        return lines;
    }
    let together: Nanos = small.iter().map(|phase| phase.whole_wall()).sum();
    lines.push(format!(
        "{} phases of less than 1 %: {together} together",
        small.len()
    ));
    lines
}

/// Steps that the replay found in a phase.
fn steps_in(analysis: &Analysis, phase: &PhaseAnalysis) -> Option<u64> {
    let mut replays = analysis.replays.iter();
    let replay = replays.find(|replay| {
        let name = replay.label.as_deref().unwrap_or(replay.phase.name());
        replay.phase == phase.phase && name == phase.name()
    })?;
    Some(replay.steps)
}

/// `TTFT 574.7 ms · TPOT 43.96 ms · 16.5 tok/s`; of a trace, how busy the device was. Empty where nothing was measured.
pub(super) fn result(analysis: &Analysis) -> String {
    let latency = &analysis.latency;
    let mut parts = Vec::new();
    parts.extend(
        latency
            .ttft_ns
            .as_ref()
            .map(|ttft| format!("TTFT {}", with_spread(ttft))),
    );
    parts.extend(
        latency
            .tpot_ns
            .as_ref()
            .map(|tpot| format!("TPOT {}", with_spread(tpot))),
    );
    parts.extend(
        latency
            .tokens_per_s
            .as_ref()
            .map(|rate| format!("{} tok/s", format_significant(rate.mean))),
    );
    if parts.is_empty()
        && let Some(timeline) = analysis.timeline.as_deref()
    {
        parts = trace(timeline, &analysis.phases);
        let first_uses = analysis
            .phases
            .iter()
            .filter_map(|phase| phase.traced.as_ref()?.first_use.as_ref());
        let left_out: i64 = first_uses.map(|first| first.wall_ns.0).sum();
        if left_out > 0 {
            parts.push(format!(
                "{} in first intervals left out as warm-up",
                Nanos(left_out)
            ));
        }
    }
    parts.join(" · ")
}

/// A mean with its interval, where that is wide; with its range where the interval would reach below zero.
fn with_spread(value: &RepeatSummary) -> String {
    let mean = time(value.mean);
    let half = value.ci95_half_width;
    match half.filter(|half| *half > NOTICED_SPREAD * value.mean) {
        Some(half) if half > value.mean => format!(
            "{mean} ({} to {} in {} values)",
            time(value.min),
            time(value.max),
            value.count
        ),
        Some(half) => format!("{mean} ± {} (95 % CI)", time(half)),
        None => mean,
    }
}

/// What a trace says by itself.
fn trace(timeline: &TraceAnalysis, phases: &[PhaseAnalysis]) -> Vec<String> {
    let totals = &timeline.totals;
    let walls = phases.iter().map(PhaseAnalysis::whole_wall);
    let in_phases: Nanos = walls.clone().sum();
    if totals.kernels + totals.copies + totals.memsets == 0 {
        // A range may go on after the last op.
        let recorded = phases.iter().map(|phase| phase.waterfall.wall_ns).sum();
        let all = totals.host_span_ns.max(recorded);
        let outside = all.0.saturating_sub(in_phases.0);
        // Less is not seen in the sum of what is printed.
        let is_seen = !phases.is_empty() && outside > all.0 / 1000;
        let range = timeline.outside_ranges.first().map(|range| {
            let name = program::shortened(&range.name);
            format!(" ({} in range `{name}`)", range.time_ns)
        });
        let range = range.unwrap_or_default();
        let outside = is_seen.then(|| format!("{} outside the phases{range}", Nanos(outside)));
        let mut parts = vec![format!("{all} of host time")];
        parts.extend(outside);
        parts.extend(crate::text::trace::host_events(totals));
        parts.push("no GPU events".to_owned());
        return parts;
    }
    // What lies between slices was not seen: it is neither busy nor idle. Phases are what all other shares are of; devices
    // work at once, and together have as much time as there are of them.
    let of = |time: fn(&DeviceTime) -> Nanos| -> Nanos {
        let devices = timeline.devices.iter();
        devices.map(|device| time(&device.total)).sum()
    };
    let is_whole =
        |phase: &PhaseAnalysis| phase.traced.as_ref().is_some_and(|one| one.is_whole_trace);
    let (busy, whole, note) = if timeline.scaled.is_some() {
        (of(|time| time.busy_ns), of(|time| time.span_ns), "sampled")
    } else if phases.is_empty() {
        (of(|time| time.busy_ns), of(|time| time.span_ns), "GPU span")
    } else {
        let busy = phases.iter().map(|phase| phase.waterfall.busy_ns).sum();
        let walls = phases.iter().map(|phase| phase.waterfall.wall_ns).sum();
        let is_whole = phases.iter().all(is_whole);
        (busy, walls, if is_whole { "GPU span" } else { "in phases" })
    };
    let share = |busy: Nanos, whole: Nanos| busy.0 as f64 / whole.0.max(1) as f64;
    // Ranges around the work of a GPU say nothing of how long it waits between them.
    let (all_busy, span) = (of(|time| time.busy_ns), of(|time| time.span_ns));
    let is_far = share(busy, whole) - share(all_busy, span) > BUSY_NOTICED_DIFFERENCE;
    let recorded = timeline.devices.len();
    let summed = if recorded > 1 {
        format!(" (each of {recorded} GPUs from its first to its last event, summed)")
    } else {
        String::new()
    };
    let of_span = (note == "in phases" && is_far).then(|| {
        let busy = Percent(share(all_busy, span));
        format!(", {busy} of {span} GPU span{summed}")
    });
    let of_span = of_span.unwrap_or_default();
    let busy = Percent(share(busy, whole));
    let mut judged: Vec<u32> = phases.iter().filter_map(PhaseAnalysis::device).collect();
    judged.sort_unstable();
    judged.dedup();
    let devices = if phases.is_empty() || timeline.scaled.is_some() {
        timeline.devices.len()
    } else {
        judged.len()
    };
    let on_each = if devices > 1 {
        format!(" on {devices} GPUs, summed")
    } else {
        String::new()
    };
    let almost_idle = almost_idle(timeline);
    // Kernels that are not in the trace ran too.
    let least = if phases.iter().any(PhaseAnalysis::misses_kernels) {
        "at least "
    } else {
        ""
    };
    let mut parts = vec![format!(
        "GPU busy {least}{busy} of {whole} {note}{on_each}{of_span}"
    )];
    parts.extend(almost_idle);
    let outside = timeline.outside.as_ref();
    parts.extend(outside.map(|outside| format!("{} outside the phases", outside.total_ns)));
    let before = totals.before_device_ns;
    if before.0.saturating_mul(BEFORE_DEVICE_NOTICED_PART) > totals.span_ns.0 {
        parts.push(format!("{before} on the host before the first GPU event"));
    }
    parts.push(format!(
        "{} ({})",
        Count(totals.kernels, "kernel"),
        totals.kernel_time_ns
    ));
    parts
}

/// GPUs beside others that hardly work: `GPU 1 of 2 busy 6 µs`.
fn almost_idle(timeline: &TraceAnalysis) -> Option<String> {
    let devices = &timeline.devices;
    let busiest = devices.iter().map(|one| one.total.busy_ns.0).max()?;
    let is_idle =
        |one: &&DeviceBreakdown| one.total.busy_ns.0.saturating_mul(ALMOST_IDLE_PART) < busiest;
    let idle: Vec<String> = devices
        .iter()
        .filter(is_idle)
        .map(|one| {
            format!(
                "GPU {} of {} busy {}",
                one.device,
                devices.len(),
                one.total.busy_ns
            )
        })
        .collect();
    match idle.len() {
        0 => None,
        1..=ALMOST_IDLE_NAMED => Some(idle.join(", ")),
        count => Some(format!("{count} of {} GPUs almost idle", devices.len())),
    }
}

/// The longest time between phases: what surrounds it, and what the host did in it.
fn between_phases(analysis: &Analysis) -> Option<String> {
    let timeline = analysis.timeline.as_deref();
    let source = timeline.map(|timeline| timeline.phase_source);
    let gap = &timeline?.outside.as_ref()?.longest;
    // Not every phase is a range of that name.
    let spoken = |name: &Option<String>| {
        name.as_ref()
            .map(|name| name.replace("decode_step", "decode step"))
    };
    let place = match (spoken(&gap.after_phase), spoken(&gap.before_phase)) {
        (Some(after), Some(before)) if after == before => {
            format!("between one {after} and the next")
        }
        (Some(after), Some(before)) => format!("between {after} and {before}"),
        // The first step may hold the start of the program, and is in no phase then.
        (None, Some(_)) if source == Some(PhaseSource::OptimizerSteps) => {
            "up to the end of the first `Optimizer.step`".to_owned()
        }
        (None, Some(before)) => format!("before the first {before}"),
        (Some(after), None) => format!("after the last {after}"),
        (None, None) => "in no phase".to_owned(),
    };
    let busy = Percent(gap.busy_ns.0 as f64 / gap.span_ns.0.max(1) as f64);
    let mut parts = vec![format!("GPU busy {busy}")];
    if gap.launched_before_ns.0 > gap.busy_ns.0 / 2 {
        parts.push("mostly kernels launched before the recording".to_owned());
    }
    let causes = [
        (gap.idle.host_sync_ns, HOST_SYNC),
        (gap.idle.host_busy_ns, HOST_BUSY),
        (gap.idle.launch_call_ns, LAUNCH_CALL),
        (gap.idle.not_started_ns, NOT_STARTED),
        (gap.idle.unknown_ns, UNKNOWN),
    ];
    let longest = causes.into_iter().max_by_key(|(time, _)| *time);
    let idle = gap.span_ns.0.saturating_sub(gap.busy_ns.0);
    // A gap that is busy has no cause to name.
    let longest = longest.filter(|(time, _)| time.0 > idle / 2 && idle > gap.span_ns.0 / 2);
    let is_queued = longest.is_some_and(|(_, cause)| cause == NOT_STARTED);
    let before = if is_queued && gap.first_of_stream {
        "; work launched before the recording is not in the trace"
    } else {
        ""
    };
    parts.extend(longest.map(|(time, cause)| match cause {
        UNKNOWN => "idle for unknown reasons".to_owned(),
        _ => format!(
            "{time} of the idle time: {}{before}",
            waterfall::cause(cause)
        ),
    }));
    let ranges: Vec<String> = gap
        .ranges
        .iter()
        .take(RANGES_NAMED)
        .map(|range| format!("`{}` ({})", program::shortened(&range.name), range.time_ns))
        .collect();
    if !ranges.is_empty() {
        parts.push(format!("in ranges {}", ranges.join(", ")));
    }
    // The host did not keep the GPU waiting with it, or hardly.
    let is_short = gap
        .host_operator_ns
        .0
        .saturating_mul(HOST_OPERATOR_NAMED_PART)
        < gap.span_ns.0;
    let operator = gap.host_operator.as_ref();
    let operator = operator.filter(|_| !is_queued && !is_short);
    parts.extend(operator.map(|name| {
        let name = program::shortened(name);
        format!("host longest in `{name}` ({})", gap.host_operator_ns)
    }));
    Some(format!(
        "{} {place} lie outside the phases: {}.",
        gap.span_ns,
        parts.join(", ")
    ))
}

/// What the first pass paid once, where that is a finding.
pub(super) fn first_use(analysis: &Analysis) -> Option<String> {
    let first = analysis.latency.first_use.as_ref()?;
    let mut findings = analysis.findings.iter();
    let finding =
        findings.find(|finding| finding.code == "first_use" && finding.phase.is_none())?;
    // Analyses of earlier versions have the former name only.
    let after = first.extra_ns - first.extra_ttft_ns;
    let parts = [
        (first.extra_ttft_ns, "before the first token"),
        (after, "after it"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(extra, _)| *extra > 0.0)
        .map(|(extra, when)| format!("{} more {when}", time(*extra)))
        .collect();
    let of_lengths = |evidence: &&Evidence| evidence.what == Measure::ExtraStepTime;
    let lengths = finding.evidence.iter().find(of_lengths).map(|extra| {
        format!(
            "; each new {} length costs {}",
            analysis.family.as_ref().map_or("sequence", |_| "KV cache"),
            figure(extra)
        )
    });
    Some(format!(
        "Warm-up: the first pass took {}, later passes {}: {}{}.",
        time(first.first_ns),
        time(first.later_ns),
        parts.join(", "),
        lengths.unwrap_or_default()
    ))
}
