use std::process::ExitCode;

use llmprof_assets::{
    Surroundings,
    bootstrap::{self, Part},
};

use super::changes::{DIFFERS, here, lock, make};
use crate::{
    args_assets::{BootstrapArgs, BootstrapPart},
    failure::Failure,
    output::Output,
};

pub(crate) fn bootstrap(args: &BootstrapArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let project = here()?;
    let part = match args.part {
        BootstrapPart::Models => Part::Models,
        BootstrapPart::Datasets => Part::Datasets,
        BootstrapPart::All => Part::All,
    };
    let _lock = lock(&project)?;
    let plan = bootstrap::plan(&project, part, &Surroundings::of_process())?;
    if args.json {
        output.json(&plan.assets)?;
    }
    if !args.check {
        let mut told = if args.json {
            Output::stderr()
        } else {
            Output::stdout()
        };
        return make(plan.changes()?, args.consent, &mut told);
    }
    for problem in &plan.problems {
        Failure::new(problem.to_string())
            .hint(problem.hint())
            .report();
    }
    let pending: Vec<&str> = plan.changes.lines().collect();
    for line in &pending {
        crate::output::note(&format!("not as declared: {line}"));
    }
    if plan.problems.is_empty() && pending.is_empty() {
        if !args.json {
            output.line(&format!(
                "{}, all as declared",
                llmprof_units::Count(plan.assets.len() as u64, "link")
            ))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(DIFFERS))
}
