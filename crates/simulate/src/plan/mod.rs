//! Which devices, how many, and which layout serve a load within its objectives.
//!
//! Every engine (a device, a layout over up to a node of them, formats) is bounded first ([`bounds`]): by memory, by the times of a lone
//! request, and by the most requests a second that it could serve. The cheapest by these bounds are simulated until their percentiles settle
//! ([`steady`]), with as few replicas as meet the objectives.

mod bounds;
mod engines;
mod layout;
mod prices;
pub mod served;
mod split;
pub mod steady;
pub mod traffic;

use std::collections::BTreeMap;

use llmprof_predict::PredictError;
use llmprof_traffic::{
    slo::all_met,
    sweep::{RateBounds, search_rate},
};
use schemars::JsonSchema;
use serde::Serialize;

pub use bounds::PlanReason;
pub use engines::{PlanCandidate, PlanQuestion};
pub use layout::TriedFormats;
pub use prices::read_prices;
pub use split::Split;
pub use steady::{Requests, Steady};
pub use traffic::{PlanTraffic, RequestSource, TrafficError};

use self::{bounds::EngineChoice, engines::Engines, layout::list_layouts, split::Fleet};

/// Engines that cost more than this times the best by their bound are not simulated once there is a choice.
const SIMULATED_COST_FACTOR_MAX: f64 = 2.0;
const FEASIBLE_CANDIDATES_MIN: usize = 6;
/// The rate search ends at this multiple of the load.
const HIGHEST_RATE_FACTOR: f64 = 16.0;
const RATE_PRECISION: f64 = 0.05;
const RATE_TRIES: usize = 9;

/// Candidates for a load, and how many engines were looked at to find them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanAnswer {
    /// Those that meet the objectives first, the cheapest of them first; then the others.
    pub candidates: Vec<PlanCandidate>,
    /// Engines that were considered: device, layout and formats.
    pub considered: usize,
    /// Engines whose schedule was simulated.
    pub simulated: usize,
    /// Engines that do not serve the load within the objectives, by reason.
    pub failed: BTreeMap<PlanReason, usize>,
    /// Engines that were not simulated, since others are cheaper by the bounds.
    pub not_simulated: usize,
    /// The highest rate that the first candidate serves within the objectives; absent where it meets none, or its load is a trace's.
    pub highest_rate: Option<HighestRate>,
}

/// Highest rate that meets the objectives, and the rate above it that does not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HighestRate {
    /// Highest rate that met every objective, requests per second.
    pub met: f64,
    /// The lowest rate that was tried and missed an objective.
    pub missed: Option<f64>,
}

/// Finds the cheapest engines for a load. `observe` hears how many engines of how many are done.
pub fn plan_engines(
    question: &PlanQuestion<'_>,
    observe: &mut dyn FnMut(usize, usize),
) -> Result<PlanAnswer, PredictError> {
    let engines = Engines {
        question,
        layouts: question
            .devices
            .iter()
            .map(|device| list_layouts(question.model, device, question.max_gpus))
            .collect(),
    };
    let (mut choices, mut failed, considered) = engines.list_choices();
    let cost = |choice: &EngineChoice| {
        let gpus = choice.replicas * choice.parallel.rank_count();
        engines.fleet_cost(choice.device, gpus)
    };
    // Of equal cost, fewer stages and ranks first: a request passes all stages in turn, and ranks communicate.
    choices.sort_by(|a, b| {
        let spread = |one: &EngineChoice| (one.parallel.pipeline, one.parallel.rank_count());
        let by_cost = cost(a).total_cmp(&cost(b));
        by_cost.then(spread(a).cmp(&spread(b)))
    });
    let total = choices.len().min(question.engines_max);
    let mut candidates: Vec<(&EngineChoice, PlanCandidate)> = Vec::new();
    let mut not_simulated = choices.len() - total;
    let mut cheapest = f64::INFINITY;
    for (done, choice) in choices.iter().take(total).enumerate() {
        observe(done, total);
        let met = || candidates.iter().filter(|(_, one)| one.is_met);
        // Narrower formats may change answers: there is to be an engine without them as well.
        let is_wanted =
            choice.precision == question.base.precision && met().all(|(_, one)| one.is_narrowed);
        let has_choice = met().count() >= FEASIBLE_CANDIDATES_MIN;
        if has_choice && !is_wanted && cost(choice) > SIMULATED_COST_FACTOR_MAX * cheapest {
            not_simulated += 1;
            continue;
        }
        if question.disaggregated
            && let Some(apart) = engines.best_split(choice)?
        {
            candidates.push((choice, apart));
        }
        let Some(candidate) = engines.best_of(choice)? else {
            *failed.entry(PlanReason::Memory).or_default() += 1;
            continue;
        };
        if candidate.is_met {
            cheapest = cheapest.min(engines.fleet_cost(choice.device, candidate.gpus));
        } else if let Some(reason) = candidate.limited_by {
            *failed.entry(reason).or_default() += 1;
        }
        candidates.push((choice, candidate));
    }
    let simulated = candidates
        .iter()
        .filter(|(_, one)| one.split.is_none())
        .count();
    candidates.sort_by(|(_, a), (_, b)| compare_candidates(a, b));
    let highest_rate = match candidates.first() {
        Some((choice, best)) if best.is_met => engines.highest_rate(choice, best)?,
        _ => None,
    };
    Ok(PlanAnswer {
        candidates: candidates.into_iter().map(|(_, one)| one).collect(),
        considered,
        simulated,
        failed,
        not_simulated,
        highest_rate,
    })
}

impl Engines<'_> {
    /// The highest rate that replicas of the best engine serve.
    fn highest_rate(
        &self,
        choice: &EngineChoice,
        best: &PlanCandidate,
    ) -> Result<Option<HighestRate>, PredictError> {
        let question = self.question;
        let device = &question.devices[choice.device];
        let (_, spread) = &self.layouts[choice.device][choice.layout];
        let workload = self
            .as_asked()
            .engine_workload(choice.parallel, choice.precision);
        let mut failure = None;
        let bounds = RateBounds {
            least: 1.0,
            most: HIGHEST_RATE_FACTOR,
            precision: RATE_PRECISION,
            tries: RATE_TRIES,
        };
        let rate_search = search_rate(bounds, |scale| {
            let fleet = best
                .split
                .map_or(Fleet::Replicas(best.replicas), Fleet::Split);
            let load = (fleet, scale);
            match self.simulate_fleet(spread, device, &workload, &best.settings, load) {
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
        let rate = question.traffic.mean_rate();
        Ok(rate_search.best_rate.map(|scale| HighestRate {
            met: scale * rate,
            missed: rate_search.first_failing_rate.map(|scale| scale * rate),
        }))
    }
}

/// Those that meet the objectives first, by cost; the others by how far they miss them.
fn compare_candidates(a: &PlanCandidate, b: &PlanCandidate) -> std::cmp::Ordering {
    let cost = |one: &PlanCandidate| one.cost_per_hour.unwrap_or(one.gpus as f64);
    let share = |one: &PlanCandidate| one.limit_share.unwrap_or(0.0);
    let by_share = share(a).total_cmp(&share(b));
    if a.is_met && b.is_met {
        cost(a).total_cmp(&cost(b)).then(by_share)
    } else {
        b.is_met.cmp(&a.is_met).then(by_share)
    }
}
