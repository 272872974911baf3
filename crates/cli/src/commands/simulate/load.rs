//! From arguments to the requests of a simulation.

use llmprof_report::compose::simulate::load_line;
use llmprof_simulate::RequestLoad;
use llmprof_traffic::replay;

use crate::{arg_load::LoadArgs, failure::Failure};

/// More requests than a machine here holds.
const REQUESTS_MAX: usize = 20_000_000;

/// The requests, and the load in a line.
pub(super) fn load(requests: usize, args: &LoadArgs) -> Result<(RequestLoad, String), Failure> {
    if requests == 0 || requests > REQUESTS_MAX {
        return Err(Failure::new(format!(
            "--requests must lie between 1 and {REQUESTS_MAX}"
        )));
    }
    let arrivals = args.arrivals(requests)?;
    let (load, of) = match &args.trace {
        None => {
            let load = RequestLoad::from_lengths(
                &arrivals,
                &args.prompt_tokens,
                &args.output_tokens,
                args.shared_prefix,
                requests,
                args.seed,
            );
            (load, "requests")
        }
        Some(path) => {
            let trace = replay::load_trace(path)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            let load =
                RequestLoad::from_trace(&trace, &arrivals, args.speedup, requests, args.seed);
            (load, "requests of a trace")
        }
    };
    let when = arrivals.describe(args.speedup);
    let when = format!("{} {of}, {when}", load.requests.len());
    let line = load_line(&when, load.mean_lengths());
    Ok((load, line))
}
