//! `torch.cuda.memory_stats()` saved as JSON: what the caching allocator counts, without a history.

use llmprof_units::{Bytes, Nanos};
use serde_json::{Map, Value};

use super::{ImportError, Importer, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::memory::{DeviceHistory, DeviceMemory, MemoryHistory, MemoryPoint, MemoryState};

pub(crate) const IMPORTER: Importer = Importer {
    name: "torch_memory_stats",
    sniff,
    read: |source| read(source).map(|history| Profile::Memory(Box::new(history))),
};

const FORMAT: &str = "memory statistics of torch";

/// An object with one of the allocator's own keys.
fn sniff(head: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    head.trim_ascii_start().starts_with(b"{")
        && (has(b"\"allocated_bytes.all.") || has(b"\"reserved_bytes.all."))
}

fn read(source: &Source) -> Result<MemoryHistory, ImportError> {
    let stats: Map<String, Value> = serde_json::from_slice(source.bytes())
        .map_err(|error| source.unusable(FORMAT, error.to_string()))?;
    let mut missing = 0;
    let mut bytes = |name: &str, which: &str| {
        let value = stats.get(&format!("{name}.all.{which}"));
        let value = value.and_then(Value::as_u64);
        missing += u64::from(value.is_none());
        Bytes(value.unwrap_or(0))
    };
    let now = MemoryState {
        segments: bytes("segment", "current").0,
        reserved_bytes: bytes("reserved_bytes", "current"),
        allocated_bytes: bytes("allocated_bytes", "current"),
        active_bytes: bytes("active_bytes", "current"),
        requested_bytes: bytes("requested_bytes", "current"),
        inactive_split_bytes: bytes("inactive_split_bytes", "current"),
        // Statistics have no blocks.
        largest_free_bytes: Bytes(0),
    };
    let history = DeviceHistory {
        allocations: bytes("allocation", "allocated").0,
        frees: bytes("allocation", "freed").0,
        peak: MemoryPoint {
            time_ns: Nanos(0),
            requested_bytes: bytes("requested_bytes", "peak"),
            allocated_bytes: bytes("allocated_bytes", "peak"),
            reserved_bytes: bytes("reserved_bytes", "peak"),
        },
        peak_reserved_bytes: bytes("reserved_bytes", "peak"),
        ..DeviceHistory::default()
    };
    let mut issues = source.issues().to_vec();
    if missing > 0 {
        issues.push(Issue::warning(IssueCode::TorchStatsMissing).counting(missing));
    }
    issues.push(Issue::info(IssueCode::TorchStatsNoHistory));
    let count = |name: &str| stats.get(name).and_then(Value::as_u64).unwrap_or(0);
    if count("num_ooms") > 0 {
        issues.push(Issue::warning(IssueCode::TorchStatsOutOfMemory).counting(count("num_ooms")));
    }
    if count("num_alloc_retries") > 0 {
        issues.push(
            Issue::warning(IssueCode::TorchStatsRetries).counting(count("num_alloc_retries")),
        );
    }
    Ok(MemoryHistory {
        devices: vec![DeviceMemory {
            device: 0,
            now,
            history: Some(history),
        }],
        issues,
    })
}
