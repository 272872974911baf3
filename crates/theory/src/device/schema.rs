//! The YAML of a device file, as written. [`DeviceFile::to_device`] turns it into a [`Device`](super::Device).

#![expect(missing_docs, reason = "devices/custom_npu.yaml documents every key")]

use std::collections::BTreeMap;

use llmprof_units::{Basis, DType};
use serde::{Deserialize, Serialize};

use super::{CacheScope, Calibration, Counts, DeviceKind, Engine};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    pub name: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_names: Vec<String>,
    pub vendor: String,
    pub kind: DeviceKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    pub basis: Basis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    pub sources: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<UnitsEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks_mhz: BTreeMap<String, FigureEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peaks: Vec<PeakEntry>,
    pub memory: MemoryEntry,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interconnects: Vec<InterconnectEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<FigureEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_latency_us: Option<FigureEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureEntry {
    pub value: f64,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitsEntry {
    pub name: String,
    pub value: f64,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakEntry {
    pub dtype: DType,
    pub engine: Engine,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<DType>,
    pub tflops: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_tflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_clock: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_recounted: Option<String>,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technology: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_gb: Option<FigureEntry>,
    pub bandwidth_gb_s: FigureEntry,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheEntry {
    pub level: String,
    pub scope: CacheScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb_s: Option<f64>,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterconnectEntry {
    pub name: String,
    pub gb_s: f64,
    pub counts: Counts,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}
