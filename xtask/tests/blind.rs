//! Models that were written down before anything was predicted of them, and measured on an H200 afterwards (fixtures/h200/kernels/blind_models.py).
//!
//! Each list was graded, and what it showed was mended, before the next was written down. Nothing is fitted to any of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, io::Read};

use flate2::read::GzDecoder;
use llmprof_predict::{EfficiencyProfile, predict_traced};
use llmprof_theory::{Workload, device::Catalog, kernels::TracedModel};
use llmprof_units::stats::percentile;
use serde::Deserialize;
use xtask::blind_grades;

const TRACED: &[u8] = include_bytes!("../../fixtures/h200/kernels/blind_traced.json.gz");

#[derive(Deserialize)]
struct Row {
    list: String,
    model: String,
    batch: u64,
    prompt: u64,
    prefill_ns: f64,
    decode_step_ns: f64,
    traced: TracedModel,
}

/// A predicted time beside a measured one.
#[derive(Clone, Debug)]
struct Time {
    list: String,
    model: String,
    error: f64,
    covered: bool,
    half_width: f64,
}

#[derive(Debug)]
struct Summary {
    times: usize,
    median: f64,
    p90: f64,
    coverage: f64,
    half_width: f64,
}

fn eager() -> EfficiencyProfile {
    EfficiencyProfile::embedded("hf_eager").expect("it is embedded")
}

fn rows() -> Vec<Row> {
    let mut text = String::new();
    GzDecoder::new(TRACED).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).expect("the fixture has this form")
}

fn traced() -> Vec<Time> {
    let rows = rows();
    let device = Catalog::embedded().by_name("h200").expect("it is embedded");
    let mut all = Vec::new();
    for row in &rows {
        let workload = Workload {
            batch: row.batch,
            prompt: row.prompt,
            new_tokens: 2,
            ..Workload::default()
        };
        let found = predict_traced(&row.traced, &device, &eager(), &workload).unwrap();
        for (predicted, interval, measured) in [
            (
                found.prefill_gpu_ns,
                found.prefill_gpu_interval,
                row.prefill_ns,
            ),
            (
                found.decode_step_gpu_ns,
                found.decode_step_gpu_interval,
                row.decode_step_ns,
            ),
        ] {
            let interval = interval.expect("a shape near what was measured");
            let (low, high) = (interval.low_ns.0 as f64, interval.high_ns.0 as f64);
            let predicted = predicted.0 as f64;
            all.push(Time {
                list: row.list.clone(),
                model: row.model.clone(),
                error: predicted / measured - 1.0,
                covered: (low..=high).contains(&measured),
                half_width: (high - low) / 2.0 / predicted,
            });
        }
    }
    all
}

fn of_families() -> Vec<Time> {
    let all = blind_grades(&eager()).unwrap();
    // Kernels of gated delta layers, and of attention other than the default, are traced.
    let traced: BTreeSet<String> = rows().into_iter().map(|row| row.model).collect();
    let known = all
        .iter()
        .filter(|grade| !grade.by_common_keys && !traced.contains(&grade.model));
    known
        .map(|grade| Time {
            list: grade.list.clone().expect("blind models are in a list"),
            model: grade.model.clone(),
            error: grade.error(),
            covered: grade.covered(),
            half_width: (grade.high_ns.seconds() - grade.low_ns.seconds())
                / 2.0
                / grade.predicted_ns.seconds(),
        })
        .collect()
}

fn summary(times: &[Time]) -> Summary {
    let sorted = |of: fn(&Time) -> f64| {
        let mut values: Vec<f64> = times.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let errors = sorted(|time| time.error.abs());
    Summary {
        times: times.len(),
        median: percentile(&errors, 0.5),
        p90: percentile(&errors, 0.9),
        coverage: times.iter().filter(|time| time.covered).count() as f64 / times.len() as f64,
        half_width: percentile(&sorted(|time| time.half_width), 0.5),
    }
}

fn of_list(times: &[Time], list: &str) -> Vec<Time> {
    let of = times.iter().filter(|time| time.list == list);
    of.cloned().collect()
}

#[test]
fn blind_models_meet_the_goal() {
    let (families, traced) = (of_families(), traced());
    for list in ["first", "second", "third", "fourth"] {
        let (families, traced) = (of_list(&families, list), of_list(&traced, list));
        for time in families.iter().chain(&traced) {
            println!(
                "{list} {}: {:+.1} %{}",
                time.model,
                time.error * 100.0,
                if time.covered { "" } else { " outside" }
            );
        }
        println!("{list}, families: {:?}", summary(&families));
        println!("{list}, traced: {:?}", summary(&traced));
        let all = summary(&[families, traced].concat());
        println!("{list}: {all:?}");
        assert!(all.times >= 100, "{all:?}");
        assert!(all.median <= 0.05 && all.p90 <= 0.15, "{all:?}");
        assert!((0.85..=0.95).contains(&all.coverage), "{all:?}");
        assert!(all.half_width <= 0.15, "{all:?}");
    }
}
