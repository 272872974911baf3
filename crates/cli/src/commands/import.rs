//! `import`: profiles into a run.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Instant,
};

use llmprof_load::results;
use llmprof_record::store::{Pass, RunDir, RunStatus, StoredRun};
use llmprof_units::Nanos;

use crate::{
    agent_summary::print_summary,
    args::ImportArgs,
    args_agents::ResultFormat,
    browser, clock,
    failure::Failure,
    job_ranks::{self, WHOLE_RANKS_MAX, inputs},
    output::Output,
    profiles::{self, Profiled, files::default_directory, request},
    progress::with_spinner,
    subject, trtexec, viewing,
};

/// The experiment that an import is.
const IMPORT: &str = "import";

pub(crate) fn import(mut args: ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let (words, mut overrides) = request::split(&args.files);
    request::take_output(&mut overrides, &mut args.output)?;
    request::add_model(
        &mut overrides,
        args.model.as_deref(),
        args.config.as_deref(),
    )?;
    let args = &args;
    if words.is_empty() && args.join.is_none() {
        return Err(Failure::new("no profile to import")
            .hint(format!("llmprof import FILE {}", overrides.join(" "))));
    }
    let inputs = inputs::expand(&words)?;
    let files = &inputs.files;
    refuse_repeated(files)?;
    if args.summary_only {
        if let Some(first) = overrides.first() {
            return Err(
                Failure::new(format!("{first} has no effect on rank summaries"))
                    .hint(format!("llmprof import --join DIR {}", overrides.join(" "))),
            );
        }
        return job_ranks::summarize_only(files, args, output);
    }
    let subject = request::subject(args.config.as_deref(), &overrides)?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    if args.launcher.is_some() {
        return job_ranks::submit(files, &overrides, args, output);
    }
    if let Some(done) = trtexec::import(files, args, output) {
        return done;
    }
    let dir = match (&args.output, &args.join) {
        (Some(dir), _) => dir.clone(),
        (None, Some(summaries)) => default_directory(std::slice::from_ref(summaries), None),
        (None, None) => default_directory(files, subject.as_ref()),
    };
    let is_job = args.join.is_some() || files.len() > WHOLE_RANKS_MAX;
    // Summaries of ranks are written as they are made, so that a job is gone on with where it was interrupted.
    let opened = is_job.then(|| open_job(&dir)).transpose()?;
    let read = || match &args.join {
        Some(folder) => job_ranks::read_job(&[], folder, args.memory),
        None if is_job => {
            let own = job_ranks::folder_of(&dir);
            let folder = args.summaries.as_deref().unwrap_or(&own);
            job_ranks::read_job(files, folder, args.memory)
        }
        None => with_spinner("reading", || profiles::read_found(&inputs)),
    };
    let analyzed = read().and_then(|mut record| {
        request::describe(&mut record, subject.as_ref(), device);
        let analysis = with_spinner("analyzing", || profiles::analyzed(&record, None))?;
        Ok((record, analysis))
    });
    let (record, analysis) = match analyzed {
        Ok(analyzed) => analyzed,
        Err(failure) => {
            // The first failure is the one to report.
            if let Some(store) = opened {
                let _ = if job_ranks::has_summaries(&dir) {
                    store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now())
                } else {
                    store.discard()
                };
            }
            return Err(lead_to_command(failure, files));
        }
    };
    let mut store = match opened {
        Some(store) => store,
        None => RunDir::create(&dir, clock::now(), crate::VERSION)
            .map_err(|error| Failure::directory(&error, "-o DIR"))?,
    };
    let mut write_all = || -> Result<(), Failure> {
        store.describe(IMPORT, &record.name, &overrides)?;
        record.save(store.path())?;
        profiles::write(&record, &analysis, &mut store)?;
        store.set_pass(Pass {
            name: IMPORT.to_owned(),
            status: RunStatus::Complete,
            duration_ns: Some(Nanos(started.elapsed().as_nanos() as i64)),
            exit_code: None,
        })?;
        Ok(())
    };
    let unwritten = match with_spinner("writing reports", &mut write_all) {
        Ok(()) => store
            .finish(RunStatus::Complete, None, clock::now())
            .err()
            .map(Failure::from),
        Err(failure) => {
            // The first failure is the one to report; the directory says `running` if even this cannot be written.
            let _ = store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now());
            Some(failure)
        }
    };
    let profiled = Profiled {
        record,
        analysis,
        unwritten,
    };
    if ResultFormat::chosen(args.format, args.json) == ResultFormat::Agent {
        if let Some(unwritten) = profiled.unwritten {
            return Err(unwritten);
        }
        return print_summary(&dir, output);
    }
    let is_json = ResultFormat::chosen(args.format, args.json) == ResultFormat::Json;
    profiled.print(is_json, &dir, output)?;
    if args.open {
        browser::open(&dir.join("report.html"))?;
    }
    if args.show.view {
        viewing::show_runs(&[dir], output)?;
    }
    Ok(())
}

/// A file that is given twice would be two timelines of one rank.
fn refuse_repeated(files: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    let whole = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    match files.iter().find(|file| !seen.insert(whole(file))) {
        Some(file) => Err(Failure::new(format!("{} is given twice", file.display()))),
        None => Ok(()),
    }
}

/// Names the command that reads a file that is no profile: results of load generators, lists of kernels.
fn lead_to_command(failure: Failure, files: &[PathBuf]) -> Failure {
    if failure.advice().is_some() {
        return failure;
    }
    let is_list = |file: &&PathBuf| {
        let ends = [Some("yaml"), Some("yml")];
        ends.contains(&file.extension().and_then(|end| end.to_str()))
    };
    let is_result = |file: &&PathBuf| !is_list(file) && results::load(file).is_ok();
    if let Some(file) = files.iter().find(is_result) {
        return failure.hint(format!(
            "a result of a load generator: llmprof bench --import {}",
            file.display()
        ));
    }
    match files.iter().find(is_list) {
        Some(file) => failure.hint(format!(
            "a list of kernels: llmprof kernels profile --help says how {} is used",
            file.display()
        )),
        None => failure,
    }
}

/// The run of a job: a new one, or one that was interrupted, whose ranks are kept.
fn open_job(dir: &Path) -> Result<RunDir, Failure> {
    let is_left = StoredRun::open(dir).is_ok_and(|run| {
        run.manifest.status != RunStatus::Complete && run.manifest.experiment == IMPORT
    });
    let mut store = if is_left {
        RunDir::reopen(dir, crate::VERSION)
    } else {
        RunDir::create(dir, clock::now(), crate::VERSION)
    }
    .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    store.describe(IMPORT, "", &[])?;
    Ok(store)
}
