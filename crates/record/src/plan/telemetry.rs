//! What a request says about telemetry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the machine is watched while a model runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryPlan {
    /// Whether the machine is sampled while the model runs.
    pub enable: bool,
    /// Number of samples per second.
    pub hz: f64,
    /// The GPUs to watch, by their numbers; all where absent.
    pub devices: Option<Vec<u32>>,
}

impl TelemetryPlan {
    /// Fewer samples say nothing about a phase; more would disturb it.
    const RATES: std::ops::RangeInclusive<f64> = 1.0..=50.0;

    /// What is wrong with it.
    pub(super) fn mistakes(&self, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
        if self.enable && !Self::RATES.contains(&self.hz) {
            wrong(
                "pipeline.telemetry.hz",
                format!(
                    "must lie between {} and {}",
                    Self::RATES.start(),
                    Self::RATES.end()
                ),
                None,
            );
        }
    }
}

impl Default for TelemetryPlan {
    fn default() -> Self {
        Self {
            enable: true,
            hz: 10.0,
            devices: None,
        }
    }
}
