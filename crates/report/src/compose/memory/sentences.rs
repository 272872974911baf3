//! Memory of PyTorch's caching allocator.

use llmprof_record::{
    memory::{DeviceHistory, DeviceMemory, Holding, MemoryHistory},
    run::AllocatorFacts,
};
use llmprof_units::{Bytes, Count, Percent};

use crate::text::devices;

/// Allocation sites in the summary.
const SITES_MAX: usize = 5;

pub const BEFORE: &str = "code that ran before the recording";
pub const NO_SITE: &str = "an unrecorded site";

/// What PyTorch's allocator held during a batch.
pub fn peak(facts: &AllocatorFacts) -> String {
    let (allocated, reserved) = (facts.peak_allocated_bytes, facts.peak_reserved_bytes);
    let free = reserved.0.saturating_sub(allocated.0);
    let share = Percent(free as f64 / reserved.0.max(1) as f64);
    format!(
        "device memory: at most {allocated} allocated of {reserved} reserved ({share} free), {} held before the batch",
        facts.start_allocated_bytes
    )
}

/// The result, then who held memory at the peak.
pub fn summary(history: &MemoryHistory) -> Vec<String> {
    if history.devices.is_empty() {
        return vec!["The snapshot holds no memory of any device.".to_owned()];
    }
    let results = history.devices.iter().take(devices::IN_SUMMARY).map(result);
    let details = history
        .devices
        .iter()
        .take(devices::IN_SUMMARY)
        .flat_map(details);
    let more = history.devices.len().saturating_sub(devices::IN_SUMMARY);
    let more = (more > 0).then(|| devices::more(more, "memory.json"));
    results.chain(details).chain(more).collect()
}

fn result(device: &DeviceMemory) -> String {
    let now = &device.now;
    let end = format!(
        "{} reserved in {}{}",
        allocated_share(now.allocated_bytes, now.reserved_bytes),
        Count(now.segments, "segment"),
        free(now.fragmentation())
    );
    let number = device.device;
    match &device.history {
        Some(recorded) => format!(
            "GPU {number}: peak {} reserved{}; at the end {end}.",
            allocated_share(recorded.peak.allocated_bytes, recorded.peak.reserved_bytes),
            free(recorded.peak.fragmentation())
        ),
        None => format!("GPU {number}: {end}; no history was recorded."),
    }
}

/// `0.998 GiB allocated of 1.227 GiB`: both in the unit of the whole, where the part has digits in it.
fn allocated_share(part: Bytes, whole: Bytes) -> String {
    let gib = |bytes: Bytes| bytes.0 as f64 / f64::from(1 << 30);
    if gib(whole) >= 1.0 && (0.1..1.0).contains(&gib(part)) {
        return format!("{:.3} GiB allocated of {whole}", gib(part));
    }
    format!("{part} allocated of {whole}")
}

fn details(device: &DeviceMemory) -> Vec<String> {
    let Some(history) = &device.history else {
        return Vec::new();
    };
    let span = match (history.timeline.first(), history.timeline.last()) {
        (Some(first), Some(last)) => format!(" in {}", last.time_ns - first.time_ns),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "{}, {}{span}.",
        Count(history.allocations, "allocation"),
        Count(history.frees, "free")
    )];
    lines.extend(failures(history));
    // Of a site at the peak the bytes are those of all its blocks, of the largest allocations those of each.
    let at_peak = |held: &Holding| match held.blocks {
        Some(blocks) => format!("{} in {}", held.bytes, Count(blocks, "block")),
        None => held.bytes.to_string(),
    };
    let each = |held: &Holding| match held.blocks {
        Some(blocks) if blocks > 1 => format!("{blocks} × {}", held.bytes),
        _ => held.bytes.to_string(),
    };
    lines.extend(sites(
        "Requested at the peak",
        &history.at_peak,
        BEFORE,
        at_peak,
    ));
    lines.extend(sites(
        "Largest allocations",
        &history.largest,
        NO_SITE,
        each,
    ));
    lines
}

fn sites(
    title: &str,
    held: &[Holding],
    unknown: &str,
    size: impl Fn(&Holding) -> String,
) -> Option<String> {
    let first: Vec<String> = held
        .iter()
        .take(SITES_MAX)
        .map(|held| {
            let site = held.site.as_deref().unwrap_or(unknown);
            format!("{} by {site}", size(held))
        })
        .collect();
    (!first.is_empty()).then(|| format!("{title}: {}.", first.join("; ")))
}

pub fn failures(history: &DeviceHistory) -> Vec<String> {
    let failed = history.out_of_memory.iter();
    failed
        .map(|failed| format!("Out of memory: {} requested.", failed.requested_bytes))
        .collect()
}

/// What cannot be returned to the device.
pub fn fragmentation(device: &DeviceMemory) -> String {
    format!(
        "GPU {}: {} of the free memory lies in segments with blocks in use and cannot be returned to the device; the largest free block is {}.",
        device.device, device.now.inactive_split_bytes, device.now.largest_free_bytes
    )
}

fn free(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!(" ({} free)", Percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_unit_of_its_whole() {
        let mib = |count: u64| Bytes(count << 20);
        assert_eq!(
            allocated_share(mib(1022), mib(1256)),
            "0.998 GiB allocated of 1.227 GiB"
        );
        assert_eq!(
            allocated_share(mib(3), mib(20)),
            "3 MiB allocated of 20 MiB"
        );
    }

    /// Bytes at the peak are those of all blocks of a site, bytes of large allocations those of each.
    #[test]
    fn sizes_of_all_blocks_and_of_each_read_differently() {
        let held = |bytes, blocks| Holding {
            site: Some("f.py".to_owned()),
            bytes: Bytes(bytes),
            blocks: Some(blocks),
        };
        let history = DeviceHistory {
            at_peak: vec![held(2048, 2), held(512, 1)],
            largest: vec![held(1024, 3), held(512, 1)],
            ..DeviceHistory::default()
        };
        let device = DeviceMemory {
            history: Some(history),
            ..DeviceMemory::default()
        };
        let lines = details(&device);
        assert_eq!(
            lines[1..],
            [
                "Requested at the peak: 2 KiB in 2 blocks by f.py; 512 B in 1 block by f.py.",
                "Largest allocations: 3 × 1 KiB by f.py; 512 B by f.py."
            ]
        );
    }
}
