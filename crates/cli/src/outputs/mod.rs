//! The files of a run, all from one analysis: of the native engine, of a traced program, of an imported profile.
//!
//! [`Results`] is what they are made of, [`files`] makes them, [`write`] puts them into the directory of a run together with
//! what was [`recorded`], from which `analyze` and `report` make them again.

mod metrics;
mod native_trace;
pub(crate) mod recorded;
mod tables;

use std::path::Path;

use llmprof_analysis::run::{MeasuredRun, PassKind, RunAnalysis, TracedPass, analyze_trace};
use llmprof_record::{
    issue::{Issue, Severity},
    plan::Plan,
    store::RunDir,
    trace::Trace,
};
use llmprof_report::{
    Document,
    chart::{self, Width},
    render::{html, markdown},
    run::{self, Extras, trace_timeline},
    view::{Event, Part, ReportView, Section, Series, Timeline},
};
use llmprof_theory::device::Device;
use llmprof_units::Nanos;

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
    /// What other profiles of the same program say: counters, memory, sums.
    pub(crate) others: Vec<Section>,
}

/// A file of a run: its path in the directory, and its contents.
pub(crate) type Output = (String, String);

/// Writes every file of a run; the answer is the conclusion, for the terminal.
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
        others: Vec::new(),
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
    for (name, text) in tables::ops(&analysis, None) {
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
    Ok(run::conclusion(results.analysis))
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
    let page = page(results, issues);
    files.extend(plots(&page));
    files.push(("report.html".to_owned(), html::report(&page)));
    if text {
        let has_operators = !analysis.phases.is_empty() || analysis.timeline.is_some();
        let documents = [
            ("report.md", Some(document(results, issues))),
            (
                "operators.md",
                has_operators.then(|| run::operators(analysis)),
            ),
            ("kernels.md", run::kernels(analysis)),
            ("stakeholder_summary.md", Some(run::stakeholder(analysis))),
        ];
        for (name, document) in documents {
            files.extend(document.map(|text| (name.to_owned(), markdown::document(&text))));
        }
    }
    files
}

/// The report as text.
fn document(results: &Results<'_>, issues: &[Issue]) -> Document {
    let mut document = run::document(results.analysis, issues);
    for section in &results.others {
        document.section(section);
    }
    document
}

/// `slices.json`: what slices say of the whole, where recording kept within a budget.
fn slices(analysis: &RunAnalysis) -> Option<Output> {
    let scaled = analysis.timeline.as_ref()?.scaled.as_ref()?;
    let contents = text(scaled).expect("estimates have only string keys");
    Some(("slices.json".to_owned(), contents))
}

/// The page of a run.
fn page(results: &Results<'_>, issues: &[Issue]) -> ReportView {
    let mut issues = issues.to_vec();
    let timeline = match (results.trace, results.analysis.timeline.is_some()) {
        (Some(trace), true) => {
            let drawn = trace_timeline(trace, results.analysis);
            if drawn.left_out > 0 {
                issues.push(
                    Issue::new(
                        Severity::Info,
                        "report.timeline_cut",
                        format!(
                            "the timeline leaves out the {} innermost of {} events",
                            drawn.left_out,
                            drawn.left_out + drawn.timeline.len()
                        ),
                    )
                    .with_hint("`llmprof export RUN --to chrome` has all of them"),
                );
            }
            Some(drawn.timeline)
        }
        _ => results.measured.and_then(native_timeline),
    };
    let extras = Extras {
        timeline,
        telemetry: results.telemetry.clone(),
        gaps_ns: results.measured.map(gaps).unwrap_or_default(),
    };
    let mut page = run::view(results.analysis, &issues, results.device, extras);
    page.sections.extend(results.others.iter().cloned());
    page
}

/// A picture for each chart of a page.
pub(crate) fn plots(page: &ReportView) -> Vec<Output> {
    let mut plots = Vec::new();
    for part in page.sections.iter().flat_map(|section| &section.parts) {
        let (name, plot) = match part {
            Part::Waterfall(waterfall) => (
                format!("waterfall_{}", file_name(&waterfall.phase)),
                chart::waterfall(waterfall, Width::Wide),
            ),
            Part::Roofline(roofline) => (
                "roofline".to_owned(),
                chart::roofline(roofline, Width::Wide),
            ),
            Part::Timeline(timeline) => ("timeline".to_owned(), chart::timeline(timeline)),
            Part::Histogram(histogram) => {
                let name = match histogram.title.as_str() {
                    "Gaps between tokens" => "token_gaps".to_owned(),
                    title => file_name(title),
                };
                (name, chart::histogram(histogram, Width::Wide))
            }
            Part::Series(series) => (
                format!("telemetry_{}", file_name(&series.title)),
                chart::series(series, Width::Wide),
            ),
            Part::Document(_) | Part::Operators(_) => continue,
        };
        plots.push((plot_file(&name, &plots), plot.file()));
    }
    plots
}

/// The file of a plot. Titles that differ may have one name, as letters that are not ASCII have none.
fn plot_file(name: &str, before: &[Output]) -> String {
    let file = |suffix: &str| format!("plots/{}{suffix}.svg", name.trim_end_matches('_'));
    let is_taken = |file: &String| before.iter().any(|(known, _)| known == file);
    let mut found = file("");
    let mut number = 2_usize;
    while is_taken(&found) {
        found = file(&format!("_{number}"));
        number += 1;
    }
    found
}

/// Letters of a title that a file's name keeps: file systems allow 255 bytes, and ranges have names of any length.
const LONGEST_NAME: usize = 80;

/// A title as part of a file's name.
fn file_name(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut name = words.join("_");
    name.truncate(LONGEST_NAME);
    name
}

/// Gaps between the tokens of plain passes, ns.
fn gaps(measured: &MeasuredRun) -> Vec<f64> {
    let plain = measured
        .passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Plain);
    let requests = plain.flat_map(|pass| &pass.requests);
    requests
        .flat_map(|request| {
            request
                .token_ns
                .windows(2)
                .map(|pair| pair[1].saturating_sub(pair[0]) as f64)
        })
        .collect()
}

/// The operators of the captured pass in one lane.
fn native_timeline(measured: &MeasuredRun) -> Option<Timeline> {
    let pass = measured
        .passes
        .iter()
        .find(|pass| pass.kind == PassKind::Captured)?;
    let names = measured
        .operators
        .iter()
        .map(|operator| operator.path.clone())
        .collect();
    let phases: Vec<String> = pass
        .phases
        .iter()
        .map(|span| span.phase.to_string())
        .collect();
    let mut timeline = Timeline::new(vec!["operators".to_owned()], names, phases);
    for event in &pass.operators {
        let phase = pass
            .phases
            .iter()
            .position(|span| (span.start_ns..span.end_ns).contains(&event.start_ns))
            .unwrap_or(usize::MAX);
        timeline.push(Event {
            lane: 0,
            start_ns: Nanos(event.start_ns),
            duration_ns: Nanos(event.end_ns.saturating_sub(event.start_ns)),
            name: event.operator,
            phase: u32::try_from(phase).unwrap_or(u32::MAX),
        });
    }
    Some(timeline)
}

/// A value as the text of a JSON file.
pub(crate) fn text<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_names_of_files() {
        assert_eq!(file_name("decode (device 1)"), "decode_device_1");
        assert_eq!(file_name("Steps of decode"), "steps_of_decode");
        assert_eq!(file_name(&"x".repeat(300)).len(), LONGEST_NAME);
    }

    #[test]
    fn titles_of_one_name_have_files_of_their_own() {
        let mut plots = Vec::new();
        for title in ["decode 1", "decode-1", "解碼"] {
            let name = format!("waterfall_{}", file_name(title));
            plots.push((plot_file(&name, &plots), String::new()));
        }
        let files: Vec<&str> = plots.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(
            files,
            [
                "plots/waterfall_decode_1.svg",
                "plots/waterfall_decode_1_2.svg",
                "plots/waterfall.svg"
            ]
        );
    }
}
