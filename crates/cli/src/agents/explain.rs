//! `llmprof explain RUN [ID]`: the answers of `llmprof mcp` in a shell.

use std::process::ExitCode;

use llmprof_view::agent::{Asked, Caller, Question};

use crate::{args_agents::ExplainArgs, failure, failure::Failure, output::Output, viewing};

pub(crate) fn explain(args: &ExplainArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let question = match args.id.as_deref() {
        None | Some("summary") => Question::Summary,
        Some("findings") => Question::Findings { from: args.from },
        Some("kernels") => Question::Kernels {
            from: args.from,
            filter: args.filter.clone(),
        },
        Some(id) => Question::Explain(id.parse().map_err(|error: String| {
            Failure::new(error).hint(format!(
                "llmprof explain {} lists ids; findings and kernels are ids too",
                args.run.display()
            ))
        })?),
    };
    let asked = Asked {
        caller: Caller::Shell,
        run: args.run.display().to_string(),
    };
    match viewing::open(&args.run)?.ask(&asked, &question) {
        Ok(text) => output.line(&text).map(|()| ExitCode::SUCCESS),
        // The error is data as well: it names the next command.
        Err(text) => output
            .line(&text)
            .map(|()| ExitCode::from(failure::EXIT_CODE)),
    }
}
