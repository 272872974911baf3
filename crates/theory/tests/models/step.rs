//! General steps: equal to passes where both can say the same, to hand-made numbers, and within their bounds.

use crate::support::{names, published};
use llmprof_theory::{
    AttentionConvention, Cost, Kind, Logits, MlaDecode, Model, Part, Pass, SequenceSums, Sequences,
    Step, Workload,
    device::Catalog,
    roofline::{PhaseRoofline, Roof},
};
use llmprof_units::{Basis, DType};
use proptest::prelude::*;

fn group(count: u64, new: u64, cached: u64) -> Sequences {
    Sequences { count, new, cached }
}

/// The sums of sequences, as an engine adds them up.
fn sums(groups: &[Sequences]) -> SequenceSums {
    let mut sums = SequenceSums::default();
    for group in groups {
        let (count, new, total) = (group.count, group.new, group.new + group.cached);
        sums.sequences += count;
        sums.new += count * new;
        sums.total += count * total;
        sums.new_squared += count * new * new;
        sums.new_total += count * new * total;
    }
    sums
}

/// The same step with the sums of each part in place of its sequences.
fn summed(step: &Step) -> Step {
    let part = |part: &Part| match part {
        Part::Groups(groups) => Part::Sums(sums(groups)),
        other => other.clone(),
    };
    Step {
        prefill: part(&step.prefill),
        decode: part(&step.decode),
        logits: step.logits,
    }
}

fn decoders() -> Vec<(String, Model)> {
    names()
        .into_iter()
        .map(|name| (name.clone(), published(&name)))
        .filter(|(_, model)| model.decoder.is_some() && model.encoder.is_none())
        .collect()
}

/// Every operator as text: kind, place, shape, work, bytes, basis.
fn of_pass(model: &Model, workload: &Workload, pass: &Pass) -> Vec<String> {
    let mut all = Vec::new();
    model.lower_pass(workload, pass, &mut |operator| {
        all.push(format!("{operator:?}"));
    });
    all
}

fn of_step(model: &Model, workload: &Workload, step: &Step) -> Vec<String> {
    let mut all = Vec::new();
    model.lower_step(workload, step, &mut |operator| {
        all.push(format!("{operator:?}"));
    });
    all
}

fn of_kind(model: &Model, workload: &Workload, step: &Step, kind: Kind) -> Cost {
    let mut cost = Cost::default();
    model.lower_step(workload, step, &mut |operator| {
        if operator.kind == kind {
            cost.add_operator(operator);
        }
    });
    cost
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let mla = vec![MlaDecode::Absorbed, MlaDecode::Naive, MlaDecode::Expanded];
    (any::<bool>(), any::<bool>(), prop::sample::select(mla)).prop_map(|(full, all, mla)| {
        Workload {
            attention: if full {
                AttentionConvention::Full
            } else {
                AttentionConvention::Causal
            },
            logits: if all { Logits::All } else { Logits::Last },
            mla,
            ..Workload::default()
        }
    })
}

fn any_sequences() -> impl Strategy<Value = Vec<Sequences>> {
    let one = (1u64..5, prop_oneof![Just(1u64), 1u64..700], 0u64..6000);
    prop::collection::vec(
        one.prop_map(|(count, new, cached)| group(count, new, cached)),
        1..6,
    )
}

/// Sums that grow with attention alone: matrix work, other work, cache read, cache written.
fn attended(cost: &Cost) -> [u64; 4] {
    [
        cost.tensor.total(),
        cost.vector.total(),
        cost.traffic.kv_read,
        cost.traffic.kv_write,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn equal_sequences_cost_what_their_pass_costs(
        workload in any_workload(), batch in 1u64..9, new in 1u64..600, cached in 0u64..6000,
    ) {
        for (name, model) in decoders() {
            let pass = Pass::prefill_chunks(batch, new, cached, None, workload.logits).next().unwrap();
            let step = Step::all_prefill(Part::Groups(vec![group(batch, new, cached)]));
            prop_assert_eq!(of_pass(&model, &workload, &pass), of_step(&model, &workload, &step), "{}", name);
            let pass = Pass::decode_steps(batch, cached, 1);
            let step = Step::all_decode(Part::Groups(vec![group(batch, 1, cached)]));
            prop_assert_eq!(of_pass(&model, &workload, &pass), of_step(&model, &workload, &step), "{}", name);
        }
    }

    #[test]
    fn how_sequences_are_grouped_changes_nothing(workload in any_workload(), groups in any_sequences()) {
        let apart: Vec<_> = groups
            .iter()
            .rev()
            .flat_map(|each| (0..each.count).map(|_| group(1, each.new, each.cached)))
            .collect();
        let (step, other) = (Step::of_sequences(groups), Step::of_sequences(apart));
        for (name, model) in decoders() {
            prop_assert_eq!(model.cost_step(&workload, &step), model.cost_step(&workload, &other), "{}", name);
        }
    }

    #[test]
    fn attention_adds_up_and_linear_layers_run_once(workload in any_workload(), groups in any_sequences()) {
        let step = Step::of_sequences(groups.clone());
        let rows: u64 = groups.iter().map(|each| each.count * each.new).sum();
        for (name, model) in decoders() {
            let mut parts = [0u64; 4];
            for each in &groups {
                let one = Step::of_sequences([*each]);
                let cost = attended(&of_kind(&model, &workload, &one, Kind::Attention));
                parts.iter_mut().zip(cost).for_each(|(sum, part)| *sum += part);
            }
            let whole = of_kind(&model, &workload, &step, Kind::Attention);
            prop_assert_eq!(attended(&whole), parts, "{}", name);
            // Norms, rotations and experts see rows only: those of one prompt with as many tokens.
            let prompt = Step::all_prefill(Part::Groups(vec![group(1, rows, 0)]));
            for kind in [Kind::Norm, Kind::Rope, Kind::Activation, Kind::Experts, Kind::Route, Kind::Embedding] {
                let (got, expected) = (
                    of_kind(&model, &workload, &step, kind),
                    of_kind(&model, &workload, &prompt, kind),
                );
                prop_assert_eq!(got, expected, "{} {}", name, kind);
            }
        }
    }

    #[test]
    fn sums_are_exact_without_windows_and_bounds_with_them(workload in any_workload(), groups in any_sequences()) {
        let step = Step::of_sequences(groups);
        let labelled = summed(&step);
        prop_assert_eq!(labelled.validate(), Ok(()));
        for (name, model) in decoders() {
            let exact = model.cost_step(&workload, &step);
            let (lower, upper) = model.cost_step_bounds(&workload, &labelled);
            let upper = upper.unwrap();
            let decoder = model.decoder.as_ref().unwrap();
            let windows = decoder.numbered_layers().any(|(_, layer)| layer.attention_window().is_some());
            // Sums do not tell how full the last chunk of a sequence is.
            if !windows && decoder.positions.is_none() && !model.has_gated_delta() {
                prop_assert_eq!(lower, exact, "{}", name);
                prop_assert_eq!(upper, exact, "{}", name);
            }
            for ((low, exact), high) in attended(&lower).into_iter().zip(attended(&exact)).zip(attended(&upper)) {
                prop_assert!(low <= exact && exact <= high, "{} {} {} {}", name, low, exact, high);
            }
            let bytes = |cost: &Cost| cost.traffic.min_dram_bytes();
            prop_assert!(bytes(&lower) <= bytes(&exact) && bytes(&exact) <= bytes(&upper), "{}", name);
        }
    }

    #[test]
    fn counts_alone_bound_from_below(workload in any_workload(), groups in any_sequences()) {
        let exact = Step::of_sequences(groups);
        let counts = |part: &Part| Part::Counts { sequences: part.sequences(), new: part.new_tokens() };
        let step = Step { prefill: counts(&exact.prefill), decode: counts(&exact.decode), logits: None };
        for (name, model) in decoders() {
            let (lower, upper) = model.cost_step_bounds(&workload, &step);
            prop_assert_eq!(upper, None);
            let cost = model.cost_step(&workload, &exact);
            for (low, exact) in attended(&lower).into_iter().zip(attended(&cost)) {
                prop_assert!(low <= exact, "{} {} {}", name, low, exact);
            }
            prop_assert!(lower.traffic.weights <= cost.traffic.weights, "{}", name);
        }
    }
}

/// Llama-3.1-8B in BF16: 32 layers of width 4096, 32 heads and 8 KV heads of 128, MLP 14336, vocabulary 128256.
mod llama {
    pub(super) const LAYERS: u64 = 32;
    /// q 4096×4096, k and v 4096×1024, o 4096×4096, gate, up and down 4096×14336.
    pub(super) const LAYER: u64 = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336;
    pub(super) const HEAD: u64 = 4096 * 128_256;
    /// Bytes of a token's keys and values in one layer.
    pub(super) const KV: u64 = 2 * 8 * 128 * 2;
}

#[test]
fn llama_decodes_three_sequences() {
    let model = published("llama3_1_8b");
    let step = Step::of_sequences([group(1, 1, 100), group(1, 1, 500), group(1, 1, 2000)]);
    assert_eq!(step.validate(), Ok(()));
    let cost = model.cost_step(&Workload::default(), &step);
    // 3 rows; 101 + 501 + 2001 = 2603 keys, each 2 × 2 × 128 operations for each of 32 heads; angles 3 × 64 × 2.
    let attention = llama::LAYERS * 2603 * 32 * 4 * 128;
    assert_eq!(attention, 1_364_721_664);
    let linear = 2 * 3 * (llama::LAYERS * llama::LAYER + llama::HEAD);
    assert_eq!(linear, 45_027_950_592);
    assert_eq!(cost.tensor.total(), linear + attention + 3 * 64 * 2);
    assert_eq!(cost.tensor.get(DType::Bf16), cost.tensor.total());
    assert_eq!(cost.traffic.kv_read, llama::LAYERS * 2600 * llama::KV);
    assert_eq!(cost.traffic.kv_read, 340_787_200);
    assert_eq!(cost.traffic.kv_write, llama::LAYERS * 3 * llama::KV);
    // Every matrix once, three rows of the embedding, 65 norms.
    let weights = 2 * (llama::LAYERS * llama::LAYER + llama::HEAD + 3 * 4096 + 65 * 4096);
    assert_eq!(cost.traffic.weights, weights);
    // Ids of three tokens, logits of three positions.
    assert_eq!(cost.traffic.boundary, 3 * 8 + 3 * 128_256 * 2);
    assert_eq!(cost.basis, Basis::Counted);

    // As the label of vLLM says it: execute_3_context_0(…)_generation_3(sq3sk2603sqsq3sqsk2603).
    let label = Step::all_decode(Part::Sums(SequenceSums {
        sequences: 3,
        new: 3,
        total: 2603,
        new_squared: 3,
        new_total: 2603,
    }));
    assert_eq!(model.cost_step(&Workload::default(), &label), cost);
}

#[test]
fn llama_prefills_a_chunk_beside_seven_decodes() {
    let model = published("llama3_1_8b");
    let step = Step::of_sequences([group(1, 512, 1024), group(7, 1, 640)]);
    assert!(step.is_mixed());
    let cost = model.cost_step(&Workload::default(), &step);
    // The chunk: 512 × 1024 + 512 × 513 ÷ 2 = 655616 keys; the decodes: 7 × 641 = 4487.
    let keys = 655_616 + 4_487;
    let attention = llama::LAYERS * keys * 32 * 4 * 128;
    // 519 rows; logits of eight positions.
    let linear = 2 * (519 * llama::LAYERS * llama::LAYER + 8 * llama::HEAD);
    assert_eq!(linear, 7_252_941_471_744);
    assert_eq!(cost.tensor.total(), linear + attention + 519 * 64 * 2);
    assert_eq!(
        cost.traffic.kv_read,
        llama::LAYERS * (1024 + 7 * 640) * llama::KV
    );
    assert_eq!(cost.traffic.kv_write, llama::LAYERS * 519 * llama::KV);
    let weights = 2 * (llama::LAYERS * llama::LAYER + llama::HEAD + 519 * 4096 + 65 * 4096);
    assert_eq!(cost.traffic.weights, weights);

    // Every query against every key at hand: 512 × 1536 + 7 × 641.
    let full = Workload {
        attention: AttentionConvention::Full,
        ..Workload::default()
    };
    let full = model.cost_step(&full, &step);
    let keys = 512 * 1536 + 7 * 641;
    assert_eq!(
        full.tensor.total(),
        linear + llama::LAYERS * keys * 32 * 4 * 128 + 519 * 64 * 2
    );

    // Logits of all 519 positions, as a verifier of drafts computes them.
    let stated = Step {
        logits: Some(519),
        ..step
    };
    let stated = model.cost_step(&Workload::default(), &stated);
    assert_eq!(
        stated.tensor.total() - cost.tensor.total(),
        2 * 511 * llama::HEAD
    );
}

#[test]
fn a_window_is_exact_for_sequences_and_bounded_for_sums() {
    let model = published("mistral_7b");
    let window = model.decoder.as_ref().unwrap().groups[0]
        .layer
        .attention_window();
    assert_eq!(window, Some(4096));
    let groups = [group(1, 1, 100), group(1, 1, 10_000)];
    let step = Step::of_sequences(groups);
    let cost = model.cost_step(&Workload::default(), &step);
    // The long sequence reads 4095 tokens and meets 4096 keys.
    assert_eq!(cost.traffic.kv_read, 32 * (100 + 4095) * llama::KV);
    let (lower, upper) = model.cost_step_bounds(&Workload::default(), &summed(&step));
    let upper = upper.unwrap();
    // All 10100 tokens may be of one sequence, or spread over both so that each fills its window.
    assert_eq!(lower.traffic.kv_read, 32 * 4095 * llama::KV);
    assert_eq!(upper.traffic.kv_read, 32 * 2 * 4095 * llama::KV);
    assert_eq!((lower.basis, upper.basis), (Basis::Derived, Basis::Derived));
    // Sums that cannot reach past the window are exact.
    let short = Step::of_sequences([group(1, 1, 100), group(1, 300, 1000)]);
    let (lower, upper) = model.cost_step_bounds(&Workload::default(), &summed(&short));
    assert_eq!(lower, model.cost_step(&Workload::default(), &short));
    assert_eq!(upper, Some(lower));
}

#[test]
fn latent_attention_of_a_mixed_step_expands_prefill_and_absorbs_decode() {
    let model = published("deepseek_v2_lite");
    let workload = Workload::default();
    let step = Step::of_sequences([group(1, 64, 128), group(3, 1, 200)]);
    let mut seen = Vec::new();
    model.lower_step(&workload, &step, &mut |operator| {
        if operator.numbers.first() == Some(&0) && operator.path.name.starts_with("self_attn") {
            seen.push((
                operator.path.name.to_owned(),
                operator.shape.m,
                operator.traffic.weights,
            ));
        }
    });
    let row = |name: &str| {
        seen.iter()
            .find(|(operator, ..)| operator == name)
            .unwrap()
            .clone()
    };
    // 64 + 128 tokens are expanded; the three that decode are not.
    let (_, rows, weights) = row("self_attn.kv_b_proj");
    assert_eq!((rows, weights), (192, 512 * 16 * (128 + 128) * 2));
    assert_eq!(row("self_attn.absorb_k").1, 3);
    // Its weights are those of the expansion: read once.
    assert_eq!(row("self_attn.absorb_k").2 + row("self_attn.absorb_v").2, 0);
    assert_eq!(
        seen.iter().filter(|(name, ..)| name == "self_attn").count(),
        2
    );
    let cost = of_kind(&model, &workload, &step, Kind::Attention);
    // 16 heads, 27 layers: prefill keys of 192 and values of 128, decode over the latent of 512 + 64 and 512.
    let prefill = (64 * 128 + 64 * 65 / 2) * 16 * 2 * (192 + 128);
    let decode = 3 * 201 * 16 * 2 * (576 + 512);
    assert_eq!(cost.tensor.total(), 27 * (prefill + decode));
    assert_eq!(cost.traffic.kv_read, 27 * (128 + 600) * 576 * 2);
}

#[test]
fn experts_are_touched_by_all_tokens_of_a_step() {
    let model = published("mixtral_8x7b");
    let workload = Workload::default();
    let step = Step::of_sequences([group(2, 1, 50)]);
    let cost = of_kind(&model, &workload, &step, Kind::Experts);
    // 8·(1 − (6/8)²) = 3.5 of 8 experts in each of 32 layers.
    assert_eq!(cost.traffic.weights, 32 * 7 * 3 * 4096 * 14336);
    assert_eq!(cost.basis, Basis::Expected);
}

#[test]
fn contradictory_steps_are_refused() {
    let fixture = SequenceSums {
        sequences: 9,
        new: 8155,
        total: 8430,
        new_squared: 7_475_785,
        new_total: 7_671_310,
    };
    assert!(fixture.is_consistent());
    let bad = [
        SequenceSums {
            sequences: 0,
            ..fixture
        },
        SequenceSums {
            sequences: 9000,
            ..fixture
        },
        SequenceSums {
            total: 8154,
            ..fixture
        },
        SequenceSums {
            new_squared: 7_475_786,
            ..fixture
        },
        SequenceSums {
            new_squared: 8155,
            ..fixture
        },
        SequenceSums {
            new_squared: u64::MAX,
            ..fixture
        },
        SequenceSums {
            new_total: 7_475_784,
            ..fixture
        },
        SequenceSums {
            new_total: u64::MAX,
            ..fixture
        },
    ];
    for sums in bad {
        let step = Step::all_prefill(Part::Sums(sums));
        assert!(step.validate().is_err(), "{sums:?}");
    }
    for part in [
        Part::Groups(vec![group(0, 1, 1)]),
        Part::Groups(vec![group(1, 0, 1)]),
        Part::Counts {
            sequences: 3,
            new: 2,
        },
        Part::Counts {
            sequences: 0,
            new: 2,
        },
    ] {
        let message = Step::all_decode(part).validate().unwrap_err().to_string();
        assert!(message.contains("decode"), "{message}");
    }
    // What is not validated still counts without panic, saturating.
    let model = published("mistral_7b");
    for sums in bad.into_iter().chain([SequenceSums {
        sequences: u64::MAX,
        new: u64::MAX,
        total: u64::MAX,
        new_squared: u64::MAX,
        new_total: u64::MAX,
    }]) {
        let step = Step::all_decode(Part::Sums(sums));
        model.cost_step_bounds(&Workload::default(), &step);
    }
    let huge = Step::of_sequences([group(u64::MAX, u64::MAX, u64::MAX)]);
    assert_eq!(
        model.cost_step(&Workload::default(), &huge).tensor.total(),
        u64::MAX
    );
    assert_eq!(
        model.cost_step(&Workload::default(), &Step::default()),
        Cost::default()
    );
}

#[test]
fn the_roofline_time_of_a_decode_step_is_that_of_its_bytes() {
    let model = published("llama3_1_8b");
    let device = Catalog::embedded().by_name("h100_sxm").unwrap();
    let roof = Roof::new(&device);
    let workload = Workload::default();
    let groups = vec![group(8, 1, 1000)];
    let step = Step::all_decode(Part::Groups(groups));
    let roofline = PhaseRoofline::of_step(&roof, &model, &workload, &step).unwrap();
    let pass =
        PhaseRoofline::of_pass(&roof, &model, &workload, &Pass::decode_steps(8, 1000, 1)).unwrap();
    assert_eq!(roofline, pass);
    let bytes = model.cost_step(&workload, &step).traffic.min_dram_bytes();
    let seconds = bytes as f64 / device.memory_bandwidth().0;
    assert!((roofline.memory_ns.0 as f64 / 1e9 / seconds - 1.0).abs() < 1e-6);
}
