//! GEMMs in a wider format than the model's, or in FP32 without tensor cores.

use crate::thresholds::{BANDWIDTH_BOUND_MIN_NS, KERNEL_MIN_NS, WIDE_MODEL_MIN_SHARE};
use llmprof_record::kernel_name::Category;
use llmprof_record::trace::StrId;
use llmprof_theory::device::Engine;
use llmprof_units::{DType, Nanos};

use super::cause::{CauseKind, CausePlace};
use super::estimate::{engine_of, gemm_ns, measured_efficiency};
use super::gemms::{dtype_of, roofline_ns};
use super::graph_nodes::node_elements;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_wide_gemms(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let is_whole = is_wide_model(scene);
    // GEMMs of unfused attention go with it, unless all of the model is wide.
    let is_attention = |gemm: &Gemm| {
        let after = scene.tops.partition_point(|&top| top <= gemm.row);
        let top = after.checked_sub(1).map(|at| scene.tops[at]);
        top.is_some_and(|top| scene.name(top) == "aten::scaled_dot_product_attention")
    };
    let is_wide = |gemm: &&Gemm| {
        matches!(gemm.dtype, DType::F32 | DType::F64) && (is_whole || !is_attention(gemm))
    };
    let in_graphs = gemms_in_graphs(scene);
    let all_gemms = scene.gemms.iter().chain(&in_graphs);
    let wide: Vec<&Gemm> = all_gemms.filter(is_wide).collect();
    let longest = wide.iter().max_by_key(|gemm| gemm.device_ns);
    let (Some(device), Some(first)) = (scene.device, longest) else {
        return Vec::new();
    };
    let of_model = model_format(scene);
    let is_of_model = of_model.is_some();
    let faster = of_model.unwrap_or(DType::Tf32);
    let mut edit = Edit::default();
    let mut total = 0;
    let seen = measured_efficiency(scene, device, |gemm| gemm.m >= 256);
    for gemm in &wide {
        let (dtype, engine) = engine_of(scene, gemm);
        if !is_of_model && dtype == DType::Tf32 {
            continue;
        }
        let Some(now) = roofline_ns(device, gemm, dtype, engine) else {
            continue;
        };
        // Its own distance from the roofline, or that of the large GEMMs of the trace.
        let own = (now / gemm.device_ns as f64).clamp(0.05, seen.max(0.3));
        let Some(after) = gemm_ns(device, gemm, faster, own) else {
            continue;
        };
        total += gemm.device_ns;
        shorten_gemm(scene, &mut edit, gemm, after);
    }
    if edit.is_empty() {
        return Vec::new();
    }
    if is_whole {
        let all = scene.own_work().map(|(index, _)| index).collect::<Vec<_>>();
        halve_rest(scene, &mut edit, device, seen, &all);
    } else if let Some(part) = wide_part(scene).filter(|_| is_of_model) {
        halve_rest(scene, &mut edit, device, seen, &part);
    } else if is_of_model {
        remove_casts(scene, &mut edit, &wide);
        remove_casts_in_graphs(scene, &mut edit, &in_graphs);
    }
    vec![CauseCandidate {
        kind: CauseKind::GemmFormat {
            dtype: first.dtype,
            faster,
            is_of_model,
            kernels_ns: Nanos(scene.a_step(total)),
        },
        place: if is_whole {
            CausePlace::default()
        } else {
            scene.place(first.row)
        },
        count: wide.len() as u64,
        edit,
        partial: None,
    }]
}

/// GEMMs in FP32 among the nodes of graphs: they run the same kernels with the same grids as operators of another phase do.
fn gemms_in_graphs(scene: &Scene<'_>) -> Vec<Gemm> {
    let known = &scene.shapes.wide_gemms;
    let nodes = scene.own_work().filter(|_| !known.is_empty());
    let gemms = nodes.filter_map(|(index, work)| {
        let segment = work.segment as usize;
        let (name, grid) = scene.kernel_key(work)?;
        let (.., gemm) = known.iter().find(|one| (one.0, one.1) == (name, grid))?;
        let is_node = scene.graph.launched_by(segment..segment + 1).len() > 1;
        Some(Gemm {
            row: scene.graph.row_of_segment(segment)?,
            work: index..index + 1,
            device_ns: work.duration,
            ..gemm.clone()
        })
        .filter(|_| is_node)
    });
    gemms.collect()
}

/// GEMMs in FP32 of one kernel each, with its name and grid.
pub(super) fn wide_gemms(scenes: &[Scene<'_>]) -> Vec<(StrId, [u32; 3], Gemm)> {
    let mut wide: Vec<(StrId, [u32; 3], Gemm)> = Vec::new();
    for scene in scenes {
        for gemm in scene.gemms.iter().filter(|gemm| gemm.dtype == DType::F32) {
            if let [kernel] = &scene.graph.work()[gemm.work.clone()]
                && let Some((name, grid)) = scene.kernel_key(kernel)
                && !wide.iter().any(|one| (one.0, one.1) == (name, grid))
            {
                wide.push((name, grid, gemm.clone()));
            }
        }
    }
    wide
}

/// The node before a wide GEMM that covers its weight casts it.
fn remove_casts_in_graphs(scene: &Scene<'_>, edit: &mut Edit, gemms: &[Gemm]) {
    for gemm in gemms {
        let Some(before) = gemm.work.start.checked_sub(1) else {
            continue;
        };
        let weight = gemm.n.saturating_mul(gemm.k);
        let elements = node_elements(scene, &scene.graph.work()[before]);
        if elements.is_some_and(|(elements, block)| weight <= elements && elements - weight < block)
        {
            edit.drop_work(before);
        }
    }
}

/// Whether nearly all GEMMs are in a wider format than the model's.
pub(super) fn is_wide_model(scene: &Scene<'_>) -> bool {
    let is_wide = |gemm: &&Gemm| matches!(gemm.dtype, DType::F32 | DType::F64);
    let wide: f64 = scene.gemms.iter().filter(is_wide).map(Gemm::flops).sum();
    let all: f64 = scene.gemms.iter().map(Gemm::flops).sum();
    all > 0.0 && wide > WIDE_MODEL_MIN_SHARE * all && model_format(scene).is_some()
}

/// Work from the first wide GEMM to the last one, where nearly all GEMMs between them are wide: a part of the model such as a vision
/// tower.
fn wide_part(scene: &Scene<'_>) -> Option<Vec<usize>> {
    let is_wide = |gemm: &&Gemm| matches!(gemm.dtype, DType::F32 | DType::F64);
    let first = scene.gemms.iter().position(|gemm| is_wide(&gemm))?;
    let last = scene.gemms.iter().rposition(|gemm| is_wide(&gemm))?;
    let part = &scene.gemms[first..=last];
    let wide: f64 = part.iter().filter(is_wide).map(Gemm::flops).sum();
    let all: f64 = part.iter().map(Gemm::flops).sum();
    let rows = scene.gemms[first].row..=scene.gemms[last].row;
    let tops = scene.tops.iter().filter(|top| rows.contains(top));
    let is_own = |index: &usize| scene.graph.work()[*index].is_own;
    (part.len() > 1 && wide > WIDE_MODEL_MIN_SHARE * all).then(|| {
        tops.flat_map(|&top| scene.work_of(top))
            .filter(is_own)
            .collect()
    })
}

/// Gives the longest kernel of a GEMM its new duration; others, such as split-K reductions, stay.
fn shorten_gemm(scene: &Scene<'_>, edit: &mut Edit, gemm: &Gemm, after: i64) {
    let work = scene.graph.work();
    let longest = gemm.work.clone().max_by_key(|&index| work[index].duration);
    for index in gemm.work.clone() {
        if Some(index) == longest {
            edit.set_duration(index, after);
        }
    }
}

/// The narrower format that the model is known to have: as its config states, or as most of its other GEMMs show.
fn model_format(scene: &Scene<'_>) -> Option<DType> {
    let is_narrow = |dtype: &DType| matches!(dtype, DType::Bf16 | DType::F16);
    if let Some(stated) = scene.subject.weights {
        return Some(stated).filter(is_narrow);
    }
    let table = scene.forwards.first().and_then(|forward| {
        let tensors = scene.tensors(forward.row);
        dtype_of(tensors.first()?.1)
    });
    if let Some(table) = table.filter(is_narrow) {
        return Some(table);
    }
    let narrow: f64 = scene
        .gemms
        .iter()
        .filter(|gemm| is_narrow(&gemm.dtype))
        .map(Gemm::flops)
        .sum();
    let all: f64 = scene.gemms.iter().map(Gemm::flops).sum();
    (2.0 * narrow > all).then_some(DType::Bf16)
}

/// Casts right before and after a wide GEMM exist for its sake.
fn remove_casts(scene: &Scene<'_>, edit: &mut Edit, wide: &[&Gemm]) {
    for gemm in wide {
        let place = scene.tops.partition_point(|&top| top <= gemm.row);
        let before = scene.tops[..place.saturating_sub(1)].iter().rev().take(3);
        for &top in before.chain(scene.tops[place..].iter().take(1)) {
            let has_work = !scene.work_of(top).is_empty();
            let is_cast = ["aten::to", "aten::_to_copy", "aten::float", "aten::type_as"];
            if has_work && is_cast.contains(&scene.name(top)) {
                scene.remove(edit, top);
            }
        }
    }
}

/// In a model that is wide as a whole the other kernels move half the bytes in the narrow format, and attention runs on
/// tensor cores.
fn halve_rest(
    scene: &Scene<'_>,
    edit: &mut Edit,
    device: &llmprof_theory::device::Device,
    seen: f64,
    wide_work: &[usize],
) {
    let wide = device.dense_peak(DType::F32, Engine::Vector).ok();
    let narrow = device.dense_peak(DType::Bf16, Engine::Tensor).ok();
    let faster = wide.zip(narrow).map_or(1.0, |(wide, narrow)| {
        wide.dense_flops_per_s.0 / (narrow.dense_flops_per_s.0 * seen.min(1.0))
    });
    for &index in wide_work {
        let work = &scene.graph.work()[index];
        match scene.category(work) {
            Category::Gemm | Category::Gemv => {}
            Category::Attention => {
                let after = (work.duration as f64 * faster.min(1.0)) as i64;
                edit.set_duration(index, after.max(KERNEL_MIN_NS));
            }
            _ if work.duration >= BANDWIDTH_BOUND_MIN_NS => {
                edit.set_duration(index, work.duration / 2);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    fn sketch_head(dtype: &str, us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            for _ in 0..8 {
                sketch.matrix_product(256, 3072, 8192, 30);
            }
            let head: [(&[i64], &str); 2] = [(&[256, 3072], dtype), (&[3072, 32_000], dtype)];
            sketch.operator("aten::mm", &head, &[("sgemm_kernel", us)]);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn one_gemm_in_fp32_is_a_cause() {
        let (saved, now) = sketch_head("float", 1_500)
            .diagnose()
            .gain_of("gemm_format")
            .unwrap();
        assert!(saved > 0.6 * now, "{saved} of {now} ms");
    }

    #[test]
    fn gemms_in_the_model_format_are_none() {
        assert_eq!(
            sketch_head("c10::BFloat16", 100)
                .diagnose()
                .gain_of("gemm_format"),
            None
        );
    }
}
