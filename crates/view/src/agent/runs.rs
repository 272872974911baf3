//! Runs below a folder.

use llmprof_record::store::StoredRun;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, AnswerBody, Caller, Next};
use super::recorded_text::{RecordedText, shown_path};

const RUNS_MAX: usize = 30;
/// Longer paths are left out of the list.
const PATH_CHARS_MAX: usize = 300;

/// Runs, the newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunsAnswer {
    /// Runs that match.
    pub count: usize,
    /// Runs, the latest first.
    pub runs: Vec<RunAnswer>,
}

impl AnswerBody for RunsAnswer {
    const NAME: &'static str = "runs";
    const CUT: &'static [&'static str] = &["runs"];
}

/// One run directory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunAnswer {
    /// The argument `run` of other calls.
    pub run: String,
    /// When the run began, UTC.
    pub created: String,
    /// `complete`, `failed`, `running`…; `dead` where it says running and its process is gone.
    pub state: String,
    /// Name of the experiment.
    pub experiment: RecordedText,
    /// Model, or source of an import.
    pub model: RecordedText,
    /// Warnings and errors of the run.
    pub issues: usize,
}

/// The answer about runs, each with its path as calls name it; `filter` is text in path, experiment or model.
pub fn runs_answer(
    runs: &[(String, StoredRun)],
    filter: Option<&str>,
    caller: &Caller,
) -> Answer<RunsAnswer> {
    let filter = filter.map(str::to_lowercase);
    let is_wanted = |path: &str, run: &StoredRun| {
        filter.as_ref().is_none_or(|filter| {
            [path, &run.manifest.experiment, &run.manifest.model]
                .iter()
                .any(|text| text.to_lowercase().contains(filter))
        })
    };
    let wanted: Vec<&(String, StoredRun)> = runs
        .iter()
        .rev()
        .filter(|(path, run)| path.chars().count() <= PATH_CHARS_MAX && is_wanted(path, run))
        .collect();
    let runs: Vec<RunAnswer> = wanted
        .iter()
        .take(RUNS_MAX)
        .map(|(path, run)| RunAnswer {
            run: shown_path(path).into_owned(),
            created: run.manifest.created.clone(),
            state: run.manifest.status.to_string(),
            experiment: RecordedText::new(&run.manifest.experiment),
            model: RecordedText::new(&run.manifest.model),
            issues: run.manifest.issues.len(),
        })
        .collect();
    let arguments = |pairs: &[(&str, &str)]| -> Map<String, Value> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect()
    };
    let mut next = Vec::new();
    if let Some(newest) = runs.first() {
        let why = "result and findings of the newest run";
        next.push(Next::new(
            caller,
            "summary",
            arguments(&[("run", &newest.run)]),
            why,
        ));
    }
    if let [newest, before, ..] = runs.as_slice() {
        let why = "the newest run against the one before it";
        let sides = arguments(&[("a", &before.run), ("b", &newest.run)]);
        next.push(Next::new(caller, "compare", sides, why));
    }
    let count = wanted.len();
    let mut answer = Answer::new(None, RunsAnswer { count, runs });
    if count == 0 {
        answer.abstained.push(
            "no run found; `llmprof run`, `record` or `import` makes one, and other calls also take a profile (trace.json.gz) as run"
                .to_owned(),
        );
    }
    let hidden = count.saturating_sub(RUNS_MAX) as u64;
    if hidden > 0 {
        answer.left_off.insert("runs".to_owned(), hidden);
    }
    answer.next = next;
    answer
}
