//! Attention: ratios to roofline time by width of a head, work items and keys.

use std::collections::BTreeMap;

use super::{Bins, ComparedSamples};
use crate::curves::{
    AttentionCurve, AttentionCurves, AttentionTable, KernelClock, KernelCurves, attention_place,
};

/// Measured shapes that a place between them resembles.
const NEIGHBOURS: usize = 4;

/// One measured shape: work items, keys, ratio.
type ShapeRatios = Vec<[f64; 3]>;

/// The ratio at a place, from the nearest measured shapes by their distance in doublings.
fn nearest_ratio(known: &ShapeRatios, work: f64, keys: f64) -> f64 {
    let mut by_distance: Vec<(f64, f64)> = known
        .iter()
        .map(|[w, k, ratio]| {
            (
                (work / w).log2().powi(2) + (keys / k).log2().powi(2),
                *ratio,
            )
        })
        .collect();
    by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
    if by_distance[0].0 < 1e-6 {
        return by_distance[0].1;
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for (distance, ratio) in by_distance.into_iter().take(NEIGHBOURS) {
        let weight = 1.0 / (distance + 1e-3);
        sum += weight * ratio;
        weights += weight;
    }
    sum / weights
}

/// Says of each table whether it was measured.
pub(super) fn fit_attention(
    samples: &ComparedSamples<'_>,
    curves: &mut AttentionCurves,
) -> Vec<(&'static str, bool)> {
    let mut points: BTreeMap<(AttentionCurve, u64), ShapeRatios> = BTreeMap::new();
    for (kernel, seconds) in samples.isolated_kernels() {
        if let Some((which, dim, [work, keys])) = attention_place(kernel) {
            let roof = samples.roofline_seconds(kernel) + curves.fixed_us * 1e-6;
            let ratios = points.entry((which, dim as u64)).or_default();
            ratios.push([work, keys, seconds / roof]);
        }
    }
    let (works, lengths) = (curves.work.clone(), curves.keys.clone());
    let set = |which: AttentionCurve, target: &mut AttentionTable| {
        let dims: Vec<u64> = points
            .keys()
            .filter(|(curve, _)| *curve == which)
            .map(|(_, dim)| *dim)
            .collect();
        if dims.is_empty() {
            return false;
        }
        target.ratio = dims
            .iter()
            .flat_map(|dim| {
                let ratios = &points[&(which, *dim)];
                let (works, lengths) = (&works, &lengths);
                works.iter().flat_map(move |work| {
                    lengths
                        .iter()
                        .map(move |keys| (nearest_ratio(ratios, *work, *keys) * 1e3).round() / 1e3)
                })
            })
            .collect();
        target.dims = dims.into_iter().map(|dim| dim as f64).collect();
        true
    };
    let tables = [
        (
            "attention.prefill",
            AttentionCurve::Prefill,
            &mut curves.prefill,
        ),
        (
            "attention.prefill_masked",
            AttentionCurve::PrefillMasked,
            &mut curves.prefill_masked,
        ),
        (
            "attention.decode",
            AttentionCurve::Decode,
            &mut curves.decode,
        ),
        (
            "attention.decode_grouped",
            AttentionCurve::DecodeGrouped,
            &mut curves.decode_grouped,
        ),
    ];
    tables
        .map(|(key, which, table)| (key, set(which, table)))
        .into()
}

/// What attention takes in a layer ÷ what the curves say of it, by that time.
pub(super) fn among_others(samples: &ComparedSamples<'_>, curves: &mut KernelCurves) -> bool {
    let plain = |factors: &mut Vec<f64>| factors.iter_mut().for_each(|factor| *factor = 1.0);
    let mut alone = curves.clone();
    plain(&mut alone.attention.prefill_in_model);
    plain(&mut alone.attention.decode_in_model);
    let clock = KernelClock::new(&alone, samples.peak_flops, samples.bytes_per_s);
    let mut bins_by_phase = [Bins::new(1.0), Bins::new(1.0)];
    for (kernel, seconds) in samples.in_model() {
        if let Some((which, ..)) = attention_place(kernel) {
            let time = clock.time_kernel(kernel).seconds();
            let decode = matches!(
                which,
                AttentionCurve::Decode | AttentionCurve::DecodeGrouped
            );
            bins_by_phase[usize::from(decode)].add_value(time * 1e6, seconds / time);
        }
    }
    let axis = curves.attention.alone_us.clone();
    let [prefill, decode] = bins_by_phase.map(|bins| {
        let (places, factors) = bins.into_medians()?;
        let ratios: ShapeRatios = places
            .iter()
            .zip(&factors)
            .map(|(place, factor)| [*place, 1.0, *factor])
            .collect();
        let at = |us: &f64| nearest_ratio(&ratios, *us, 1.0);
        Some(axis.iter().map(at).collect::<Vec<f64>>())
    });
    let whole = prefill.is_some() && decode.is_some();
    if let Some(factors) = prefill {
        curves.attention.prefill_in_model = factors;
    }
    if let Some(factors) = decode {
        curves.attention.decode_in_model = factors;
    }
    whole
}
