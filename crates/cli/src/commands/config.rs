use llmprof_config::hydra::CommandOutcome;

use crate::{app, args::HydraArgs, failure::Failure, output::Output};

/// Prints what a Hydra application with these arguments would print; nothing is run.
pub(crate) fn config(args: HydraArgs, output: &mut Output) -> Result<(), Failure> {
    let host = app::host()?;
    let application = if args.config_path.is_some() {
        app::foreign()
    } else {
        app::llmprof(&host.cwd)
    };
    let mut command = args.into_command();
    if command.info.is_none() && command.cfg.is_none() {
        command.cfg = Some(llmprof_config::hydra::CfgKind::Job);
    }
    let is_ours = command.config_path.is_none();
    let outcome = command.perform(&application, &host).map_err(|error| {
        if is_ours {
            app::own_failure(error)
        } else {
            error.into()
        }
    })?;
    app::warn(host.warnings.take_all());
    match outcome {
        CommandOutcome::Text(text) => output.text(&text),
        CommandOutcome::Execution(_) => Ok(()),
    }
}
