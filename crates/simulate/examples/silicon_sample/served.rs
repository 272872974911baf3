//! What a row is predicted to hold: a closed loop of requests, simulated with step times predicted for the model over the row's ranks.

use std::error::Error;

use llmprof_simulate::{Load, Settings, Shape, StepTime, Summary, predicted::Predicted, simulate};
use llmprof_theory::{
    Model, Precision, Workload,
    device::Device,
    parallel::Spread,
    predict::{EfficiencyProfile, PredictError},
};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::{DType, Nanos};

use crate::rows::{Row, Source, Times};

/// Data sheets state memory in units of 10⁹ bytes and mean GiB, less what the device keeps: 143,771 MiB of an H200's 141 GB.
const REPORTED: f64 = 1.063;
/// Share of memory that engines take by default, for weights and KV cache.
const MEMORY: f64 = 0.9;
/// Activations, CUDA graphs and the libraries' own memory.
const RUNTIME_BYTES: f64 = 3e9;

/// What a row has beside the engine's own time, by who measured it and by engine. Each number is fitted to rows of other devices than the H200.
pub(crate) struct FrontEnd {
    /// Of each request: HTTP, tokenization, the interval at which an engine takes requests and streams tokens.
    pub(crate) request_ms: f64,
    /// Of each prompt token.
    pub(crate) token_ms: f64,
    /// TTFT ÷ that of the simulation: kernels under load are slower than by themselves.
    pub(crate) factor: f64,
    /// Of each sequence in each step: sampling, detokenization and streaming on the host.
    pub(crate) sequence_us: f64,
    /// Requests for each one in flight. The first ones start together, which the mean TTFT shows.
    pub(crate) rounds: usize,
    /// Lengths are drawn from this share of the stated one to all of it.
    pub(crate) least: f64,
}

impl FrontEnd {
    pub(crate) fn of(source: Source, backend: &str) -> Self {
        let dashboard = Self {
            request_ms: 20.0,
            token_ms: 0.01,
            factor: 1.1,
            sequence_us: 0.0,
            rounds: 10,
            least: 0.8,
        };
        // The medians of measured − simulated TTFT over B200 rows with up to 16 requests in flight and prompts of 1024, where the device has the least part.
        let constant = |request_ms| Self {
            request_ms,
            token_ms: 0.0,
            factor: 1.0,
            ..dashboard
        };
        match (source, backend) {
            // The least median error over the 129 dashboard rows on H100s, all of vLLM.
            (Source::Dashboard, "sglang") => constant(179.0),
            (Source::Dashboard, "trtllm") => constant(99.0),
            (Source::Dashboard, _) => dashboard,
            // TTFT on H100s is half of the prefill of all requests: they start together, once.
            (Source::Sweep, "sglang") => Self {
                sequence_us: 30.0,
                rounds: 1,
                least: 0.99,
                ..constant(50.0)
            },
            // The same over the rows of sweeps on H100s.
            (Source::Sweep, _) => Self {
                request_ms: 100.0,
                token_ms: 0.002,
                factor: 1.4,
                sequence_us: 30.0,
                ..dashboard
            },
        }
    }
}

/// The means that the row is predicted to hold; the second is TTFT of the simulation alone.
pub(crate) fn served(
    row: &Row,
    model: &Model,
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<(Times, f64), Box<dyn Error>> {
    // Rows do not state the cache. FP8 checkpoints made by NVIDIA, which TensorRT-LLM serves, state one of 8 bits; assumed for all of its rows.
    let eight_bit_cache = row.backend == "trtllm" || row.model.starts_with("nvidia/");
    let workload = Workload {
        precision: Precision {
            weights: row.weights,
            kv: eight_bit_cache.then_some("fp8".parse::<DType>()?),
            ..Precision::default()
        },
        parallel: row.parallel,
        ..Workload::default()
    };
    let spread = Spread::new(model, device, row.parallel)?;
    let predictor = spread.predictor(device, profile);
    let predict = |workload: &Workload| {
        spread
            .predict(&predictor, workload)
            .map(|found| found.prediction)
    };
    let front = FrontEnd::of(row.source, row.backend);
    let settings = Settings {
        kv_blocks: kv_blocks(row, &workload, &predict)?,
        // More than any row has in flight for a rank, as benchmarks set it.
        max_num_seqs: 1024,
        max_num_batched_tokens: 8192 * row.parallel.data,
        ..Settings::default()
    };
    let predicted = Predicted::new(&predict, &workload, Nanos(0))?;
    let time = |shape: &Shape| {
        let host = front.sequence_us * 1e-6 * shape.sequences() as f64;
        predicted.time(shape) + Nanos::from_seconds(host)
    };
    let lengths = |most: u64| Lengths::Uniform {
        least: ((most as f64 * front.least) as u64).max(1),
        most,
    };
    let load = Load::synthetic(
        &Arrivals::Closed {
            concurrency: row.concurrency,
        },
        &lengths(row.prompt),
        &lengths(row.output),
        0,
        row.concurrency * front.rounds,
        1,
    );
    let outcome = simulate(&load, &settings, &time)?;
    let summary = Summary::of(&[outcome], settings.kv_blocks, &[]);
    let (Some(ttft), Some(tpot)) = (summary.ttft_ms, summary.tpot_ms) else {
        return Err("no request ended".into());
    };
    let before = front.request_ms + front.token_ms * row.prompt as f64;
    let times = Times {
        ttft: before + front.factor * ttft.mean,
        tpot: tpot.mean,
    };
    Ok((times, ttft.mean))
}

/// KV blocks of all data-parallel groups together.
fn kv_blocks(
    row: &Row,
    workload: &Workload,
    predict: &dyn Fn(&Workload) -> Result<llmprof_theory::predict::Prediction, PredictError>,
) -> Result<u64, Box<dyn Error>> {
    let fit = |prompt| {
        let asked = Workload {
            prompt,
            new_tokens: 1,
            ..*workload
        };
        predict(&asked).map(|found| found.memory)
    };
    let (short, long) = (fit(1024)?, fit(2048)?);
    let per_token = (long.kv_bytes.0 - short.kv_bytes.0) as f64 / 1024.0;
    let capacity = long.capacity_bytes.ok_or("no capacity")?.0 as f64 * REPORTED;
    let weights = long.weights_bytes.0 as f64 + RUNTIME_BYTES;
    // TensorRT-LLM takes its share of what weights leave.
    let left = if row.backend == "trtllm" {
        (capacity - weights) * MEMORY
    } else {
        capacity * MEMORY - weights
    };
    let blocks = row.parallel.data as f64 * left / (per_token * 16.0);
    if blocks < 1.0 {
        return Err("does not fit".into());
    }
    // More than any load here takes.
    Ok((blocks as u64).min(1 << 24))
}
