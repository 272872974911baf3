//! What an engine can at best do, before anything is simulated: bounds that no schedule beats.

use llmprof_predict::{
    EfficiencyProfile, EngineLimits, PredictError, Predictor, parallel::ParallelModel,
};
use llmprof_theory::{Precision, Sequences, Step, Workload, device::Device, parallel::Parallel};
use llmprof_traffic::slo::{Metric, Slo};
use schemars::JsonSchema;
use serde::Serialize;

use super::traffic::PlanTraffic;
use crate::{memory::SequenceMemory, settings::Settings, shift::Shift};

/// Why an engine does not serve a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanReason {
    /// Weights and activations leave no KV cache.
    Memory,
    /// The KV cache is too small: for the longest request, or so that sequences are preempted.
    Kv,
    Ttft,
    Tpot,
    /// The time from arrival to the last token exceeds its objective.
    E2e,
    /// It needs more GPUs than allowed.
    Gpus,
    /// No prediction: the device states no rate in a format, or no memory.
    NotPredicted,
}

impl PlanReason {
    /// Key under which the reason is serialized.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Kv => "kv",
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::Gpus => "gpus",
            Self::NotPredicted => "not_predicted",
        }
    }
}

/// Limits that are tried in turn: new tokens of a step, and sequences. Fewer tokens keep prompts from delaying decode steps, fewer sequences
/// keep those short.
pub(super) const ENGINE_LIMITS: [[u64; 2]; 4] = [[8192, 256], [2048, 256], [2048, 64], [512, 32]];

/// An engine that is not ruled out.
#[derive(Clone, Debug)]
pub(super) struct EngineChoice {
    pub(super) device: usize,
    pub(super) layout: usize,
    pub(super) parallel: Parallel,
    pub(super) precision: Precision,
    /// Fewest engines by the bound on throughput.
    pub(super) replicas: u64,
}

/// What bounds are made for.
pub(super) struct BoundsQuestion<'a> {
    pub(super) profile: &'a EfficiencyProfile,
    pub(super) shift: Shift,
    pub(super) base: &'a Workload,
    pub(super) traffic: &'a PlanTraffic,
    pub(super) slos: &'a [Slo],
    pub(super) gpu_memory_utilization: f64,
    pub(super) block_size: u64,
    pub(super) max_gpus: u64,
}

/// Batches whose throughput is bounded.
const BATCHES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

impl BoundsQuestion<'_> {
    /// The workload of an engine in some formats.
    pub(super) fn engine_workload(&self, parallel: Parallel, precision: Precision) -> Workload {
        Workload {
            parallel,
            precision,
            ..*self.base
        }
    }

    /// Settings of an engine with these limits, and its KV blocks.
    pub(super) fn engine_settings(
        &self,
        (spread, device): (&ParallelModel, &Device),
        workload: &Workload,
        [max_num_batched_tokens, max_num_seqs]: [u64; 2],
    ) -> Result<Settings, PlanReason> {
        let limits = EngineLimits {
            gpu_memory_utilization: self.gpu_memory_utilization,
            max_num_batched_tokens,
            max_num_seqs,
        };
        let settings = engine_settings((spread, device), workload, &limits, self.block_size)?;
        let [prompt, output] = self.traffic.longest_lengths();
        if !settings.can_serve(prompt, output) {
            return Err(PlanReason::Kv);
        }
        Ok(settings)
    }

    /// Engines that the load needs at least, or why none of this kind serves it.
    pub(super) fn fewest_replicas(
        &self,
        (spread, device): (&ParallelModel, &Device),
        workload: &Workload,
        limits: [u64; 2],
    ) -> Result<u64, PlanReason> {
        let settings = self.engine_settings((spread, device), workload, limits)?;
        let predictor = spread.rank_predictor(device, self.profile);
        let capacity = self
            .request_capacity((spread, &predictor), workload, &settings)
            .map_err(|_| PlanReason::NotPredicted)??;
        let replicas = (self.traffic.mean_rate() / capacity).ceil().max(1.0);
        if replicas * workload.parallel.rank_count() as f64 > self.max_gpus as f64 {
            return Err(PlanReason::Gpus);
        }
        Ok(replicas as u64)
    }

    /// Steps that are longer make a load miss its TPOT: where the objective is for nearly all requests.
    fn longest_step_s(&self) -> f64 {
        let strict = self.slos.iter().filter(|slo| {
            slo.metric == Metric::Tpot && ["p95", "p99", "max"].contains(&slo.statistic.as_str())
        });
        let limits = strict.map(|slo| slo.limit_ms / 1e3);
        limits.fold(f64::INFINITY, f64::min)
    }

    /// The most requests a second that one engine can serve within the objectives.
    fn request_capacity(
        &self,
        (spread, predictor): (&ParallelModel, &Predictor<'_>),
        workload: &Workload,
        settings: &Settings,
    ) -> Result<Result<f64, PlanReason>, PredictError> {
        let seconds = |factor: f64, alike: Sequences| -> Result<f64, PredictError> {
            let step = Step::of_sequences([alike]);
            let time = spread.predict_step(predictor, workload, &step)?.time_ns;
            Ok(factor * time.seconds())
        };
        let decode = |count: u64, cached: u64| {
            let alike = Sequences {
                count,
                new: 1,
                cached,
            };
            seconds(self.shift.decode, alike)
        };
        let prefill = |count: u64, new: u64| {
            let alike = Sequences {
                count,
                new,
                cached: 0,
            };
            seconds(self.shift.prefill, alike)
        };
        // A step of one sequence with the shortest prompt takes no longer than any step of any request.
        let shortest_s = decode(1, self.traffic.prompt_at(0.0))?;
        let mut of_tpot = self.slos.iter().filter(|slo| slo.metric == Metric::Tpot);
        if of_tpot.any(|slo| shortest_s > slo.limit_ms / 1e3) {
            return Ok(Err(PlanReason::Tpot));
        }
        // What the prefix cache has is not computed.
        let is_computed = !self.traffic.shares_content();
        for slo in self.slos.iter().filter(|slo| slo.metric == Metric::Ttft) {
            let prompt = self.traffic.prompt_at(share_below(&slo.statistic));
            let prompt = prompt.min(settings.max_num_batched_tokens);
            if is_computed && prefill(1, prompt)? > slo.limit_ms / 1e3 {
                return Ok(Err(PlanReason::Ttft));
            }
        }
        let [prompt, output] = self.traffic.mean_lengths();
        let prompt_tokens = (prompt as u64).clamp(1, settings.max_num_batched_tokens);
        let prompts = (settings.max_num_batched_tokens / prompt_tokens).max(1);
        let prefill_s = if is_computed {
            prefill(prompts, prompt_tokens)? / prompts as f64 * prompt / prompt_tokens as f64
        } else {
            0.0
        };
        let context = (prompt + output / 2.0) as u64;
        let blocks = settings.blocks_for(context) + settings.sequence_blocks;
        let largest = (settings.kv_blocks / blocks.max(1)).clamp(1, settings.max_num_seqs);
        let decodes = (output - 1.0).max(0.0);
        let mut best = 0.0_f64;
        let mut below_s = 0.0;
        for batch in BATCHES {
            let step_s = decode(batch, context)?;
            let is_beyond = batch > largest || (batch > 1 && step_s > self.longest_step_s());
            // The largest batch lies between two that are timed: its steps take at least as long as those of the smaller one.
            let (sequences, step_s) = if is_beyond {
                (batch.min(largest), below_s)
            } else {
                (batch, step_s)
            };
            // Sequences decode in the very steps that compute prompts: the longer of the two is what is certain.
            let request_s = prefill_s.max(decodes * step_s / sequences as f64);
            best = best.max(1.0 / request_s.max(1e-9));
            if is_beyond {
                break;
            }
            below_s = step_s;
        }
        Ok(Ok(best))
    }
}

/// Settings of an engine with these limits, with as many KV blocks as its memory holds.
pub(super) fn engine_settings(
    (spread, device): (&ParallelModel, &Device),
    workload: &Workload,
    limits: &EngineLimits,
    block_size: u64,
) -> Result<Settings, PlanReason> {
    let memory = SequenceMemory::of_model(spread, device, workload, limits)
        .map_err(|_| PlanReason::NotPredicted)?;
    let kv_blocks = memory
        .kv_blocks(block_size)
        .ok_or(PlanReason::NotPredicted)?;
    if kv_blocks == 0 {
        return Err(PlanReason::Memory);
    }
    let settings = Settings {
        max_num_batched_tokens: limits.max_num_batched_tokens,
        max_num_seqs: limits.max_num_seqs,
        block_size,
        kv_blocks,
        sequence_blocks: memory.sequence_blocks(block_size),
        ..Settings::default()
    };
    settings
        .check_values()
        .map_err(|_| PlanReason::NotPredicted)?;
    Ok(settings)
}

/// The share of requests below a statistic; of a mean, none for certain.
fn share_below(statistic: &str) -> f64 {
    match statistic {
        "p50" => 0.5,
        "p90" => 0.9,
        "p95" => 0.95,
        "p99" => 0.99,
        "max" => 1.0,
        _ => 0.0,
    }
}
