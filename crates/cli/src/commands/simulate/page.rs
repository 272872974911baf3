//! The page of a simulation: every sentence of it.

use llmprof_report::{Document, Table};
use llmprof_simulate::Summary;
use llmprof_traffic::statistics::Distribution;
use llmprof_units::{Count, Nanos, Percent, significant};

use super::{Simulated, step_time::Basis};

/// Candidates that a page lists.
const LISTED: usize = 10;

pub(super) fn document(simulated: &Simulated) -> Document {
    let mut document = Document::new("Simulated, not measured");
    document.subtitle.clone_from(&simulated.load);
    document.summary = summary(simulated);
    let section = document.section("latency", "Latency");
    section.table(latencies(&simulated.summary));
    section.list(engine(&simulated.summary));
    if let Some(candidates) = &simulated.candidates {
        let mut table = Table::new(
            &[
                "Objectives",
                "max_num_batched_tokens",
                "max_num_seqs",
                "Requests/s",
                "Goodput",
                "TTFT p50",
                "TTFT p99",
                "TPOT p50",
                "TPOT p99",
                "Preemptions",
            ],
            1,
        );
        for candidate in candidates.iter().take(LISTED) {
            let s = &candidate.summary;
            let cell = |value: Option<f64>| value.map_or("–".to_owned(), significant);
            table.row([
                if candidate.is_met { "met" } else { "not met" }.to_owned(),
                candidate.settings.max_num_batched_tokens.to_string(),
                candidate.settings.max_num_seqs.to_string(),
                significant(s.request_throughput),
                cell(s.goodput),
                cell(s.ttft_ms.map(|d| d.p50)),
                cell(s.ttft_ms.map(|d| d.p99)),
                cell(s.tpot_ms.map(|d| d.p50)),
                cell(s.tpot_ms.map(|d| d.p99)),
                s.preemptions.to_string(),
            ]);
        }
        let section = document.section("settings", "Settings");
        section.paragraph(format!(
            "The best {} of {} settings, by objectives met, goodput, TTFT p99 and TPOT; latencies in ms.",
            LISTED.min(candidates.len()),
            candidates.len()
        ));
        section.table(table);
    }
    document.section("basis", "Basis").list(basis(simulated));
    document
}

/// The result, then whether objectives are met.
fn summary(simulated: &Simulated) -> Vec<String> {
    let s = &simulated.summary;
    let mut lines = Vec::new();
    if let Some(found) = &simulated.replicas {
        let slos: Vec<&str> = simulated.slos.iter().map(|slo| slo.slo.as_str()).collect();
        let slos = slos.join(" and ");
        lines.push(match found.fewest {
            Some(count) => format!(
                "{} ({}) meet {slos}; fewer do not.",
                Count(count, "replica"),
                Count(simulated.gpus, "GPU")
            ),
            None => format!("Not even {} replicas meet {slos}.", found.tried),
        });
    }
    if simulated.candidates.is_some() {
        lines.push(format!(
            "Best settings: --max-num-batched-tokens {} --max-num-seqs {}.",
            simulated.settings.max_num_batched_tokens, simulated.settings.max_num_seqs
        ));
    }
    let named = [
        ("TTFT", s.ttft_ms),
        ("TPOT", s.tpot_ms),
        ("latency", s.e2e_ms),
    ];
    let shown: Vec<String> = named
        .into_iter()
        .filter_map(|(name, found)| {
            let found = found?;
            let (p50, p99) = (significant(found.p50), significant(found.p99));
            Some(format!("{name} {p50} ms (p99 {p99})"))
        })
        .collect();
    lines.push(if shown.is_empty() {
        "No request has a result.".to_owned()
    } else {
        format!("{}.", shown.join(", "))
    });
    let goodput = s.goodput.map_or(String::new(), |goodput| {
        format!(", goodput {} requests/s", significant(goodput))
    });
    lines.push(format!(
        "{} requests/s, {} output tokens/s{goodput}; {} completed in {} s.",
        significant(s.request_throughput),
        significant(s.output_throughput),
        s.completed,
        significant(s.duration_s)
    ));
    if s.failed > 0 {
        lines.push(format!(
            "{} requests are refused: with their answer they exceed the KV cache or, without chunked prefill, a step.",
            s.failed
        ));
    }
    for slo in &simulated.slos {
        let value = slo.value_ms.map_or("not known".to_owned(), |value| {
            format!("{} ms", significant(value))
        });
        let verdict = if slo.is_met { "met" } else { "not met" };
        lines.push(format!("{}: {verdict} ({value}).", slo.slo));
    }
    lines
}

fn latencies(summary: &Summary) -> Table {
    let mut table = Table::new(
        &["Latency, ms", "Mean", "p50", "p90", "p95", "p99", "Max"],
        1,
    );
    let rows: [(&str, Option<Distribution>); 4] = [
        ("TTFT", summary.ttft_ms),
        ("TPOT", summary.tpot_ms),
        ("ITL", summary.itl_ms),
        ("to the last token", summary.e2e_ms),
    ];
    for (name, found) in rows {
        if let Some(found) = found {
            let values = [
                found.mean, found.p50, found.p90, found.p95, found.p99, found.max,
            ];
            let cells = [name.to_owned()];
            table.row(cells.into_iter().chain(values.map(significant)));
        }
    }
    table
}

fn engine(s: &Summary) -> Vec<String> {
    vec![
        format!(
            "{} on {}, busy {} of the time; {} sequences run in a step (most {}), {} requests wait (most {}).",
            Count(s.steps, "step"),
            Count(s.replicas, "replica"),
            Percent(s.busy_share),
            significant(s.running.mean),
            s.running.max,
            significant(s.waiting.mean),
            s.waiting.max
        ),
        format!(
            "KV cache {} full on average, {} at most; {} preemptions threw {} tokens away; the prefix cache had {} of {} prompt tokens.",
            Percent(s.kv_usage.mean),
            Percent(s.kv_usage.max),
            s.preemptions,
            s.discarded_tokens,
            s.cached_tokens,
            s.total_input_tokens
        ),
    ]
}

fn basis(simulated: &Simulated) -> Vec<String> {
    let settings = &simulated.settings;
    let mut lines = vec![match &simulated.step_time {
        Basis::Predicted {
            model,
            device,
            efficiencies,
            overhead_ns,
            gpus,
        } => {
            let overhead = if *overhead_ns > Nanos(0) {
                format!(", and {overhead_ns} of the engine a step")
            } else {
                String::new()
            };
            let ranks = if *gpus > 1 {
                format!("{gpus} × ")
            } else {
                String::new()
            };
            format!(
                "Step times: predicted for {model} on {ranks}{device} with the efficiencies `{efficiencies}`{overhead}."
            )
        }
        Basis::Calibrated { trace, calibration } => format!(
            "Step times: fitted to {} engine steps of {trace}; steps left out of the fit are off by {} (median), {} (p90). Step {} + {} a token \
             + {} a sequence + {} a token of context.",
            calibration.steps,
            Percent(calibration.median_error),
            Percent(calibration.p90_error),
            Nanos(calibration.step_ns as i64),
            Nanos(calibration.token_ns as i64),
            Nanos(calibration.sequence_ns as i64),
            Nanos(calibration.context_token_ns as i64),
        ),
    }];
    lines.push(format!(
        "Engine: max_num_batched_tokens {}, max_num_seqs {}, {} KV blocks of {} tokens, chunked prefill {}, prefix caching {}.",
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        settings.kv_blocks,
        settings.block_size,
        on(settings.chunked_prefill),
        on(settings.prefix_caching)
    ));
    lines.push(
        "Latencies end when the engine has the token: network, tokenization and the client are not in them.".to_owned(),
    );
    lines
}

fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}
