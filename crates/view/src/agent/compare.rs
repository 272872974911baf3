//! Two runs beside each other.

use llmprof_analysis::compare::{Comparison, PhaseComparison, Verdict};
use llmprof_report::compose::compare::sentences as words;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, AnswerBody, Caller, Next, ms, shortened};
use super::recorded_text::{RecordedNames, RecordedText};

const METRICS_MAX: usize = 12;
const PARTS_MAX: usize = 8;
const LINES_MAX: usize = 8;

/// What differs between two runs, and how sure that is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareAnswer {
    /// What the other is compared with.
    pub a: RecordedText,
    /// The second side.
    pub b: RecordedText,
    /// The result in sentences: gates first, then metrics or phases.
    pub result: Vec<String>,
    /// What is not alike beside what is measured: it may explain the difference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_alike: Vec<String>,
    /// Metrics of both sides, the headline first.
    pub metrics: Vec<MetricAnswer>,
    /// What the difference is made of, the largest part first.
    pub reasons: Vec<ReasonAnswer>,
}

impl AnswerBody for CompareAnswer {
    const NAME: &'static str = "compare";
    const CUT: &'static [&'static str] = &["reasons", "metrics", "not_alike", "result"];
}

/// One metric on both sides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetricAnswer {
    /// Name of the metric.
    pub metric: &'static str,
    /// Unit of `a` and `b`.
    pub unit: String,
    /// Value of side A.
    pub a: Option<f64>,
    /// Value of side B.
    pub b: Option<f64>,
    /// B ÷ A.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the ratio.
    pub ci_high: Option<f64>,
    /// `faster`, `slower`, `lower`, `higher`, `same`, `cannot_tell`, `not_comparable`: decided by the interval, never by the ratio alone.
    pub verdict: &'static str,
}

/// A part of the difference.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReasonAnswer {
    /// Metric that is explained, else the phase.
    pub metric: String,
    /// What changed.
    pub what: RecordedText,
    /// Time of side A.
    pub a_ms: f64,
    /// Time of side B.
    pub b_ms: f64,
    /// B − A.
    pub delta_ms: f64,
}

/// The answer about a comparison whose sentences are `lines`; `runs` are the sides as the caller names them, where each is one run.
pub fn compare_answer(
    comparison: &Comparison,
    result: &[String],
    not_alike: &[String],
    caller: &Caller,
    runs: Option<(&str, &str)>,
) -> Answer<CompareAnswer> {
    let names = RecordedNames::in_value(comparison);
    let marked = |lines: &[String]| -> Vec<String> {
        let lines = lines.iter().take(LINES_MAX);
        lines.map(|line| names.mark(line)).collect()
    };
    let metrics = comparison.metrics.iter().take(METRICS_MAX);
    let metrics = metrics.map(|metric| MetricAnswer {
        metric: metric.metric,
        unit: serde_json::to_value(metric.unit)
            .ok()
            .and_then(|unit| unit.as_str().map(str::to_owned))
            .unwrap_or_default(),
        a: metric.a,
        b: metric.b,
        ratio: metric.ratio,
        ci_low: metric.ci_low,
        ci_high: metric.ci_high,
        verdict: metric.verdict.name(),
    });
    let explanations = &comparison.explanations;
    let is_unexplained = |phase: &&PhaseComparison| {
        let mut explained = explanations.iter();
        phase.excluded_for.is_none() && !explained.any(|known| known.phase == phase.phase)
    };
    let phases = comparison.phases.iter().filter(is_unexplained);
    let named = explanations.iter().map(|known| (&known.metric, known));
    let explained = named.chain(phases.map(|phase| (&phase.phase, &phase.explanation)));
    let mut reasons: Vec<ReasonAnswer> = explained
        .flat_map(|(subject, explained)| {
            explained.parts.iter().map(|part| ReasonAnswer {
                metric: names.mark(subject),
                what: RecordedText::new(&words::part_name(part, explained)),
                a_ms: ms(part.a_ns),
                b_ms: ms(part.b_ns),
                delta_ms: ms(part.delta_ns),
            })
        })
        .collect();
    reasons.sort_by(|a, b| b.delta_ms.abs().total_cmp(&a.delta_ms.abs()));
    let hidden = reasons.len().saturating_sub(PARTS_MAX) as u64;
    reasons.truncate(PARTS_MAX);
    let mut answer = Answer::new(
        None,
        CompareAnswer {
            a: RecordedText::new(&comparison.a.label),
            b: RecordedText::new(&comparison.b.label),
            result: marked(result),
            not_alike: marked(not_alike),
            metrics: metrics.collect(),
            reasons,
        },
    );
    if hidden > 0 {
        answer.left_off.insert("reasons".to_owned(), hidden);
    }
    answer.abstained.extend(words::excluded(comparison));
    let undecided = comparison.metrics.iter();
    let undecided = undecided.filter(|metric| metric.verdict == Verdict::CannotTell);
    let undecided: Vec<&str> = undecided.map(|metric| metric.metric).collect();
    if !undecided.is_empty() {
        answer.abstained.push(format!(
            "no verdict for {}: there is no interval, or it does not decide; `result` says why",
            undecided.join(", ")
        ));
    }
    if comparison.metrics.is_empty() {
        let why = "no metric was measured without a profiler on both sides: times of phases are of one capture each and have no interval";
        answer.abstained.push(why.to_owned());
    }
    if let Some((_, b)) = runs {
        let mut arguments = Map::new();
        arguments.insert("run".to_owned(), Value::from(shortened(b)));
        let why = "causes in the second run";
        answer.next = vec![Next::new(caller, "summary", arguments, why)];
    }
    answer
}
