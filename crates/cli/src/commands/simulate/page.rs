//! The page of a simulation.

use llmprof_report::compose::serving::sentences as bench;
use llmprof_report::text::simulate::{self as text, Fit, Over};
use llmprof_report::{Cell, Document, Table};
use llmprof_simulate::{Level, Summary, search::Candidate};
use llmprof_traffic::statistics::Distribution;
use llmprof_units::{Nanos, significant};

use super::{Simulated, step_time::Basis};

/// Candidates that a page lists.
const LISTED: usize = 10;

pub(super) fn document(simulated: &Simulated) -> Document {
    let mut document = Document::new(text::TITLE);
    document.subtitle.clone_from(&simulated.load);
    document.summary = summary(simulated);
    let section = document.section("latency", "Latency");
    section.table(latencies(&simulated.summary));
    section.list(engine(&simulated.summary));
    if let Some(candidates) = &simulated.candidates {
        let has_objectives = !simulated.slos.is_empty();
        let mut table = Table::new(
            &[
                "Objectives",
                "Goodput",
                "max_num_batched_tokens",
                "max_num_seqs",
                "Requests/s",
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
            let cell = bench::number;
            let met = bench::met(candidate.is_met);
            let goodput = s.goodput.map(significant);
            let figures = [
                candidate.settings.max_num_batched_tokens.to_string(),
                candidate.settings.max_num_seqs.to_string(),
                significant(s.request_throughput),
                cell(s.ttft_ms.map(|d| d.p50)),
                cell(s.ttft_ms.map(|d| d.p99)),
                cell(s.tpot_ms.map(|d| d.p50)),
                cell(s.tpot_ms.map(|d| d.p99)),
                s.preemptions.to_string(),
            ];
            // Without objectives none is met, and there is no goodput.
            let objectives = [has_objectives.then(|| met.to_owned()), goodput];
            let objectives = objectives.map(|known| known.map_or(Cell::Missing, Cell::from));
            table.row(objectives.into_iter().chain(figures.map(Cell::from)));
        }
        let section = document.section("settings", "Settings");
        let listed = LISTED.min(candidates.len());
        section.paragraph(text::settings_basis(
            listed,
            candidates.len(),
            has_objectives,
        ));
        section.table(table.without_empty_columns());
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
        lines.push(text::replicas(
            found.fewest,
            simulated.gpus,
            found.tried,
            &slos,
        ));
    }
    if let Some([best, others @ ..]) = simulated.candidates.as_deref() {
        let latencies = |one: &Candidate| (one.summary.ttft_ms, one.summary.tpot_ms);
        let alike = others
            .iter()
            .filter(|one| latencies(one) == latencies(best));
        lines.push(text::best_settings(
            best.settings.max_num_batched_tokens,
            best.settings.max_num_seqs,
            alike.count(),
            others.len(),
        ));
    }
    lines.push(bench::latencies(s.ttft_ms, s.tpot_ms, s.e2e_ms));
    lines.push(text::throughput(
        s.request_throughput,
        s.output_throughput,
        s.goodput,
        s.completed,
        s.duration_s,
    ));
    if s.failed > 0 {
        lines.push(text::refused(s.failed));
    }
    let objectives = simulated.slos.iter();
    lines.extend(objectives.map(|slo| bench::objective(&slo.slo, slo.is_met, slo.value_ms, None)));
    let unsettled = simulated.unsettled.iter();
    let unsettled: Vec<String> = unsettled
        .map(|one| text::moved(&one.statistic, one.half_ms, one.all_ms))
        .collect();
    if !unsettled.is_empty() {
        lines.push(text::unsettled(s.completed + s.failed, &unsettled));
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
        ("end-to-end latency", summary.e2e_ms),
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
    let over = |level: Level| Over {
        mean: level.mean,
        max: level.max,
    };
    vec![
        text::steps(
            s.steps,
            s.replicas,
            s.busy_share,
            over(s.running),
            over(s.waiting),
        ),
        text::kv_cache(
            over(s.kv_usage),
            s.preemptions,
            s.discarded_tokens,
            s.cached_tokens,
            s.total_input_tokens,
        ),
    ]
}

fn basis(simulated: &Simulated) -> Vec<String> {
    let settings = &simulated.settings;
    let step_time = match &simulated.step_time {
        Basis::Predicted {
            model,
            device,
            efficiencies,
            overhead_ns,
            gpus,
        } => text::predicted(model, device, *gpus, efficiencies, *overhead_ns),
        Basis::Calibrated { trace, calibration } => {
            let nanos = |ns: f64| Nanos(ns as i64);
            let fit = Fit {
                steps: calibration.steps as u64,
                median_error: calibration.median_error,
                p90_error: calibration.p90_error,
                step: nanos(calibration.step_ns),
                token: nanos(calibration.token_ns),
                sequence: nanos(calibration.sequence_ns),
                context_token: nanos(calibration.context_token_ns),
            };
            text::fitted(trace, &fit)
        }
    };
    let engine = text::engine(
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        (settings.kv_blocks, settings.sequence_blocks),
        settings.block_size,
        settings.chunked_prefill,
        settings.prefix_caching,
    );
    vec![step_time, engine, text::NOT_IN_LATENCIES.to_owned()]
}
