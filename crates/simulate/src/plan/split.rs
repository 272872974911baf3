//! Prefill and decode on engines of their own.

use llmprof_predict::{
    EngineLimits, PredictError,
    parallel::{ParallelModel, sent_bytes_per_s},
};
use llmprof_theory::{Sequences, Step, Workload, device::Device};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::BoundsQuestion;
use crate::{disaggregated::Workers, memory::SequenceMemory, settings::Settings};

/// Decode engines are bounded with this batch.
const DECODE_BATCH: u64 = 64;

/// Numbers of replicas where prefill and decode run on engines of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Split {
    /// Replicas that only compute prompts.
    pub prefill: u64,
    /// Replicas that only generate tokens.
    pub decode: u64,
}

/// How engines share a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fleet {
    /// Each gets requests in turn.
    Replicas(u64),
    Split(Split),
}

impl Fleet {
    pub(super) fn engine_count(self) -> u64 {
        match self {
            Self::Replicas(replicas) => replicas,
            Self::Split(split) => split.prefill + split.decode,
        }
    }
}

impl BoundsQuestion<'_> {
    /// Engines of each kind that have the time for the load.
    pub(super) fn fewest_split(
        &self,
        (spread, device): (&ParallelModel, &Device),
        workload: &Workload,
    ) -> Result<Split, PredictError> {
        let predictor = spread.rank_predictor(device, self.profile);
        let seconds = |count, new, cached| -> Result<f64, PredictError> {
            let alike = Sequences { count, new, cached };
            let step = Step::of_sequences([alike]);
            let time = spread.predict_step(&predictor, workload, &step)?;
            Ok(time.time_ns.seconds())
        };
        let [prompt, output] = self.traffic.mean_lengths();
        let prefill_s = self.shift.prefill * seconds(1, (prompt as u64).max(1), 0)?;
        let decode_s =
            self.shift.decode * seconds(DECODE_BATCH, 1, (prompt + output / 2.0) as u64)?;
        let decode_s = (output - 1.0).max(0.0) * decode_s / DECODE_BATCH as f64;
        let engines = |busy_s: f64| (self.traffic.mean_rate() * busy_s).ceil().max(1.0) as u64;
        Ok(Split {
            prefill: engines(prefill_s),
            decode: engines(decode_s),
        })
    }

    /// Engines of both kinds, with the sequences that they hold and the time that a KV cache takes from one to the other.
    pub(super) fn split_workers(
        &self,
        (spread, device): (&ParallelModel, &Device),
        workload: &Workload,
        settings: &Settings,
        split: Split,
    ) -> Result<Workers, PredictError> {
        let [prompt, _] = self.traffic.mean_lengths();
        let [longest_prompt, longest_output] = self.traffic.longest_lengths();
        let blocks =
            settings.blocks_for(longest_prompt + longest_output) + settings.sequence_blocks;
        let held = (settings.kv_blocks / blocks.max(1)).clamp(1, settings.max_num_seqs);
        let memory = SequenceMemory::of_model(spread, device, workload, &EngineLimits::default())?;
        let bytes = memory.token * prompt + memory.whole;
        let prompts = settings.max_num_batched_tokens as f64 / prompt.max(1.0);
        Ok(Workers {
            prefill: split.prefill as usize,
            decode: split.decode as usize,
            prefill_sequences: prompts.max(1.0) as usize,
            decode_sequences: held as usize,
            transfer: Nanos::from_seconds(bytes / sent_bytes_per_s(device).unwrap_or(0.0)),
        })
    }
}

pub(super) fn can_send(device: &Device) -> bool {
    sent_bytes_per_s(device).is_some()
}
