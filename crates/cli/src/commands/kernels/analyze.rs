//! `kernels analyze`: counters as an engineer reads them.

use std::path::{Path, PathBuf};

use llmprof_analysis::counters::{ClassRule, CountersAnalysis};
use llmprof_record::{
    counters::Counters,
    import::{self, Limits, Profile, ncu_csv::read_pages},
    plan::ClassifyPlan,
    run::RunRecord,
    store::{StoreError, StoredRun, claim_folder},
};
use llmprof_report::{
    Document,
    compose::{KernelNote, KernelNotes, add_kernel_report, counters, kernel_report},
};
use llmprof_units::schema::schema_of;
use schemars::Schema;
use serde_json::{Value, json};

use crate::{
    args_kernels::AnalyzeKernelsArgs,
    failure::Failure,
    kernel_notes,
    output::{Output, warn_of},
    outputs::{WantedFiles, rendered},
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
    let analysis = CountersAnalysis::from_counters(&counters, None, device.as_ref(), rule);
    if args.json {
        return output.json(&noted(&analysis, &notes)?);
    }
    let mut document = Document::new(title(&args.sources, &analysis));
    document.issues.clone_from(&counters.issues);
    let summary = counters::sentences::summary(&analysis);
    let device_line = kernel_report::sentences::device(&analysis);
    // The table below them has the longest launches.
    document.summary.extend(summary.first().cloned());
    document
        .summary
        .push(counters::sentences::class_shares(&analysis));
    document.summary.push(device_line.clone());
    add_kernel_report(&mut document, &analysis, device.as_ref(), &notes);
    let mut files = kernel_report::csv::files(&counters, &analysis, Some(&notes));
    files.extend(rendered(&document, WantedFiles::ALL));
    let dir = write(args, &files)?;
    output.summary(&summary)?;
    output.prose(&device_line)?;
    for (class, count, share) in kernel_report::sentences::classes(&analysis) {
        output.line(&kernel_report::sentences::class_line(class, count, share))?;
    }
    if analysis.device.is_none() && analysis.launches.iter().any(|row| row.used.lacks_peak) {
        Failure::new("which device the counters are from is not known: kernels on its tensor cores have no class")
            .hint("--device NAME; `llmprof hardware list` shows the names".to_owned())
            .warn();
    }
    warn_of(&counters.issues);
    output.line(&format!("report: {}", dir.join("report.html").display()))
}

fn title(sources: &[PathBuf], analysis: &CountersAnalysis) -> String {
    let mut names = sources.iter().map(|source| {
        let name = source.file_name().unwrap_or(source.as_os_str());
        name.to_string_lossy().into_owned()
    });
    let first = names.next().unwrap_or_default();
    kernel_report::sentences::title(&first, names.count(), analysis.device.as_deref())
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
fn noted(analysis: &CountersAnalysis, notes: &KernelNotes) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::new(format!("cannot write JSON: {error}"));
    let mut value = serde_json::to_value(analysis).map_err(failed)?;
    for (index, launch) in analysis.launches.iter().enumerate() {
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
        return replace(dir, files);
    }
    let Some(dir) = args.sources.iter().find(|source| source.is_dir()) else {
        return replace(Path::new(FOLDER), files);
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
        Err(StoreError::NotARun { .. }) => replace(Path::new(FOLDER), files),
        Err(error) => Err(error.into()),
    }
}

/// Writes files into a directory of theirs.
fn replace(dir: &Path, files: &[(String, String)]) -> Result<PathBuf, Failure> {
    let folder = claim_folder(dir).map_err(|error| Failure::directory(&error, "-o DIR"))?;
    for (name, contents) in files {
        folder
            .replace(name, contents.as_bytes())
            .map_err(|error| Failure::cannot_write(&dir.join(name), &error))?;
    }
    Ok(dir.to_owned())
}

/// All sources as one.
pub(super) fn read(sources: &[PathBuf]) -> Result<Counters, Failure> {
    let mut all = Counters::default();
    let profiles = profiles_of(sources);
    for pages in &profiles {
        let counters = match pages.as_slice() {
            [source] => read_source(source)?,
            pages => read_pages(pages, &Limits::default())
                .map_err(|error| Failure::new(error.to_string()))?,
        };
        let name = page_name(&pages[0]).map_or_else(|| stem(&pages[0]), |(name, _)| name);
        let report = if profiles.len() > 1 { &*name } else { "" };
        all.absorb(report, counters);
    }
    if all.launches.is_empty() {
        return Err(Failure::new("no profiled launch is in it"));
    }
    Ok(all)
}

/// Files that belong together: `decode_raw.csv` and `decode_details.csv` are pages of one profile, and read apart they would
/// have its launches twice.
fn profiles_of(sources: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let mut profiles: Vec<Vec<PathBuf>> = Vec::new();
    for source in sources {
        let is_other_page = |other: &PathBuf| {
            let (own, other_page) = (page_name(source), page_name(other));
            own.zip(other_page).is_some_and(|(own, other_page)| {
                own.0 == other_page.0 && own.1 != other_page.1 && source.parent() == other.parent()
            })
        };
        let profile = profiles
            .iter_mut()
            .find(|pages| pages.iter().all(is_other_page));
        match profile {
            Some(pages) => pages.push(source.clone()),
            None => profiles.push(vec![source.clone()]),
        }
    }
    profiles
}

/// What a file of a page is called without its page, and the page; `None` of other names.
fn page_name(source: &Path) -> Option<(String, &'static str)> {
    let stem = stem(source).to_ascii_lowercase();
    ["raw", "details"].into_iter().find_map(|page| {
        let name = stem.strip_suffix(page)?;
        let is_word = name.is_empty() || name.ends_with(['_', '-']);
        is_word.then(|| (name.trim_end_matches(['_', '-']).to_owned(), page))
    })
}

/// A file's name up to its first dot.
fn stem(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The counters of a run, of pages in a directory, of its reports where it has no pages, or of one file.
fn read_source(source: &Path) -> Result<Counters, Failure> {
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
    let mut reports: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let plain = [".gz", ".zst"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            plain.unwrap_or(&name).ends_with(REPORT_END)
        })
        .collect();
    reports.sort();
    reports
}
