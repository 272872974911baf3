//! Where the time of the mean request went.

use llmprof_analysis::serving::{LatencyPart, MeanParts, NotSplit, PartSource};
use llmprof_units::{Nanos, Percent};

use super::sentences;
use crate::view::{PartKind, Waterfall, WaterfallPart};
use crate::{Drawing, Section, Table};

fn nanos(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as i64)
}

/// `mean` is of the requests that latencies are of; `profiled` of those that the server's profiler recorded.
pub(super) fn add(section: &mut Section, mean: &MeanParts, profiled: Option<&MeanParts>) {
    let kind = |part| match part {
        LatencyPart::Decode | LatencyPart::Prefill => PartKind::Roofline,
        LatencyPart::RunningStep | LatencyPart::Queueing | LatencyPart::OthersPrefill => {
            PartKind::Idle
        }
        LatencyPart::Client | LatencyPart::Connection | LatencyPart::Network => PartKind::Copies,
        LatencyPart::UntilFirstToken => PartKind::Unattributed,
        LatencyPart::Stalls => PartKind::Overhead,
    };
    let parts: Vec<WaterfallPart> = mean
        .parts
        .iter()
        .map(|part| WaterfallPart {
            label: part_name(part.part).to_owned(),
            duration_ns: nanos(part.mean_ms),
            kind: kind(part.part),
        })
        .collect();
    let wall_ns = parts.iter().map(|part| part.duration_ns).sum();
    section.chart(
        "request_time",
        Drawing::Waterfall(Waterfall {
            phase: "the mean request".to_owned(),
            wall_ns,
            parts,
        }),
    );
    section.paragraph(sentences::parts(mean.requests));
    section.table(table(mean));
    if !mean.not_split.is_empty() {
        section.heading("Not split");
        section.list(mean.not_split.iter().map(|why| not_split(*why)).collect());
    }
    if let Some(profiled) = profiled {
        section.heading("Profiled requests");
        section.paragraph(sentences::profiled_parts(profiled.requests));
        section.table(table(profiled));
    }
}

fn table(mean: &MeanParts) -> Table {
    let mut table = Table::new(&["Part", "Known by", "Mean", "p99", "Share"], 2);
    for part in &mean.parts {
        table.row([
            part_name(part.part).to_owned(),
            source_name(part.source).to_owned(),
            nanos(part.mean_ms).to_string(),
            part.p99_ms
                .map_or("–".to_owned(), |ms| nanos(ms).to_string()),
            Percent(part.mean_ms / mean.e2e_ms).to_string(),
        ]);
    }
    table
}

/// A part of a request's latency.
fn part_name(part: LatencyPart) -> &'static str {
    match part {
        LatencyPart::Client => "client",
        LatencyPart::Connection => "connection",
        LatencyPart::RunningStep => "waiting for the running engine step",
        LatencyPart::Queueing => "queueing",
        LatencyPart::Prefill => "prefill",
        LatencyPart::Network => "network and API server",
        LatencyPart::UntilFirstToken => "queueing, prefill and network",
        LatencyPart::Decode => "decode",
        LatencyPart::OthersPrefill => "waiting for other requests' prefill",
        LatencyPart::Stalls => "stalls",
    }
}

/// How a part is known.
fn source_name(source: PartSource) -> &'static str {
    match source {
        PartSource::ClientTimestamps => "client timestamps",
        PartSource::ServerTimings => "the server's timings",
        PartSource::TraceSteps => "steps of the trace",
        PartSource::ServerTimingsAndTraceSteps => "the server's timings, steps of the trace",
        PartSource::ServerHistograms => "the server's histograms (means of the window)",
        PartSource::ServerTtftRemainder => {
            "the server's TTFT less queueing and prefill (its tokenizer is in it)"
        }
        PartSource::Remainder => "what the histograms leave",
        PartSource::OthersFirstTokens => "gaps in which another request's first token came",
        PartSource::LongGaps => "gaps beyond 5 times the typical one",
        PartSource::LongGapsAndPreemptions => {
            "gaps beyond 5 times the typical one; the server preempted requests"
        }
    }
}

/// What is not split, and why.
fn not_split(why: NotSplit) -> String {
    match why {
        NotSplit::HistogramsOnly => {
            "Queueing and prefill of single requests: the server has histograms only.".to_owned()
        }
        NotSplit::OtherRequests {
            queue_ms,
            prefill_ms,
            until_first_token_ms,
        } => format!(
            "Queueing and prefill: the server's means ({queue_ms:.1} + {prefill_ms:.1} ms) are not those of these requests ({until_first_token_ms:.1} ms)."
        ),
        NotSplit::NothingKnown => {
            "Queueing, prefill and network: the server has no figures for these requests alone."
                .to_owned()
        }
    }
}
