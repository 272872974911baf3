//! Predictions of the native engine beside its runs on a CPU whose peaks were measured, split by model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{Calibration, EfficiencyProfile, PredictionInterval, Predictor};
use llmprof_theory::{
    Model, Precision, WeightFormat, Workload,
    device::{Device, schema::DeviceFile},
};
use llmprof_units::{DType, Nanos, stats::percentile};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::published_config;

const TIMES: &str = include_str!("../../../fixtures/cpu/native_times.json");

#[derive(Deserialize)]
struct Times {
    device: Value,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    model: String,
    split: String,
    layers: Option<u64>,
    batch: u64,
    prompt: u64,
    new_tokens: u64,
    weights: String,
    ttft_ms: f64,
    tpot_ms: f64,
}

/// A time beside its prediction.
struct Graded {
    split: String,
    phase: usize,
    ratio: f64,
    interval: Option<PredictionInterval>,
    measured: Nanos,
    half_width: f64,
}

fn times() -> Times {
    serde_json::from_str(TIMES).expect("valid JSON")
}

fn device(times: &Times) -> Device {
    let file = DeviceFile::parse_text(&times.device.to_string(), "native_times.json").unwrap();
    file.to_device("native_times.json").unwrap()
}

fn model(row: &Row) -> Model {
    let mut config = published_config(&row.model);
    if let Some(layers) = row.layers {
        config["num_hidden_layers"] = json!(layers);
    }
    Model::from_config(&config, None).unwrap()
}

fn workload(row: &Row) -> Workload {
    let (dtype, weights) = match row.weights.as_str() {
        "f32" => (DType::F32, None),
        "bf16" => (DType::Bf16, None),
        other => (DType::Bf16, Some(other.parse::<WeightFormat>().unwrap())),
    };
    Workload {
        batch: row.batch,
        prompt: row.prompt,
        new_tokens: row.new_tokens,
        precision: Precision {
            activations: Some(dtype),
            weights,
            ..Precision::default()
        },
        ..Workload::default()
    }
}

fn graded(profile: &EfficiencyProfile) -> Vec<Graded> {
    let times = times();
    let device = device(&times);
    let mut all = Vec::new();
    for row in &times.rows {
        let model = model(row);
        let prediction = Predictor::new(&model, &device, profile)
            .predict(&workload(row))
            .unwrap();
        assert_eq!(prediction.calibration, Calibration::Measured);
        let both = [
            (row.ttft_ms, prediction.ttft_ns, prediction.ttft_interval),
            (
                row.tpot_ms,
                prediction.tpot_ns.unwrap(),
                prediction.tpot_interval,
            ),
        ];
        for (phase, (measured, predicted, interval)) in both.into_iter().enumerate() {
            let measured = Nanos::from_seconds(measured / 1e3);
            let width = interval.map_or(0.0, |interval| {
                interval.high_ns.seconds() - interval.low_ns.seconds()
            });
            all.push(Graded {
                split: row.split.clone(),
                phase,
                ratio: measured.seconds() / predicted.seconds(),
                interval,
                measured,
                half_width: width / 2.0 / predicted.seconds(),
            });
        }
    }
    all
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The spreads are those of the calibration models; the others only grade.
#[test]
fn spreads_are_those_of_the_calibration_models() {
    let profile = EfficiencyProfile::embedded("native").unwrap();
    let all = graded(&profile);
    let spreads = profile.spreads.unwrap();
    for (phase, spread) in [spreads.family.prefill, spreads.family.decode]
        .into_iter()
        .enumerate()
    {
        let of = |one: &&Graded| one.split == "calibration" && one.phase == phase;
        let ratios = sorted(all.iter().filter(of).map(|one| one.ratio));
        assert!(ratios.len() >= 16);
        let (low, high) = (percentile(&ratios, 0.05), percentile(&ratios, 0.95));
        assert!(
            (low - spread.low).abs() < 0.01 && (high - spread.high).abs() < 0.01,
            "phase {phase}: {low:.3} to {high:.3}, written {spread:?}"
        );
    }
}

#[test]
fn held_out_models_lie_in_their_intervals() {
    let all = graded(&EfficiencyProfile::embedded("native").unwrap());
    let held_out: Vec<_> = all.iter().filter(|one| one.split == "grading").collect();
    assert!(held_out.len() >= 40);
    let inside = held_out.iter().filter(|one| {
        one.interval
            .is_some_and(|interval| (interval.low_ns..=interval.high_ns).contains(&one.measured))
    });
    let share = inside.count() as f64 / held_out.len() as f64;
    let errors = sorted(held_out.iter().map(|one| (1.0 / one.ratio - 1.0).abs()));
    let halves = sorted(held_out.iter().map(|one| one.half_width));
    let (median, p90) = (percentile(&errors, 0.5), percentile(&errors, 0.9));
    let half = percentile(&halves, 0.5);
    println!("median {median:.3}, p90 {p90:.3}, in interval {share:.3}, half-width {half:.3}");
    assert!(
        median < 0.25 && (0.8..=1.0).contains(&share),
        "{median} {share}"
    );
}

/// Data sheets say nothing of what the engine reaches.
#[test]
fn a_cpu_that_was_not_measured_has_no_interval() {
    let times = times();
    let mut device = device(&times);
    device.calibration = None;
    let row = &times.rows[0];
    let (model, profile) = (model(row), EfficiencyProfile::embedded("native").unwrap());
    let prediction = Predictor::new(&model, &device, &profile)
        .predict(&workload(row))
        .unwrap();
    assert_eq!(prediction.calibration, Calibration::Efficiencies);
    assert_eq!(
        (prediction.ttft_interval, prediction.tpot_interval),
        (None, None)
    );
}
