//! Which memory the bytes of a step can stay in between steps.

use llmprof_theory::device::{CacheScope, Device};
use llmprof_theory::roofline::{MemoryLevel, Roof};
use llmprof_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the minimum DRAM traffic of a step (weights, KV cache, inputs and outputs) can live.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Residence {
    /// Bytes that each step needs.
    pub bytes_per_step: Bytes,
    /// `main` memory, or what the chip holds: then main memory's bandwidth is not the limit.
    pub level: MemoryLevel,
    /// Name of the smallest level that holds them: `llc`; `caches` where only all caches together do; `main`.
    pub name: String,
    /// Capacity of that level; absent if the device file states none.
    pub capacity_bytes: Option<Bytes>,
}

impl Residence {
    /// Where `bytes_per_step` can stay on a device.
    pub(crate) fn from_bytes(roof: &Roof<'_>, bytes_per_step: u64) -> Self {
        let device = roof.device();
        let level = roof.memory_level(bytes_per_step as f64);
        let (name, capacity_bytes) = match level {
            MemoryLevel::Main => (
                "main".to_owned(),
                device
                    .memory
                    .capacity_bytes
                    .as_ref()
                    .map(|figure| figure.value),
            ),
            MemoryLevel::OnChip => device_caches(device)
                .find(|(_, capacity)| capacity.0 >= bytes_per_step)
                .map_or_else(
                    || {
                        let all = device_caches(device).map(|(_, capacity)| capacity);
                        ("caches".to_owned(), Some(all.sum()))
                    },
                    |(name, capacity)| (name.to_owned(), Some(capacity)),
                ),
        };
        Self {
            bytes_per_step: Bytes(bytes_per_step),
            level,
            name,
            capacity_bytes,
        }
    }
}

/// The caches of the whole device, nearest first.
fn device_caches(device: &Device) -> impl Iterator<Item = (&str, Bytes)> {
    let units = device.units.as_ref().map_or(1.0, |units| units.count.value);
    device.caches.iter().filter_map(move |cache| {
        let copies = match cache.scope {
            CacheScope::Unit => units,
            CacheScope::Device => 1.0,
        };
        let bytes = cache.capacity_bytes?.0 as f64 * copies;
        Some((cache.level.as_str(), Bytes(bytes as u64)))
    })
}
