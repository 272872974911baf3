//! Arrival processes: what decides when each request is sent.

use llmprof_units::{Nanos, format_significant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// What decides when the next request is sent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Arrivals {
    /// A new request as soon as one of `concurrency` ends.
    Closed {
        /// Number of requests in flight at any time.
        concurrency: usize,
    },
    /// One request every 1/`rate` seconds.
    Constant {
        /// Number of requests sent per second.
        rate: f64,
    },
    /// Independent of each other: exponential gaps.
    Poisson {
        /// Mean number of requests sent per second.
        rate: f64,
    },
    /// Gamma gaps with shape `burstiness` and mean 1/`rate`: below 1 in bursts, 1 is Poisson, above 1 more even.
    Gamma {
        /// Mean number of requests sent per second.
        rate: f64,
        /// The shape of the gaps.
        burstiness: f64,
    },
    /// At the times of a trace or of an earlier result.
    Recorded,
}

/// Lowest rate in requests per second: one request in three hours is not a load.
pub const RATE_MIN: f64 = 1e-4;
/// Highest rate, requests per second: times are due at whole nanoseconds.
pub const RATE_MAX: f64 = 1e9;
/// Most requests in flight of a closed loop: each has a task and a connection, and a machine has 65,535 ports per address.
pub const CONCURRENCY_MAX: usize = 1 << 20;

impl Arrivals {
    /// When requests arrive, in words; `speedup` of a trace.
    pub fn describe(&self, speedup: f64) -> String {
        let per_s = |rate: f64| format!("{} requests/s", format_significant(rate));
        match *self {
            Self::Closed { concurrency } => format!("{concurrency} in flight"),
            Self::Constant { rate } => format!("{}, evenly spaced", per_s(rate)),
            Self::Poisson { rate } => format!("{}, Poisson", per_s(rate)),
            Self::Gamma { rate, burstiness } => {
                format!("{}, burstiness {burstiness}", per_s(rate))
            }
            Self::Recorded if speedup == 1.0 => "at the times of the trace".to_owned(),
            Self::Recorded => format!("at the times of the trace, {speedup}×"),
        }
    }

    /// The first invalid value, as a sentence; `None` if all are valid.
    pub fn find_mistake(&self) -> Option<String> {
        let positive = |name: &str, value: f64| {
            (!(value > 0.0 && value.is_finite()))
                .then(|| format!("{name} must be a positive number, not {value}"))
        };
        let is_rate = |rate: f64| {
            positive("rate", rate).or_else(|| {
                if rate < RATE_MIN {
                    Some(format!("rate must be at least {RATE_MIN} requests/s"))
                } else {
                    (rate > RATE_MAX).then(|| format!("rate must be at most {RATE_MAX} requests/s"))
                }
            })
        };
        match *self {
            Self::Closed { concurrency: 0 } => Some("concurrency must be at least 1".to_owned()),
            Self::Closed { concurrency } if concurrency > CONCURRENCY_MAX => {
                Some(format!("concurrency must be at most {CONCURRENCY_MAX}"))
            }
            Self::Closed { .. } | Self::Recorded => None,
            Self::Constant { rate } | Self::Poisson { rate } => is_rate(rate),
            Self::Gamma { rate, burstiness } => {
                is_rate(rate).or_else(|| positive("burstiness", burstiness))
            }
        }
    }

    /// The same kind at another rate; Poisson where these have none.
    #[must_use]
    pub fn at_rate(&self, rate: f64) -> Self {
        match *self {
            Self::Constant { .. } => Self::Constant { rate },
            Self::Gamma { burstiness, .. } => Self::Gamma { rate, burstiness },
            Self::Poisson { .. } | Self::Closed { .. } | Self::Recorded => Self::Poisson { rate },
        }
    }

    /// The requested mean rate; `None` for closed loops and traces.
    pub fn mean_rate(&self) -> Option<f64> {
        match *self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::Gamma { rate, .. } => {
                Some(rate)
            }
            Self::Closed { .. } | Self::Recorded => None,
        }
    }

    /// When each of `count` requests is due, from the start of the load; `None` where the server's answers decide.
    ///
    /// The first one is due at 0: a gap before it would only be waited for.
    pub fn due_times(&self, count: usize, seed: u64) -> Option<Vec<Nanos>> {
        let mut random = Random::new(seed, "arrivals");
        let mut gap: Box<dyn FnMut() -> f64> = match *self {
            Self::Closed { .. } | Self::Recorded => return None,
            Self::Constant { rate } => Box::new(move || 1.0 / rate),
            Self::Poisson { rate } => Box::new(move || random.next_exponential() / rate),
            Self::Gamma { rate, burstiness } => {
                Box::new(move || random.next_gamma(burstiness) / (rate * burstiness))
            }
        };
        let mut at = 0.0;
        Some(
            (0..count)
                .map(|index| {
                    if index > 0 {
                        at += gap();
                    }
                    Nanos((at * 1e9) as i64)
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate and coefficient of variation of the gaps.
    fn gap_statistics(arrivals: &Arrivals) -> (f64, f64) {
        let times = arrivals.due_times(50_000, 3).unwrap();
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e9)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let var = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (1.0 / mean, var.sqrt() / mean)
    }

    #[test]
    fn rates_and_spreads_are_those_asked_for() {
        // The coefficient of variation of a gamma distribution is 1/√shape.
        for (arrivals, spread) in [
            (Arrivals::Constant { rate: 20.0 }, 0.0),
            (Arrivals::Poisson { rate: 20.0 }, 1.0),
            (
                Arrivals::Gamma {
                    rate: 20.0,
                    burstiness: 0.25,
                },
                2.0,
            ),
            (
                Arrivals::Gamma {
                    rate: 20.0,
                    burstiness: 4.0,
                },
                0.5,
            ),
        ] {
            let (rate, cv) = gap_statistics(&arrivals);
            assert!((rate / 20.0 - 1.0).abs() < 0.03, "{arrivals:?}: {rate}");
            assert!((cv - spread).abs() < 0.05, "{arrivals:?}: {cv}");
        }
    }

    #[test]
    fn another_rate_has_the_same_kind() {
        let bursts = |rate| Arrivals::Gamma {
            rate,
            burstiness: 0.5,
        };
        let even = |rate| Arrivals::Constant { rate };
        let poisson = |rate| Arrivals::Poisson { rate };
        assert_eq!(bursts(3.0).at_rate(7.0), bursts(7.0));
        assert_eq!(even(3.0).at_rate(7.0), even(7.0));
        let closed = Arrivals::Closed { concurrency: 4 };
        for without_kind in [poisson(3.0), closed, Arrivals::Recorded] {
            assert_eq!(without_kind.at_rate(7.0), poisson(7.0));
        }
    }

    #[test]
    fn a_seed_repeats_and_mistakes_are_named() {
        let poisson = Arrivals::Poisson { rate: 5.0 };
        assert_eq!(poisson.due_times(100, 1), poisson.due_times(100, 1));
        assert_ne!(poisson.due_times(100, 1), poisson.due_times(100, 2));
        assert_eq!(poisson.due_times(3, 1).unwrap()[0], Nanos(0));
        assert!(Arrivals::Constant { rate: 0.0 }.find_mistake().is_some());
        assert!(
            Arrivals::Poisson { rate: f64::NAN }
                .find_mistake()
                .is_some()
        );
        assert!(Arrivals::Closed { concurrency: 0 }.find_mistake().is_some());
        assert!(Arrivals::Poisson { rate: 1e-8 }.find_mistake().is_some());
        assert!(Arrivals::Constant { rate: 1e300 }.find_mistake().is_some());
        let closed = |concurrency| Arrivals::Closed { concurrency };
        assert!(closed(1_000_000_000_000).find_mistake().is_some());
        assert!(poisson.find_mistake().is_none() && closed(10_000).find_mistake().is_none());
    }
}
