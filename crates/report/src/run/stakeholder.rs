use llmprof_analysis::Analysis;
use llmprof_analysis::bottleneck::PhaseClass;
use llmprof_analysis::findings::GainOf;
use llmprof_analysis::telemetry::{SHARED, STOLEN_FROM, THROTTLED};
use llmprof_units::{Count, Nanos, Percent, significant};

use super::{full::device, words::time};
use crate::Document;

/// Gains below this factor are no news to people who decide.
const WORTH_SAYING: f64 = 1.05;

/// One page without jargon: how fast, what holds it back, what would help.
pub fn stakeholder(analysis: &Analysis) -> Document {
    let mut document = Document::new(format!("{}: how fast it is, and why", analysis.model));
    let latency = &analysis.latency;
    document.heading("How fast it is");
    let mut lines = Vec::new();
    if let Some(ttft) = &latency.ttft_ns {
        lines.push(format!("The first word appears after {}.", time(ttft.mean)));
    }
    if let Some(rate) = &latency.decode_tokens_per_s {
        lines.push(format!(
            "After that about {} words or word pieces come per second.",
            significant(rate.mean)
        ));
    }
    match &analysis.workload {
        Some(workload) => lines.push(format!(
            "Measured on {} with {}, {} of prompt and {} of answer, {}.",
            device(analysis),
            match workload.batch {
                1 => "one request at a time".to_owned(),
                batch => format!("{batch} requests at once"),
            },
            Count(workload.prompt, "piece"),
            workload.new_tokens,
            match latency.repeats {
                0 | 1 => "once".to_owned(),
                repeats => format!("{repeats} times"),
            },
        )),
        None => lines.push(format!("Recorded on {}.", device(analysis))),
    }
    lines.extend(disturbed(analysis));
    let is_timed = latency.decode_tokens_per_s.is_some();
    for phase in analysis.phases.iter().filter(|_| !is_timed) {
        let traced = phase.traced.as_ref();
        if let Some(steps) = traced.and_then(|traced| traced.steps.as_ref()) {
            lines.push(format!(
                "A step of {} took {} on average.",
                phase.name(),
                time(steps.mean)
            ));
        }
    }
    document.list(lines);
    document.heading("What holds it back");
    let mut lines = Vec::new();
    for phase in &analysis.phases {
        let what = match phase.class.class {
            Some(PhaseClass::MemoryBound | PhaseClass::L2Bound) => {
                "waits for memory: reading the model's weights takes most of the time"
            }
            Some(PhaseClass::ComputeBound) => "is limited by how fast the machine calculates",
            Some(PhaseClass::HostBound) => "waits for the software around the model",
            Some(PhaseClass::LatencyBound) => {
                "does work in pieces that are too small for the machine"
            }
            Some(PhaseClass::CommunicationBound) => "waits for machines to exchange data",
            Some(PhaseClass::Throttled) => {
                "runs slower because the machine protects itself from heat or power"
            }
            Some(PhaseClass::Balanced) => "uses memory and arithmetic about equally",
            None => "has no single cause that the data show",
        };
        let limit = phase.waterfall.floor_ns.map(|floor: Nanos| {
            format!(
                " The machine's own limit would be {} of the time it takes.",
                Percent(phase.judged_share(floor))
            )
        });
        lines.push(format!(
            "The {} phase {what}.{}",
            phase.name(),
            limit.unwrap_or_default()
        ));
    }
    if lines.is_empty() {
        document.paragraph("Nothing was recorded that would tell.");
    }
    document.list(lines);
    document.heading("What would help");
    let helps: Vec<String> = analysis
        .findings
        .iter()
        .filter_map(|finding| {
            let gain = finding.gain.as_ref();
            let gain = gain.filter(|gain| gain.factor >= WORTH_SAYING)?;
            let what = match gain.of {
                GainOf::Run => "the whole up to",
                GainOf::Throughput => "with more requests at once, up to",
                GainOf::FirstRequest => "for the first request, up to",
            };
            Some(format!(
                "{} ({what} {:.1} times as fast)",
                finding.title.trim_end_matches('.'),
                gain.factor
            ))
        })
        .take(3)
        .collect();
    if helps.is_empty() {
        document.paragraph("Nothing was found whose gain can be computed from this run.");
    }
    document.list(helps);
    document
}

/// What took processors from the model while it was measured.
fn disturbed(analysis: &Analysis) -> Vec<String> {
    let told = [
        (
            SHARED,
            "Other programs kept the machine busy meanwhile: on a quiet one it is faster.",
        ),
        (
            THROTTLED,
            "A limit on processors held it back: with a higher one it is faster.",
        ),
        (
            STOLEN_FROM,
            "Other machines of the same host took processors from it meanwhile: alone it is faster.",
        ),
    ];
    let has = |code: &str| analysis.issues.iter().any(|issue| issue.code == code);
    let lines = told.into_iter().filter(|(code, _)| has(code));
    lines.map(|(_, line)| line.to_owned()).collect()
}
