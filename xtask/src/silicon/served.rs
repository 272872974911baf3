//! What a row is predicted to hold: a closed loop of requests, simulated with step times predicted for the model over the row's ranks.

use std::error::Error;

use llmprof_predict::{EfficiencyProfile, EngineLimits, parallel::ParallelModel};
use llmprof_simulate::{
    FrontEnd, RequestLoad, SimulatedLoad, StepTimer, memory::SequenceMemory, predicted::Predicted,
    simulate_load,
};
use llmprof_theory::{Model, Precision, Step, Workload, device::Device};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::{Basis, DType, Nanos};

use super::{
    launch::LaunchSettings,
    rows::{ServedRow, ServedTimes},
};

/// Data sheets state memory in units of 10⁹ bytes and mean GiB, less what the device keeps: 143,771 MiB of an H200's 141 GB. Measured
/// capacities are taken as they are.
const REPORTED: f64 = 1.063;
/// Activations, CUDA graphs and the libraries' own memory.
const RUNTIME_BYTES: f64 = 3e9;

/// Tokens of a KV block.
const BLOCK_TOKENS: u64 = 16;

/// What a client sees beside the engine's own time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientCosts {
    /// Of each request until the engine has it: HTTP, tokenization.
    pub(crate) request_ms: f64,
    /// Of each prompt token, one request after another.
    pub(crate) token_us: f64,
    /// Of each sequence in each step: sampling, detokenization and streaming on the host.
    pub(crate) sequence_us: f64,
    /// Lengths are drawn from this share of the stated ones to all of them.
    pub(crate) least: f64,
}

impl ClientCosts {
    /// The closed loop of a row.
    pub(crate) fn closed_loop(
        &self,
        concurrency: usize,
        rounds: usize,
        [prompt, output]: [u64; 2],
    ) -> RequestLoad {
        let lengths = |most: u64| Lengths::Uniform {
            least: ((most as f64 * self.least) as u64).max(1),
            most,
        };
        let mut load = RequestLoad::from_lengths(
            &Arrivals::Closed { concurrency },
            &lengths(prompt),
            &lengths(output),
            0,
            concurrency * rounds,
            1,
        );
        load.front_end = FrontEnd {
            delay: Nanos::from_seconds(self.request_ms / 1e3),
            token: Nanos::from_seconds(self.token_us / 1e6),
        };
        load
    }

    /// Time of a step with what each sequence adds.
    pub(crate) fn step_time(&self, step: &Step, time: Nanos) -> Nanos {
        time + Nanos::from_seconds(self.sequence_us * 1e-6 * step.sequences() as f64)
    }
}

pub(crate) struct GradedServer<'a> {
    pub(crate) model: &'a Model,
    pub(crate) device: &'a Device,
    pub(crate) profile: &'a EfficiencyProfile,
    pub(crate) client: ClientCosts,
}

pub(crate) fn mean_times(summary: &SimulatedLoad) -> Result<ServedTimes, Box<dyn Error>> {
    let (Some(ttft), Some(tpot)) = (summary.figures.ttft_ms, summary.figures.tpot_ms) else {
        return Err("no request ended".into());
    };
    Ok(ServedTimes {
        ttft: ttft.mean,
        tpot: tpot.mean,
    })
}

/// What a step of a row's engine is predicted for.
fn row_workload(row: &ServedRow) -> Result<Workload, Box<dyn Error>> {
    let eight_bits = LaunchSettings::of_row(row).eight_bit_cache;
    Ok(Workload {
        precision: Precision {
            weights: row.weights,
            kv: eight_bits.then_some("fp8".parse::<DType>()?),
            ..Precision::default()
        },
        parallel: row.parallel,
        ..Workload::default()
    })
}

/// Whether the row fits into its ranks, and these are modelled.
pub(crate) fn can_serve(
    row: &ServedRow,
    model: &Model,
    device: &Device,
    profile: &EfficiencyProfile,
) -> bool {
    let predicted = || -> Result<(), Box<dyn Error>> {
        let spread = ParallelModel::new(model, device, row.parallel)?;
        let workload = row_workload(row)?;
        spread.predict(&spread.rank_predictor(device, profile), &workload)?;
        kv_blocks(row, &workload, &spread, device)?;
        Ok(())
    };
    predicted().is_ok()
}

/// The means that the row is predicted to hold.
pub(crate) fn predict_served(
    row: &ServedRow,
    server: &GradedServer<'_>,
) -> Result<ServedTimes, Box<dyn Error>> {
    let GradedServer {
        model,
        device,
        profile,
        client,
    } = server;
    let (launch, workload) = (LaunchSettings::of_row(row), row_workload(row)?);
    let spread = ParallelModel::new(model, device, row.parallel)?;
    let predictor = spread.rank_predictor(device, &launch.put_into(profile));
    let settings = launch.engine_settings(row, kv_blocks(row, &workload, &spread, device)?);
    let predict = |step: &Step| spread.predict_step(&predictor, &workload, step);
    let predicted = Predicted::new(&predict, Nanos(0))?;
    let time = |step: &Step| client.step_time(step, predicted.step_time(step));
    let load = client.closed_loop(row.concurrency, launch.rounds, [row.prompt, row.output]);
    let outcome = simulate_load(&load, &settings, &time)?;
    mean_times(&SimulatedLoad::of_outcomes(
        &[outcome],
        settings.kv_blocks,
        &[],
    ))
}

/// KV blocks of all data-parallel groups together, and those of a sequence whatever its length.
fn kv_blocks(
    row: &ServedRow,
    workload: &Workload,
    spread: &ParallelModel,
    device: &Device,
) -> Result<[u64; 2], Box<dyn Error>> {
    let launch = LaunchSettings::of_row(row);
    let memory = SequenceMemory::of_model(spread, device, workload, &EngineLimits::default())?;
    let capacity = device.memory.capacity_bytes.as_ref().ok_or("no capacity")?;
    let reported = match capacity.basis {
        Basis::Measured => 1.0,
        _ => REPORTED,
    };
    let capacity = capacity.value.0 as f64 * reported;
    let weights = memory.engine.weights_bytes.0 as f64 + RUNTIME_BYTES;
    // TensorRT-LLM takes its share of what weights leave.
    let left = if row.backend == "trtllm" {
        (capacity - weights) * launch.memory
    } else {
        capacity * launch.memory - weights
    };
    let blocks = row.parallel.data as f64 * left / (memory.token * BLOCK_TOKENS as f64);
    if blocks < 1.0 {
        return Err("does not fit".into());
    }
    // More than any load here takes.
    let blocks = (blocks as u64).min(1 << 24);
    Ok([blocks, memory.sequence_blocks(BLOCK_TOKENS)])
}
