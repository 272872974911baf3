//! Logits and generated tokens against transformers (`recipes/transformers_logits.py`).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{data, directories, engine};
use llmprof_engine::{
    GenerationOptions, Recorder, SUPPORTED_FAMILIES, SamplingOptions, TokenSampler, generate_tokens,
};
use llmprof_theory::Logits;
use safetensors::SafeTensors;

/// max|Δ| ÷ max|logit| that is still the same model.
const TOLERANCE: f32 = 1e-4;

/// What transformers said of a model.
struct Expected {
    prompts: Vec<Vec<u32>>,
    forced: Vec<Vec<u32>>,
    greedy: Vec<Vec<u32>>,
    prefill: Vec<f32>,
    decode: Vec<f32>,
}

impl Expected {
    fn read(directory: &Path) -> Self {
        let bytes = std::fs::read(directory.join("expected.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let words = |name: &str| -> Vec<[u8; 4]> {
            file.tensor(name)
                .unwrap()
                .data()
                .as_chunks::<4>()
                .0
                .to_vec()
        };
        let floats = |name| words(name).into_iter().map(f32::from_le_bytes).collect();
        let tokens = |name: &str| {
            let width = file.tensor(name).unwrap().shape()[1];
            let all: Vec<u32> = words(name).into_iter().map(u32::from_le_bytes).collect();
            all.chunks(width).map(<[u32]>::to_vec).collect()
        };
        Self {
            prompts: tokens("prompts"),
            forced: tokens("forced"),
            greedy: tokens("greedy"),
            prefill: floats("prefill"),
            decode: floats("decode"),
        }
    }
}

/// The largest difference as a share of the largest logit.
fn difference(logits: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(logits.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0.0f32, |most, value| most.max(value.abs()));
    let apart = logits.iter().zip(expected).fold(0.0f32, |most, (a, b)| {
        if (a - b).is_nan() {
            f32::NAN
        } else {
            most.max((a - b).abs())
        }
    });
    apart / largest
}

fn check(directory: &Path) {
    let name = directory.display();
    let expected = Expected::read(directory);
    let engine = engine(directory);
    let (batch, prompt) = (expected.prompts.len(), expected.prompts[0].len());
    let steps = expected.forced[0].len();
    let vocabulary = engine.vocabulary_size();
    let off = &mut Recorder::off();

    let mut cache = engine.new_cache(batch, prompt + steps).unwrap();
    let logits = engine
        .prefill(&mut cache, &expected.prompts, Some(Logits::All), off)
        .unwrap();
    let apart = difference(logits, &expected.prefill);
    assert!(apart <= TOLERANCE, "{name}: prefill is off by {apart:e}");
    for step in 0..steps {
        let tokens: Vec<u32> = expected.forced.iter().map(|tokens| tokens[step]).collect();
        let logits = engine.decode_step(&mut cache, &tokens, off).unwrap();
        let wanted: Vec<f32> = (0..batch)
            .flat_map(|sequence| {
                &expected.decode[(sequence * steps + step) * vocabulary..][..vocabulary]
            })
            .copied()
            .collect();
        let apart = difference(logits, &wanted);
        assert!(
            apart <= TOLERANCE,
            "{name}: decode step {step} is off by {apart:e}"
        );
    }

    let sampling = SamplingOptions {
        no_repeat_ngram_size: 2,
        ..SamplingOptions::default()
    };
    let new = expected.greedy[0].len();
    for chunk in [None, Some(8)] {
        let generation = GenerationOptions {
            max_new_tokens: new,
            chunk,
            ..GenerationOptions::default()
        };
        let mut cache = engine.new_cache(batch, prompt + new).unwrap();
        let mut sampler = TokenSampler::new(sampling).unwrap();
        let mut heard = Vec::new();
        let generated = generate_tokens(
            &engine,
            &mut cache,
            &expected.prompts,
            &generation,
            &mut sampler,
            off,
            |step| {
                assert!(step.end_ns >= step.start_ns);
                heard.push((step.index, step.tokens.to_vec()));
            },
        )
        .unwrap();
        assert_eq!(
            generated.tokens, expected.greedy,
            "{name}: greedy tokens, chunk {chunk:?}"
        );
        assert_eq!(heard.len(), new);
        assert_eq!(
            heard[3],
            (3, expected.greedy.iter().map(|tokens| tokens[3]).collect())
        );
    }
}

#[test]
fn logits_are_those_of_transformers() {
    let mut families = BTreeSet::new();
    for directory in directories(&data()) {
        check(&directory);
        families.insert(crate::support::model(&directory).family);
    }
    assert_eq!(families, SUPPORTED_FAMILIES.iter().copied().collect());
}

/// Sequences of a batch do not see each other, also with different lengths.
#[test]
fn a_batch_of_different_lengths_gives_what_its_sequences_give_alone() {
    for directory in directories(&data()) {
        let engine = engine(&directory);
        let expected = Expected::read(&directory);
        let prompts = [
            expected.prompts[0].clone(),
            expected.prompts[1][..9].to_vec(),
        ];
        let off = &mut Recorder::off();
        // Dynamic and long rotation depend on the longest sequence of the batch.
        if directory.ends_with("llama_rope_dynamic") || directory.ends_with("phi3") {
            continue;
        }
        let mut cache = engine.new_cache(2, 30).unwrap();
        let mut together = engine
            .prefill(&mut cache, &prompts, Some(Logits::Last), off)
            .unwrap()
            .to_vec();
        together.extend_from_slice(engine.decode_step(&mut cache, &[3, 5], off).unwrap());
        let mut alone = [Vec::new(), Vec::new()];
        for (sequence, alone) in alone.iter_mut().enumerate() {
            let mut cache = engine.new_cache(1, 30).unwrap();
            let prompt = &prompts[sequence..=sequence];
            alone.extend_from_slice(
                engine
                    .prefill(&mut cache, prompt, Some(Logits::Last), off)
                    .unwrap(),
            );
            let token = [[3, 5][sequence]];
            alone.extend_from_slice(engine.decode_step(&mut cache, &token, off).unwrap());
        }
        let vocabulary = engine.vocabulary_size();
        for step in 0..2 {
            for (sequence, alone) in alone.iter().enumerate() {
                let together = &together[(step * 2 + sequence) * vocabulary..][..vocabulary];
                let apart = difference(together, &alone[step * vocabulary..][..vocabulary]);
                assert!(
                    apart <= 1e-5,
                    "{}: sequence {sequence} is off by {apart:e}",
                    directory.display()
                );
            }
        }
    }
}

/// Builds the models and their logits with transformers and compares them with the stored ones.
#[test]
#[ignore = "live: needs torch and transformers"]
fn logits_are_those_of_transformers_at_hand() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join("../../.venv/bin/python"), PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(&python)
        .arg(root.join("tests/recipes/transformers_logits.py"))
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let made = directories(folder.path());
    assert_eq!(made.len(), directories(&data()).len());
    for directory in made {
        check(&directory);
    }
}
