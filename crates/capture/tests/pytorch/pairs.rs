//! Models of an encoder and a decoder: the encoder is a phase of its own, and tokens are those of `generate`.

use std::process::Command;

use llmprof_capture::runner::protocol::{FailureKind, LoadOptions};
use llmprof_record::plan::Compile;
use serde_json::{Value, json};

use super::support::{Worker, batch, dummy, phases, python, tokens};

fn tiny_t5() -> Value {
    json!({
        "model_type": "t5", "vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
        "num_decoder_layers": 1, "num_heads": 4, "decoder_start_token_id": 0, "is_encoder_decoder": true
    })
}

fn tiny_whisper() -> Value {
    json!({
        "model_type": "whisper", "vocab_size": 96, "num_mel_bins": 8, "d_model": 32, "encoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_layers": 1, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_source_positions": 20, "max_target_positions": 40, "pad_token_id": 0,
        "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1, "is_encoder_decoder": true
    })
}

/// BART, which theory has no family for: positions are learned in both stacks.
fn tiny_bart() -> Value {
    json!({
        "model_type": "bart", "vocab_size": 96, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_position_embeddings": 24, "is_encoder_decoder": true, "decoder_start_token_id": 2
    })
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn encoders_are_a_phase() {
    let mut worker = Worker::start();
    for (config, class, started) in [
        (tiny_t5(), "T5ForConditionalGeneration", Some(1)),
        (tiny_bart(), "BartForConditionalGeneration", Some(1)),
        (tiny_whisper(), "WhisperForConditionalGeneration", None),
    ] {
        let loaded = worker.load(&dummy(&config)).unwrap();
        assert_eq!(loaded.facts["model_class"], class);
        let seen = worker
            .generate(&batch(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], 5))
            .unwrap();
        assert_eq!(phases(&seen), ["encoder", "prefill", "decode"], "{class}");
        for request in &seen.requests {
            assert_eq!(request.prompt_tokens, 4);
            assert_eq!(request.decoder_prompt_tokens, started, "{class}");
            assert_eq!(request.output_tokens.len(), 5);
        }
        // The phases follow each other without a gap, from the start to the last token.
        let ends: Vec<_> = seen.phases.iter().map(|span| span.end_ns).collect();
        assert_eq!(seen.phases[0].start_ns, seen.start_ns);
        assert_eq!(seen.phases[1].start_ns, ends[0]);
        assert_eq!(ends[2], seen.end_ns);
    }
    worker.finish();
}

/// What `generate` of transformers gives for the same weights, prompts of different lengths included.
const TRUTH: &str = "
import json, sys, torch, transformers
sys.path.insert(0, sys.argv[1])
from llmprof_worker import dummy
config = json.loads(sys.argv[2])
config = transformers.AutoConfig.for_model(config.pop('model_type'), **config)
kind = transformers.AutoModelForSeq2SeqLM
module = dummy.make(lambda: kind.from_config(config), torch.device('cpu'), 7).eval()
ids = torch.tensor([[0, 0, 11, 12], [21, 22, 23, 24]])
mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
with torch.no_grad():
    out = module.generate(ids, attention_mask=mask, max_new_tokens=6, min_new_tokens=6, do_sample=False, num_beams=1,
                          no_repeat_ngram_size=1)
print(json.dumps(out[:, 1:].tolist()))
";

#[test]
#[ignore = "live: needs torch and transformers"]
fn tokens_are_those_of_generate() {
    let python = python();
    let mut worker = Worker::start();
    // Deep enough that what the encoder read decides, where the tied head of a shallow one repeats its input.
    let mut config = tiny_t5();
    for (key, value) in [
        ("d_model", 64),
        ("d_kv", 16),
        ("d_ff", 128),
        ("num_layers", 6),
    ] {
        config[key] = json!(value);
    }
    config["num_decoder_layers"] = json!(6);
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let truth = Command::new(&python)
        .args(["-c", TRUTH, package, &config.to_string()])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&truth.stderr).into_owned();
    assert!(truth.status.success(), "{words}");
    let expected: Vec<Vec<u32>> = serde_json::from_slice(&truth.stdout).unwrap();
    worker.load(&dummy(&config)).unwrap();
    let mut asked = batch(&[&[11, 12], &[21, 22, 23, 24]], 6);
    asked.sampling.no_repeat_ngram_size = 1;
    let generated = worker.generate(&asked).unwrap();
    assert_eq!(tokens(&generated), expected);
    assert_ne!(expected[0], expected[1]);
    worker.finish();
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn what_a_pair_cannot_do_is_said() {
    let mut worker = Worker::start();
    let mut load = dummy(&tiny_t5());
    load.options = LoadOptions {
        compile: Compile::Default,
        ..LoadOptions::default()
    };
    worker.load(&load).unwrap();
    let failure = worker.generate(&batch(&[&[1, 2]], 2)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert!(failure.hint.unwrap().contains("runtime.compile=off"));

    worker.load(&dummy(&tiny_whisper())).unwrap();
    let failure = worker.generate(&batch(&[&[1, 2], &[3]], 2)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    // Forty positions of the decoder, whatever the encoder has.
    let failure = worker.generate(&batch(&[&[1; 30]], 12)).unwrap_err();
    assert!(
        failure.message.contains("learned 40"),
        "{}",
        failure.message
    );
    worker.generate(&batch(&[&[1; 30]], 11)).unwrap();

    // Prompts are bounded by the encoder's positions, not by the decoder's.
    worker.load(&dummy(&tiny_bart())).unwrap();
    let failure = worker.generate(&batch(&[&[1; 25]], 2)).unwrap_err();
    assert!(
        failure.message.contains("learned 24"),
        "{}",
        failure.message
    );
    worker.generate(&batch(&[&[1; 24]], 3)).unwrap();
    worker.finish();
}
