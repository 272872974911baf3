//! GEMM: plain, of rows that are not aligned, of many small matrices, in 32 bits, of experts.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Bins, ComparedSamples, median,
    search::{FitPoint, mean_log_error, minimize_error},
};
use crate::curves::{
    BatchedCurve, GemmCurve, GroupedCurve, KernelClock, KernelCurves, UnalignedCurve, WideCurve,
};
use llmprof_theory::kernels::Kernel;

/// A GEMM of one pair of matrices in 16 bits: rows, columns, depth.
fn plain_shape(kernel: &Kernel) -> Option<([f64; 3], bool)> {
    match *kernel {
        Kernel::Gemm {
            groups,
            m,
            n,
            k,
            size,
            aligned,
            ..
        } if groups <= 1.0 && size < 4.0 => Some(([m, n, k], aligned)),
        _ => None,
    }
}

/// Ratios to roofline time at every shape of the sweep; a shape that is missing resembles its neighbour with fewer rows, columns
/// or depth.
pub(super) fn fit_plain(samples: &ComparedSamples<'_>, curve: &mut GemmCurve) -> bool {
    let mut times: BTreeMap<[u64; 3], Vec<f64>> = BTreeMap::new();
    for (kernel, seconds) in samples.isolated_kernels() {
        if let Some((shape, true)) = plain_shape(kernel) {
            let roof = samples.roofline_seconds(kernel) + curve.fixed_us * 1e-6;
            let shape = shape.map(|size| size as u64);
            times.entry(shape).or_default().push(seconds / roof);
        }
    }
    let axis = |place: usize| -> Vec<u64> {
        let sizes: BTreeSet<u64> = times.keys().map(|shape| shape[place]).collect();
        sizes.into_iter().collect()
    };
    let axes = [axis(0), axis(1), axis(2)];
    if axes.iter().any(|axis| axis.len() < 2) {
        return false;
    }
    let [rows, columns, depths] = [axes[0].len(), axes[1].len(), axes[2].len()];
    let mut ratio: Vec<Option<f64>> = vec![None; rows * columns * depths];
    let place = |a: usize, b: usize, c: usize| (a * columns + b) * depths + c;
    for a in 0..rows {
        for b in 0..columns {
            for c in 0..depths {
                let measured = times
                    .get_mut(&[axes[0][a], axes[1][b], axes[2][c]])
                    .and_then(|samples| median(samples));
                let before = [
                    a.checked_sub(1).and_then(|a| ratio[place(a, b, c)]),
                    b.checked_sub(1).and_then(|b| ratio[place(a, b, c)]),
                    c.checked_sub(1).and_then(|c| ratio[place(a, b, c)]),
                ];
                ratio[place(a, b, c)] = measured.or_else(|| before.into_iter().flatten().next());
            }
        }
    }
    let Some(ratio) = ratio.into_iter().collect::<Option<Vec<f64>>>() else {
        return false;
    };
    let [m, n, k] = axes.map(|axis| axis.into_iter().map(|size| size as f64).collect());
    (curve.m, curve.n, curve.k) = (m, n, k);
    curve.ratio = ratio
        .iter()
        .map(|ratio| (ratio * 1e3).round() / 1e3)
        .collect();
    // Set again once kernels among others are compared with these.
    (curve.rows, curve.in_model) = (vec![1.0], vec![1.0]);
    true
}

/// What a GEMM takes in a layer ÷ what the curves say of it, by rows.
pub(super) fn among_others(samples: &ComparedSamples<'_>, curves: &mut KernelCurves) -> bool {
    let clock = KernelClock::new(curves, samples.peak_flops, samples.bytes_per_s);
    let mut bins = Bins::new(1.0);
    for (kernel, seconds) in samples.in_model() {
        if let Some(([m, ..], true)) = plain_shape(kernel) {
            bins.add_value(m, seconds / clock.time_kernel(kernel).seconds());
        }
    }
    let medians = bins.into_medians();
    if let Some((rows, factors)) = &medians {
        (curves.gemm.rows, curves.gemm.in_model) = (rows.clone(), factors.clone());
    }
    medians.is_some()
}

/// The rate at which weights of rows that are not aligned are read.
pub(super) fn fit_unaligned(samples: &ComparedSamples<'_>, curve: &mut UnalignedCurve) -> bool {
    let mut bins = Bins::new(1.0);
    for (kernel, seconds) in samples.isolated_kernels() {
        if let Some(([m, n, k], false)) = plain_shape(kernel) {
            bins.add_value(m, n * k * 2.0 / seconds);
        }
    }
    let medians = bins.into_medians();
    if let Some((rows, rates)) = &medians {
        (curve.rows, curve.bytes_per_s) = (rows.clone(), rates.clone());
    }
    medians.is_some()
}

pub(super) fn fit_batched(samples: &ComparedSamples<'_>, curve: &mut BatchedCurve) -> bool {
    let batched_kernels: Vec<_> = samples
        .isolated_kernels()
        .filter_map(|(kernel, seconds)| match *kernel {
            Kernel::Gemm {
                groups,
                aligned,
                size,
                ..
            } if groups > 1.0 && size < 4.0 => Some((kernel, aligned, seconds)),
            _ => None,
        })
        .collect();
    if batched_kernels.len() < 4 {
        return false;
    }
    let start = [
        curve.fixed_us,
        samples.bytes_per_s * 0.7,
        samples.bytes_per_s * 0.3,
        0.5,
    ];
    let [fixed_us, aligned_rate, unaligned_rate, compute] =
        minimize_error(start, |[fixed, fast, slow, compute]| {
            mean_log_error(batched_kernels.iter().map(|(kernel, aligned, seconds)| {
                let memory = kernel.min_traffic_bytes() / if *aligned { fast } else { slow };
                let tensor = kernel.matrix_flops() / (compute * samples.peak_flops);
                FitPoint {
                    predicted: fixed * 1e-6 + memory.max(tensor),
                    measured: *seconds,
                }
            }))
        });
    *curve = BatchedCurve {
        fixed_us,
        aligned_bytes_per_s: aligned_rate,
        unaligned_bytes_per_s: unaligned_rate,
        compute,
    };
    true
}

pub(super) fn fit_wide(samples: &ComparedSamples<'_>, curve: &mut WideCurve) -> bool {
    let wide_kernels: Vec<_> = samples
        .isolated_kernels()
        .filter_map(|(kernel, seconds)| match *kernel {
            Kernel::Gemm { m, k, size, .. } if size >= 4.0 => Some((kernel, m, k, seconds)),
            _ => None,
        })
        .collect();
    if wide_kernels.len() < 3 {
        return false;
    }
    let start = [curve.fixed_us, curve.ns_per_k, samples.peak_flops * 0.05];
    let [fixed_us, ns_per_k, flops_per_s] = minimize_error(start, |[fixed, per_k, rate]| {
        mean_log_error(wide_kernels.iter().map(|(kernel, m, k, seconds)| {
            // As `KernelClock` adds them up.
            let walk = if *m > 1.0 && *k > 4.0 {
                k * per_k * 1e-9
            } else {
                1e-6
            };
            let work = (kernel.matrix_flops() / rate)
                .max(kernel.min_traffic_bytes() / samples.bytes_per_s);
            FitPoint {
                predicted: fixed * 1e-6 + walk + work,
                measured: *seconds,
            }
        }))
    });
    *curve = WideCurve {
        fixed_us,
        ns_per_k,
        flops_per_s,
    };
    true
}

pub(super) fn fit_grouped(samples: &ComparedSamples<'_>, curve: &mut GroupedCurve) -> bool {
    let mut bins = Bins::new(2.0);
    for (kernel, seconds) in samples.isolated_kernels() {
        if let Kernel::Grouped { pairs, .. } = *kernel {
            let rows = pairs / kernel.touched_experts().max(1e-9);
            let roof = samples.roofline_seconds(kernel) + curve.fixed_us * 1e-6;
            bins.add_value(rows, seconds / roof);
        }
    }
    let medians = bins.into_medians();
    if let Some((rows, ratio)) = &medians {
        (curve.rows, curve.ratio) = (rows.clone(), ratio.clone());
    }
    medians.is_some()
}
