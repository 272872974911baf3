//! What telemetry sampled while a run went on, on the run's clock: processors, memory, energy, GPUs.

mod gpu;
mod host_csv;
mod nvml_csv;
mod throttle;

use llmprof_units::{Bytes, Hertz, Joules, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::gpu::{GpuEnergy, GpuSample, GpuSeries, Throttling};
pub use self::throttle::{ThrottleReason, ThrottleReasons};
use crate::issue::Issue;

/// The machine at one moment. Rates cover the time since the sample before; what could not be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Sample {
    /// When, on the run's clock.
    pub time_ns: Nanos,
    /// Share of all CPUs that was busy, in percent.
    pub cpu_percent: Option<f64>,
    /// Share of all CPUs that the hypervisor gave to others, in percent; part of `cpu_percent`.
    pub steal_percent: Option<f64>,
    /// Mean clock rate of the CPUs.
    pub frequency_hz: Option<Hertz>,
    /// Memory that programs could still get.
    pub available_bytes: Option<Bytes>,
    /// Processor time of the worker per time: 2.0 is two CPUs fully used.
    pub worker_cores: Option<f64>,
    /// Memory of the worker that is resident.
    pub worker_rss_bytes: Option<Bytes>,
    /// Energy of the processors since sampling began.
    pub package_energy_j: Option<Joules>,
    /// Energy of their memory since sampling began.
    pub dram_energy_j: Option<Joules>,
    /// CPUs that the worker may run on.
    pub usable_cores: Option<u32>,
    /// How many of them were busy, with whatever.
    pub usable_cores_busy: Option<f64>,
    /// Threads of the worker that were ready but waited for a CPU: 1.0 is one thread all the time.
    pub worker_waiting: Option<f64>,
    /// CPUs that a quota of the worker's control groups withheld.
    pub quota_throttled: Option<f64>,
}

/// Everything that was sampled, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Samples {
    /// Time from one sample to the next, as asked for.
    pub period_ns: Nanos,
    /// Samples in order of time.
    pub rows: Vec<Sample>,
    /// Processor time that sampling itself took.
    pub cost_ns: Nanos,
    /// What could not be read, or was missed.
    pub issues: Vec<Issue>,
    /// The GPUs, in the order of their numbers; none where none were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSeries>,
    /// What has to be added to times on the run's clock to get Unix time.
    #[serde(default)]
    pub unix_offset_ns: Nanos,
}

impl Samples {
    /// `telemetry.csv`: a row for each sample of the host.
    pub fn host_csv(&self) -> String {
        host_csv::format_csv(self)
    }

    /// `nvml.csv`: the samples of all GPUs by time; `None` where no GPU was sampled.
    pub fn nvml_csv(&self) -> Option<String> {
        nvml_csv::format_csv(self)
    }

    /// Joules of the processors and, where counted, their memory, between two times; `None` where energy was not
    /// measured or the times lie outside of what was sampled.
    ///
    /// Between two samples the power is taken as constant, so that the energies of adjoining phases add up to the
    /// energy of the whole.
    pub fn energy_between(&self, start: Nanos, end: Nanos) -> Option<Joules> {
        let energy = |sample: &Sample| {
            let package = sample.package_energy_j?.0;
            Some(package + sample.dram_energy_j.map_or(0.0, |dram| dram.0))
        };
        Some(Joules(
            self.value_at(end, energy)? - self.value_at(start, energy)?,
        ))
    }

    /// A value at a time, on the line between the samples around it.
    fn value_at(&self, time: Nanos, value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let after = self.rows.partition_point(|sample| sample.time_ns < time);
        let right = self.rows.get(after)?;
        if right.time_ns == time {
            return value(right);
        }
        let left = self.rows.get(after.checked_sub(1)?)?;
        let span = (right.time_ns.0 - left.time_ns.0) as f64;
        let share = (time.0 - left.time_ns.0) as f64 / span;
        let (from, to) = (value(left)?, value(right)?);
        Some(from + (to - from) * share)
    }

    /// The mean of a rate between two times, each sample weighted by the part of its interval that lies between them;
    /// `None` where it was not measured there.
    pub fn mean_between(
        &self,
        start: Nanos,
        end: Nanos,
        rate: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for pair in self.rows.windows(2) {
            let from = pair[0].time_ns.max(start);
            let to = pair[1].time_ns.min(end);
            if let Some(rate) = rate(&pair[1])
                && to > from
            {
                let overlap = (to.0 - from.0) as f64;
                sum += rate * overlap;
                weight += overlap;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }

    /// The greatest resident memory of the worker that was seen.
    pub fn peak_worker_rss(&self) -> Option<Bytes> {
        self.rows
            .iter()
            .filter_map(|sample| sample.worker_rss_bytes)
            .max()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(points: &[(i64, f64)]) -> Samples {
        Samples {
            rows: points
                .iter()
                .map(|&(time, energy)| Sample {
                    time_ns: Nanos(time),
                    cpu_percent: Some(energy),
                    package_energy_j: Some(Joules(energy)),
                    ..Sample::default()
                })
                .collect(),
            ..Samples::default()
        }
    }

    #[test]
    fn energy_by_hand() {
        // 10 J in the first 100 ns, 50 J in the next 100 ns.
        let mut samples = samples(&[(1000, 0.0), (1100, 10.0), (1200, 60.0)]);
        let energy = |samples: &Samples, start, end| {
            samples
                .energy_between(Nanos(start), Nanos(end))
                .map(|joules| joules.0)
        };
        assert_eq!(energy(&samples, 1000, 1200), Some(60.0));
        assert_eq!(energy(&samples, 1050, 1150), Some(30.0));
        assert_eq!(energy(&samples, 1100, 1100), Some(0.0));
        assert_eq!(energy(&samples, 999, 1100), None);
        assert_eq!(energy(&samples, 1100, 1201), None);
        samples.rows[2].dram_energy_j = Some(Joules(2.0));
        assert_eq!(energy(&samples, 1000, 1200), Some(62.0));
        samples.rows[2].package_energy_j = None;
        assert_eq!(energy(&samples, 1000, 1150), None);
    }

    #[test]
    fn a_rate_belongs_to_the_time_before_its_sample() {
        let mut samples = samples(&[(0, 0.0), (100, 20.0), (200, 80.0)]);
        samples.rows[0].cpu_percent = None;
        let mean = |samples: &Samples, start, end| {
            samples.mean_between(Nanos(start), Nanos(end), |sample| sample.cpu_percent)
        };
        assert_eq!(mean(&samples, 0, 200), Some(50.0));
        assert_eq!(
            mean(&samples, 50, 200),
            Some((20.0 * 50.0 + 80.0 * 100.0) / 150.0)
        );
        assert_eq!(mean(&samples, 110, 120), Some(80.0));
        assert_eq!(mean(&samples, 300, 400), None);
        samples.rows[2].cpu_percent = None;
        assert_eq!(mean(&samples, 50, 200), Some(20.0));
    }

    proptest! {
        #[test]
        fn energies_of_parts_add_up(
            steps in proptest::collection::vec((1i64..1000, 0.0..50.0f64), 1..20),
            cuts in proptest::collection::vec(0.0..1.0f64, 0..6),
        ) {
            let (mut time, mut energy) = (5, 0.0);
            let mut points = vec![(time, energy)];
            for (step, joules) in steps {
                time += step;
                energy += joules;
                points.push((time, energy));
            }
            let samples = samples(&points);
            let mut times: Vec<i64> = cuts.iter().map(|cut| 5 + ((time - 5) as f64 * cut) as i64).collect();
            times.extend([5, time]);
            times.sort_unstable();
            let sum: f64 = times
                .windows(2)
                .map(|pair| samples.energy_between(Nanos(pair[0]), Nanos(pair[1])).unwrap().0)
                .sum();
            prop_assert!((sum - energy).abs() <= 1e-9 * energy.max(1.0));
        }
    }
}
