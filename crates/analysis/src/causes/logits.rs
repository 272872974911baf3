//! Logits of tokens that nothing is sampled from.

use super::cause::CauseKind;
use super::estimate::{gemm_ns, measured_efficiency};
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;
use crate::thresholds::KERNEL_MIN_NS;

pub(super) fn find_unused_logits(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let (Some(device), Some(forward)) = (scene.device, scene.forwards.first()) else {
        return Vec::new();
    };
    let vocabulary = forward.vocabulary;
    // One row for each sequence is sampled from.
    let needed = forward.sequences;
    let wide: Vec<&Gemm> = scene
        .gemms
        .iter()
        .filter(|gemm| gemm.groups == 1 && gemm.n == vocabulary && gemm.m > needed)
        .collect();
    let Some(&first) = wide.first() else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    let seen = measured_efficiency(scene, device, |gemm| gemm.groups == 1);
    for gemm in &wide {
        let fewer = Gemm {
            m: needed,
            ..(*gemm).clone()
        };
        let after = gemm_ns(device, &fewer, gemm.dtype, seen);
        for index in gemm.work.clone() {
            edit.set_duration(index, after.unwrap_or(KERNEL_MIN_NS));
        }
    }
    // What is done with all of them is done for those rows too.
    for &top in &scene.tops {
        let rows = scene.tensors(top).iter().find_map(|(dims, _)| {
            let (last, rows) = dims.split_last()?;
            let rows: i64 = rows.iter().product();
            (*last == vocabulary && rows > needed && dims.len() >= 2).then_some(rows)
        });
        let is_gemm = wide
            .iter()
            .any(|gemm| scene.rows_in(top).contains(&gemm.row));
        let is_table = scene.name(top) == "aten::embedding";
        let Some(rows) = rows.filter(|_| !is_gemm && !is_table) else {
            continue;
        };
        for index in scene.work_of(top) {
            let duration = scene.graph.work()[index].duration;
            let after = duration * needed / rows.max(1);
            edit.set_duration(index, after.max(KERNEL_MIN_NS));
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::UnusedLogits {
            rows: first.m as u64,
            needed: needed as u64,
        },
        place: scene.place(first.row),
        count: wide.len() as u64,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    use llmprof_record::run::RunPhase;

    fn sketch_prompt(rows: i64, us: i64) -> Sketch {
        let mut sketch = Sketch::of_phase(RunPhase::Prefill);
        sketch.look_up(4, 1024, 100_000, 2048);
        for _ in 0..8 {
            sketch.matrix_product(4096, 2048, 8192, 200);
        }
        sketch.matrix_product(rows, 2048, 100_000, us);
        sketch.synchronize();
        sketch
    }

    #[test]
    fn logits_of_all_tokens_are_a_cause() {
        let (saved, now) = sketch_prompt(4096, 2_400)
            .diagnose()
            .gain_of("unused_logits")
            .unwrap();
        assert!((2.1..2.4).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn logits_of_the_last_tokens_are_none() {
        assert_eq!(
            sketch_prompt(4, 90).diagnose().gain_of("unused_logits"),
            None
        );
    }
}
