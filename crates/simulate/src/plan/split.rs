//! Prefill and decode on engines of their own.

use llmprof_predict::{EngineLimits, PredictError, parallel::Spread};
use llmprof_theory::{
    Sequences, Step, Workload,
    device::{Counts, Device},
};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Candidate, ENGINE_LIMITS, Engines, Reason, bounds::Choice};
use crate::{disaggregated::Workers, memory::SequenceMemory, settings::Settings};

/// Pairs of numbers that are tried for one engine.
const SPLIT_TRIES: usize = 8;
/// Decode engines are bounded with this batch.
const DECODE_BATCH: u64 = 64;
/// Share of a link's stated bandwidth that a KV cache is sent at.
const LINK_SHARE: f64 = 0.7;

/// Engines of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Split {
    /// Replicas for prefill.
    pub prefill: u64,
    /// Replicas for decode.
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
    pub(super) fn engines(self) -> u64 {
        match self {
            Self::Replicas(replicas) => replicas,
            Self::Split(split) => split.prefill + split.decode,
        }
    }
}

impl Engines<'_> {
    /// The fewest engines of each kind that meet the objectives together, else those that come nearest; `None` where prefill and decode
    /// cannot be apart.
    pub(super) fn best_split(&self, choice: &Choice) -> Result<Option<Candidate>, PredictError> {
        let mut nearest: Option<Candidate> = None;
        let mut split = self.fewest(choice)?;
        for _ in 0..SPLIT_TRIES {
            let gpus = (split.prefill + split.decode) * choice.parallel.ranks();
            if gpus > self.question.max_gpus || !can_send(&self.question.devices[choice.device]) {
                break;
            }
            let fleet = Fleet::Split(split);
            let Some(candidate) = self.candidate(choice, ENGINE_LIMITS[0], fleet)? else {
                break;
            };
            if candidate.is_met {
                return Ok(Some(candidate));
            }
            // More of the kind that misses its objective.
            match candidate.limited_by {
                Some(Reason::Ttft) => split.prefill += (split.prefill / 4).max(1),
                Some(Reason::Tpot) => split.decode += (split.decode / 4).max(1),
                _ => {
                    split.prefill += 1;
                    split.decode += 1;
                }
            }
            let share = |one: &Candidate| one.limit_share.unwrap_or(f64::INFINITY);
            if nearest
                .as_ref()
                .is_none_or(|known| share(&candidate) < share(known))
            {
                nearest = Some(candidate);
            }
        }
        Ok(nearest)
    }

    /// Engines of each kind that have the time for the load.
    fn fewest(&self, choice: &Choice) -> Result<Split, PredictError> {
        let question = self.question;
        let device = &question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = self.asked().workload(choice.parallel, choice.precision);
        let predictor = spread.predictor(device, question.profile);
        let seconds = |count, new, cached| -> Result<f64, PredictError> {
            let alike = Sequences { count, new, cached };
            let step = Step::of_sequences([alike]);
            let time = spread.step(&predictor, &workload, &step)?;
            Ok(time.time_ns.seconds())
        };
        let [prompt, output] = question.traffic.mean_lengths();
        let shift = question.shift;
        let prefill_s = shift.prefill * seconds(1, (prompt as u64).max(1), 0)?;
        let decode_s = shift.decode * seconds(DECODE_BATCH, 1, (prompt + output / 2.0) as u64)?;
        let decode_s = (output - 1.0).max(0.0) * decode_s / DECODE_BATCH as f64;
        let engines = |busy_s: f64| (question.traffic.rate() * busy_s).ceil().max(1.0) as u64;
        Ok(Split {
            prefill: engines(prefill_s),
            decode: engines(decode_s),
        })
    }

    /// Engines of both kinds, with the sequences that they hold and the time that a KV cache takes from one to the other.
    pub(super) fn workers(
        &self,
        spread: &Spread,
        device: &Device,
        workload: &Workload,
        settings: &Settings,
        split: Split,
    ) -> Result<Workers, PredictError> {
        let traffic = self.question.traffic;
        let [prompt, _] = traffic.mean_lengths();
        let [longest_prompt, longest_output] = traffic.longest();
        let blocks = settings.blocks(longest_prompt + longest_output) + settings.sequence_blocks;
        let held = (settings.kv_blocks / blocks.max(1)).clamp(1, settings.max_num_seqs);
        let memory = SequenceMemory::of(spread, device, workload, &EngineLimits::default())?;
        let bytes = memory.token * prompt + memory.whole;
        let prompts = settings.max_num_batched_tokens as f64 / prompt.max(1.0);
        Ok(Workers {
            prefill: split.prefill as usize,
            decode: split.decode as usize,
            prefill_sequences: prompts.max(1.0) as usize,
            decode_sequences: held as usize,
            transfer: Nanos::from_seconds(bytes / (link_bytes_per_s(device) * LINK_SHARE)),
        })
    }
}

/// One direction of the fastest link that the device's file states; 0 without any.
fn link_bytes_per_s(device: &Device) -> f64 {
    let one_way = device.interconnects.iter().map(|link| match link.counts {
        Counts::OneDirection => link.bandwidth.value.0,
        Counts::BothDirections => link.bandwidth.value.0 / 2.0,
    });
    one_way.fold(0.0, f64::max)
}

fn can_send(device: &Device) -> bool {
    link_bytes_per_s(device) > 0.0
}
