//! The highest rate that meets the objectives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "SweepPoint")]
pub struct SweepPoint<S> {
    /// Requests per second that were asked for.
    pub rate: f64,
    /// Whether all objectives were met.
    pub is_met: bool,
    /// The latencies and throughputs of the load at this rate.
    pub summary: S,
}

/// The outcome of a search for the highest rate that meets the objectives.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Sweep<S> {
    /// The rates by size: the latency–throughput curve.
    pub points: Vec<SweepPoint<S>>,
    /// The highest rate that met the objectives.
    pub best_rate: Option<f64>,
    /// The lowest rate above it that did not; the truth lies between.
    pub first_failing_rate: Option<f64>,
}

impl<S> Default for Sweep<S> {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            best_rate: None,
            first_failing_rate: None,
        }
    }
}

impl<S> Sweep<S> {
    /// Records a measured rate and updates the best and the first failing rate.
    pub fn add_point(&mut self, point: SweepPoint<S>) {
        let SweepPoint { rate, is_met, .. } = point;
        if is_met {
            self.best_rate = Some(self.best_rate.map_or(rate, |best| best.max(rate)));
        } else {
            let failing = self.first_failing_rate;
            self.first_failing_rate = Some(failing.map_or(rate, |failing| failing.min(rate)));
        }
        let place = self.points.partition_point(|known| known.rate <= rate);
        self.points.insert(place, point);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    /// Requests per second of the first load.
    pub least: f64,
    /// The highest rate that is tried.
    pub most: f64,
    /// How close the two rates of the answer come, as a share.
    pub precision: f64,
    /// Rates that are tried at most.
    pub tries: usize,
}

/// Doubles the rate until objectives fail, then halves the interval (on a logarithmic scale) between the highest that met them
/// and the lowest that did not. `measure` returns `None` to stop.
pub fn search_rate<S>(
    bounds: RateBounds,
    mut measure: impl FnMut(f64) -> Option<(S, bool)>,
) -> Sweep<S> {
    let mut sweep = Sweep::default();
    while sweep.points.len() < bounds.tries {
        let rate = match (sweep.best_rate, sweep.first_failing_rate) {
            (None, None) => bounds.least,
            (Some(good), None) if good >= bounds.most => break,
            (Some(good), None) => (good * 2.0).min(bounds.most),
            // Even the first rate fails: look below it.
            (None, Some(bad)) => bad / 2.0,
            (Some(good), Some(bad)) if bad / good <= 1.0 + bounds.precision => break,
            (Some(good), Some(bad)) => (good * bad).sqrt(),
        };
        // Below a thousandth of the first rate the search ends.
        if rate < bounds.least / 1000.0 {
            break;
        }
        let Some((summary, is_met)) = measure(rate) else {
            break;
        };
        sweep.add_point(SweepPoint {
            rate,
            is_met,
            summary,
        });
    }
    sweep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search_with_limit(least: f64, limit: f64) -> Sweep<()> {
        let bounds = RateBounds {
            least,
            most: 1000.0,
            precision: 0.05,
            tries: 30,
        };
        search_rate(bounds, |rate| Some(((), rate < limit)))
    }

    #[test]
    fn the_limit_is_between_the_two_rates() {
        for (least, limit) in [(1.0, 37.0), (64.0, 3.0), (5.0, 5.1)] {
            let sweep = search_with_limit(least, limit);
            let (good, bad) = (sweep.best_rate.unwrap(), sweep.first_failing_rate.unwrap());
            assert!(
                good < limit && limit <= bad,
                "{least} {limit}: {good} {bad}"
            );
            assert!(bad / good <= 1.05, "{good} {bad}");
            assert!(sweep.points.is_sorted_by(|a, b| a.rate <= b.rate));
        }
    }

    #[test]
    fn a_server_without_limits_and_one_without_hope() {
        let sweep = search_with_limit(1.0, f64::INFINITY);
        assert_eq!(
            (sweep.best_rate, sweep.first_failing_rate),
            (Some(1000.0), None)
        );
        let sweep = search_with_limit(8.0, 0.0);
        assert_eq!(sweep.best_rate, None);
        assert!(sweep.points.len() < 15);
    }
}
