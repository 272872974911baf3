//! Models that see: the image tower is a phase of its own.

use llmprof_capture::runner::protocol::{FailureKind, Image};
use serde_json::{Value, json};

use super::support::{Worker, batch, dummy, phases, tiny_qwen2};

#[test]
#[ignore = "live: needs torch and transformers"]
fn image_towers_are_a_phase() {
    let mut worker = Worker::start();
    let mut asked = batch(&[&[1, 2, 3, 4]], 3);
    asked.requests[0].images = vec![Image {
        height: 56,
        width: 84,
        path: None,
    }];
    let mut load = dummy(&json!({
        "model_type": "qwen2_5_vl", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 512,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "image_token_id": 250,
        "video_token_id": 251, "vision_start_token_id": 252, "vision_end_token_id": 253,
        "vision_config": {
            "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "in_chans": 3,
            "out_hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112,
            "fullatt_block_indexes": [0], "temporal_patch_size": 2
        }
    }));
    worker.load(&load).unwrap();
    let seen = worker.generate(&asked).unwrap();
    assert_eq!(phases(&seen), ["vision", "prefill", "decode"]);
    // 4 × 6 patches merged by 2 × 2, a token before and one after them, and the text.
    assert_eq!(seen.requests[0].prompt_tokens, 24 / 4 + 2 + 4);

    load = dummy(&tiny_qwen2());
    worker.load(&load).unwrap();
    let refused = worker.generate(&asked).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unsupported);
    worker.finish();
}

fn decoder(kind: &str) -> Value {
    json!({
        "model_type": kind, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 512
    })
}

/// A tower of 4 × 4 patches.
fn tower() -> Value {
    json!({
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "image_size": 56, "patch_size": 14, "projection_dim": 64
    })
}

/// Families that prepare images in other ways, each with an image in both requests of a batch.
#[test]
#[ignore = "live: needs torch and transformers"]
fn images_have_the_shape_that_a_family_takes() {
    let mut worker = Worker::start();
    let mut asked = batch(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], 2);
    for request in &mut asked.requests {
        request.images = vec![Image {
            height: 0,
            width: 0,
            path: None,
        }];
    }
    let families = [
        (
            json!({
                "model_type": "idefics3", "text_config": decoder("llama"), "vision_config": tower(),
                "image_token_id": 250, "scale_factor": 2
            }),
            // Two by two patches are one token.
            4,
        ),
        (
            json!({
                "model_type": "paligemma", "text_config": decoder("gemma"), "image_token_id": 250,
                "image_token_index": 250, "projection_dim": 64, "vision_config": tower()
            }),
            16,
        ),
    ];
    for (config, image_tokens) in families {
        worker.load(&dummy(&config)).unwrap();
        let seen = worker.generate(&asked).unwrap();
        assert_eq!(phases(&seen), ["vision", "prefill", "decode"], "{config}");
        for request in &seen.requests {
            assert_eq!(request.prompt_tokens, image_tokens + 4, "{config}");
        }
    }
    worker.finish();
}

/// What a family wants cannot always be reported from its config; that is said in the words of the config, not of torch.
#[test]
#[ignore = "live: needs torch and transformers"]
fn images_that_do_not_fit_are_refused() {
    let mut worker = Worker::start();
    let mut asked = batch(&[&[1, 2, 3, 4]], 2);
    asked.requests[0].images = vec![Image {
        height: 0,
        width: 0,
        path: None,
    }];
    let config = json!({
        "model_type": "idefics2", "text_config": decoder("mistral"), "vision_config": tower(), "image_token_id": 250,
        "perceiver_config": {
            "resampler_n_latents": 4, "resampler_depth": 1, "resampler_n_heads": 4, "resampler_head_dim": 16,
            "num_key_value_heads": 2
        }
    });
    worker.load(&dummy(&config)).unwrap();
    let refused = worker.generate(&asked).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unsupported);
    assert!(
        refused.message.contains("Idefics2ForConditionalGeneration"),
        "{}",
        refused.message
    );
    assert!(refused.hint.unwrap().contains("workload.images.count=0"));
    worker.finish();
}
