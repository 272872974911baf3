use llmprof_units::{Bytes, BytesPerSecond, Hertz, Nanos, Watts};

use super::Collected;
use crate::issue::{Issue, IssueCode};
use crate::samples::{GpuSample, ThrottleReasons};

/// Its first line that is not blank.
pub(super) fn sniff(head: &[u8]) -> bool {
    head.trim_ascii_start()
        .starts_with(b"==============NVSMI LOG")
}

/// Reasons by their names here and before 12.2, with their bits in NVML's mask.
const REASONS: [(&str, u64); 9] = [
    ("Idle", 0x001),
    ("Applications Clocks Setting", 0x002),
    ("SW Power Cap", 0x004),
    ("HW Slowdown", 0x008),
    ("Sync Boost", 0x010),
    ("SW Thermal Slowdown", 0x020),
    ("HW Thermal Slowdown", 0x040),
    ("HW Power Brake Slowdown", 0x080),
    ("Display Clock Setting", 0x100),
];

/// An outline by indentation: `GPU 00000000:00:06.0` at the margin begins a device, a line without a colon a group.
pub(super) fn read(text: &str) -> Collected {
    let mut collected = Collected::default();
    let mut gpu: Option<u32> = None;
    let mut groups: Vec<(usize, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        if indent == 0 && line.starts_with("GPU ") {
            let next = gpu.map_or(0, |gpu| gpu + 1);
            gpu = Some(next);
            groups.clear();
            collected.gpu(next).rows.push(GpuSample::default());
            continue;
        }
        let Some(gpu) = gpu else { continue };
        groups.retain(|(outer, _)| *outer < indent);
        match line.split_once(" : ") {
            Some((key, value)) => {
                let path: Vec<&str> = groups.iter().map(|(_, name)| name.as_str()).collect();
                store_value(&mut collected, gpu, &path, key.trim(), value.trim());
                // A reason may have finer ones below it.
                groups.push((indent, key.trim().to_owned()));
            }
            None => groups.push((indent, line.trim().to_owned())),
        }
    }
    if gpu.is_some() {
        collected
            .issues
            .push(Issue::info(IssueCode::GpuTelemetryOneMoment));
    }
    collected
}

/// A number with its unit; `None` for `N/A` and its kin.
fn parse_amount(value: &str) -> Option<(f64, &str)> {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    Some((super::parse_number(number)?, unit.trim()))
}

fn store_value(collected: &mut Collected, gpu: u32, path: &[&str], key: &str, value: &str) {
    let series = collected.gpu(gpu);
    let top = path.first().copied().unwrap_or_default();
    if top.is_empty() && key == "Product Name" {
        value.clone_into(&mut series.name);
        return;
    }
    let bytes = |value: &str| {
        let (number, unit) = parse_amount(value)?;
        (unit == "MiB").then(|| Bytes((number.max(0.0) * 1_048_576.0) as u64))
    };
    if (top, key) == ("FB Memory Usage", "Total") {
        series.memory_total_bytes = bytes(value);
    }
    let Some(sample) = series.rows.last_mut() else {
        return;
    };
    sample.time_ns = Nanos(0);
    let plain = || parse_amount(value).map(|(number, _)| number);
    let hertz = || {
        Some(Hertz(
            parse_amount(value).filter(|(_, unit)| *unit == "MHz")?.0 * 1e6,
        ))
    };
    let rate = || {
        let (number, unit) = parse_amount(value)?;
        let scale = match unit {
            "KB/s" => 1e3,
            "MB/s" => 1e6,
            _ => return None,
        };
        Some(BytesPerSecond(number * scale))
    };
    match (top, key) {
        ("FB Memory Usage", "Used") => sample.memory_used_bytes = bytes(value),
        ("Utilization", "GPU" | "Gpu") => sample.gpu_percent = plain(),
        ("Utilization", "Memory") => sample.memory_percent = plain(),
        ("Temperature", "GPU Current Temp") => sample.temperature_c = plain(),
        ("Temperature", "Memory Current Temp") => sample.memory_temperature_c = plain(),
        // `Power Readings` and one draw before driver 530.
        ("GPU Power Readings" | "Power Readings", "Average Power Draw" | "Power Draw") => {
            sample.power_w = plain().map(Watts);
        }
        ("GPU Power Readings", "Instantaneous Power Draw") => {
            sample.power_instant_w = plain().map(Watts);
        }
        ("Clocks", "SM") => sample.sm_clock_hz = hertz(),
        ("Clocks", "Memory") => sample.memory_clock_hz = hertz(),
        ("PCI", "Tx Throughput") => sample.pcie_tx = rate(),
        ("PCI", "Rx Throughput") => sample.pcie_rx = rate(),
        ("", "Performance State") => {
            sample.performance_state = value.strip_prefix('P').and_then(|n| n.parse().ok());
        }
        ("Clocks Event Reasons" | "Clocks Throttle Reasons", reason) => {
            let bit = REASONS.iter().find(|(name, _)| *name == reason);
            let bit = bit.map_or(0, |(_, bit)| if value == "Active" { *bit } else { 0 });
            let before = sample.throttle_reasons.map_or(0, |reasons| reasons.0);
            sample.throttle_reasons = Some(ThrottleReasons(before | bit));
        }
        _ => {}
    }
}
