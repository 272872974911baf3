//! Ranges of predicted times.
//!
//! One rule: the range of a time is the time × the 5th and 95th percentile of measured ÷ predicted over models that nothing was fitted
//! to, run by the same software, on a device with its own curves, within the batches and prompts that were measured. The error model
//! behind it: log(measured ÷ predicted) of a new model is distributed as that of these models. Where that was not checked, there is no
//! range.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a device time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PredictionCalibration")]
pub enum Calibration {
    /// Kernel curves measured on this device, or of the native engine the peaks of this CPU.
    Measured,
    /// Public tables of serving engines on this device.
    PublicTables,
    /// Kernel curves or tables of another device, with this one's peaks.
    Scaled,
    /// Kernels in the formats of the workload were not measured with this software: GEMMs count as those of activations.
    FormatsNotMeasured,
    /// Efficiencies by kind of operator.
    Efficiencies,
}

/// Measured ÷ predicted: its 5th and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioSpread {
    pub low: f64,
    pub high: f64,
}

/// Spreads of GPU times by phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpreads {
    pub prefill: RatioSpread,
    pub decode: RatioSpread,
}

/// The spreads of a way of running, and where they were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spreads {
    /// Measured ÷ predicted time over models of known families.
    pub family: PhaseSpreads,
    /// Models that were read by the keys that most configs share; absent where none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_keys: Option<PhaseSpreads>,
    /// Models whose kernels were traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<PhaseSpreads>,
    /// Predictions that start from a run of the same model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_run: Option<PhaseSpreads>,
    /// Host time where the host decides.
    pub host: RatioSpread,
    /// Least and largest batch, and tokens of a prompt, of the measurements.
    pub batch: [u64; 2],
    pub prompt: [u64; 2],
}

/// The range that holds the measured time in 90 % of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PredictionInterval {
    pub low_ns: Nanos,
    pub high_ns: Nanos,
}

impl RatioSpread {
    pub(super) fn interval_around(self, time: Nanos) -> PredictionInterval {
        let scaled = |factor: f64| Nanos::from_seconds(time.seconds() * factor);
        PredictionInterval {
            low_ns: scaled(self.low),
            high_ns: scaled(self.high),
        }
    }
}

impl Spreads {
    /// Whether something like it was measured.
    pub(super) fn holds_for(&self, batch: u64, context: u64) -> bool {
        let is_in = |value: u64, [low, high]: [u64; 2]| (low..=high).contains(&value);
        is_in(batch, self.batch) && is_in(context, self.prompt)
    }

    /// The spreads that `phases` and, of hosts that were not measured, the host's make.
    pub(super) fn bands_of(&self, phases: PhaseSpreads, is_from_run: bool) -> Bands {
        Bands {
            prefill: phases.prefill,
            decode: phases.decode,
            host: (!is_from_run).then_some(self.host),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Bands {
    pub(super) prefill: RatioSpread,
    pub(super) decode: RatioSpread,
    /// Over hosts of all kinds; absent where the host is that of a run.
    host: Option<RatioSpread>,
}

impl Bands {
    /// The range of a time that a user sees: the device's spread, or the host's where the host decides.
    pub(super) fn visible_interval(
        &self,
        time: Nanos,
        (host_ns, device_ns): (Option<Nanos>, Nanos),
        device: RatioSpread,
    ) -> Option<PredictionInterval> {
        let is_host_bound = host_ns.is_some_and(|host| host > device_ns);
        let spread = if is_host_bound { self.host? } else { device };
        Some(spread.interval_around(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_measurements_do() {
        let spread = RatioSpread {
            low: 0.9,
            high: 1.1,
        };
        let spreads = Spreads {
            family: PhaseSpreads {
                prefill: spread,
                decode: spread,
            },
            common_keys: None,
            traced: None,
            from_run: None,
            host: spread,
            batch: [1, 32],
            prompt: [128, 2048],
        };
        assert!(spreads.holds_for(8, 512) && spreads.holds_for(32, 2048));
        assert!(!spreads.holds_for(33, 512) && !spreads.holds_for(8, 127));
        let range = spread.interval_around(Nanos(1000));
        assert_eq!((range.low_ns, range.high_ns), (Nanos(900), Nanos(1100)));
    }
}
