//! Rooflines and predictions: sound against what was measured, and consistent with themselves.

use llmprof_predict::{
    Calibration, EfficiencyProfile, Grid, GridModel, KernelCurves, MeasuredRun, MeasuredStep,
    PredictError, PredictionTarget, Predictor,
};
use llmprof_theory::{
    Model, Precision, Step, WeightFormat, Workload,
    device::Device,
    kernels::KernelClass,
    roofline::{MemoryLevel, PhaseRoofline, Resource, Roof, Rooflines},
};
use llmprof_units::{DType, Nanos};
use serde_json::json;

use crate::support::{embedded_device, published_model};

fn qwen() -> Model {
    let config = json!({
        "model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151_936,
        "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    });
    Model::from_config(&config, None).expect("a valid config")
}

fn llama_8b() -> Model {
    let config = json!({
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    });
    Model::from_config(&config, None).expect("a valid config")
}

fn workload(prompt: u64, new_tokens: u64, batch: u64) -> Workload {
    Workload {
        prompt,
        new_tokens,
        batch,
        ..Workload::default()
    }
}

/// Device times on the H200: sums of a Kineto trace's kernels.
const MEASURED_DECODE: Nanos = Nanos(2_049_643);
const MEASURED_PREFILL: Nanos = Nanos(2_694_063);

#[test]
fn the_roofline_time_does_not_exceed_what_an_h200_took() {
    let (model, h200) = (qwen(), embedded_device("h200"));
    let rooflines =
        Rooflines::of_workload(&Roof::new(&h200), &model, &workload(128, 2, 1)).unwrap();
    assert!(rooflines.decode_step.roofline_ns < MEASURED_DECODE);
    assert!(rooflines.prefill.roofline_ns < MEASURED_PREFILL);
    // By hand: 494,032,768 bf16 weights once (tied, the embedding as head) at 4.8 TB/s is 205.85 µs; the KV cache of 128
    // tokens adds 24 layers × 2 × 128 values × 2 bytes × 128 tokens = 1.57 MB, 0.33 µs.
    let step = &rooflines.decode_step;
    let micros = step.roofline_ns.micros();
    assert!((206.0..207.5).contains(&micros), "{micros}");
    assert_eq!(step.binds, Resource::Memory);
    assert_eq!(step.memory_level, MemoryLevel::Main);
    // 989.4 TFLOP/s ÷ 4.8 TB/s.
    assert!((step.ridge.unwrap() - 206.1).abs() < 0.1);
    assert!((0.9..1.1).contains(&step.intensity.unwrap()));
    for phase in [
        &rooflines.prefill,
        &rooflines.decode_step,
        rooflines.decode.as_ref().unwrap(),
    ] {
        assert!(phase.whole_ns <= phase.roofline_ns);
        assert!(phase.vector_peaks_missing.is_empty());
    }
}

#[test]
fn long_prompts_are_bound_by_matrix_units() {
    let (model, h200) = (llama_8b(), embedded_device("h200"));
    let roof = Roof::new(&h200);
    let rooflines = Rooflines::of_workload(&roof, &model, &workload(4096, 2, 1)).unwrap();
    assert_eq!(rooflines.prefill.binds, Resource::Tensor);
    // 2 FLOP for each of 6.98 G weights in the layers and each token, over 989.4 TFLOP/s: 57.8 ms, and attention.
    let millis = rooflines.prefill.roofline_ns.millis();
    assert!((57.8..64.0).contains(&millis), "{millis}");
}

#[test]
fn the_host_decides_a_small_decode_step() {
    let eager = EfficiencyProfile::embedded("hf_eager").unwrap();
    // The host: the quickest of the unprofiled steps took 20 µs for each of their kernels.
    let (model, h200) = (qwen(), embedded_device("h200"));
    let hosted = Predictor::new(&model, &h200, &eager)
        .predict(&workload(128, 32, 1))
        .unwrap();
    assert!(
        (16.0..25.0).contains(&hosted.tpot_ns.unwrap().millis()),
        "{hosted:?}"
    );
    assert_eq!(hosted.decode_step.binds, Resource::Host);
    // The trace holds 1006 kernels in a step.
    assert!(
        (950..1060).contains(&hosted.decode_step.kernels),
        "{}",
        hosted.decode_step.kernels
    );
}

#[test]
fn predictions_are_never_below_rooflines_and_parts_sum_up() {
    let (models, names) = (
        [qwen(), llama_8b()],
        ["h200", "rtx_4090", "mi300x", "apple_m3_max"],
    );
    for profile in EfficiencyProfile::names() {
        let profile = EfficiencyProfile::embedded(profile).unwrap();
        for (model, name) in models.iter().flat_map(|m| names.map(|name| (m, name))) {
            let device = embedded_device(name);
            let roof = Roof::new(&device);
            for (prompt, batch) in [(1, 1), (128, 1), (2048, 8), (32_768, 64)] {
                let mut workload = workload(prompt, 16, batch);
                if let Some(dtype) = profile.computes {
                    workload.precision = Precision {
                        weights: Some(WeightFormat::Plain(model.dtype)),
                        activations: Some(dtype),
                        kv: Some(dtype),
                        compute: Some(dtype),
                        ..Precision::default()
                    };
                }
                let rooflines = Rooflines::of_workload(&roof, model, &workload).unwrap();
                let prediction = Predictor::new(model, &device, &profile)
                    .predict(&workload)
                    .unwrap();
                let pairs = [
                    (&rooflines.prefill, prediction.prefill),
                    (&rooflines.decode_step, prediction.decode_step),
                    (
                        rooflines.decode.as_ref().unwrap(),
                        prediction.decode.unwrap(),
                    ),
                ];
                for (roofline, phase) in pairs {
                    assert!(
                        (roofline.roofline_ns.0 - phase.roofline_ns.0).abs()
                            <= 1 + roofline.roofline_ns.0 / 1_000_000
                    );
                    assert!(
                        phase.device_ns >= phase.roofline_ns,
                        "{name} {prompt} {batch}: {phase:?}"
                    );
                    let parts =
                        phase.tensor_ns + phase.vector_ns + phase.memory_ns + phase.launch_ns;
                    assert!((parts.0 - phase.device_ns.0).abs() <= 4);
                    assert!(phase.moved_bytes >= phase.min_dram_bytes || profile.name == "fused");
                    assert_eq!(phase.flops, roofline.flops);
                }
                assert_eq!(
                    prediction.total_ns,
                    prediction.ttft_ns + prediction.decode.unwrap().time_ns
                );
            }
        }
    }
}

#[test]
fn formats_decide_and_missing_ones_are_named() {
    let (model, h200, a100) = (
        llama_8b(),
        embedded_device("h200"),
        embedded_device("a100_sxm_80gb"),
    );
    let fused = EfficiencyProfile::embedded("fused").unwrap();
    let quantized = |weights: &str, compute| {
        let mut workload = workload(512, 64, 1);
        workload.precision = Precision {
            weights: Some(weights.parse::<WeightFormat>().unwrap()),
            compute,
            ..Precision::default()
        };
        workload
    };
    let tpot = |device: &Device, workload: &Workload| {
        Predictor::new(&model, device, &fused)
            .predict(workload)
            .map(|prediction| prediction.tpot_ns.unwrap())
    };
    let bf16 = tpot(&h200, &workload(512, 64, 1)).unwrap();
    let fp8 = tpot(&h200, &quantized("fp8", None)).unwrap();
    assert!(fp8 < bf16 && fp8.0 * 2 > bf16.0, "{fp8} {bf16}");
    // 8-bit weights that are multiplied in bf16 need no fp8 units; fp8 products do.
    assert!(tpot(&a100, &quantized("fp8", Some(DType::Bf16))).is_ok());
    let error = tpot(&a100, &quantized("fp8", Some(DType::F8E4m3))).unwrap_err();
    assert!(matches!(&error, PredictError::MissingPeak(missing) if missing.dtype == DType::F8E4m3));
    assert!(error.to_string().contains("a100_sxm_80gb"), "{error}");

    // No maker's rate for vector work: a roofline still, with the gap named.
    let tpu = embedded_device("tpu_v5e");
    let roofline = PhaseRoofline::of_pass(
        &Roof::new(&tpu),
        &model,
        &workload(512, 64, 1),
        &model.decode_step(&workload(512, 64, 1)),
    )
    .unwrap();
    assert_eq!(roofline.vector_peaks_missing, [DType::Bf16]);
}

#[test]
fn weights_that_fit_on_the_chip_need_no_main_memory() {
    let config = json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256, "torch_dtype": "bfloat16",
    });
    let model = Model::from_config(&config, None).unwrap();
    let xeon = embedded_device("xeon_8480");
    let rooflines = Rooflines::of_workload(&Roof::new(&xeon), &model, &workload(8, 4, 1)).unwrap();
    assert_eq!(rooflines.decode_step.memory_level, MemoryLevel::OnChip);
    assert_eq!(rooflines.decode_step.memory_ns, Nanos(0));
}

#[test]
fn memory_is_weights_and_the_cache_after_the_last_token() {
    let (model, rtx) = (llama_8b(), embedded_device("rtx_4090"));
    let fused = EfficiencyProfile::embedded("fused").unwrap();
    let predictor = Predictor::new(&model, &rtx, &fused);
    let fit = predictor.predict(&workload(1000, 24, 2)).unwrap().memory;
    // 8,030,261,248 parameters of 2 bytes; 2 sequences × 1023 tokens × 32 layers × 2 × 8 heads × 128 × 2 bytes: the last
    // token generated is never fed back.
    assert_eq!(fit.weights_bytes.0, 16_060_522_496);
    assert_eq!(fit.kv_bytes.0, 2 * 1023 * 32 * 2 * 8 * 128 * 2);
    assert_eq!(fit.fits, Some(true));
    let only_prefill = predictor.predict(&workload(1023, 1, 2)).unwrap().memory;
    assert_eq!(only_prefill.kv_bytes, fit.kv_bytes);
    let fit = predictor.predict(&workload(32_000, 2, 4)).unwrap().memory;
    assert_eq!(fit.fits, Some(false));
}

#[test]
fn targets_say_what_they_need() {
    let (model, h200) = (llama_8b(), embedded_device("h200"));
    let fused = EfficiencyProfile::embedded("fused").unwrap();
    let prediction = Predictor::new(&model, &h200, &fused)
        .predict(&workload(4096, 64, 1))
        .unwrap();
    let target = PredictionTarget {
        ttft_ns: Some(Nanos(1_000_000_000)),
        tpot_ns: Some(Nanos(1_000_000)),
    };
    let ttft = prediction.ttft_need(&target).unwrap();
    assert!(ttft.met);
    assert_eq!(ttft.flops_per_s.0, prediction.prefill.flops.0 as f64);
    let tpot = prediction.tpot_need(&target).unwrap();
    assert!(!tpot.met);
    // 15 GB of weights in a millisecond.
    assert!(
        (15e12..16.5e12).contains(&tpot.bytes_per_s.0),
        "{}",
        tpot.bytes_per_s
    );
    assert!(prediction.tpot_need(&PredictionTarget::default()).is_none());
    let absurd = PredictionTarget {
        ttft_ns: Some(Nanos(0)),
        tpot_ns: None,
    };
    assert!(prediction.ttft_need(&absurd).is_none());
}

#[test]
fn grids_visit_every_combination_and_keep_going_past_errors() {
    let fp8 = Precision {
        weights: Some("fp8".parse().unwrap()),
        compute: Some(DType::F8E4m3),
        ..Precision::default()
    };
    let grid = Grid {
        models: vec![
            GridModel {
                name: "qwen".to_owned(),
                model: qwen(),
            },
            GridModel {
                name: "llama".to_owned(),
                model: llama_8b(),
            },
        ],
        devices: vec![embedded_device("h200"), embedded_device("a100_sxm_80gb")],
        precisions: vec![Precision::default(), fp8],
        batches: vec![1, 8, 0],
        prompts: vec![128],
        ..Grid::default()
    };
    let mut points = 0;
    let mut failed = 0;
    let mut seen = std::collections::BTreeSet::new();
    let profile = EfficiencyProfile::embedded("fused").unwrap();
    grid.visit_points(&profile, |point| {
        points += 1;
        seen.insert(format!(
            "{}{}{:?}",
            point.model, point.device.name, point.workload
        ));
        match &point.outcome {
            Ok(prediction) => assert!(prediction.tokens_per_s > 0.0),
            Err(PredictError::MissingPeak(missing)) => {
                assert_eq!(missing.device, "a100_sxm_80gb");
                failed += 1;
            }
            Err(PredictError::Workload(_)) => assert_eq!(point.workload.batch, 0),
            Err(error) => panic!("both models have a family: {error}"),
        }
    });
    assert_eq!(points, grid.point_count());
    assert_eq!(points, 24);
    let together = std::sync::Mutex::new(std::collections::BTreeSet::new());
    grid.run_on(3, &profile, |point| {
        let name = format!("{}{}{:?}", point.model, point.device.name, point.workload);
        assert!(together.lock().unwrap().insert(name));
    });
    assert_eq!(together.into_inner().unwrap(), seen);
    assert_eq!(seen.len(), 24);
    assert_eq!(failed, 4);
}

#[test]
fn bad_profiles_are_refused_by_key() {
    let text = include_str!("../data/efficiencies/fused.yaml");
    for (from, to, expected) in [
        ("compute: 0.75", "compute: 0", "kinds.linear.compute"),
        ("compute: 0.75", "compute: .nan", "kinds.linear.compute"),
        ("compute: 0.75", "compute: 1.5", "kinds.linear.compute"),
        ("kernel_us: 6", "kernel_us: -6", "kinds.attention.kernel_us"),
        ("source: gemm }", "source: hearsay }", "kinds.linear.source"),
        ("  route:", "  rout:", "rout"),
        ("title:", "tittle:", "tittle"),
    ] {
        assert!(text.contains(from), "{from}");
        let error =
            EfficiencyProfile::parse_text(&text.replacen(from, to, 1), "mine.yaml").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("mine.yaml") && error.contains(expected),
            "{error}"
        );
    }
    let error = EfficiencyProfile::embedded("vlm").unwrap_err().to_string();
    assert!(
        error.contains("fused") && error.contains("hf_eager"),
        "{error}"
    );
}

/// Kernels of a decode step in recorded runs: Qwen2.5-0.5B and 7B, batch 1, prompt 128, 16 new tokens (fixtures/h200/runs/counts.json).
/// GEMM libraries add reductions and clears of their own; how many, the eager run of the same model tells.
#[test]
fn kernels_of_captured_steps_are_counted() {
    let text = include_str!("../../../fixtures/h200/runs/counts.json");
    let counts: serde_json::Value = serde_json::from_str(text).unwrap();
    let recorded = |run: &str| {
        let decode = &counts[run]["decode"];
        let steps = decode["steps"].as_f64().unwrap();
        let per_step = |key: &str| decode[key].as_f64().unwrap() / steps;
        (per_step("kernels"), per_step("sum_ns"))
    };
    let device = embedded_device("h200");
    let predicted = |model: &str, profile: &str| {
        let model = published_model(model);
        let profile = EfficiencyProfile::embedded(profile).unwrap();
        let predictor = Predictor::new(&model, &device, &profile);
        predictor.predict(&workload(128, 16, 1)).unwrap()
    };
    for (run, eager, model, profile) in [
        ("graph05", "eager05", "qwen2_5_0_5b", "hf_graph"),
        ("graph7", "eager7", "qwen2_5_7b", "hf_graph"),
        ("compile05", "eager05", "qwen2_5_0_5b", "torch_compile"),
    ] {
        let helpers = recorded(eager).0 - predicted(model, "hf_eager").decode_step.kernels as f64;
        assert!((0.0..160.0).contains(&helpers), "{eager}: {helpers}");
        let prediction = predicted(model, profile);
        let (kernels, device_ns) = recorded(run);
        let off = (prediction.decode_step.kernels as f64 + helpers) / kernels - 1.0;
        assert!(off.abs() < 0.02, "{run}: kernels {off:+.3} of {kernels}");
        let time = prediction.decode_step_gpu_ns.0 as f64 / device_ns - 1.0;
        assert!(time.abs() < 0.1, "{run}: GPU time {time:+.3}");
    }
}

/// TPOT without a profiler in the same runs.
#[test]
fn captured_steps_take_what_unprofiled_runs_took() {
    for (model, profile, tpot_ms) in [
        ("qwen2_5_0_5b", "hf_graph", 2.871),
        ("qwen2_5_7b", "hf_graph", 7.027),
        ("qwen2_5_0_5b", "torch_compile", 1.636),
    ] {
        let published = published_model(model);
        let profile_ = EfficiencyProfile::embedded(profile).unwrap();
        let device = embedded_device("h200");
        let predictor = Predictor::new(&published, &device, &profile_);
        let prediction = predictor.predict(&workload(128, 16, 1)).unwrap();
        let off = prediction.tpot_ns.unwrap().millis() / tpot_ms - 1.0;
        assert!(off.abs() < 0.1, "{model} {profile}: {off:+.3}");
    }
}

/// What a predictor remembers of one workload is not used for another: a static KV cache is as long as the answer makes it.
#[test]
fn predictors_remember_only_what_stays_the_same() {
    let (model, h200) = (qwen(), embedded_device("h200"));
    for name in EfficiencyProfile::names() {
        let profile = EfficiencyProfile::embedded(name).expect("it is embedded");
        let used = Predictor::new(&model, &h200, &profile);
        for asked in [
            workload(128, 2, 1),
            workload(128, 2000, 1),
            workload(128, 2000, 8),
            workload(128, 2, 8),
            Workload {
                cached: 512,
                ..workload(128, 2, 8)
            },
        ] {
            let fresh = Predictor::new(&model, &h200, &profile).predict(&asked);
            assert_eq!(used.predict(&asked), fresh, "{name} {asked:?}");
        }
    }
}

/// The native engine multiplies in f32: narrow weights save bytes, not multiplications.
#[test]
fn the_native_engine_saves_bytes_of_quantized_weights_alone() {
    let (model, cpu) = (llama_8b(), embedded_device("xeon_8480"));
    let profile = EfficiencyProfile::embedded("native").expect("it is embedded");
    let predictor = Predictor::new(&model, &cpu, &profile);
    let with = |format: &str| {
        let precision = Precision {
            weights: Some(format.parse().expect("a format")),
            ..Precision::default()
        };
        let asked = Workload {
            precision,
            ..workload(512, 2, 1)
        };
        predictor.predict(&asked).expect("a CPU with peaks")
    };
    let [half, eight, four] = ["bf16", "int8", "int4_g128"].map(with);
    assert_eq!(half.prefill.flops, four.prefill.flops);
    assert_eq!(half.prefill.tensor_ns, four.prefill.tensor_ns);
    let time =
        |prediction: &llmprof_predict::Prediction| prediction.decode_step.device_ns.seconds();
    // Head and embedding stay in 16 bits: 1.05 of 16 GB.
    let ratio = time(&eight) / time(&half);
    assert!((0.5..0.6).contains(&ratio), "{ratio}");
    let ratio = time(&four) / time(&half);
    assert!((0.28..0.4).contains(&ratio), "{ratio}");
}

/// The native engine keeps weights of f16 models as f32, those of bf16 models as they are.
#[test]
fn the_native_engine_reads_f16_weights_as_f32() {
    let cpu = embedded_device("xeon_8480");
    let profile = EfficiencyProfile::embedded("native").expect("it is embedded");
    let half = llama_8b();
    let bytes = |dtype: DType| {
        let model = Model {
            dtype,
            ..half.clone()
        };
        let prediction = Predictor::new(&model, &cpu, &profile)
            .predict(&workload(512, 2, 1))
            .expect("a CPU with peaks");
        (
            prediction.memory.weights_bytes.0,
            prediction.decode_step.device_ns.seconds(),
        )
    };
    let [half, full, wide] = [DType::Bf16, DType::F16, DType::F32].map(bytes);
    assert_eq!(full.1, wide.1);
    assert!((1.7..2.1).contains(&(full.1 / half.1)), "{full:?} {half:?}");
}

/// What `corrections` asked of a predictor is not kept in place of corrected times.
#[test]
fn a_corrected_predictor_forgets_what_it_predicted_before() {
    let (model, h200) = (qwen(), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("hf_eager").expect("it is embedded");
    let asked = workload(128, 2, 1);
    let measured = MeasuredStep {
        device_ns: 5e6,
        other_ns: None,
        wall_ns: None,
    };
    let run = MeasuredRun {
        workload: asked,
        prefill: Some(measured),
        decode_step: Some(measured),
    };
    let used = Predictor::new(&model, &h200, &profile);
    let corrections = used.measure_corrections(&run).unwrap();
    let prediction = used.with_corrections(corrections).predict(&asked).unwrap();
    let fresh = Predictor::new(&model, &h200, &profile).with_corrections(corrections);
    assert_eq!(prediction, fresh.predict(&asked).unwrap());
}

/// A run of something else made every later prediction ten times as long, without a word.
#[test]
fn a_run_far_from_its_prediction_corrects_nothing() {
    let (model, h200) = (qwen(), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("hf_eager").expect("it is embedded");
    let predictor = Predictor::new(&model, &h200, &profile);
    let asked = workload(128, 2, 1);
    let predicted = predictor.predict(&asked).unwrap();
    let step = |times: f64, wall: Option<f64>| {
        let device_ns = predicted.prefill_gpu_ns.0 as f64 * times;
        let measured = MeasuredStep {
            device_ns,
            other_ns: None,
            wall_ns: wall.map(|times| device_ns * times),
        };
        predictor.measure_corrections(&MeasuredRun {
            workload: asked,
            prefill: Some(measured),
            decode_step: None,
        })
    };
    let factors = step(9.9, None).unwrap().prefill;
    assert!((factors.matrix - 9.9).abs() < 0.01 && factors.host == 1.0);
    for far in [step(10.1, None), step(0.09, None), step(1.0, Some(100.0))] {
        let error = far.unwrap_err().to_string();
        assert!(error.starts_with("the run takes "), "{error}");
        assert!(error.ends_with("as predicted in prefill"), "{error}");
    }
}

/// Compiled 8-bit GEMMs cast their activations first, for every tile size of scales.
#[test]
fn compiled_layers_cast_activations_for_all_formats_of_8_bits() {
    let (model, h200) = (llama_8b(), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("torch_compile").expect("it is embedded");
    let kernels = |format: &str| {
        let precision = Precision {
            weights: Some(format.parse().expect("a format")),
            ..Precision::default()
        };
        let asked = Workload {
            precision,
            ..workload(128, 2, 1)
        };
        let prediction = Predictor::new(&model, &h200, &profile).predict(&asked);
        prediction.unwrap().decode_step.kernels
    };
    assert_eq!(kernels("fp8"), kernels("fp8_128x128"));
    // Seven linear layers in each of 32.
    assert_eq!(kernels("fp8"), kernels("bf16") + 7 * 32);
    assert_eq!(kernels("int8_g128"), kernels("bf16"));
}

/// Tables of serving engines are of some devices; transformers' kernels of quantized weights were never measured.
#[test]
fn times_say_what_they_rest_on() {
    let model = llama_8b();
    let calibration_of = |device_name: &str, profile: &str, weights: &str| {
        let precision = Precision {
            weights: Some(weights.parse().expect("a format")),
            ..Precision::default()
        };
        let asked = Workload {
            precision,
            ..workload(512, 2, 1)
        };
        // Curves of its own, as `llmprof hardware measure --gpu` writes them.
        let device = embedded_device(device_name);
        let mut profile = EfficiencyProfile::embedded(profile).expect("it is embedded");
        let curves = KernelCurves::embedded("h200").unwrap();
        profile.curves.insert(device.name.clone(), curves);
        let prediction = Predictor::new(&model, &device, &profile).predict(&asked);
        let prediction = prediction.unwrap();
        (
            prediction.calibration,
            prediction.prefill_gpu_interval.is_some(),
        )
    };
    assert_eq!(
        calibration_of("h100_sxm", "hf_eager", "bf16"),
        (Calibration::Measured, true)
    );
    assert_eq!(
        calibration_of("h200", "hf_eager", "fp8"),
        (Calibration::FormatsNotMeasured, false)
    );
    for (device, weights) in [("h200", "fp8"), ("h100_sxm", "int4"), ("b200", "nvfp4")] {
        assert_eq!(
            calibration_of(device, "vllm", weights).0,
            Calibration::PublicTables
        );
    }
    assert_eq!(
        calibration_of("h100_pcie", "vllm", "fp8").0,
        Calibration::Scaled
    );
    assert_eq!(
        calibration_of("mi300x", "vllm", "bf16").0,
        Calibration::Scaled
    );
}

/// A prompt one token longer than the window costs about as much as one of the window, not twice as much.
#[test]
fn attention_grows_evenly_over_the_end_of_a_window() {
    let model = published_model("gemma2_9b");
    let (h200, profile) = (
        embedded_device("h200"),
        EfficiencyProfile::embedded("vllm").expect("it is embedded"),
    );
    let predictor = Predictor::new(&model, &h200, &profile);
    let flops = |prompt: u64| {
        let asked = workload(prompt, 2, 1);
        let pass = model.prefill_passes(&asked).next().unwrap();
        let kernels = predictor.list_kernels(&asked, &Step::first_of(&pass));
        let attention = kernels
            .iter()
            .filter(|(kernel, ..)| kernel.class() == KernelClass::Attention);
        // Layers with a window and without one: their sum, in units of what all pairs of a window take in one layer.
        let sum: f64 = attention
            .map(|(kernel, times, _)| kernel.matrix_flops() * times)
            .sum();
        let (heads, width, window) = (16.0, 256.0, 4096.0);
        sum / (2.0 * heads * 2.0 * width * window * window * 21.0)
    };
    // By hand: w²/2 with a window and without one; at 2w 1.5 w² and 2 w².
    assert!((flops(4096) - 1.0).abs() < 0.01, "{}", flops(4096));
    assert!((flops(4097) - 1.0).abs() < 0.01, "{}", flops(4097));
    assert!((flops(8192) - 3.5).abs() < 0.02, "{}", flops(8192));
}
