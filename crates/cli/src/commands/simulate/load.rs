//! From arguments to the requests of a simulation.

use llmprof_simulate::Load;
use llmprof_traffic::replay;

use crate::{arg_load::LoadArgs, failure::Failure};

/// More requests than a machine here holds.
const MOST_REQUESTS: usize = 20_000_000;

/// The requests, and the load in a line.
pub(super) fn load(requests: usize, args: &LoadArgs) -> Result<(Load, String), Failure> {
    if requests == 0 || requests > MOST_REQUESTS {
        return Err(Failure::new(format!(
            "--requests must lie between 1 and {MOST_REQUESTS}"
        )));
    }
    let arrivals = args.arrivals()?;
    let when = arrivals.describe(args.speedup);
    let Some(path) = &args.trace else {
        let load = Load::from_lengths(
            &arrivals,
            &args.prompt_tokens,
            &args.output_tokens,
            args.shared_prefix,
            requests,
            args.seed,
        );
        let (prompts, outputs) = means(&load);
        let line = format!(
            "{} requests, {when}, {prompts:.0} prompt and {outputs:.0} output tokens on average",
            load.requests.len()
        );
        return Ok((load, line));
    };
    let trace = replay::load_trace(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let load = Load::from_trace(&trace, &arrivals, args.speedup, requests, args.seed);
    let (prompts, outputs) = means(&load);
    let line = format!(
        "{} requests of a trace, {when}, {prompts:.0} prompt and {outputs:.0} output tokens on average",
        load.requests.len()
    );
    Ok((load, line))
}

fn means(load: &Load) -> (f64, f64) {
    let count = load.requests.len().max(1) as f64;
    let mean = |of: fn(&llmprof_simulate::Request) -> u64| {
        load.requests.iter().map(of).sum::<u64>() as f64 / count
    };
    (mean(|r| r.prompt), mean(|r| r.output))
}
