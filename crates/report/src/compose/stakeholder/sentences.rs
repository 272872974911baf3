//! One page without jargon.

use llmprof_record::{issue::IssueCode, run::RunPhase};
use llmprof_units::{Count, Percent};

use crate::analyzed::{
    Analysis, ClassReason, Conclusion, Finding, GainOf, PhaseAnalysis, PhaseClass, SHARED,
    STOLEN_FROM, THROTTLED,
};
use crate::compose::phases::sentences::MAIN_PART_MIN_SHARE;
use crate::compose::summary::device;
use crate::text::{
    causes::{RATIO_MAX, unprofiled_step},
    consumers, knob, statement, time,
};

/// Gains below this factor are no news to people who decide.
const WORTH_SAYING: f64 = 1.05;
/// A mean that is farther from the median by this part of it is given too: a few steps take much of the time.
const MEAN_NOTICED_SHARE: f64 = 0.25;

/// What PyTorch calls the time in which a batch is fetched.
const DATA_LOADER: &str = "enumerate(DataLoader)";
/// Waiting for input data is named from this part of the time of a phase.
const LOADING_MIN_SHARE: f64 = 0.1;

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
    if analysis.issues.iter().any(|issue| issue.code.is_cut_file()) {
        lines.push("The recording is cut: its end is missing.".to_owned());
    }
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
                count if (steps.mean - steps.p50).abs() > MEAN_NOTICED_SHARE * steps.p50 => {
                    format!(
                        "{} (the median of {count}; the mean is {})",
                        time(steps.p50),
                        time(steps.mean)
                    )
                }
                count => format!("{} (the median of {count})", time(steps.p50)),
            };
            lines.push(match unprofiled_step(analysis, phase) {
                Some(plain) => format!(
                    "{} takes about {plain}. While it was recorded, which costs time, it took {took}.",
                    one_step(phase)
                ),
                None => format!("{} took {took}.", one_step(phase)),
            });
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

/// What the host did in a phase of which nothing else was recorded.
fn host_alone(phase: &PhaseAnalysis, analysis: &Analysis, uses_device: bool) -> String {
    if uses_device {
        return "uses a GPU that was not recorded; the report lists the ops of its host by time"
            .to_owned();
    }
    let loading = crate::compose::phases::sentences::idle_range(phase)
        .filter(|(range, share)| range.starts_with(DATA_LOADER) && share.0 > LOADING_MIN_SHARE);
    if let Some((_, share)) = loading {
        return format!("runs on the CPU and waits for its input data for {share} of the time");
    }
    let idle = phase.judged_share(phase.judged_idle());
    if idle > MAIN_PART_MIN_SHARE {
        let idle = Percent(idle);
        return format!("runs on the CPU, where no op runs for {idle} of the time");
    }
    let timeline = analysis.timeline.as_deref();
    let largest = timeline.filter(|_| analysis.phases.len() == 1);
    match largest.and_then(consumers::largest_host_operator) {
        Some((name, share)) if share.0 > MAIN_PART_MIN_SHARE => {
            format!("runs on the CPU; `{name}` takes {share} of its time in ops")
        }
        _ => "runs on the CPU; the report lists its ops by time".to_owned(),
    }
}

/// The range in which nothing runs for most of the time.
fn mostly_idle_in(phase: &PhaseAnalysis) -> Option<(String, Percent)> {
    crate::compose::phases::sentences::idle_range(phase)
        .filter(|(_, share)| share.0 > MAIN_PART_MIN_SHARE)
}

/// The part of its time in which the GPU does nothing, where that is most of it.
fn mostly_idle_gpu(phase: &PhaseAnalysis) -> Option<Percent> {
    let idle = phase.judged_share(phase.judged_idle());
    (phase.device().is_some() && idle > MAIN_PART_MIN_SHARE).then_some(Percent(idle))
}

pub(super) fn limit(phase: &PhaseAnalysis, analysis: &Analysis) -> String {
    let has_finding = analysis.findings.iter().any(|finding| {
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
        Some(PhaseClass::CommunicationBound) if phase.device().is_none() => {
            "waits for data from other processes"
        }
        Some(PhaseClass::CommunicationBound) => "waits for data from other devices",
        Some(PhaseClass::CopyBound) => "spends its time copying data from one memory to another",
        Some(PhaseClass::Throttled) => {
            "runs slower because the machine protects itself from heat or power"
        }
        Some(PhaseClass::Balanced) => "uses memory and arithmetic about equally",
        None if let Some((range, share)) = mostly_idle_in(phase) => {
            if range.starts_with(DATA_LOADER) {
                &format!("waits for its input data for {share} of the time")
            } else {
                &format!("computes nothing for {share} of the time, in `{range}`")
            }
        }
        None if let ClassReason::HostAlone { uses_device } = phase.class.why => {
            &host_alone(phase, analysis, uses_device)
        }
        // Small findings say little of a phase in which nothing runs for most of the time.
        None if let Some(idle) = mostly_idle_gpu(phase) => {
            let range = crate::compose::phases::sentences::idle_range(phase);
            let part = range.map(|(range, share)| format!(" ({share} in `{range}`)"));
            &format!(
                "leaves the GPU idle for {idle} of the time{}; the recording does not show a single reason",
                part.unwrap_or_default()
            )
        }
        None if phase.class.is_unknown() => {
            match crate::compose::phases::sentences::largest_category(phase) {
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
            }
        }
        None => "has no dominant bottleneck",
    };
    let limit = phase.waterfall.roofline_ns.map(|roofline| {
        format!(
            " At the peak rates of the hardware it would take {}{} of the time.",
            crate::compose::phases::sentences::at_most(phase).unwrap_or(""),
            Percent(phase.judged_share(roofline))
        )
    });
    let is_whole = phase.traced.as_ref().is_some_and(|one| one.is_whole_trace);
    let noun = if is_whole { "" } else { " phase" };
    let name = phase.name();
    format!("The {name}{noun} {what}.{}", limit.unwrap_or_default())
}

pub(super) fn helps(analysis: &Analysis) -> Vec<String> {
    let findings = analysis.findings.iter().filter_map(|finding| {
        let gain = finding.gain.as_ref();
        let gain = gain.filter(|gain| gain.factor >= WORTH_SAYING)?;
        let knob = knob(finding, analysis).map(|knob| format!(". {}", knob.trim_end_matches('.')));
        let knob = knob.unwrap_or_default();
        if gain.factor >= RATIO_MAX {
            return Some(format!("{}{knob}", statement(finding)));
        }
        // Replayed gains are of times without the profiler's cost; those above may include it.
        let plain = match &finding.conclusion {
            Some(Conclusion::Cause { .. }) => ", without the profiler",
            _ => "",
        };
        let what = match gain.of {
            GainOf::Run => "the whole run up to",
            GainOf::Throughput => "with more requests at once, up to",
            GainOf::FirstRequest => "for the first request, up to",
            GainOf::Latency => "for the mean request, up to",
        };
        Some(format!(
            "{}{knob} ({what} {:.1} times as fast{plain})",
            statement(finding),
            gain.factor
        ))
    });
    let lines: Vec<String> = findings.take(3).collect();
    if lines.is_empty() {
        return faster_input(analysis).into_iter().collect();
    }
    lines
}

/// What to do about phases that wait for input data: nobody can compute how fast it could come.
fn faster_input(analysis: &Analysis) -> Option<String> {
    let waits = |finding: &&Finding| {
        let mut phases = analysis.phases.iter();
        let is_own =
            |one: &PhaseAnalysis| finding.phase == Some(one.phase) && finding.label == one.label;
        let phase = phases.find(|one| is_own(one));
        phase.is_some_and(|one| one.class.class == Some(PhaseClass::InputBound))
            && matches!(finding.conclusion, Some(Conclusion::Idle { .. }))
    };
    let finding = analysis.findings.iter().find(waits)?;
    let knob = knob(finding, analysis)?;
    Some(format!(
        "{}. {}",
        statement(finding).trim_end_matches('.'),
        knob.trim_end_matches('.')
    ))
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
