//! The YAML of a device file, as written. `load` turns it into a [`super::Device`].

use std::collections::BTreeMap;

use llmprof_units::{Basis, DType};
use serde::Deserialize;

use super::{CacheScope, Counts, DeviceKind, Engine};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFile {
    pub(super) name: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) driver_names: Vec<String>,
    pub(super) vendor: String,
    pub(super) kind: DeviceKind,
    pub(super) architecture: Option<String>,
    pub(super) basis: Basis,
    pub(super) measured_at: Option<String>,
    pub(super) sources: BTreeMap<String, String>,
    pub(super) units: Option<UnitsEntry>,
    #[serde(default)]
    pub(super) clocks_mhz: BTreeMap<String, FigureEntry>,
    #[serde(default)]
    pub(super) peaks: Vec<PeakEntry>,
    pub(super) memory: MemoryEntry,
    #[serde(default)]
    pub(super) caches: Vec<CacheEntry>,
    #[serde(default)]
    pub(super) interconnects: Vec<InterconnectEntry>,
    pub(super) power_w: Option<FigureEntry>,
    pub(super) launch_latency_us: Option<FigureEntry>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureEntry {
    pub(super) value: f64,
    pub(super) source: String,
    pub(super) at: Option<String>,
    pub(super) basis: Option<Basis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitsEntry {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) source: String,
    pub(super) at: Option<String>,
    pub(super) basis: Option<Basis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeakEntry {
    pub(super) dtype: DType,
    pub(super) engine: Engine,
    pub(super) accumulate: Option<DType>,
    pub(super) tflops: f64,
    pub(super) sparse_tflops: Option<f64>,
    pub(super) operations_per_clock: Option<f64>,
    pub(super) clock: Option<String>,
    pub(super) not_recounted: Option<String>,
    pub(super) source: String,
    pub(super) at: Option<String>,
    pub(super) basis: Option<Basis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryEntry {
    pub(super) technology: Option<String>,
    pub(super) capacity_gb: Option<FigureEntry>,
    pub(super) bandwidth_gb_s: FigureEntry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheEntry {
    pub(super) level: String,
    pub(super) scope: CacheScope,
    pub(super) kib: Option<f64>,
    pub(super) bandwidth_gb_s: Option<f64>,
    pub(super) source: String,
    pub(super) at: Option<String>,
    pub(super) basis: Option<Basis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterconnectEntry {
    pub(super) name: String,
    pub(super) gb_s: f64,
    pub(super) counts: Counts,
    pub(super) source: String,
    pub(super) at: Option<String>,
    pub(super) basis: Option<Basis>,
}
