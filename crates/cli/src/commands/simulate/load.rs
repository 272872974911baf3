//! From arguments to the requests of a simulation.

use llmprof_simulate::Load;
use llmprof_traffic::{arrivals::Arrivals, replay};

use super::args::LoadArgs;
use crate::failure::Failure;

/// More requests than a machine here holds.
const MOST_REQUESTS: usize = 20_000_000;

/// The requests, and the load in a line.
pub(super) fn load(args: &LoadArgs) -> Result<(Load, String), Failure> {
    if args.requests == 0 || args.requests > MOST_REQUESTS {
        return Err(Failure::new(format!(
            "--requests must lie between 1 and {MOST_REQUESTS}"
        )));
    }
    if !(args.speedup > 0.0 && args.speedup.is_finite()) {
        return Err(Failure::new("--speedup must be a positive number"));
    }
    let arrivals = arrivals(args);
    if let Some(mistake) = arrivals.mistake() {
        return Err(Failure::new(mistake));
    }
    let when = match &arrivals {
        Arrivals::Closed { concurrency } => format!("{concurrency} in flight"),
        Arrivals::Constant { rate } => format!("{rate} requests/s, evenly spaced"),
        Arrivals::Poisson { rate } => format!("{rate} requests/s, Poisson"),
        Arrivals::Gamma { rate, burstiness } => {
            format!("{rate} requests/s, burstiness {burstiness}")
        }
        Arrivals::Recorded => format!("at the times of the trace, {}×", args.speedup),
    };
    let Some(path) = &args.trace else {
        let load = Load::synthetic(
            &arrivals,
            &args.prompt_tokens,
            &args.output_tokens,
            args.shared_prefix,
            args.requests,
            args.seed,
        );
        let (prompts, outputs) = means(&load);
        let line = format!(
            "{} requests, {when}, {prompts:.0} prompt and {outputs:.0} output tokens on average",
            load.requests.len()
        );
        return Ok((load, line));
    };
    let trace =
        replay::load(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let load = Load::traced(&trace, &arrivals, args.speedup, args.requests, args.seed);
    let (prompts, outputs) = means(&load);
    let line = format!(
        "{} requests of a trace, {when}, {prompts:.0} prompt and {outputs:.0} output tokens on average",
        load.requests.len()
    );
    Ok((load, line))
}

fn arrivals(args: &LoadArgs) -> Arrivals {
    match (args.rate, args.burstiness) {
        (Some(rate), Some(burstiness)) => Arrivals::Gamma { rate, burstiness },
        (Some(rate), None) if args.constant => Arrivals::Constant { rate },
        (Some(rate), None) => Arrivals::Poisson { rate },
        (None, _) if args.trace.is_some() && args.concurrency.is_none() => Arrivals::Recorded,
        (None, _) => Arrivals::Closed {
            concurrency: args.concurrency.unwrap_or(1),
        },
    }
}

fn means(load: &Load) -> (f64, f64) {
    let count = load.requests.len().max(1) as f64;
    let mean = |of: fn(&llmprof_simulate::Request) -> u64| {
        load.requests.iter().map(of).sum::<u64>() as f64 / count
    };
    (mean(|r| r.prompt), mean(|r| r.output))
}
