//! `kernels analyze`: counters as an engineer reads them.

use std::path::{Path, PathBuf};

use llmprof_analysis::counters::{ClassRule, CountersAnalysis};
use llmprof_record::{
    counters::{Counters, Value},
    import::{self, Limits, Profile},
    plan::ClassifyPlan,
    run::RunRecord,
    store::write_atomically,
};
use llmprof_report::{
    Document,
    compose::{KernelNotes, add_kernel_report},
    text,
};
use llmprof_theory::device::{Catalog, Device};

use super::{notes, tables};
use crate::{
    args_kernels::AnalyzeKernelsArgs,
    failure::Failure,
    output::Output,
    outputs::{Wanted, rendered},
    subject,
};

pub(super) fn analyze(args: &AnalyzeKernelsArgs, output: &mut Output) -> Result<(), Failure> {
    let rule = rule(args)?;
    let notes = match &args.kernel_desc {
        Some(path) => notes::read(path)?,
        None => KernelNotes::new(),
    };
    let counters = read(&args.sources)?;
    let device = match &args.device {
        Some(name) => Some(subject::device(name)?),
        None => named(&counters),
    };
    let found = CountersAnalysis::of(&counters, None, device.as_ref(), rule);
    if args.json {
        return output.json(&found);
    }
    let mut document = Document::new("Kernels by their counters");
    document.issues.clone_from(&counters.issues);
    document.summary = text::counters::summary(&found);
    add_kernel_report(&mut document, &found, device.as_ref(), &notes);
    let dir = directory(args);
    let mut files = tables::files(&counters, &found);
    files.extend(rendered(&document, Wanted::ALL));
    for (name, contents) in &files {
        let path = dir.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::new(format!("cannot create {}: {error}", folder.display()))
                    .hint("-o DIR".to_owned())
            })?;
        }
        write_atomically(&path, contents.as_bytes())?;
    }
    for line in &document.summary {
        output.line(line)?;
    }
    for (class, count, share) in text::kernel_report::classes(&found) {
        output.line(&format!(
            "{}: {count} ({:.1} % of time)",
            text::kernel_report::class(class),
            100.0 * share
        ))?;
    }
    let mut warnings = Output::stderr();
    for line in text::warning_lines(&counters.issues) {
        warnings.line(&line)?;
    }
    output.line(&format!("report: {}", dir.join("report.html").display()))
}

fn rule(args: &AnalyzeKernelsArgs) -> Result<ClassRule, Failure> {
    let margins = ClassifyPlan {
        low_pct: args.classify_low,
        high_pct: args.classify_high,
        margin_pct: args.classify_margin,
    };
    if margins.is_valid() {
        return Ok(margins.into());
    }
    Err(Failure::new(
        "--classify-margin, --classify-low and --classify-high are percentages, low at most high",
    ))
}

fn directory(args: &AnalyzeKernelsArgs) -> PathBuf {
    if let Some(dir) = &args.output {
        return dir.clone();
    }
    let first = args.sources.iter().find(|source| source.is_dir());
    first.map_or_else(|| PathBuf::from("analysis"), |dir| dir.join("analysis"))
}

/// All sources as one.
pub(super) fn read(sources: &[PathBuf]) -> Result<Counters, Failure> {
    let mut all = Counters::default();
    for source in sources {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let report = if sources.len() > 1 { &*name } else { "" };
        all.absorb(report, of(source)?);
    }
    if all.launches.is_empty() {
        return Err(Failure::new("no profiled launch is in it"));
    }
    Ok(all)
}

/// The counters of a run, of pages in a directory, of its reports where it has no pages, or of one file.
fn of(source: &Path) -> Result<Counters, Failure> {
    if source.is_dir()
        && let Some(counters) = RunRecord::load(source)?.and_then(|record| record.counters)
    {
        return Ok(counters);
    }
    let reports = if source.is_dir() {
        reports(source)
    } else {
        Vec::new()
    };
    let imported = import::import(source, &Limits::default());
    match imported {
        Ok((_, Profile::Counters(counters))) => Ok(*counters),
        Ok(_) => Err(
            Failure::new(format!("{} has no counters", source.display())).hint(
                "a report of Nsight Compute (.ncu-rep) or its `--csv` pages; `llmprof import` reads timelines"
                    .to_owned(),
            ),
        ),
        Err(_) if !reports.is_empty() => {
            let mut all = Counters::default();
            for report in &reports {
                let name = report.file_stem().unwrap_or_default().to_string_lossy();
                let name = if reports.len() > 1 { &*name } else { "" };
                all.absorb(name, of(report)?);
            }
            Ok(all)
        }
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

fn reports(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "ncu-rep"))
        .collect();
    found.sort();
    found
}

/// The device that the counters name.
fn named(counters: &Counters) -> Option<Device> {
    let launch = counters.launches.first()?;
    let name = launch.readings.iter().find_map(|reading| {
        let metric = counters.describe(reading.metric)?;
        match &reading.value {
            Value::Text(text) if metric.name == "device__attribute_display_name" => Some(text),
            _ => None,
        }
    })?;
    Catalog::embedded().by_driver_name(name).ok()
}
