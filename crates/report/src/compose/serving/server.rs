//! The server's side of a load: its metrics, its engine steps, and both sides over time.

use llmprof_analysis::serving::{ServerUse, StepsUse, in_flight};
use llmprof_record::{
    samples::{GpuSample, GpuSeries, Samples},
    serving::{Bound, Gauges, ServedLoad},
};
use llmprof_traffic::figures::LoadSummary;
use llmprof_units::{Nanos, Percent, Watts, format_significant};

use super::sentences;
use crate::view::{Series, SeriesLine, Unit};
use crate::{Drawing, Section, Table};

/// Most points of a line: a million requests draw no better than this many.
const POINTS_MAX: usize = 2000;

fn thinned(mut samples: Vec<(Nanos, f64)>) -> Vec<(Nanos, f64)> {
    samples.sort_by_key(|sample| sample.0);
    let every = samples.len().div_ceil(POINTS_MAX).max(1);
    samples.into_iter().step_by(every).collect()
}

/// Latencies, concurrency and KV cache over the time of the load.
pub(super) fn over_time(section: &mut Section, served: &ServedLoad, samples: Option<&Samples>) {
    let timed = || served.load.timed();
    let line = |label: &str, samples: Vec<(Nanos, f64)>| SeriesLine {
        is_held: false,
        label: label.to_owned(),
        samples: thinned(samples),
    };
    let mut series = |key: &str, title: &str, unit: Unit, lines: Vec<SeriesLine>| {
        let lines: Vec<SeriesLine> = lines
            .into_iter()
            .filter(|line| !line.samples.is_empty())
            .collect();
        if lines.is_empty() {
            return;
        }
        section.chart(
            key,
            Drawing::Series(Series {
                key: key.to_owned(),
                title: title.to_owned(),
                unit,
                lines,
                bands: Vec::new(),
            }),
        );
    };
    series(
        "latency_over_time",
        "Latency by time due",
        Unit::Nanoseconds,
        vec![
            line(
                "TTFT",
                timed()
                    .filter_map(|r| Some((r.scheduled_ns, r.ttft_ns()?.0 as f64)))
                    .collect(),
            ),
            line(
                "end-to-end latency",
                timed()
                    .filter_map(|r| Some((r.scheduled_ns, r.e2e_ns()?.0 as f64)))
                    .collect(),
            ),
        ],
    );
    let in_flight = in_flight(&served.load.requests).into_iter();
    let mut counts = vec![SeriesLine {
        is_held: true,
        ..line(
            "in flight (client)",
            in_flight.map(|(at, count)| (at, count as f64)).collect(),
        )
    }];
    let mut kv = Vec::new();
    if let Some(server) = &served.server {
        let gauge = |value: fn(&Gauges) -> Option<f64>| {
            let samples = server.gauges.iter();
            samples
                .filter_map(|(at, gauges)| {
                    Some((*at - served.load.started_unix_ns, value(gauges)?))
                })
                .collect()
        };
        counts.push(line("running (server)", gauge(|g| g.running)));
        counts.push(line("waiting (server)", gauge(|g| g.waiting)));
        kv.push(line("KV cache in use", gauge(|g| g.kv_usage)));
    }
    series("concurrency", "Concurrency", Unit::Count, counts);
    series("kv_cache", "KV cache", Unit::Fraction, kv);
    let Some(samples) = samples else {
        return;
    };
    for (key, title, unit, value) in GPU_CURVES {
        let lines = samples.gpus.iter().take(GPUS_MAX).map(|gpu| {
            let started = served.load.started_unix_ns;
            line(
                &format!("GPU {} ({})", gpu.index, gpu.name),
                gpu_curve(samples, gpu, started, value),
            )
        });
        series(key, title, *unit, lines.collect());
    }
}

/// The most lines that a reader can distinguish in a chart.
const GPUS_MAX: usize = 16;

type GpuCurve = (
    &'static str,
    &'static str,
    Unit,
    fn(&GpuSample) -> Option<f64>,
);

/// What is drawn of the GPUs of this machine.
const GPU_CURVES: &[GpuCurve] = &[
    (
        "gpu_utilization",
        "GPU utilization",
        Unit::Fraction,
        |row| Some(row.gpu_percent? / 100.0),
    ),
    ("gpu_power", "GPU power", Unit::Watts, |row| {
        Some(power(row)?.0)
    }),
    ("gpu_memory", "GPU memory in use", Unit::Bytes, |row| {
        Some(row.memory_used_bytes?.0 as f64)
    }),
];

pub(super) fn add(section: &mut Section, server: &ServerUse, summary: &LoadSummary) {
    let is_until_profile = summary.timed < summary.figures.completed;
    section.paragraph(sentences::server_basis(&server.family, is_until_profile));
    let mut table = Table::new(
        &[
            "Server, ms",
            "Mean",
            "p50",
            "p90",
            "p99",
            "Requests",
            "Client's mean",
        ],
        1,
    );
    let window = &server.window;
    let rows = [
        ("TTFT", &window.ttft_ms, summary.figures.ttft_ms),
        ("TPOT", &window.tpot_ms, summary.figures.tpot_ms),
        ("ITL", &window.itl_ms, summary.figures.itl_ms),
        ("end-to-end latency", &window.e2e_ms, summary.figures.e2e_ms),
        ("queueing", &window.queue_ms, None),
        ("prefill", &window.prefill_ms, None),
        ("decode", &window.decode_ms, None),
    ];
    for (name, statistic, client) in rows
        .into_iter()
        .filter_map(|(name, statistic, client)| Some((name, statistic.as_ref()?, client)))
    {
        let cell = sentences::number;
        let quantile = |name: &str, value: Option<f64>| {
            let sign = match statistic.bounds.get(name) {
                None => "",
                Some(Bound::AtMost) => "≤ ",
                Some(Bound::AtLeast) => "≥ ",
            };
            format!("{sign}{}", cell(value))
        };
        table.row([
            name.to_owned(),
            cell(statistic.mean),
            quantile("p50", statistic.p50),
            quantile("p90", statistic.p90),
            quantile("p99", statistic.p99),
            format_significant(statistic.count),
            cell(client.map(|client| client.mean)),
        ]);
    }
    if !table.rows.is_empty() {
        section.table(table);
    }
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.push(format!("{name}: {}", format_significant(value)));
        }
    };
    fact("running requests, max", server.running_max);
    fact("waiting requests, max", server.waiting_max);
    fact(
        "KV cache usage, max, %",
        server.kv_usage_max.map(|share| 100.0 * share),
    );
    fact("preemptions", window.preemptions);
    fact(
        "prefix cache hits, %",
        window.prefix_cache_hit_rate.map(|share| 100.0 * share),
    );
    fact("tokens per step, mean", window.tokens_per_step);
    fact("output tokens", window.output_tokens);
    fact("queueing, mean ms", window.queue_mean_ms);
    fact("compute, mean ms", window.compute_mean_ms);
    fact("time per output token, mean ms", window.tpot_mean_ms);
    fact("energy, J", window.energy_j);
    section.list(facts);
}

/// Engine steps, and what the GPU did in them.
pub(super) fn steps(section: &mut Section, steps: &StepsUse) {
    section.paragraph(sentences::engine_steps(
        steps.count,
        steps.with_prefill,
        steps.mean_decode_batch,
        steps.busy_share,
    ));
    let columns = [
        "Steps",
        "Count",
        "Mean",
        "Sequences",
        "New tokens",
        "GPU busy",
        "Roofline",
        "% of roofline",
    ];
    let mut table = Table::new(&columns, 1);
    for kind in &steps.kinds {
        table.row([
            kind.kind.name().to_owned(),
            kind.count.to_string(),
            Nanos((kind.mean_ms * 1e6).round() as i64).to_string(),
            format_significant(kind.mean_sequences),
            format_significant(kind.mean_new_tokens),
            kind.gpu_busy_share
                .map_or("–".to_owned(), |share| Percent(share).to_string()),
            kind.roofline_ms.map_or("–".to_owned(), |ms| {
                Nanos((ms * 1e6).round() as i64).to_string()
            }),
            kind.roofline_share
                .map_or("–".to_owned(), |share| Percent(share).to_string()),
        ]);
    }
    section.table(table);
}

/// The power of the moment where it is reported.
fn power(row: &GpuSample) -> Option<Watts> {
    row.power_instant_w.or(row.power_w)
}

/// A curve of a GPU on the clock of the load.
fn gpu_curve(
    samples: &Samples,
    gpu: &GpuSeries,
    started_unix_ns: Nanos,
    value: impl Fn(&GpuSample) -> Option<f64>,
) -> Vec<(Nanos, f64)> {
    let zero = started_unix_ns - samples.unix_offset_ns;
    let rows = gpu.rows.iter();
    rows.filter_map(|row| Some((row.time_ns - zero, value(row)?)))
        .collect()
}
