//! Service-level objectives, written as `ttft:p99<500ms`.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::Distribution;

/// Share of requests that may fail where objectives are to be met.
pub const FAILURE_SHARE_MAX: f64 = 0.01;

/// The latencies of a whole load.
pub trait Latencies {
    /// In milliseconds; `None` where it is not known.
    fn distribution(&self, metric: Metric) -> Option<Distribution>;
    /// Requests with a result, and those without.
    fn outcomes(&self) -> (u64, u64);
    /// Whether a percentile is known only from [`Slo::values_min`] values on.
    fn needs_values(&self) -> bool {
        true
    }
}

/// The latencies of one request.
pub trait RequestLatencies {
    /// In milliseconds; for [`Metric::Itl`] the longest gap. `None` if the request has no such latency.
    fn latency_ms(&self, metric: Metric) -> Option<f64>;
}

/// The latency that an objective bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SloMetric")]
pub enum Metric {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first: the mean of one request.
    Tpot,
    /// Inter-token latency: time between two successive tokens of a request.
    Itl,
    /// Time to the last token.
    E2e,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2e => "e2e",
        }
    }
}

/// An objective: a statistic of a latency below a limit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Slo {
    /// The latency that the objective bounds.
    pub metric: Metric,
    /// `p50`, `p90`, `p95`, `p99`, `mean`, `max`.
    pub statistic: String,
    /// The latency must stay below this many milliseconds.
    pub limit_ms: f64,
}

impl Slo {
    /// What a load has for it; `None` where that is not known, as a percentile of too few values is not.
    pub fn value_of(&self, load: &impl Latencies) -> Option<f64> {
        let values = load.distribution(self.metric)?;
        let value = values.by_name(&self.statistic)?;
        let is_known = values.count >= self.values_min() || !load.needs_values();
        is_known.then_some(value)
    }

    /// Whether a load meets it. What is not known is not met, and a load of which more than [`FAILURE_SHARE_MAX`] failed meets nothing:
    /// latencies of the requests that a server answered say nothing about those that it did not.
    pub fn is_met(&self, load: &impl Latencies) -> bool {
        !fails_too_often(load)
            && self
                .value_of(load)
                .is_some_and(|value| value < self.limit_ms)
    }

    /// What a load says of a percentile for which it has too few values; `None` where it has enough, or none.
    pub fn too_few_values(&self, load: &impl Latencies) -> Option<TooFewValues> {
        let values = load.distribution(self.metric)?;
        let needed = self.values_min();
        let is_few = values.count < needed && load.needs_values();
        is_few.then(|| TooFewValues {
            values: values.count,
            needed,
            is_missed: self.exceeded_twice(&values),
        })
    }

    /// Whether two of the values reach the limit: of [`Slo::values_min`] values one may. A percentile of fewer values lies between the two
    /// largest, so the second largest follows from it.
    fn exceeded_twice(&self, values: &Distribution) -> bool {
        let share = match self.statistic.as_str() {
            "p99" => 0.99,
            "p95" => 0.95,
            "p90" => 0.9,
            _ => return false,
        };
        let Some(value) = values
            .by_name(&self.statistic)
            .filter(|_| values.count >= 2)
        else {
            return false;
        };
        let last = (values.count - 1) as f64;
        let to_largest = share * last - (last - 1.0);
        let second = (value - to_largest * values.max) / (1.0 - to_largest);
        second >= self.limit_ms
    }

    /// Fewest values whose statistic is one of them and not only their maximum: the 99th percentile of 20 values is the longest.
    pub fn values_min(&self) -> u64 {
        match self.statistic.as_str() {
            "p99" => 100,
            "p95" => 20,
            "p90" => 10,
            _ => 1,
        }
    }

    /// Whether one request is below the limit, for goodput. Requests of one token have no TPOT and meet it.
    pub fn is_met_by(&self, request: &impl RequestLatencies) -> bool {
        request
            .latency_ms(self.metric)
            .is_none_or(|ms| ms < self.limit_ms)
    }
}

/// A percentile of too few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct TooFewValues {
    /// Values that a load has.
    pub values: u64,
    /// Fewest values from which the percentile is known.
    pub needed: u64,
    /// Whether the objective is missed all the same: more values reach its limit than may of `needed`.
    pub is_missed: bool,
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("bad SLO `{text}`: {what} (ttft:p99<500ms is one)");
        let (left, limit) = text.split_once('<').ok_or_else(|| wrong("it has no `<`"))?;
        let (metric, statistic) = left
            .trim()
            .split_once(':')
            .ok_or_else(|| wrong("it has no `:`"))?;
        let metric = match metric.trim() {
            "ttft" => Metric::Ttft,
            "tpot" => Metric::Tpot,
            "itl" => Metric::Itl,
            "e2e" | "e2el" | "latency" => Metric::E2e,
            _ => return Err(wrong("latencies are ttft, tpot, itl and e2e")),
        };
        let statistic = match statistic.trim() {
            "median" => "p50",
            "avg" => "mean",
            known @ ("p50" | "p90" | "p95" | "p99" | "mean" | "max") => known,
            _ => return Err(wrong("statistics are p50, p90, p95, p99, mean and max")),
        };
        let limit = limit.trim();
        let (number, scale) = if let Some(number) = limit.strip_suffix("ms") {
            (number, 1.0)
        } else if let Some(number) = limit.strip_suffix("us") {
            (number, 1e-3)
        } else if let Some(number) = limit.strip_suffix('s') {
            (number, 1e3)
        } else {
            return Err(wrong("a limit has a unit: 500ms, 1.5s"));
        };
        let limit_ms = number
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|limit| *limit > 0.0 && limit.is_finite())
            .ok_or_else(|| wrong("its limit is not a positive number"))?
            * scale;
        Ok(Self {
            metric,
            statistic: statistic.to_owned(),
            limit_ms,
        })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}<{}ms",
            self.metric.name(),
            self.statistic,
            self.limit_ms
        )
    }
}

/// Whether more requests failed than objectives allow, or all.
pub fn fails_too_often(load: &impl Latencies) -> bool {
    let (completed, failed) = load.outcomes();
    let share = failed as f64 / (completed + failed).max(1) as f64;
    completed == 0 || share > FAILURE_SHARE_MAX
}

/// Whether a load meets all objectives, and hardly any request failed.
pub fn all_met(slos: &[Slo], load: &impl Latencies) -> bool {
    !fails_too_often(load) && slos.iter().all(|slo| slo.is_met(load))
}

/// Whether a load meets all objectives; `None` where it meets what it decides and does not decide all.
pub fn are_met(slos: &[Slo], load: &impl Latencies) -> Option<bool> {
    let is_open = |slo: &Slo| match slo.too_few_values(load) {
        Some(few) => !few.is_missed,
        None => load.distribution(slo.metric).is_none(),
    };
    let (open, decided): (Vec<&Slo>, Vec<&Slo>) = slos.iter().partition(|slo| is_open(slo));
    if fails_too_often(load) || decided.iter().any(|slo| !slo.is_met(load)) {
        return Some(false);
    }
    open.is_empty().then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Load(u64, u64);

    impl Latencies for Load {
        fn distribution(&self, _: Metric) -> Option<Distribution> {
            Distribution::of_values(&[10.0, 20.0].repeat(self.0 as usize / 2))
        }

        fn outcomes(&self) -> (u64, u64) {
            (self.0, self.1)
        }
    }

    /// `is_met` was true with 43 of 60 failed.
    #[test]
    fn a_load_that_fails_more_than_one_request_of_a_hundred_meets_nothing() {
        let slo: Slo = "ttft:p99<500ms".parse().unwrap();
        for (load, is_met) in [
            (Load(200, 0), true),
            (Load(198, 2), true),
            (Load(198, 3), false),
            (Load(17, 43), false),
            (Load(0, 0), false),
        ] {
            assert_eq!(slo.is_met(&load), is_met, "{} of {}", load.1, load.0);
            assert_eq!(all_met(std::slice::from_ref(&slo), &load), is_met);
        }
        let median: Slo = "ttft:p50<500ms".parse().unwrap();
        assert_eq!(median.value_of(&Load(18, 43)), Some(15.0));
    }

    /// `ttft:p99<500ms` was met by 5 requests, of which it is the maximum.
    #[test]
    fn a_percentile_of_too_few_values_is_not_known() {
        for (text, values_min) in [
            ("ttft:p99<1s", 100),
            ("ttft:p95<1s", 20),
            ("ttft:p90<1s", 10),
        ] {
            let slo: Slo = text.parse().unwrap();
            let (few, enough) = (Load(values_min - 2, 0), Load(values_min, 0));
            assert_eq!((slo.value_of(&few), slo.is_met(&few)), (None, false));
            assert_eq!(
                (slo.value_of(&enough), slo.is_met(&enough)),
                (Some(20.0), true)
            );
        }
    }

    struct Values(Vec<f64>);

    impl Latencies for Values {
        fn distribution(&self, _: Metric) -> Option<Distribution> {
            Distribution::of_values(&self.0)
        }

        fn outcomes(&self) -> (u64, u64) {
            (self.0.len() as u64, 0)
        }
    }

    /// `ttft:p99<300ms` was not known of 60 requests with a median of 1.5 s.
    #[test]
    fn an_objective_is_missed_when_enough_values_exceed_it() {
        for (text, needed) in [
            ("ttft:p99<1s", 100),
            ("ttft:p95<1s", 20),
            ("ttft:p90<1s", 10),
        ] {
            let slo: Slo = text.parse().unwrap();
            for count in 2..needed {
                let load = |beyond: usize| {
                    let mut values: Vec<f64> = (0..count).map(|at| 100.0 + at as f64).collect();
                    for value in values.iter_mut().rev().take(beyond) {
                        *value += 1000.0;
                    }
                    Values(values)
                };
                let missed = |beyond| slo.too_few_values(&load(beyond)).unwrap().is_missed;
                let found = [missed(0), missed(1), missed(2)];
                assert_eq!(found, [false, false, true], "{text} of {count}");
                let slos = std::slice::from_ref(&slo);
                assert_eq!(are_met(slos, &load(1)), None);
                assert_eq!(are_met(slos, &load(2)), Some(false));
            }
            assert_eq!(slo.too_few_values(&Values(vec![1.0; needed])), None);
        }
    }

    #[test]
    fn objectives_are_read_and_printed() {
        let slo: Slo = "ttft:p99<0.5s".parse().unwrap();
        assert_eq!(slo.to_string(), "ttft:p99<500ms");
        assert_eq!(slo.to_string().parse::<Slo>().unwrap(), slo);
        let slo: Slo = " tpot : median < 40ms ".parse().unwrap();
        assert_eq!((slo.statistic.as_str(), slo.limit_ms), ("p50", 40.0));
        for text in [
            "ttft<5ms",
            "ttft:p99",
            "ttft:p99<5",
            "x:p99<5ms",
            "ttft:p42<5ms",
            "ttft:p99<-1ms",
        ] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
    }
}
