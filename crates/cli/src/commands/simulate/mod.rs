//! `simulate`: continuous batching under a load, before any of it is run.

mod load;
mod step_time;

use std::{process::ExitCode, time::Duration};

use llmprof_analysis::serving::SloOutcome;
use llmprof_report::compose::simulate::{Simulated, StepTimeBasis, Unsettled, document};
use llmprof_simulate::{
    FrontEnd, Load, Settings, SimulatedLoad, StepTimer, plan::steady::SETTLED_SHARE, search,
};
use llmprof_traffic::slo::{Latencies, Metric, Slo, all_met};
use llmprof_units::Nanos;

use self::step_time::KvBlocks;
use crate::args_simulate::SimulateArgs;
use crate::{efficiency, failure::Failure, output::Output};

/// An objective that is not met.
const NOT_MET: u8 = 1;

/// Settings that a search tries.
const TRIED_TOKENS: [u64; 6] = [512, 1024, 2048, 4096, 8192, 16_384];
const TRIED_SEQUENCES: [u64; 6] = [16, 32, 64, 128, 256, 512];

pub(crate) fn simulate(args: &SimulateArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let (mut load, line) = load::load(args.requests, &args.load)?;
    let time = |given: Option<Duration>| given.map_or(Nanos(0), efficiency::nanos);
    load.front_end = FrontEnd {
        delay: time(args.engine.request_delay),
        token: time(args.engine.token_delay),
    };
    let simulated = step_time::with(args, |time, kv_blocks, basis| {
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
    load: &Load,
    line: String,
    time: &dyn StepTimer,
    kv_blocks: KvBlocks,
    step_time: StepTimeBasis,
) -> Result<Simulated, Failure> {
    let wrong = |error: llmprof_simulate::settings::SettingsError| Failure::new(error.to_string());
    let mut settings = Settings {
        max_num_batched_tokens: args.engine.max_num_batched_tokens,
        max_num_seqs: args.engine.max_num_seqs,
        block_size: args.engine.block_size,
        kv_blocks: kv_blocks.all,
        sequence_blocks: kv_blocks.sequence,
        chunked_prefill: !args.engine.no_chunked_prefill,
        prefix_caching: !args.engine.no_prefix_caching,
        reserve_full_prompt: true,
        reserve_answer: args.engine.reserve_answer,
        async_scheduling: args.engine.async_scheduling,
        wait_steps: args.engine.wait_steps,
        wait_tokens: args
            .engine
            .wait_tokens
            .unwrap_or(args.engine.max_num_batched_tokens),
    };
    settings.check_values().map_err(wrong)?;
    let slos: &[Slo] = &args.slo;
    let count = args.engine.replicas;
    if count == 0 || count > search::REPLICAS_MAX {
        return Err(Failure::new(format!(
            "--replicas must lie between 1 and {}",
            search::REPLICAS_MAX
        )));
    }
    let mut candidates = None;
    if args.search_settings {
        let with = |tried: &[u64], own: u64| {
            let mut all = tried.to_vec();
            all.push(own);
            all.sort_unstable();
            all.dedup();
            all
        };
        let tokens = with(&TRIED_TOKENS, settings.max_num_batched_tokens);
        let sequences = with(&TRIED_SEQUENCES, settings.max_num_seqs);
        let found =
            search::search_settings(load, &settings, &tokens, &sequences, time, count, slos)
                .map_err(wrong)?;
        if let Some(best) = found.first() {
            settings = best.settings;
        }
        candidates = Some(found);
    }
    let replicas = match args.search_replicas {
        Some(most) => {
            Some(search::search_replicas(load, &settings, time, most, slos).map_err(wrong)?)
        }
        None => None,
    };
    let summary = match (&replicas, candidates.as_ref().and_then(|all| all.first())) {
        (Some(found), _) => found.summary.clone(),
        (None, Some(best)) => best.summary.clone(),
        (None, None) => search::on_replicas(load, &settings, time, count, slos).map_err(wrong)?,
    };
    let unsettled = if args.load.trace.is_some() {
        // A trace is simulated as a whole, not as a sample of something longer.
        Vec::new()
    } else {
        let half = Load {
            requests: load.requests[..load.requests.len() / 2].to_vec(),
            ..load.clone()
        };
        let half = search::on_replicas(&half, &settings, time, summary.replicas, slos);
        unsettled(&half.map_err(wrong)?, &summary)
    };
    let objectives = slos.iter().map(|slo| SloOutcome {
        slo: slo.to_string(),
        value_ms: slo.value_of(&summary),
        is_met: slo.is_met(&summary),
    });
    Ok(Simulated {
        basis: "predicted",
        load: line,
        settings,
        gpus: summary.replicas * step_time.gpus(),
        slos: objectives.collect(),
        is_met: all_met(slos, &summary),
        step_time,
        summary,
        unsettled,
        candidates,
        replicas,
    })
}

/// Medians and 99th percentiles of TTFT and TPOT that half as many requests put elsewhere, by the rule of [`SETTLED_SHARE`].
fn unsettled(half: &SimulatedLoad, all: &SimulatedLoad) -> Vec<Unsettled> {
    let mut found = Vec::new();
    for metric in [Metric::Ttft, Metric::Tpot] {
        let (Some(half), Some(all)) = (half.distribution(metric), all.distribution(metric)) else {
            continue;
        };
        for (name, half_ms, all_ms) in [("p50", half.p50, all.p50), ("p99", half.p99, all.p99)] {
            if (half_ms - all_ms).abs() > SETTLED_SHARE * all_ms {
                found.push(Unsettled {
                    statistic: format!("{}:{name}", metric.name()),
                    half_ms,
                    all_ms,
                });
            }
        }
    }
    found
}
