//! Laws that every model's costs obey.

use crate::support::{names, published};
use llmprof_theory::{
    AttentionConvention, Cost, Costs, Images, Kind, Logits, MlaDecode, Model, Pass, Precision,
    Span, Workload, expected_touched,
};
use proptest::prelude::*;

/// All models of a decoder alone, read once.
fn decoders() -> Vec<(String, Model)> {
    names()
        .into_iter()
        .map(|name| {
            let model = published(&name);
            (name, model)
        })
        .filter(|(_, model)| model.decoder.is_some() && model.encoder.is_none())
        .collect()
}

fn has_experts(model: &Model) -> bool {
    let mut has_experts = false;
    let pass = Pass::decode_steps(1, 1, 1);
    model.lower_pass(&Workload::default(), &pass, &mut |operator| {
        has_experts |= operator.kind == Kind::Experts;
    });
    has_experts
}

/// Work and moving bytes, which grow with the batch; weights apart.
fn moving(cost: &Cost) -> [u64; 6] {
    [
        cost.tensor.total(),
        cost.vector.total(),
        cost.traffic.kv_read,
        cost.traffic.kv_write,
        cost.traffic.activation_bytes(),
        cost.traffic.boundary,
    ]
}

fn any_workload() -> impl Strategy<Value = Workload> {
    (
        (1u64..5, 1u64..300, 1u64..40, 0u64..6000),
        prop::option::of(1u64..200),
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec![
            MlaDecode::Absorbed,
            MlaDecode::Naive,
            MlaDecode::Expanded,
        ]),
    )
        .prop_map(
            |((batch, prompt, new_tokens, cached), chunk, full, all, mla)| Workload {
                batch,
                prompt,
                new_tokens,
                // GPT-2 and OPT have learned positions for 1024 and 2048 tokens.
                cached: cached % 600,
                chunk,
                attention: if full {
                    AttentionConvention::Full
                } else {
                    AttentionConvention::Causal
                },
                logits: if all { Logits::All } else { Logits::Last },
                mla,
                ..Workload::default()
            },
        )
}

fn costs(model: &Model, workload: &Workload) -> Costs {
    model.cost_by_phase(workload).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn work_is_linear_in_the_batch(workload in any_workload(), factor in 2u64..6) {
        for (name, model) in decoders() {
            let one = costs(&model, &workload);
            let batch = workload.batch * factor;
            let many = costs(&model, &Workload { batch, ..workload });
            for (one, many) in [(one.prefill, many.prefill), (one.decode_step, many.decode_step)] {
                prop_assert_eq!(moving(&one).map(|value| value * factor), moving(&many), "{}", name);
                let (weights, more) = (one.traffic.weights, many.traffic.weights);
                if has_experts(&model) {
                    prop_assert!(more >= weights && more <= weights * factor, "{}", name);
                } else {
                    // The rows of the embedding are read per token; every other weight once.
                    let hidden = model.decoder.as_ref().unwrap().embedding.width;
                    let bytes = model.number_formats(&Precision::default()).plain.bytes_for(1).unwrap();
                    let steps = if one.calls == 0 { 0 } else { workload.prompt.max(1) };
                    prop_assert!(more - weights <= hidden * bytes * batch * steps, "{}", name);
                }
            }
        }
    }

    #[test]
    fn decode_is_the_sum_of_its_steps(workload in any_workload()) {
        for (name, model) in decoders() {
            let whole = costs(&model, &workload).decode;
            let mut sum = Cost::default();
            for step in 0..workload.decode_steps() {
                let pass = Pass::decode_steps(workload.batch, model.context_tokens(&workload) + step, 1);
                model.lower_pass(&workload, &pass, &mut |operator| sum.add_operator(operator));
            }
            prop_assert_eq!(moving(&whole), moving(&sum), "{}", name);
            prop_assert_eq!(whole.calls, sum.calls, "{}", name);
            // Expected bytes of experts are rounded once per operator.
            let (whole, sum) = (whole.traffic.weights, sum.traffic.weights);
            prop_assert!(whole.abs_diff(sum) <= workload.decode_steps() * 100, "{}", name);
        }
    }

    #[test]
    fn chunks_do_the_same_causal_work(workload in any_workload()) {
        let causal = Workload { attention: AttentionConvention::Causal, mla: MlaDecode::Naive, ..workload };
        for (name, model) in decoders() {
            let chunked = costs(&model, &causal).prefill;
            let whole = costs(&model, &Workload { chunk: None, ..causal }).prefill;
            let parts = [&chunked, &whole].map(|cost| [cost.tensor.total(), cost.traffic.kv_write]);
            if model.has_gated_delta() {
                // The last chunk of a pass need not be full, and every pass leaves a state.
                prop_assert!(parts[0][0] >= parts[1][0] && parts[0][1] >= parts[1][1], "{}", name);
            } else {
                prop_assert_eq!(parts[0], parts[1], "{}", name);
            }
            prop_assert!(chunked.traffic.kv_read >= whole.traffic.kv_read, "{}", name);
            if !has_experts(&model) {
                prop_assert!(chunked.traffic.weights >= whole.traffic.weights, "{}", name);
            }
        }
    }

    #[test]
    fn causal_is_no_more_than_full(workload in any_workload()) {
        for (name, model) in decoders() {
            let of = |attention| costs(&model, &Workload { attention, ..workload });
            let (causal, full) = (of(AttentionConvention::Causal), of(AttentionConvention::Full));
            prop_assert!(causal.prefill.total_flops() <= full.prefill.total_flops(), "{}", name);
            prop_assert_eq!(causal.decode.total_flops(), full.decode.total_flops(), "{}", name);
        }
    }

    #[test]
    fn parts_sum_to_totals(workload in any_workload()) {
        for (name, model) in decoders() {
            for span in Span::ALL {
                let images = Images {
                    count: u64::from(model.vision.is_some()),
                    height: 300,
                    width: 500,
                    crops_wide: 2,
                    crops_high: 1,
                };
                let workload = Workload { images, ..workload };
                let total = model.cost_span(&workload, span);
                let kinds = model.cost_by_kind(&workload, span);
                let layers = model.cost_by_layer(&workload, span);
                let sum = |parts: Vec<Cost>| {
                    parts.iter().fold(([0; 6], 0, 0), |(moved, weights, calls), part| {
                        let each = moving(part);
                        let moved: [u64; 6] = std::array::from_fn(|i| moved[i] + each[i]);
                        (moved, weights + part.traffic.weights, calls + part.calls)
                    })
                };
                let expected = (moving(&total), total.traffic.weights, total.calls);
                let kinds = sum(kinds.into_iter().map(|(_, cost)| cost).collect());
                let layers = sum(layers.into_iter().map(|(_, cost)| cost).collect());
                prop_assert_eq!(kinds, expected, "{}", &name);
                prop_assert_eq!(layers, expected, "{}", &name);
            }
        }
    }

    #[test]
    fn touched_experts_grow_and_saturate(experts in 1u64..300, top_k in 1u64..300, tokens in 1u64..2000) {
        let top_k = top_k.min(experts);
        let touched = expected_touched(experts, top_k, tokens);
        prop_assert!(touched >= top_k as f64 - 1e-9 && touched <= experts as f64);
        prop_assert!(touched <= (tokens * top_k) as f64 + 1e-9);
        prop_assert!(expected_touched(experts, top_k, tokens + 1) >= touched);
    }
}

/// In order of execution nothing is collapsed, and nothing is lost.
#[test]
fn the_sequence_of_execution_has_every_layer() {
    for (name, model) in decoders() {
        let workload = Workload::default();
        let pass = model.decode_step(&workload);
        let mut sequence = Cost::default();
        let mut last = None;
        let mut paths = std::collections::BTreeSet::new();
        model.lower_in_order(&workload, &pass, &mut |operator| {
            sequence.add_operator(operator);
            assert_eq!(operator.layers, 1);
            assert!(
                paths.insert(operator.path.to_string()),
                "{name}: {} twice",
                operator.path
            );
            if operator.path.layer.is_some() {
                assert!(operator.path.layer >= last, "{name}");
                last = operator.path.layer;
            }
        });
        assert_eq!(sequence, model.cost_of(&workload, &pass), "{name}");
        let layers = model.decoder.as_ref().unwrap().layer_count();
        assert_eq!(last, Some(layers - 1), "{name}");
    }
}

/// The operators of a decode step hold every parameter of the decoder once.
#[test]
fn operators_hold_the_parameters() {
    for (name, model) in decoders() {
        let vision: u64 = model
            .checkpoint_tensors()
            .iter()
            .filter(|tensor| {
                [
                    "visual.",
                    "model.visual.",
                    "model.sam_model",
                    "model.vision_model",
                    "model.projector",
                    "model.image_newline",
                    "model.view_sep",
                ]
                .iter()
                .any(|prefix| tensor.name.starts_with(prefix))
            })
            .map(|tensor| tensor.shape.elements())
            .sum();
        for mla in [MlaDecode::Absorbed, MlaDecode::Naive] {
            let workload = Workload {
                mla,
                ..Workload::default()
            };
            let mut sum = 0;
            model.lower_pass(&workload, &Pass::decode_steps(1, 8, 1), &mut |operator| {
                sum += operator.parameters * u64::from(operator.layers);
            });
            assert_eq!(sum, model.parameter_count() - vision, "{name}");
        }
    }
}

/// Weights that a decode step of one token reads from DeepSeek-OCR, from its published analysis.
#[test]
fn active_weights_of_a_token() {
    let model = published("deepseek_ocr");
    let workload = Workload::default();
    let cost = model.cost_of(&workload, &Pass::decode_steps(1, 493, 1));
    // 574,095,360 active parameters in matrices, 25 norms, and the one row of the embedding.
    assert_eq!(cost.traffic.weights, (574_095_360 + 25 * 1280 + 1280) * 2);
}
