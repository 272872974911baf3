//! What differs between runs, how sure that is, and why.

use llmprof_analysis::compare::{
    ChangeKind, Comparison, DISTURBED_SHARE, DisturbanceCause, ExplainedPart, ExplainedSource,
    Explanation, GateOutcome, GateState, IntervalBasis, MetricComparison, MetricUnit,
    PartComparison, PhaseComparison, Rounds, SideFacts, TraitDifference, Unevaluated, Verdict,
    WorkChange,
};
use llmprof_units::{Bytes, Count, Joules, Nanos, Percent, Times, format_significant};

use crate::kernel_label;
use crate::text::waterfall;

/// Parts of an explanation in the headline.
const PARTS_MAX: usize = 3;
/// More rounds are no advice: a machine that needs them is too noisy.
const ROUNDS_ADVISED_MAX: usize = 500;
/// From this ratio on, and below its inverse, a change is also stated as a multiple.
const MULTIPLE_MIN: f64 = 2.0;

pub fn title(comparison: &Comparison) -> String {
    format!("{} → {}", comparison.a.label, comparison.b.label)
}

pub fn metric(key: &str) -> &str {
    match key {
        "tpot" => "TPOT",
        "ttft" => "TTFT",
        "itl" => "ITL",
        "e2e" => "End-to-end latency",
        "tokens_per_s" => "Tokens/s",
        "decode_step" => "Decode step (profiled)",
        "decode_phase" => "Decode (profiled)",
        "prefill_step" => "Prefill (profiled)",
        "energy_per_token" => "Energy per token",
        "peak_memory" => "Peak memory",
        other => other,
    }
}

/// What the times of an explanation are of.
pub fn per(explanation: &Explanation) -> &'static str {
    if explanation.per_step {
        "per step"
    } else {
        "per range"
    }
}

/// What a histogram of such times counts.
pub fn single(explanation: &Explanation) -> &'static str {
    if explanation.per_step {
        "Steps"
    } else {
        "Ranges"
    }
}

pub fn value(unit: MetricUnit, value: f64) -> String {
    match unit {
        MetricUnit::Ns => Nanos(value.round() as i64).to_string(),
        MetricUnit::PerSecond => format_significant(value),
        MetricUnit::Joules => Joules(value).to_string(),
        MetricUnit::Bytes => Bytes(value.max(0.0).round() as u64).to_string(),
    }
}

/// The result of one phase, with the parts that changed most.
pub fn phase_line(phase: &PhaseComparison) -> String {
    if let Some(what) = &phase.excluded_for {
        return format!("{}: not comparable ({}).", phase.phase, trait_name(what));
    }
    let time = |ns: f64| value(MetricUnit::Ns, ns);
    let change = change(phase.b_wall_ns / phase.a_wall_ns);
    let mut parts: Vec<&PartComparison> = phase.parts.iter().collect();
    parts.retain(|part| part.delta_ns != 0.0);
    parts.sort_by(|a, b| b.delta_ns.abs().total_cmp(&a.delta_ns.abs()));
    let parts: Vec<String> = parts
        .iter()
        .take(PARTS_MAX)
        .map(|part| {
            let sign = if part.delta_ns > 0.0 { "+" } else { "-" };
            format!(
                "{} {sign}{}",
                waterfall_part(&part.name),
                time(part.delta_ns.abs())
            )
        })
        .collect();
    let most = if parts.is_empty() {
        String::new()
    } else {
        format!("; {}", parts.join(", "))
    };
    format!(
        "{} (profiled): {} → {}, {change}{most}.",
        phase.phase,
        time(phase.a_wall_ns),
        time(phase.b_wall_ns)
    )
}

/// Stands above the tables of a phase whose sides did other work.
pub fn other_phase_work(what: &str) -> String {
    format!(
        "Not comparable ({}): the tables describe each side; their differences are those of other work.",
        trait_name(what)
    )
}

/// `+8.1 %`.
pub fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// The ratio as a multiple, `3.04×`, where percent are hard to read.
fn multiple(ratio: f64) -> Option<String> {
    let is_read_as_percent = (1.0 / MULTIPLE_MIN..MULTIPLE_MIN).contains(&ratio);
    (!is_read_as_percent).then(|| Times(ratio).to_string())
}

pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Lower => "lower",
        Verdict::Higher => "higher",
        Verdict::Same => "same",
        Verdict::CannotTell => "cannot tell",
        Verdict::NotComparable => "not comparable",
    }
}

/// `+6.9 … +9.4 %`; empty without an interval.
pub fn interval(compared: &MetricComparison) -> String {
    match (compared.ci_low, compared.ci_high) {
        (Some(low), Some(high)) => interval_between(low, high),
        _ => String::new(),
    }
}

/// An interval of a ratio as changes.
pub fn interval_between(low: f64, high: f64) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    format!("{:+.1} … {:+.1} %", percent(low), percent(high))
}

pub fn basis(compared: &MetricComparison) -> String {
    let count = compared.values as u64;
    if compared.excluded_for.is_some() {
        return "not compared".to_owned();
    }
    match compared.basis {
        IntervalBasis::Rounds => Count(count, "round").to_string(),
        IntervalBasis::Runs => format!("{} a side", Count(count, "run")),
        IntervalBasis::Passes => format!("{} of one run a side", passes(count)),
        IntervalBasis::Single => format!("{count} values of one run a side"),
        IntervalBasis::Requests => format!("medians over {count} requests a side"),
        IntervalBasis::None => values_without_interval(compared),
    }
}

fn values_without_interval(compared: &MetricComparison) -> String {
    match compared.values {
        0 | 1 => "one value a side".to_owned(),
        count => format!("medians of {count} values a side"),
    }
}

fn passes(count: u64) -> String {
    if count == 1 {
        "1 pass".to_owned()
    } else {
        format!("{count} passes")
    }
}

/// The result of one metric, with its reason where one is known.
pub fn line(compared: &MetricComparison, comparison: &Comparison) -> String {
    let name = metric(compared.metric);
    if let Some(what) = &compared.excluded_for {
        return format!("{name}: not comparable ({}).", trait_name(what));
    }
    let mut text = match compared.ratio {
        Some(ratio) => format!("{name} {}", change(ratio)),
        None => name.to_owned(),
    };
    match compared.basis {
        IntervalBasis::None if comparison.is_same_recording => {}
        IntervalBasis::None => {
            let multiple = compared.ratio.and_then(multiple);
            let multiple = multiple.map(|multiple| multiple + "; ").unwrap_or_default();
            let values = values_without_interval(compared);
            text += &format!(" ({multiple}{values})");
        }
        _ => text += &format!(" (95 % CI {})", interval(compared)),
    }
    // Without an interval nothing is known of noise: a difference of 20 times is as large as it is.
    let outcome = match (compared.verdict, compared.basis) {
        (Verdict::CannotTell, IntervalBasis::None) => {
            format!("no interval: {}", needed(compared, comparison))
        }
        (Verdict::CannotTell, _) => {
            format!("cannot tell from noise: {}", needed(compared, comparison))
        }
        (Verdict::Same, _) if !comparison.is_same_recording => {
            format!("same within ±{}", Percent(comparison.resolution))
        }
        (other, _) => verdict(other).to_owned(),
    };
    text += &format!(", {outcome}");
    let mut explanations = comparison.explanations.iter();
    let explained = explanations.find(|explained| explained.metric == compared.metric);
    // The times of two traces differ by what their kernels show, whether or not they would again.
    let is_explained = match compared.verdict {
        Verdict::Same => false,
        Verdict::CannotTell => compared.basis == IntervalBasis::None,
        _ => true,
    };
    if let Some(why) = explained.filter(|_| is_explained).and_then(reason) {
        text += &format!(". {why}");
    }
    text + "."
}

/// What it would take to decide.
fn needed(compared: &MetricComparison, comparison: &Comparison) -> String {
    let sides = [&comparison.a, &comparison.b];
    if comparison.rounds.is_some() && compared.basis == IntervalBasis::None {
        return "one round counts; more rounds (`--rounds`, `--time`) give an interval".to_owned();
    }
    if sides.iter().any(|side| side.measured_in.is_empty()) {
        return "it has one recording a side".to_owned();
    }
    if sides.iter().any(|side| side.measured_in == "load") {
        return match (compared.basis, compared.values) {
            (IntervalBasis::None, 0 | 1) => {
                "a load has one value of it; folders of several loads a side give an interval"
            }
            (IntervalBasis::None, _) => "more requests give one",
            _ => "more requests narrow the interval",
        }
        .to_owned();
    }
    if compared.disturbed {
        return "the runs were measured apart and disturbed (see their warnings); `--run … --run …` measures both in turns"
            .to_owned();
    }
    match (compared.basis, compared.rounds_needed) {
        (IntervalBasis::None, _) => "more passes (runtime.repeats) or `--run … --run …`".to_owned(),
        (_, Some(rounds)) if rounds > ROUNDS_ADVISED_MAX => format!(
            "the interval includes no change, and the runs vary too much for this resolution (about {}); use a quieter machine \
             or a larger --resolution",
            Count(rounds as u64, "round")
        ),
        (_, Some(rounds)) => format!(
            "the interval includes no change and would need about {} for this resolution",
            Count(rounds as u64, "round")
        ),
        _ => "`--run … --run …` measures both in turns until the interval is narrow enough"
            .to_owned(),
    }
}

/// The largest parts of a difference: ``attention `A` → `B` explains 6.2 points, GPU idle 1.5``.
fn reason(explained: &Explanation) -> Option<String> {
    let total = explained.points();
    let mut parts: Vec<String> = Vec::new();
    for part in &explained.parts {
        let matters = part.points.abs() >= 0.05 * total.abs() && part.points.abs() >= 0.05;
        if !matters || parts.len() >= PARTS_MAX {
            continue;
        }
        let points = if parts.is_empty() {
            format!("explains {:+.1} points", part.points)
        } else {
            format!("{:+.1}", part.points)
        };
        parts.push(format!("{} {points}", part_name(part, explained)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What a part of a difference is.
pub fn part_name(part: &ExplainedPart, explained: &Explanation) -> String {
    match (part.source, &part.change) {
        (ExplainedSource::Work, Some(change)) => change_name(change),
        (ExplainedSource::Work | ExplainedSource::OtherWork, _) if explained.on_device => {
            "other kernels".to_owned()
        }
        (ExplainedSource::Work | ExplainedSource::OtherWork, _) => "other operators".to_owned(),
        (ExplainedSource::Idle, _) if explained.on_device => "GPU idle".to_owned(),
        (ExplainedSource::Idle, _) => "between operators".to_owned(),
        (ExplainedSource::Overlap, _) => "overlap".to_owned(),
    }
}

/// ``attention `A` → `B` ``, with the module where both sides name it.
pub fn change_name(change: &WorkChange) -> String {
    let side = |names: &[llmprof_analysis::compare::NamedWork]| match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{}`", kernel_label(&one.name)),
        [first, rest @ ..] => {
            format!("`{}` and {} more", kernel_label(&first.name), rest.len())
        }
    };
    let (a, b) = (side(&change.a), side(&change.b));
    let named = |text: String| {
        let place = change.place.as_ref().filter(|place| {
            let same = |row: &llmprof_analysis::compare::NamedWork| row.name == **place;
            !change.a.iter().chain(&change.b).any(same)
        });
        match place {
            Some(place) => format!("{} {text} in {place}", change.category),
            None => format!("{} {text}", change.category),
        }
    };
    match change.kind {
        ChangeKind::Replaced => named(format!("{a} → {b}")),
        ChangeKind::Changed => named(a),
        ChangeKind::Added => named(format!("new {b}")),
        ChangeKind::Removed => named(format!("no {a}")),
    }
}

/// Work that one side alone has.
pub fn one_sided(kind: ChangeKind, a: &str, b: &str) -> String {
    match kind {
        ChangeKind::Removed => format!("{a} (only in A)"),
        _ => format!("{b} (only in B)"),
    }
}

pub fn change_kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Replaced => "replaced",
        ChangeKind::Changed => "same kernel",
        ChangeKind::Added => "only in B",
        ChangeKind::Removed => "only in A",
    }
}

/// A part of the waterfall.
pub fn waterfall_part(key: &str) -> &str {
    match key {
        "roofline" => waterfall::ROOFLINE,
        "kernel_inefficiency" => waterfall::INEFFICIENCY,
        "matched" => waterfall::COMPUTE,
        "overhead_ops" => waterfall::OVERHEAD,
        other => waterfall::cause(other),
    }
}

fn trait_name(what: &str) -> String {
    match what {
        "measured_in" => "the kind of pass (with or without a profiler)".to_owned(),
        "load" => "the load".to_owned(),
        other => plain_trait(other),
    }
}

fn plain_trait(what: &str) -> String {
    match what {
        "attention_calls" => "attention calls per pass".to_owned(),
        "prefill_batch" => "sequences of a prefill".to_owned(),
        "decode_batch" => "sequences of a decode step".to_owned(),
        "decode_context" => "tokens per sequence in decode".to_owned(),
        other => other.replace('_', " "),
    }
}

/// One thing that differs beside what is measured.
pub fn difference(difference: &TraitDifference) -> String {
    let what = match difference.what.as_str() {
        "measured_in" => "kind of pass".to_owned(),
        "cpu" | "gpu" => difference.what.to_uppercase(),
        "kv_dtype" => "KV cache dtype".to_owned(),
        other => plain_trait(other),
    };
    let side = |text: &str| {
        if text.is_empty() {
            "imported trace".to_owned()
        } else {
            text.to_owned()
        }
    };
    let (a, b) = (side(&difference.a), side(&difference.b));
    match difference.what.as_str() {
        "profiling_overhead" => format!(
            "Profiling overhead differs (A: {a}; B: {b}); this affects kernel tables and reasons, not metrics."
        ),
        _ => format!("Differs: {what}, {a} → {b}"),
    }
}

/// Stands first where both sides are one recording.
pub fn same_recording() -> String {
    "A and B are the same recording: all values are equal.".to_owned()
}

/// What the report of B says first, where it is not what that of A says.
pub fn first_finding(comparison: &Comparison) -> Option<String> {
    let finding = comparison.b.first_finding.as_ref()?;
    let is_other = comparison.a.first_finding.as_ref() != Some(finding);
    is_other.then(|| format!("First finding of B: {finding}."))
}

/// Metrics that are not of the same work on both sides, a line for each reason.
pub fn excluded(comparison: &Comparison) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for compared in &comparison.metrics {
        let Some(what) = &compared.excluded_for else {
            continue;
        };
        let name = metric(compared.metric);
        match reasons.iter_mut().find(|(known, _)| known == what) {
            Some((_, names)) => names.push(name),
            None => reasons.push((what, vec![name])),
        }
    }
    let line = |(what, names): &(&str, Vec<&str>)| {
        format!(
            "Not comparable ({}): {}",
            trait_name(what),
            names.join(", ")
        )
    };
    reasons.iter().map(line).collect()
}

pub fn cause(cause: DisturbanceCause) -> &'static str {
    match cause {
        DisturbanceCause::ProcessorsShared => "other programs took CPU time",
        DisturbanceCause::ProcessorsStolen => "the hypervisor took CPU time",
        DisturbanceCause::ProcessorsThrottled => "a CPU quota was reached",
        DisturbanceCause::GpuThrottled => "the GPU was throttled",
        DisturbanceCause::ClockDeviates => "the GPU clock was off the median of its side",
    }
}

/// The rule by which rounds are left out, said before the first one.
pub fn rule() -> String {
    let rule = disturbed();
    format!("disturbed rounds are left out: {rule}; where they are most of the rounds, all count")
}

fn disturbed() -> String {
    format!(
        "a round is disturbed where contention, a quota or throttling took {} or more of the CPUs or of the time, or the GPU clock was as far \
         off the median of its side",
        Percent(DISTURBED_SHARE)
    )
}

/// Which rounds count, and by which rule.
pub fn rounds(rounds: &Rounds) -> String {
    let rule = disturbed();
    let all = Count(rounds.count as u64, "round");
    let disturbed = rounds.disturbed.len();
    match (disturbed, rounds.keeps_disturbed) {
        (0, _) => format!("{all} in turns (ABBA), none disturbed; {rule}."),
        (_, false) => format!("{all} in turns (ABBA), {disturbed} disturbed and left out; {rule}."),
        (_, true) => format!(
            "{all} in turns (ABBA), {disturbed} disturbed. That is most of them, so all count and the interval includes the \
             disturbance; {rule}."
        ),
    }
}

/// What an interval of this basis does not cover.
fn caveat(comparison: &Comparison) -> Option<&'static str> {
    let has = |basis| {
        comparison
            .metrics
            .iter()
            .any(|metric| metric.basis == basis)
    };
    let mut metrics = comparison.metrics.iter();
    let is_judged = metrics.any(|metric| metric.excluded_for.is_none());
    let is_imported = |side: &SideFacts| side.measured_in.is_empty() && side.runs.len() == 1;
    if has(IntervalBasis::Requests) {
        Some("One load a side: intervals cover variation between requests, not between loads.")
    } else if comparison.is_same_recording || !is_judged {
        None
    } else if is_imported(&comparison.a) || is_imported(&comparison.b) {
        Some(
            "A recording does not show how much runs vary: record each side several times, import the recordings of a side into one \
             folder (`llmprof import TRACE -o A/1`), and compare the folders.",
        )
    } else if !has(IntervalBasis::Passes) && !has(IntervalBasis::Single) {
        None
    } else {
        Some(
            "One run a side: intervals cover variation within a run, not between runs. `llmprof compare --run A --run B` measures \
             both in turns.",
        )
    }
}

/// Why a change is not the ratio of the two values beside it; nothing where it is, within the resolution.
fn estimate(comparison: &Comparison) -> Option<&'static str> {
    let is_other = |compared: &MetricComparison| {
        let (Some(a), Some(b), Some(ratio)) = (compared.a, compared.b, compared.ratio) else {
            return false;
        };
        let off = (ratio * a / b).ln().abs();
        off > (1.0 + comparison.resolution).ln()
    };
    let compared = comparison.metrics.iter();
    let mut compared = compared.filter(|metric| metric.excluded_for.is_none());
    compared.any(is_other).then_some(
        "A and B are medians. Change is the Hodges–Lehmann estimate of B ÷ A, which single slow passes move less.",
    )
}

/// What a reader of the metrics must know.
pub fn notes(comparison: &Comparison) -> impl Iterator<Item = &'static str> {
    [estimate(comparison), caveat(comparison)]
        .into_iter()
        .flatten()
}

fn unevaluated(reason: &Unevaluated) -> String {
    match reason {
        Unevaluated::NotMeasured => "a side does not have this metric".to_owned(),
        Unevaluated::OtherWork(what) => format!(
            "{} differs, so that the metric is not of the same work",
            trait_name(what)
        ),
        Unevaluated::TooFewValues => "too few values for an interval".to_owned(),
        Unevaluated::ClientLate => {
            "the client was late, so nothing is concluded about the server".to_owned()
        }
    }
}

pub fn gate(outcome: &GateOutcome) -> String {
    let state = match outcome.state {
        GateState::Passed => "passed",
        GateState::Failed => "failed",
        GateState::Inconclusive => "inconclusive",
        GateState::NotEvaluated => "not evaluated",
    };
    if let Some(reason) = &outcome.reason {
        return format!("Gate {} {state}: {}", outcome.gate, unevaluated(reason));
    }
    let relative = matches!(
        outcome.bound,
        Some(llmprof_analysis::compare::GateBound::Relative(_))
    );
    let shown = |number: f64| match outcome.unit {
        Some(unit) if !relative => value(unit, number),
        _ => change(number),
    };
    let mut text = format!("Gate {} {state}", outcome.gate);
    if let Some(value) = outcome.value {
        text += &format!(": {}", shown(value));
    }
    match (outcome.ci_low, outcome.ci_high) {
        (Some(low), Some(high)) => {
            text += &format!(" (95 % CI {} … {})", shown(low), shown(high));
        }
        _ => text += " (no interval)",
    }
    text
}
