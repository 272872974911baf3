//! Comparison of the runs of two sides.

use llmprof_units::stats::median;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::{central_values, paired_interval, unpaired_interval, unpaired_medians};
use super::comparability::{TraitDifference, list_differences, other_work};
use super::explanation::{Explanation, explain_metric, explain_phase};
use super::facts::{OperatorTime, PhaseFacts, RunFacts};
use super::metric::{ComparedMetric, MetricUnit};
use super::replaced::{WorkChange, find_changes};
use super::rounds::{Rounds, is_disturbed};
use super::verdict::{Verdict, rounds_needed};
use crate::row_order::sort_descending_f64;
use crate::stats::ValueDistribution;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareOptions {
    /// The relative difference that does not matter.
    pub resolution: f64,
    /// Whether the runs of both sides took turns, so that equal places are rounds.
    pub interleaved: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            resolution: 0.02,
            interleaved: false,
        }
    }
}

/// What differs between two sides, and why. Keys are stable.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Version of the layout of this file.
    pub schema_version: u32,
    /// The side that the other is compared with.
    pub a: SideFacts,
    /// The side that is judged: ratios are B ÷ A.
    pub b: SideFacts,
    /// Relative difference that does not matter.
    pub resolution: f64,
    /// Whether both sides hold the same recordings.
    pub is_same_recording: bool,
    /// Traits of the runs that differ, the most important first.
    pub differences: Vec<TraitDifference>,
    /// Absent where runs did not take turns.
    pub rounds: Option<Rounds>,
    /// Metrics that both sides have, the headline first.
    pub metrics: Vec<MetricComparison>,
    /// Of the headline metrics, the first first.
    pub explanations: Vec<Explanation>,
    /// Phases that both sides have.
    pub phases: Vec<PhaseComparison>,
}

/// The runs of one side.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SideFacts {
    /// Name of the side as the user gave it.
    pub label: String,
    /// Run directories or files of the side.
    pub runs: Vec<String>,
    /// `plain`, `captured`, `load`, or empty.
    pub measured_in: String,
    /// The first finding of the profiled run, as its report states it.
    pub first_finding: Option<String>,
}

/// The values that an interval is resampled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalBasis {
    /// Rounds of runs that took turns.
    Rounds,
    /// Runs of both sides, measured apart.
    Runs,
    /// Passes of one run a side: what varies between runs is not in it.
    Passes,
    /// Steps of one profiled pass a side: likewise.
    Single,
    /// Requests of one load a side: likewise. `a` and `b` are medians over them.
    Requests,
    /// The metric has no interval.
    None,
}

/// One metric on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetricComparison {
    /// Key of the metric, as `tpot`.
    pub metric: &'static str,
    /// Unit of `a` and `b`.
    pub unit: MetricUnit,
    /// The value that stands for side A: a median, or the estimate that `ratio` is formed from.
    pub a: Option<f64>,
    /// What stands for side B.
    pub b: Option<f64>,
    /// B ÷ A; null where the sides did other work.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % confidence interval of `ratio`.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of `ratio`.
    pub ci_high: Option<f64>,
    /// The conclusion that the interval allows about the difference.
    pub verdict: Verdict,
    /// The values that the interval is resampled from.
    pub basis: IntervalBasis,
    /// Values that the interval rests on, per side.
    pub values: usize,
    /// What differs in the work, where the metric cannot be compared for it.
    pub excluded_for: Option<String>,
    /// Whether runs that were measured apart were disturbed, so that an interval of their own passes decides nothing.
    pub disturbed: bool,
    /// Where the verdict is `cannot_tell`: rounds that would narrow the interval to the resolution.
    pub rounds_needed: Option<usize>,
}

/// One phase on both sides, ns per step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseComparison {
    /// Name of the phase as the report shows it.
    pub phase: String,
    /// Whether its work is that of a GPU.
    pub on_device: bool,
    /// What differs in the work, where the sides cannot be compared for it: the tables describe each side and explain nothing.
    pub excluded_for: Option<String>,
    /// Wall time of side A in the profiled pass.
    pub a_wall_ns: f64,
    /// Wall time of side B in the profiled pass.
    pub b_wall_ns: f64,
    /// Wall time of side A without a profiler.
    pub a_plain_ns: Option<f64>,
    /// Wall time of side B without a profiler.
    pub b_plain_ns: Option<f64>,
    /// The waterfall's parts on both sides.
    pub parts: Vec<PartComparison>,
    /// Idle time of both sides by cause.
    pub idle_causes: Vec<PartComparison>,
    /// Operators of the model on both sides.
    pub operators: Vec<PartComparison>,
    /// Kernels, or operators of a host: what replaced what, the largest difference first.
    pub kernels: Vec<WorkChange>,
    /// Times of single steps of side A.
    pub steps_a: Option<ValueDistribution>,
    /// Times of single steps of side B.
    pub steps_b: Option<ValueDistribution>,
    /// Of the wall time; parts sum to the difference.
    pub explanation: Explanation,
}

/// Something that both sides may have, ns per step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartComparison {
    /// Name of the part, cause or operator.
    pub name: String,
    /// Time of side A in a step; null where it has no such part.
    pub a_ns: Option<f64>,
    /// Time of side B in a step; null where it has no such part.
    pub b_ns: Option<f64>,
    /// Time of side B less that of side A, per step.
    pub delta_ns: f64,
}

impl Comparison {
    pub const SCHEMA_VERSION: u32 = 1;

    /// Compares the runs of two sides; the phases are those of the first run that was profiled. `None` if a side has no run.
    pub fn between(a: &[RunFacts], b: &[RunFacts], options: CompareOptions) -> Option<Self> {
        let (first, second) = (profiled_run(a)?, profiled_run(b)?);
        let differences = list_differences(first, second);
        let rounds = options.interleaved.then(|| Rounds::from_runs(a, b));
        let is_same_recording = a.len() == b.len() && a.iter().zip(b).all(is_same_run);
        let mut metrics: Vec<MetricComparison> = ComparedMetric::ALL
            .iter()
            .filter_map(|&metric| {
                compare_metric(metric, a, b, rounds.as_ref(), &differences, options)
            })
            .collect();
        if is_same_recording {
            for metric in &mut metrics {
                metric.verdict = Verdict::Same;
            }
        }
        order_by_change(&mut metrics);
        let explanations: Vec<Explanation> = metrics
            .iter()
            .filter(|metric| metric.verdict != Verdict::NotComparable)
            .filter_map(|metric| {
                let a_value = metric.a?;
                let b_value = a_value * metric.ratio?;
                explain_metric(metric.metric, (a_value, b_value), first, second)
            })
            .collect();
        Some(Self {
            schema_version: Self::SCHEMA_VERSION,
            a: side_facts(a, first),
            b: side_facts(b, second),
            resolution: options.resolution,
            phases: compare_phases(first, second, &differences, &explanations),
            is_same_recording,
            differences,
            rounds,
            metrics,
            explanations,
        })
    }

    pub fn metric(&self, key: &str) -> Option<&MetricComparison> {
        self.metrics.iter().find(|metric| metric.metric == key)
    }

    /// The first metric that has a verdict, else the first.
    pub fn headline(&self) -> Option<&MetricComparison> {
        let judged = |metric: &&MetricComparison| metric.verdict != Verdict::NotComparable;
        self.metrics.iter().find(judged).or(self.metrics.first())
    }
}

/// The run whose phases stand for the side.
fn profiled_run(runs: &[RunFacts]) -> Option<&RunFacts> {
    let has_phases = |run: &&RunFacts| !run.phases.is_empty();
    runs.iter().find(has_phases).or(runs.first())
}

fn side_facts(runs: &[RunFacts], first: &RunFacts) -> SideFacts {
    SideFacts {
        label: first.label.clone(),
        runs: runs.iter().map(|run| run.path.clone()).collect(),
        measured_in: first.measured_in.clone(),
        first_finding: first.first_finding.clone(),
    }
}

/// The median of a run's passes.
fn run_median(run: &RunFacts, metric: ComparedMetric) -> Option<f64> {
    let mut values = run.passes.get(metric.key)?.clone();
    median(&mut values).filter(|value| value.is_finite())
}

fn compare_metric(
    metric: ComparedMetric,
    a: &[RunFacts],
    b: &[RunFacts],
    rounds: Option<&Rounds>,
    differences: &[TraitDifference],
    options: CompareOptions,
) -> Option<MetricComparison> {
    let counts = |round: usize| rounds.is_none_or(|rounds| rounds.is_counted(round));
    let of_side = |runs: &[RunFacts]| -> Vec<Option<f64>> {
        let counted = runs.iter().enumerate().filter(|(round, _)| counts(*round));
        counted.map(|(_, run)| run_median(run, metric)).collect()
    };
    let (runs_a, runs_b) = (of_side(a), of_side(b));
    let flat = |runs: &[Option<f64>]| runs.iter().flatten().copied().collect::<Vec<f64>>();
    let (known_a, known_b) = (flat(&runs_a), flat(&runs_b));
    let mut values_of_sides = (median(&mut known_a.clone())?, median(&mut known_b.clone())?);
    let excluded_for = other_work(metric, differences);
    let (interval, basis, values) = if rounds.is_some() {
        let pairs: Vec<(f64, f64)> = runs_a
            .iter()
            .zip(&runs_b)
            .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
            .collect();
        (paired_interval(&pairs), IntervalBasis::Rounds, pairs.len())
    } else if known_a.len() > 1 && known_b.len() > 1 {
        let least = known_a.len().min(known_b.len());
        let interval = unpaired_interval(&known_a, &known_b);
        if let Some(values) = interval.and_then(|_| central_values(&known_a, &known_b)) {
            values_of_sides = values;
        }
        (interval, IntervalBasis::Runs, least)
    } else {
        let (passes_a, passes_b) = (pass_values(metric, a), pass_values(metric, b));
        let least = passes_a.len().min(passes_b.len());
        let basis = basis_of_one(metric, a, b);
        if basis == IntervalBasis::Requests {
            // What the benchmark itself reports of a load.
            (unpaired_medians(&passes_a, &passes_b), basis, least)
        } else {
            let interval = unpaired_interval(&passes_a, &passes_b);
            if let Some(values) = interval.and_then(|_| central_values(&passes_a, &passes_b)) {
                values_of_sides = values;
            }
            (interval, basis, least)
        }
    };
    let (value_a, value_b) = values_of_sides;
    let interval = interval.filter(|_| excluded_for.is_none());
    let disturbed = metric.is_speed && rounds.is_none() && a.iter().chain(b).any(is_disturbed);
    let verdict = match &excluded_for {
        Some(_) => Verdict::NotComparable,
        None if disturbed => Verdict::CannotTell,
        None => Verdict::from_interval(metric, interval, options.resolution),
    };
    let needed = interval
        .filter(|_| verdict == Verdict::CannotTell && basis == IntervalBasis::Rounds)
        .map(|interval| rounds_needed(interval, values, options.resolution));
    let ratio = value_b / value_a;
    Some(MetricComparison {
        metric: metric.key,
        unit: metric.unit,
        a: Some(value_a),
        b: Some(value_b),
        ratio: interval
            .map(|interval| interval.ratio)
            .or(Some(ratio).filter(|ratio| ratio.is_finite()))
            .filter(|_| excluded_for.is_none()),
        ci_low: interval.map(|interval| interval.low),
        ci_high: interval.map(|interval| interval.high),
        verdict,
        basis: if interval.is_some() {
            basis
        } else {
            IntervalBasis::None
        },
        values,
        excluded_for,
        disturbed,
        rounds_needed: needed,
    })
}

/// The values of all passes of a side.
fn pass_values(metric: ComparedMetric, runs: &[RunFacts]) -> Vec<f64> {
    let values = runs.iter().filter_map(|run| run.passes.get(metric.key));
    values.flatten().copied().collect()
}

/// What the interval of one run a side rests on.
fn basis_of_one(metric: ComparedMetric, a: &[RunFacts], b: &[RunFacts]) -> IntervalBasis {
    let is_load = |runs: &[RunFacts]| runs.iter().all(|run| run.measured_in == "load");
    if is_load(a) && is_load(b) {
        IntervalBasis::Requests
    } else if metric.is_of_profiled_pass {
        IntervalBasis::Single
    } else {
        IntervalBasis::Passes
    }
}

/// Whether both are one recording, wherever it was read from.
fn is_same_run((a, b): (&RunFacts, &RunFacts)) -> bool {
    let unnamed = |run: &RunFacts| RunFacts {
        label: String::new(),
        path: String::new(),
        ..run.clone()
    };
    unnamed(a) == unnamed(b)
}

/// Without intervals no metric is surer than another: the largest change is the headline. What cannot be compared comes last.
fn order_by_change(metrics: &mut [MetricComparison]) {
    let has_interval = |metric: &MetricComparison| metric.basis != IntervalBasis::None;
    if metrics.iter().any(has_interval) {
        return;
    }
    sort_descending_f64(metrics, |metric| {
        metric.ratio.map_or(-1.0, |ratio| ratio.ln().abs())
    });
}

/// Phases that both sides have, those of the headlines first.
fn compare_phases(
    a: &RunFacts,
    b: &RunFacts,
    differences: &[TraitDifference],
    explanations: &[Explanation],
) -> Vec<PhaseComparison> {
    let pairs = a
        .phases
        .iter()
        .filter_map(|phase| Some((phase, b.phase_like(phase)?)));
    let mut phases: Vec<PhaseComparison> = pairs
        .map(|(a, b)| compare_phase(a, b, differences))
        .collect();
    let place = |phase: &PhaseComparison| {
        let mut explained = explanations.iter();
        explained.position(|known| known.phase == phase.phase)
    };
    phases.sort_by_key(|phase| place(phase).unwrap_or(usize::MAX));
    phases
}

fn compare_phase(
    a: &PhaseFacts,
    b: &PhaseFacts,
    differences: &[TraitDifference],
) -> PhaseComparison {
    let metric = ComparedMetric::of_phase(a.phase, a.has_steps && b.has_steps);
    let operators = |phase: &PhaseFacts| -> Vec<(String, f64)> {
        let named_time = |row: &OperatorTime| (row.name.clone(), row.time_ns);
        phase.operators.iter().map(named_time).collect()
    };
    let mut by_operator = compare_parts(&operators(a), &operators(b));
    sort_descending_f64(&mut by_operator, |part| part.delta_ns.abs());
    PhaseComparison {
        phase: a.name.clone(),
        on_device: a.on_device,
        excluded_for: metric.and_then(|metric| other_work(metric, differences)),
        a_wall_ns: a.wall_ns,
        b_wall_ns: b.wall_ns,
        a_plain_ns: a.plain_wall_ns,
        b_plain_ns: b.plain_wall_ns,
        parts: compare_parts(&a.parts, &b.parts),
        idle_causes: compare_parts(&a.idle_causes, &b.idle_causes),
        operators: by_operator,
        kernels: find_changes(a, b),
        steps_a: ValueDistribution::from_values(&a.step_ns),
        steps_b: ValueDistribution::from_values(&b.step_ns),
        explanation: explain_phase(a, b),
    }
}

/// All parts that either side has, in the order of the first; a part that a side lacks counts as zero in the difference.
fn compare_parts(a: &[(String, f64)], b: &[(String, f64)]) -> Vec<PartComparison> {
    let sum_of = |parts: &[(String, f64)], name: &str| {
        let mut named = parts.iter().filter(|(known, _)| known == name).peekable();
        named
            .peek()
            .is_some()
            .then(|| named.map(|(_, time)| time).sum::<f64>())
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in a.iter().chain(b) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let (a_ns, b_ns) = (sum_of(a, name), sum_of(b, name));
            PartComparison {
                name: name.clone(),
                a_ns,
                b_ns,
                delta_ns: b_ns.unwrap_or(0.0) - a_ns.unwrap_or(0.0),
            }
        })
        .collect()
}
