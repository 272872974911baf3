//! GPUs and CPUs of the client's machine during a load.

use llmprof_record::samples::{GpuSeries, Samples};
use llmprof_record::serving::LoadRecord;
use llmprof_units::{Basis, Bytes, Joules, Nanos, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::telemetry::gpu_facts;

/// A GPU from when the first request was due to the last answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GpuUse {
    /// Index of the GPU as the driver numbers it.
    pub index: u32,
    /// Name that the driver reports.
    pub name: String,
    /// Mean share of the time in which a kernel ran, by NVML; absent where the load is too short for it.
    pub utilization: Option<f64>,
    /// Mean power during the load.
    pub mean_power_w: Option<Watts>,
    /// Largest amount of its memory in use during the load.
    pub memory_used_max_bytes: Option<Bytes>,
    /// Size of the GPU's memory.
    pub memory_total_bytes: Option<Bytes>,
    /// Energy from when the first request was due to the last answer.
    pub energy_j: Option<Joules>,
    /// `measured` by the GPU's counter of energy, `derived` from its power.
    pub energy_basis: Option<Basis>,
}

impl GpuUse {
    /// The GPUs of some samples, by the rules that phases of runs follow.
    pub(super) fn from_samples(samples: &Samples, load: &LoadRecord) -> Vec<Self> {
        let zero = load.started_unix_ns - samples.unix_offset_ns;
        let requests = load.requests.iter();
        let first = requests.clone().map(|request| request.scheduled_ns).min();
        let last = requests.map(|request| request.end_ns).max();
        let Some((first, last)) = first.zip(last) else {
            return Vec::new();
        };
        let (start, end) = (zero + first, zero + last);
        let gpus = samples.gpus.iter();
        gpus.map(|gpu| Self::between(gpu, start, end)).collect()
    }

    fn between(gpu: &GpuSeries, start: Nanos, end: Nanos) -> Self {
        let facts = gpu_facts(gpu, &[(start, end)]);
        let energy =
            sampled_part(gpu, start, end).and_then(|(from, to)| gpu.energy_between(from, to));
        Self {
            index: gpu.index,
            name: gpu.name.clone(),
            utilization: facts.utilization_percent.map(|percent| percent / 100.0),
            mean_power_w: facts.power_w.map(Watts),
            memory_used_max_bytes: facts.memory_bytes,
            memory_total_bytes: gpu.memory_total_bytes,
            energy_j: energy.map(|energy| energy.joules),
            energy_basis: energy.map(|energy| energy.basis),
        }
    }
}

/// Share of CPU time that the hypervisor gave to others while requests ran.
pub(super) fn steal_share(samples: &Samples, load: &LoadRecord) -> Option<f64> {
    let zero = load.started_unix_ns - samples.unix_offset_ns;
    let during = samples
        .rows
        .iter()
        .filter(|sample| sample.time_ns >= zero && sample.time_ns <= zero + load.duration_ns);
    let shares: Vec<f64> = during
        .filter_map(|sample| Some(sample.steal_percent? / 100.0))
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The part of an interval between the first sample and the last; `None` if that is less than nine tenths of the interval. The first
/// sample may come some milliseconds after the first request.
fn sampled_part(gpu: &GpuSeries, start: Nanos, end: Nanos) -> Option<(Nanos, Nanos)> {
    let from = start.max(gpu.rows.first()?.time_ns);
    let to = end.min(gpu.rows.last()?.time_ns);
    (10 * (to - from).0 >= 9 * (end - start).0).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use llmprof_record::samples::GpuSample;

    use super::*;

    /// A GPU that is idle, then busy at 300 W, and whose driver is loaded anew before the second sample.
    #[test]
    fn gpus_are_those_of_the_time_from_the_first_request_to_the_last_answer() {
        let row = |second: i64, busy: f64, power: f64, energy: Option<f64>| GpuSample {
            time_ns: Nanos(second * 1_000_000_000),
            gpu_percent: Some(busy),
            power_w: Some(Watts(power)),
            memory_used_bytes: Some(Bytes(second as u64 + 1)),
            energy_j: energy.map(Joules),
            ..GpuSample::default()
        };
        let rows = |energy: [Option<f64>; 6]| GpuSeries {
            rows: energy
                .into_iter()
                .zip([
                    (0.0, 80.0),
                    (0.0, 80.0),
                    (90.0, 300.0),
                    (90.0, 300.0),
                    (90.0, 300.0),
                    (0.0, 80.0),
                ])
                .zip(0..)
                .map(|((energy, (busy, power)), second)| row(second, busy, power, energy))
                .collect(),
            ..GpuSeries::default()
        };
        let at = |tenths: i64| Nanos(tenths * 100_000_000);
        let counted = rows([
            Some(9000.0),
            Some(0.0),
            Some(80.0),
            Some(380.0),
            Some(680.0),
            Some(900.0),
        ]);
        let used = GpuUse::between(&counted, at(20), at(40));
        assert_eq!(used.utilization, Some(0.9));
        assert_eq!(used.mean_power_w, Some(Watts(300.0)));
        assert_eq!(used.memory_used_max_bytes, Some(Bytes(5)));
        assert_eq!(
            (used.energy_j, used.energy_basis),
            (Some(Joules(600.0)), Some(Basis::Measured))
        );
        let by_power = GpuUse::between(&rows([None; 6]), at(20), at(40));
        assert_eq!(
            (by_power.energy_j, by_power.energy_basis),
            (Some(Joules(600.0)), Some(Basis::Derived))
        );
        // The last sample is early by a tenth of the load, then by two thirds of it.
        let energy = |end| GpuUse::between(&counted, at(30), at(end)).energy_j;
        assert_eq!(energy(52), Some(Joules(520.0)));
        assert_eq!(energy(90), None);
        // Utilization of less than a second is that of the time before it.
        assert_eq!(GpuUse::between(&counted, at(20), at(25)).utilization, None);
    }
}
