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
use super::replaced::{Change, changes};

/// Why a metric differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Explanation {
    /// Metric that is explained.
    pub metric: String,
    /// The phase that it is explained by.
    pub phase: String,
    /// Whether times are those of a step; else of a range of the phase.
    #[serde(default)]
    pub per_step: bool,
    /// Whether idle time is that of a GPU.
    pub on_device: bool,
    /// Time of side A.
    pub a_ns: f64,
    /// Time of side B.
    pub b_ns: f64,
    /// B − A.
    pub delta_ns: f64,
    /// The largest first. They sum to `delta_ns`.
    pub parts: Vec<ExplainedPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ExplainedPart {
    /// What the part is.
    pub source: Source,
    /// For work: which kernels.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<Change>,
    /// Time of side A.
    pub a_ns: f64,
    /// Time of side B.
    pub b_ns: f64,
    /// B − A.
    pub delta_ns: f64,
    /// Percentage points of the metric's first value.
    pub points: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Kernels, copies, or operators of a host.
    Work,
    /// Smaller changes of work, summed.
    OtherWork,
    /// No event ran.
    Idle,
    /// Events at the same time, with its minus sign.
    Overlap,
}

/// Changes that are parts of their own.
const MOST_CHANGES: usize = 12;

/// Changes below this share of all changes are summed.
const SMALL: f64 = 0.01;

/// Why the mean of `metric` went from `a_ns` to `b_ns`; nothing where no phase explains it.
pub(super) fn explain(
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
    Some(parts(metric, (a_ns, b_ns), left, right))
}

/// Why a phase took longer or shorter, for its own wall time: without a profiler where both sides were measured so.
pub(super) fn explain_phase(a: &PhaseFacts, b: &PhaseFacts) -> Explanation {
    let plain = a.plain_wall_ns.zip(b.plain_wall_ns);
    let walls = plain.unwrap_or((a.wall_ns, b.wall_ns));
    parts("wall", walls, a, b)
}

fn parts(metric: &str, (a_ns, b_ns): (f64, f64), a: &PhaseFacts, b: &PhaseFacts) -> Explanation {
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
    let mut all = changes(a, b);
    for change in &mut all {
        change.scale(scale_a, scale_b);
    }
    all.sort_by(|x, y| y.delta_ns.abs().total_cmp(&x.delta_ns.abs()));
    let moved: f64 = all.iter().map(|change| change.delta_ns.abs()).sum();
    let is_part = |change: &Change| change.delta_ns.abs() >= SMALL * moved;
    let kept = all
        .iter()
        .take(MOST_CHANGES)
        .take_while(|change| is_part(change));
    let rest = all.split_off(kept.count());
    let mut parts: Vec<ExplainedPart> = all
        .into_iter()
        .map(|change| ExplainedPart {
            change: Some(change.clone()),
            ..part(Source::Work, change.a_ns, change.b_ns)
        })
        .collect();
    if !rest.is_empty() {
        let sum = |side: fn(&Change) -> f64| rest.iter().map(side).sum::<f64>();
        let (left, right) = (sum(|change| change.a_ns), sum(|change| change.b_ns));
        parts.push(part(Source::OtherWork, left, right));
    }
    let overlap = part(
        Source::Overlap,
        -a.overlap_ns * scale_a,
        -b.overlap_ns * scale_b,
    );
    parts.push(overlap);
    parts.push(part(
        Source::Idle,
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
    explanation.finish();
    explanation
}

impl Explanation {
    fn finish(&mut self) {
        for part in &mut self.parts {
            part.points = if self.a_ns > 0.0 {
                part.delta_ns / self.a_ns * 100.0
            } else {
                0.0
            };
        }
        // Rounding of sums of hundreds of floats is below a thousandth of a nanosecond.
        self.parts.retain(|part| part.delta_ns.abs() > 1e-3);
        self.parts
            .sort_by(|x, y| y.delta_ns.abs().total_cmp(&x.delta_ns.abs()));
    }

    /// The difference in percent of the first value.
    pub fn points(&self) -> f64 {
        if self.a_ns > 0.0 {
            self.delta_ns / self.a_ns * 100.0
        } else {
            0.0
        }
    }

    /// What the parts leave of the difference; zero but for rounding.
    pub fn remainder_ns(&self) -> f64 {
        self.delta_ns - self.parts.iter().map(|part| part.delta_ns).sum::<f64>()
    }
}
