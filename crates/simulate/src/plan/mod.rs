//! Which devices, how many, and which layout serve a load within its objectives.
//!
//! Every engine (a device, a layout over up to a node of them, formats) is bounded first ([`bounds`]): by memory, by the times of a lone
//! request, and by the most requests a second that it could serve. The cheapest by these bounds are simulated until their percentiles settle
//! ([`steady`]), with as few replicas as meet the objectives.

mod bounds;
mod layout;
pub mod served;
mod split;
pub mod steady;
pub mod traffic;

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, PredictError, parallel::Spread};
use llmprof_theory::{Model, Step, Workload, device::Device, parallel::Parallel};
use llmprof_traffic::{
    slo::{Metric, Slo, all_met},
    sweep::{Bounds, sweep},
};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

pub use bounds::Reason;
pub use layout::Formats;
pub use split::Split;
pub use steady::{Requests, Steady};
pub use traffic::{Source, Traffic, TrafficError};

use self::{
    bounds::{Asked, Choice},
    layout::{layouts, precisions},
    split::Fleet,
    steady::{measured_summary, settle},
};
use crate::{
    disaggregated, engine::simulate, predicted::Predicted, settings::Settings, shift::Shift,
    summary::Summary,
};

/// Limits that are tried in turn: new tokens of a step, and sequences. Fewer tokens keep prompts from delaying decode steps, fewer sequences
/// keep those short.
const ENGINE_LIMITS: [[u64; 2]; 4] = [[8192, 256], [2048, 256], [2048, 64], [512, 32]];
/// Numbers of replicas that are tried for one engine.
const REPLICA_TRIES: usize = 5;
/// Engines that cost more than this times the best by their bound are not simulated once there is a choice.
const WORTH_SIMULATING: f64 = 2.0;
const FEASIBLE_FOR_A_CHOICE: usize = 6;
/// The rate search ends at this multiple of the load.
const HIGHEST_RATE_FACTOR: f64 = 16.0;
const RATE_PRECISION: f64 = 0.05;
const RATE_TRIES: usize = 9;
/// Objectives count as met by percentiles that have not settled below this share of their limits.
const UNSETTLED_SHARE: f64 = 0.8;
/// A KV cache this full limits an engine.
const KV_FULL: f64 = 0.98;

/// What is asked.
pub struct Question<'a> {
    pub model: &'a Model,
    pub devices: &'a [Device],
    pub profile: &'a EfficiencyProfile,
    /// Of predicted step times, by benches of a server.
    pub shift: Shift,
    /// Formats and routing.
    pub base: Workload,
    pub formats: Formats,
    pub traffic: &'a Traffic,
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
#[schemars(rename = "PlanCandidate")]
pub struct Candidate {
    /// Name of the device.
    pub device: String,
    /// Ranks that share the model, by kind of parallelism.
    pub parallel: Parallel,
    /// Storage of the weights.
    pub weights: String,
    /// Number format of the KV cache.
    pub kv_dtype: String,
    /// Whether one of these formats is narrower than the model's own.
    pub is_narrowed: bool,
    /// Settings of the engine.
    pub settings: Settings,
    /// Engines of one kind, or of both where prefill and decode are apart.
    pub replicas: u64,
    /// Prefill and decode on engines of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// GPUs of all replicas.
    pub gpus: u64,
    /// By the user's prices.
    pub cost_per_hour: Option<f64>,
    /// GPU hours for a million output tokens.
    pub gpu_hours_per_million_output_tokens: f64,
    /// Whether every objective is met.
    pub is_met: bool,
    /// What is nearest to its limit, or beyond it.
    pub limited_by: Option<Reason>,
    /// The largest share of an objective's limit.
    pub limit_share: Option<f64>,
    /// What the simulation shows after its start.
    pub steady: Steady,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PlanAnswer")]
pub struct Plan {
    /// Those that meet the objectives first, the cheapest of them first; then the others.
    pub candidates: Vec<Candidate>,
    /// Engines that were considered: device, layout and formats.
    pub considered: usize,
    /// Engines that were simulated.
    pub simulated: usize,
    /// Engines that do not serve the load within the objectives, by reason.
    pub failed: BTreeMap<Reason, usize>,
    /// Engines that were not simulated, since others are cheaper by the bounds.
    pub not_simulated: usize,
    /// The highest rate that the first candidate serves within the objectives; absent where it meets none, or its load is a trace's.
    pub highest_rate: Option<HighestRate>,
}

/// Requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HighestRate {
    /// Highest rate that met every objective, requests per second.
    pub met: f64,
    /// The lowest rate that was tried and missed an objective.
    pub missed: Option<f64>,
}

struct Engines<'a> {
    question: &'a Question<'a>,
    /// By device.
    layouts: Vec<Vec<(Parallel, Spread)>>,
}

/// Finds the cheapest engines for a load. `observe` hears how many engines of how many are done.
pub fn plan(
    question: &Question<'_>,
    observe: &mut dyn FnMut(usize, usize),
) -> Result<Plan, PredictError> {
    let engines = Engines {
        question,
        layouts: question
            .devices
            .iter()
            .map(|device| layouts(question.model, device, question.max_gpus))
            .collect(),
    };
    let (mut choices, mut failed, considered) = engines.choices();
    let cost = |choice: &Choice| {
        let gpus = choice.replicas * choice.parallel.ranks();
        engines.cost(choice.device, gpus)
    };
    // Of equal cost, fewer stages and ranks first: a request passes all stages in turn, and ranks communicate.
    choices.sort_by(|a, b| {
        let spread = |one: &Choice| (one.parallel.pipeline, one.parallel.ranks());
        let by_cost = cost(a).total_cmp(&cost(b));
        by_cost.then(spread(a).cmp(&spread(b)))
    });
    let total = choices.len().min(question.engines_max);
    let mut candidates: Vec<(&Choice, Candidate)> = Vec::new();
    let mut not_simulated = choices.len() - total;
    let mut cheapest = f64::INFINITY;
    for (done, choice) in choices.iter().take(total).enumerate() {
        observe(done, total);
        let met = || candidates.iter().filter(|(_, one)| one.is_met);
        // Narrower formats may change answers: there is to be an engine without them as well.
        let is_wanted =
            choice.precision == question.base.precision && met().all(|(_, one)| one.is_narrowed);
        let has_choice = met().count() >= FEASIBLE_FOR_A_CHOICE;
        if has_choice && !is_wanted && cost(choice) > WORTH_SIMULATING * cheapest {
            not_simulated += 1;
            continue;
        }
        if question.disaggregated
            && let Some(apart) = engines.best_split(choice)?
        {
            candidates.push((choice, apart));
        }
        let Some(candidate) = engines.best_of(choice)? else {
            *failed.entry(Reason::Memory).or_default() += 1;
            continue;
        };
        if candidate.is_met {
            cheapest = cheapest.min(engines.cost(choice.device, candidate.gpus));
        } else if let Some(reason) = candidate.limited_by {
            *failed.entry(reason).or_default() += 1;
        }
        candidates.push((choice, candidate));
    }
    let simulated = candidates
        .iter()
        .filter(|(_, one)| one.split.is_none())
        .count();
    candidates.sort_by(|(_, a), (_, b)| rank(a, b));
    let highest_rate = match candidates.first() {
        Some((choice, best)) if best.is_met => engines.highest_rate(choice, best)?,
        _ => None,
    };
    Ok(Plan {
        candidates: candidates.into_iter().map(|(_, one)| one).collect(),
        considered,
        simulated,
        failed,
        not_simulated,
        highest_rate,
    })
}

impl Engines<'_> {
    fn asked(&self) -> Asked<'_> {
        let Question {
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
        Asked {
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
    fn choices(&self) -> (Vec<Choice>, BTreeMap<Reason, usize>, usize) {
        let question = self.question;
        let asked = self.asked();
        let (mut choices, mut failed, mut considered) = (Vec::new(), BTreeMap::new(), 0);
        for (index, device) in question.devices.iter().enumerate() {
            let formats = precisions(question.model, device, &question.base, question.formats);
            for (layout, (parallel, spread)) in self.layouts[index].iter().enumerate() {
                for &precision in &formats {
                    considered += 1;
                    let workload = asked.workload(*parallel, precision);
                    // Of all limits the one that allows most decides what is impossible.
                    match asked.fewest_replicas((spread, device), &workload, ENGINE_LIMITS[0]) {
                        Ok(replicas) => choices.push(Choice {
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
    fn cost(&self, device: usize, gpus: u64) -> f64 {
        let name = &self.question.devices[device].name;
        gpus as f64 * self.question.prices.get(name).copied().unwrap_or(1.0)
    }

    /// The cheapest setting of an engine that meets the objectives, else the one that comes nearest.
    fn best_of(&self, choice: &Choice) -> Result<Option<Candidate>, PredictError> {
        let mut nearest: Option<Candidate> = None;
        let mut replicas = choice.replicas;
        for _ in 0..REPLICA_TRIES {
            for limits in ENGINE_LIMITS {
                let Some(candidate) = self.candidate(choice, limits, Fleet::Replicas(replicas))?
                else {
                    continue;
                };
                if candidate.is_met {
                    return Ok(Some(candidate));
                }
                let share = |one: &Candidate| one.limit_share.unwrap_or(f64::INFINITY);
                if nearest
                    .as_ref()
                    .is_none_or(|known| share(&candidate) < share(known))
                {
                    nearest = Some(candidate);
                }
            }
            replicas = (replicas + 1).max(replicas + replicas / 4);
            if replicas * choice.parallel.ranks() > self.question.max_gpus {
                break;
            }
        }
        Ok(nearest)
    }

    /// Replicas of an engine with some limits, simulated; `None` where they do not fit.
    fn candidate(
        &self,
        choice: &Choice,
        limits: [u64; 2],
        fleet: Fleet,
    ) -> Result<Option<Candidate>, PredictError> {
        let asked = self.asked();
        let question = self.question;
        let device = &question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = asked.workload(choice.parallel, choice.precision);
        let Ok(settings) = asked.settings((spread, device), &workload, limits) else {
            return Ok(None);
        };
        let steady = self.simulated(spread, device, &workload, &settings, (fleet, 1.0))?;
        let gpus = fleet.engines() * choice.parallel.ranks();
        let summary = &steady.summary;
        let share = limit_share(question.slos, summary);
        // Percentiles that still grow are trusted only far from the limits.
        let is_trusted = steady.is_settled || share.is_none_or(|share| share < UNSETTLED_SHARE);
        let is_met = all_met(question.slos, summary) && is_trusted;
        let [_, output] = question.traffic.mean_lengths();
        let formats = question.model.formats(&choice.precision);
        let tokens_per_hour = question.traffic.rate() * output * 3600.0;
        Ok(Some(Candidate {
            device: device.name.clone(),
            parallel: choice.parallel,
            weights: formats.weights.to_string(),
            kv_dtype: formats.kv.to_string(),
            is_narrowed: choice.precision != question.base.precision,
            settings,
            replicas: fleet.engines(),
            split: match fleet {
                Fleet::Replicas(_) => None,
                Fleet::Split(split) => Some(split),
            },
            gpus,
            cost_per_hour: question
                .prices
                .contains_key(&device.name)
                .then(|| self.cost(choice.device, gpus)),
            gpu_hours_per_million_output_tokens: gpus as f64 * 1e6 / tokens_per_hour,
            is_met,
            limited_by: limited_by(question.slos, summary),
            limit_share: share,
            steady,
        }))
    }

    /// A fleet at `scale` times the rate. Of engines that get requests in turn, one is simulated.
    fn simulated(
        &self,
        spread: &Spread,
        device: &Device,
        workload: &Workload,
        settings: &Settings,
        (fleet, scale): (Fleet, f64),
    ) -> Result<Steady, PredictError> {
        let question = self.question;
        let predictor = spread.predictor(device, question.profile);
        let predict = |step: &Step| spread.step(&predictor, workload, step);
        let time = Predicted::new(&predict, Nanos(0))?.with_shift(question.shift);
        let kv_blocks = settings.kv_blocks;
        let steady = match fleet {
            Fleet::Replicas(replicas) => {
                let count = replicas as usize;
                settle(question.requests, question.slos, |requests| {
                    let load = question.traffic.load(requests * count, scale);
                    let load = load.share(0, count);
                    let simulated = load.requests.len();
                    let outcome =
                        simulate(&load, settings, &time).expect("`Asked::settings` checks them");
                    let summary = measured_summary(outcome, simulated, kv_blocks, question.slos);
                    Ok::<_, PredictError>((summary, simulated))
                })?
            }
            Fleet::Split(split) => {
                let workers = self.workers(spread, device, workload, settings, split)?;
                settle(question.requests, question.slos, |requests| {
                    let load = question.traffic.load(requests * workers.decode, scale);
                    let simulated = load.requests.len();
                    let outcome = disaggregated::simulate(&load, workers, &time, &time);
                    let summary = measured_summary(outcome, simulated, kv_blocks, question.slos);
                    Ok::<_, PredictError>((summary, simulated / workers.decode))
                })?
            }
        };
        time.failure().map_or(Ok(steady), Err)
    }

    /// The highest rate that replicas of the best engine serve.
    fn highest_rate(
        &self,
        choice: &Choice,
        best: &Candidate,
    ) -> Result<Option<HighestRate>, PredictError> {
        let question = self.question;
        let device = &question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = self.asked().workload(choice.parallel, choice.precision);
        let mut failure = None;
        let bounds = Bounds {
            least: 1.0,
            most: HIGHEST_RATE_FACTOR,
            precision: RATE_PRECISION,
            tries: RATE_TRIES,
        };
        let found = sweep(bounds, |scale| {
            let fleet = best
                .split
                .map_or(Fleet::Replicas(best.replicas), Fleet::Split);
            let load = (fleet, scale);
            match self.simulated(spread, device, &workload, &best.settings, load) {
                Ok(steady) => {
                    let is_met = all_met(question.slos, &steady.summary);
                    Some(((), is_met))
                }
                Err(error) => {
                    failure = Some(error);
                    None
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let rate = question.traffic.rate();
        Ok(found.best_rate.map(|scale| HighestRate {
            met: scale * rate,
            missed: found.first_failing_rate.map(|scale| scale * rate),
        }))
    }
}

/// Those that meet the objectives first, by cost; the others by how far they miss them.
fn rank(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let cost = |one: &Candidate| one.cost_per_hour.unwrap_or(one.gpus as f64);
    let share = |one: &Candidate| one.limit_share.unwrap_or(0.0);
    let by_share = share(a).total_cmp(&share(b));
    if a.is_met && b.is_met {
        cost(a).total_cmp(&cost(b)).then(by_share)
    } else {
        b.is_met.cmp(&a.is_met).then(by_share)
    }
}

/// The largest share of an objective's limit that a load reaches.
fn limit_share(slos: &[Slo], summary: &Summary) -> Option<f64> {
    let shares = slos.iter().map(|slo| {
        slo.value(summary)
            .map_or(f64::INFINITY, |value| value / slo.limit_ms)
    });
    shares.max_by(f64::total_cmp)
}

/// What keeps an engine from more: a KV cache that is full, or the objective nearest to its limit.
fn limited_by(slos: &[Slo], summary: &Summary) -> Option<Reason> {
    if summary.preemptions > 0 || summary.kv_usage.max >= KV_FULL || summary.failed > 0 {
        return Some(Reason::Kv);
    }
    let share = |slo: &&Slo| {
        slo.value(summary)
            .map_or(f64::INFINITY, |value| value / slo.limit_ms)
    };
    let nearest = slos.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    Some(match nearest.metric {
        Metric::Ttft => Reason::Ttft,
        Metric::Tpot | Metric::Itl => Reason::Tpot,
        Metric::E2e => Reason::E2e,
    })
}
