use std::{path::Path, process::ExitCode};

use llmprof_assets::{
    Surroundings,
    externals::{self, Condition, ExternalAction, ExternalState},
};
use llmprof_report::compose::listings;

use crate::changes::{DIFFERS, here, lock, make};
use crate::{
    args_assets::{ExternalsArgs, ExternalsCommand},
    failure::Failure,
    output::Output,
};

pub(crate) fn externals(
    command: ExternalsCommand,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let project = here()?;
    let (action, args): (ExternalAction, ExternalsArgs) = match command {
        ExternalsCommand::Init(args) => (ExternalAction::Init, args),
        ExternalsCommand::Update(args) => (ExternalAction::Update, args),
        ExternalsCommand::Snapshot(args) => (ExternalAction::Snapshot, args),
        ExternalsCommand::Status { check, json } => return status(&project, check, json, output),
        ExternalsCommand::Guard {
            install: true,
            consent,
        } => {
            let _lock = lock(&project)?;
            return make(externals::install_guard(&project)?, consent, output);
        }
        ExternalsCommand::Guard { install: false, .. } => return guard(&project, output),
    };
    let _lock = lock(&project)?;
    let changes = externals::plan(&project, action, &args.paths, &Surroundings::of_process())?;
    make(changes, args.consent, output)
}

fn status(
    project: &Path,
    check: bool,
    json: bool,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let states = externals::status(project)?;
    if json {
        output.json(&states)?;
    } else {
        output.table(&listings::externals(
            states.iter().map(ExternalState::cells),
        ))?;
    }
    let differs = states
        .iter()
        .any(|state| state.condition != Condition::AsPinned);
    Ok(if check && differs {
        ExitCode::from(DIFFERS)
    } else {
        ExitCode::SUCCESS
    })
}

fn guard(project: &Path, output: &mut Output) -> Result<ExitCode, Failure> {
    let index = std::env::var_os("GIT_INDEX_FILE");
    let refused = externals::guard(project, index.as_deref().map(Path::new))?;
    for line in &refused {
        output.line(line)?;
    }
    Ok(if refused.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERS)
    })
}
