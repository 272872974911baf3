//! The files of a run, all from one record and its analysis.

mod device_facts;
mod sample_totals;
pub(crate) mod serving;

use llmprof_analysis::{Analysis, run_metrics::run_metrics};
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::OutputPlan,
    run::RunRecord,
    store::{RunDir, StoredRun},
};
use llmprof_report::{
    Document, Report,
    compose::{self, KernelNotes, counters, kernel_report, memory, ranks},
    csv::tables,
    plots,
    render::{
        html, markdown,
        terminal::{self, digest},
    },
};
use llmprof_theory::device::Device;

pub(crate) use self::device_facts::AllocatorFile;
pub(crate) use self::sample_totals::{PageTotals, SampleTotals};
use crate::failure::Failure;

/// What the files of a run are made of.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) analysis: &'a Analysis,
    /// The device whose rooflines are drawn.
    pub(crate) device: Option<&'a Device>,
    /// What became of the samples, where predictions were kept.
    pub(crate) predictions: Option<&'a SampleTotals>,
    /// What the user says of kernels.
    pub(crate) notes: Option<&'a KernelNotes>,
}

impl<'a> Results<'a> {
    fn report(&self, issues: &'a [Issue]) -> Report<'a> {
        Report {
            record: self.record,
            analysis: self.analysis,
            issues,
            device: self.device,
            notes: self.notes,
        }
    }

    /// What a terminal prints: the result, a line per phase, the best findings.
    pub(crate) fn digest(&self) -> Vec<String> {
        let document = self.report(&self.analysis.issues).digest();
        let mut lines = digest(&document);
        if let Some(serving) = &self.analysis.serving {
            let tables = compose::serving::result_tables(&serving.summary);
            let tables: Vec<String> = tables.iter().map(terminal::table).collect();
            let rows = tables.iter().flat_map(|table| table.lines());
            let after_summary = document.caveats.len() + document.summary.len();
            lines.splice(after_summary..after_summary, rows.map(str::to_owned));
        }
        lines
    }
}

/// An issue where a sum did not fit its range, or may not have.
pub(crate) fn saturated(record: &RunRecord) -> Option<Issue> {
    let fit = record
        .traces
        .iter()
        .all(|recorded| recorded.trace.adds_up());
    (llmprof_units::take_saturated() || !fit).then(|| Issue::error(IssueCode::AnalysisSaturated))
}

/// Which kinds of files are wanted.
#[derive(Clone, Copy)]
pub(crate) struct WantedFiles {
    pub(crate) json: bool,
    pub(crate) markdown: bool,
}

impl WantedFiles {
    pub(crate) const ALL: Self = Self {
        json: true,
        markdown: true,
    };

    /// What a request asks for.
    pub(crate) fn from_plan(plan: OutputPlan) -> Self {
        Self {
            json: plan.json,
            markdown: plan.markdown,
        }
    }
}

/// A file of a run: its path in the directory, and its contents.
pub(crate) type Output = (String, String);

/// Writes every file that follows from an analysis, and lists its issues with the run.
pub(crate) fn write(
    results: &Results<'_>,
    wanted: WantedFiles,
    store: &mut RunDir,
) -> Result<(), Failure> {
    for issue in &results.analysis.issues {
        if !store.manifest().issues.contains(issue) {
            store.add_issue(issue.clone())?;
        }
    }
    let issues: Vec<Issue> = store.manifest().issues.clone();
    if wanted.json {
        store.write_derived("analysis.json", text(results.analysis)?)?;
    }
    for (name, contents) in files(results, &issues, wanted)? {
        store.write_derived(&name, contents)?;
    }
    Ok(())
}

/// The reports, tables and plots. A file that has nothing to say is absent.
pub(crate) fn files(
    results: &Results<'_>,
    issues: &[Issue],
    wanted: WantedFiles,
) -> Result<Vec<Output>, Failure> {
    let Results {
        record, analysis, ..
    } = *results;
    let mut files = Vec::new();
    if let Some(counted) = &analysis.counters {
        files.push((
            "counters.csv".to_owned(),
            counters::csv::csv(&counted.launches),
        ));
        let all = record.counters.iter();
        let tables =
            all.flat_map(|counters| kernel_report::csv::files(counters, counted, results.notes));
        files.extend(tables.map(|(name, text)| (format!("ncu/analysis/{name}"), text)));
    }
    if let Some(timeline) = record.memory.as_ref().and_then(memory::csv::csv) {
        files.push((memory::csv::FILE.to_owned(), timeline));
    }
    let report = results.report(issues);
    files.extend(rendered(&report.document(), wanted));
    files.extend(serving::files(results)?);
    files.extend(ranks::csv::files(analysis));
    if !record.has_times() {
        return Ok(files);
    }
    if wanted.json {
        let metrics = run_metrics(
            results.record,
            results.analysis,
            results.device,
            results.predictions,
        );
        files.push(("metrics.json".to_owned(), text(&metrics)?));
    }
    files.extend(device_facts::files(record)?);
    files.extend(tables::operators(analysis));
    files.extend(tables::kernels(analysis));
    files.extend(tables::gemms(analysis));
    // Operators of the framework are those of its own profiler, where that stands beside the trace that explains the time.
    let framework = analysis.beside.first();
    files.extend(tables::ops(framework.unwrap_or(analysis)));
    files.extend(framework.into_iter().flat_map(tables::beside));
    files.extend(analysis.profiled_by_torch().and_then(tables::overhead));
    files.extend(slices(analysis));
    if wanted.markdown {
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
    Ok(files)
}

/// A report as files: its plots, the page, and Markdown where that is asked for.
pub(crate) fn rendered(document: &Document, wanted: WantedFiles) -> Vec<Output> {
    let plots = plots(document).into_iter();
    let mut files: Vec<Output> = plots
        .map(|(name, plot)| (format!("plots/{name}.svg"), plot.file()))
        .collect();
    files.push(("report.html".to_owned(), html::report(document)));
    if wanted.markdown {
        files.push(("report.md".to_owned(), markdown::document(document)));
    }
    files
}

/// `slices.json`: what slices say of the whole, where recording kept within a budget.
fn slices(analysis: &Analysis) -> Option<Output> {
    let scaled = analysis.timeline.as_ref()?.scaled.as_ref()?;
    let contents = text(scaled).expect("estimates have only string keys");
    Some(("slices.json".to_owned(), contents))
}

/// What `metrics.json` of a run says of its predictions: it does not follow from the record, so it is carried over.
pub(crate) fn kept_predictions(run: &StoredRun) -> Option<SampleTotals> {
    let mut metrics: serde_json::Value = run.json("metrics.json").ok()??;
    let predictions = metrics.get_mut("predictions")?.take();
    serde_json::from_value(predictions).ok()?
}

/// A value as the text of a JSON file.
pub(crate) fn text<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}
