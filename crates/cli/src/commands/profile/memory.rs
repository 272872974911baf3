//! What an allocator's memory says, in lines and as a file.

use llmprof_record::memory::{DeviceHistory, DeviceMemory, Holding, MemoryHistory};
use llmprof_units::{Count, Percent};

/// The timeline of every device, for a spreadsheet.
pub(crate) const FILE: &str = "memory.csv";

/// About ten lines for each device.
pub(crate) fn lines(history: &MemoryHistory) -> Vec<String> {
    if history.devices.is_empty() {
        return vec!["the snapshot holds no memory of any device".to_owned()];
    }
    history.devices.iter().flat_map(device_lines).collect()
}

fn device_lines(device: &DeviceMemory) -> Vec<String> {
    let now = &device.now;
    let mut lines = vec![format!(
        "device {}: {} allocated of {} reserved in {}{}; {} free between blocks in use",
        device.device,
        now.allocated_bytes,
        now.reserved_bytes,
        Count(now.segments, "segment"),
        fragmented(now.fragmentation()),
        now.inactive_split_bytes,
    )];
    if let Some(history) = &device.history {
        lines.extend(history_lines(history));
    }
    lines
}

fn history_lines(history: &DeviceHistory) -> Vec<String> {
    let peak = &history.peak;
    let span = match (history.timeline.first(), history.timeline.last()) {
        (Some(first), Some(last)) => (last.time_ns - first.time_ns).to_string(),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "  in the {span} recorded: {}, {}; peak {} allocated of {} reserved{}",
        Count(history.allocations, "allocation"),
        Count(history.frees, "free"),
        peak.allocated_bytes,
        peak.reserved_bytes,
        fragmented(peak.fragmentation()),
    )];
    for failed in &history.out_of_memory {
        lines.push(format!(
            "  out of memory: {} were asked for",
            failed.requested_bytes
        ));
    }
    let before = "allocated before the recording";
    lines.extend(holdings("held at the peak", &history.at_peak, before));
    lines.extend(holdings(
        "largest allocations",
        &history.largest,
        "site not recorded",
    ));
    lines
}

/// The first of those that hold memory below a title; nothing where nobody does.
fn holdings(title: &str, held: &[Holding], nobody: &str) -> Vec<String> {
    let title = (!held.is_empty()).then(|| format!("  {title}:"));
    let held = held.iter().take(5).map(|held| holding(held, nobody));
    title.into_iter().chain(held).collect()
}

fn holding(held: &Holding, nobody: &str) -> String {
    let blocks = held
        .blocks
        .map(|blocks| format!(" ×{blocks}"))
        .unwrap_or_default();
    format!(
        "    {}{blocks}  {}",
        held.bytes,
        held.site.as_deref().unwrap_or(nobody)
    )
}

fn fragmented(share: Option<f64>) -> String {
    share
        .map(|share| format!(" ({} free)", Percent(share)))
        .unwrap_or_default()
}

/// The timeline; `None` where nothing was recorded.
pub(crate) fn csv(history: &MemoryHistory) -> Option<String> {
    let mut file = String::from("device,time_ns,requested_bytes,allocated_bytes,reserved_bytes\n");
    let mut rows = 0;
    for device in &history.devices {
        for point in device.history.iter().flat_map(|history| &history.timeline) {
            rows += 1;
            file += &format!(
                "{},{},{},{},{}\n",
                device.device,
                point.time_ns.0,
                point.requested_bytes.0,
                point.allocated_bytes.0,
                point.reserved_bytes.0
            );
        }
    }
    (rows > 0).then_some(file)
}
