//! `kernels analyze`: counters as an engineer reads them.

use std::path::{Path, PathBuf};

use llmprof_analysis::counters::{ClassRule, CountersAnalysis};
use llmprof_record::{
    counters::Counters,
    import::{self, Limits, Profile},
    plan::ClassifyPlan,
    run::RunRecord,
    store::{Folder, StoreError, StoredRun},
};
use llmprof_report::{
    Document,
    compose::{KernelNote, KernelNotes, add_kernel_report},
    csv::kernel_tables,
    text,
};
use llmprof_units::schema::schema_of;
use schemars::Schema;
use serde_json::{Value, json};

use crate::{
    args_kernels::AnalyzeKernelsArgs,
    failure::Failure,
    kernel_notes,
    output::{Output, warn_of},
    outputs::{Wanted, rendered},
    subject,
};

pub(super) fn analyze(args: &AnalyzeKernelsArgs, output: &mut Output) -> Result<(), Failure> {
    let rule = rule(args)?;
    let notes = match &args.kernel_desc {
        Some(path) => kernel_notes::read(path)?.0,
        None => kept(&args.sources)?,
    };
    let counters = read(&args.sources)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let found = CountersAnalysis::of(&counters, None, device.as_ref(), rule);
    if args.json {
        return output.json(&noted(&found, &notes)?);
    }
    let mut document = Document::new(title(&args.sources, &found));
    document.issues.clone_from(&counters.issues);
    let summary = text::counters::summary(&found);
    let device_line = text::kernel_report::device(&found);
    // The table below them has the longest launches.
    document.summary.extend(summary.first().cloned());
    document.summary.push(text::counters::class_shares(&found));
    document.summary.push(device_line.clone());
    add_kernel_report(&mut document, &found, device.as_ref(), &notes);
    let mut files = kernel_tables::files(&counters, &found, Some(&notes));
    files.extend(rendered(&document, Wanted::ALL));
    let dir = write(args, &files)?;
    output.summary(&summary)?;
    output.prose(&device_line)?;
    for (class, count, share) in text::kernel_report::classes(&found) {
        output.line(&text::kernel_report::class_line(class, count, share))?;
    }
    if found.device.is_none() && found.launches.iter().any(|row| row.used.lacks_peak) {
        Failure::new("which device the counters are from is not known: kernels on its tensor cores have no class")
            .hint("--device NAME; `llmprof hardware list` shows the names".to_owned())
            .warn();
    }
    warn_of(&counters.issues);
    output.line(&format!("report: {}", dir.join("report.html").display()))
}

fn title(sources: &[PathBuf], found: &CountersAnalysis) -> String {
    let mut names = sources.iter().map(|source| {
        let name = source.file_name().unwrap_or(source.as_os_str());
        name.to_string_lossy().into_owned()
    });
    let first = names.next().unwrap_or_default();
    text::kernel_report::title(&first, names.count(), found.device.as_deref())
}

/// The notes of the run that is analyzed, where one is.
fn kept(sources: &[PathBuf]) -> Result<KernelNotes, Failure> {
    let run = sources.iter().find(|source| source.is_dir());
    run.map_or_else(|| Ok(KernelNotes::new()), |run| kernel_notes::of_run(run))
}

/// The JSON Schema of what `noted` returns: launches have a key more than those of `analysis.json`.
pub(crate) fn schema(id: &str) -> Schema {
    let mut schema = schema_of::<CountersAnalysis>(id);
    let note = schema_of::<KernelNote>("").remove("properties");
    if let Some(Value::Object(types)) = schema.get_mut("$defs")
        && let Some(mut launch) = types.remove("CountedLaunch")
    {
        launch["properties"]["note"] = json!({
            "type": "object", "properties": note, "description": "What `--kernel-desc` says of the kernel.",
        });
        types.insert("NotedLaunch".to_owned(), launch);
    }
    if let Some(items) = schema.pointer_mut("/properties/launches/items") {
        *items = json!({"$ref": "#/$defs/NotedLaunch"});
    }
    schema
}

/// The analysis for a machine, with the user's note beside each launch that has one.
fn noted(found: &CountersAnalysis, notes: &KernelNotes) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::new(format!("cannot write JSON: {error}"));
    let mut value = serde_json::to_value(found).map_err(failed)?;
    for (index, launch) in found.launches.iter().enumerate() {
        if let Some(note) = notes.get(&launch.kernel) {
            value["launches"][index]["note"] = serde_json::to_value(note).map_err(failed)?;
        }
    }
    Ok(value)
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

/// Folder of the files where none is named.
const FOLDER: &str = "analysis";

/// Writes the files where they were asked for, else into `analysis` of the run, under its lock, or of the working directory. No link
/// inside such a directory is followed.
fn write(args: &AnalyzeKernelsArgs, files: &[(String, String)]) -> Result<PathBuf, Failure> {
    if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        return replace(dir, "", files);
    }
    let Some(dir) = args.sources.iter().find(|source| source.is_dir()) else {
        return replace(Path::new("."), FOLDER, files);
    };
    match StoredRun::open(dir) {
        Ok(run) => {
            let locked = run.lock()?;
            for (name, contents) in files {
                locked.write(&format!("{FOLDER}/{name}"), contents)?;
            }
            locked.finish()?;
            Ok(dir.join(FOLDER))
        }
        // A folder of others is input alone.
        Err(StoreError::NotARun { .. }) => replace(Path::new("."), FOLDER, files),
        Err(error) => Err(error.into()),
    }
}

/// Replaces files below a directory.
fn replace(dir: &Path, below: &str, files: &[(String, String)]) -> Result<PathBuf, Failure> {
    let folder = Folder::open(dir).map_err(|error| not_written(dir, &error))?;
    let below = Path::new(below);
    for (name, contents) in files {
        let name = below.join(name);
        folder
            .replace(&name, contents.as_bytes())
            .map_err(|error| not_written(&dir.join(&name), &error))?;
    }
    Ok(dir.join(below))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display())).hint("-o DIR".to_owned())
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
    let record = if source.is_dir() {
        RunRecord::load(source)?
    } else {
        None
    };
    let is_run = record.is_some();
    if let Some(counters) = record.and_then(|record| record.counters) {
        return Ok(counters);
    }
    let reports = if source.is_dir() {
        reports(source)
    } else {
        Vec::new()
    };
    match import::import(source, &Limits::default()) {
        Ok((_, profile)) => counted(source, profile),
        Err(_) if reports.is_empty() && is_run => Err(Failure::new(format!(
            "{} has no counters",
            source.display()
        ))
        .hint("`llmprof kernels profile` collects them".to_owned())),
        Err(_) if !reports.is_empty() => {
            let mut all = Counters::default();
            for report in &reports {
                let name = report.file_name().unwrap_or_default().to_string_lossy();
                let name = name.split(REPORT_END).next().unwrap_or_default();
                let name = if reports.len() > 1 { name } else { "" };
                let (_, profile) = import::import_found(report, &Limits::default())
                    .map_err(|error| Failure::new(error.to_string()))?;
                all.absorb(name, counted(report, profile)?);
            }
            Ok(all)
        }
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

fn counted(source: &Path, profile: Profile) -> Result<Counters, Failure> {
    match profile {
        Profile::Counters(counters) => Ok(*counters),
        _ => Err(
            Failure::new(format!("{} has no counters", source.display())).hint(
                "a report of Nsight Compute (.ncu-rep) or its `--csv` pages; `llmprof import` reads timelines"
                    .to_owned(),
            ),
        ),
    }
}

/// How names of Nsight Compute's reports end, packed or not.
const REPORT_END: &str = ".ncu-rep";

fn reports(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let plain = [".gz", ".zst"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            plain.unwrap_or(&name).ends_with(REPORT_END)
        })
        .collect();
    found.sort();
    found
}
