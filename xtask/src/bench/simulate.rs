//! How long a million requests take: `cargo run --release -p xtask -- bench simulate [REQUESTS]`.

use std::time::Instant;

use llmprof_predict::{EfficiencyProfile, Predictor};
use llmprof_simulate::{RequestLoad, Settings, SimulatedLoad, predicted::Predicted, simulate_load};
use llmprof_theory::{Model, Step, Workload, device::Catalog};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::Nanos;

/// Seconds that a million requests may take.
const BUDGET_S: f64 = 10.0;

pub(super) fn run_bench(arguments: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let count = match arguments.first() {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let design = include_str!("../../../crates/theory/tests/data/models/llama3_1_8b.json");
    let model = Model::from_config(&serde_json::from_str(design)?, None)?;
    let device = Catalog::embedded().by_name("h200")?;
    let profile = EfficiencyProfile::embedded("vllm")?;
    let predictor = Predictor::new(&model, &device, &profile);
    let workload = Workload::default();
    let predict = |step: &Step| predictor.predict_step(&workload, step);
    for rate in [5.0, 20.0, 30.0] {
        let time = Predicted::new(&predict, Nanos(0))?;
        let started = Instant::now();
        let load = RequestLoad::from_lengths(
            &Arrivals::Poisson { rate },
            &Lengths::Fixed { tokens: 512 },
            &Lengths::Fixed { tokens: 128 },
            0,
            count,
            1,
        );
        let settings = Settings {
            kv_blocks: 40_000,
            ..Settings::default()
        };
        let outcome = simulate_load(&load, &settings, &time)?;
        let summary = SimulatedLoad::of_outcomes(
            &[outcome],
            settings.kv_blocks,
            &["ttft:p99<500ms".parse()?],
        );
        let seconds = started.elapsed().as_secs_f64();
        let verdict = if seconds <= BUDGET_S * count as f64 / 1e6 {
            "within"
        } else {
            "beyond"
        };
        println!(
            "{count} requests (512 in, 128 out) at {rate}/s: {seconds:.2} s, {verdict} the budget of {BUDGET_S} s a million; {} steps, \
             mean batch {:.1}, TTFT p99 {:.1} ms, TPOT p50 {:.2} ms",
            summary.steps,
            summary.running.mean,
            summary.figures.ttft_ms.map_or(f64::NAN, |d| d.p99),
            summary.figures.tpot_ms.map_or(f64::NAN, |d| d.p50),
        );
    }
    Ok(())
}
