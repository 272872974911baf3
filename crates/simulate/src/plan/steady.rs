//! Simulations that grow until their percentiles settle.

use llmprof_traffic::{
    figures::LoadFigures,
    slo::{Latencies, Metric, Slo},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{engine::LoadOutcome, simulated_load::SimulatedLoad};

/// Percentiles of twice as many requests that differ by less are settled.
pub const SETTLED_SHARE: f64 = 0.05;
/// An objective that a short simulation misses by this factor is not met by a longer one.
const UNREACHABLE_FACTOR: f64 = 2.0;
/// Requests before this share of all see an engine that fills; those after the other one that drains.
const MEASURED_SHARES: [f64; 2] = [0.2, 0.9];

/// How many requests are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    pub first: usize,
    pub most: usize,
}

/// A simulated load, and whether its percentiles are those of a longer one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Steady {
    /// Figures of the last simulation, the one with the most requests.
    pub summary: SimulatedLoad,
    /// Requests of the last simulation, of one engine.
    pub requests: usize,
    /// Whether the 99th percentiles of TTFT and TPOT changed by less than a twentieth when the requests doubled, or a trace
    /// was simulated as a whole.
    pub is_settled: bool,
}

/// Doubles the requests of `simulate` until the 99th percentiles of TTFT and TPOT settle, or objectives are out of reach. `simulate` returns
/// fewer requests than asked for where its load ends.
pub fn settle_percentiles<E>(
    requests: Requests,
    slos: &[Slo],
    mut simulate: impl FnMut(usize) -> Result<(SimulatedLoad, usize), E>,
) -> Result<Steady, E> {
    let mut count = requests.first.max(1);
    let mut before: Option<[f64; 2]> = None;
    loop {
        let (summary, simulated) = simulate(count)?;
        let tails = [Metric::Ttft, Metric::Tpot].map(|metric| {
            summary
                .distribution(metric)
                .map_or(0.0, |latencies| latencies.p99)
        });
        let has_ended = simulated < count;
        let is_close = before.is_some_and(|before| {
            let close = |(now, then): (f64, f64)| (now - then).abs() <= SETTLED_SHARE * now;
            tails.into_iter().zip(before).all(close)
        });
        let is_hopeless = slos.iter().any(|slo| {
            let value = slo.value_of(&summary);
            value.is_some_and(|value| value > UNREACHABLE_FACTOR * slo.limit_ms)
        });
        if is_close || has_ended || is_hopeless || count >= requests.most {
            return Ok(Steady {
                summary,
                requests: simulated,
                is_settled: is_close || has_ended,
            });
        }
        before = Some(tails);
        count = (count * 2).min(requests.most);
    }
}

/// The numbers of a simulation, with the latencies of requests that came while the load was neither beginning nor about to end.
pub(crate) fn measured_summary(
    outcome: LoadOutcome,
    requests: usize,
    kv_blocks: u64,
    slos: &[Slo],
) -> SimulatedLoad {
    let whole = SimulatedLoad::of_outcomes(std::slice::from_ref(&outcome), kv_blocks, slos);
    let [first, last] = MEASURED_SHARES.map(|share| (requests as f64 * share) as usize);
    let mut middle = outcome;
    middle
        .finished
        .retain(|finished| (first..last.max(first + 1)).contains(&finished.index));
    let measured = SimulatedLoad::of_outcomes(&[middle], kv_blocks, slos);
    SimulatedLoad {
        figures: LoadFigures {
            ttft_ms: measured.figures.ttft_ms,
            tpot_ms: measured.figures.tpot_ms,
            e2e_ms: measured.figures.e2e_ms,
            ..whole.figures
        },
        ..whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A summary whose requests all take `ttft_ms` to their first token.
    fn summary_of(ttft_ms: i64, count: usize) -> SimulatedLoad {
        let mut outcome = LoadOutcome::default();
        for index in 0..count {
            outcome.finished.push(crate::engine::FinishedRequest {
                index,
                at: llmprof_units::Nanos(0),
                first_token: llmprof_units::Nanos(ttft_ms * 1_000_000),
                last_token: llmprof_units::Nanos(ttft_ms * 1_000_000),
                prompt: 1,
                output: 1,
                longest_gap: None,
                preemptions: 0,
            });
        }
        SimulatedLoad::of_outcomes(&[outcome], 1, &[])
    }

    fn settle_with(slos: &[Slo], ttft_ms: impl Fn(usize) -> i64) -> Steady {
        let requests = Requests {
            first: 10,
            most: 80,
        };
        let simulate = |count| Ok::<_, ()>((summary_of(ttft_ms(count), 5), count));
        settle_percentiles(requests, slos, simulate).unwrap()
    }

    #[test]
    fn requests_double_until_percentiles_settle() {
        let constant = settle_with(&[], |_| 100);
        assert_eq!((constant.requests, constant.is_settled), (20, true));
        let late = settle_with(&[], |count| if count < 20 { 5 } else { 100 });
        assert_eq!((late.requests, late.is_settled), (40, true));
        // A queue that grows with the load never settles, and is said not to have.
        let growing = settle_with(&[], |count| count as i64);
        assert_eq!((growing.requests, growing.is_settled), (80, false));
    }

    #[test]
    fn what_is_out_of_reach_is_not_simulated_on() {
        let slo: Slo = "ttft:p99<30ms".parse().unwrap();
        let far = settle_with(std::slice::from_ref(&slo), |_| 61);
        assert_eq!((far.requests, far.is_settled), (10, false));
        let near = settle_with(&[slo], |_| 59);
        assert_eq!((near.requests, near.is_settled), (20, true));
    }
}
