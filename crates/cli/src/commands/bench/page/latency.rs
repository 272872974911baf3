//! Latencies of a load, and of each rate of a sweep.

use llmprof_analysis::serving::{Summary, Sweep};
use llmprof_load::{record::RequestRecord, statistics::Distribution};
use llmprof_report::{
    Drawing, Section, Table,
    text::bench,
    view::{Curve, Curves, Histogram, Mark, Unit},
};
use llmprof_units::significant;

use crate::commands::bench::session::Measured;

pub(super) fn add(section: &mut Section, summary: &Summary, measured: &Measured) {
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
        ("TTFT", summary.ttft_ms),
        ("TPOT", summary.tpot_ms),
        ("ITL", summary.itl_ms),
        ("end-to-end latency", summary.e2e_ms),
        ("inter-chunk latency", summary.arrival_gap_ms),
    ];
    for (name, found) in rows
        .into_iter()
        .filter_map(|(name, found)| Some((name, found?)))
    {
        let interval = found.ci95.and_then(|ci| ci.p99);
        table.row([
            name.to_owned(),
            significant(found.mean),
            significant(found.p50),
            significant(found.p90),
            significant(found.p99),
            interval.map_or("–".to_owned(), |[low, high]| {
                format!("{} – {}", significant(low), significant(high))
            }),
            found.count.to_string(),
        ]);
    }
    section.paragraph(bench::LATENCY_BASIS);
    section.paragraph(bench::timed(summary.timed, summary.completed));
    section.table(table);
    if let Some(steady) = &summary.steady_state {
        section.paragraph(bench::steady_state(
            steady.requests,
            steady.end_s - steady.start_s,
            steady.request_throughput,
            steady.ttft_ms,
            steady.tpot_ms,
            summary.server_stopped_s.is_some(),
        ));
    }
    let timed = || measured.load.timed();
    let ttft: Vec<f64> = timed()
        .filter_map(|r| Some(r.ttft_ns()?.0 as f64))
        .collect();
    let itl: Vec<f64> = timed()
        .filter_map(RequestRecord::inter_token_ns)
        .flatten()
        .collect();
    for (key, title, values, found) in [
        ("ttft", "TTFT", ttft, summary.ttft_ms),
        ("itl", "ITL", itl, summary.itl_ms),
    ] {
        if let Some(found) = found {
            let marks =
                [("p50", found.p50), ("p90", found.p90), ("p99", found.p99)].map(|(label, ms)| {
                    Mark {
                        label: label.to_owned(),
                        value: ms * 1e6,
                    }
                });
            section.chart(
                key,
                Drawing::Histogram(Histogram::of(
                    title,
                    Unit::Nanoseconds,
                    &values,
                    marks.into(),
                )),
            );
        }
    }
}

/// The result for a terminal, in the words of `vllm bench serve`.
pub(in crate::commands::bench) fn result(summary: &Summary) -> Vec<Table> {
    let mut totals = Table::new(&["Serving benchmark result", ""], 1);
    let rows = [
        ("Successful requests", Some(summary.completed as f64)),
        ("Failed requests", Some(summary.failed as f64)),
        ("Benchmark duration, s", Some(summary.duration_s)),
        (
            "Total input tokens",
            summary.total_input_tokens.map(|n| n as f64),
        ),
        (
            "Total generated tokens",
            summary.total_output_tokens.map(|n| n as f64),
        ),
        (
            "Request throughput, req/s",
            Some(summary.request_throughput),
        ),
        ("Output token throughput, tok/s", summary.output_throughput),
        (
            "Total token throughput, tok/s",
            summary.total_token_throughput,
        ),
        ("Request goodput, req/s", summary.goodput),
        (
            "Peak concurrent requests",
            Some(summary.concurrency.max as f64),
        ),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            totals.row([name.to_owned(), significant(value)]);
        }
    }
    let mut latencies = Table::new(&["Latency, ms", "Mean", "Median", "P90", "P99"], 1);
    for (name, found) in [
        ("TTFT", summary.ttft_ms),
        ("TPOT", summary.tpot_ms),
        ("ITL", summary.itl_ms),
        ("E2EL", summary.e2e_ms),
    ] {
        if let Some(found) = found {
            latencies.row([
                name.to_owned(),
                significant(found.mean),
                significant(found.p50),
                significant(found.p90),
                significant(found.p99),
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
pub(super) fn curve(section: &mut Section, sweep: &Sweep) {
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
    let cell = bench::number;
    for point in &sweep.points {
        let s = &point.summary;
        table.row([
            bench::met(point.is_met).to_owned(),
            significant(point.rate),
            significant(s.request_throughput),
            cell(s.output_throughput),
            cell(s.goodput),
            cell(s.ttft_ms.map(|d| d.p50)),
            cell(s.ttft_ms.map(|d| d.p99)),
            cell(s.tpot_ms.map(|d| d.p50)),
            cell(s.tpot_ms.map(|d| d.p99)),
            s.failed.to_string(),
        ]);
    }
    draw(section, sweep);
    section.paragraph(bench::SWEEP_BASIS);
    section.table(table);
}

/// Latency against throughput: what a server pays for more requests per second.
fn draw(section: &mut Section, sweep: &Sweep) {
    type Latency = fn(&Summary) -> Option<Distribution>;
    let charts: [(&str, &str, Latency); 2] = [
        ("latency_throughput_ttft", "TTFT by requests/s", |s| {
            s.ttft_ms
        }),
        ("latency_throughput_tpot", "TPOT by requests/s", |s| {
            s.tpot_ms
        }),
    ];
    for (key, title, latency) in charts {
        let curve = |label: &str, statistic: fn(&Distribution) -> f64| {
            let points = sweep.points.iter().filter_map(|point| {
                let found = latency(&point.summary)?;
                Some((point.summary.request_throughput, 1e6 * statistic(&found)))
            });
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve {
                label: label.to_owned(),
                points,
            }
        };
        let lines = vec![curve("p50", |d| d.p50), curve("p99", |d| d.p99)];
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
