//! A simulated load in numbers: those of `llmprof bench`, and what an engine knows of itself.

use llmprof_traffic::{
    figures::LoadFigures,
    slo::{Latencies, Metric, RequestLatencies, Slo},
    statistics::Distribution,
};
use llmprof_units::{Basis, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{FinishedRequest, LoadOutcome};

/// A simulated load: the figures that a sent one has, and what the engine did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedLoad {
    #[serde(flatten)]
    pub figures: LoadFigures,
    /// Steps that all replicas ran.
    pub steps: u64,
    /// Share of the duration in which steps ran, over all replicas.
    pub busy_share: f64,
    /// Sequences that ran, over the time of steps.
    pub running: LoadLevel,
    /// Requests that waited, over the time of steps.
    pub waiting: LoadLevel,
    /// Share of the KV blocks in use, over the time of steps.
    pub kv_usage: LoadLevel,
    /// Times that a sequence lost its KV blocks and had to be computed again.
    pub preemptions: u64,
    /// Tokens that preemptions threw away.
    pub discarded_tokens: u64,
    /// Prompt tokens that the prefix cache had.
    pub cached_tokens: u64,
    /// Tokens that went through the model.
    pub computed_tokens: u64,
    /// Replicas that share the load.
    pub replicas: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LoadLevel {
    /// Mean, weighted by the time of steps.
    pub mean: f64,
    /// Largest value at any step.
    pub max: f64,
}

fn millis_of(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

impl RequestLatencies for FinishedRequest {
    fn latency_ms(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Ttft => Some(millis_of(self.first_token - self.at)),
            Metric::E2e => Some(millis_of(self.last_token - self.at)),
            Metric::Tpot => (self.output > 1)
                .then(|| millis_of(self.last_token - self.first_token) / (self.output - 1) as f64),
            Metric::Itl => self.longest_gap.map(millis_of),
        }
    }
}

impl Latencies for SimulatedLoad {
    fn distribution(&self, metric: Metric) -> Option<Distribution> {
        self.figures.distribution(metric)
    }

    fn outcomes(&self) -> (u64, u64) {
        self.figures.outcomes()
    }

    /// A plan simulates until percentiles settle, and a simulation says which do not.
    fn needs_values(&self) -> bool {
        false
    }
}

impl SimulatedLoad {
    /// Summarizes the outcomes of one or more replicas with `kv_blocks` KV blocks each.
    pub fn of_outcomes(outcomes: &[LoadOutcome], kv_blocks: u64, slos: &[Slo]) -> Self {
        let finished = || outcomes.iter().flat_map(|outcome| &outcome.finished);
        let sum = |of: fn(&LoadOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let start = finished().map(|f| f.at).min().unwrap_or(Nanos(0));
        let end = finished().map(|f| f.last_token).max().unwrap_or(Nanos(0));
        let duration_s = (end - start).0 as f64 / 1e9;
        let per_second = |count: f64| {
            if duration_s > 0.0 {
                count / duration_s
            } else {
                0.0
            }
        };
        let of = |metric: Metric| {
            let values: Vec<f64> = finished().filter_map(|f| f.latency_ms(metric)).collect();
            Distribution::of_values(&values)
        };
        let mut gaps: Vec<(f64, u64)> = outcomes
            .iter()
            .flat_map(|outcome| outcome.gaps.mean_gaps())
            .map(|(nanos, count)| (nanos / 1e6, count))
            .collect();
        let busy: f64 = outcomes.iter().map(|o| o.busy.0 as f64).sum();
        let level = |integral: fn(&LoadOutcome) -> f64,
                     most: fn(&LoadOutcome) -> u64,
                     unit: f64| LoadLevel {
            mean: outcomes.iter().map(integral).sum::<f64>() / busy.max(1.0) / unit,
            max: outcomes.iter().map(most).max().unwrap_or(0) as f64 / unit,
        };
        let completed = finished().count() as u64;
        let outputs: u64 = finished().map(|f| f.output).sum();
        let inputs: u64 = finished().map(|f| f.prompt).sum();
        let good = finished().filter(|f| slos.iter().all(|slo| slo.is_met_by(*f)));
        let figures = LoadFigures {
            basis: Basis::Predicted,
            ttft_ms: of(Metric::Ttft),
            tpot_ms: of(Metric::Tpot),
            itl_ms: Distribution::of_weighted(&mut gaps),
            e2e_ms: of(Metric::E2e),
            request_throughput: per_second(completed as f64),
            output_throughput: Some(per_second(outputs as f64)),
            total_token_throughput: Some(per_second((inputs + outputs) as f64)),
            goodput: (!slos.is_empty()).then(|| per_second(good.count() as f64)),
            completed,
            failed: sum(|o| o.refused.len() as u64),
            total_input_tokens: Some(inputs),
            total_output_tokens: Some(outputs),
            duration_s,
        };
        Self {
            figures,
            steps: sum(|o| o.steps),
            busy_share: per_second(busy / 1e9) / outcomes.len().max(1) as f64,
            running: level(|o| o.running_time, |o| o.most_running, 1.0),
            waiting: level(|o| o.waiting_time, |o| o.most_waiting, 1.0),
            kv_usage: level(|o| o.block_time, |o| o.most_blocks, kv_blocks.max(1) as f64),
            preemptions: sum(|o| o.preemptions),
            discarded_tokens: sum(|o| o.discarded_tokens),
            cached_tokens: sum(|o| o.cached_tokens),
            computed_tokens: sum(|o| o.computed_tokens),
            replicas: outcomes.len() as u64,
        }
    }
}
