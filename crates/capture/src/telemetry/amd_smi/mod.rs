//! GPUs, as AMD's management library tells: written from its documentation (amdsmi.h of ROCm 6 and 7) and not run on the hardware,
//! which every report with such samples says.
//!
//! Only calls whose results are plain numbers, or structures whose first fields never moved, are used. Power is the growth of the
//! energy counter: the structure that has it differs from version to version.

mod library;

use std::{path::PathBuf, time::Duration};

use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::{GpuSample, GpuSeries},
};
use llmprof_units::{Bytes, Hertz, Joules, Nanos, Watts};

use self::library::{AmdSmi, Processor};
use super::{
    nvml::{GpuSamples, Gpus, wanted_gpus},
    pace::{self, Shared},
};
use crate::clock;

/// Names another library than the system's, for unusual places and for tests.
pub(crate) const LIBRARY_VARIABLE: &str = "LLMPROF_AMD_SMI";
/// The name for the loader's search path, and the place where ROCm installs it.
const LIBRARIES: [&str; 2] = ["libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"];

/// Samples GPUs until it is time to stop; `None` where there is no such library, or no GPU that it knows.
pub(super) fn sample_gpus(
    shared: &Shared,
    period: Duration,
    gpus: &Gpus,
    library: Option<&PathBuf>,
) -> Option<GpuSamples> {
    let named = std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from);
    let library = match library.or(named.as_ref()) {
        Some(path) => AmdSmi::open_library(path)?,
        None => LIBRARIES
            .iter()
            .find_map(|name| AmdSmi::open_library(name.as_ref()))?,
    };
    let processors = library.list_processors();
    if processors.is_empty() {
        return None;
    }
    let mut samples = GpuSamples::default();
    samples
        .issues
        .push(Issue::info(IssueCode::TelemetryAmdNotRun));
    let count = processors.len() as u32;
    let mut readers = Vec::new();
    for index in wanted_gpus(gpus, count) {
        match processors.get(index as usize) {
            Some(processor) => readers.push(AmdReader::new(index, processor)),
            None => samples.issues.push(
                Issue::warning(IssueCode::TelemetryGpuMissing)
                    .with("gpu", index)
                    .with("gpus", count),
            ),
        }
    }
    let missed = pace::keep_pace(shared, period, |_| {
        for reader in &mut readers {
            reader.read_sample();
        }
    });
    samples.issues.extend(pace::missed_samples("GPUs", missed));
    for reader in readers {
        samples.gpus.push(reader.series);
    }
    samples.cost_ns += clock::thread_cpu_time();
    Some(samples)
}

struct AmdReader<'a> {
    processor: &'a Processor<'a>,
    series: GpuSeries,
    /// The energy counter at the first sample, and at the one before with its time.
    first_j: Option<f64>,
    before: Option<(Nanos, f64)>,
}

impl<'a> AmdReader<'a> {
    fn new(index: u32, processor: &'a Processor<'a>) -> Self {
        Self {
            processor,
            series: GpuSeries {
                index,
                name: processor.name(),
                memory_total_bytes: processor.memory_total().map(Bytes),
                rows: Vec::new(),
            },
            first_j: None,
            before: None,
        }
    }

    fn read_sample(&mut self) {
        let time_ns = clock::now();
        let of = self.processor;
        // What a GPU does not tell is all ones.
        let percent = |value: u32| (value <= 100).then_some(f64::from(value));
        let activity = of.activity();
        let megahertz = |mhz: u32| (mhz < 100_000).then(|| Hertz(f64::from(mhz) * 1e6));
        let energy = of.energy_j();
        let first = energy.map(|joules| *self.first_j.get_or_insert(joules));
        let power = energy.zip(self.before).and_then(|(now, (at, before))| {
            let seconds = (time_ns - at).seconds();
            (seconds > 0.0 && now >= before).then(|| Watts((now - before) / seconds))
        });
        if let Some(joules) = energy {
            self.before = Some((time_ns, joules));
        }
        let celsius = |value: i64| (0..1000).contains(&value).then_some(value as f64);
        self.series.rows.push(GpuSample {
            time_ns,
            gpu_percent: activity.and_then(|(compute, _)| percent(compute)),
            memory_percent: activity.and_then(|(_, memory)| percent(memory)),
            sm_clock_hz: of.compute_clock_mhz().and_then(megahertz),
            memory_clock_hz: of.memory_clock_mhz().and_then(megahertz),
            power_w: power,
            temperature_c: of.hotspot_c().and_then(celsius),
            memory_temperature_c: of.memory_c().and_then(celsius),
            memory_used_bytes: of.memory_used().map(Bytes),
            energy_j: energy.zip(first).map(|(now, first)| Joules(now - first)),
            ..GpuSample::default()
        });
    }
}
