//! Latent attention: the three ways to decode, worked by hand for DeepSeek-V3.

use llmprof_theory::{Kind, MlaDecode, Pass, Workload};

use crate::support::published;

const LAYERS: u64 = 61;
const HEADS: u64 = 128;
const RANK: u64 = 512;
const ROPE: u64 = 64;
const NOPE: u64 = 128;
const VALUE: u64 = 128;

/// Matrix work of one decode step after `context` tokens.
fn flops(mla: MlaDecode, context: u64) -> u64 {
    let workload = Workload {
        mla,
        ..Workload::default()
    };
    let pass = Pass::decode_steps(1, context, 1);
    published("deepseek_v3")
        .cost_of(&workload, &pass)
        .tensor
        .total()
}

#[test]
fn expanding_costs_one_projection_per_cached_token() {
    let context = 1000;
    let projection = 2 * RANK * HEADS * (NOPE + VALUE);
    assert_eq!(
        flops(MlaDecode::Expanded, context) - flops(MlaDecode::Naive, context),
        LAYERS * context * projection
    );
}

#[test]
fn absorbing_trades_the_projection_for_wider_scores() {
    let context = 1000;
    let keys = context + 1;
    let naive = 2 * HEADS * keys * (NOPE + ROPE + VALUE) + 2 * RANK * HEADS * (NOPE + VALUE);
    let absorbed = 2 * HEADS * keys * (RANK + ROPE + RANK) + 2 * HEADS * RANK * (NOPE + VALUE);
    let difference = flops(MlaDecode::Absorbed, context) - flops(MlaDecode::Naive, context);
    assert_eq!(difference, LAYERS * (absorbed - naive));
}

#[test]
fn absorbed_steps_read_the_latent_once_for_all_heads() {
    let model = published("deepseek_v3");
    let workload = Workload {
        batch: 4,
        ..Workload::default()
    };
    let mut read = 0;
    model.lower_pass(
        &workload,
        &Pass::decode_steps(4, 1000, 1),
        &mut |operator| {
            if operator.kind == Kind::Attention {
                read += operator.traffic.kv_read * u64::from(operator.layers);
            }
        },
    );
    assert_eq!(read, LAYERS * 4 * 1000 * (RANK + ROPE) * 2);
}
