use llmprof_analysis::evidence::Evidence;
use llmprof_analysis::findings::{Confidence, EACH_LENGTH, Finding, GainOf};
use llmprof_analysis::stats::Summary;
use llmprof_analysis::steps::StepPattern;
use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_units::{
    Bytes, BytesPerSecond, Count, FlopsPerSecond, Nanos, Percent, Times, significant,
};

/// Patterns of steps that the conclusion tells.
const MOST_PATTERNS: usize = 2;

/// Gains below this factor are not told in figures.
const NOTICED: f64 = 1.005;

/// The conclusion in a few sentences, the most important first: where the time went, the bound, what would pay.
pub fn conclusion(analysis: &Analysis) -> Vec<String> {
    let mut lines = Vec::new();
    let latency = &analysis.latency;
    if let (Some(ttft), Some(rate)) = (&latency.ttft_ns, &latency.tokens_per_s) {
        let tpot = latency
            .tpot_ns
            .as_ref()
            .map(|tpot| format!(", {} per further token", time(tpot.mean)));
        lines.push(format!(
            "First token after {}{}, {} tokens/s.",
            time(ttft.mean),
            tpot.unwrap_or_default(),
            significant(rate.mean)
        ));
    }
    lines.extend(analysis.phases.iter().map(phase_line));
    lines.extend(super::slices::lines(analysis));
    lines.extend(first_use(analysis));
    if let Some(steps) = super::steps::of(analysis) {
        let patterns = steps.patterns.iter().take(MOST_PATTERNS);
        let sentences: Vec<String> = patterns.map(StepPattern::sentence).collect();
        lines.push(format!(
            "By the pattern of launches: {}.",
            sentences.join("; ")
        ));
    }
    match analysis
        .findings
        .iter()
        .find(|finding| finding.gain.is_some())
    {
        Some(finding) => lines.push(finding_line(finding)),
        None => lines.push("No change with a computable gain was found.".to_owned()),
    }
    lines
}

fn phase_line(phase: &PhaseAnalysis) -> String {
    let waterfall = &phase.waterfall;
    let judged = phase.judged_wall();
    let share = |part: Nanos| Percent(part.0 as f64 / judged.0.max(1) as f64);
    let wall = phase.plain_wall_ns.unwrap_or(waterfall.wall_ns);
    let mut text = format!("{}: {wall}", phase.name());
    if let Some(class) = phase.class.class {
        text += &format!(", {class}");
    }
    // Of a phase of an unknown kind nothing is known to be needed.
    if let Some(floor) = waterfall.floor_ns.filter(|floor| floor.0 > 0) {
        let of = if phase.plain_wall_ns.is_some() && judged == waterfall.wall_ns {
            "the captured pass"
        } else {
            "it"
        };
        text += &format!("; the device's limit is {} of {of}", share(floor));
    }
    if phase.judged_idle().0 > 0 {
        let idle = share(phase.judged_idle());
        text += &match &phase.traced {
            None => format!(", {idle} is the engine's own work"),
            Some(traced) if traced.device.is_some() => format!(", the device idles for {idle}"),
            Some(_) => format!(", {idle} is spent between operators"),
        };
    }
    let used = phase
        .plain_utilization
        .as_ref()
        .or(phase.utilization.as_ref());
    if let Some(used) = used {
        let percent = |value: Option<f64>| {
            value.map_or_else(|| "unknown".to_owned(), |value| Percent(value).to_string())
        };
        text += &format!("; MFU {}, MBU {}", percent(used.mfu), percent(used.mbu));
    }
    if let Some(part) = phase.traced.as_ref().and_then(|traced| traced.recorded) {
        text += &format!("; judged by {part}");
    }
    text + "."
}

/// What was asked of the model, in one line; nothing where the model is not known. Of a trace alone nobody saw what was asked:
/// it is what the model is counted with, and how long decode was the trace itself shows.
pub(super) fn asked(analysis: &Analysis) -> Option<String> {
    let workload = analysis.workload.as_ref()?;
    let input = format!(
        "batch {}, prompt {}",
        workload.batch,
        Count(workload.prompt, "token")
    );
    if analysis.timeline.is_some() && analysis.latency.measured_in.is_none() {
        return Some(format!("counted with {input}"));
    }
    let output = Count(workload.new_tokens, "new token");
    Some(format!("{input}, {output}"))
}

/// A finding in one line, with its gain.
pub(super) fn finding_line(finding: &Finding) -> String {
    match &finding.gain {
        Some(gain) => {
            let title = finding.title.trim_end_matches('.');
            let what = match gain.of {
                GainOf::Run => "the run",
                GainOf::Throughput => "throughput",
                GainOf::FirstRequest => "the first request",
            };
            let is_bound =
                gain.is_bound || (gain.of == GainOf::Run && finding.confidence == Confidence::Low);
            let bound = if is_bound { "At most" } else { "Expected" };
            if gain.factor < NOTICED {
                return format!("{title}. {bound}: {what} hardly faster.");
            }
            let more = match gain.of {
                GainOf::Throughput => "higher",
                GainOf::Run | GainOf::FirstRequest => "faster",
            };
            format!("{title}. {bound}: {what} {} {more}.", Times(gain.factor))
        }
        None => finding.title.clone(),
    }
}

/// What the first pass paid once, where that is a finding.
pub(super) fn first_use(analysis: &Analysis) -> Option<String> {
    let first = analysis.latency.first_use.as_ref()?;
    let mut findings = analysis.findings.iter();
    let finding =
        findings.find(|finding| finding.code == "first_use" && finding.phase.is_none())?;
    let after = first.extra_ns - first.extra_ttft_ns;
    let parts = [
        (first.extra_ttft_ns, "until the first token"),
        (after, "after it"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(extra, _)| *extra > 0.0)
        .map(|(extra, when)| format!("{} more {when}", time(*extra)))
        .collect();
    let of_lengths = |evidence: &&Evidence| evidence.what == EACH_LENGTH;
    let steps = finding.evidence.iter().find(of_lengths).map(|extra| {
        format!(
            ", where each length of the {} that had not run before cost {}",
            analysis.family.as_ref().map_or("sequence", |_| "KV cache"),
            figure(extra)
        )
    });
    Some(format!(
        "First use: the first pass took {} where later ones take {}: {}{}.",
        time(first.first_ns),
        time(first.later_ns),
        parts.join(", "),
        steps.unwrap_or_default()
    ))
}

/// The number of an evidence with its unit.
pub(super) fn figure(evidence: &Evidence) -> String {
    let value = evidence.value;
    match evidence.unit.as_str() {
        "1" => Percent(value).to_string(),
        "×" => Times(value).to_string(),
        "ns" => time(value),
        "B" => Bytes(value as u64).to_string(),
        "B/s" => BytesPerSecond(value).to_string(),
        "FLOP/s" => FlopsPerSecond(value).to_string(),
        // A count of things, which one of is no plural.
        unit => match unit.strip_suffix('s').filter(|_| value == 1.0) {
            Some(one) => format!("1 {one}"),
            None => format!("{} {unit}", significant(value)),
        },
    }
}

/// `12.3 ms ± 0.4 ms`, the half width of the 95 % interval.
pub(super) fn with_interval(summary: &Summary) -> String {
    match summary.ci95_half_width {
        Some(half) => format!("{} ± {}", time(summary.mean), time(half)),
        None => time(summary.mean),
    }
}

/// Nanoseconds as text.
pub(super) fn time(ns: f64) -> String {
    Nanos(ns.round() as i64).to_string()
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::findings::Gain;

    use super::*;

    /// What a title calls "up to" is no expectation, however sure the time is that would go.
    #[test]
    fn a_bound_is_called_one() {
        let line = |is_bound, confidence| {
            finding_line(&Finding {
                code: "idle".to_owned(),
                phase: None,
                title: "it idles".to_owned(),
                evidence: Vec::new(),
                gain: Some(Gain {
                    of: GainOf::Run,
                    factor: 2.65,
                    phase_factor: None,
                    saved_ns: None,
                    derivation: String::new(),
                    is_bound,
                }),
                confidence,
                abstains: None,
            })
        };
        let most = "it idles. At most: the run 2.65× faster.";
        assert_eq!(line(true, Confidence::High), most);
        assert_eq!(line(false, Confidence::Low), most);
        let expected = "it idles. Expected: the run 2.65× faster.";
        assert_eq!(line(false, Confidence::Medium), expected);
    }
}
