//! `import`: profiles into a run.

use std::time::Instant;

use llmprof_record::store::{Pass, RunDir, RunStatus};
use llmprof_units::Nanos;

use crate::{
    agents,
    args::ImportArgs,
    args_agents::ResultFormat,
    clock,
    failure::Failure,
    output::Output,
    profiles::{self, Profiled, files::default_directory, request},
    progress::with_spinner,
    subject, trtexec, viewing,
};

pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let (files, overrides) = request::split(&args.files);
    if files.is_empty() {
        return Err(Failure::new("no profile to import")
            .hint(format!("llmprof import FILE {}", overrides.join(" "))));
    }
    if let Some(done) = trtexec::import(&files, args, output) {
        return done;
    }
    let subject = request::subject(args.config.as_deref(), &overrides)?;
    let mut record = with_spinner("reading", || profiles::read(&files))?;
    let device = args.device.as_deref().map(subject::device).transpose()?;
    request::describe(&mut record, subject.as_ref(), device);
    let analysis = with_spinner("analyzing", || profiles::analyzed(&record, None))?;
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => default_directory(&files),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let mut write_all = || -> Result<(), Failure> {
        store.describe("import", &record.name, &overrides)?;
        record.save(store.path())?;
        profiles::write(&record, &analysis, &mut store)?;
        store.set_pass(Pass {
            name: "import".to_owned(),
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
        return agents::print_summary(&dir, output);
    }
    let is_json = ResultFormat::chosen(args.format, args.json) == ResultFormat::Json;
    profiled.print(is_json, &dir, output)?;
    if args.view {
        viewing::view_run(dir, output)?;
    }
    Ok(())
}
