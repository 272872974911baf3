//! The sides of a comparison, from run directories, traces, served loads and folders of them.

use std::{collections::BTreeMap, path::Path};

use llmprof_analysis::compare::{RunFacts, thin_gaps};
use llmprof_record::{
    run::RunRecord,
    store::{RunStatus, StoreError, StoredRun, find_runs},
};
use llmprof_report::compose::compare::facts_of;
use serde_json::Value;

use crate::{
    failure::Failure,
    profiles::{self, files::missing_run},
};

/// What a run of a served load has, and no other.
const BENCH: &str = "bench.json";

/// All runs of one side. A folder that is no run itself stands for the complete runs below it.
pub(super) fn read(path: &Path) -> Result<Vec<RunFacts>, Failure> {
    if !path.exists() {
        return Err(missing_run(path));
    }
    if path.is_file() {
        return Ok(vec![trace(path)?]);
    }
    match StoredRun::open(path) {
        Ok(run) => Ok(vec![stored(&run)?]),
        Err(StoreError::NotARun { .. }) => {
            let (runs, errors) = find_runs(path);
            for error in errors {
                Failure::from(error).warn();
            }
            let complete = runs
                .iter()
                .filter(|run| run.manifest.status == RunStatus::Complete);
            let mut facts: Vec<RunFacts> = complete.map(stored).collect::<Result<_, _>>()?;
            // The side is the folder, not the first of its runs.
            for run in &mut facts {
                run.label = label(path);
            }
            if facts.is_empty() {
                return Err(
                    Failure::new(format!("{} holds no complete run", path.display()))
                        .hint("a side is a run directory, a trace, or a folder of runs".to_owned()),
                );
            }
            Ok(facts)
        }
        Err(error) => Err(error.into()),
    }
}

/// What to call a side: its overrides would be longer than its place.
fn label(path: &Path) -> String {
    let parts: Vec<String> = path
        .components()
        .rev()
        .take(2)
        .map(|part| in_one_line(&part.as_os_str().to_string_lossy()))
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// A line break in the name of a folder would begin a line of its own, which GitHub reads as a command.
pub(super) fn in_one_line(name: &str) -> String {
    let mut line = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

fn stored(run: &StoredRun) -> Result<RunFacts, Failure> {
    let record = RunRecord::load(&run.path)?;
    // Loads of earlier versions have no record.
    if record.is_none() && run.folder()?.has_file(BENCH) {
        return load(run);
    }
    let record = record.filter(|record| record.has_times() || record.load.is_some());
    let record = record.ok_or_else(|| {
        Failure::new(format!("{} has no times to compare", run.path.display()))
            .hint("`llmprof runs show RUN` shows how far the run came".to_owned())
    })?;
    let facts = run_facts(&label(&run.path), &run.path, &record)?;
    if facts.measured_in == "load" && facts.passes.is_empty() {
        return Err(Failure::new(format!(
            "{}: no request was answered",
            run.path.display()
        )));
    }
    Ok(facts)
}

fn run_facts(label: &str, path: &Path, record: &RunRecord) -> Result<RunFacts, Failure> {
    let analysis = llmprof_analysis::analyze(record, None)
        .map_err(|error| Failure::new(format!("cannot analyze {}: {error}", path.display())))?;
    let path = path.display().to_string();
    Ok(facts_of(label, &path, record, &analysis))
}

fn trace(path: &Path) -> Result<RunFacts, Failure> {
    let record = profiles::read(&[path.to_path_buf()])?;
    if !record.has_times() {
        return Err(
            Failure::new(format!("{} has no times to compare", path.display()))
                .hint("a side is a run directory or a trace with kernels or operators".to_owned()),
        );
    }
    run_facts(&label(path), path, &record)
}

/// Times between tokens, where the load kept them: the mean of each request, and each by itself.
fn add_gaps(run: &StoredRun, facts: &mut RunFacts) {
    let kept: Value = run
        .json("vllm_bench.json")
        .ok()
        .flatten()
        .unwrap_or_default();
    let requests = kept["itls"].as_array().map(Vec::as_slice);
    let gaps: Vec<Vec<f64>> = requests
        .unwrap_or_default()
        .iter()
        .map(|gaps| gaps.as_array().map(Vec::as_slice).unwrap_or_default())
        .map(|gaps| {
            gaps.iter()
                .filter_map(Value::as_f64)
                .map(|seconds| seconds * 1e9)
                .filter(|gap| gap.is_finite())
                .collect()
        })
        .filter(|gaps: &Vec<f64>| !gaps.is_empty())
        .collect();
    if gaps.is_empty() {
        return;
    }
    let mean = |gaps: &Vec<f64>| gaps.iter().sum::<f64>() / gaps.len() as f64;
    let means = gaps.iter().map(mean).collect();
    facts.passes.insert("itl".to_owned(), means);
    let all = thin_gaps(gaps.concat());
    facts.requests.insert("itl".to_owned(), all);
}

/// What must be alike for loads to be comparable: the model, the load, the server, and the GPUs that were sampled beside it.
fn traits(bench: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let gpus = bench["gpus"].as_array().map(Vec::as_slice);
    let names = gpus.unwrap_or_default().iter();
    let names: Vec<&str> = names.filter_map(|gpu| gpu["name"].as_str()).collect();
    let traits = [
        ("model", text(&bench["model"])),
        ("load", text(&bench["load"])),
        ("server", text(&bench["server"]["family"])),
        ("gpu", (!names.is_empty()).then(|| names.join(", "))),
    ];
    let known = traits.into_iter();
    known
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// A number of the sampled GPUs, where all of them have it.
fn sum(bench: &Value, key: &str) -> Option<f64> {
    let gpus = bench["gpus"].as_array().filter(|gpus| !gpus.is_empty())?;
    gpus.iter().map(|gpu| gpu[key].as_f64()).sum()
}

/// Joules of the sampled GPUs for each token of the load.
fn energy_per_token(bench: &Value) -> Option<f64> {
    let tokens = bench["total_output_tokens"].as_f64();
    let tokens = tokens.filter(|tokens| *tokens > 0.0)?;
    Some(sum(bench, "energy_j")? / tokens)
}

/// A served load of an earlier version: each request is a value.
fn load(run: &StoredRun) -> Result<RunFacts, Failure> {
    let path = &run.path;
    let damaged = |what: String| Failure::new(format!("{} is damaged: {what}", path.display()));
    let bench: Value = run.json(BENCH)?.unwrap_or_default();
    let mut facts = RunFacts {
        label: label(path),
        path: path.display().to_string(),
        measured_in: "load".to_owned(),
        ..RunFacts::default()
    };
    facts.traits = traits(&bench);
    let requests = run.folder()?.open_file("requests.csv");
    let requests = requests.map_err(|error| damaged(format!("requests.csv: {error}")))?;
    let mut rows = csv::Reader::from_reader(requests);
    let headers = rows
        .headers()
        .map_err(|error| damaged(error.to_string()))?
        .clone();
    for row in rows.records() {
        let row = row.map_err(|error| damaged(error.to_string()))?;
        for (key, column) in [("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("e2e", "e2e_ms")] {
            let at = headers.iter().position(|name| name == column);
            let cell = at.and_then(|at| row.get(at)).unwrap_or_default();
            // A damaged cell may read `NaN` or `inf`.
            if let Ok(value) = cell.parse::<f64>()
                && value.is_finite()
            {
                facts
                    .passes
                    .entry(key.to_owned())
                    .or_default()
                    .push(value * 1e6);
            }
        }
    }
    facts.requests.clone_from(&facts.passes);
    add_gaps(run, &mut facts);
    let of_load = [
        ("tokens_per_s", bench["output_throughput"].as_f64()),
        ("energy_per_token", energy_per_token(&bench)),
        ("peak_memory", sum(&bench, "memory_used_max_bytes")),
    ];
    for (key, value) in of_load {
        if let Some(value) = value {
            facts.passes.insert(key.to_owned(), vec![value]);
        }
    }
    if facts.passes.is_empty() {
        return Err(Failure::new(format!(
            "{}: no request was answered",
            path.display()
        )));
    }
    Ok(facts)
}
