//! TTFT, TPOT, ITL and rates of requests.

mod sentences;

use llmprof_record::run::RunRecord;
use llmprof_units::format_significant;

use self::sentences as text;
use super::steps::{percentiles, sentences::percentile};
use crate::analyzed::{Analysis, PassKind, RepeatSummary, ValueDistribution};
use crate::document::{Document, Drawing, Table};
use crate::text::{dash, time};
use crate::view::{Histogram, StepLatency, StepLine, Unit};

/// Requests that are drawn one by one; more would hide each other.
const LINES_MAX: usize = 8;

/// Adds the section; nothing for an imported trace, of which no request is known.
pub(super) fn add(document: &mut Document, analysis: &Analysis, record: &RunRecord) {
    let latency = &analysis.latency;
    if latency.measured_in.is_none() && analysis.timeline.is_some() {
        return;
    }
    let section = document.section("latency", "Latency");
    section.paragraph(text::basis(analysis));
    section.table(table(analysis));
    let requests = token_gaps(record);
    let all: Vec<f64> = requests.iter().flatten().copied().collect();
    let Some(gaps) = latency.itl_ns.as_ref().filter(|_| !all.is_empty()) else {
        return;
    };
    let numbered = requests.into_iter().take(LINES_MAX).enumerate();
    section.chart(
        "token_latency",
        Drawing::StepLatency(StepLatency {
            title: "ITL by token".to_owned(),
            noun: "gap",
            lines: numbered
                .map(|(index, values_ns)| StepLine {
                    label: format!("request {}", index + 1),
                    values_ns,
                })
                .collect(),
            marks: percentiles(gaps),
        }),
    );
    section.chart(
        "token_gaps",
        Drawing::Histogram(Histogram::from_values(
            "ITL distribution",
            Unit::Nanoseconds,
            &all,
            percentiles(gaps),
        )),
    );
}

/// The gaps between the tokens of each request of the plain passes, ns.
fn token_gaps(record: &RunRecord) -> Vec<Vec<f64>> {
    let plain = record.passes_of(PassKind::Plain);
    let gaps = plain.flat_map(|(pass, _)| record.requests_of(pass));
    gaps.map(|request| {
        let pairs = request.token_ns.windows(2);
        pairs
            .map(|pair| pair[1].0.saturating_sub(pair[0].0) as f64)
            .collect()
    })
    .collect()
}

fn table(analysis: &Analysis) -> Table {
    let latency = &analysis.latency;
    let mut table = Table::new(&["Metric", "Mean", "Std. dev.", "p50", "p90", "p99"], 1);
    let mut add =
        |name: &str, summary: Option<&RepeatSummary>, spread: Option<&ValueDistribution>| {
            let Some(summary) = summary else { return };
            let stated = |percent| {
                spread
                    .and_then(|spread| percentile(spread, percent))
                    .unwrap_or_else(dash)
            };
            table.row([
                name.to_owned(),
                text::with_interval(summary),
                summary.deviation.map_or_else(dash, time),
                stated(50),
                stated(90),
                stated(99),
            ]);
        };
    add(
        "TTFT",
        latency.ttft_ns.as_ref(),
        latency.ttft_spread_ns.as_ref(),
    );
    add("TPOT", latency.tpot_ns.as_ref(), None);
    add("prefill", latency.prefill_ns.as_ref(), None);
    add("decode", latency.decode_ns.as_ref(), None);
    add("end-to-end latency", latency.end_to_end_ns.as_ref(), None);
    for (name, rate) in [
        ("tok/s", &latency.tokens_per_s),
        ("decode tok/s", &latency.decode_tokens_per_s),
    ] {
        if let Some(rate) = rate {
            table.row([
                name.to_owned(),
                text::rate_with_interval(rate),
                rate.deviation.map_or_else(dash, format_significant),
                dash(),
                dash(),
                dash(),
            ]);
        }
    }
    if let Some(gaps) = &latency.itl_ns {
        let row = ["ITL".to_owned(), time(gaps.mean), dash()].into_iter();
        let percentiles = [50, 90, 99].map(|percent| percentile(gaps, percent));
        table.row(row.chain(percentiles.map(|value| value.unwrap_or_else(dash))));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    #[test]
    fn three_passes_have_a_median_and_no_tail() {
        let mut analysis = Analysis::default();
        let values = [1e6, 2e6, 4e6];
        analysis.latency.ttft_ns = RepeatSummary::from_values(&values);
        analysis.latency.ttft_spread_ns = ValueDistribution::from_values(&values);
        analysis.latency.itl_ns = ValueDistribution::from_values(&[3e6; 21]);
        let table = table(&analysis);
        let percentiles = |row: usize| {
            let cells = table.rows[row].cells[3..].iter();
            cells.map(Cell::text).collect::<Vec<_>>()
        };
        assert_eq!(percentiles(0), ["2 ms", "–", "–"]);
        assert_eq!(percentiles(1), ["3 ms", "3 ms", "–"]);
    }
}
