use llmprof_units::{Bytes, BytesPerSecond, Hertz, Joules, Nanos, Watts};

use super::{Collected, parse_number};
use crate::samples::{GpuSample, ThrottleReasons};

const MEBIBYTE: f64 = 1_048_576.0;

/// A time, then the first of the known columns.
pub(super) fn sniff(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let cells: Vec<&str> = line.trim().split(',').map(str::trim).collect();
    cells.contains(&"ts") && cells.contains(&"gpu_util_pct")
}

pub(super) fn read(text: &str) -> Collected {
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines
        .next()
        .map(|(_, line)| line.trim().split(',').map(str::trim).collect())
        .unwrap_or_default();
    let mut collected = Collected::default();
    let mut origin: Option<f64> = None;
    for (index, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.trim().split(',').map(str::trim).collect();
        let cell = |name: &str| {
            let at = header.iter().position(|column| *column == name)?;
            cells.get(at).copied().filter(|cell| !cell.is_empty())
        };
        let value = |name: &str| parse_number(cell(name)?);
        // A cut line has fewer cells; no number of a GPU is worth a guess.
        let seconds = value("ts").filter(|_| cells.len() == header.len());
        let Some(seconds) = seconds.filter(|seconds| (0.0..4e9).contains(seconds)) else {
            collected.lose(index + 1);
            continue;
        };
        let first = *origin.get_or_insert(seconds);
        collected.unix_offset_ns = Nanos((first * 1e9) as i64);
        let gpu = value("gpu_index").map_or(0, |index| index.max(0.0) as u32);
        let bytes = |bytes: f64| Bytes(bytes.max(0.0) as u64);
        if let Some(total) = value("mem_total_MiB") {
            collected.gpu(gpu).memory_total_bytes = Some(bytes(total * MEBIBYTE));
        }
        let used = value("memory_used_bytes").or(value("mem_used_MiB").map(|mib| mib * MEBIBYTE));
        let reasons = cell("throttle_reasons").and_then(ThrottleReasons::parse);
        let sample = GpuSample {
            time_ns: Nanos(((seconds - first) * 1e9).round() as i64),
            gpu_percent: value("gpu_util_pct"),
            memory_percent: value("mem_util_pct"),
            sm_clock_hz: value("sm_clock_MHz").map(|mhz| Hertz(mhz * 1e6)),
            memory_clock_hz: value("mem_clock_MHz").map(|mhz| Hertz(mhz * 1e6)),
            power_w: value("power_W").map(Watts),
            power_instant_w: value("power_instant_w").map(Watts),
            temperature_c: value("temp_C"),
            memory_temperature_c: value("memory_temperature_c"),
            memory_used_bytes: used.map(bytes),
            energy_j: value("energy_j").map(Joules),
            throttle_reasons: reasons,
            pcie_tx: value("pcie_tx_bytes_per_s").map(BytesPerSecond),
            pcie_rx: value("pcie_rx_bytes_per_s").map(BytesPerSecond),
            nvlink_tx: value("nvlink_tx_bytes_per_s").map(BytesPerSecond),
            nvlink_rx: value("nvlink_rx_bytes_per_s").map(BytesPerSecond),
            ..GpuSample::default()
        };
        collected.gpu(gpu).rows.push(sample);
    }
    collected
}
