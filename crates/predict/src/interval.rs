//! Intervals around predicted times: how far measurements of calibration models lay from their predictions.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

/// What a device time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// Kernel curves measured on this device, or of the native engine the peaks of this CPU.
    Measured,
    /// Public tables of serving engines on this device.
    PublicTables,
    /// Kernel curves or tables of another device, with this one's peaks.
    Scaled,
    /// Kernels in the formats of the workload were not measured with this software: GEMMs count as those of activations, and there are no intervals.
    FormatsNotMeasured,
    /// Efficiencies by kind of operator.
    Efficiencies,
}

/// Measured ÷ predicted: its 5th and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub low: f64,
    pub high: f64,
}

/// The spreads of a way of running, and where they were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spreads {
    pub prefill: Spread,
    pub decode: Spread,
    /// Host time where the host decides.
    pub host: Spread,
    /// Least and largest batch, and tokens of a prompt, of the measurements.
    pub batch: [u64; 2],
    pub prompt: [u64; 2],
}

/// A 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    pub low_ns: Nanos,
    pub high_ns: Nanos,
}

/// Beyond this many times the calibrated range there is no interval.
const FAR: f64 = 16.0;

impl Spread {
    /// The spread with its distance from 1 taken to a power in logarithms.
    fn widened(self, factor: f64) -> Self {
        Self {
            low: self.low.powf(factor),
            high: self.high.powf(factor),
        }
    }

    pub(super) fn around(self, time: Nanos) -> Interval {
        let scaled = |factor: f64| Nanos::from_seconds(time.seconds() * factor);
        Interval {
            low_ns: scaled(self.low),
            high_ns: scaled(self.high),
        }
    }
}

impl Spreads {
    /// How much wider an interval must be for such a workload; `None` where nothing measured is near.
    pub(super) fn widening(
        &self,
        calibration: Calibration,
        batch: u64,
        context: u64,
    ) -> Option<f64> {
        let base = match calibration {
            Calibration::Measured | Calibration::PublicTables => 1.0,
            Calibration::Scaled => 3.0,
            Calibration::FormatsNotMeasured | Calibration::Efficiencies => return None,
        };
        let outside = distance(batch, self.batch) * distance(context, self.prompt);
        (outside <= FAR).then(|| base * (1.0 + 0.5 * outside.log2()))
    }

    pub(super) fn prefill(&self, widening: f64) -> Spread {
        self.prefill.widened(widening)
    }

    pub(super) fn decode(&self, widening: f64) -> Spread {
        self.decode.widened(widening)
    }
}

/// How many times `value` lies outside a range; 1 inside.
fn distance(value: u64, [low, high]: [u64; 2]) -> f64 {
    let value = value.max(1) as f64;
    (value / high.max(1) as f64)
        .max(low as f64 / value)
        .max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREADS: Spreads = Spreads {
        prefill: Spread {
            low: 0.9,
            high: 1.1,
        },
        decode: Spread {
            low: 0.9,
            high: 1.1,
        },
        host: Spread {
            low: 1.0,
            high: 1.9,
        },
        batch: [1, 32],
        prompt: [128, 2048],
    };

    #[test]
    fn intervals_widen_outside_the_range_and_end() {
        let at = |batch, prompt| SPREADS.widening(Calibration::Measured, batch, prompt);
        assert_eq!(at(8, 512), Some(1.0));
        // Twice the largest batch: half as wide again.
        assert_eq!(at(64, 512), Some(1.5));
        assert_eq!(at(64, 64), Some(2.0));
        assert_eq!(at(4096, 512), None);
        let wide = SPREADS.prefill(2.0);
        assert!((wide.high - 1.21).abs() < 1e-9 && (wide.low - 0.81).abs() < 1e-9);
    }
}
