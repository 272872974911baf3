//! Latencies of a load, and of each rate of a sweep.

use llmprof_record::serving::{LoadRecord, RequestRecord};
use llmprof_traffic::{figures::LoadSummary, statistics::Distribution, sweep::Sweep};
use llmprof_units::format_significant;

use super::sentences;
use crate::compose::steps::sentences::has_percentile;
use crate::view::{Curves, Histogram, PlottedCurve, Unit, ValueMark};
use crate::{Drawing, Section, Table};

pub(super) fn add(section: &mut Section, summary: &LoadSummary, load: &LoadRecord) {
    let mut table = Table::new(
        &[
            "Latency, ms",
            "Mean",
            "p50",
            "p90",
            "p99",
            "p99, 95 % interval",
            "Values",
        ],
        1,
    );
    let rows: [(&str, Option<Distribution>); 5] = [
        ("TTFT", summary.figures.ttft_ms),
        ("TPOT", summary.figures.tpot_ms),
        ("ITL", summary.figures.itl_ms),
        ("end-to-end latency", summary.figures.e2e_ms),
        ("inter-chunk latency", summary.arrival_gap_ms),
    ];
    for (name, distribution) in rows
        .into_iter()
        .filter_map(|(name, distribution)| Some((name, distribution?)))
    {
        let interval = distribution.ci95.and_then(|ci| ci.p99);
        table.row([
            name.to_owned(),
            format_significant(distribution.mean),
            format_significant(distribution.p50),
            sentences::percentile_cell(Some(distribution), 90),
            sentences::percentile_cell(Some(distribution), 99),
            interval.map_or("–".to_owned(), |[low, high]| {
                format!("{} – {}", format_significant(low), format_significant(high))
            }),
            distribution.count.to_string(),
        ]);
    }
    section.paragraph(sentences::LATENCY_BASIS);
    section.paragraph(sentences::timed(summary.timed, summary.figures.completed));
    section.table(table);
    if let Some(steady) = &summary.steady_state {
        section.paragraph(sentences::steady_state(
            steady.requests,
            steady.end_s - steady.start_s,
            steady.request_throughput,
            steady.ttft_ms,
            steady.tpot_ms,
            summary.server_stopped_s.is_some(),
        ));
    }
    let timed = || load.timed();
    let ttft: Vec<f64> = timed()
        .filter_map(|r| Some(r.ttft_ns()?.0 as f64))
        .collect();
    let itl: Vec<f64> = timed()
        .filter_map(RequestRecord::inter_token_ns)
        .flatten()
        .collect();
    for (key, title, values, distribution) in [
        ("ttft", "TTFT", ttft, summary.figures.ttft_ms),
        ("itl", "ITL", itl, summary.figures.itl_ms),
    ] {
        if let Some(distribution) = distribution {
            let marks = [
                (50, distribution.p50),
                (90, distribution.p90),
                (99, distribution.p99),
            ]
            .into_iter();
            let marks = marks
                .filter(|&(percent, _)| has_percentile(distribution.count, percent))
                .map(|(percent, ms)| ValueMark {
                    label: format!("p{percent}"),
                    value: ms * 1e6,
                });
            section.chart(
                key,
                Drawing::Histogram(Histogram::from_values(
                    title,
                    Unit::Nanoseconds,
                    &values,
                    marks.collect(),
                )),
            );
        }
    }
}

/// The result for a terminal, in the words of `vllm bench serve`.
pub fn result_tables(summary: &LoadSummary) -> Vec<Table> {
    let mut totals = Table::new(&["Serving benchmark result", ""], 1);
    let rows = [
        (
            "Successful requests",
            Some(summary.figures.completed as f64),
        ),
        ("Failed requests", Some(summary.figures.failed as f64)),
        ("Benchmark duration, s", Some(summary.figures.duration_s)),
        (
            "Total input tokens",
            summary.figures.total_input_tokens.map(|n| n as f64),
        ),
        (
            "Total generated tokens",
            summary.figures.total_output_tokens.map(|n| n as f64),
        ),
        (
            "Request throughput, req/s",
            Some(summary.figures.request_throughput),
        ),
        (
            "Output token throughput, tok/s",
            summary.figures.output_throughput,
        ),
        (
            "Total token throughput, tok/s",
            summary.figures.total_token_throughput,
        ),
        ("Request goodput, req/s", summary.figures.goodput),
        (
            "Peak concurrent requests",
            Some(summary.concurrency.max as f64),
        ),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            totals.row([name.to_owned(), format_significant(value)]);
        }
    }
    let mut latencies = Table::new(&["Latency, ms", "Mean", "Median", "P90", "P99"], 1);
    for (name, distribution) in [
        ("TTFT", summary.figures.ttft_ms),
        ("TPOT", summary.figures.tpot_ms),
        ("ITL", summary.figures.itl_ms),
        ("E2EL", summary.figures.e2e_ms),
    ] {
        if let Some(distribution) = distribution {
            latencies.row([
                name.to_owned(),
                format_significant(distribution.mean),
                format_significant(distribution.p50),
                sentences::percentile_cell(Some(distribution), 90),
                sentences::percentile_cell(Some(distribution), 99),
            ]);
        }
    }
    let tables = [totals, latencies];
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

/// The rates that a sweep tried.
pub(super) fn curve(section: &mut Section, sweep: &Sweep<LoadSummary>) {
    let mut table = Table::new(
        &[
            "Objectives",
            "Rate asked",
            "Requests/s",
            "Output tokens/s",
            "Goodput",
            "TTFT p50",
            "TTFT p99",
            "TPOT p50",
            "TPOT p99",
            "Failed",
        ],
        1,
    );
    let cell = sentences::number;
    for point in &sweep.points {
        let s = &point.summary;
        table.row([
            sentences::met(point.is_met).to_owned(),
            format_significant(point.rate),
            format_significant(s.figures.request_throughput),
            cell(s.figures.output_throughput),
            cell(s.figures.goodput),
            cell(s.figures.ttft_ms.map(|d| d.p50)),
            sentences::percentile_cell(s.figures.ttft_ms, 99),
            cell(s.figures.tpot_ms.map(|d| d.p50)),
            sentences::percentile_cell(s.figures.tpot_ms, 99),
            s.figures.failed.to_string(),
        ]);
    }
    draw(section, sweep);
    section.paragraph(sentences::sweep_basis(sweep));
    section.table(table);
}

/// Latency against throughput: what a server pays for more requests per second.
fn draw(section: &mut Section, sweep: &Sweep<LoadSummary>) {
    type Latency = fn(&LoadSummary) -> Option<Distribution>;
    let charts: [(&str, &str, Latency); 2] = [
        ("latency_throughput_ttft", "TTFT by requests/s", |s| {
            s.figures.ttft_ms
        }),
        ("latency_throughput_tpot", "TPOT by requests/s", |s| {
            s.figures.tpot_ms
        }),
    ];
    for (key, title, latency) in charts {
        let curve = |label: &str, statistic: fn(&Distribution) -> f64| {
            let points = sweep.points.iter().filter_map(|point| {
                let distribution = latency(&point.summary)?;
                Some((
                    point.summary.figures.request_throughput,
                    1e6 * statistic(&distribution),
                ))
            });
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            PlottedCurve {
                label: label.to_owned(),
                points,
            }
        };
        let mut lines = vec![curve("p50", |d| d.p50)];
        let mut loads = sweep.points.iter();
        if loads.all(|point| {
            latency(&point.summary)
                .is_none_or(|distribution| has_percentile(distribution.count, 99))
        }) {
            lines.push(curve("p99", |d| d.p99));
        }
        if lines[0].points.len() > 1 {
            section.chart(
                key,
                Drawing::Curves(Curves {
                    title: title.to_owned(),
                    unit: Unit::Nanoseconds,
                    key: "requests/s".to_owned(),
                    lines,
                }),
            );
        }
    }
}
