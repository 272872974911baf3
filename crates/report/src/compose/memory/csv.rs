//! Memory of an allocator for a spreadsheet.

use llmprof_record::memory::MemoryHistory;

/// The timeline of every device, for a spreadsheet.
pub const FILE: &str = "memory.csv";

/// The timeline; `None` where nothing was recorded.
pub fn csv(history: &MemoryHistory) -> Option<String> {
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
