//! A plan: what `llmprof plan` prints.

mod sentences;

use llmprof_analysis::serving::SloOutcome;
use llmprof_simulate::{
    plan::{PlanAnswer, PlanCandidate},
    shift::{BenchErrors, ShiftFit},
};
use llmprof_traffic::slo::Slo;
use llmprof_units::format_significant;
use schemars::JsonSchema;
use serde::Serialize;

use self::sentences as text;
use super::serving::sentences::{self as bench, ObjectiveContext};
use crate::view::{Curves, PlottedCurve, Unit};
use crate::{Cell, Document, Drawing, Table};

/// The answer, as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub struct Planned {
    /// Always `predicted`.
    pub basis: &'static str,
    /// Name of the model.
    pub model: String,
    /// The load in a line.
    pub load: String,
    /// Requests per second.
    pub rate: f64,
    /// Devices that were considered.
    pub devices: Vec<String>,
    /// Profile of efficiencies that was used.
    pub efficiencies: String,
    /// Objectives.
    pub slos: Vec<String>,
    /// Whether the first candidate meets every objective.
    pub is_met: bool,
    /// The benches that step times were shifted by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Shifted>,
    #[serde(flatten)]
    pub plan: PlanAnswer,
}

/// Benches of a server, and what they say of predicted step times.
#[derive(Serialize, JsonSchema)]
pub struct Shifted {
    /// The overrides that name it.
    pub server: String,
    #[serde(flatten)]
    pub fit: ShiftFit,
}

/// Candidates that a page lists.
const CANDIDATES_LISTED_MAX: usize = 15;

pub fn document(planned: &Planned, slos: &[Slo]) -> Document {
    let mut document = Document::new(text::TITLE);
    document.subtitle = format!("{}, {}", planned.model, planned.load);
    document.summary = summary(planned, slos);
    let plan = &planned.plan;
    if !plan.candidates.is_empty() {
        let section = document.section("engines", "Engines");
        section.paragraph(text::listed(
            CANDIDATES_LISTED_MAX.min(plan.candidates.len()),
            plan.candidates.len(),
            plan.candidates
                .iter()
                .any(|one| one.cost_per_hour.is_some()),
        ));
        section.table(table(&plan.candidates));
        if let Some(curves) = pareto(&plan.candidates) {
            section.chart("pareto", Drawing::Curves(curves));
        }
    }
    let mut basis: Vec<String> = planned.from.iter().flat_map(shift_lines).collect();
    let failed = plan
        .failed
        .iter()
        .map(|(reason, engines)| text::failed(reason.key(), *engines, plan.considered));
    basis.extend(failed);
    if plan.not_simulated > 0 {
        basis.push(text::not_simulated(plan.not_simulated));
    }
    if !plan.candidates.is_empty()
        && plan
            .candidates
            .iter()
            .all(|one| one.cost_per_hour.is_none())
    {
        basis.push(text::NO_PRICES.to_owned());
    }
    basis.push(text::basis(&planned.efficiencies, &planned.devices));
    document.section("basis", "Basis").list(basis);
    document
}

fn shift_lines(from: &Shifted) -> [String; 2] {
    let fit = &from.fit;
    let listed = |errors: &BenchErrors| {
        let named = [("TTFT", Some(errors.ttft)), ("TPOT", errors.tpot)].into_iter();
        let each = named.filter_map(|(name, spread)| {
            spread.map(|spread| text::LatencyError {
                name,
                median: spread.median,
                worst: spread.worst,
            })
        });
        each.collect::<Vec<_>>()
    };
    let left_out = fit.left_out_error.as_ref().map(listed).unwrap_or_default();
    let shift = fit.shift;
    [
        text::shifted(fit.benches.len(), &from.server, shift.prefill, shift.decode),
        text::left_over(&left_out, &listed(&fit.predicted_error)),
    ]
}

fn summary(planned: &Planned, slos: &[Slo]) -> Vec<String> {
    let plan = &planned.plan;
    let Some(best) = plan.candidates.first() else {
        return vec![text::nothing(plan.considered)];
    };
    let mut lines = vec![if best.is_met {
        text::best(&named(best), best.replicas, best.gpus, best.cost_per_hour)
    } else {
        text::none_met(&named(best), best.replicas)
    }];
    lines.push(text::limits(
        best.settings.max_num_batched_tokens,
        best.settings.max_num_seqs,
        best.settings.kv_blocks,
    ));
    for slo in slos {
        let outcome = SloOutcome::new(slo, &best.steady.summary);
        lines.push(bench::objective(&outcome, &ObjectiveContext::default()));
    }
    if let Some(reason) = best.limited_by {
        lines.push(text::limited(reason.key(), best.limit_share));
    }
    if let Some(rate) = &plan.highest_rate {
        lines.push(text::highest_rate(rate.met, rate.missed));
    }
    if !best.steady.is_settled {
        lines.push(text::not_settled(best.steady.requests));
    }
    let own = |one: &&PlanCandidate| one.is_met && !one.is_narrowed;
    if best.is_met
        && best.is_narrowed
        && let Some(other) = plan.candidates.iter().find(own)
    {
        lines.push(text::own_formats(&named(other), other.replicas, other.gpus));
    }
    lines
}

/// `h100_sxm, tensor 2, weights fp8, KV cache bf16`.
fn named(one: &PlanCandidate) -> String {
    let parallel = &one.parallel;
    let mut words = vec![one.device.clone()];
    let spread = [
        ("tensor", parallel.tensor),
        ("pipeline", parallel.pipeline),
        ("expert", parallel.expert),
    ];
    let spread = spread.iter().filter(|(_, ranks)| *ranks > 1);
    words.extend(spread.map(|(name, ranks)| format!("{name} {ranks}")));
    words.push(format!("weights {}", one.weights));
    words.push(format!("KV cache {}", one.kv_dtype));
    words.extend(
        one.split
            .map(|split| text::split(split.prefill, split.decode)),
    );
    words.join(", ")
}

fn table(candidates: &[PlanCandidate]) -> Table {
    let headers = [
        "Objectives",
        "Device",
        "Weights",
        "KV cache",
        "Limited by",
        "GPUs",
        "Replicas",
        "Prefill",
        "Decode",
        "Tensor parallel",
        "Pipeline parallel",
        "Expert parallel",
        "Tokens a step, max",
        "Sequences, max",
        "TTFT p99, ms",
        "TPOT p99, ms",
        "KV usage, %",
        "GPU h / M tokens",
        "Cost / h",
    ];
    let mut table = Table::new(&headers, 5);
    for one in candidates.iter().take(CANDIDATES_LISTED_MAX) {
        let summary = &one.steady.summary;
        let cells = [
            Cell::from(bench::met(one.is_met).to_owned()),
            Cell::from(one.device.clone()),
            Cell::from(one.weights.clone()),
            Cell::from(one.kv_dtype.clone()),
            one.limited_by.map_or(Cell::Missing, |reason| {
                text::reason(reason.key()).to_owned().into()
            }),
            Cell::from(one.gpus.to_string()),
            Cell::from(one.replicas.to_string()),
            one.split
                .map_or(Cell::Missing, |split| split.prefill.to_string().into()),
            one.split
                .map_or(Cell::Missing, |split| split.decode.to_string().into()),
            Cell::from(one.parallel.tensor.to_string()),
            Cell::from(one.parallel.pipeline.to_string()),
            Cell::from(one.parallel.expert.to_string()),
            Cell::from(one.settings.max_num_batched_tokens.to_string()),
            Cell::from(one.settings.max_num_seqs.to_string()),
            Cell::from(bench::number(
                summary.figures.ttft_ms.map(|distribution| distribution.p99),
            )),
            Cell::from(bench::number(
                summary.figures.tpot_ms.map(|distribution| distribution.p99),
            )),
            Cell::from(format_significant(summary.kv_usage.max * 100.0)),
            Cell::from(format_significant(one.gpu_hours_per_million_output_tokens)),
            one.cost_per_hour
                .map_or(Cell::Missing, |cost| format_significant(cost).into()),
        ];
        table.row(cells);
    }
    table.without_empty_columns()
}

/// TPOT against cost, of the candidates of each device that no cheaper one of it beats.
fn pareto(candidates: &[PlanCandidate]) -> Option<Curves> {
    let has_prices = candidates.iter().any(|one| one.cost_per_hour.is_some());
    let mut lines: Vec<PlottedCurve> = Vec::new();
    for one in candidates.iter().filter(|one| one.is_met) {
        let tpot = one.steady.summary.figures.tpot_ms?.p99;
        let point = (one.cost_per_hour.unwrap_or(one.gpus as f64), tpot * 1e6);
        match lines.iter_mut().find(|line| line.label == one.device) {
            Some(line) => line.points.push(point),
            None => lines.push(PlottedCurve {
                label: one.device.clone(),
                points: vec![point],
            }),
        }
    }
    for line in &mut lines {
        line.points
            .sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut least = f64::INFINITY;
        line.points.retain(|point| {
            let is_better = point.1 < least;
            least = least.min(point.1);
            is_better
        });
    }
    let shown = lines.iter().map(|line| line.points.len()).sum::<usize>();
    (shown > 1).then(|| Curves {
        title: text::PARETO.to_owned(),
        unit: Unit::Nanoseconds,
        key: text::pareto_key(has_prices).to_owned(),
        lines,
    })
}
