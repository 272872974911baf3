//! The files of a run, all from one record and its analysis.

mod curves;
mod device_facts;
mod metrics;
mod tables;

use llmprof_analysis::Analysis;
use llmprof_record::{
    issue::{Issue, Severity},
    run::{PassKind, RunRecord},
    store::RunDir,
};
use llmprof_report::{
    Document,
    chart::{self, Width},
    render::{html, markdown},
    run::{self, Extras, trace_timeline},
    view::{Part, ReportView},
};
use llmprof_theory::device::Device;

use crate::{
    commands::profile::{counters, memory, page::Others},
    failure::Failure,
};

/// What the files of a run are made of.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) analysis: &'a Analysis,
    /// The device whose rooflines are drawn.
    pub(crate) device: Option<&'a Device>,
}

/// Which kinds of files are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) json: bool,
    pub(crate) markdown: bool,
}

impl Wanted {
    pub(crate) const ALL: Self = Self {
        json: true,
        markdown: true,
    };
}

/// A file of a run: its path in the directory, and its contents.
pub(crate) type Output = (String, String);

/// Writes every file that follows from an analysis, and lists its issues with the run.
pub(crate) fn write(
    results: &Results<'_>,
    wanted: Wanted,
    store: &mut RunDir,
) -> Result<(), Failure> {
    for issue in &results.analysis.issues {
        if !store.manifest().issues.contains(issue) {
            store.add_issue(issue.clone())?;
        }
    }
    let issues: Vec<Issue> = store.manifest().issues.clone();
    if wanted.json {
        store.write("analysis.json", text(results.analysis)?)?;
    }
    for (name, contents) in files(results, &issues, wanted)? {
        store.write(&name, contents)?;
    }
    Ok(())
}

/// The reports, tables and plots. A file that has nothing to say is absent.
pub(crate) fn files(
    results: &Results<'_>,
    issues: &[Issue],
    wanted: Wanted,
) -> Result<Vec<Output>, Failure> {
    let Results {
        record, analysis, ..
    } = *results;
    let mut files = Vec::new();
    if let Some(found) = &analysis.counters {
        files.push(("counters.csv".to_owned(), counters::csv(&found.launches)));
    }
    if let Some(timeline) = record.memory.as_ref().and_then(memory::csv) {
        files.push((memory::FILE.to_owned(), timeline));
    }
    let others = Others { record, analysis };
    if !has_times(record) {
        files.extend(others.files(issues));
        return Ok(files);
    }
    if wanted.json {
        files.push(("metrics.json".to_owned(), text(&metrics::metrics(results))?));
    }
    files.extend(device_facts::files(record)?);
    files.extend(tables::operators(analysis));
    files.extend(tables::kernels(analysis));
    // Operators of the framework are those of its own profiler, where that stands beside the trace that explains the time.
    let framework = analysis.beside.first();
    files.extend(tables::ops(framework.unwrap_or(analysis)));
    files.extend(framework.into_iter().flat_map(tables::beside));
    files.extend(slices(analysis));
    let page = page(results, &others, issues);
    files.extend(plots(&page));
    files.push(("report.html".to_owned(), html::report(&page)));
    if wanted.markdown {
        let has_operators = !analysis.phases.is_empty() || analysis.timeline.is_some();
        let documents = [
            ("report.md", Some(document(results, &others, issues))),
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
    Ok(files)
}

/// Whether a record says where time went: a timeline, or passes.
pub(crate) fn has_times(record: &RunRecord) -> bool {
    !record.traces.is_empty() || !record.passes.is_empty()
}

/// The report as text.
fn document(results: &Results<'_>, others: &Others<'_>, issues: &[Issue]) -> Document {
    let mut document = run::document(results.analysis, issues);
    for section in &others.sections() {
        document.section(section);
    }
    document
}

/// `slices.json`: what slices say of the whole, where recording kept within a budget.
fn slices(analysis: &Analysis) -> Option<Output> {
    let scaled = analysis.timeline.as_ref()?.scaled.as_ref()?;
    let contents = text(scaled).expect("estimates have only string keys");
    Some(("slices.json".to_owned(), contents))
}

/// The page of a run.
fn page(results: &Results<'_>, others: &Others<'_>, issues: &[Issue]) -> ReportView {
    let record = results.record;
    let mut issues = issues.to_vec();
    let timeline = record.trace().map(|trace| {
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
        drawn.timeline
    });
    let samples = record.samples.as_ref();
    let mut telemetry = samples
        .map(|samples| curves::of(samples, record))
        .unwrap_or_default();
    if let Some(history) = record.memory.as_ref().filter(|_| !record.passes.is_empty()) {
        telemetry.extend(llmprof_report::memory::series(history));
    }
    let extras = Extras {
        timeline,
        telemetry,
        gaps_ns: gaps(record),
    };
    let mut page = run::view(results.analysis, &issues, results.device, extras);
    page.sections.extend(others.sections());
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
fn gaps(record: &RunRecord) -> Vec<f64> {
    let plain = record.passes_of(PassKind::Plain);
    plain
        .flat_map(|(pass, _)| record.requests_of(pass))
        .flat_map(|request| {
            let pairs = request.token_ns.windows(2);
            pairs.map(|pair| pair[1].0.saturating_sub(pair[0].0) as f64)
        })
        .collect()
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
