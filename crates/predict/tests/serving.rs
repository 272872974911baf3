//! Serving engines: which kernels multiply weights of a format, and what that does to times.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{Calibration, EfficiencyProfile, PredictError, Predictor};
use llmprof_theory::{
    Model, Precision, Step, Workload,
    kernels::{Kernel, Stored},
};
use llmprof_units::DType;
use serde_json::{Value, json};

use crate::support::{embedded_device, published_model};

fn llama(quantization: Option<Value>) -> Model {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    });
    if let Some(quantization) = quantization {
        config["quantization_config"] = quantization;
    }
    Model::from_config(&config, None).expect("a valid config")
}

/// In 16 bits where it is expanded, else in the format of the weights.
fn asked(weights: Option<&str>, prompt: u64, expanded: bool) -> Workload {
    Workload {
        prompt,
        new_tokens: 2,
        precision: Precision {
            weights: weights.map(|format| format.parse().expect("a format")),
            compute: expanded.then_some(DType::Bf16),
            ..Precision::default()
        },
        ..Workload::default()
    }
}

/// GEMMs of a prefill, counted: storage, bytes of a weight, columns.
fn gemms(model: &Model, device: &str, weights: Option<&str>) -> Vec<(Stored, f64, f64, f64)> {
    let device = embedded_device(device);
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = Predictor::new(model, &device, &profile);
    let expanded = device.name == "h200" && weights == Some("nvfp4");
    let asked = asked(weights, 512, expanded);
    let pass = model.prefill_passes(&asked).next().unwrap();
    let kernels = predictor.list_kernels(&asked, &Step::first_of(&pass));
    let gemm_times = kernels
        .iter()
        .filter_map(|(kernel, times, _)| match kernel {
            Kernel::Gemm {
                stored, size, n, ..
            } => Some((*stored, *size, *n, *times)),
            _ => None,
        });
    gemm_times.collect()
}

/// Prefill of 8192 tokens and a decode step, in ns. One sequence; two on a B200, since vLLM's FP8 GEMMs of one row take longer there than those in 16 bits in its
/// tables.
fn times(device: &str, weights: &str) -> (i64, i64) {
    let model = llama(None);
    let device = embedded_device(device);
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = Predictor::new(&model, &device, &profile);
    let expanded = device.name == "h200" && weights == "nvfp4";
    let prediction = predictor.predict(&Workload {
        batch: if device.name == "b200" { 2 } else { 1 },
        ..asked(Some(weights), 8192, expanded)
    });
    let prediction = prediction.unwrap();
    (prediction.prefill_gpu_ns.0, prediction.decode_step_gpu_ns.0)
}

#[test]
fn nvfp4_is_multiplied_in_4_bits_where_a_device_can() {
    let model = llama(None);
    let count = |device: &str, stored: Stored| {
        let all = gemms(&model, device, Some("nvfp4"));
        let of_it = all.iter().filter(|(kind, ..)| *kind == stored);
        of_it.map(|(.., times)| times).sum::<f64>()
    };
    // Four products in each of 32 layers: of queries, keys and values, of the output, and two of the feed-forward network.
    assert_eq!(count("b200", Stored::Four), 128.0);
    assert_eq!(count("h200", Stored::FourByBlocks), 128.0);
    // The head stays in 16 bits.
    assert_eq!(count("b200", Stored::Plain), 1.0);
    // Half a byte and a scale of a byte for 16 weights.
    let sizes = gemms(&model, "b200", Some("nvfp4"));
    for (_, size, ..) in sizes.iter().filter(|(stored, ..)| *stored == Stored::Four) {
        assert!((size - 0.5625).abs() < 1e-3, "{size}");
    }

    let of = |device| ["nvfp4", "fp8", "bf16"].map(|format| times(device, format));
    let [four, eight, sixteen] = of("b200");
    assert!(
        four.0 < eight.0 && eight.0 < sixteen.0,
        "{four:?} {eight:?} {sixteen:?}"
    );
    assert!(
        four.1 < eight.1 && eight.1 < sixteen.1,
        "{four:?} {eight:?} {sixteen:?}"
    );
    // Twice the rate of FP8 at most, and not all of a prefill is GEMM.
    assert!(four.0 * 2 > eight.0);
    // An H200 has no such units, and says so; expanded to 16 bits, a long prompt takes as long as in 16 bits, and as with MXFP4; a decode step reads fewer bytes.
    let h200 = embedded_device("h200");
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let refused =
        Predictor::new(&model, &h200, &profile).predict(&asked(Some("nvfp4"), 512, false));
    assert!(refused.unwrap_err().to_string().contains("fp4"));
    let [four, _, sixteen] = of("h200");
    let near = |a: i64, b: i64| (a as f64 / b as f64 - 1.0).abs() < 0.03;
    assert!(near(four.0, sixteen.0), "{four:?} {sixteen:?}");
    assert!(near(four.0, times("h200", "mxfp4").0));
    assert!(four.1 * 2 < sixteen.1, "{four:?} {sixteen:?}");
}

/// Matrices that a checkpoint leaves plain take the curves of their own format.
#[test]
fn plain_matrices_of_a_quantized_model_take_their_own_curves() {
    let quantized = llama(Some(json!({
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]
    })));
    let (plain, narrow) = (
        gemms(&llama(None), "h200", None),
        gemms(&quantized, "h200", None),
    );
    let head = |all: &[(Stored, f64, f64, f64)]| {
        let heads: Vec<_> = all
            .iter()
            .filter(|gemm| gemm.2 == 128_256.0)
            .copied()
            .collect();
        assert_eq!(heads.len(), 1);
        heads[0]
    };
    assert_eq!(head(&narrow), head(&plain));
    assert_eq!(head(&narrow).0, Stored::Plain);
    let layers = narrow.iter().filter(|gemm| gemm.2 != 128_256.0);
    for (stored, size, ..) in layers {
        assert_eq!(*stored, Stored::EightByBlocks);
        assert!((1.0..1.01).contains(size), "{size}");
    }
    // The same, asked for a model in 16 bits.
    let asked = gemms(&llama(None), "h200", Some("fp8_128x128"));
    assert_eq!(asked, narrow);
}

/// No engine has tables of MXFP4 experts or of an 8-bit KV cache on an A100: such times rest on the H200's.
#[test]
fn formats_without_tables_on_a_device_are_scaled() {
    let calibration_of = |model: &Model, device: &str, kv: Option<DType>| {
        let device = embedded_device(device);
        let profile = EfficiencyProfile::embedded("sglang").unwrap();
        let mut asked = asked(None, 512, false);
        asked.precision.kv = kv;
        let prediction = Predictor::new(model, &device, &profile).predict(&asked);
        prediction.unwrap().calibration
    };
    let gpt_oss = published_model("gpt_oss_120b");
    let (own, scaled) = (Calibration::PublicTables, Calibration::Scaled);
    assert_eq!(calibration_of(&gpt_oss, "a100_sxm_80gb", None), scaled);
    assert_eq!(calibration_of(&gpt_oss, "l40s", None), own);
    assert_eq!(calibration_of(&llama(None), "a100_sxm_80gb", None), own);
    let eight = Some(DType::F8E4m3);
    assert_eq!(calibration_of(&llama(None), "a100_sxm_80gb", eight), scaled);
    assert_eq!(calibration_of(&llama(None), "h100_sxm", eight), own);
}

fn qwen3_5() -> Model {
    published_model("qwen3_5_397b_a17b")
}

/// 45 gated delta layers: two joined projections, convolution, rule and output each; 15 that attend.
#[test]
fn engines_run_gated_delta_layers_in_kernels_of_their_own() {
    let model = qwen3_5();
    let device = embedded_device("b200");
    for engine in ["vllm", "sglang", "trtllm"] {
        let profile = EfficiencyProfile::embedded(engine).unwrap();
        let predictor = Predictor::new(&model, &device, &profile);
        let asked = asked(None, 512, false);
        let prefill = model.prefill_passes(&asked).next().unwrap();
        for pass in [prefill, model.decode_step(&asked)] {
            let kernels = predictor.list_kernels(&asked, &Step::first_of(&pass));
            let count = |is_it: &dyn Fn(&Kernel) -> bool| -> f64 {
                let of_it = kernels.iter().filter(|(kernel, ..)| is_it(kernel));
                of_it.map(|(_, launches, _)| launches).sum()
            };
            let rules = count(&|kernel| {
                matches!(kernel, Kernel::DeltaRule { heads, key_heads, state, .. }
                    if (*heads, *key_heads, *state) == (64.0, 16.0, 4.0))
            });
            let convolutions = count(
                &|kernel| matches!(kernel, Kernel::CausalConv { channels, .. } if *channels == 12_288.0),
            );
            assert_eq!((rules, convolutions), (45.0, 45.0), "{engine}");
            assert_eq!(
                count(&|kernel| matches!(kernel, Kernel::Attention { .. })),
                15.0
            );
            // Queries, keys, values and z; b and a.
            for columns in [20_480.0, 128.0] {
                let joined =
                    count(&|kernel| matches!(kernel, Kernel::Gemm { n, .. } if *n == columns));
                assert_eq!(joined, 45.0, "{engine}: {columns} columns");
            }
        }
    }
}

/// The state is read and written by every step, so a decode step takes longer by a constant, for any context.
#[test]
fn states_take_their_time() {
    let model = qwen3_5();
    let device = embedded_device("b200");
    let profile = EfficiencyProfile::embedded("sglang").unwrap();
    let predictor = Predictor::new(&model, &device, &profile);
    let rules = |batch: u64, prompt: u64| -> f64 {
        let asked = Workload {
            batch,
            ..asked(None, prompt, false)
        };
        let kernels = predictor.list_kernels(&asked, &Step::first_of(&model.decode_step(&asked)));
        let rules = kernels
            .iter()
            .filter(|(kernel, ..)| matches!(kernel, Kernel::DeltaRule { .. }));
        rules
            .map(|(_, launches, time)| launches * time.seconds())
            .sum()
    };
    // 256 sequences × 45 layers × 8 MiB at 7.7 TB/s are 12.6 ms.
    let least = 256.0 * 45.0 * 2.0 * 64.0 * 128.0 * 128.0 * 4.0 / 7.7e12;
    let rule_seconds = rules(256, 1000);
    assert!(
        (1.0..1.5).contains(&(rule_seconds / least)),
        "{rule_seconds} {least}"
    );
    assert_eq!(rule_seconds, rules(256, 100_000));
}

/// No A100 has a table of the chunked rule; what transformers launches is traced, and not predicted without.
#[test]
fn gated_delta_models_say_what_they_rest_on() {
    let model = qwen3_5();
    let calibration_of = |device: &str, profile: &str| -> Result<Calibration, PredictError> {
        let device = embedded_device(device);
        let profile = EfficiencyProfile::embedded(profile).unwrap();
        let predictor = Predictor::new(&model, &device, &profile);
        let prediction = predictor.predict(&asked(None, 512, false))?;
        assert!(prediction.ttft_ns.0 > 0 && prediction.tpot_ns.unwrap().0 > 0);
        Ok(prediction.calibration)
    };
    assert_eq!(
        calibration_of("h200", "sglang"),
        Ok(Calibration::PublicTables)
    );
    assert_eq!(
        calibration_of("b300", "trtllm"),
        Ok(Calibration::PublicTables)
    );
    assert_eq!(
        calibration_of("a100_sxm_80gb", "sglang"),
        Ok(Calibration::Scaled)
    );
    assert_eq!(
        calibration_of("h200", "fused"),
        Ok(Calibration::Efficiencies)
    );
    for profile in ["hf_eager", "hf_graph", "torch_compile"] {
        assert_eq!(
            calibration_of("h200", profile),
            Err(PredictError::NeedsTrace)
        );
    }
    // A CPU has no kernels that are costed one by one.
    let on_cpu = calibration_of("xeon_8480", "hf_eager");
    assert_eq!(on_cpu, Ok(Calibration::Efficiencies));
}
