//! `export`: the timeline of a run for other tools.

use std::{io::Write as _, path::Path};

use llmprof_analysis::host_stacks::flame_stacks;
use llmprof_record::{
    flame::{self, FlameStack},
    run::TRACE_FILE,
    store::{StoredRun, write_atomically},
    trace::Trace,
};

use crate::{
    args::{ExportArgs, ExportFormat},
    commands::runs::flat_row,
    failure::Failure,
    output::Output,
    outputs, viewing,
};

pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), Failure> {
    let run = StoredRun::open(&args.run)?;
    if matches!(args.to, ExportFormat::FlatJson) && args.output.as_deref() == Some(Path::new("-")) {
        return output.json(&flat_row(&run));
    }
    let name = match args.to {
        ExportFormat::Pftrace => "trace.pftrace",
        ExportFormat::Chrome => "trace.json",
        ExportFormat::Sqlite => "trace.sqlite",
        ExportFormat::Folded => "host_idle.folded",
        ExportFormat::Speedscope => "host.speedscope.json",
        ExportFormat::FlatJson => "flat.json",
    };
    let target = args.output.clone().unwrap_or_else(|| run.path.join(name));
    let within = target.starts_with(&run.path);
    let run_path = &run.path.clone();
    let row = matches!(args.to, ExportFormat::FlatJson).then(|| flat_row(&run));
    let load_trace = || load_timeline(run_path);
    // A file of the run is written by whoever holds the run.
    let locked = within.then(|| run.lock()).transpose()?;
    let text = match args.to {
        ExportFormat::Pftrace => {
            load_trace()?;
            Some(viewing::pftrace(run_path)?)
        }
        ExportFormat::Chrome => {
            let mut text = Vec::new();
            load_trace()?
                .write_chrome(&mut text)
                .and_then(|()| text.flush())
                .map_err(|error| {
                    Failure::new(format!("cannot write {}: {error}", target.display()))
                })?;
            Some(text)
        }
        ExportFormat::Sqlite => {
            load_trace()?
                .write_sqlite(&target)
                .map_err(|error| Failure::new(error.to_string()))?;
            None
        }
        ExportFormat::Folded => {
            Some(flame::write_folded(&host_stacks(&load_trace()?, true, run_path)?).into())
        }
        ExportFormat::Speedscope => {
            let trace = load_trace()?;
            let profiles = [
                (
                    "while no GPU was busy",
                    host_stacks(&trace, true, run_path)?,
                ),
                ("all the time", host_stacks(&trace, false, run_path)?),
            ];
            Some(flame::write_speedscope(&profiles).into())
        }
        ExportFormat::FlatJson => Some(outputs::text(&row)?.into()),
    };
    if let Some(text) = text {
        match (&locked, &args.output) {
            (Some(locked), None) => locked.write(name, &text)?,
            _ => write_atomically(&target, &text)?,
        }
    }
    if let Some(locked) = locked {
        locked.finish()?;
    }
    output.line(&target.display().to_string())
}

fn load_timeline(run: &Path) -> Result<Trace, Failure> {
    let file = run.join(TRACE_FILE);
    if !StoredRun::open(run)?.folder()?.has_file(TRACE_FILE) {
        let why = format!("{} has no timeline to export", run.display());
        return Err(Failure::new(why));
    }
    Trace::load(&file).map_err(|error| Failure::new(error.to_string()))
}

/// The stacks of a trace that has some.
fn host_stacks(trace: &Trace, only_idle: bool, run: &Path) -> Result<Vec<FlameStack>, Failure> {
    let stacks = flame_stacks(trace, only_idle);
    if stacks.is_empty() && flame_stacks(trace, false).is_empty() {
        return Err(
            Failure::new(format!("{} has no host stacks to export", run.display())).hint(
                "`llmprof record` samples them; torch.profiler records them with with_stack=True"
                    .to_owned(),
            ),
        );
    }
    Ok(stacks)
}
