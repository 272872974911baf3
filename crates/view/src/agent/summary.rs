//! A run in one answer: the result, its phases, the first findings, what must not be trusted.

use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_report::{compose::phases, text::warning_lines};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, AnswerBody, ms, percent};
use super::findings::{FindingAnswer, explain_next};
use super::recorded_text::{RecordedNames, RecordedText};
use super::{PlaceId, RunAnswers};

/// Findings of a summary: a cause that matters is among them.
const FINDINGS_MAX: usize = 3;
const PHASES_MAX: usize = 12;
const SENTENCES_MAX: usize = 8;
const WARNINGS_MAX: usize = 5;
/// Kernels whose names the summary's sentences may have.
const KERNELS_NAMED: usize = 64;

/// A run in short.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SummaryAnswer {
    /// Model or program, and device.
    pub title: RecordedText,
    /// What ran: `llm_inference`, `serving`, `training`, `other`, `unknown`.
    pub program: String,
    /// The result in sentences.
    pub result: Vec<String>,
    /// Phases in order of time.
    pub phases: Vec<PhaseAnswer>,
    /// The first findings, in the order of their gains.
    pub findings: Vec<FindingAnswer>,
    /// What was dropped or should not be trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AnswerBody for SummaryAnswer {
    const NAME: &'static str = "summary";
    const CUT: &'static [&'static str] = &["warnings", "phases", "result", "findings"];
}

/// One phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseAnswer {
    /// For `explain`.
    pub id: String,
    /// Name of the phase.
    pub name: RecordedText,
    /// Wall time of the captured pass, all intervals together.
    pub wall_ms: f64,
    /// The same without the profiler, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_wall_ms: Option<f64>,
    /// Intervals of the phase: steps, passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<usize>,
    /// Share of the wall time in which the device ran nothing.
    pub idle_pct: f64,
    /// Roofline time of the matched operators as a share of the wall time; absent without model and device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roofline_pct: Option<f64>,
    /// What limits it: `host-bound`, `memory-bound`; `no dominant bottleneck`, `bottleneck unknown`.
    pub limit: String,
}

impl PhaseAnswer {
    /// A phase with its number in the analysis, from 1.
    pub(super) fn new((number, phase): (usize, &PhaseAnalysis)) -> Self {
        let waterfall = &phase.waterfall;
        let wall = waterfall.wall_ns.0 as f64;
        let traced = phase.traced.as_ref();
        Self {
            id: PlaceId::of_phase(number, phase).to_string(),
            name: RecordedText::new(phase.name()),
            wall_ms: ms(wall),
            plain_wall_ms: phase.unrecorded_wall().map(|plain| ms(plain.0 as f64)),
            intervals: traced
                .map(|traced| traced.instances.len())
                .filter(|count| *count > 0),
            idle_pct: percent(waterfall.idle_ns.0 as f64, wall),
            roofline_pct: waterfall
                .roofline_ns
                .map(|least| percent(least.0 as f64, wall)),
            limit: phases::sentences::class(phase),
        }
    }
}

/// Names that sentences about a whole run may have.
pub(super) fn names_of(analysis: &Analysis) -> RecordedNames {
    let mut texts = vec![analysis.model.as_str()];
    texts.extend(analysis.device.as_deref());
    for phase in &analysis.phases {
        texts.push(phase.name());
        let operators = phase
            .traced
            .iter()
            .flat_map(|traced| &traced.host_operators);
        texts.extend(operators.map(|operator| operator.name.as_str()));
        let kernels = phase
            .traced
            .iter()
            .flat_map(|traced| &traced.longest_kernels);
        texts.extend(kernels.map(|kernel| kernel.name.as_str()));
    }
    if let Some(timeline) = &analysis.timeline {
        texts.extend(timeline.tool.as_deref());
        texts.extend(timeline.phases.iter().map(|phase| phase.name.as_str()));
        let kernels = timeline.kernels.iter().take(KERNELS_NAMED);
        texts.extend(kernels.map(|kernel| kernel.name.as_str()));
        let operators = timeline.operators.iter().take(KERNELS_NAMED);
        texts.extend(operators.map(|operator| operator.name.as_str()));
    }
    let mut names = RecordedNames::from_texts(texts);
    names.extend(RecordedNames::in_value(&analysis.program));
    names.extend(RecordedNames::in_value(&analysis.issues));
    names
}

impl RunAnswers<'_> {
    pub(super) fn summary(&self) -> Result<Answer<SummaryAnswer>, String> {
        let analysis = self.analysis()?;
        let document = self.digest();
        let names = names_of(analysis);
        let mut findings = self.numbered(&document, 1);
        findings.truncate(FINDINGS_MAX);
        let sentences = document.caveats.iter().chain(&document.summary);
        let result: Vec<String> = sentences
            .take(SENTENCES_MAX)
            .map(|line| names.mark(line))
            .collect();
        let warnings = warning_lines(&document.issues);
        let warnings = warnings.iter().take(WARNINGS_MAX);
        let mut next: Vec<_> = (findings.iter())
            .map(|finding| explain_next(self.asked, finding))
            .collect();
        let more = document.findings.len().saturating_sub(findings.len());
        if more > 0 {
            let why = format!("{more} more findings");
            let from = findings.len() + 1;
            next.push(self.asked.next("findings", &[("from", from.into())], why));
        }
        if analysis.timeline.is_some() {
            next.push(self.asked.next("kernels", &[], "kernels by total time"));
        }
        next.extend(
            self.slowest_request()
                .map(|slowest| self.next_request(slowest)),
        );
        let body = SummaryAnswer {
            title: RecordedText::new(&document.title),
            program: serde_json::to_value(analysis.program.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned))
                .unwrap_or_default(),
            result,
            phases: (1..)
                .zip(&analysis.phases)
                .take(PHASES_MAX)
                .map(PhaseAnswer::new)
                .collect(),
            findings,
            warnings: warnings.map(|line| names.mark(line)).collect(),
        };
        let mut answer = self.answer(body);
        answer.abstained = self.abstentions(&document, more == 0);
        let hidden = analysis.phases.len().saturating_sub(PHASES_MAX) as u64;
        if hidden > 0 {
            answer.left_off.insert("phases".to_owned(), hidden);
        }
        answer.next = next;
        Ok(answer)
    }
}
