//! Models of two stacks: what goes to the encoder, what the decoder keeps of it, and what is refused. Work against torch is in
//! `truth.rs`.

use crate::support::{config, published};
use llmprof_theory::{
    Cost, Kind, Model, ModelError, Operator, Part, Pass, Phase, Sequences, Span, Step, Workload,
    parallel::{Parallel, rank_model},
};
use serde_json::json;

fn asked(batch: u64, prompt: u64, new_tokens: u64) -> Workload {
    Workload {
        batch,
        prompt,
        new_tokens,
        ..Workload::default()
    }
}

/// The operators of a span as path, kind, calls, KV bytes read and written.
fn operators(model: &Model, workload: &Workload, span: Span) -> Vec<(String, Kind, u64, u64, u64)> {
    let mut all = Vec::new();
    let mut keep = |operator: &Operator<'_>| {
        let traffic = operator.traffic;
        all.push((
            operator.path.to_string(),
            operator.kind,
            operator.call_count(),
            traffic.kv_read,
            traffic.kv_write,
        ));
    };
    match span {
        Span::Encoder => model.lower_encoder(workload, &mut keep),
        Span::Prefill => {
            for pass in model.prefill_passes(workload) {
                model.lower_pass(workload, &pass, &mut keep);
            }
        }
        _ => model.lower_pass(workload, &model.decode_step(workload), &mut keep),
    }
    all
}

#[test]
fn the_prompt_goes_to_the_encoder_or_stands_beside_audio() {
    let workload = asked(2, 40, 8);
    let t5 = published("t5_small");
    assert_eq!(t5.encoder_tokens(&workload), 40);
    assert_eq!(t5.prompt_tokens(&workload), 1);
    assert_eq!(t5.context_tokens(&workload), 1);
    let whisper = published("whisper_tiny");
    assert_eq!(whisper.encoder_tokens(&workload), 1500);
    assert_eq!(whisper.prompt_tokens(&workload), 40);
    // Without a prompt the decoder still has its start token.
    assert_eq!(whisper.prompt_tokens(&asked(1, 0, 8)), 1);
}

/// 2 × 512 elements of 4 bytes a token and layer, 6 layers.
#[test]
fn keys_and_values_of_the_encoder_are_made_once_and_read_by_every_step() {
    let t5 = published("t5_small");
    let workload = asked(2, 40, 8);
    let cross = "decoder.block.0.layer.1.EncDecAttention";
    let find = |span, path: &str| {
        let all = operators(&t5, &workload, span);
        all.into_iter().find(|one| one.0 == path)
    };
    let layer = 2 * 40 * 2 * 512 * 4;
    let (_, kind, calls, read, written) = find(Span::Prefill, cross).unwrap();
    assert_eq!((kind, calls, read, written), (Kind::Attention, 6, 0, layer));
    let (_, _, calls, read, written) = find(Span::DecodeStep, cross).unwrap();
    assert_eq!((calls, read, written), (6, layer, 0));
    let keys = format!("{cross}.k");
    assert_eq!(find(Span::Prefill, &keys).unwrap().2, 6);
    assert_eq!(find(Span::DecodeStep, &keys), None);
    // The cache holds them beside the decoder's own tokens: 1 and 7 more.
    let memory = t5.count_memory(&workload).unwrap();
    assert_eq!(memory.kv_cache, 6 * layer + 6 * 2 * 8 * 2 * 512 * 4);
}

/// Chunks of a prompt share the keys and values that the first one makes.
#[test]
fn chunks_do_not_encode_again() {
    let whisper = published("whisper_tiny");
    let whole = asked(3, 100, 8);
    let chunked = Workload {
        chunk: Some(30),
        ..whole
    };
    let tensor = |workload| whisper.cost_span(workload, Span::Prefill).tensor.total();
    assert_eq!(tensor(&chunked), tensor(&whole));
    let read = |workload| whisper.cost_span(workload, Span::Prefill).traffic.kv_read;
    // Three later chunks read the encoder's 1500 tokens again, and what the chunks before them wrote.
    let token = 4 * 2 * 384 * 4 * 3;
    assert_eq!(read(&chunked), token * (3 * 1500 + 30 + 60 + 90));
    assert_eq!(read(&whole), 0);
}

#[test]
fn decode_is_the_sum_of_its_steps() {
    for name in ["t5_small", "whisper_tiny"] {
        let model = published(name);
        let workload = asked(2, 30, 9);
        let whole = model.cost_span(&workload, Span::Decode);
        let mut sum = Cost::default();
        for step in 0..workload.decode_steps() {
            let pass = Pass::decode_steps(2, model.context_tokens(&workload) + step, 1);
            model.lower_pass(&workload, &pass, &mut |operator| sum.add_operator(operator));
        }
        assert_eq!(whole, sum, "{name}");
    }
}

/// A server's step of one group costs what the pass of the same sequences does.
#[test]
fn steps_of_a_server_are_passes() {
    let model = published("whisper_tiny");
    let workload = asked(4, 30, 9);
    let group = |new, cached| {
        Part::Groups(vec![Sequences {
            count: 4,
            new,
            cached,
        }])
    };
    let prefill = model.prefill_passes(&workload).next().unwrap();
    let decode = model.decode_step(&workload);
    for (pass, step) in [
        (prefill, Step::all_prefill(group(30, 0))),
        (decode, Step::all_decode(group(1, 30))),
    ] {
        let (computed, expected) = (
            model.cost_step(&workload, &step),
            model.cost_of(&workload, &pass),
        );
        assert_eq!(computed.tensor, expected.tensor);
        assert_eq!(computed.traffic.kv_read, expected.traffic.kv_read);
        assert_eq!(computed.traffic.kv_write, expected.traffic.kv_write);
    }
}

#[test]
fn encoder_operators_have_a_phase_of_their_own() {
    for name in ["t5_small", "whisper_tiny"] {
        let model = published(name);
        let workload = asked(1, 20, 4);
        let costs = model.cost_by_phase(&workload).unwrap();
        assert!(costs.encoder.is_some() && costs.vision.is_none());
        model.lower_encoder(&workload, &mut |operator| {
            assert_eq!(operator.phase, Phase::Encoder, "{}", operator.path);
            assert_eq!(operator.traffic.kv_write, 0, "{}", operator.path);
        });
        assert!(
            published("gpt2")
                .cost_by_phase(&workload)
                .unwrap()
                .encoder
                .is_none()
        );
    }
}

#[test]
fn workloads_that_no_encoder_has_are_refused() {
    let refused = |name: &str, workload: Workload, key: &str| {
        let error = published(name)
            .cost_by_phase(&workload)
            .unwrap_err()
            .to_string();
        assert!(error.contains(key), "{name}: {error}");
    };
    let cached = Workload {
        cached: 5,
        ..asked(1, 20, 4)
    };
    refused("t5_small", cached, "workload.cached_tokens");
    refused("whisper_tiny", cached, "workload.cached_tokens");
    refused("t5_small", asked(1, 0, 4), "workload.prompt_tokens");
    // 448 learned positions.
    refused("whisper_tiny", asked(1, 400, 50), "at most 448");
    let parallel = Parallel {
        tensor: 2,
        ..Parallel::default()
    };
    let error = rank_model(&published("t5_small"), &parallel).unwrap_err();
    assert!(error.to_string().contains("encoder"), "{error}");
}

#[test]
fn configs_that_cannot_be_are_named() {
    for (name, key, value) in [
        ("t5_small", "feed_forward_proj", json!("gated-mish")),
        ("t5_small", "d_kv", json!(0)),
        ("t5_small", "num_decoder_layers", json!("six")),
        ("whisper_tiny", "decoder_attention_heads", json!(7)),
        ("whisper_tiny", "max_source_positions", json!(-1)),
        ("whisper_tiny", "num_mel_bins", json!(0)),
    ] {
        let mut config = config(name);
        config[key] = value;
        let error = Model::from_config(&config, None).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
    // A pair of stacks that no family knows is not read as a decoder.
    let bart = json!({
        "model_type": "bart", "is_encoder_decoder": true, "vocab_size": 100, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4
    });
    let error = Model::from_common_keys(&bart).unwrap_err();
    assert!(matches!(error, ModelError::Unsupported { .. }), "{error}");
}
