//! One page without jargon.

use llmprof_record::{issue::IssueCode, run::RunPhase};
use llmprof_units::{Count, Percent};

use crate::analyzed::{
    Analysis, ClassReason, Finding, GainOf, PhaseAnalysis, PhaseClass, SHARED, STOLEN_FROM,
    THROTTLED,
};
use crate::text::{causes::RATIO_MAX, knob, statement, summary::device, time};

/// Gains below this factor are no news to people who decide.
const WORTH_SAYING: f64 = 1.05;

/// How fast it is.
pub(super) fn speed(analysis: &Analysis) -> Vec<String> {
    let latency = &analysis.latency;
    let mut lines = Vec::new();
    if let Some(ttft) = &latency.ttft_ns {
        lines.push(format!("The first word appears after {}.", time(ttft.mean)));
    }
    if let Some(rate) = &latency.decode_tokens_per_s {
        lines.push(format!(
            "After that, {:.1} tokens (words or parts of words) appear per second.",
            rate.mean
        ));
    }
    lines.push(match &analysis.workload {
        Some(workload) => format!(
            "Measured on {} with {}, a prompt of {} and an answer of {}, {}.",
            device(analysis),
            match workload.batch {
                1 => "one request at a time".to_owned(),
                batch => format!("{batch} requests at once"),
            },
            Count(workload.prompt, "token"),
            Count(workload.new_tokens, "token"),
            match latency.repeats {
                0 | 1 => "once".to_owned(),
                repeats => format!("{repeats} times"),
            },
        ),
        None => format!("Recorded on {}.", device(analysis)),
    });
    lines.extend(disturbed(analysis));
    let is_timed = latency.decode_tokens_per_s.is_some();
    for phase in analysis.phases.iter().filter(|_| !is_timed) {
        let traced = phase.traced.as_ref();
        if let Some(plain) = traced.and_then(|traced| traced.between_slices.as_ref()) {
            // Of other phases the whole interval is what slices and the time between them have.
            lines.push(format!(
                "{} took {} while nothing was recorded.",
                one_step(phase),
                plain.plain_ns
            ));
        } else if let Some(steps) = traced.and_then(|traced| traced.steps.as_ref()) {
            // The middle of two is neither of them.
            let took = match steps.count {
                0 | 1 => time(steps.p50),
                2 => format!("{} or {}", time(steps.min), time(steps.max)),
                count => format!("{} (the median of {count})", time(steps.p50)),
            };
            lines.push(format!("{} took {took}.", one_step(phase)));
        }
    }
    lines
}

/// `A step of decode`; of other phases an interval is one of what they are called.
fn one_step(phase: &PhaseAnalysis) -> String {
    match phase.phase {
        RunPhase::Decode => format!("A step of {}", phase.name()),
        RunPhase::Mixed => format!("One {} step", phase.name()),
        _ => format!("One {}", phase.name()),
    }
}

/// The range in which nothing runs for most of the time.
fn mostly_idle_in(phase: &PhaseAnalysis) -> Option<(String, Percent)> {
    crate::text::phases::idle_range(phase).filter(|(_, share)| share.0 > 0.5)
}

/// What limits a phase.
pub(super) fn limit(phase: &PhaseAnalysis, findings: &[Finding]) -> String {
    let has_finding = findings.iter().any(|finding| {
        let is_here = finding.phase == Some(phase.phase) && finding.label == phase.label;
        is_here && finding.abstains.is_none()
    });
    let what = match phase.class.class {
        Some(PhaseClass::MemoryBound | PhaseClass::L2Bound) => {
            "waits for memory: moving data takes longer than calculating"
        }
        Some(PhaseClass::ComputeBound) => "is limited by how fast the machine calculates",
        Some(PhaseClass::HostBound) => "waits for the program that launches its work",
        Some(PhaseClass::InputBound) => "waits for its input data",
        Some(PhaseClass::LatencyBound) => "does work in pieces that are too small for the machine",
        Some(PhaseClass::CommunicationBound) => "waits for data from other devices",
        Some(PhaseClass::CopyBound) => "spends its time copying data from one memory to another",
        Some(PhaseClass::Throttled) => {
            "runs slower because the machine protects itself from heat or power"
        }
        Some(PhaseClass::Balanced) => "uses memory and arithmetic about equally",
        None if let Some((range, share)) = mostly_idle_in(phase) => {
            if range.starts_with("enumerate(DataLoader)") {
                &format!("waits for its input data for {share} of the time")
            } else {
                &format!("computes nothing for {share} of the time, in `{range}`")
            }
        }
        None if phase.class.why == ClassReason::HostAlone => {
            "runs on the CPU; the report lists its ops by time"
        }
        None if phase.class.is_unknown() => match crate::text::phases::largest_category(phase) {
            Some(largest) if largest.is_most => &format!(
                "spends most of its GPU time in {} ({})",
                largest.name, largest.share
            ),
            Some(largest) => &format!(
                "has {} as the largest part of its GPU time ({})",
                largest.name, largest.share
            ),
            None if has_finding => {
                "fits no single class of bottleneck; the findings of the report say where its time goes"
            }
            None => "has a bottleneck that this recording does not show",
        },
        None => "has no dominant bottleneck",
    };
    let limit = phase.waterfall.roofline_ns.map(|roofline| {
        format!(
            " At the peak rates of the hardware it would take {}{} of the time.",
            crate::text::phases::at_most(phase).unwrap_or(""),
            Percent(phase.judged_share(roofline))
        )
    });
    let is_whole = phase.traced.as_ref().is_some_and(|one| one.is_whole_trace);
    let noun = if is_whole { "" } else { " phase" };
    let name = phase.name();
    format!("The {name}{noun} {what}.{}", limit.unwrap_or_default())
}

/// What would help most.
pub(super) fn helps(analysis: &Analysis) -> Vec<String> {
    let findings = analysis.findings.iter().filter_map(|found| {
        let gain = found.gain.as_ref();
        let gain = gain.filter(|gain| gain.factor >= WORTH_SAYING)?;
        let knob = knob(found, analysis).map(|knob| format!(". {}", knob.trim_end_matches('.')));
        let knob = knob.unwrap_or_default();
        if gain.factor >= RATIO_MAX {
            return Some(format!("{}{knob}", statement(found)));
        }
        let what = match gain.of {
            GainOf::Run => "the whole run up to",
            GainOf::Throughput => "with more requests at once, up to",
            GainOf::FirstRequest => "for the first request, up to",
            GainOf::Latency => "for the mean request, up to",
        };
        Some(format!(
            "{}{knob} ({what} {:.1} times as fast)",
            statement(found),
            gain.factor
        ))
    });
    findings.take(3).collect()
}

/// What took CPUs from the model while it was measured.
fn disturbed(analysis: &Analysis) -> Vec<String> {
    let causes = [
        (
            SHARED,
            "Other programs kept the machine busy meanwhile: on a quiet one it is faster.",
        ),
        (
            THROTTLED,
            "A CPU limit held it back: with a higher one it is faster.",
        ),
        (
            STOLEN_FROM,
            "Other virtual machines of the same host took CPUs from it: alone it is faster.",
        ),
    ];
    let has = |code: &IssueCode| analysis.issues.iter().any(|issue| issue.code == *code);
    let lines = causes.into_iter().filter(|(code, _)| has(code));
    lines.map(|(_, line)| line.to_owned()).collect()
}
