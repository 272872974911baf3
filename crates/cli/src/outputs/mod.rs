//! The files of a run, all from one analysis: of the native engine, of a traced program, of an imported profile.
//!
//! [`Results`] is what they are made of, [`files`] makes them, [`write`] puts them into the directory of a run together with
//! what was [`recorded`], from which `analyze` and `report` make them again.

mod metrics;
mod native_trace;
pub(crate) mod recorded;
mod tables;

use std::path::Path;

use llmprof_analysis::run::{MeasuredRun, RunAnalysis, TracedPass, analyze_trace};
use llmprof_record::{
    counters::Counters, issue::Issue, memory::MemoryHistory, plan::Plan, store::RunDir,
    summary::SummaryTable, trace::Trace,
};
use llmprof_report::{
    Document, Report, compose, plots,
    render::{html, markdown, terminal::digest},
    view::Series,
};
use llmprof_theory::device::Device;

use self::recorded::{Captured, Recorded, RecordedModel};
use crate::{failure::Failure, subject::Subject, telemetry::curves};

/// What the files of a run are made of.
pub(crate) struct Results<'a> {
    /// What is said.
    pub(crate) analysis: &'a RunAnalysis,
    /// The model, where it is known.
    pub(crate) model: Option<&'a RecordedModel>,
    /// The device whose limits are drawn.
    pub(crate) device: Option<&'a Device>,
    /// What passes measured.
    pub(crate) measured: Option<&'a MeasuredRun>,
    /// The trace of the captured pass.
    pub(crate) trace: Option<&'a Trace>,
    /// Curves of samples.
    pub(crate) telemetry: Vec<Series>,
    /// What other profiles of the same program say.
    pub(crate) others: Others<'a>,
}

/// Profiles without a timeline.
#[derive(Clone, Default)]
pub(crate) struct Others<'a> {
    pub(crate) counters: Option<&'a Counters>,
    /// Tables of sums, each with the name of its file.
    pub(crate) sums: Vec<(&'a str, &'a SummaryTable)>,
    pub(crate) memory: Option<&'a MemoryHistory>,
}

impl Results<'_> {
    fn report<'r>(&'r self, issues: &'r [Issue]) -> Report<'r> {
        Report {
            analysis: Some(self.analysis),
            issues,
            device: self.device,
            measured: self.measured,
            trace: self.trace,
            telemetry: &self.telemetry,
            ..self.others.report(issues)
        }
    }
}

impl Others<'_> {
    /// A report of these profiles alone.
    pub(crate) fn report<'r>(&'r self, issues: &'r [Issue]) -> Report<'r> {
        Report {
            issues,
            counters: self.counters,
            sums: self.sums.clone(),
            memory: self.memory,
            ..Report::default()
        }
    }
}

/// A file of a run: its path in the directory, and its contents.
pub(crate) type Output = (String, String);

/// Writes every file of a run; the answer is what a terminal prints.
///
/// `trace` is that of the captured pass, as [`analyze_trace`](llmprof_analysis::run::analyze_trace) was given it; without
/// one the pass is the native engine's, and its operators are written as a trace for other tools.
pub(crate) fn write(
    plan: &Plan,
    subject: &Subject,
    measured: &MeasuredRun,
    trace: Option<&Trace>,
    analysis: &RunAnalysis,
    telemetry: Vec<Series>,
    store: &mut RunDir,
) -> Result<Vec<String>, Failure> {
    let recorded = Recorded {
        name: subject.name.clone(),
        model: Some(RecordedModel::of(subject)),
        workload: analysis.workload,
        device: subject.device.clone(),
        device_file: recorded::device_file(subject.device.as_ref(), &plan.hardware.spec),
        measured: Some(measured.clone()),
        captured: match trace {
            Some(_) => Captured::Trace,
            None => Captured::Operators,
        },
        assumptions: analysis.assumptions.clone(),
    };
    recorded.save(store.path())?;
    let has_operators = measured
        .passes
        .iter()
        .any(|pass| !pass.operators.is_empty());
    let native = (trace.is_none() && has_operators).then(|| native_trace::trace(measured));
    let trace = trace.or(native.as_ref());
    if let Some(trace) = trace {
        save_trace(trace, store.path())?;
    }
    curves::save(&telemetry, store.path())?;
    let results = Results {
        analysis,
        model: recorded.model.as_ref(),
        device: subject.device.as_ref(),
        measured: Some(measured),
        trace,
        telemetry,
        others: Others::default(),
    };
    write_results(&results, store, plan.output.json, plan.output.markdown)
}

/// Writes what the trace of a framework's own profiler says of its operators, where another trace explains the time; `measured`
/// has the pass that it is of. The answer is its analysis.
pub(crate) fn write_framework(
    trace: &Trace,
    device: Option<&Device>,
    measured: &MeasuredRun,
    store: &RunDir,
) -> Result<RunAnalysis, Failure> {
    let pass = TracedPass {
        device,
        measured: Some(measured),
        ..TracedPass::default()
    };
    let analysis = analyze_trace(trace, &pass).map_err(|error| Failure::new(error.to_string()))?;
    if let Some((name, text)) = tables::ops(&analysis, None) {
        store.write(&name, text)?;
    }
    if let Some((name, text)) = tables::framework(&analysis) {
        store.write(&format!("torch_profiler/{name}"), text)?;
    }
    Ok(analysis)
}

fn write_results(
    results: &Results<'_>,
    store: &mut RunDir,
    json: bool,
    markdown: bool,
) -> Result<Vec<String>, Failure> {
    for issue in &results.analysis.issues {
        if !store.manifest().issues.contains(issue) {
            store.add_issue(issue.clone())?;
        }
    }
    let issues: Vec<Issue> = store.manifest().issues.clone();
    if json {
        let (name, metrics) = metrics_file(results)?;
        store.write(&name, metrics)?;
        store.write("analysis.json", text(results.analysis)?)?;
    }
    for (name, contents) in files(results, &issues, markdown) {
        store.write(&name, contents)?;
    }
    Ok(digest(&results.report(&issues).digest()))
}

/// Saves a trace where `export`, `analyze` and `report` look for it.
pub(crate) fn save_trace(trace: &Trace, run: &Path) -> Result<(), Failure> {
    trace
        .save(&run.join(recorded::TRACE_FILE))
        .map_err(|error| Failure::new(error.to_string()))
}

/// `metrics.json`, as text.
pub(crate) fn metrics_file(results: &Results<'_>) -> Result<Output, Failure> {
    Ok(("metrics.json".to_owned(), text(&metrics::metrics(results))?))
}

/// The reports, tables and plots. A file that has nothing to say is absent.
pub(crate) fn files(results: &Results<'_>, issues: &[Issue], text: bool) -> Vec<Output> {
    let analysis = results.analysis;
    let mut files = Vec::new();
    files.extend(tables::operators(analysis));
    files.extend(tables::kernels(analysis));
    files.extend(tables::ops(analysis, results.measured));
    files.extend(slices(analysis));
    let document = results.report(issues).document();
    files.extend(rendered(&document, text));
    if text {
        let has_operators = !analysis.phases.is_empty() || analysis.timeline.is_some();
        let documents = [
            (
                "operators.md",
                has_operators.then(|| compose::operators(analysis)),
            ),
            ("kernels.md", compose::kernels(analysis)),
            (
                "stakeholder_summary.md",
                Some(compose::stakeholder(analysis)),
            ),
        ];
        for (name, document) in documents {
            files.extend(document.map(|text| (name.to_owned(), markdown::document(&text))));
        }
    }
    files
}

/// A report as files: its plots, the page, and Markdown where that is asked for.
pub(crate) fn rendered(document: &Document, text: bool) -> Vec<Output> {
    let plots = plots(document).into_iter();
    let mut files: Vec<Output> = plots
        .map(|(name, plot)| (format!("plots/{name}.svg"), plot.file()))
        .collect();
    files.push(("report.html".to_owned(), html::report(document)));
    if text {
        files.push(("report.md".to_owned(), markdown::document(document)));
    }
    files
}

/// `slices.json`: what slices say of the whole, where recording kept within a budget.
fn slices(analysis: &RunAnalysis) -> Option<Output> {
    let scaled = analysis.timeline.as_ref()?.scaled.as_ref()?;
    let contents = text(scaled).expect("estimates have only string keys");
    Some(("slices.json".to_owned(), contents))
}

/// A value as the text of a JSON file.
pub(crate) fn text<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}
