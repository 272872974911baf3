//! The report of a load: every sentence and chart of it.

use llmprof_load::{
    parts::MeanParts,
    record::RequestRecord,
    statistics::Distribution,
    summary::{Summary, in_flight},
    sweep::Sweep,
};
use llmprof_report::{
    Block, Document, Table,
    view::{
        Histogram, Line, Mark, Part, PartKind, ReportView, Section, Series, Unit, Waterfall,
        WaterfallPart,
    },
};
use llmprof_units::{Nanos, Percent, significant};

use super::{outcome::Outcome, session::Measured};

/// Most points of a line: a million requests draw no better than this many.
const MOST_POINTS: usize = 2000;

/// The page.
pub(super) fn view(outcome: &Outcome, measured: &Measured, sweep: Option<&Sweep>) -> ReportView {
    let mut sections = Vec::new();
    if let Some(sweep) = sweep {
        sections.push(Section::new(
            "Latency and throughput by rate",
            vec![Part::Document(curve(sweep))],
        ));
    }
    sections.push(Section::new("Latency", latency(&outcome.summary, measured)));
    if let Some(parts) = &outcome.parts {
        sections.push(Section::new(
            "Where a request's time went",
            time_went(parts),
        ));
    }
    sections.push(Section::new("Over time", over_time(measured)));
    if let Some(server) = server(outcome) {
        sections.push(Section::new(
            "The server's side",
            vec![Part::Document(server)],
        ));
    }
    sections.push(Section::new(
        "Findings",
        vec![Part::Document(findings(outcome))],
    ));
    sections.push(Section::new(
        "The client",
        vec![Part::Document(client(outcome))],
    ));
    ReportView {
        title: format!("{} at {}", outcome.model, outcome.endpoint),
        subtitle: outcome.load.clone(),
        conclusion: conclusion(outcome, sweep),
        issues: outcome.issues.clone(),
        sections,
    }
}

/// The result first, then why, then what to change.
pub(super) fn conclusion(outcome: &Outcome, sweep: Option<&Sweep>) -> Vec<String> {
    let summary = &outcome.summary;
    let mut lines = Vec::new();
    if let Some(sweep) = sweep {
        let slos: Vec<&str> = outcome.slos.iter().map(|slo| slo.slo.as_str()).collect();
        let slos = slos.join(" and ");
        lines.push(match (sweep.best_rate, sweep.first_failing_rate) {
            (Some(best), Some(failing)) => format!(
                "{} requests/s meet {slos}; {} do not.",
                significant(best),
                significant(failing)
            ),
            (Some(best), None) => format!(
                "{} requests/s, the highest rate tried, meet {slos}.",
                significant(best)
            ),
            (None, _) => format!("No rate that was tried meets {slos}."),
        });
    }
    let mut latencies = Vec::new();
    for (name, found) in [
        ("TTFT", &summary.ttft_ms),
        ("TPOT", &summary.tpot_ms),
        ("latency", &summary.e2e_ms),
    ] {
        if let Some(found) = found {
            latencies.push(format!(
                "{name} {} ms (p99 {})",
                significant(found.p50),
                significant(found.p99)
            ));
        }
    }
    if latencies.is_empty() {
        lines.push("No request has a result.".to_owned());
    } else {
        lines.push(format!("{}.", latencies.join(", ")));
    }
    let tokens = summary.output_throughput.map_or(String::new(), |rate| {
        format!(", {} output tokens/s", significant(rate))
    });
    let failed = if summary.failed > 0 {
        format!(", {} failed", summary.failed)
    } else {
        String::new()
    };
    lines.push(format!(
        "{} requests/s{tokens}; {} completed{failed} in {} s.",
        significant(summary.request_throughput),
        summary.completed,
        significant(summary.duration_s)
    ));
    for slo in &outcome.slos {
        let value = slo.value_ms.map_or("not known".to_owned(), |value| {
            format!("{} ms", significant(value))
        });
        let verdict = if slo.is_met { "met" } else { "not met" };
        lines.push(format!("{}: {verdict} ({value}).", slo.slo));
    }
    if let Some(finding) = outcome.findings.first() {
        lines.push(format!(
            "{}. Try: {} (upper bound: {}).",
            capital(&finding.evidence),
            finding.knob,
            finding.upper_bound
        ));
    }
    lines
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn latency(summary: &Summary, measured: &Measured) -> Vec<Part> {
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
        ("to the last token", summary.e2e_ms),
        ("between arrivals of text", summary.arrival_gap_ms),
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
    let mut document = Document::default();
    document.paragraph(
        "From the time a request was due, failed requests left out. TPOT is (last − first token) ÷ (output tokens − 1), one value a request; \
         ITL is the time to each token after the first. Intervals need no shape of the distribution; tokens of one request depend on each \
         other, so ITL has none, and the 99th percentile needs 368 values.",
    );
    document.table(table);
    if let Some(steady) = &summary.steady_state {
        let of = |found: &Option<Distribution>| {
            found.map_or("–".to_owned(), |d| {
                format!("{} (p99 {})", significant(d.p50), significant(d.p99))
            })
        };
        document.paragraph(format!(
            "Steady state, from the first completion to the last request due ({} requests in {} s): {} requests/s, TTFT {} ms, TPOT {} ms.",
            steady.requests,
            significant(steady.end_s - steady.start_s),
            significant(steady.request_throughput),
            of(&steady.ttft_ms),
            of(&steady.tpot_ms)
        ));
    }
    let done = || measured.load.requests.iter().filter(|r| r.is_complete());
    let ttft: Vec<f64> = done().filter_map(|r| Some(r.ttft_ns()?.0 as f64)).collect();
    let itl: Vec<f64> = done()
        .filter_map(RequestRecord::inter_token_ns)
        .flatten()
        .collect();
    let mut parts = vec![Part::Document(document)];
    for (title, values, found) in [
        ("TTFT", ttft, summary.ttft_ms),
        ("ITL", itl, summary.itl_ms),
    ] {
        if let Some(found) = found {
            let marks =
                [("p50", found.p50), ("p90", found.p90), ("p99", found.p99)].map(|(label, ms)| {
                    Mark {
                        label: label.to_owned(),
                        value: ms * 1e6,
                    }
                });
            parts.push(Part::Histogram(Histogram::of(
                title,
                Unit::Nanoseconds,
                &values,
                marks.into(),
            )));
        }
    }
    parts
}

fn time_went(mean: &MeanParts) -> Vec<Part> {
    let nanos = |ms: f64| Nanos((ms * 1e6).round() as i64);
    let kind = |name: &str| match name {
        "decode" | "prefill" => PartKind::Floor,
        "queueing" | "waiting for other requests' prefill" => PartKind::Idle,
        "client" | "connection" | "network and API server" => PartKind::Copies,
        "queueing, prefill and network" => PartKind::Unattributed,
        _ => PartKind::Extra,
    };
    let parts: Vec<WaterfallPart> = mean
        .parts
        .iter()
        .map(|part| WaterfallPart {
            label: part.name.clone(),
            duration_ns: nanos(part.mean_ms),
            kind: kind(&part.name),
        })
        .collect();
    let mut table = Table::new(&["Part", "Known by", "Mean", "p99", "Share"], 2);
    for part in &mean.parts {
        table.row([
            part.name.clone(),
            part.source.clone(),
            nanos(part.mean_ms).to_string(),
            part.p99_ms
                .map_or("–".to_owned(), |ms| nanos(ms).to_string()),
            Percent(part.mean_ms / mean.e2e_ms).to_string(),
        ]);
    }
    let mut document = Document::default();
    document.paragraph(format!(
        "Parts of each of {} requests add up to its measured latency (`requests.csv`); these are their means.",
        mean.requests
    ));
    document.table(table);
    if !mean.not_split.is_empty() {
        document.push(Block::Heading(1, "Not split".to_owned()));
        document.list(mean.not_split.clone());
    }
    let wall_ns = parts.iter().map(|part| part.duration_ns).sum();
    vec![
        Part::Waterfall(Waterfall {
            phase: "the mean request".to_owned(),
            wall_ns,
            parts,
        }),
        Part::Document(document),
    ]
}

fn thinned(mut samples: Vec<(Nanos, f64)>) -> Vec<(Nanos, f64)> {
    samples.sort_by_key(|sample| sample.0);
    let every = samples.len().div_ceil(MOST_POINTS).max(1);
    samples.into_iter().step_by(every).collect()
}

fn over_time(measured: &Measured) -> Vec<Part> {
    let done = || measured.load.requests.iter().filter(|r| r.is_complete());
    let line = |label: &str, samples: Vec<(Nanos, f64)>| Line {
        label: label.to_owned(),
        samples: thinned(samples),
    };
    let series = |title: &str, unit: Unit, lines: Vec<Line>| {
        let lines: Vec<Line> = lines
            .into_iter()
            .filter(|line| !line.samples.is_empty())
            .collect();
        (!lines.is_empty()).then(|| {
            Part::Series(Series {
                title: title.to_owned(),
                unit,
                lines,
                bands: Vec::new(),
            })
        })
    };
    let latency = series(
        "Latency by time due",
        Unit::Nanoseconds,
        vec![
            line(
                "TTFT",
                done()
                    .filter_map(|r| Some((r.scheduled_ns, r.ttft_ns()?.0 as f64)))
                    .collect(),
            ),
            line(
                "to the last token",
                done()
                    .filter_map(|r| Some((r.scheduled_ns, r.e2e_ns()?.0 as f64)))
                    .collect(),
            ),
        ],
    );
    let mut counts = vec![line(
        "in flight (client)",
        in_flight(&measured.load.requests)
            .into_iter()
            .map(|(at, count)| (at, count as f64))
            .collect(),
    )];
    let mut kv = Vec::new();
    if let Some(server) = &measured.server {
        let gauge = |value: fn(&llmprof_load::server::families::Gauges) -> Option<f64>| {
            let samples = server.scrapes.gauges.iter();
            samples
                .filter_map(|(at, gauges)| {
                    Some((Nanos(at - measured.load.started_unix_ns), value(gauges)?))
                })
                .collect()
        };
        counts.push(line("running (server)", gauge(|g| g.running)));
        counts.push(line("waiting (server)", gauge(|g| g.waiting)));
        kv.push(line("KV cache in use", gauge(|g| g.kv_usage)));
    }
    [
        latency,
        series("Concurrency", Unit::Count, counts),
        series("KV cache", Unit::Fraction, kv),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn server(outcome: &Outcome) -> Option<Document> {
    let server = outcome.server.as_ref()?;
    let mut document = Document::default();
    document.paragraph(format!(
        "{}: its own histograms over the time of the load. Quantiles are no more exact than the buckets are wide.",
        server.family
    ));
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
    let summary = &outcome.summary;
    let rows = [
        ("TTFT", &window.ttft_ms, summary.ttft_ms),
        ("TPOT", &window.tpot_ms, summary.tpot_ms),
        ("ITL", &window.itl_ms, summary.itl_ms),
        ("to the last token", &window.e2e_ms, summary.e2e_ms),
        ("queueing", &window.queue_ms, None),
        ("prefill", &window.prefill_ms, None),
        ("decode", &window.decode_ms, None),
    ];
    for (name, found, client) in rows
        .into_iter()
        .filter_map(|(name, found, client)| Some((name, found.as_ref()?, client)))
    {
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), significant);
        table.row([
            name.to_owned(),
            cell(found.mean),
            cell(found.p50),
            cell(found.p90),
            cell(found.p99),
            significant(found.count),
            cell(client.map(|client| client.mean)),
        ]);
    }
    if !table.rows.is_empty() {
        document.table(table);
    }
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.push(format!("{name}: {}", significant(value)));
        }
    };
    fact("requests running, most", server.running_max);
    fact("requests waiting, most", server.waiting_max);
    fact(
        "KV cache in use, most, %",
        server.kv_usage_max.map(|share| 100.0 * share),
    );
    fact("preemptions", window.preemptions);
    fact(
        "prefix cache hits, %",
        window.prefix_cache_hit_rate.map(|share| 100.0 * share),
    );
    fact("tokens of a step, mean", window.tokens_per_step);
    fact("output tokens", window.output_tokens);
    fact("queueing, mean ms", window.queue_mean_ms);
    fact("compute, mean ms", window.compute_mean_ms);
    fact("time per output token, mean ms", window.tpot_mean_ms);
    fact("energy, J", window.energy_j);
    document.list(facts);
    if let Some(steps) = &outcome.steps {
        document.paragraph(format!(
            "The server's trace has {} engine steps, {} of them with prefill, {} sequences in a decode step; steps cover {} of the recording (`server/steps.csv`).",
            steps.count,
            steps.with_prefill,
            significant(steps.mean_decode_batch),
            Percent(steps.busy_share)
        ));
    }
    Some(document)
}

fn findings(outcome: &Outcome) -> Document {
    let mut document = Document::default();
    if let Some(why) = &outcome.no_findings {
        document.paragraph(format!("Nothing is concluded about the server: {why}."));
        return document;
    }
    if outcome.findings.is_empty() {
        document.paragraph(
            "No part of the latency that a setting of the server would remove takes a tenth of it.",
        );
    }
    let lines = outcome.findings.iter();
    document.list(
        lines
            .map(|f| {
                format!(
                    "{}. Try: {}. Upper bound: {}. [{}]",
                    capital(&f.evidence),
                    f.knob,
                    f.upper_bound,
                    f.code
                )
            })
            .collect(),
    );
    document
}

fn client(outcome: &Outcome) -> Document {
    let check = &outcome.self_check;
    let mut document = Document::default();
    let of = |found: &Option<Distribution>| {
        found.map_or("–".to_owned(), |d| {
            format!("{:.3} ms (p99 {:.3})", d.p50, d.p99)
        })
    };
    document.list(vec![
        if check.kept_up {
            "The client kept up."
        } else {
            "The client did not keep up."
        }
        .to_owned(),
        format!("Schedule lag: {}.", of(&check.schedule_lag_ms)),
        format!(
            "Busiest worker: {} of a core.",
            Percent(check.worker_cpu_share)
        ),
        format!(
            "Event loop delay: {} (up to 1 ms is the timer's own).",
            of(&check.event_loop_delay_ms)
        ),
        format!(
            "Tokens counted by: {}.",
            outcome
                .summary
                .token_basis
                .iter()
                .map(|(name, count)| format!("{name} ({count} requests)"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    ]);
    document
}

fn curve(sweep: &Sweep) -> Document {
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
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), significant);
    for point in &sweep.points {
        let s = &point.summary;
        table.row([
            if point.is_met { "met" } else { "not met" }.to_owned(),
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
    let mut document = Document::default();
    document.paragraph("Each rate has a load of its own, after the one before it was drained. Latencies in ms; the numbers below are those of the highest rate that met the objectives.");
    document.table(table);
    document
}
