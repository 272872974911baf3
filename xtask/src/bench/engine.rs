//! Prints how near the engine comes to the machine: decode against memory bandwidth, prefill against multiply-adds on
//! registers, quantized weights against bf16, the price of an event.
//!
//!     cargo run --release -p xtask -- bench engine [CONFIG.json [quantized]]
//!
//! The model is Qwen2.5-0.5B with made-up weights (988 MB in bf16, 1,976 MB in f32) unless a config is named. Each ratio
//! compares the best of several runs that alternate with those of its yardstick, so that a busy machine disturbs both.
//! With torch in `LLMPROF_PYTHON` (default: `.venv/bin/python`) the same model runs there in eager mode.

use std::{error::Error, hint::black_box, path::PathBuf, process::Command, time::Instant};

use llmprof_engine::{
    EngineOptions, NativeEngine, Recorder, WeightSource,
    cpu_bench::{MemoryPattern, fma_peak, measure_bandwidth},
};
use llmprof_theory::device::Engine as Units;
use llmprof_theory::{Logits, Model, Pass, Span, Workload};
use llmprof_units::DType;
use rustix::time::{ClockId, clock_gettime};

const PROMPT: usize = 512;
const DECODE_STEPS: usize = 8;
const ROUNDS: usize = 6;
/// Larger than the last cache of this class of machines.
const READ_BYTES: usize = 1 << 30;

pub(super) fn run_bench(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let config = arguments.first().map_or_else(
        || {
            PathBuf::from(env!("CARGO_MANIFEST_DIR"))
                .join("../crates/theory/tests/data/models/qwen2_5_0_5b.json")
        },
        PathBuf::from,
    );
    let model = Model::from_config(&serde_json::from_slice(&std::fs::read(&config)?)?, None)?;
    println!(
        "model {}, {} parameters",
        config.display(),
        model.parameter_count()
    );
    // `quantized` alone takes a tenth of the time.
    let is_short = arguments.get(1) == Some(&"quantized");
    for dtype in [DType::Bf16, DType::F32].into_iter().filter(|_| !is_short) {
        measure_engine(&model, dtype)?;
    }
    measure_quantized(&config)?;
    if !is_short {
        price_of_an_event();
        measure_torch(&config);
    }
    Ok(())
}

/// Time that all threads of this process have computed. On a machine that others use as well, work per second of it is
/// the fairer measure.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn measure_engine(model: &Model, dtype: DType) -> Result<(), Box<dyn Error>> {
    let options = EngineOptions {
        weights: Some(dtype),
        ..EngineOptions::default()
    };
    let start = Instant::now();
    let engine = NativeEngine::load(model, &WeightSource::Dummy { seed: 1 }, options)?;
    let filled = start.elapsed().as_secs_f64();
    let workload = Workload {
        prompt: PROMPT as u64,
        precision: engine.theory_precision(),
        ..Workload::default()
    };
    let bytes = model.parameter_bytes(&workload.precision);
    println!(
        "\n{dtype}: {:.0} MB of weights filled in {filled:.2} s, {} threads, {}",
        bytes as f64 / 1e6,
        engine.thread_count(),
        engine.instruction_set()
    );
    let threads = engine.thread_count();
    let mut cache = engine.new_cache(1, PROMPT + ROUNDS * DECODE_STEPS)?;
    let off = &mut Recorder::off();
    let prompt: Vec<u32> = (0..PROMPT as u32).collect();

    let (mut prefill, mut worked) = (f64::INFINITY, f64::INFINITY);
    let (mut peak, mut peak_of_one) = (0.0f64, 0.0f64);
    for _ in 0..ROUNDS {
        cache.clear_tokens();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        engine.prefill(&mut cache, &[&prompt], Some(Logits::Last), off)?;
        prefill = prefill.min(start.elapsed().as_secs_f64());
        worked = worked.min(cpu_seconds() - cpu);
        for (threads, peak) in [(threads, &mut peak), (1, &mut peak_of_one)] {
            let peak_flops = fma_peak((DType::F32, Units::Vector), threads, 20)?
                .expect("f32 has multiply-adds everywhere");
            *peak = peak.max(peak_flops.flops_per_second);
        }
    }
    let flops = model.cost_span(&workload, Span::Prefill).tensor.total() as f64;
    println!(
        "  prefill of {PROMPT}: {prefill:.3} s, {:.1} GFLOP/s ÷ {:.1} of a register-only loop = {:.2}; by CPU time {:.2}",
        flops / prefill / 1e9,
        peak / 1e9,
        flops / prefill / peak,
        flops / worked / peak_of_one
    );

    let (mut step, mut read) = (f64::INFINITY, 0.0f64);
    let mut traffic = 0.0;
    for _ in 0..ROUNDS {
        for _ in 0..DECODE_STEPS {
            let past = cache.lengths()[0] as u64;
            let start = Instant::now();
            engine.decode_step(&mut cache, &[7], off)?;
            let took = start.elapsed().as_secs_f64();
            if took < step {
                step = took;
                let cost = model.cost_of(&workload, &Pass::decode_steps(1, past, 1));
                traffic = (cost.traffic.weights + cost.traffic.kv_read) as f64;
            }
        }
        let measured = measure_bandwidth(MemoryPattern::Read, threads, READ_BYTES, 2)?;
        read = read.max(measured.bytes_per_second);
    }
    println!(
        "  decode: {:.2} ms a token ({:.1} tokens/s), {:.1} GB/s ÷ {:.1} read = {:.2}",
        step * 1e3,
        1.0 / step,
        traffic / step / 1e9,
        read / 1e9,
        traffic / step / read
    );
    Ok(())
}

/// A decode step of the layers alone (a vocabulary of 256) on one thread, by the format of their weights: what a narrower format saves.
fn measure_quantized(config: &std::path::Path) -> Result<(), Box<dyn Error>> {
    println!("\ndecode step of the layers, one thread, CPU time:");
    let mut design: serde_json::Value = serde_json::from_slice(&std::fs::read(config)?)?;
    design["vocab_size"] = 256.into();
    let model = Model::from_config(&design, None)?;
    let formats = [None, Some("int8"), Some("int8_g128"), Some("int4_g128")];
    let mut engines = Vec::new();
    for format in formats {
        let options = EngineOptions {
            weights: Some(DType::Bf16),
            quantized: format.map(str::parse).transpose()?,
            threads: Some(1),
        };
        engines.push(NativeEngine::load(
            &model,
            &WeightSource::Dummy { seed: 1 },
            options,
        )?);
    }
    let mut best = vec![f64::INFINITY; formats.len()];
    for _ in 0..ROUNDS {
        for (best, engine) in best.iter_mut().zip(&engines) {
            let mut cache = engine.new_cache(1, DECODE_STEPS)?;
            for _ in 0..DECODE_STEPS {
                let start = cpu_seconds();
                engine.decode_step(&mut cache, &[7], &mut Recorder::off())?;
                *best = best.min(cpu_seconds() - start);
            }
        }
    }
    let bytes: Vec<f64> = engines
        .iter()
        .map(|engine| model.parameter_bytes(&engine.theory_precision()) as f64)
        .collect();
    for (place, format) in formats.iter().enumerate() {
        println!(
            "  {}: {:.0} MB in {:.2} ms, {:.1} GB/s; time ÷ that of bf16 {:.2}, bytes ÷ those of bf16 {:.2}",
            format.unwrap_or("bf16"),
            bytes[place] / 1e6,
            best[place] * 1e3,
            bytes[place] / best[place] / 1e9,
            best[place] / best[0],
            bytes[place] / bytes[0]
        );
    }
    Ok(())
}

/// The time that recording adds to an operator that takes none.
fn price_of_an_event() {
    const EVENTS: usize = 100_000;
    let mut best = f64::INFINITY;
    let mut recorder = Recorder::with_capacity(EVENTS);
    for _ in 0..20 {
        recorder.clear_events();
        let start = Instant::now();
        for event in 0..EVENTS {
            let begun = recorder.start_operator();
            recorder.end_operator(event as u32, begun, black_box([1, 2, 3, 4]));
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("\nrecording: {:.0} ns an event", best / EVENTS as f64 * 1e9);
}

const SCRIPT: &str = r#"
import sys, json, time, torch, transformers
transformers.logging.set_verbosity_error()
entry = json.load(open(sys.argv[1])); prompt = int(sys.argv[2])
config = transformers.AutoConfig.for_model(entry.pop("model_type"), **entry)
for dtype in (torch.bfloat16, torch.float32):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=dtype).eval()
    prefill = step = 1e9
    with torch.no_grad():
        for _ in range(3):
            cache = transformers.DynamicCache(config=config)
            t = time.perf_counter()
            model(torch.arange(prompt)[None], past_key_values=cache, logits_to_keep=1)
            prefill = min(prefill, time.perf_counter() - t)
        for _ in range(16):
            t = time.perf_counter()
            model(torch.tensor([[7]]), past_key_values=cache)
            step = min(step, time.perf_counter() - t)
    print(f"  {dtype}: prefill of {prompt} {prefill:.3f} s, decode {step * 1e3:.2f} ms a token ({1 / step:.1f} tokens/s)")
    del model
"#;

fn measure_torch(config: &std::path::Path) {
    let python = std::env::var_os("LLMPROF_PYTHON").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python"),
        PathBuf::from,
    );
    let output = Command::new(&python)
        .args(["-c", SCRIPT])
        .arg(config)
        .arg(PROMPT.to_string())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            println!(
                "\ntorch, eager:\n{}",
                String::from_utf8_lossy(&output.stdout).trim_end()
            );
        }
        _ => println!("\ntorch is not at hand; `LLMPROF_PYTHON` may name a Python that has it"),
    }
}
