//! Telemetry of GPUs as tools print it: `nvml.csv`, `nvidia-smi dmon`, `nvidia-smi -q`.
//!
//! Each becomes [`Samples`] whose clock starts at the first sample. What a tool does not print is absent.

mod dmon;
mod nvml_csv;
mod query;

use std::collections::BTreeMap;

use llmprof_units::{Nanos, stats::upper_median};

use super::{ImportError, Importer, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::samples::{GpuSeries, Samples};

/// Rows of the columns that scripts around NVML write, and of `nvml.csv` of a run.
pub(crate) const NVML_CSV: Importer = Importer {
    name: "nvml_csv",
    sniff: nvml_csv::sniff,
    read: |source| read(source, "samples of NVML", nvml_csv::read),
};

pub(crate) const DMON: Importer = Importer {
    name: "nvidia_smi_dmon",
    sniff: dmon::sniff,
    read: |source| read(source, "output of `nvidia-smi dmon`", dmon::read),
};

pub(crate) const QUERY: Importer = Importer {
    name: "nvidia_smi_q",
    sniff: query::sniff,
    read: |source| read(source, "output of `nvidia-smi -q`", query::read),
};

fn read(
    source: &Source,
    format: &'static str,
    read: fn(&str) -> Collected,
) -> Result<Profile, ImportError> {
    let text = String::from_utf8_lossy(source.bytes());
    let mut samples = read(&text).samples();
    if samples.gpus.is_empty() {
        return Err(source.unusable(format, "it has no sample"));
    }
    samples.issues.splice(0..0, source.issues().iter().cloned());
    Ok(Profile::Telemetry(Box::new(samples)))
}

/// Samples while they are read.
#[derive(Default)]
struct Collected {
    gpus: BTreeMap<u32, GpuSeries>,
    /// Unix time of the clock's zero; 0 where the tool has no dates.
    unix_offset_ns: Nanos,
    issues: Vec<Issue>,
    /// Lines that could not be read, and the first of them.
    unread: Option<(u64, u64)>,
}

impl Collected {
    fn gpu(&mut self, index: u32) -> &mut GpuSeries {
        self.gpus.entry(index).or_insert_with(|| GpuSeries {
            index,
            ..GpuSeries::default()
        })
    }

    fn lose(&mut self, line: usize) {
        let (count, _) = self.unread.get_or_insert((0, line as u64));
        *count += 1;
    }

    fn samples(mut self) -> Samples {
        if let Some((count, line)) = self.unread {
            let issue = Issue::warning(IssueCode::GpuTelemetryBadRow).with("line", line);
            self.issues.push(issue.counting(count));
        }
        let mut gpus: Vec<GpuSeries> = self.gpus.into_values().collect();
        for gpu in &mut gpus {
            gpu.rows.sort_by_key(|row| row.time_ns);
        }
        gpus.retain(|gpu| !gpu.rows.is_empty());
        Samples {
            period_ns: gpus
                .iter()
                .filter_map(median_period)
                .min()
                .unwrap_or_default(),
            issues: self.issues,
            gpus,
            unix_offset_ns: self.unix_offset_ns,
            ..Samples::default()
        }
    }
}

/// The median time between samples.
fn median_period(gpu: &GpuSeries) -> Option<Nanos> {
    let mut gaps: Vec<i64> = gpu
        .rows
        .windows(2)
        .map(|pair| pair[1].time_ns.0.saturating_sub(pair[0].time_ns.0))
        .collect();
    upper_median(&mut gaps).map(Nanos)
}

/// A number that a sample may have.
fn parse_number(cell: &str) -> Option<f64> {
    let value: f64 = cell.trim().parse().ok()?;
    value.is_finite().then_some(value)
}
