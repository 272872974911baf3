//! Benches of a server shift predictions: the fit recovers the known factors by which a server's step times differ from the predicted ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{EfficiencyProfile, parallel::ParallelModel};
use llmprof_simulate::{
    RequestLoad, Settings, SimulatedLoad,
    plan::served::BenchedServer,
    predicted::Predicted,
    shift::{Bench, Medians, Shift, ShiftError},
    simulate_load,
};
use llmprof_theory::{
    Model, Step, Workload,
    device::{Catalog, Device},
};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::Nanos;

const REQUESTS: usize = 120;
/// Far more than the requests of a bench need.
const KV_BLOCKS: u64 = 20_000;

fn model() -> Model {
    let path = "/../theory/tests/data/models/llama3_1_8b.json";
    let text = std::fs::read_to_string([env!("CARGO_MANIFEST_DIR"), path].concat()).unwrap();
    Model::from_config(&serde_json::from_str(&text).unwrap(), None).unwrap()
}

fn device() -> Device {
    Catalog::embedded().by_name("h100_sxm").unwrap()
}

fn loads() -> Vec<RequestLoad> {
    let load = |arrivals: Arrivals, prompt: u64, output: u64| {
        let [prompt, output] = [prompt, output].map(|tokens| Lengths::Fixed { tokens });
        RequestLoad::from_lengths(&arrivals, &prompt, &output, 0, REQUESTS, 3)
    };
    vec![
        load(Arrivals::Poisson { rate: 4.0 }, 1024, 128),
        load(Arrivals::Closed { concurrency: 16 }, 512, 64),
        load(Arrivals::Closed { concurrency: 4 }, 2048, 32),
    ]
}

/// What a server whose steps take so many times as long as predicted would have been measured to do.
fn benches(truth: &[Shift]) -> Vec<Bench> {
    let (model, device) = (model(), device());
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let workload = Workload::default();
    let spread = ParallelModel::new(&model, &device, workload.parallel).unwrap();
    let predictor = spread.rank_predictor(&device, &profile);
    let predict = |step: &Step| spread.predict_step(&predictor, &workload, step);
    let settings = Settings {
        max_num_batched_tokens: 8192,
        max_num_seqs: 256,
        kv_blocks: KV_BLOCKS,
        ..Settings::default()
    };
    let served = loads().into_iter().zip(truth).map(|(load, shift)| {
        let time = Predicted::new(&predict, Nanos(0))
            .unwrap()
            .with_shift(*shift);
        let outcome = simulate_load(&load, &settings, &time).unwrap();
        let summary = SimulatedLoad::of_outcomes(&[outcome], KV_BLOCKS, &[]);
        Bench {
            name: format!("{} requests", load.requests.len()),
            load,
            measured: Medians {
                ttft_ms: summary.figures.ttft_ms.unwrap().p50,
                tpot_ms: Some(summary.figures.tpot_ms.unwrap().p50),
            },
        }
    });
    served.collect()
}

fn fitted(
    benches: &[Bench],
) -> Result<
    llmprof_simulate::shift::ShiftFit,
    ShiftError<llmprof_simulate::plan::served::ServerError>,
> {
    let server = BenchedServer {
        model: &model(),
        device: &device(),
        profile: &EfficiencyProfile::embedded("vllm").unwrap(),
        workload: Workload::default(),
        gpu_memory_utilization: 0.9,
        block_size: 16,
    };
    server.shift_by(benches)
}

#[test]
fn known_factors_are_found_and_little_error_is_left() {
    let truth = Shift {
        prefill: 1.6,
        decode: 0.8,
    };
    let fit = fitted(&benches(&[truth; 3])).unwrap();
    assert!((fit.shift.prefill / 1.6 - 1.0).abs() < 0.03, "{fit:?}");
    assert!((fit.shift.decode / 0.8 - 1.0).abs() < 0.03, "{fit:?}");
    let left = fit.left_out_error.unwrap();
    assert!(left.ttft.worst < 0.05, "{fit:?}");
    assert!(left.tpot.unwrap().worst < 0.03, "{fit:?}");
    assert!(fit.predicted_error.ttft.median > 0.2, "{fit:?}");
}

/// One bench of a server that was disturbed: those without it say how far it is off.
#[test]
fn benches_that_disagree_leave_an_error() {
    let plain = Shift::default();
    let slow = Shift {
        decode: 1.5,
        ..plain
    };
    let fit = fitted(&benches(&[plain, plain, slow])).unwrap();
    let left = fit.left_out_error.unwrap().tpot.unwrap();
    // 1 ÷ 1.5 of what was measured.
    assert!((left.worst - 1.0 / 3.0).abs() < 0.05, "{fit:?}");
}

#[test]
fn one_bench_states_no_error() {
    let truth = Shift {
        prefill: 1.0,
        decode: 1.2,
    };
    let fit = fitted(&benches(&[truth])).unwrap();
    assert!((fit.shift.decode / 1.2 - 1.0).abs() < 0.02, "{fit:?}");
    assert!(fit.left_out_error.is_none() && fit.benches[0].left_out.is_none());
}

#[test]
fn another_server_is_refused() {
    let mut benches = benches(&[Shift::default()]);
    benches[0].measured.tpot_ms = Some(2000.0);
    let fit = fitted(&benches);
    assert!(
        matches!(
            fit,
            Err(ShiftError::TooFar {
                phase: "decode",
                ..
            })
        ),
        "{fit:?}"
    );
    benches[0].load.requests[0].prompt = 10_000_000;
    assert!(matches!(fitted(&benches), Err(ShiftError::Simulation(_))));
}
