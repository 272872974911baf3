//! An allocator's memory: curves over time, and who held it at the peak.

use llmprof_record::memory::{DeviceMemory, Holding, MemoryHistory, MemoryPoint};
use llmprof_units::Percent;

use crate::{
    Document, Table,
    view::{Line, Part, Section, Series, Unit},
};

/// A section of a report; `None` where there is nothing to show.
pub fn section(history: &MemoryHistory) -> Option<Section> {
    if history.devices.is_empty() {
        return None;
    }
    let mut parts: Vec<Part> = series(history).into_iter().map(Part::Series).collect();
    parts.push(Part::Document(document(history)));
    Some(Section::new("Memory of the allocator", parts))
}

/// What a snapshot says, a sentence for each device.
pub fn conclusion(history: &MemoryHistory) -> Vec<String> {
    if history.devices.is_empty() {
        return vec!["The snapshot holds no memory of any device.".to_owned()];
    }
    let free = |share: Option<f64>| {
        share.map_or_else(String::new, |share| format!(" ({} free)", Percent(share)))
    };
    let devices = history.devices.iter();
    let sentence = |device: &DeviceMemory| {
        let now = &device.now;
        let end = format!(
            "{} allocated of {} reserved{}",
            now.allocated_bytes,
            now.reserved_bytes,
            free(now.fragmentation())
        );
        let number = device.device;
        match &device.history {
            Some(recorded) => format!(
                "Device {number}: at its peak {} allocated of {} reserved{}; at the end {end}.",
                recorded.peak.allocated_bytes,
                recorded.peak.reserved_bytes,
                free(recorded.peak.fragmentation())
            ),
            None => format!("Device {number}: {end}; no history was recorded."),
        }
    };
    devices.map(sentence).collect()
}

/// One chart for each device with a recorded history.
pub fn series(history: &MemoryHistory) -> Vec<Series> {
    history
        .devices
        .iter()
        .filter_map(|device| {
            let points = &device.history.as_ref()?.timeline;
            let line = |label: &str, value: fn(&MemoryPoint) -> u64| Line {
                label: label.to_owned(),
                samples: points
                    .iter()
                    .map(|point| (point.time_ns, value(point) as f64))
                    .collect(),
            };
            Some(Series {
                title: format!("Memory of device {}", device.device),
                unit: Unit::Bytes,
                lines: vec![
                    line("reserved", |point| point.reserved_bytes.0),
                    line("allocated", |point| point.allocated_bytes.0),
                ],
                bands: Vec::new(),
            })
        })
        .collect()
}

/// The same in words and tables.
pub fn document(history: &MemoryHistory) -> Document {
    let mut document = Document::new("Memory of the allocator");
    let mut states = Table::new(
        &[
            "Device",
            "When",
            "Requested",
            "Allocated",
            "Reserved",
            "Free of reserved",
        ],
        2,
    );
    for device in &history.devices {
        let now = &device.now;
        if let Some(recorded) = &device.history {
            let peak = &recorded.peak;
            states.row([
                device.device.to_string(),
                "peak of the recording".to_owned(),
                peak.requested_bytes.to_string(),
                peak.allocated_bytes.to_string(),
                peak.reserved_bytes.to_string(),
                share(peak.fragmentation()),
            ]);
        }
        states.row([
            device.device.to_string(),
            "end".to_owned(),
            now.requested_bytes.to_string(),
            now.allocated_bytes.to_string(),
            now.reserved_bytes.to_string(),
            share(now.fragmentation()),
        ]);
    }
    document.table(states);
    for device in &history.devices {
        device_text(device, &mut document);
    }
    document
}

fn device_text(device: &DeviceMemory, document: &mut Document) {
    let number = device.device;
    document.paragraph(format!(
        "Device {number}: {} of free memory lie between blocks in use and cannot be returned to the device; the largest free block has {}.",
        device.now.inactive_split_bytes, device.now.largest_free_bytes
    ));
    let Some(recorded) = &device.history else {
        return;
    };
    document.list(
        recorded
            .out_of_memory
            .iter()
            .map(|failed| format!("out of memory: {} were asked for", failed.requested_bytes))
            .collect(),
    );
    if !recorded.at_peak.is_empty() {
        document.heading(format!("Who held memory of device {number} at the peak"));
        document.table(holdings(
            &recorded.at_peak,
            "Requested",
            "before the recording",
        ));
    }
    if !recorded.largest.is_empty() {
        document.heading(format!("Largest allocations on device {number}"));
        document.table(holdings(
            &recorded.largest,
            "Requested, each",
            "not recorded",
        ));
    }
}

fn holdings(list: &[Holding], bytes: &str, nobody: &str) -> Table {
    let mut table = Table::new(&["Allocated in", bytes, "Blocks"], 1);
    for held in list {
        table.row([
            held.site.clone().unwrap_or_else(|| nobody.to_owned()),
            held.bytes.to_string(),
            held.blocks
                .map(|blocks| blocks.to_string())
                .unwrap_or_default(),
        ]);
    }
    table
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| Percent(value).to_string())
}

#[cfg(test)]
mod tests {
    use llmprof_record::memory::{DeviceHistory, MemoryState};
    use llmprof_units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn curves_and_tables_come_from_one_history() {
        let point = |time, allocated| MemoryPoint {
            time_ns: Nanos(time),
            requested_bytes: Bytes(allocated),
            allocated_bytes: Bytes(allocated),
            reserved_bytes: Bytes(4096),
        };
        let history = MemoryHistory {
            devices: vec![DeviceMemory {
                device: 3,
                now: MemoryState {
                    reserved_bytes: Bytes(4096),
                    allocated_bytes: Bytes(1024),
                    ..MemoryState::default()
                },
                history: Some(DeviceHistory {
                    peak: point(20, 3072),
                    at_peak: vec![Holding {
                        site: None,
                        bytes: Bytes(3072),
                        blocks: None,
                    }],
                    timeline: vec![point(10, 1024), point(20, 3072), point(30, 1024)],
                    ..DeviceHistory::default()
                }),
            }],
            issues: Vec::new(),
        };
        let charts = series(&history);
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].lines[1].samples[1], (Nanos(20), 3072.0));
        let text = crate::render::markdown::document(&document(&history));
        assert!(text.contains("| 25"), "{text}");
        assert!(text.contains("before the recording"), "{text}");
        assert_eq!(section(&history).unwrap().parts.len(), 2);
        assert_eq!(
            conclusion(&history),
            [
                "Device 3: at its peak 3 KiB allocated of 4 KiB reserved (25.0 % free); at the end 1 KiB allocated of 4 KiB \
                 reserved (75.0 % free)."
            ]
        );
        assert_eq!(section(&MemoryHistory::default()), None);
    }
}
