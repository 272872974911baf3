//! Where the time of the mean request went.

use llmprof_analysis::serving::{LatencyPart, MeanParts};
use llmprof_report::{
    Drawing, Section, Table,
    text::{bench, load},
    view::{PartKind, Waterfall, WaterfallPart},
};
use llmprof_units::{Nanos, Percent};

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
            label: load::part(part.part).to_owned(),
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
    section.paragraph(bench::parts(mean.requests));
    section.table(table(mean));
    if !mean.not_split.is_empty() {
        section.heading("Not split");
        section.list(
            mean.not_split
                .iter()
                .map(|why| load::not_split(*why))
                .collect(),
        );
    }
    if let Some(profiled) = profiled {
        section.heading("Profiled requests");
        section.paragraph(bench::profiled_parts(profiled.requests));
        section.table(table(profiled));
    }
}

fn table(mean: &MeanParts) -> Table {
    let mut table = Table::new(&["Part", "Known by", "Mean", "p99", "Share"], 2);
    for part in &mean.parts {
        table.row([
            load::part(part.part).to_owned(),
            load::source(part.source).to_owned(),
            nanos(part.mean_ms).to_string(),
            part.p99_ms
                .map_or("–".to_owned(), |ms| nanos(ms).to_string()),
            Percent(part.mean_ms / mean.e2e_ms).to_string(),
        ]);
    }
    table
}
