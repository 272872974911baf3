//! `simulate`: continuous batching under a load, before any of it is run.

mod load;
mod step_time;

use std::{process::ExitCode, time::Duration};

use llmprof_analysis::serving::SloOutcome;
use llmprof_report::compose::simulate::{Simulated, StepTimeBasis, document};
use llmprof_simulate::{FrontEnd, RequestLoad, Settings, StepTimer, scenario::Scenario, search};
use llmprof_traffic::slo::all_met;
use llmprof_units::Nanos;

use self::step_time::KvBlocks;
use crate::args_simulate::SimulateArgs;
use crate::{efficiency, failure::Failure, output::Output};

/// An objective that is not met.
const NOT_MET: u8 = 1;

pub(crate) fn simulate(args: &SimulateArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let (mut load, line) = load::load(args.requests, &args.load)?;
    let time = |given: Option<Duration>| given.map_or(Nanos(0), efficiency::nanos);
    load.front_end = FrontEnd {
        delay: time(args.engine.request_delay),
        token: time(args.engine.token_delay),
    };
    let tokens = |request: &llmprof_simulate::SimulatedRequest| request.prompt + request.output;
    let longest = load.requests.iter().map(tokens).max().unwrap_or(0);
    let simulated = step_time::with(args, longest, |time, kv_blocks, basis| {
        run(args, &load, line, time, kv_blocks, basis)
    })?;
    if args.json {
        output.json(&simulated)?;
    } else {
        output.document(&document(&simulated))?;
    }
    Ok(if simulated.is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_MET)
    })
}

fn run(
    args: &SimulateArgs,
    load: &RequestLoad,
    line: String,
    time: &dyn StepTimer,
    kv_blocks: KvBlocks,
    step_time: StepTimeBasis,
) -> Result<Simulated, Failure> {
    let (engine, slos) = (&args.engine, &args.slo[..]);
    if engine.replicas == 0 || engine.replicas > search::REPLICAS_MAX {
        return Err(Failure::new(format!(
            "--replicas must lie between 1 and {}",
            search::REPLICAS_MAX
        )));
    }
    let scenario = Scenario {
        load,
        is_sample: args.load.trace.is_none(),
        asked_per_s: args.load.arrivals(args.requests)?.mean_rate(),
        settings: Settings {
            max_num_batched_tokens: engine.max_num_batched_tokens,
            max_num_seqs: engine.max_num_seqs,
            block_size: engine.block_size,
            kv_blocks: kv_blocks.all,
            sequence_blocks: kv_blocks.sequence,
            chunked_prefill: !engine.no_chunked_prefill,
            prefix_caching: !engine.no_prefix_caching,
            reserve_full_prompt: true,
            reserve_answer: engine.reserve_answer,
            async_scheduling: engine.async_scheduling,
            wait_steps: engine.wait_steps,
            wait_tokens: engine.wait_tokens.unwrap_or(engine.max_num_batched_tokens),
        },
        time,
        replicas: engine.replicas,
        slos,
        searches_settings: args.search_settings,
        replicas_max: args.search_replicas,
    };
    let outcome = scenario
        .simulate()
        .map_err(|error| Failure::new(error.to_string()))?;
    let summary = outcome.summary;
    let objectives = slos.iter().map(|slo| SloOutcome::new(slo, &summary));
    Ok(Simulated {
        basis: "predicted",
        load: line,
        settings: outcome.settings,
        gpus: summary.replicas * step_time.gpus(),
        slos: objectives.collect(),
        is_met: all_met(slos, &summary),
        step_time,
        overload: outcome.overload,
        summary,
        unsettled: outcome.unsettled,
        candidates: outcome.candidates,
        replicas: outcome.replicas,
    })
}
