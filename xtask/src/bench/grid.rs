//! Prints how many predictions a second one core and two make: `cargo run --release -p xtask -- bench grid`.
//! Times are those that the thread spent on a core, where Linux tells, so that other work on the machine does not count.

use std::{
    fs,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use llmprof_predict::{EfficiencyProfile, Grid, GridModel};
use llmprof_theory::{Model, Precision, device::Catalog};
use serde_json::json;

/// Seconds that this thread has run; wall time where the system does not say.
fn thread_seconds() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let start = *START;
    fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

/// The fastest of some runs, in milliseconds of wall time: the clock of [`thread_seconds`] is too coarse for short ones.
fn fastest_ms<T>(mut run: impl FnMut() -> T) -> f64 {
    (0..30)
        .map(|_| {
            let started = Instant::now();
            std::hint::black_box(run());
            started.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min)
}

pub(super) fn run_bench() -> Result<(), Box<dyn std::error::Error>> {
    let catalog = Catalog::embedded();
    let device = catalog.by_driver_name("NVIDIA H200")?;
    println!(
        "one device by its driver's name: {:.2} ms",
        fastest_ms(|| Catalog::embedded().by_driver_name("NVIDIA H200"))
    );

    let qwen = json!({
        "model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151_936,
        "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    });
    let llama = json!({
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    });
    let mixtral = json!({
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
        "num_local_experts": 8, "num_experts_per_tok": 2, "torch_dtype": "bfloat16",
    });
    let model = |name: &str, config| -> Result<_, Box<dyn std::error::Error>> {
        Ok(GridModel {
            name: name.to_owned(),
            model: Model::from_config(&config, None)?,
        })
    };
    let profile = EfficiencyProfile::embedded("hf_eager")?;
    println!(
        "one efficiency profile: {:.2} ms",
        fastest_ms(|| EfficiencyProfile::embedded("hf_eager"))
    );

    let grid = Grid {
        models: vec![
            model("qwen2.5-0.5b", qwen)?,
            model("llama-3.1-8b", llama)?,
            model("mixtral-8x7b", mixtral)?,
        ],
        devices: vec![
            device,
            catalog.by_name("h100_sxm")?,
            catalog.by_name("mi300x")?,
            catalog.by_name("rtx_4090")?,
        ],
        precisions: vec![
            Precision::default(),
            Precision {
                weights: Some("int8".parse()?),
                ..Precision::default()
            },
        ],
        batches: (0..10).map(|power| 1 << power).collect(),
        prompts: (1..=25).map(|step| step * 160).collect(),
        new_tokens: (1..=20).map(|step| step * 50).collect(),
        ..Grid::default()
    };
    for threads in [1, 2] {
        let intervals = AtomicU64::new(0);
        let started = Instant::now();
        grid.run_on(threads, &profile, |point| {
            let has =
                matches!(&point.outcome, Ok(prediction) if prediction.tpot_interval.is_some());
            intervals.fetch_add(u64::from(has), Ordering::Relaxed);
        });
        let wall = started.elapsed().as_secs_f64();
        println!(
            "{threads} threads: {} points, {} with intervals, in {wall:.3} s of wall time: {:.0} points/s",
            grid.point_count(),
            intervals.load(Ordering::Relaxed),
            grid.point_count() as f64 / wall
        );
    }
    let started = thread_seconds();
    let mut predicted = 0u64;
    let mut fastest = 0f64;
    grid.visit_points(&profile, |point| {
        if let Ok(prediction) = &point.outcome {
            predicted += 1;
            fastest = fastest.max(prediction.tokens_per_s);
        }
    });
    let spent = thread_seconds() - started;
    let rate = grid.point_count() as f64 / spent;
    println!(
        "{} points ({predicted} predicted, fastest {fastest:.0} tokens/s) in {spent:.3} s: {rate:.0} points/s, {:.2} of the budget of 100,000",
        grid.point_count(),
        rate / 1e5
    );
    Ok(())
}
