//! One GPU over time.

use llmprof_units::{Basis, Bytes, BytesPerSecond, Hertz, Joules, Nanos, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::throttle::{ThrottleReason, ThrottleReasons};

/// A GPU at one moment. What it does not report is absent. What changes slowly is not read at every sample, and repeated between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GpuSample {
    /// When, on the run's clock.
    pub time_ns: Nanos,
    /// Share of the time in which a kernel ran, in percent, over the driver's own last period (1/6 s to 1 s). Read every 200 ms at
    /// most.
    pub gpu_percent: Option<f64>,
    /// Share of the time in which its memory was read or written, in percent, over the same period.
    pub memory_percent: Option<f64>,
    /// Clock of the SMs, Hz.
    pub sm_clock_hz: Option<Hertz>,
    /// Clock of its memory. Read every second at most, as are temperatures, the performance state, processes and traffic.
    pub memory_clock_hz: Option<Hertz>,
    /// Power as the driver states it: the mean of the last second on most GPUs since Ampere, an H200 among them. Read every second
    /// at most where the power of the moment is reported.
    pub power_w: Option<Watts>,
    /// Power at the moment: on an H200 over the last 100 ms.
    pub power_instant_w: Option<Watts>,
    /// Temperature of the chip, °C.
    pub temperature_c: Option<f64>,
    /// Temperature of its memory, °C.
    pub memory_temperature_c: Option<f64>,
    /// Memory in use, without what the driver keeps for itself. Read every 200 ms at most.
    pub memory_used_bytes: Option<Bytes>,
    /// Energy since sampling began, by the GPU's counter.
    pub energy_j: Option<Joules>,
    /// Why clocks are not at their highest.
    pub throttle_reasons: Option<ThrottleReasons>,
    /// Performance state: 0 is the fastest.
    pub performance_state: Option<u32>,
    /// Share of the time in which a kernel of the worker or its descendants ran, in percent, over the last second.
    pub worker_gpu_percent: Option<f64>,
    /// The same of all other processes.
    pub other_gpu_percent: Option<f64>,
    /// Memory of the worker and its descendants.
    pub worker_memory_bytes: Option<Bytes>,
    /// What it sent over PCIe, as counted on the wire (an H200's copies show 1.07 times their bytes), since the reading before, a
    /// second ago or more; on GPUs before Hopper over 20 ms of the last second.
    pub pcie_tx: Option<BytesPerSecond>,
    /// What it received over PCIe.
    pub pcie_rx: Option<BytesPerSecond>,
    /// What it sent over all NVLinks.
    pub nvlink_tx: Option<BytesPerSecond>,
    /// What it received over all NVLinks.
    pub nvlink_rx: Option<BytesPerSecond>,
}

/// What was sampled of one GPU, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GpuSeries {
    /// Its number, as NVML counts: in order of the PCI bus, whatever `CUDA_VISIBLE_DEVICES` says.
    pub index: u32,
    /// Name that the driver reports.
    pub name: String,
    /// Total memory of the GPU, in bytes.
    pub memory_total_bytes: Option<Bytes>,
    /// Samples in order of time.
    pub rows: Vec<GpuSample>,
}

/// Energy and where it is known from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuEnergy {
    pub joules: Joules,
    /// `measured` by the GPU's counter, or `derived`: power integrated over time.
    pub basis: Basis,
}

/// How long a GPU with work was held back, and by what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throttling {
    /// Share of the time below its clock for heat or power, from 0 to 1.
    pub share: f64,
    /// The share of each reason, the greatest first. They may hold at once.
    pub reasons: Vec<(ThrottleReason, f64)>,
}

impl GpuSeries {
    /// Energy between two times; `None` where nothing was measured or the times lie outside of what was sampled.
    ///
    /// The counter's value at a time lies on the line between the samples around it at which it moved: drivers renew it
    /// at a pace of their own (every 100 ms on an H200), and between it stands still while the GPU does not. That pace
    /// is also the error to expect at either end. Where there is no counter, power lies on such lines and is integrated,
    /// that of the moment where it is known, else the driver's mean:
    ///
    /// `E = Σ (P_i + P_(i+1)) / 2 · (t_(i+1) − t_i)`.
    ///
    /// Energies of adjoining times add up to the energy of the whole either way.
    pub fn energy_between(&self, start: Nanos, end: Nanos) -> Option<GpuEnergy> {
        let moved = self.counter_steps();
        let counted = |time| value_at(&moved, time);
        // The counter begins at zero again where the driver is loaded anew.
        let falls = moved.windows(2).any(|pair| {
            let is_within = pair[0].0 < end && start < pair[1].0;
            let fall = pair[0].1.zip(pair[1].1);
            is_within && fall.is_some_and(|(before, after)| after < before)
        });
        if !falls && let Some((from, to)) = counted(start).zip(counted(end)) {
            return Some(GpuEnergy {
                joules: Joules(to - from),
                basis: Basis::Measured,
            });
        }
        Some(GpuEnergy {
            joules: self.integrated_power(start, end)?,
            basis: Basis::Derived,
        })
    }

    fn integrated_power(&self, start: Nanos, end: Nanos) -> Option<Joules> {
        let power = |row: &GpuSample| Some(row.power_instant_w.or(row.power_w)?.0);
        let all: Vec<(Nanos, Option<f64>)> = self
            .rows
            .iter()
            .map(|row| (row.time_ns, power(row)))
            .collect();
        let mut last = (start, value_at(&all, start)?);
        let inner = self
            .rows
            .iter()
            .filter(|row| start < row.time_ns && row.time_ns < end);
        let mut points: Vec<(Nanos, f64)> = Vec::new();
        for row in inner {
            points.push((row.time_ns, power(row)?));
        }
        points.push((end, value_at(&all, end)?));
        let mut joules = 0.0;
        for point in points {
            joules += 0.5 * (last.1 + point.1) * (point.0 - last.0).seconds();
            last = point;
        }
        Some(Joules(joules))
    }

    /// The samples at which the energy counter had moved, with the first and the last.
    fn counter_steps(&self) -> Vec<(Nanos, Option<f64>)> {
        let mut steps: Vec<(Nanos, Option<f64>)> = Vec::new();
        for (position, row) in self.rows.iter().enumerate() {
            let value = row.energy_j.map(|joules| joules.0);
            let stands = steps.last().is_some_and(|(_, before)| *before == value);
            if !stands || position + 1 == self.rows.len() {
                steps.push((row.time_ns, value));
            }
        }
        steps
    }

    /// The mean of a value between two times; `None` where it was not sampled there.
    ///
    /// A sample stands for the time that is nearer to it than to any other, so that a interval between two samples is
    /// judged by the nearest one.
    pub fn mean_between(
        &self,
        start: Nanos,
        end: Nanos,
        value: impl Fn(&GpuSample) -> Option<f64>,
    ) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (row, length) in self.weights(start, end) {
            if let Some(value) = value(row) {
                sum += value * length;
                weight += length;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }

    /// The greatest value of the samples that stand for times between two; `None` where it was not sampled there.
    pub fn max_between(
        &self,
        start: Nanos,
        end: Nanos,
        value: impl Fn(&GpuSample) -> Option<f64>,
    ) -> Option<f64> {
        self.weights(start, end)
            .filter_map(|(row, _)| value(row))
            .reduce(f64::max)
    }

    /// How long it was held back for heat or power between two times, and why; `None` where it does not say.
    pub fn throttled_between(&self, start: Nanos, end: Nanos) -> Option<Throttling> {
        let held = |reason: &dyn Fn(ThrottleReasons) -> bool| {
            self.mean_between(start, end, |row| {
                Some(f64::from(u8::from(reason(row.throttle_reasons?))))
            })
        };
        let share = held(&|reasons| reasons.is_throttling())?;
        let mut seen: Vec<ThrottleReason> = self
            .weights(start, end)
            .filter_map(|(row, _)| row.throttle_reasons)
            .flat_map(ThrottleReasons::iter)
            .filter(|reason| reason.is_throttling())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        let mut reasons: Vec<(ThrottleReason, f64)> = seen
            .into_iter()
            .filter_map(|reason| Some((reason, held(&|all| all.iter().any(|one| one == reason))?)))
            .collect();
        reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(Throttling { share, reasons })
    }

    /// Each sample with the length of the part of the time it stands for that lies between two times, where there is
    /// such a part. The first and the last sample stand for no time before and after them.
    fn weights(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (&GpuSample, f64)> {
        let rows = &self.rows;
        let border = move |left: usize| {
            let (a, b) = (rows[left].time_ns.0, rows[left + 1].time_ns.0);
            a as f64 + (b - a) as f64 / 2.0
        };
        rows.iter().enumerate().filter_map(move |(i, row)| {
            let time = row.time_ns.0 as f64;
            let from = if i == 0 { time } else { border(i - 1) };
            let to = if i + 1 == rows.len() { time } else { border(i) };
            let length = to.min(end.0 as f64) - from.max(start.0 as f64);
            (length > 0.0).then_some((row, length))
        })
    }
}

/// A value at a time, on the line between the points around it; `None` outside of them and beside a gap.
fn value_at(points: &[(Nanos, Option<f64>)], time: Nanos) -> Option<f64> {
    let after = points.partition_point(|(at, _)| *at < time);
    let &(right, to) = points.get(after)?;
    if right == time {
        return to;
    }
    let &(left, from) = points.get(after.checked_sub(1)?)?;
    let share = (time - left).0 as f64 / (right - left).0 as f64;
    let (from, to) = (from?, to?);
    Some(from + (to - from) * share)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn series(rows: Vec<GpuSample>) -> GpuSeries {
        GpuSeries {
            rows,
            ..GpuSeries::default()
        }
    }

    fn powered(points: &[(i64, f64)]) -> GpuSeries {
        series(
            points
                .iter()
                .map(|&(time, power)| GpuSample {
                    time_ns: Nanos(time),
                    power_w: Some(Watts(power)),
                    ..GpuSample::default()
                })
                .collect(),
        )
    }

    #[test]
    fn power_is_integrated_by_hand() {
        // From 100 W to 300 W in 2 s, then down to 200 W in 1 s: 400 J + 250 J.
        let gpu = powered(&[(0, 100.0), (2 * SECOND, 300.0), (3 * SECOND, 200.0)]);
        let energy = |start, end| gpu.energy_between(Nanos(start), Nanos(end));
        let whole = energy(0, 3 * SECOND).unwrap();
        assert_eq!(whole.basis, Basis::Derived);
        assert!((whole.joules.0 - 650.0).abs() < 1e-9);
        // The power of the moment goes before the driver's mean.
        let mut instant = gpu.clone();
        for row in &mut instant.rows {
            row.power_instant_w = Some(Watts(500.0));
        }
        let steady = instant.energy_between(Nanos(0), Nanos(3 * SECOND)).unwrap();
        assert!((steady.joules.0 - 1500.0).abs() < 1e-9);
        // From 200 W at 1 s to 300 W at 2 s, then to 250 W at 2.5 s: 250 J + 137.5 J.
        let part = energy(SECOND, 5 * SECOND / 2).unwrap();
        assert!((part.joules.0 - 387.5).abs() < 1e-9);
        assert_eq!(energy(SECOND, SECOND).unwrap().joules, Joules(0.0));
        assert_eq!(energy(-1, SECOND), None);
        assert_eq!(energy(0, 3 * SECOND + 1), None);
    }

    #[test]
    fn the_counter_goes_before_power_and_a_gap_in_power_is_no_energy() {
        let mut gpu = powered(&[(0, 100.0), (SECOND, 100.0), (2 * SECOND, 100.0)]);
        gpu.rows[1].power_w = None;
        assert_eq!(gpu.energy_between(Nanos(0), Nanos(2 * SECOND)), None);
        for (row, joules) in gpu.rows.iter_mut().zip([0.0, 90.0, 150.0]) {
            row.energy_j = Some(Joules(joules));
        }
        let energy = gpu
            .energy_between(Nanos(SECOND / 2), Nanos(2 * SECOND))
            .unwrap();
        assert_eq!(
            (energy.joules, energy.basis),
            (Joules(105.0), Basis::Measured)
        );
    }

    #[test]
    fn a_counter_that_begins_again_says_nothing_of_the_time_around() {
        let mut gpu = powered(&[(0, 100.0), (SECOND, 100.0), (2 * SECOND, 100.0)]);
        for (row, joules) in gpu.rows.iter_mut().zip([50.0, 0.0, 90.0]) {
            row.energy_j = Some(Joules(joules));
        }
        let energy = |start, end| gpu.energy_between(Nanos(start), Nanos(end)).unwrap();
        let whole = energy(0, 2 * SECOND);
        assert_eq!((whole.joules, whole.basis), (Joules(200.0), Basis::Derived));
        let after = energy(SECOND, 2 * SECOND);
        assert_eq!((after.joules, after.basis), (Joules(90.0), Basis::Measured));
    }

    #[test]
    fn a_counter_that_stands_between_its_steps_is_a_line() {
        // 100 W; the counter moves every 100 ms and is read every 50 ms.
        let joules = [0.0, 0.0, 10.0, 10.0, 20.0, 20.0, 30.0];
        let gpu = series(
            joules
                .iter()
                .enumerate()
                .map(|(i, &joules)| GpuSample {
                    time_ns: Nanos(i as i64 * SECOND / 20),
                    energy_j: Some(Joules(joules)),
                    ..GpuSample::default()
                })
                .collect(),
        );
        for (start, end) in [(0, 3), (1, 2), (3, 5)] {
            let at = |step: i64| Nanos(step * SECOND / 20);
            let energy = gpu.energy_between(at(start), at(end)).unwrap();
            assert!(
                (energy.joules.0 - 5.0 * (end - start) as f64).abs() < 1e-9,
                "{energy:?}"
            );
        }
    }

    #[test]
    fn throttling_by_hand() {
        // Samples stand for 0–50, 50–150, 150–250, 250–300 ns.
        let masks = [0x1, 0x4, 0x4 | 0x20, 0x0];
        let gpu = series(
            masks
                .iter()
                .zip([0, 100, 200, 300])
                .map(|(&mask, time)| GpuSample {
                    time_ns: Nanos(time),
                    throttle_reasons: Some(ThrottleReasons(mask)),
                    ..GpuSample::default()
                })
                .collect(),
        );
        let whole = gpu.throttled_between(Nanos(0), Nanos(300)).unwrap();
        assert!((whole.share - 200.0 / 300.0).abs() < 1e-12);
        let reasons: Vec<_> = whole.reasons.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(
            reasons,
            [
                ThrottleReason::SoftwarePowerCap,
                ThrottleReason::SoftwareThermal
            ]
        );
        assert!((whole.reasons[1].1 - 100.0 / 300.0).abs() < 1e-12);
        // An interval between two samples is judged by the nearer one; idle is no throttling.
        assert_eq!(
            gpu.throttled_between(Nanos(60), Nanos(70)).unwrap().share,
            1.0
        );
        let idle = gpu.throttled_between(Nanos(0), Nanos(40)).unwrap();
        assert_eq!(idle, Throttling::default());
        assert_eq!(gpu.throttled_between(Nanos(300), Nanos(400)), None);
        assert_eq!(
            powered(&[(0, 1.0), (9, 1.0)]).throttled_between(Nanos(0), Nanos(9)),
            None
        );
    }

    #[test]
    fn means_and_maxima_leave_out_what_is_absent() {
        let mut gpu = powered(&[(0, 10.0), (100, 30.0), (200, 50.0)]);
        let power = |row: &GpuSample| Some(row.power_w?.0);
        assert_eq!(gpu.mean_between(Nanos(0), Nanos(200), power), Some(30.0));
        assert_eq!(gpu.max_between(Nanos(0), Nanos(140), power), Some(30.0));
        gpu.rows[1].power_w = None;
        assert_eq!(gpu.mean_between(Nanos(0), Nanos(200), power), Some(30.0));
        assert_eq!(gpu.mean_between(Nanos(60), Nanos(140), power), None);
        assert_eq!(
            series(Vec::new()).mean_between(Nanos(0), Nanos(1), power),
            None
        );
    }

    proptest! {
        #[test]
        fn energies_of_parts_add_up(
            steps in proptest::collection::vec((1i64..SECOND, 0.0..700.0f64), 1..20),
            cuts in proptest::collection::vec(0.0..1.0f64, 0..6),
        ) {
            let mut points = vec![(5, 100.0)];
            for (step, watts) in steps {
                points.push((points[points.len() - 1].0 + step, watts));
            }
            let gpu = powered(&points);
            let (first, last) = (5, points[points.len() - 1].0);
            let mut times: Vec<i64> =
                cuts.iter().map(|cut| first + ((last - first) as f64 * cut) as i64).collect();
            times.extend([first, last]);
            times.sort_unstable();
            let energy = |a, b| gpu.energy_between(Nanos(a), Nanos(b)).unwrap().joules.0;
            let sum: f64 = times.windows(2).map(|pair| energy(pair[0], pair[1])).sum();
            let whole = energy(first, last);
            prop_assert!((sum - whole).abs() <= 1e-9 * whole.max(1.0));
        }
    }
}
