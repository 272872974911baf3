//! Runs as agents ask for them: small typed answers with evidence, abstentions and the next call.
//!
//! Every answer is JSON of at most [`ANSWER_BYTES_MAX`] bytes with the id of its schema. Text that the profiled program chose stands between
//! fences ([`RecordedText`]). `llmprof mcp` and `llmprof explain` give the same answers.

mod answer;
mod compare;
mod explain;
mod findings;
mod kernels;
mod place;
mod predict;
mod recorded_text;
mod runs;
mod summary;
mod window;

use llmprof_analysis::{Analysis, judged_device};
use llmprof_report::{Document, Report};
use schemars::Schema;

pub use self::answer::{
    ANSWER_BYTES_MAX, Answer, AnswerBody, Asked, Caller, ErrorAnswer, Next, answer_schema,
    error_answer, schema_id,
};
pub use self::compare::{CompareAnswer, MetricAnswer, ReasonAnswer, compare_answer};
pub use self::explain::{
    FindingExplained, KernelExplained, LaunchAnswer, LauncherAnswer, PhaseExplained,
    PhaseKernelAnswer, RequestExplained, StepAnswer,
};
pub(crate) use self::findings::cause_of;
pub use self::findings::{FindingAnswer, FindingsAnswer, GainAnswer, PlaceAnswer, SpeedupAnswer};
pub use self::kernels::{KernelAnswer, KernelsAnswer};
pub use self::place::PlaceId;
pub use self::predict::{PredictAnswer, predict_answer};
pub use self::recorded_text::{FENCE, RecordedText};
pub use self::runs::{RunAnswer, RunsAnswer, runs_answer};
pub use self::summary::{PhaseAnswer, SummaryAnswer};
pub use self::window::{DeviceAnswer, NamedAnswer, WindowAnswer};
use crate::opened_run::OpenedRun;

const ABSTENTIONS_MAX: usize = 4;

/// What is asked about one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentQuestion {
    Summary,
    /// Findings from this number on.
    Findings {
        from: usize,
    },
    /// Kernels from this number on whose name or category has the text.
    Kernels {
        from: usize,
        filter: Option<String>,
    },
    Explain(PlaceId),
}

/// One question about a run.
struct RunAnswers<'a> {
    run: &'a OpenedRun,
    asked: &'a Asked,
}

impl OpenedRun {
    /// The text of the answer, or of an error that names the next call.
    pub fn ask(&self, asked: &Asked, question: &AgentQuestion) -> Result<String, String> {
        let answers = RunAnswers { run: self, asked };
        answers.ask(question).map_err(|error| {
            let summary = asked.next("summary", &[], "what the run has");
            error_answer(&error, vec![summary]).text()
        })
    }
}

impl RunAnswers<'_> {
    fn ask(&self, question: &AgentQuestion) -> Result<String, String> {
        let text = match question {
            AgentQuestion::Summary => self.summary()?.text(),
            AgentQuestion::Findings { from } => self.findings(*from)?.text(),
            AgentQuestion::Kernels { from, filter } => {
                self.kernels(*from, filter.as_deref())?.text()
            }
            AgentQuestion::Explain(place) => match place {
                PlaceId::Finding(number) => self.explain_finding(*number)?.text(),
                PlaceId::Kernel(number) => self.explain_kernel(*number)?.text(),
                PlaceId::Phase(name) => self.explain_phase(name)?.text(),
                PlaceId::Request(index) => self.explain_request(*index)?.text(),
                PlaceId::Step(number) => {
                    let (from, to) = self.step_window(*number)?;
                    self.window(from, to)?.text()
                }
                PlaceId::Window(from, to) => self.window(*from, *to)?.text(),
            },
        };
        Ok(text)
    }

    fn analysis(&self) -> Result<&Analysis, String> {
        let analysis = self.run.analysis.as_ref();
        analysis.ok_or_else(|| "the run has no analysis".to_owned())
    }

    fn answer<T: AnswerBody>(&self, body: T) -> Answer<T> {
        Answer::new(Some(&self.asked.run), body)
    }

    /// Title, summary, findings and issues in words.
    fn digest(&self) -> Document {
        let Some(analysis) = &self.run.analysis else {
            return Document::default();
        };
        let judged = judged_device(&self.run.record, None);
        let report = Report {
            record: &self.run.record,
            analysis,
            issues: &analysis.issues,
            device: judged.device.as_ref(),
            notes: None,
        };
        report.digest()
    }

    /// What the report does not conclude, with the reason; after the last finding (`is_last`) that there are no others.
    fn abstentions(&self, document: &Document, is_last: bool) -> Vec<String> {
        let Some(analysis) = &self.run.analysis else {
            return Vec::new();
        };
        let names = summary::names_of(analysis);
        let lines = document.no_conclusion.iter().take(ABSTENTIONS_MAX);
        let lines = lines.map(|line| names.mark(line));
        let end = match document.findings.len() {
            0 => Some("no cause or limit is supported by the data"),
            _ if is_last => Some("no other cause or limit is supported by the data"),
            _ => None,
        };
        end.map(str::to_owned).into_iter().chain(lines).collect()
    }
}

/// The JSON Schemas of all answers, by id.
pub fn answer_schemas() -> Vec<(String, Schema)> {
    vec![
        answer_schema::<RunsAnswer>(),
        answer_schema::<SummaryAnswer>(),
        answer_schema::<FindingsAnswer>(),
        answer_schema::<FindingExplained>(),
        answer_schema::<KernelExplained>(),
        answer_schema::<PhaseExplained>(),
        answer_schema::<RequestExplained>(),
        answer_schema::<KernelsAnswer>(),
        answer_schema::<WindowAnswer>(),
        answer_schema::<CompareAnswer>(),
        answer_schema::<PredictAnswer>(),
        answer_schema::<ErrorAnswer>(),
    ]
}
