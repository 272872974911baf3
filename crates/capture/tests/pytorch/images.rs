//! Models that see: the image tower is a phase of its own.

use llmprof_capture::runner::protocol::{FailureKind, Image};
use serde_json::json;

use crate::support::{Worker, batch, dummy, phases, tiny_qwen2};

#[test]
fn image_towers_are_a_phase() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    let mut asked = batch(&[&[1, 2, 3, 4]], 3);
    asked.requests[0].images = vec![Image {
        height: 56,
        width: 84,
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
