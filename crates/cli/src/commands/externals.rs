use std::{path::Path, process::ExitCode};

use llmprof_assets::{
    Surroundings,
    externals::{self, Action, Condition},
};
use llmprof_report::Table;

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
    let (action, args): (Action, ExternalsArgs) = match command {
        ExternalsCommand::Init(args) => (Action::Init, args),
        ExternalsCommand::Update(args) => (Action::Update, args),
        ExternalsCommand::Snapshot(args) => (Action::Snapshot, args),
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
        let mut table = Table::new(&["PATH", "KIND", "PINNED", "FOUND", "STATE"], 5);
        for state in &states {
            let short = |revision: &Option<String>| {
                revision
                    .as_deref()
                    .map_or("-", |id| &id[..id.len().min(12)])
                    .to_owned()
            };
            let kind = serde_json::to_value(state.kind).ok();
            let condition = match state.condition {
                Condition::AsPinned => "as pinned".to_owned(),
                Condition::Missing => "missing".to_owned(),
                Condition::Unpinned => "not pinned".to_owned(),
                Condition::Drifted => "drifted".to_owned(),
                Condition::Dangling => "points at nothing".to_owned(),
                Condition::Edited => format!("edited: {}", state.edits.join(", ")),
            };
            table.row([
                state.path.clone(),
                kind.as_ref()
                    .and_then(|kind| kind.as_str())
                    .unwrap_or_default()
                    .to_owned(),
                short(&state.pinned),
                short(&state.found),
                condition,
            ]);
        }
        output.table(&table)?;
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
