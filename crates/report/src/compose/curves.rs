//! Curves of samples.

use llmprof_record::run::{PassKind, RunPhase, RunRecord};
use llmprof_record::samples::{GpuSample, GpuSeries, Sample, Samples};

use super::DEVICES_MAX;
use crate::view::{Band, Series, SeriesLine, Unit};

/// The samples as curves, with the phases of the run behind them. What was never read has none.
pub(super) fn sample_curves(samples: &Samples, run: &RunRecord) -> Vec<Series> {
    let bands = bands(run);
    let line = |label: &str, value: &dyn Fn(&Sample) -> Option<f64>| SeriesLine {
        is_held: false,
        label: label.to_owned(),
        samples: samples
            .rows
            .iter()
            .map(|row| (row.time_ns, value(row).unwrap_or(f64::NAN)))
            .collect(),
    };
    let chart = |key: &str, title: &str, unit, lines: Vec<SeriesLine>| Series {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
        lines,
        bands: bands.clone(),
    };
    let power = |energy: fn(&Sample) -> Option<f64>| {
        samples
            .rows
            .windows(2)
            .map(|pair| {
                let seconds = (pair[1].time_ns - pair[0].time_ns).seconds();
                let joules = energy(&pair[1])
                    .zip(energy(&pair[0]))
                    .map(|(to, from)| to - from);
                (
                    pair[1].time_ns,
                    joules.map_or(f64::NAN, |joules| joules / seconds),
                )
            })
            .collect()
    };
    let mut all = vec![
        chart(
            "processors",
            "CPU",
            Unit::Fraction,
            vec![
                line("busy", &|sample| Some(sample.cpu_percent? / 100.0)),
                line("stolen by the hypervisor", &|sample| {
                    Some(sample.steal_percent? / 100.0)
                }),
            ],
        ),
        chart(
            "clock_of_the_processors",
            "CPU clock",
            Unit::Hertz,
            vec![line("mean", &|sample| Some(sample.frequency_hz?.0))],
        ),
        chart(
            "memory",
            "Host memory",
            Unit::Bytes,
            vec![
                line("resident in the worker", &|sample| {
                    Some(sample.worker_rss_bytes?.0 as f64)
                }),
                line("available", &|sample| {
                    Some(sample.available_bytes?.0 as f64)
                }),
            ],
        ),
        chart(
            "power",
            "CPU power",
            Unit::Watts,
            vec![
                SeriesLine {
                    is_held: false,
                    label: "CPU packages".to_owned(),
                    samples: power(|sample| Some(sample.package_energy_j?.0)),
                },
                SeriesLine {
                    is_held: false,
                    label: "DRAM".to_owned(),
                    samples: power(|sample| Some(sample.dram_energy_j?.0)),
                },
            ],
        ),
    ];
    for gpu in samples.gpus.iter().take(DEVICES_MAX) {
        all.extend(gpu_series(gpu, &bands));
    }
    all.into_iter()
        .map(|mut series| {
            series
                .lines
                .retain(|line| line.samples.iter().any(|(_, value)| value.is_finite()));
            series
        })
        .filter(|series| !series.lines.is_empty())
        .collect()
}

/// The phases of all passes that count, as bands behind the curves.
fn bands(run: &RunRecord) -> Vec<Band> {
    run.passes
        .iter()
        .flat_map(|pass| pass.phases.iter().map(move |span| (pass.kind, span)))
        .map(|(kind, span)| Band {
            label: match kind {
                PassKind::Captured => format!("{}, profiled", span.phase),
                PassKind::WarmUp if span.phase != RunPhase::Load => {
                    format!("{}, warm-up", span.phase)
                }
                PassKind::WarmUp | PassKind::Plain => span.phase.to_string(),
            },
            start_ns: span.start_ns,
            end_ns: span.end_ns,
        })
        .collect()
}

/// The curves of one GPU.
fn gpu_series(gpu: &GpuSeries, bands: &[Band]) -> Vec<Series> {
    type Curve = (&'static str, fn(&GpuSample) -> Option<f64>);
    let charts: [(&str, Unit, &[Curve]); 5] = [
        (
            "busy",
            Unit::Fraction,
            &[
                ("SM", |row| Some(row.gpu_percent? / 100.0)),
                ("memory", |row| Some(row.memory_percent? / 100.0)),
            ],
        ),
        (
            "power",
            Unit::Watts,
            &[("power", |row| Some(row.power_w?.0))],
        ),
        (
            "clocks",
            Unit::Hertz,
            &[
                ("SM", |row| Some(row.sm_clock_hz?.0)),
                ("memory", |row| Some(row.memory_clock_hz?.0)),
            ],
        ),
        (
            "memory",
            Unit::Bytes,
            &[
                ("used", |row| Some(row.memory_used_bytes?.0 as f64)),
                ("used by the worker", |row| {
                    Some(row.worker_memory_bytes?.0 as f64)
                }),
            ],
        ),
        (
            "temperature",
            Unit::Celsius,
            &[("GPU", |row| row.temperature_c)],
        ),
    ];
    charts
        .into_iter()
        .map(|(title, unit, lines)| Series {
            key: format!("gpu_{}_{title}", gpu.index),
            title: format!("GPU {} {title}", gpu.index),
            unit,
            lines: lines
                .iter()
                .map(|(label, value)| SeriesLine {
                    is_held: false,
                    label: (*label).to_owned(),
                    samples: gpu
                        .rows
                        .iter()
                        .map(|row| (row.time_ns, value(row).unwrap_or(f64::NAN)))
                        .collect(),
                })
                .collect(),
            bands: bands.to_vec(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use llmprof_units::{Joules, Nanos};

    use super::*;

    #[test]
    fn power_is_energy_over_time_and_absent_columns_have_no_curve() {
        let row = |time, energy| Sample {
            time_ns: Nanos(time),
            package_energy_j: Some(Joules(energy)),
            ..Sample::default()
        };
        let samples = Samples {
            rows: vec![
                row(0, 0.0),
                row(500_000_000, 10.0),
                row(1_000_000_000, 40.0),
            ],
            ..Samples::default()
        };
        let curves = sample_curves(&samples, &RunRecord::default());
        assert_eq!(curves.len(), 1);
        assert_eq!(curves[0].lines.len(), 1);
        let values: Vec<f64> = curves[0].lines[0]
            .samples
            .iter()
            .map(|point| point.1)
            .collect();
        assert_eq!(values, [20.0, 60.0]);
    }

    /// 5,000 devices in a file of a few kilobytes once made 5,001 plots.
    #[test]
    fn plots_are_bounded_whatever_a_file_says() {
        let row = |time| GpuSample {
            time_ns: Nanos(time),
            gpu_percent: Some(50.0),
            temperature_c: Some(40.0),
            ..GpuSample::default()
        };
        let gpus = (0..5000).map(|index| GpuSeries {
            index,
            rows: vec![row(0), row(1)],
            ..GpuSeries::default()
        });
        let samples = Samples {
            gpus: gpus.collect(),
            ..Samples::default()
        };
        let curves = sample_curves(&samples, &RunRecord::default());
        assert_eq!(
            curves.len(),
            2 * DEVICES_MAX,
            "busy and temperature of each"
        );
        let mut document = crate::Document::new("t");
        crate::compose::telemetry::add_alone(&mut document, &samples, &curves);
        let printed = crate::render::markdown::document(&document);
        assert!(
            printed.contains("4936 devices more in `samples.json`"),
            "{printed}"
        );
    }
}
