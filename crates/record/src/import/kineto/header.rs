//! What stands around the list of events: devices, versions, options.

use llmprof_units::{Bytes, Nanos};
use serde::Deserialize;

use super::cursor::Cursor;
use super::number::parse_integer;
use crate::issue::{Issue, IssueCode};
use crate::trace::{DeviceProperties, TraceBuilder};

/// The facts that pass into the record. Everything else does not: traces have been seen with environment variables,
/// command lines and paths among these keys.
const ALLOWED: [(&[u8], &str); 12] = [
    (b"schemaVersion", "schema_version"),
    (b"cuda_driver_version", "cuda_driver_version"),
    (b"cuda_runtime_version", "cuda_runtime_version"),
    (b"cupti_version", "cupti_version"),
    (b"hip_driver_version", "hip_driver_version"),
    (b"hip_runtime_version", "hip_runtime_version"),
    (b"record_shapes", "record_shapes"),
    (b"profile_memory", "profile_memory"),
    (b"with_stack", "with_stack"),
    (b"with_flops", "with_flops"),
    (b"with_modules", "with_modules"),
    (b"distributedInfo", "distributed"),
];

/// Reads the value of a key that is not the list of events. Nothing where it is not JSON.
pub(super) fn read_key(
    key: &[u8],
    cursor: &mut Cursor<'_>,
    builder: &mut TraceBuilder,
) -> Option<()> {
    let value = cursor.value()?;
    match key {
        b"deviceProperties" => devices(value, builder),
        b"baseTimeNanoseconds" => builder.clock_origin_ns = parse_integer(value).map(Nanos),
        b"distributedInfo" => distributed(value, builder),
        _ => {
            let allowed = ALLOWED.iter().find(|(name, _)| *name == key);
            if let (Some((_, name)), Ok(text)) = (allowed, str::from_utf8(value)) {
                builder
                    .metadata
                    .insert((*name).to_owned(), text.trim_matches('"').to_owned());
            }
        }
    }
    Some(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDevice {
    id: u32,
    #[serde(default)]
    name: String,
    total_global_mem: Option<u64>,
    compute_major: Option<u32>,
    compute_minor: Option<u32>,
    max_threads_per_block: Option<u32>,
    max_threads_per_multiprocessor: Option<u32>,
    regs_per_block: Option<u32>,
    regs_per_multiprocessor: Option<u32>,
    warp_size: Option<u32>,
    shared_mem_per_block: Option<u64>,
    shared_mem_per_block_optin: Option<u64>,
    shared_mem_per_multiprocessor: Option<u64>,
    num_sms: Option<u32>,
}

fn devices(value: &[u8], builder: &mut TraceBuilder) {
    match serde_json::from_slice::<Vec<RawDevice>>(value) {
        Ok(devices) => builder
            .devices
            .extend(devices.into_iter().map(|raw| DeviceProperties {
                id: raw.id,
                name: raw.name,
                memory_bytes: raw.total_global_mem.map(Bytes),
                compute_capability: raw.compute_major.zip(raw.compute_minor),
                sm_count: raw.num_sms,
                warp_size: raw.warp_size,
                max_threads_per_block: raw.max_threads_per_block,
                max_threads_per_sm: raw.max_threads_per_multiprocessor,
                registers_per_sm: raw.regs_per_multiprocessor,
                registers_per_block: raw.regs_per_block,
                shared_per_sm_bytes: raw.shared_mem_per_multiprocessor.map(Bytes),
                shared_per_block_bytes: raw.shared_mem_per_block.map(Bytes),
                shared_per_block_optin_bytes: raw.shared_mem_per_block_optin.map(Bytes),
                ..DeviceProperties::default()
            })),
        Err(error) => builder.issues.push(
            Issue::warning(IssueCode::KinetoDevicesUnreadable).with("error", error.to_string()),
        ),
    }
}

/// Rank, world size and backend; the group descriptions beside them name machines.
fn distributed(value: &[u8], builder: &mut TraceBuilder) {
    #[derive(Deserialize)]
    struct Raw {
        backend: Option<String>,
        rank: Option<i64>,
        world_size: Option<i64>,
    }
    let Ok(raw) = serde_json::from_slice::<Raw>(value) else {
        return;
    };
    let facts = [
        ("distributed_backend", raw.backend),
        ("distributed_rank", raw.rank.map(|rank| rank.to_string())),
        (
            "distributed_world_size",
            raw.world_size.map(|size| size.to_string()),
        ),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            builder.metadata.insert(name.to_owned(), fact);
        }
    }
}
