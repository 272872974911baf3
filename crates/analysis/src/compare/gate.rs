//! Thresholds that a comparison must keep: `tpot<+3%`, `ttft:p99<200ms`, `tokens_per_s>-5%`.

use std::fmt;
use std::str::FromStr;

use llmprof_units::stats::median;

use schemars::JsonSchema;
use serde::Serialize;

use super::bootstrap::percentile_interval;
use super::comparison::Comparison;
use super::facts::RunFacts;
use super::metric::{Metric, Unit};

/// A threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub metric: Metric,
    /// A percentile over requests, from 0 to 1; absent for the metric of a pass.
    pub percentile: Option<f64>,
    /// `<`: the value must stay below; otherwise above.
    pub below: bool,
    pub bound: Bound,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
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
}

/// What a gate says of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateOutcome {
    /// The gate as it was given.
    pub gate: String,
    /// Outcome of the gate.
    pub state: GateState,
    /// Only of a gate that was not evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Unevaluated>,
    /// Ratio for a relative bound, else the value in the metric's unit.
    pub value: Option<f64>,
    /// Lower end of the 95 % confidence interval.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval.
    pub ci_high: Option<f64>,
    #[serde(skip)]
    pub bound: Option<Bound>,
    #[serde(skip)]
    pub unit: Option<Unit>,
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
            Some((key, number)) => (key, Some(percentile(number, text)?)),
            None => (name, None),
        };
        let metric = Metric::by_key(key).ok_or_else(|| {
            let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.key).collect();
            format!(
                "unknown metric `{key}` in `{text}`; known: {}",
                known.join(", ")
            )
        })?;
        let bound = bound(&rest[1..], metric, text)?;
        if percentile.is_some() && matches!(bound, Bound::Relative(_)) {
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

fn percentile(number: &str, text: &str) -> Result<f64, String> {
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}`: a percentile is p50, p90, p99, …"))?;
    if (0.0..=100.0).contains(&value) {
        Ok(value / 100.0)
    } else {
        Err(format!("`{text}`: a percentile lies between p0 and p100"))
    }
}

/// Units of bounds and what they are in the metric's own.
const UNITS: [(&str, Unit, f64); 10] = [
    ("ns", Unit::Ns, 1.0),
    ("us", Unit::Ns, 1e3),
    ("µs", Unit::Ns, 1e3),
    ("ms", Unit::Ns, 1e6),
    ("s", Unit::Ns, 1e9),
    ("tok/s", Unit::PerSecond, 1.0),
    ("mJ", Unit::Joules, 1e-3),
    ("J", Unit::Joules, 1.0),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0),
];

fn bound(words: &str, metric: Metric, text: &str) -> Result<Bound, String> {
    let split = words
        .find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))
        .unwrap_or(words.len());
    let (number, unit) = words.split_at(split);
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}`: `{words}` is not a number with a unit"))?;
    if unit == "%" {
        return if number.starts_with(['+', '-']) || value == 0.0 {
            Ok(Bound::Relative(value / 100.0))
        } else {
            Err(format!(
                "`{text}`: a change has its sign: {}<+{words}",
                metric.key
            ))
        };
    }
    let known = UNITS
        .iter()
        .find(|(name, of, _)| *name == unit && *of == metric.unit);
    let (_, _, scale) = known.ok_or_else(|| {
        let fitting = UNITS.iter().filter(|(_, of, _)| *of == metric.unit);
        let fitting: Vec<&str> = fitting.map(|(name, ..)| *name).collect();
        format!(
            "`{text}`: a bound of {} has % or {}",
            metric.key,
            fitting.join(", ")
        )
    })?;
    Ok(Bound::Absolute(value * scale))
}

impl Gate {
    /// What it says of a comparison whose second side is made of `runs`.
    pub fn judge(&self, comparison: &Comparison, runs: &[RunFacts]) -> GateOutcome {
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
        let limit = match self.bound {
            Bound::Relative(change) => {
                let metric = comparison.metric(self.metric.key);
                outcome.reason = metric
                    .and_then(|metric| metric.excluded_for.clone())
                    .map(Unevaluated::OtherWork);
                let found = metric.filter(|found| found.excluded_for.is_none());
                outcome.value = found.and_then(|found| found.ratio);
                outcome.ci_low = found.and_then(|found| found.ci_low);
                outcome.ci_high = found.and_then(|found| found.ci_high);
                1.0 + change
            }
            Bound::Absolute(limit) => {
                let values = self.values(runs);
                let interval = percentile_interval(&values, self.percentile.unwrap_or(0.5));
                outcome.value = interval
                    .map(|found| found.ratio)
                    .or_else(|| median(&mut values.clone()));
                outcome.ci_low = interval.map(|found| found.low);
                outcome.ci_high = interval.map(|found| found.high);
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

    /// Requests for a percentile, else passes.
    fn values(&self, runs: &[RunFacts]) -> Vec<f64> {
        let of = |run: &RunFacts| {
            let from = if self.percentile.is_some() {
                &run.requests
            } else {
                &run.passes
            };
            from.get(self.metric.key).cloned().unwrap_or_default()
        };
        runs.iter().flat_map(of).collect()
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
            ("tpot", true, Bound::Relative(0.03))
        );
        let gate: Gate = "ttft:p99<200ms".parse().unwrap();
        assert_eq!(
            (gate.percentile, gate.bound),
            (Some(0.99), Bound::Absolute(2e8))
        );
        let gate: Gate = "tokens_per_s>-5%".parse().unwrap();
        assert!(!gate.below && gate.bound == Bound::Relative(-0.05));
        let gate: Gate = "peak_memory<70GiB".parse().unwrap();
        assert_eq!(gate.bound, Bound::Absolute(70.0 * 1_073_741_824.0));
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
