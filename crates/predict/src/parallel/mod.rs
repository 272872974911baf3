//! A model over several devices of one node: what a rank holds and computes, and what ranks tell each other.
//!
//! A rank runs a model of its own: the same layers with a share of the heads, widths and experts ([`rank_model`]). What that takes is
//! predicted as for any model; communication comes on top, from curves of collectives ([`Collectives`]), not overlapped with it.

mod collective;

use llmprof_units::{Bytes, Nanos};
use serde::Serialize;

pub use collective::{CollectiveError, Collectives, sent_bytes_per_s};

use llmprof_theory::{
    Decoder, MemoryFit, Model, Pass, Routing, Step, Workload, WorkloadError,
    block::FeedForward,
    device::Device,
    expected_touched,
    parallel::{Exchange, Parallel, list_exchanges, rank_model, step_exchanges, stored_model},
    roofline::Resource,
};

use crate::{
    EfficiencyProfile, EngineLimits, EngineMemory, PhasePrediction, PredictError, Prediction,
    Predictor, StepTime, memory::step_activations,
};

/// A model spread over devices, ready to be predicted.
#[derive(Debug)]
pub struct ParallelModel {
    parallel: Parallel,
    rank: Model,
    collectives: Option<Collectives>,
}

/// A prediction over several devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadPrediction {
    /// Of the whole: times with communication, memory of one rank.
    pub prediction: Prediction,
    /// Communication time within TTFT, summed over the passes of prefill.
    pub prefill_communication_ns: Nanos,
    /// Communication within the first decode step.
    pub decode_step_communication_ns: Nanos,
    pub ranks: u64,
}

impl ParallelModel {
    /// Refuses what cannot be divided, and devices without known links.
    pub fn new(model: &Model, device: &Device, parallel: Parallel) -> Result<Self, WorkloadError> {
        if let Some((key, value, expected)) = parallel.find_mistake() {
            return Err(WorkloadError::parallel(key, value, expected));
        }
        let needs_links =
            parallel.tensor > 1 || parallel.pipeline > 1 || parallel.shares_experts_across_data();
        let collectives = needs_links
            .then(|| Collectives::for_device(device))
            .transpose()
            .map_err(|error| {
                WorkloadError::parallel("tensor", parallel.tensor, error.to_string())
            })?;
        Ok(Self {
            parallel,
            rank: rank_model(model, &parallel)?,
            collectives,
        })
    }

    /// The model that one rank runs, all stages of its pipeline together.
    pub fn rank_model(&self) -> &Model {
        &self.rank
    }

    /// A predictor of that model.
    pub fn rank_predictor<'a>(
        &'a self,
        device: &'a Device,
        profile: &EfficiencyProfile,
    ) -> Predictor<'a> {
        Predictor::new(&self.rank, device, profile)
    }

    /// What `workload` takes; `predictor` is this one's own. Its batch is that of all data-parallel groups together.
    pub fn predict(
        &self,
        predictor: &Predictor<'_>,
        workload: &Workload,
    ) -> Result<SpreadPrediction, PredictError> {
        let Parallel { pipeline, data, .. } = self.parallel;
        let group = workload.batch.div_ceil(data);
        // Stages work on a part of the batch each, as many parts as there are stages.
        let parts = pipeline.min(group.max(1));
        let group_workload = Workload {
            batch: group.div_ceil(parts),
            parallel: Parallel::default(),
            routing: self.routing_per_rank(workload.routing, self.rows_per_phase(workload)),
            ..*workload
        };
        let mut prediction = predictor.predict(&group_workload)?;
        let prefill =
            self.sum_communication(&group_workload, self.rank.prefill_passes(&group_workload))?;
        let step =
            self.sum_communication(&group_workload, [self.rank.decode_step(&group_workload)])?;
        prefill.add_to(&mut prediction.prefill);
        step.add_to(&mut prediction.decode_step);
        if let Some((phase, pass)) = prediction
            .decode
            .as_mut()
            .zip(self.rank.decode_pass(&group_workload))
        {
            self.sum_communication(&group_workload, [pass])?
                .add_to(phase);
        }
        let before = [prediction.vision, prediction.encoder]
            .into_iter()
            .flatten();
        let before = before.fold(Nanos(0), |sum, phase| sum + phase.time_ns);
        prediction.ttft_ns = before
            + Nanos::from_seconds(
                prediction.prefill.time_ns.seconds() * pipeline_fill(parts, pipeline),
            );
        let decode_time = prediction.decode.map_or(Nanos(0), |phase| phase.time_ns);
        let steps = group_workload.decode_steps();
        prediction.tpot_ns =
            (steps > 0).then(|| Nanos::from_seconds(decode_time.seconds() / steps as f64));
        prediction.total_ns = prediction.ttft_ns + decode_time;
        let rate = |tokens: u64, time: Nanos| {
            tokens as f64 * workload.batch as f64 / time.seconds().max(1e-9)
        };
        prediction.tokens_per_s = rate(workload.new_tokens, prediction.total_ns);
        prediction.decode_tokens_per_s = (steps > 0).then(|| rate(steps, decode_time));
        let memory = self.rank_fit(
            workload,
            &prediction.memory,
            group as f64 / group_workload.batch as f64,
        );
        prediction.memory = predictor.with_verdict(memory, self.parallel, &group_workload)?;
        if self.parallel.rank_count() > 1 {
            prediction.prefill_gpu_ns += prefill.total_time();
            prediction.decode_step_gpu_ns += step.total_time();
            // Errors were measured on one device.
            prediction.ttft_interval = None;
            prediction.tpot_interval = None;
            prediction.prefill_gpu_interval = None;
            prediction.decode_step_gpu_interval = None;
        }
        Ok(SpreadPrediction {
            prediction,
            prefill_communication_ns: prefill.total_time(),
            decode_step_communication_ns: step.total_time(),
            ranks: self.parallel.rank_count(),
        })
    }

    /// What a step takes, from its start to the start of the next one; `predictor` is this one's own. Its sequences are those of all
    /// data-parallel groups together.
    pub fn predict_step(
        &self,
        predictor: &Predictor<'_>,
        workload: &Workload,
        step: &Step,
    ) -> Result<StepTime, PredictError> {
        let Parallel { pipeline, data, .. } = self.parallel;
        let group = step.sequences().div_ceil(data);
        let parts = pipeline.min(group.max(1));
        let stage_step = step.busiest_share(data * parts);
        let tokens = step.new_tokens();
        let workload = Workload {
            parallel: Parallel::default(),
            routing: self.routing_per_rank(workload.routing, [tokens, tokens]),
            ..*workload
        };
        let mut time = predictor.predict_step(&workload, &stage_step)?;
        if self.parallel.rank_count() == 1 {
            return Ok(time);
        }
        let exchanged = self.price_exchanges(
            step_exchanges(&self.rank, &self.parallel, &workload, &stage_step),
            1,
        )?;
        exchanged.add_to_step(&mut time);
        if !step.prefill.is_empty() {
            time.time_ns =
                Nanos::from_seconds(time.time_ns.seconds() * pipeline_fill(parts, pipeline));
        }
        // Errors were measured on one device.
        time.range = None;
        Ok(time)
    }

    /// What an engine with these limits holds on a rank, and what the KV caches of `workload` take there.
    pub fn engine_memory(
        &self,
        device: &Device,
        workload: &Workload,
        limits: &EngineLimits,
    ) -> Result<(EngineMemory, Bytes), PredictError> {
        let group_workload = Workload {
            batch: workload.batch.div_ceil(self.parallel.data),
            parallel: Parallel::default(),
            ..*workload
        };
        self.rank.validate_workload(&group_workload)?;
        let weights = self.rank.parameter_bytes(&group_workload.precision);
        let whole = MemoryFit::for_workload(&self.rank, &group_workload, device, weights);
        let fit = self.rank_fit(workload, &whole, 1.0);
        let activations = step_activations(&self.rank, self.parallel, &group_workload, limits)?;
        let memory = EngineMemory::new(&fit, activations, limits);
        Ok((memory, fit.kv_bytes))
    }

    /// Weights and KV cache of the rank that has most: a stage's share of the layers, with the embedding or the head. `whole` has those
    /// of all stages, for a share of the sequences: `groups` are all.
    fn rank_fit(&self, workload: &Workload, whole: &MemoryFit, groups: f64) -> MemoryFit {
        let Some(decoder) = &self.rank.decoder else {
            return *whole;
        };
        let layers = u64::from(decoder.layer_count()).max(1);
        let share = layers.div_ceil(self.parallel.pipeline) as f64 / layers as f64;
        let bytes = |model: &Model| model.parameter_bytes(&workload.precision) as f64;
        let held = stored_model(&self.rank, &self.parallel);
        let all = bytes(&held);
        let mut ends = held.clone();
        if let Some(decoder) = &mut ends.decoder {
            decoder.groups.clear();
        }
        let ends = bytes(&ends);
        // Embedding and head are on different stages, and a tied head is a copy there.
        let of_ends = if self.parallel.pipeline > 1 {
            let head = decoder
                .head
                .linear
                .stored_bytes(&self.rank.number_formats(&workload.precision))
                as f64;
            (ends - if decoder.head.tied { 0.0 } else { head }).max(head)
        } else {
            ends
        };
        let weights = Bytes(((all - ends) * share + of_ends) as u64);
        let kv = Bytes((whole.kv_bytes.0 as f64 * share * groups) as u64);
        MemoryFit {
            weights_bytes: weights,
            kv_bytes: kv,
            needed_bytes: Bytes(weights.0.saturating_add(kv.0)),
            ..*whole
        }
    }

    /// Tokens of a prefill pass and of a decode step, of all groups together.
    fn rows_per_phase(&self, workload: &Workload) -> [u64; 2] {
        let prompt = self.rank.prompt_tokens(workload);
        let rows = workload.chunk.unwrap_or(prompt).min(prompt);
        [workload.batch.saturating_mul(rows), workload.batch]
    }

    /// Experts that a rank reads: those that the tokens of all groups reach, shared among them. `rows`: tokens of prefill and of decode.
    fn routing_per_rank(&self, routing: Routing, rows: [u64; 2]) -> Routing {
        let moe = self.rank.decoder.as_ref().and_then(first_moe);
        let (Some((count, top_k)), true) = (moe, self.parallel.shares_experts_across_data()) else {
            return routing;
        };
        let across = (self.parallel.expert / self.parallel.tensor) as f64;
        let [prefill, decode] = match routing {
            Routing::Uniform => rows.map(|tokens| expected_touched(count, top_k, tokens)),
            Routing::Measured { prefill, decode } => [prefill, decode],
        };
        Routing::Measured {
            prefill: prefill / across,
            decode: decode / across,
        }
    }

    /// What the ranks exchange in all passes of a phase.
    fn sum_communication(
        &self,
        workload: &Workload,
        passes: impl IntoIterator<Item = Pass>,
    ) -> Result<CommunicationTime, WorkloadError> {
        let mut sum = CommunicationTime::default();
        for pass in passes {
            let exchanges = list_exchanges(&self.rank, &self.parallel, workload, &pass);
            let one = self.price_exchanges(exchanges, pass.steps)?;
            sum.seconds += one.seconds;
            sum.launches += one.launches;
        }
        Ok(sum)
    }

    fn price_exchanges(
        &self,
        exchanges: Vec<Exchange>,
        steps: u64,
    ) -> Result<CommunicationTime, WorkloadError> {
        let mut sum = CommunicationTime::default();
        let Some(collectives) = &self.collectives else {
            return Ok(sum);
        };
        for exchange in exchanges {
            let time = collectives
                .seconds(exchange.operation, exchange.ranks, exchange.bytes)
                .map_err(|error| {
                    WorkloadError::parallel("tensor", self.parallel.tensor, error.to_string())
                })?;
            let launches = exchange.count * steps;
            sum.seconds += time * launches as f64;
            sum.launches += launches;
        }
        Ok(sum)
    }
}

/// A stage takes its share of a traverse; the last part of the batch enters when the others are one stage further each.
fn pipeline_fill(parts: u64, pipeline: u64) -> f64 {
    (parts + pipeline - 1) as f64 / pipeline as f64
}

/// Experts and those that a token uses, of the first mixture.
fn first_moe(decoder: &Decoder) -> Option<(u64, u64)> {
    decoder
        .groups
        .iter()
        .find_map(|group| match &group.layer.feed {
            FeedForward::Moe(moe) => Some((moe.experts.count, moe.experts.top_k)),
            FeedForward::Dense(_) => None,
        })
}

#[derive(Clone, Copy, Default)]
struct CommunicationTime {
    seconds: f64,
    launches: u64,
}

impl CommunicationTime {
    fn total_time(&self) -> Nanos {
        Nanos::from_seconds(self.seconds)
    }

    /// It runs on the device, and hides where the host is the slower one, which has to launch it as well.
    fn add_to_step(&self, step: &mut StepTime) {
        let host = step.host_ns.unwrap_or(Nanos(0));
        // What a captured step takes beside its kernels.
        let beside = step.time_ns - host.max(step.device_ns);
        let kernels = step.kernels + self.launches;
        let more = kernels as f64 / step.kernels.max(1) as f64;
        let host = Nanos::from_seconds(host.seconds() * more);
        step.host_ns = step.host_ns.map(|_| host);
        step.kernels = kernels;
        step.device_ns += self.total_time();
        step.time_ns = host.max(step.device_ns) + beside;
    }

    fn add_to(&self, phase: &mut PhasePrediction) {
        let mut step = StepTime {
            time_ns: phase.time_ns,
            device_ns: phase.device_ns,
            host_ns: phase.host_ns,
            binds: phase.binds,
            kernels: phase.kernels,
            range: None,
        };
        self.add_to_step(&mut step);
        phase.time_ns = step.time_ns;
        phase.device_ns = step.device_ns;
        phase.host_ns = step.host_ns;
        phase.kernels = step.kernels;
        phase.binds = match phase.binds {
            _ if step.host_ns.is_some_and(|host| host > step.device_ns) => Resource::Host,
            Resource::Host => phase.slowest_resource(),
            other => other,
        };
    }
}
