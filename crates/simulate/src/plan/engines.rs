//! Engines that could serve a load: bounded, then simulated with the fewest of them that meet the objectives.

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, PredictError, parallel::ParallelModel};
use llmprof_theory::{Model, Step, Workload, device::Device, parallel::Parallel};
use llmprof_traffic::slo::{Metric, Slo, all_met};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    bounds::{BoundsQuestion, ENGINE_LIMITS, EngineChoice, PlanReason},
    layout::{TriedFormats, list_precisions},
    split::{Fleet, Split, can_send},
    steady::{Requests, Steady, measured_summary, settle_percentiles},
    traffic::PlanTraffic,
};
use crate::{
    disaggregated, engine::simulate_load, predicted::Predicted, settings::Settings, shift::Shift,
    simulated_load::SimulatedLoad,
};

/// Numbers of replicas that are tried for one engine.
const REPLICA_TRIES: usize = 5;
/// Pairs of numbers that are tried for one engine.
const SPLIT_TRIES: usize = 8;
/// Objectives count as met by percentiles that have not settled below this share of their limits.
const UNSETTLED_SHARE: f64 = 0.8;
/// A KV cache this full limits an engine.
const KV_FULL_SHARE: f64 = 0.98;

pub struct PlanQuestion<'a> {
    pub model: &'a Model,
    pub devices: &'a [Device],
    pub profile: &'a EfficiencyProfile,
    /// Of predicted step times, by benches of a server.
    pub shift: Shift,
    /// Formats and expert routing that candidates start from.
    pub base: Workload,
    pub formats: TriedFormats,
    pub traffic: &'a PlanTraffic,
    pub slos: &'a [Slo],
    pub max_gpus: u64,
    /// Of an hour of one device, by its name; GPUs are compared by number without any.
    pub prices: &'a BTreeMap<String, f64>,
    pub gpu_memory_utilization: f64,
    pub block_size: u64,
    /// Whether prefill and decode on engines of their own are considered, too.
    pub disaggregated: bool,
    /// Engines that are simulated at most.
    pub engines_max: usize,
    pub requests: Requests,
}

/// Engines of one kind, simulated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanCandidate {
    /// Name of the device as in its device file.
    pub device: String,
    /// Ranks that share the model, by kind of parallelism.
    pub parallel: Parallel,
    /// Storage format of the weights, such as `bf16` or `fp8`.
    pub weights: String,
    /// Number format of the KV cache.
    pub kv_dtype: String,
    /// Whether one of these formats is narrower than the model's own.
    pub is_narrowed: bool,
    /// Limits and KV blocks that the engine was simulated with.
    pub settings: Settings,
    /// Engines of one kind, or of both where prefill and decode are apart.
    pub replicas: u64,
    /// Prefill and decode on engines of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// GPUs of all replicas together.
    pub gpus: u64,
    /// Cost of all GPUs for an hour, by the prices given; absent where none are.
    pub cost_per_hour: Option<f64>,
    /// GPU hours for a million output tokens.
    pub gpu_hours_per_million_output_tokens: f64,
    /// Whether every objective is met.
    pub is_met: bool,
    /// What is nearest to its limit, or beyond it.
    pub limited_by: Option<PlanReason>,
    /// The largest share of an objective's limit.
    pub limit_share: Option<f64>,
    /// What the simulation shows after its start.
    pub steady: Steady,
}

/// Engines that a question allows.
pub(super) struct Engines<'a> {
    pub(super) question: &'a PlanQuestion<'a>,
    /// Layouts of the model by device, each with its divided model.
    pub(super) layouts: Vec<Vec<(Parallel, ParallelModel)>>,
}

impl Engines<'_> {
    pub(super) fn as_asked(&self) -> BoundsQuestion<'_> {
        let PlanQuestion {
            profile,
            shift,
            base,
            traffic,
            slos,
            gpu_memory_utilization,
            block_size,
            max_gpus,
            ..
        } = self.question;
        BoundsQuestion {
            profile,
            shift: *shift,
            base,
            traffic,
            slos,
            gpu_memory_utilization: *gpu_memory_utilization,
            block_size: *block_size,
            max_gpus: *max_gpus,
        }
    }

    /// Engines that bounds leave, reasons of those that they rule out, and how many there are in all.
    pub(super) fn list_choices(&self) -> (Vec<EngineChoice>, BTreeMap<PlanReason, usize>, usize) {
        let question = self.question;
        let asked = self.as_asked();
        let (mut choices, mut failed, mut considered) = (Vec::new(), BTreeMap::new(), 0);
        for (index, device) in question.devices.iter().enumerate() {
            let formats = list_precisions(question.model, device, &question.base, question.formats);
            for (layout, (parallel, spread)) in self.layouts[index].iter().enumerate() {
                for &precision in &formats {
                    considered += 1;
                    let workload = asked.engine_workload(*parallel, precision);
                    // Of all limits the one that allows most decides what is impossible.
                    match asked.fewest_replicas((spread, device), &workload, ENGINE_LIMITS[0]) {
                        Ok(replicas) => choices.push(EngineChoice {
                            device: index,
                            layout,
                            parallel: *parallel,
                            precision,
                            replicas,
                        }),
                        Err(reason) => *failed.entry(reason).or_default() += 1,
                    }
                }
            }
        }
        (choices, failed, considered)
    }

    /// GPUs, or their price where the user states any.
    pub(super) fn fleet_cost(&self, device: usize, gpus: u64) -> f64 {
        let name = &self.question.devices[device].name;
        gpus as f64 * self.question.prices.get(name).copied().unwrap_or(1.0)
    }

    /// The cheapest setting of an engine that meets the objectives, else the one that comes nearest.
    pub(super) fn best_of(
        &self,
        choice: &EngineChoice,
    ) -> Result<Option<PlanCandidate>, PredictError> {
        let mut nearest: Option<PlanCandidate> = None;
        let mut replicas = choice.replicas;
        for _ in 0..REPLICA_TRIES {
            for limits in ENGINE_LIMITS {
                let Some(candidate) =
                    self.simulate_candidate(choice, limits, Fleet::Replicas(replicas))?
                else {
                    continue;
                };
                if candidate.is_met {
                    return Ok(Some(candidate));
                }
                let share = |one: &PlanCandidate| one.limit_share.unwrap_or(f64::INFINITY);
                if nearest
                    .as_ref()
                    .is_none_or(|known| share(&candidate) < share(known))
                {
                    nearest = Some(candidate);
                }
            }
            replicas = (replicas + 1).max(replicas + replicas / 4);
            if replicas * choice.parallel.rank_count() > self.question.max_gpus {
                break;
            }
        }
        Ok(nearest)
    }

    /// Replicas of an engine with some limits, simulated; `None` where they do not fit.
    fn simulate_candidate(
        &self,
        choice: &EngineChoice,
        limits: [u64; 2],
        fleet: Fleet,
    ) -> Result<Option<PlanCandidate>, PredictError> {
        let asked = self.as_asked();
        let question = self.question;
        let device = &question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = asked.engine_workload(choice.parallel, choice.precision);
        let Ok(settings) = asked.engine_settings((spread, device), &workload, limits) else {
            return Ok(None);
        };
        let steady = self.simulate_fleet(spread, device, &workload, &settings, (fleet, 1.0))?;
        let gpus = fleet.engine_count() * choice.parallel.rank_count();
        let summary = &steady.summary;
        let share = limit_share(question.slos, summary);
        // Percentiles that still grow are trusted only far from the limits.
        let is_trusted = steady.is_settled || share.is_none_or(|share| share < UNSETTLED_SHARE);
        let is_met = all_met(question.slos, summary) && is_trusted;
        let [_, output] = question.traffic.mean_lengths();
        let formats = question.model.number_formats(&choice.precision);
        let tokens_per_hour = question.traffic.mean_rate() * output * 3600.0;
        Ok(Some(PlanCandidate {
            device: device.name.clone(),
            parallel: choice.parallel,
            weights: formats.weights.to_string(),
            kv_dtype: formats.kv.to_string(),
            is_narrowed: choice.precision != question.base.precision,
            settings,
            replicas: fleet.engine_count(),
            split: match fleet {
                Fleet::Replicas(_) => None,
                Fleet::Split(split) => Some(split),
            },
            gpus,
            cost_per_hour: question
                .prices
                .contains_key(&device.name)
                .then(|| self.fleet_cost(choice.device, gpus)),
            gpu_hours_per_million_output_tokens: gpus as f64 * 1e6 / tokens_per_hour,
            is_met,
            limited_by: limited_by(question.slos, summary),
            limit_share: share,
            steady,
        }))
    }

    /// A fleet at `scale` times the rate. Of engines that get requests in turn, one is simulated.
    pub(super) fn simulate_fleet(
        &self,
        spread: &ParallelModel,
        device: &Device,
        workload: &Workload,
        settings: &Settings,
        (fleet, scale): (Fleet, f64),
    ) -> Result<Steady, PredictError> {
        let question = self.question;
        let predictor = spread.rank_predictor(device, question.profile);
        let predict = |step: &Step| spread.predict_step(&predictor, workload, step);
        let time = Predicted::new(&predict, Nanos(0))?.with_shift(question.shift);
        let kv_blocks = settings.kv_blocks;
        let steady = match fleet {
            Fleet::Replicas(replicas) => {
                let count = replicas as usize;
                settle_percentiles(question.requests, question.slos, |requests| {
                    let load = question.traffic.draw_load(requests * count, scale);
                    let load = load.replica_share(0, count);
                    let simulated = load.requests.len();
                    let outcome = simulate_load(&load, settings, &time)
                        .expect("`Asked::settings` checks them");
                    let summary = measured_summary(outcome, simulated, kv_blocks, question.slos);
                    Ok::<_, PredictError>((summary, simulated))
                })?
            }
            Fleet::Split(split) => {
                let engine = (spread, device);
                let workers = self
                    .as_asked()
                    .split_workers(engine, workload, settings, split)?;
                settle_percentiles(question.requests, question.slos, |requests| {
                    let load = question.traffic.draw_load(requests * workers.decode, scale);
                    let simulated = load.requests.len();
                    let outcome = disaggregated::simulate_split(&load, workers, &time, &time);
                    let summary = measured_summary(outcome, simulated, kv_blocks, question.slos);
                    Ok::<_, PredictError>((summary, simulated / workers.decode))
                })?
            }
        };
        time.first_failure().map_or(Ok(steady), Err)
    }

    /// The fewest engines of each kind that meet the objectives together, else those that come nearest; `None` where prefill and decode
    /// cannot be apart.
    pub(super) fn best_split(
        &self,
        choice: &EngineChoice,
    ) -> Result<Option<PlanCandidate>, PredictError> {
        let mut nearest: Option<PlanCandidate> = None;
        let asked = self.as_asked();
        let device = &self.question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = asked.engine_workload(choice.parallel, choice.precision);
        let mut split = asked.fewest_split((spread, device), &workload)?;
        for _ in 0..SPLIT_TRIES {
            let gpus = (split.prefill + split.decode) * choice.parallel.rank_count();
            if gpus > self.question.max_gpus || !can_send(device) {
                break;
            }
            let fleet = Fleet::Split(split);
            let Some(candidate) = self.simulate_candidate(choice, ENGINE_LIMITS[0], fleet)? else {
                break;
            };
            if candidate.is_met {
                return Ok(Some(candidate));
            }
            // More of the kind that misses its objective.
            match candidate.limited_by {
                Some(PlanReason::Ttft) => split.prefill += (split.prefill / 4).max(1),
                Some(PlanReason::Tpot) => split.decode += (split.decode / 4).max(1),
                _ => {
                    split.prefill += 1;
                    split.decode += 1;
                }
            }
            let share = |one: &PlanCandidate| one.limit_share.unwrap_or(f64::INFINITY);
            if nearest
                .as_ref()
                .is_none_or(|known| share(&candidate) < share(known))
            {
                nearest = Some(candidate);
            }
        }
        Ok(nearest)
    }
}

/// The largest share of an objective's limit that a load reaches.
fn limit_share(slos: &[Slo], summary: &SimulatedLoad) -> Option<f64> {
    let shares = slos.iter().map(|slo| {
        slo.value_of(summary)
            .map_or(f64::INFINITY, |value| value / slo.limit_ms)
    });
    shares.max_by(f64::total_cmp)
}

/// What keeps an engine from more: a KV cache that is full, or the objective nearest to its limit.
fn limited_by(slos: &[Slo], summary: &SimulatedLoad) -> Option<PlanReason> {
    if summary.preemptions > 0
        || summary.kv_usage.max >= KV_FULL_SHARE
        || summary.figures.failed > 0
    {
        return Some(PlanReason::Kv);
    }
    let share = |slo: &&Slo| {
        slo.value_of(summary)
            .map_or(f64::INFINITY, |value| value / slo.limit_ms)
    };
    let nearest = slos.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    Some(match nearest.metric {
        Metric::Ttft => PlanReason::Ttft,
        Metric::Tpot | Metric::Itl => PlanReason::Tpot,
        Metric::E2e => PlanReason::E2e,
    })
}
