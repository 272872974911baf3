//! DeepSeek-OCR-2 against transformers' own model under torch's counter.

use std::collections::BTreeMap;

use crate::support::data;
use llmprof_theory::{AttentionConvention, Images, Logits, Model, Pass, Span, Workload};
use serde_json::Value;

fn truth() -> Value {
    data("deepseek_ocr2.json")
}

fn published() -> Model {
    Model::from_config(&truth()["published"]["config"], None).unwrap()
}

fn workload(images: u64, wide: u64, high: u64) -> Workload {
    Workload {
        prompt: 9,
        attention: AttentionConvention::Full,
        logits: Logits::All,
        images: Images {
            count: images,
            crops_wide: wide,
            crops_high: high,
            ..Images::default()
        },
        ..Workload::default()
    }
}

#[test]
fn the_published_size_has_the_parameters_of_transformers() {
    let model = published();
    let expected = truth()["published"]["parameters"].as_u64().unwrap();
    assert_eq!(model.parameter_count(), expected);
    // The vendor speaks of 3 B.
    assert!(
        (3_300_000_000..3_500_000_000).contains(&expected),
        "{expected}"
    );
}

#[test]
fn an_image_with_six_crops_costs_what_torch_counts() {
    let model = published();
    let vision_flops = model
        .cost_span(&workload(1, 2, 3), Span::Vision)
        .tensor
        .total();
    let expected = truth()["published"]["image"]["flops"].as_u64().unwrap();
    assert_eq!(vision_flops, expected);
}

/// 256 queries of the whole image, 144 of each crop, and a separator.
#[test]
fn tokens_of_an_image_are_those_of_the_processor() {
    let model = published();
    assert_eq!(model.prompt_tokens(&workload(1, 0, 0)), 9 + 257);
    assert_eq!(model.prompt_tokens(&workload(1, 2, 3)), 9 + 257 + 6 * 144);
    assert_eq!(model.prompt_tokens(&workload(1, 1, 1)), 9 + 257);
}

#[test]
fn the_small_model_is_what_torch_makes_and_counts() {
    let truth = truth();
    let tiny = &truth["tiny"];
    let model = Model::from_config(&tiny["config"], None).unwrap();
    assert_eq!(Some(model.parameter_count()), tiny["parameters"].as_u64());
    let expected: BTreeMap<String, Vec<u64>> =
        serde_json::from_value(tiny["vision_tensors"].clone()).unwrap();
    let tensors: BTreeMap<_, _> = model
        .checkpoint_tensors()
        .into_iter()
        .filter(|tensor| tensor.name.starts_with("model.vision_tower."))
        .map(|tensor| (tensor.name, tensor.shape.sizes().to_vec()))
        .collect();
    assert_eq!(tensors, expected);
    for (point, crops) in tiny["vision_flops"].as_array().unwrap().iter().zip([0, 3]) {
        let images = point["images"].as_u64().unwrap();
        let asked = workload(images, u64::from(crops > 0), crops);
        let vision_flops = model.cost_span(&asked, Span::Vision).tensor.total();
        assert_eq!(Some(vision_flops), point["flops"].as_u64(), "{point}");
    }
    let text = &tiny["text_flops"];
    let asked = Workload {
        batch: 2,
        ..workload(0, 0, 0)
    };
    let prefill: u64 = model
        .prefill_passes(&asked)
        .map(|pass| model.cost_of(&asked, &pass).tensor.total())
        .sum();
    assert_eq!(Some(prefill), text["prefill"].as_u64());
    let decode = model
        .cost_of(&asked, &Pass::decode_steps(2, 9, 1))
        .tensor
        .total();
    assert_eq!(Some(decode), text["decode"].as_u64());
}

/// A causal count leaves out what queries do not see, and nothing else.
#[test]
fn queries_see_features_and_the_queries_before_them() {
    let model = published();
    let full = workload(1, 0, 0);
    let causal = Workload {
        attention: AttentionConvention::Causal,
        ..full
    };
    let of = |asked| model.cost_span(asked, Span::Vision).tensor.total();
    // 24 layers of 896 columns; 256 features do not see 256 queries, a query not those after it; 2 products of 2 FLOPs.
    let unseen = 256 * 256 + 256 * 255 / 2;
    assert_eq!(of(&full) - of(&causal), 24 * 896 * 4 * unseen);
}
