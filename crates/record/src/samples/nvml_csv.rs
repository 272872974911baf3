//! Samples of GPUs as a file: `nvml.csv`.

use super::{GpuSample, GpuSeries, Samples};

const MEBIBYTE: f64 = 1_048_576.0;

type Value = fn(&GpuSeries, &GpuSample) -> Option<String>;

/// After `ts`: first the columns that spreadsheets and scripts around NVML know, in their units, then ours.
const COLUMNS: [(&str, Value); 24] = [
    ("gpu_util_pct", |_, row| cell_text(row.gpu_percent)),
    ("mem_util_pct", |_, row| cell_text(row.memory_percent)),
    ("sm_clock_MHz", |_, row| {
        cell_text(row.sm_clock_hz.map(|hz| hz.0 * 1e-6))
    }),
    ("mem_clock_MHz", |_, row| {
        cell_text(row.memory_clock_hz.map(|hz| hz.0 * 1e-6))
    }),
    ("power_W", |_, row| Some(format!("{:.3}", row.power_w?.0))),
    ("temp_C", |_, row| cell_text(row.temperature_c)),
    ("mem_used_MiB", |_, row| {
        cell_text(
            row.memory_used_bytes
                .map(|bytes| (bytes.0 as f64 / MEBIBYTE).floor()),
        )
    }),
    ("mem_total_MiB", |gpu, _| {
        cell_text(
            gpu.memory_total_bytes
                .map(|bytes| (bytes.0 as f64 / MEBIBYTE).floor()),
        )
    }),
    ("gpu_index", |gpu, _| Some(gpu.index.to_string())),
    ("time_ns", |_, row| Some(row.time_ns.0.to_string())),
    ("energy_j", |_, row| Some(format!("{:.3}", row.energy_j?.0))),
    ("power_instant_w", |_, row| {
        Some(format!("{:.3}", row.power_instant_w?.0))
    }),
    ("memory_temperature_c", |_, row| {
        cell_text(row.memory_temperature_c)
    }),
    ("memory_used_bytes", |_, row| {
        Some(row.memory_used_bytes?.0.to_string())
    }),
    ("throttle_reasons", |_, row| {
        Some(row.throttle_reasons?.to_string())
    }),
    ("performance_state", |_, row| {
        Some(format!("P{}", row.performance_state?))
    }),
    ("worker_gpu_percent", |_, row| {
        cell_text(row.worker_gpu_percent)
    }),
    ("other_gpu_percent", |_, row| {
        cell_text(row.other_gpu_percent)
    }),
    ("worker_memory_bytes", |_, row| {
        Some(row.worker_memory_bytes?.0.to_string())
    }),
    ("throttled", |_, row| {
        Some(u8::from(row.throttle_reasons?.is_throttling()).to_string())
    }),
    ("pcie_tx_bytes_per_s", |_, row| {
        Some(format!("{:.0}", row.pcie_tx?.0))
    }),
    ("pcie_rx_bytes_per_s", |_, row| {
        Some(format!("{:.0}", row.pcie_rx?.0))
    }),
    ("nvlink_tx_bytes_per_s", |_, row| {
        Some(format!("{:.0}", row.nvlink_tx?.0))
    }),
    ("nvlink_rx_bytes_per_s", |_, row| {
        Some(format!("{:.0}", row.nvlink_rx?.0))
    }),
];

/// A number as short as it can be read back.
fn cell_text(value: Option<f64>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// The samples of all GPUs by time, an empty field for what could not be read; `None` where no GPU was sampled.
///
/// `ts` is Unix time in seconds.
pub(super) fn format_csv(samples: &Samples) -> Option<String> {
    let mut rows: Vec<(&GpuSeries, &GpuSample)> = samples
        .gpus
        .iter()
        .flat_map(|gpu| gpu.rows.iter().map(move |row| (gpu, row)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by_key(|(gpu, row)| (row.time_ns, gpu.index));
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut file = format!("ts,{}\n", names.join(","));
    for (gpu, row) in rows {
        let unix = row.time_ns + samples.unix_offset_ns;
        let microseconds = unix.0.div_euclid(1000);
        file += &format!(
            "{}.{:06}",
            microseconds.div_euclid(1_000_000),
            microseconds.rem_euclid(1_000_000)
        );
        for (_, value) in &COLUMNS {
            file.push(',');
            file += &value(gpu, row).unwrap_or_default();
        }
        file.push('\n');
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use llmprof_units::{Bytes, Hertz, Joules, Nanos, Watts};

    use super::*;
    use crate::samples::ThrottleReasons;

    #[test]
    fn known_columns_come_first_and_rows_are_ordered_by_time() {
        let row = |time| GpuSample {
            time_ns: Nanos(time),
            gpu_percent: Some(5.0),
            sm_clock_hz: Some(Hertz(1.98e9)),
            power_w: Some(Watts(126.382)),
            energy_j: Some(Joules(12.5)),
            memory_used_bytes: Some(Bytes(2565 << 20)),
            throttle_reasons: Some(ThrottleReasons(0x44)),
            performance_state: Some(0),
            ..GpuSample::default()
        };
        let gpu = |index, rows| GpuSeries {
            index,
            name: "NVIDIA, Inc.".to_owned(),
            memory_total_bytes: Some(Bytes(143_771 << 20)),
            rows,
        };
        let samples = Samples {
            gpus: vec![
                gpu(0, vec![row(1_000), row(3_000)]),
                gpu(1, vec![row(2_000)]),
            ],
            unix_offset_ns: Nanos(1_794_702_417_421_571_000),
            ..Samples::default()
        };
        let file = format_csv(&samples).unwrap();
        let lines: Vec<&str> = file.lines().collect();
        assert!(lines[0].starts_with(
            "ts,gpu_util_pct,mem_util_pct,sm_clock_MHz,mem_clock_MHz,power_W,temp_C,mem_used_MiB,mem_total_MiB,"
        ));
        assert_eq!(
            lines[1],
            "1794702417.421572,5,,1980,,126.382,,2565,143771,0,1000,12.500,,,2689597440,\
             software_power_cap|hardware_thermal,P0,,,,1,,,,"
        );
        assert!(lines[2].contains(",1,2000,") && lines[3].contains(",0,3000,"));
        let width = lines[0].split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == width));
        assert_eq!(format_csv(&Samples::default()), None);
    }
}
