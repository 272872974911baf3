//! Memory of PyTorch's caching allocator: curves over time, and who held it at the peak.

pub mod csv;
pub mod sentences;

use llmprof_record::memory::{Holding, MemoryHistory, MemoryPoint};
use llmprof_units::Percent;

use self::sentences as text;
use super::DEVICES_MAX;
use crate::document::{Document, Drawing, Table};
use crate::text::{dash, devices};
use crate::view::{Series, SeriesLine, Unit};

/// Adds the section; nothing where the snapshot is empty.
pub(super) fn add(document: &mut Document, history: &MemoryHistory) {
    if history.devices.is_empty() {
        return;
    }
    let section = document.section("memory", "Allocator memory");
    for series in series(history) {
        section.chart(format!("telemetry_{}", series.key), Drawing::Series(series));
    }
    section.table(states(history));
    let more = history.devices.len().saturating_sub(DEVICES_MAX);
    if more > 0 {
        section.paragraph(devices::more(more, "memory.json"));
    }
    for device in history.devices.iter().take(DEVICES_MAX) {
        let number = device.device;
        section.paragraph(text::fragmentation(device));
        let Some(recorded) = &device.history else {
            continue;
        };
        section.list(text::failures(recorded));
        if !recorded.at_peak.is_empty() {
            section.heading(format!("Who held memory of GPU {number} at the peak"));
            section.table(holdings(&recorded.at_peak, "Requested", text::BEFORE));
        }
        if !recorded.largest.is_empty() {
            section.heading(format!("Largest allocations on GPU {number}"));
            section.table(holdings(
                &recorded.largest,
                "Requested, each",
                text::NO_SITE,
            ));
        }
    }
}

/// One chart for each device with a recorded history.
pub fn series(history: &MemoryHistory) -> Vec<Series> {
    history
        .devices
        .iter()
        .take(DEVICES_MAX)
        .filter_map(|device| {
            let points = &device.history.as_ref()?.timeline;
            let line = |label: &str, value: fn(&MemoryPoint) -> u64| SeriesLine {
                is_held: true,
                label: label.to_owned(),
                samples: points
                    .iter()
                    .map(|point| (point.time_ns, value(point) as f64))
                    .collect(),
            };
            Some(Series {
                key: format!("memory_of_device_{}", device.device),
                title: format!("Memory of GPU {}", device.device),
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

fn states(history: &MemoryHistory) -> Table {
    let mut table = Table::new(
        &[
            "GPU",
            "When",
            "Requested",
            "Allocated",
            "Reserved",
            "Free of reserved",
        ],
        2,
    );
    let share = |value: Option<f64>| value.map_or_else(dash, |value| Percent(value).to_string());
    for device in history.devices.iter().take(DEVICES_MAX) {
        let now = &device.now;
        if let Some(recorded) = &device.history {
            let peak = &recorded.peak;
            table.row([
                device.device.to_string(),
                "peak of the recording".to_owned(),
                peak.requested_bytes.to_string(),
                peak.allocated_bytes.to_string(),
                peak.reserved_bytes.to_string(),
                share(peak.fragmentation()),
            ]);
        }
        table.row([
            device.device.to_string(),
            "end".to_owned(),
            now.requested_bytes.to_string(),
            now.allocated_bytes.to_string(),
            now.reserved_bytes.to_string(),
            share(now.fragmentation()),
        ]);
    }
    table
}

fn holdings(list: &[Holding], bytes: &str, unknown: &str) -> Table {
    let mut table = Table::new(&["Allocated in", bytes, "Blocks"], 1);
    for held in list {
        table.row([
            held.site.clone().unwrap_or_else(|| unknown.to_owned()),
            held.bytes.to_string(),
            held.blocks
                .map(|blocks| blocks.to_string())
                .unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use llmprof_record::memory::{DeviceHistory, DeviceMemory, MemoryState};
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
        let mut document = Document::new("t");
        add(&mut document, &history);
        let printed = crate::render::markdown::document(&document);
        assert!(printed.contains("| 25"), "{printed}");
        assert!(printed.contains("before the recording"), "{printed}");
        assert_eq!(
            text::summary(&history)[0],
            "GPU 3: peak 3 KiB allocated of 4 KiB reserved (25.0 % free); at the end 1 KiB allocated of 4 KiB reserved in 0 segments \
             (75.0 % free)."
        );
        // A file may name more devices than any host has: the plots are bounded, the rest is named.
        let mut many = history.clone();
        many.devices = (0..5000)
            .map(|device| DeviceMemory {
                device,
                ..history.devices[0].clone()
            })
            .collect();
        assert_eq!(series(&many).len(), DEVICES_MAX);
        let mut document = Document::new("t");
        add(&mut document, &many);
        let printed = crate::render::markdown::document(&document);
        assert!(
            printed.contains("4936 devices more in `memory.json`"),
            "{printed}"
        );
        let mut empty = Document::new("t");
        add(&mut empty, &MemoryHistory::default());
        assert!(empty.sections.is_empty());
    }
}
