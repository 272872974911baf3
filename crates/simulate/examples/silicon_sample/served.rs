//! What a row is predicted to hold: a closed loop of requests, simulated with step times predicted for the model over the row's ranks.

use std::error::Error;

use llmprof_simulate::{Load, Shape, StepTime, Summary, predicted::Predicted, simulate};
use llmprof_theory::{
    Decoder, Model, Precision, Workload,
    block::{FeedForward, Layer},
    device::Device,
    parallel::Spread,
    predict::{EfficiencyProfile, PredictError},
};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::{DType, Nanos};

use crate::{
    launch::Launch,
    rows::{Row, Source, Times},
};

/// Data sheets state memory in units of 10⁹ bytes and mean GiB, less what the device keeps: 143,771 MiB of an H200's 141 GB.
const REPORTED: f64 = 1.063;
/// Activations, CUDA graphs and the libraries' own memory.
const RUNTIME_BYTES: f64 = 3e9;

/// What a row has beside the engine's own time, by who measured it and by engine. Each number is fitted to rows of other devices than the H200.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something else of a row"
)]
pub(crate) struct FrontEnd {
    /// Of each request until the engine has it: HTTP, tokenization.
    request_ms: f64,
    /// The same of each prompt token.
    token_ms: f64,
    /// TTFT ÷ that of the simulation: kernels under load are slower than by themselves.
    factor: f64,
    /// Whether a step with prompts is launched kernel by kernel; vLLM compiles it.
    is_eager: bool,
    /// Whether routing and experts are one kernel.
    pub(crate) joins_experts: bool,
    /// Of each sequence in each step: sampling, detokenization and streaming on the host.
    sequence_us: f64,
    /// Whether requests come to a loop under way, or all together, once.
    is_loop: bool,
    /// Whether requests take that time before the engine has them; of sweeps it is only added to TTFT.
    is_before: bool,
    /// Lengths are drawn from this share of the stated one to all of it.
    least: f64,
}

/// Host time in ms to launch the kernels of a layer: dense; with routing and experts in one kernel, as TensorRT-LLM has it on B200s; with kernels of their own for
/// routing and experts. The least median errors over rows of Llama, gpt-oss and DeepSeek with TensorRT-LLM on B200s.
const LAUNCH_MS: [f64; 3] = [0.5, 0.8, 2.0];

impl FrontEnd {
    pub(crate) fn of(source: Source, backend: &str) -> Self {
        // The least median error over the 129 dashboard rows on H100s, all of vLLM.
        let vllm = Self {
            request_ms: 10.0,
            token_ms: 0.005,
            factor: 1.2,
            is_eager: false,
            joins_experts: false,
            sequence_us: 0.0,
            is_loop: true,
            is_before: true,
            least: 0.8,
        };
        match (source, backend) {
            // Over rows of GLM-5 on B200s; those of DeepSeek take requests every tenth or thirtieth step only.
            (Source::Dashboard, "sglang") => Self {
                request_ms: 20.0,
                factor: 1.1,
                is_eager: true,
                ..vllm
            },
            // Over rows on B200s that do not speculate.
            (Source::Dashboard, "trtllm") => Self {
                request_ms: 5.0,
                token_ms: 0.0025,
                factor: 1.1,
                is_eager: true,
                ..vllm
            },
            (Source::Dashboard, _) => vllm,
            // TTFT on H100s is half of the prefill of all requests: they start together, once.
            (Source::Sweep, "sglang") => Self {
                request_ms: 50.0,
                token_ms: 0.0,
                factor: 1.0,
                sequence_us: 30.0,
                is_loop: false,
                is_before: false,
                least: 0.99,
                ..vllm
            },
            // Over the rows of sweeps on H100s.
            (Source::Sweep, _) => Self {
                request_ms: 100.0,
                token_ms: 0.002,
                factor: 1.4,
                sequence_us: 30.0,
                is_before: false,
                ..vllm
            },
        }
    }

    /// Until the engine has a request.
    fn delay_ms(&self, prompt: u64) -> f64 {
        self.request_ms + self.token_ms * prompt as f64
    }

    /// The closed loop of a row.
    pub(crate) fn load(
        &self,
        concurrency: usize,
        rounds: usize,
        [prompt, output]: [u64; 2],
    ) -> Load {
        let lengths = |most: u64| Lengths::Uniform {
            least: ((most as f64 * self.least) as u64).max(1),
            most,
        };
        let rounds = if self.is_loop { rounds } else { 1 };
        let mut load = Load::synthetic(
            &Arrivals::Closed { concurrency },
            &lengths(prompt),
            &lengths(output),
            0,
            concurrency * rounds,
            1,
        );
        if self.is_before {
            load.delay = Nanos::from_seconds(self.delay_ms(prompt) / 1e3);
        }
        load
    }

    /// Time of a step with what the host adds.
    pub(crate) fn step(&self, model: &Model, shape: &Shape, time: Nanos) -> Nanos {
        let is_launched = self.is_eager && shape.prefill_tokens > 0;
        let launches = if is_launched {
            launch_ms(model, self.joins_experts)
        } else {
            0.0
        };
        let host = self.sequence_us * 1e-6 * shape.sequences() as f64;
        time.max(Nanos::from_seconds(launches / 1e3)) + Nanos::from_seconds(host)
    }

    /// The means of a simulated load as clients see them.
    pub(crate) fn seen(&self, summary: &Summary, prompt: u64) -> Result<Times, Box<dyn Error>> {
        let (Some(ttft), Some(tpot)) = (summary.ttft_ms, summary.tpot_ms) else {
            return Err("no request ended".into());
        };
        let delay = self.delay_ms(prompt);
        let before = if self.is_before { delay } else { 0.0 };
        Ok(Times {
            ttft: delay + self.factor * (ttft.mean - before),
            tpot: tpot.mean,
        })
    }
}

fn launch_ms(model: &Model, joins_experts: bool) -> f64 {
    let of = |layer: &Layer| match &layer.feed {
        FeedForward::Dense(_) => LAUNCH_MS[0],
        FeedForward::Moe(_) if joins_experts => LAUNCH_MS[1],
        FeedForward::Moe(_) => LAUNCH_MS[2],
    };
    let layers = model.decoder.iter().flat_map(Decoder::layers);
    layers.map(|(_, layer)| of(layer)).sum()
}

/// The means that the row is predicted to hold.
pub(crate) fn served(
    row: &Row,
    model: &Model,
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<Times, Box<dyn Error>> {
    let launch = Launch::of(row);
    let workload = Workload {
        precision: Precision {
            weights: row.weights,
            kv: launch.eight_bit_cache.then_some("fp8".parse::<DType>()?),
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
    let front = FrontEnd {
        joins_experts: row.device == "b200" && row.model.starts_with("openai"),
        ..FrontEnd::of(row.source, row.backend)
    };
    let settings = launch.settings(row, kv_blocks(row, &launch, &workload, &predict)?);
    let predicted = Predicted::new(&predict, &workload, Nanos(0))?;
    let time = |shape: &Shape| front.step(model, shape, predicted.time(shape));
    let load = front.load(row.concurrency, launch.rounds, [row.prompt, row.output]);
    let outcome = simulate(&load, &settings, &time)?;
    let summary = Summary::of(&[outcome], settings.kv_blocks, &[]);
    front.seen(&summary, row.prompt)
}

/// KV blocks of all data-parallel groups together.
fn kv_blocks(
    row: &Row,
    launch: &Launch,
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
        (capacity - weights) * launch.memory
    } else {
        capacity * launch.memory - weights
    };
    let blocks = row.parallel.data as f64 * left / (per_token * 16.0);
    if blocks < 1.0 {
        return Err("does not fit".into());
    }
    // More than any load here takes.
    Ok((blocks as u64).min(1 << 24))
}
