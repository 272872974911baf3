//! Quantized weights against plain ones that were rounded in the same way, by arithmetic of this file's own.

use std::{collections::HashMap, fs, path::Path};

use crate::support::{data, directories, model};
use llmprof_engine::{EngineError, EngineOptions, NativeEngine, Recorder, WeightSource};
use llmprof_theory::{Logits, Model, WeightFormat};
use llmprof_units::DType;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// The nearest bf16 that is not below a positive number.
fn up_to_bf16(value: f64) -> f64 {
    let mut bits = (value as f32).to_bits() & 0xffff_0000;
    while f64::from(f32::from_bits(bits)) < value as f32 as f64 {
        bits += 0x1_0000;
    }
    f64::from(f32::from_bits(bits))
}

/// What quantization leaves of weights in rows of `inputs`.
fn rounded(weights: &[f32], inputs: usize, levels: f64, group: Option<usize>) -> Vec<f32> {
    let group_of = group.unwrap_or(inputs);
    let rows = weights.chunks(inputs).flat_map(|row| row.chunks(group_of));
    rows.flat_map(|part| {
        let largest = part
            .iter()
            .fold(0.0f64, |most, w| most.max(f64::from(w.abs())));
        let scale = f64::from((largest / levels) as f32);
        let scale = if group.is_some() {
            up_to_bf16(scale)
        } else {
            scale
        };
        part.iter().map(move |weight| {
            let code = (f64::from(*weight) / scale).round_ties_even();
            (code.clamp(-levels, levels) * scale) as f32
        })
    })
    .collect()
}

/// A copy of a tiny model whose quantizable matrices are rounded.
fn rounded_copy(from: &Path, to: &Path, levels: f64, group: Option<usize>) {
    fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
    let bytes = fs::read(from.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut out: HashMap<String, (Vec<u8>, Vec<usize>)> = HashMap::new();
    for (name, tensor) in file.tensors() {
        let words = tensor.data().as_chunks::<4>().0;
        let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        let stays = tensor.shape().len() != 2
            || [
                "embed",
                "wte",
                "wpe",
                "lm_head",
                "mlp.gate.weight",
                "block_sparse_moe.gate",
            ]
            .iter()
            .any(|part| name.contains(part));
        let values = if stays {
            values
        } else if name.contains("c_attn") || name.contains("c_proj") || name.contains("c_fc") {
            // Inputs first: groups go down a column.
            let (inputs, outputs) = (tensor.shape()[0], tensor.shape()[1]);
            let turned: Vec<f32> = (0..outputs * inputs)
                .map(|i| values[i % inputs * outputs + i / inputs])
                .collect();
            let turned = rounded(&turned, inputs, levels, group);
            (0..outputs * inputs)
                .map(|i| turned[i % outputs * inputs + i / outputs])
                .collect()
        } else {
            rounded(&values, tensor.shape()[1], levels, group)
        };
        let data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        out.insert(name, (data, tensor.shape().to_vec()));
    }
    let views = out.iter().map(|(name, (data, shape))| {
        (
            name,
            TensorView::new(Dtype::F32, shape.clone(), data).unwrap(),
        )
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    fs::write(to.join("model.safetensors"), bytes).unwrap();
}

fn load(model: &Model, source: &WeightSource, quantized: Option<&str>) -> NativeEngine {
    let options = EngineOptions {
        weights: Some(DType::F32),
        quantized: quantized.map(|format| format.parse().unwrap()),
        threads: Some(2),
    };
    NativeEngine::load(model, source, options).unwrap()
}

/// Logits of a long prefill (GEMM), of three tokens (few rows), and of one (GEMV).
fn logits(engine: &NativeEngine) -> Vec<f32> {
    let mut cache = engine.new_cache(1, 64).unwrap();
    let mut prefilled = Vec::new();
    for count in [20, 3, 1] {
        let tokens: Vec<u32> = (0..count).map(|i| (i * 13 + 5) % 64).collect();
        let step = engine.prefill(
            &mut cache,
            &[tokens],
            Some(Logits::All),
            &mut Recorder::off(),
        );
        prefilled.extend_from_slice(step.unwrap());
    }
    prefilled
}

fn apart(logits: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(logits.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0.0f32, |most, value| most.max(value.abs()));
    let apart = logits.iter().zip(expected).map(|(a, b)| (a - b).abs());
    apart.fold(0.0f32, f32::max) / largest
}

#[test]
fn every_family_gives_the_logits_of_its_rounded_weights() {
    for (format, levels, group) in [
        ("int8", 127.0, None),
        ("int8_g32", 127.0, Some(32)),
        ("int4_g32", 7.0, Some(32)),
        ("int4_g128", 7.0, Some(128)),
    ] {
        for directory in directories(&data()) {
            if !directory.join("model.safetensors").is_file() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            rounded_copy(&directory, folder.path(), levels, group);
            let model = model(&directory);
            let expected = WeightSource::Directory(folder.path().to_owned());
            let expected = logits(&load(&model, &expected, None));
            let source = WeightSource::Directory(directory.clone());
            let quantized = logits(&load(&model, &source, Some(format)));
            let error = apart(&quantized, &expected);
            assert!(error < 1e-4, "{format} {}: {error}", directory.display());
            let plain = logits(&load(&model, &source, None));
            let moved = apart(&quantized, &plain);
            assert!(
                moved > 1e-5,
                "{format} {}: {moved} from plain weights",
                directory.display()
            );
        }
    }
}

#[test]
fn made_up_weights_are_quantized_alike_and_counted_by_theory() {
    let model = model(&data().join("llama"));
    let source = WeightSource::Dummy { seed: 4 };
    let plain = load(&model, &source, None);
    let engine = load(&model, &source, Some("int4_g32"));
    let moved = apart(&logits(&engine), &logits(&plain));
    assert!(moved > 1e-4, "{moved}");
    assert_eq!(
        logits(&engine),
        logits(&load(&model, &source, Some("int4_g32")))
    );
    let precision = engine.theory_precision();
    assert_eq!(
        precision.weights,
        Some("int4_g32".parse::<WeightFormat>().unwrap())
    );
    assert_eq!(precision.plain, Some(DType::F32));
    let quantized = engine
        .operators()
        .iter()
        .filter(|operator| operator.weights == Some(DType::I4))
        .count();
    // Seven projections in each of two layers.
    assert_eq!(quantized, 14);
    // 2 × (Q, O 32×32; K, V 16×32; gate, up 48×32; down 32×48) in half a byte, and 2 bytes a scale.
    let saved =
        model.parameter_bytes(&plain.theory_precision()) - model.parameter_bytes(&precision);
    let elements = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32);
    let scales = 2 * (2 * 32 + 2 * 16 + 2 * 48 + 2 * 32);
    assert_eq!(saved, elements * 4 - elements / 2 - scales * 2);
}

#[test]
fn formats_without_kernels_are_refused() {
    let model = model(&data().join("llama"));
    for format in ["fp8", "awq", "int4_g16", "int8_g16", "int8_g48", "bf16"] {
        let options = EngineOptions {
            quantized: Some(format.parse().unwrap()),
            ..EngineOptions::default()
        };
        let error =
            NativeEngine::load(&model, &WeightSource::Dummy { seed: 0 }, options).unwrap_err();
        assert!(
            matches!(error, EngineError::UnsupportedFormat { .. }),
            "{format}: {error}"
        );
    }
}
