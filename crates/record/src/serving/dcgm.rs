//! GPUs as NVIDIA's DCGM exporter reports them over the time of a load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields that reports show: busy SMs, clocks, power, the last XID error.
pub const DCGM_FIELDS: [&str; 6] = [
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_XID_ERRORS",
];

/// One field of one GPU over all scrapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FieldSpread {
    /// Sum of the values of all scrapes.
    sum: f64,
    /// Number of scrapes that had a value.
    count: u32,
    /// Largest value of all scrapes.
    pub max: f64,
    /// Value of the last scrape.
    #[serde(default)]
    pub last: f64,
}

impl FieldSpread {
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Fields by GPU, as the exporter numbers it, with the name that it states.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DcgmGpus(pub BTreeMap<String, BTreeMap<String, FieldSpread>>);

impl DcgmGpus {
    pub fn add_value(&mut self, gpu: String, field: &str, value: f64) {
        let fields = self.0.entry(gpu).or_default();
        let spread = fields.entry(field.to_owned()).or_default();
        spread.sum += value;
        spread.count += 1;
        spread.max = spread.max.max(value);
        spread.last = value;
    }
}
