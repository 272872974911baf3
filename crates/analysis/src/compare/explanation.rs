//! Where the difference of a metric comes from: parts that sum to it.
//!
//! On a device a step takes W = Σ work − overlap + idle. Work and overlap are those of the profiled pass, since a device works as long
//! whoever watches it; idle is what is left of the metric, which was measured without a profiler where it could be. On a host,
//! operators are the work and recording slows them as it slows the rest: there all parts are scaled from the profiled wall time
//! to the metric. Either way the parts sum to the difference.

use llmprof_record::run::RunPhase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{PhaseFacts, RunFacts};
use super::replaced::{WorkChange, find_changes};
use crate::row_order::sort_descending_f64;
use crate::thresholds::{CHANGE_MIN_SHARE, CHANGE_OF_METRIC_MIN_SHARE};

/// What the difference of a metric consists of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Explanation {
    /// Key of the explained metric, as `tpot`.
    pub metric: String,
    /// The phase that it is explained by.
    pub phase: String,
    /// Whether times are those of a step; else of a range of the phase.
    #[serde(default)]
    pub per_step: bool,
    /// Whether idle time is that of a GPU.
    pub on_device: bool,
    /// The metric on side A.
    pub a_ns: f64,
    /// The metric on side B.
    pub b_ns: f64,
    /// The metric on side B less that on side A.
    pub delta_ns: f64,
    /// The largest first. They sum to `delta_ns`.
    pub parts: Vec<ExplainedPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ExplainedPart {
    /// Whether the part is work, idle time or overlap.
    pub source: ExplainedSource,
    /// The kernels of a part that is work; absent for other parts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<WorkChange>,
    /// Time of the part on side A.
    pub a_ns: f64,
    /// Time of the part on side B.
    pub b_ns: f64,
    /// Time of the part on side B less that on side A.
    pub delta_ns: f64,
    /// Percentage points of the metric's first value.
    pub points: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainedSource {
    /// Kernels, copies, or operators of a host.
    Work,
    /// Smaller changes of work, summed.
    OtherWork,
    /// Time in which no event ran.
    Idle,
    /// Events at the same time, with its minus sign.
    Overlap,
}

/// Maximum number of changes that are parts by themselves; the rest is summed.
const CHANGE_PARTS_MAX: usize = 12;

/// Splits the change of the mean of `metric` from `a_ns` to `b_ns` into parts; `None` if no phase explains it.
pub(super) fn explain_metric(
    metric: &str,
    (a_ns, b_ns): (f64, f64),
    a: &RunFacts,
    b: &RunFacts,
) -> Option<Explanation> {
    let phase = match metric {
        "tpot" | "decode_step" | "decode_phase" => RunPhase::Decode,
        "ttft" | "prefill_step" => RunPhase::Prefill,
        _ => return None,
    };
    let (left, right) = (a.phase(phase)?, b.phase(phase)?);
    // The first token waits for towers and encoders too, whose work is another phase's.
    let waits = |run: &RunFacts| run.phases.iter().any(|one| one.phase.is_before_decoder());
    if metric == "ttft" && (waits(a) || waits(b)) {
        return None;
    }
    Some(split_into_parts(metric, (a_ns, b_ns), left, right))
}

/// Why a phase took longer or shorter, for its own wall time: without a profiler where both sides were measured so.
pub(super) fn explain_phase(a: &PhaseFacts, b: &PhaseFacts) -> Explanation {
    let plain = a.plain_wall_ns.zip(b.plain_wall_ns);
    let walls = plain.unwrap_or((a.wall_ns, b.wall_ns));
    split_into_parts("wall", walls, a, b)
}

fn split_into_parts(
    metric: &str,
    (a_ns, b_ns): (f64, f64),
    a: &PhaseFacts,
    b: &PhaseFacts,
) -> Explanation {
    let scale = |phase: &PhaseFacts, value: f64| {
        if phase.on_device || phase.wall_ns <= 0.0 {
            1.0
        } else {
            value / phase.wall_ns
        }
    };
    let (scale_a, scale_b) = (scale(a, a_ns), scale(b, b_ns));
    let part = |source, a_ns: f64, b_ns: f64| ExplainedPart {
        source,
        change: None,
        a_ns,
        b_ns,
        delta_ns: b_ns - a_ns,
        points: 0.0,
    };
    let mut all = find_changes(a, b);
    for change in &mut all {
        change.scale(scale_a, scale_b);
    }
    sort_descending_f64(&mut all, |change| change.delta_ns.abs());
    let moved: f64 = all.iter().map(|change| change.delta_ns.abs()).sum();
    let least = (CHANGE_MIN_SHARE * moved).max(CHANGE_OF_METRIC_MIN_SHARE * a_ns);
    let is_part = |change: &WorkChange| change.delta_ns.abs() >= least;
    let kept = all
        .iter()
        .take(CHANGE_PARTS_MAX)
        .take_while(|change| is_part(change));
    let rest = all.split_off(kept.count());
    let mut parts: Vec<ExplainedPart> = all
        .into_iter()
        .map(|change| ExplainedPart {
            change: Some(change.clone()),
            ..part(ExplainedSource::Work, change.a_ns, change.b_ns)
        })
        .collect();
    if !rest.is_empty() {
        let sum = |side: fn(&WorkChange) -> f64| rest.iter().map(side).sum::<f64>();
        let (left, right) = (sum(|change| change.a_ns), sum(|change| change.b_ns));
        parts.push(part(ExplainedSource::OtherWork, left, right));
    }
    let overlap = part(
        ExplainedSource::Overlap,
        -a.overlap_ns * scale_a,
        -b.overlap_ns * scale_b,
    );
    parts.push(overlap);
    parts.push(part(
        ExplainedSource::Idle,
        a_ns - a.busy_ns * scale_a,
        b_ns - b.busy_ns * scale_b,
    ));
    let mut explanation = Explanation {
        metric: metric.to_owned(),
        phase: a.name.clone(),
        per_step: a.has_steps && b.has_steps,
        on_device: a.on_device && b.on_device,
        a_ns,
        b_ns,
        delta_ns: b_ns - a_ns,
        parts,
    };
    explanation.rank_parts();
    explanation
}

impl Explanation {
    fn rank_parts(&mut self) {
        for part in &mut self.parts {
            part.points = if self.a_ns > 0.0 {
                part.delta_ns / self.a_ns * 100.0
            } else {
                0.0
            };
        }
        // Rounding of sums of hundreds of floats is below a thousandth of a nanosecond.
        self.parts.retain(|part| part.delta_ns.abs() > 1e-3);
        sort_descending_f64(&mut self.parts, |part| part.delta_ns.abs());
    }

    /// The difference in percent of the first value.
    pub fn points(&self) -> f64 {
        if self.a_ns > 0.0 {
            self.delta_ns / self.a_ns * 100.0
        } else {
            0.0
        }
    }

    /// The difference less the sum of its parts: zero except for rounding.
    pub fn remainder_ns(&self) -> f64 {
        self.delta_ns - self.parts.iter().map(|part| part.delta_ns).sum::<f64>()
    }
}
