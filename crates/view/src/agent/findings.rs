//! Findings: what was done, where, what removing it saves, what to change.

use llmprof_analysis::causes::{Cause, CauseKind, CausePlace};
use llmprof_analysis::findings::{Conclusion, Confidence, Finding, GainOf};
use llmprof_report::{Document, FindingItem, compose::concluded_findings};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, AnswerBody, Asked, ms, percent};
use super::recorded_text::{RecordedNames, RecordedText};
use super::{PlaceId, RunAnswers};

/// Findings that one answer has before it is cut.
const FINDINGS_MAX: usize = 12;

/// Why a cause that is in one place has none.
pub(super) const NOT_RECORDED: &str = "no operator, module or line is recorded for it";

/// Findings in the order of their gains.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindingsAnswer {
    /// Findings of the run in all.
    pub count: usize,
    /// Findings, the largest gain first.
    pub findings: Vec<FindingAnswer>,
}

impl AnswerBody for FindingsAnswer {
    const NAME: &'static str = "findings";
    const CUT: &'static [&'static str] = &["findings"];
}

/// One finding.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindingAnswer {
    /// For `explain`, and for `llmprof view RUN#finding=1`.
    pub id: String,
    /// The cause or limit, a stable code: `synchronization`, `idle`.
    pub code: String,
    /// In words.
    pub what: String,
    /// Where in the program; absent where nothing recorded shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceAnswer>,
    /// Why a cause has no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_place: Option<&'static str>,
    /// What removing it saves, by phase: replayed on the recorded timeline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gain: Vec<GainAnswer>,
    /// What a change would give where no timeline was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<SpeedupAnswer>,
    /// Why no gain is stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_gain: Option<String>,
    /// What to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// `high`: measured; `medium`: operators keep their efficiency; `low`: an upper bound.
    pub confidence: &'static str,
}

/// Where in the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlaceAnswer {
    /// Operator of the framework.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<RecordedText>,
    /// `nn.Module`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<RecordedText>,
    /// Function, file and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<RecordedText>,
}

/// What removing a cause saves in one phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GainAnswer {
    /// Name of the phase.
    pub phase: RecordedText,
    /// What times are of: one `step`, or the `pass`.
    pub per: &'static str,
    /// What removing the cause saves, by replay.
    pub saved_ms: f64,
    /// Range of the saving.
    pub low_ms: f64,
    /// Most that it saves.
    pub high_ms: f64,
    /// What the phase takes now, without the profiler's cost.
    pub of_ms: f64,
    /// What it saves ÷ what the phase takes.
    pub saved_pct: f64,
}

/// A gain that is a factor.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpeedupAnswer {
    /// What becomes faster: `run`, `throughput`, `first_request`, `latency`.
    pub of: &'static str,
    /// Time now ÷ time after the change.
    pub factor: f64,
    /// Whether it is the most to hope for.
    pub is_upper_bound: bool,
}

impl FindingAnswer {
    fn new(number: usize, finding: &Finding, item: &FindingItem, names: &RecordedNames) -> Self {
        let cause = cause_of(finding);
        let gains = cause.map_or(&[][..], |cause| &cause.gains);
        let gain = gains.iter().map(|gain| GainAnswer {
            phase: RecordedText::new(gain.phase_name()),
            per: if gain.steps > 1 { "step" } else { "pass" },
            saved_ms: ms(gain.saved_ns.0 as f64),
            low_ms: ms(gain.low_ns.0 as f64),
            high_ms: ms(gain.high_ns.0 as f64),
            of_ms: ms(gain.now_ns.0 as f64),
            saved_pct: percent(gain.saved_ns.0 as f64, gain.now_ns.0 as f64),
        });
        let gain: Vec<GainAnswer> = gain.collect();
        let speedup = finding.gain.as_ref().filter(|_| cause.is_none());
        let speedup = speedup.map(|gain| SpeedupAnswer {
            of: match gain.of {
                GainOf::Run => "run",
                GainOf::Throughput => "throughput",
                GainOf::FirstRequest => "first_request",
                GainOf::Latency => "latency",
            },
            factor: (gain.factor * 1000.0).round() / 1000.0,
            is_upper_bound: gain.is_bound || finding.confidence == Confidence::Low,
        });
        let no_gain = (gain.is_empty() && speedup.is_none()).then(|| match cause {
            Some(_) => names.mark(item.gain.as_deref().unwrap_or_default()),
            None => {
                "this is a limit or an observation; the data do not show what a change would save"
                    .to_owned()
            }
        });
        let place = cause.and_then(|cause| place_of(&cause.place));
        Self {
            id: PlaceId::Finding(number).to_string(),
            code: finding.code.clone(),
            what: names.mark(&item.title),
            no_place: cause.filter(|_| place.is_none()).map(reason_without_place),
            place,
            gain,
            speedup,
            no_gain,
            change: item.knob.as_deref().map(|knob| names.mark(knob)),
            confidence: match finding.confidence {
                Confidence::High => "high",
                Confidence::Medium => "medium",
                Confidence::Low => "low",
                Confidence::Abstains => "abstains",
            },
        }
    }
}

pub(crate) fn cause_of(finding: &Finding) -> Option<&Cause> {
    match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => Some(cause),
        _ => None,
    }
}

/// Why a cause has no place.
fn reason_without_place(cause: &Cause) -> &'static str {
    match &cause.kind {
        CauseKind::BlockingLaunches | CauseKind::CpuContention { .. } => {
            "it is a setting or a load of the whole process, not a place in the program"
        }
        CauseKind::OtherWork { .. } | CauseKind::GpuShared { .. } => {
            "the work is on another stream or in another process"
        }
        CauseKind::DevicesInTurn { .. } => "it is the sum of what all GPUs do, not one place",
        CauseKind::LaunchBound { .. }
        | CauseKind::UnfusedElementwise { .. }
        | CauseKind::Communication { .. }
        | CauseKind::GemmFormat { .. } => "it is the sum of many operators, not one place",
        _ => NOT_RECORDED,
    }
}

fn place_of(place: &CausePlace) -> Option<PlaceAnswer> {
    let text = |text: &Option<String>| text.as_deref().map(RecordedText::new);
    let place = PlaceAnswer {
        operator: text(&place.operator),
        module: text(&place.module),
        line: text(&place.line),
    };
    let is_known = place.operator.is_some() || place.module.is_some() || place.line.is_some();
    is_known.then_some(place)
}

impl RunAnswers<'_> {
    /// Findings from number `from` (1 is the first), with the document that words them.
    pub(super) fn numbered(&self, document: &Document, from: usize) -> Vec<FindingAnswer> {
        let Some(analysis) = &self.run.analysis else {
            return Vec::new();
        };
        let all = (1..).zip(concluded_findings(analysis).zip(&document.findings));
        all.skip(from.saturating_sub(1))
            .take(FINDINGS_MAX)
            .map(|(number, (finding, item))| {
                let names = RecordedNames::in_value(finding);
                FindingAnswer::new(number, finding, item, &names)
            })
            .collect()
    }

    pub(super) fn findings(&self, from: usize) -> Result<Answer<FindingsAnswer>, String> {
        let document = self.digest();
        let count = document.findings.len();
        if from > 1 && from > count {
            return Err(format!(
                "the run has {count} findings; there is none from number {from}"
            ));
        }
        let findings = self.numbered(&document, from);
        let after = from.max(1) + findings.len();
        let mut next: Vec<_> = (findings.iter())
            .map(|finding| explain_next(self.asked, finding))
            .collect();
        if after <= count {
            let more = "more findings";
            next.push(self.asked.next("findings", &[("from", after.into())], more));
        }
        next.push(self.asked.next("kernels", &[], "kernels by total time"));
        let mut answer = self.answer(FindingsAnswer { count, findings });
        answer.abstained = self.abstentions(&document, after > count);
        answer.next = next;
        Ok(answer)
    }
}

pub(super) fn explain_next(asked: &Asked, finding: &FindingAnswer) -> super::Next {
    let id = finding.id.as_str();
    asked.next(
        "explain",
        &[("id", id.into())],
        format!(
            "evidence of {}, and where it shows on the timeline",
            finding.code
        ),
    )
}
