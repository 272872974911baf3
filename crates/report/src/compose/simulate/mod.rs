//! A simulation: what `llmprof simulate` prints.

mod sentences;

use llmprof_analysis::serving::SloOutcome;
use llmprof_simulate::{
    LoadLevel, Settings, SimulatedLoad,
    calibrated::FittedSteps,
    search::{Replicas, SettingsCandidate},
    stability::{Overload, Unsettled},
};
use llmprof_traffic::{figures::LoadFigures, statistics::Distribution};
use llmprof_units::{Nanos, format_significant};
use schemars::JsonSchema;
use serde::Serialize;

use self::sentences::{self as text, CalibrationFit, Over};
use super::serving::sentences::{self as bench, ObjectiveContext};
use crate::{Cell, Document, Table};

pub use self::sentences::load_line;

/// What a simulation came to; `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub struct Simulated {
    /// Always `predicted`.
    pub basis: &'static str,
    /// The load in a line.
    pub load: String,
    /// Settings of the engine.
    pub settings: Settings,
    /// Where step times come from.
    pub step_time: StepTimeBasis,
    /// GPUs of all replicas.
    pub gpus: u64,
    /// Objectives and whether they are met.
    pub slos: Vec<SloOutcome>,
    /// Whether every objective is met.
    pub is_met: bool,
    /// What the load came to.
    pub summary: SimulatedLoad,
    /// Latencies of the first half of the requests that differ from those of all.
    pub unsettled: Vec<Unsettled>,
    /// Requests that arrive and are served per second, where the queue grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// Settings that were tried, the best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<SettingsCandidate>>,
    /// Replicas that were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
}

/// What step times rest on.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepTimeBasis {
    Predicted {
        /// Name of the model.
        model: String,
        /// Name of the device.
        device: String,
        /// Profile of efficiencies that was used.
        efficiencies: String,
        /// Host time added to every step.
        overhead_ns: Nanos,
        /// GPUs that share the model.
        gpus: u64,
    },
    Calibrated {
        /// File of engine steps that times were fitted to.
        trace: String,
        /// Fitted step times.
        calibration: FittedSteps,
    },
}

impl StepTimeBasis {
    /// GPUs of one engine.
    pub fn gpus(&self) -> u64 {
        match self {
            Self::Predicted { gpus, .. } => *gpus,
            Self::Calibrated { .. } => 1,
        }
    }
}

/// Candidates that a page lists.
const CANDIDATES_LISTED_MAX: usize = 10;

pub fn document(simulated: &Simulated) -> Document {
    let mut document = Document::new(text::TITLE);
    document.subtitle.clone_from(&simulated.load);
    document.summary = summary(simulated);
    let section = document.section("latency", "Latency");
    section.table(latencies(&simulated.summary.figures));
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
        for candidate in candidates.iter().take(CANDIDATES_LISTED_MAX) {
            let (load, s) = (&candidate.summary, &candidate.summary.figures);
            let cell = bench::number;
            let met = bench::met(candidate.is_met);
            let goodput = s.goodput.map(format_significant);
            let figures = [
                candidate.settings.max_num_batched_tokens.to_string(),
                candidate.settings.max_num_seqs.to_string(),
                format_significant(s.request_throughput),
                cell(s.ttft_ms.map(|d| d.p50)),
                cell(s.ttft_ms.map(|d| d.p99)),
                cell(s.tpot_ms.map(|d| d.p50)),
                cell(s.tpot_ms.map(|d| d.p99)),
                load.preemptions.to_string(),
            ];
            // Without objectives none is met, and there is no goodput.
            let objectives = [has_objectives.then(|| met.to_owned()), goodput];
            let objectives = objectives.map(|known| known.map_or(Cell::Missing, Cell::from));
            table.row(objectives.into_iter().chain(figures.map(Cell::from)));
        }
        let section = document.section("settings", "Settings");
        let listed = CANDIDATES_LISTED_MAX.min(candidates.len());
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
    let s = &simulated.summary.figures;
    let mut lines = Vec::new();
    if let Some(replicas) = &simulated.replicas {
        let slos: Vec<&str> = simulated.slos.iter().map(|slo| slo.slo.as_str()).collect();
        let slos = slos.join(" and ");
        lines.push(text::replicas(
            replicas.fewest,
            simulated.gpus,
            replicas.tried,
            &slos,
        ));
    }
    if let Some([best, others @ ..]) = simulated.candidates.as_deref() {
        let latencies =
            |one: &SettingsCandidate| (one.summary.figures.ttft_ms, one.summary.figures.tpot_ms);
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
    lines.push(text::throughput(s));
    if s.failed > 0 {
        lines.push(text::refused(s.failed));
    }
    let objectives = simulated.slos.iter();
    lines.extend(objectives.map(|slo| bench::objective(slo, &ObjectiveContext::default())));
    let unsettled = simulated.unsettled.iter();
    let unsettled: Vec<String> = unsettled
        .map(|one| text::moved(&one.statistic, one.half_ms, one.all_ms))
        .collect();
    match &simulated.overload {
        Some(overload) => lines.push(text::overloaded(
            overload.asked_per_s,
            overload.served_per_s,
            &unsettled,
        )),
        None if !unsettled.is_empty() => {
            lines.push(text::unsettled(s.completed + s.failed, &unsettled));
        }
        None => {}
    }
    lines
}

fn latencies(summary: &LoadFigures) -> Table {
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
    for (name, distribution) in rows {
        if let Some(distribution) = distribution {
            let values = [
                distribution.mean,
                distribution.p50,
                distribution.p90,
                distribution.p95,
                distribution.p99,
                distribution.max,
            ];
            let cells = [name.to_owned()];
            table.row(cells.into_iter().chain(values.map(format_significant)));
        }
    }
    table
}

fn engine(s: &SimulatedLoad) -> Vec<String> {
    let over = |level: LoadLevel| Over {
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
            s.figures.total_input_tokens.unwrap_or(0),
        ),
    ]
}

fn basis(simulated: &Simulated) -> Vec<String> {
    let settings = &simulated.settings;
    let step_time = match &simulated.step_time {
        StepTimeBasis::Predicted {
            model,
            device,
            efficiencies,
            overhead_ns,
            gpus,
        } => text::predicted(model, device, *gpus, efficiencies, *overhead_ns),
        StepTimeBasis::Calibrated { trace, calibration } => {
            let nanos = |ns: f64| Nanos(ns as i64);
            let fit = CalibrationFit {
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
