//! Errors that are known: of predictions for models that nothing was fitted to.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `cargo run -p xtask -- grade table` writes it.
const ERRORS: &str = include_str!("../data/errors.json");

/// Errors of one profile on the H200, as shares.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownError {
    /// Name of the efficiency profile whose predictions were compared: `hf_eager`, `vllm`.
    pub profile: String,
    /// What was measured: GPU times, TPOT.
    pub what: String,
    /// Number of measured times that predictions were compared with.
    pub times: usize,
    /// Median absolute relative error, as a share: 0.02 is 2 %.
    pub median: f64,
    /// Relative error that 90 % of the times stay below.
    pub p90: f64,
    /// The relative error furthest from zero, with its sign: positive where the prediction is too long.
    pub worst: f64,
    /// Median error with its sign.
    pub bias: f64,
    /// Share of measured times inside their range; absent where the profile gives none.
    pub coverage: Option<f64>,
    /// Median half-width of ranges ÷ predicted time.
    pub half_width: Option<f64>,
}

impl KnownError {
    /// The errors of a profile, where models were held out to measure them.
    pub fn of_profile(profile: &str) -> Option<&'static Self> {
        static KNOWN: LazyLock<Vec<KnownError>> = LazyLock::new(|| {
            serde_json::from_str(ERRORS).expect("the table is whole, as a test writes it again")
        });
        KNOWN.iter().find(|known| known.profile == profile)
    }
}
