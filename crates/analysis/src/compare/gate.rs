//! Thresholds that a comparison must keep: `tpot<+3%`, `ttft:p99<200ms`, `tokens_per_s>-5%`.

use std::fmt;
use std::str::FromStr;

use llmprof_units::stats::median;

use schemars::JsonSchema;
use serde::Serialize;

use super::bootstrap::percentile_interval;
use super::comparison::Comparison;
use super::facts::RunFacts;
use super::metric::{ComparedMetric, MetricUnit};

/// A threshold on one metric that a comparison must keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub metric: ComparedMetric,
    /// A percentile over requests, from 0 to 1; absent for the metric of a pass.
    pub percentile: Option<f64>,
    /// `<`: the value must stay below; otherwise above.
    pub below: bool,
    pub bound: GateBound,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateBound {
    /// Change against the first side: 0.03 is +3 %.
    Relative(f64),
    /// A value of the second side in the metric's unit.
    Absolute(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    Passed,
    /// The whole interval lies beyond the bound.
    Failed,
    /// The interval holds the bound.
    Inconclusive,
    /// There is nothing to judge by.
    NotEvaluated,
}

/// Why a gate could not be evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unevaluated {
    /// A side does not have the metric.
    NotMeasured,
    /// This trait makes the metric one of other work.
    OtherWork(String),
    /// Too few values for an interval.
    TooFewValues,
    /// The client of a load was late: its latencies are not the server's.
    ClientLate,
}

/// The outcome of a gate in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateOutcome {
    /// The gate as it was given.
    pub gate: String,
    /// Whether the threshold is kept, broken, or could not be judged.
    pub state: GateState,
    /// Why the gate was not evaluated; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Unevaluated>,
    /// Ratio for a relative bound, else the value in the metric's unit.
    pub value: Option<f64>,
    /// Lower end of the 95 % confidence interval.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval.
    pub ci_high: Option<f64>,
    #[serde(skip)]
    pub bound: Option<GateBound>,
    #[serde(skip)]
    pub unit: Option<MetricUnit>,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let at = compact
            .find(['<', '>'])
            .ok_or_else(|| format!("`{text}` has no < or >: 'tpot<+3%', 'ttft:p99<200ms'"))?;
        let (name, rest) = compact.split_at(at);
        let (key, percentile) = match name.split_once(":p") {
            Some((key, number)) => (key, Some(parse_percentile(number, text)?)),
            None => (name, None),
        };
        let metric = ComparedMetric::by_key(key).ok_or_else(|| {
            let known: Vec<&str> = ComparedMetric::ALL
                .iter()
                .map(|metric| metric.key)
                .collect();
            format!(
                "unknown metric `{key}` in `{text}`; known: {}",
                known.join(", ")
            )
        })?;
        let bound = parse_bound(&rest[1..], metric, text)?;
        if percentile.is_some() && matches!(bound, GateBound::Relative(_)) {
            return Err(format!(
                "`{text}`: a percentile has an absolute bound, such as {name}<200ms"
            ));
        }
        Ok(Self {
            metric,
            percentile,
            below: rest.starts_with('<'),
            bound,
            text: compact,
        })
    }
}

fn parse_percentile(number: &str, text: &str) -> Result<f64, String> {
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}`: a percentile is p50, p90, p99, …"))?;
    if (0.0..=100.0).contains(&value) {
        Ok(value / 100.0)
    } else {
        Err(format!("`{text}`: a percentile lies between p0 and p100"))
    }
}

/// Units of bounds and their factors to the unit of the metric.
const BOUND_UNITS: [(&str, MetricUnit, f64); 10] = [
    ("ns", MetricUnit::Ns, 1.0),
    ("us", MetricUnit::Ns, 1e3),
    ("µs", MetricUnit::Ns, 1e3),
    ("ms", MetricUnit::Ns, 1e6),
    ("s", MetricUnit::Ns, 1e9),
    ("tok/s", MetricUnit::PerSecond, 1.0),
    ("mJ", MetricUnit::Joules, 1e-3),
    ("J", MetricUnit::Joules, 1.0),
    ("MiB", MetricUnit::Bytes, 1_048_576.0),
    ("GiB", MetricUnit::Bytes, 1_073_741_824.0),
];

fn parse_bound(words: &str, metric: ComparedMetric, text: &str) -> Result<GateBound, String> {
    let split = words
        .find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))
        .unwrap_or(words.len());
    let (number, unit) = words.split_at(split);
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}`: `{words}` is not a number with a unit"))?;
    if unit == "%" {
        return if number.starts_with(['+', '-']) || value == 0.0 {
            Ok(GateBound::Relative(value / 100.0))
        } else {
            Err(format!(
                "`{text}`: a change has its sign: {}<+{words}",
                metric.key
            ))
        };
    }
    let known = BOUND_UNITS
        .iter()
        .find(|(name, of, _)| *name == unit && *of == metric.unit);
    let (_, _, scale) = known.ok_or_else(|| {
        let fitting = BOUND_UNITS.iter().filter(|(_, of, _)| *of == metric.unit);
        let fitting: Vec<&str> = fitting.map(|(name, ..)| *name).collect();
        format!(
            "`{text}`: a bound of {} has % or {}",
            metric.key,
            fitting.join(", ")
        )
    })?;
    Ok(GateBound::Absolute(value * scale))
}

impl Gate {
    /// Judges the gate by a comparison of two sides.
    pub fn judge(
        &self,
        comparison: &Comparison,
        (first, second): (&[RunFacts], &[RunFacts]),
    ) -> GateOutcome {
        let mut outcome = GateOutcome {
            gate: self.text.clone(),
            state: GateState::NotEvaluated,
            reason: None,
            value: None,
            ci_low: None,
            ci_high: None,
            bound: Some(self.bound),
            unit: Some(self.metric.unit),
        };
        let judged_by = match self.bound {
            GateBound::Relative(_) => [first, second],
            GateBound::Absolute(_) => [&[], second],
        };
        if judged_by
            .into_iter()
            .flatten()
            .any(|run| run.client_was_late)
        {
            outcome.reason = Some(Unevaluated::ClientLate);
            return outcome;
        }
        let limit = match self.bound {
            GateBound::Relative(change) => {
                let metric = comparison.metric(self.metric.key);
                outcome.reason = metric
                    .and_then(|metric| metric.excluded_for.clone())
                    .map(Unevaluated::OtherWork);
                let compared = metric.filter(|metric| metric.excluded_for.is_none());
                outcome.value = compared.and_then(|metric| metric.ratio);
                outcome.ci_low = compared.and_then(|metric| metric.ci_low);
                outcome.ci_high = compared.and_then(|metric| metric.ci_high);
                1.0 + change
            }
            GateBound::Absolute(limit) => {
                let values = self.judged_values(second);
                let interval = percentile_interval(&values, self.percentile.unwrap_or(0.5));
                outcome.value = interval
                    .map(|interval| interval.ratio)
                    .or_else(|| median(&mut values.clone()));
                outcome.ci_low = interval.map(|interval| interval.low);
                outcome.ci_high = interval.map(|interval| interval.high);
                limit
            }
        };
        let (Some(low), Some(high)) = (outcome.ci_low, outcome.ci_high) else {
            let reason = match outcome.value {
                Some(_) => Unevaluated::TooFewValues,
                None => Unevaluated::NotMeasured,
            };
            outcome.reason.get_or_insert(reason);
            return outcome;
        };
        let (inside, outside) = if self.below {
            (high <= limit, low > limit)
        } else {
            (low >= limit, high < limit)
        };
        outcome.state = match (inside, outside) {
            (true, _) => GateState::Passed,
            (_, true) => GateState::Failed,
            _ => GateState::Inconclusive,
        };
        outcome
    }

    /// Values of requests for a percentile, else of passes.
    fn judged_values(&self, runs: &[RunFacts]) -> Vec<f64> {
        let values_of = |run: &RunFacts| {
            let from = if self.percentile.is_some() {
                &run.requests
            } else {
                &run.passes
            };
            from.get(self.metric.key).cloned().unwrap_or_default()
        };
        runs.iter().flat_map(values_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read() {
        let gate: Gate = "tpot < +3%".parse().unwrap();
        assert_eq!(
            (gate.metric.key, gate.below, gate.bound),
            ("tpot", true, GateBound::Relative(0.03))
        );
        let gate: Gate = "ttft:p99<200ms".parse().unwrap();
        assert_eq!(
            (gate.percentile, gate.bound),
            (Some(0.99), GateBound::Absolute(2e8))
        );
        let gate: Gate = "tokens_per_s>-5%".parse().unwrap();
        assert!(!gate.below && gate.bound == GateBound::Relative(-0.05));
        let gate: Gate = "peak_memory<70GiB".parse().unwrap();
        assert_eq!(gate.bound, GateBound::Absolute(70.0 * 1_073_741_824.0));
    }

    /// A gate passed on latencies of which the report said that nothing is concluded from them.
    #[test]
    fn a_late_client_leaves_nothing_to_judge() {
        let side = |client_was_late: bool| {
            let values: Vec<f64> = (0..40).map(|value| 1e8 + f64::from(value)).collect();
            let times = std::collections::BTreeMap::from([("ttft".to_owned(), values)]);
            vec![RunFacts {
                measured_in: "load".to_owned(),
                passes: times.clone(),
                requests: times,
                client_was_late,
                ..RunFacts::default()
            }]
        };
        let state = |gate: &str, a: bool, b: bool| {
            let (a, b) = (side(a), side(b));
            let comparison =
                Comparison::between(&a, &b, super::super::CompareOptions::default()).unwrap();
            let gate: Gate = gate.parse().unwrap();
            let outcome = gate.judge(&comparison, (&a, &b));
            (outcome.state, outcome.reason)
        };
        let passed = (GateState::Passed, None);
        let late = (GateState::NotEvaluated, Some(Unevaluated::ClientLate));
        for gate in ["ttft<+3%", "ttft<200ms"] {
            assert_eq!(state(gate, false, false), passed, "{gate}");
            assert_eq!(state(gate, false, true), late, "{gate}");
        }
        // An absolute bound is of the second side alone.
        assert_eq!(state("ttft<+3%", true, false), late);
        assert_eq!(state("ttft<200ms", true, false), passed);
    }

    #[test]
    fn mistakes_name_the_fix() {
        for (text, part) in [
            ("tpot", "no < or >"),
            ("speed<+3%", "unknown metric `speed`"),
            ("tpot<3%", "tpot<+3%"),
            ("tpot<5GiB", "has % or ns"),
            ("tpot<fast", "is not a number"),
            ("ttft:p101<1s", "between p0 and p100"),
            ("ttft:p99<+3%", "absolute bound"),
        ] {
            let error = text.parse::<Gate>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
