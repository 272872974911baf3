use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How llmprof measured this CPU. Disturbances make peaks too low, never too high.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCalibration {
    /// Goes up with every change that would give other figures.
    pub method: u32,
    /// Hardware threads that took part.
    pub threads: usize,
    /// Processor time of other programs meanwhile ÷ that of measuring; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_programs: Option<f64>,
    /// Whether a run was faster than these peaks since.
    #[serde(default)]
    pub outdone: bool,
}

impl DeviceCalibration {
    /// The processor time of other programs from which on a measurement is doubtful.
    const OTHER_PROGRAMS_MAX_SHARE: f64 = 0.1;

    /// How much other programs took, where that is too much for the peaks to be trusted.
    pub fn excess_disturbance(&self) -> Option<f64> {
        self.other_programs
            .filter(|taken| *taken > Self::OTHER_PROGRAMS_MAX_SHARE)
    }
}
