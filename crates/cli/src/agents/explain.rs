//! `llmprof explain RUN [ID]`: the answers of `llmprof mcp` in a shell.

use std::process::ExitCode;

use llmprof_view::agent::{AgentQuestion, Asked, Caller};

use crate::{args_agents::ExplainArgs, failure, failure::Failure, output::Output, viewing};

pub(crate) fn explain(args: &ExplainArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let run = viewing::given_or_newest(args.run.as_deref())?;
    let question = match args.id.as_deref() {
        None | Some("summary") => AgentQuestion::Summary,
        Some("findings") => AgentQuestion::Findings { from: args.from },
        Some("kernels") => AgentQuestion::Kernels {
            from: args.from,
            filter: args.filter.clone(),
        },
        Some(id) => AgentQuestion::Explain(id.parse().map_err(|error: String| {
            Failure::new(error).hint(format!(
                "llmprof explain {} lists ids; findings and kernels are ids too",
                run.display()
            ))
        })?),
    };
    let asked = Asked {
        caller: Caller::Shell,
        run: run.display().to_string(),
    };
    match viewing::open(&run)?.ask(&asked, &question) {
        Ok(text) => output.line(&text).map(|()| ExitCode::SUCCESS),
        // The error is data as well: it names the next command.
        Err(text) => output
            .line(&text)
            .map(|()| ExitCode::from(failure::EXIT_CODE)),
    }
}
