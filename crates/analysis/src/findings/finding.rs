//! A finding: a conclusion with its evidence and the gain to expect, or an abstention with its reason. All of it is codes and
//! values; `report::text` has the sentences.
//!
//! A gain is a factor: time now ÷ time after the change, other things equal. Gains of the same workload come first, the
//! largest first; then those that need more requests at once; then those of the first request alone; then what is worth
//! knowing without a gain; last what could not be supported, with the reason.

use llmprof_record::run::RunPhase;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::findings::conclusion::{Abstention, Conclusion, Derivation};
use crate::phase_analysis::PhaseAnalysis;

/// What a gain is a factor of.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum GainOf {
    /// The run as it is.
    Run,
    /// Tokens per second of all requests together, with more of them at once.
    Throughput,
    /// The first request after a start.
    FirstRequest,
    /// The mean request of a served load.
    Latency,
}

/// What a change would give.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Gain {
    /// What becomes faster by the factor.
    pub of: GainOf,
    /// Time now ÷ time after the change, other things equal.
    pub factor: f64,
    /// By which factor the phase becomes faster, where the finding is about one.
    pub phase_factor: Option<f64>,
    /// Time saved in the run, where that is what is gained.
    pub saved_ns: Option<Nanos>,
    /// How the factor follows from the numbers.
    pub derivation: Derivation,
    /// Whether it is the most to hope for, not what to expect: it removes all of something of which a part will stay, or supposes
    /// kernels as good as the present ones on faster units.
    #[serde(default)]
    pub is_bound: bool,
}

impl Gain {
    /// The same as the most that can be gained.
    pub(crate) fn at_most(self) -> Self {
        Self {
            is_bound: true,
            ..self
        }
    }
}

/// How sure a conclusion is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It follows from measured times.
    High,
    /// It assumes that operators keep their efficiency.
    Medium,
    /// It is an upper bound that software seldom reaches.
    Low,
    /// The data do not support it; [`Finding::abstains`] says why.
    Abstains,
}

/// A conclusion with its evidence and the gain to expect.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Finding {
    /// A stable name that a machine may match: `idle`, `inefficiency.linear`.
    pub code: String,
    /// The phase it is about; absent for the whole run.
    pub phase: Option<RunPhase>,
    /// What to call the phase, where its own name does not tell: a range of the program, one of several devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What the finding says; absent where it abstains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// Figures that the conclusion rests on, with their units and bases.
    pub evidence: Vec<Evidence>,
    /// The gain to expect; absent where there is none, or none can be computed.
    pub gain: Option<Gain>,
    /// How sure the conclusion and its gain are.
    pub confidence: Confidence,
    /// Why the data do not support a conclusion; absent where there is one.
    pub abstains: Option<Abstention>,
    /// Whether the CPUs were contended while its times were measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_contended: bool,
}

/// Sorts findings as the module says: by what their gain is of, then by factor and share.
pub(crate) fn sort_findings(findings: &mut [Finding]) {
    let factor = |finding: &Finding| finding.gain.as_ref().map_or(0.0, |gain| gain.factor);
    // A pause that the trace shows once may never come again: it has no gain and ranks after what the program does each time.
    let is_seen_once = |finding: &Finding| match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => cause.kind.is_seen_once(),
        _ => false,
    };
    let rank = |finding: &Finding| match (&finding.gain, finding.confidence) {
        (_, Confidence::Abstains) => 5,
        (Some(gain), _) => gain.of as u8,
        (None, _) => 3 + u8::from(is_seen_once(finding)),
    };
    let share = |finding: &Finding| {
        let conclusion = finding.conclusion.as_ref();
        conclusion.and_then(Conclusion::time_share).unwrap_or(0.0)
    };
    findings.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| factor(b).total_cmp(&factor(a)))
            .then_with(|| share(b).total_cmp(&share(a)))
    });
}

impl Finding {
    /// A conclusion about a phase.
    pub(crate) fn of_phase(phase: &PhaseAnalysis, conclusion: Conclusion) -> Self {
        Self {
            phase: Some(phase.phase),
            label: phase.label.clone(),
            ..Self::of_run(conclusion)
        }
    }

    pub(crate) fn of_run(conclusion: Conclusion) -> Self {
        Self {
            code: conclusion.code(),
            phase: None,
            label: None,
            conclusion: Some(conclusion),
            evidence: Vec::new(),
            gain: None,
            confidence: Confidence::High,
            abstains: None,
            is_contended: false,
        }
    }

    /// A conclusion that the data do not support.
    pub(crate) fn abstain(code: &str, phase: &PhaseAnalysis, why: Abstention) -> Self {
        Self {
            code: code.to_owned(),
            phase: Some(phase.phase),
            label: phase.label.clone(),
            conclusion: None,
            evidence: Vec::new(),
            gain: None,
            confidence: Confidence::Abstains,
            abstains: Some(why),
            is_contended: false,
        }
    }

    pub(crate) fn with_evidence(self, evidence: Vec<Evidence>) -> Self {
        Self { evidence, ..self }
    }

    pub(crate) fn with_gain(self, gain: Gain, confidence: Confidence) -> Self {
        Self {
            gain: Some(gain),
            confidence,
            ..self
        }
    }

    pub(crate) fn without_gain(self) -> Self {
        Self { gain: None, ..self }
    }

    /// What to call the phase that it is about.
    pub fn phase_name(&self) -> Option<&str> {
        let label = self.label.as_deref();
        label.or_else(|| Some(self.phase?.name()))
    }
}
