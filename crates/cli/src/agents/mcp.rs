//! `llmprof mcp`: answers an agent's calls on stdin and stdout until the input ends.

use std::io::Write as _;

use llmprof_record::secrets::without_known;

use super::{protocol, root::RunsRoot, tools::RunTools};
use crate::{app, args_agents::McpArgs, failure::Failure};

pub(crate) fn mcp(args: &McpArgs) -> Result<(), Failure> {
    let folder = match &args.root {
        Some(folder) => folder.clone(),
        None => app::host()?.cwd,
    };
    let mut tools = RunTools::new(RunsRoot::open(&folder)?);
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let lost = |error: std::io::Error| Failure::new(format!("the client is gone: {error}"));
    while let Some(message) = protocol::next_message(&mut input).map_err(lost)? {
        let Some(reply) = protocol::reply(&message, &mut tools) else {
            continue;
        };
        // Secrets that this process was given never reach the client.
        let line = without_known(&reply.to_string()).into_owned() + "\n";
        let written = output.write_all(line.as_bytes());
        match written.and_then(|()| output.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            other => other.map_err(lost)?,
        }
    }
    Ok(())
}
