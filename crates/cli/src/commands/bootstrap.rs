use std::process::ExitCode;

use llmprof_assets::{
    AssetError, Surroundings,
    bootstrap::{self, BootstrapPart},
};

use crate::changes::{DIFFERS, here, lock, make};
use crate::{
    args_assets::BootstrapArgs,
    failure::{self, Failure},
    output::Output,
};

/// The parts and names of the command line: a part alone, or names alone.
fn wanted(words: &[String]) -> Result<(BootstrapPart, &[String]), Failure> {
    let part = |word: &String| match word.as_str() {
        "models" => Some(BootstrapPart::Models),
        "datasets" => Some(BootstrapPart::Datasets),
        "all" => Some(BootstrapPart::All),
        _ => None,
    };
    match words {
        [] => Ok((BootstrapPart::All, &[])),
        [one] if part(one).is_some() => Ok((part(one).unwrap_or(BootstrapPart::All), &[])),
        names if names.iter().any(|name| part(name).is_some()) => Err(Failure::new(
            "`models`, `datasets` and `all` stand alone; names stand beside names",
        )),
        names => Ok((BootstrapPart::All, names)),
    }
}

fn report(problems: &[AssetError]) {
    for problem in problems {
        Failure::new(problem.to_string())
            .hint(problem.hint())
            .report();
    }
}

pub(crate) fn bootstrap(args: &BootstrapArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let project = here()?;
    let (part, names) = wanted(&args.parts)?;
    let _lock = lock(&project)?;
    let plan = bootstrap::plan(&project, part, names, &Surroundings::of_process())?;
    if args.json {
        output.json(&plan.assets)?;
    }
    if !args.check {
        let mut told = if args.json {
            Output::stderr()
        } else {
            Output::stdout()
        };
        let made = make(plan.changes, args.consent, &mut told)?;
        report(&plan.problems);
        return Ok(if plan.problems.is_empty() {
            made
        } else {
            ExitCode::from(failure::EXIT_CODE)
        });
    }
    report(&plan.problems);
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
