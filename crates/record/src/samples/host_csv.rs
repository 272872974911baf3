//! `telemetry.csv`: a row for each sample of the host.

use super::{Sample, Samples};

/// A column of the file.
struct HostColumn {
    name: &'static str,
    value: fn(&Sample) -> Option<f64>,
}

const COLUMNS: [HostColumn; 12] = [
    HostColumn {
        name: "cpu_percent",
        value: |sample| sample.cpu_percent,
    },
    HostColumn {
        name: "steal_percent",
        value: |sample| sample.steal_percent,
    },
    HostColumn {
        name: "frequency_hz",
        value: |sample| Some(sample.frequency_hz?.0),
    },
    HostColumn {
        name: "available_bytes",
        value: |sample| Some(sample.available_bytes?.0 as f64),
    },
    HostColumn {
        name: "worker_cores",
        value: |sample| sample.worker_cores,
    },
    HostColumn {
        name: "worker_rss_bytes",
        value: |sample| Some(sample.worker_rss_bytes?.0 as f64),
    },
    HostColumn {
        name: "package_energy_j",
        value: |sample| Some(sample.package_energy_j?.0),
    },
    HostColumn {
        name: "dram_energy_j",
        value: |sample| Some(sample.dram_energy_j?.0),
    },
    HostColumn {
        name: "usable_cores",
        value: |sample| Some(f64::from(sample.usable_cores?)),
    },
    HostColumn {
        name: "usable_cores_busy",
        value: |sample| sample.usable_cores_busy,
    },
    HostColumn {
        name: "worker_waiting_threads",
        value: |sample| sample.worker_waiting,
    },
    HostColumn {
        name: "quota_throttled_cores",
        value: |sample| sample.quota_throttled,
    },
];

/// The samples as CSV: times on the run's clock, an empty field for what could not be read.
pub(super) fn format_csv(samples: &Samples) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    let mut text = format!("time_ns,{}\n", names.join(","));
    for row in &samples.rows {
        text += &row.time_ns.0.to_string();
        for column in &COLUMNS {
            text.push(',');
            if let Some(value) = (column.value)(row) {
                text += &value.to_string();
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use llmprof_units::{Joules, Nanos};

    use super::*;

    #[test]
    fn what_could_not_be_read_is_an_empty_field() {
        let samples = Samples {
            rows: vec![Sample {
                time_ns: Nanos(1_000_000_000),
                package_energy_j: Some(Joules(40.0)),
                ..Sample::default()
            }],
            ..Samples::default()
        };
        let text = format_csv(&samples);
        assert!(text.starts_with("time_ns,cpu_percent,"));
        assert!(text.ends_with("\n1000000000,,,,,,,40,,,,,\n"));
    }
}
