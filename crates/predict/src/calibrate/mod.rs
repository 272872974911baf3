//! Kernel curves from measured times: what `llmprof hardware measure --gpu` makes of its micro-benchmarks.
//!
//! Each curve has the few parameters that [`KernelCurves`] documents, found by a search that makes the median of
//! |ln(predicted ÷ measured)| small. What was not measured is taken over from other curves and named.

mod attention;
mod gemm;
mod search;
mod streams;

use std::collections::BTreeMap;

use llmprof_theory::kernels::{Kernel, KernelClass, KernelSample};
use llmprof_units::stats::median;
use serde::Serialize;

use crate::curves::{KernelClock, KernelCurves};

/// Curves, and the parts of them that were not measured here.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedCurves {
    pub curves: KernelCurves,
    /// Keys of [`KernelCurves`] that were taken over from other curves.
    pub borrowed: Vec<String>,
}

/// Measured times of one class beside those of other curves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassRatio {
    pub kernels: usize,
    /// 10th percentile over kernels of the first curves' time ÷ the second's.
    pub p10: f64,
    pub median: f64,
    pub p90: f64,
}

/// Times in seconds and the limits that they are compared with.
struct ComparedSamples<'s> {
    all: &'s [KernelSample],
    peak_flops: f64,
    bytes_per_s: f64,
}

impl ComparedSamples<'_> {
    fn roofline_seconds(&self, kernel: &Kernel) -> f64 {
        (kernel.matrix_flops() / self.peak_flops).max(kernel.min_traffic_bytes() / self.bytes_per_s)
    }

    fn isolated_kernels(&self) -> impl Iterator<Item = (&Kernel, f64)> {
        let times = self.all.iter().filter(|sample| !sample.in_model);
        times.map(|sample| (&sample.kernel, sample.ns * 1e-9))
    }

    fn in_model(&self) -> impl Iterator<Item = (&Kernel, f64)> {
        let times = self.all.iter().filter(|sample| sample.in_model);
        times.map(|sample| (&sample.kernel, sample.ns * 1e-9))
    }
}

/// Curves of a device with these limits. Parts without samples come from `fallback`.
pub fn fit_curves(
    samples: &[KernelSample],
    source: String,
    [peak_flops, bytes_per_s]: [f64; 2],
    fallback: &KernelCurves,
) -> FittedCurves {
    let good = |sample: &&KernelSample| sample.ns.is_finite() && sample.ns > 0.0;
    let all: Vec<KernelSample> = samples.iter().filter(good).copied().collect();
    let samples = ComparedSamples {
        all: &all,
        peak_flops,
        bytes_per_s,
    };
    let mut borrowed = Vec::new();
    let mut curves = KernelCurves {
        source,
        models: Vec::new(),
        peak_flops,
        bytes_per_s,
        ..fallback.clone()
    };
    let mut take = |key: &str, is_fitted: bool| {
        if !is_fitted {
            borrowed.push(key.to_owned());
        }
    };
    take("gemm", gemm::fit_plain(&samples, &mut curves.gemm));
    take(
        "gemm_unaligned",
        gemm::fit_unaligned(&samples, &mut curves.gemm_unaligned),
    );
    take(
        "gemm_batched",
        gemm::fit_batched(&samples, &mut curves.gemm_batched),
    );
    take("gemm_f32", gemm::fit_wide(&samples, &mut curves.gemm_f32));
    take("grouped", gemm::fit_grouped(&samples, &mut curves.grouped));
    for (key, is_fitted) in attention::fit_attention(&samples, &mut curves.attention) {
        take(key, is_fitted);
    }
    streams::fit_streams(&samples, &mut curves, &mut take);
    // Factors of kernels among others rest on the curves of kernels by themselves.
    take("gemm.in_model", gemm::among_others(&samples, &mut curves));
    take(
        "attention.in_model",
        attention::among_others(&samples, &mut curves),
    );
    FittedCurves { curves, borrowed }
}

/// How two sets of curves differ over the sampled kernels, by class.
pub fn ratios_by_class(
    samples: &[KernelSample],
    first: &KernelClock,
    second: &KernelClock,
) -> BTreeMap<KernelClass, ClassRatio> {
    let mut ratios: BTreeMap<KernelClass, Vec<f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| !sample.in_model) {
        let [a, b] = [first, second].map(|clock| clock.time_kernel(&sample.kernel).seconds());
        if a > 0.0 && b > 0.0 {
            ratios.entry(sample.kernel.class()).or_default().push(a / b);
        }
    }
    let summary = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        ClassRatio {
            kernels: values.len(),
            p10: at(0.1),
            median: at(0.5),
            p90: at(0.9),
        }
    };
    ratios
        .into_iter()
        .map(|(class, values)| (class, summary(values)))
        .collect()
}

/// Medians of values in bins of a power of two, or of a part of it.
struct Bins {
    per_doubling: f64,
    bins: BTreeMap<i64, Vec<f64>>,
}

impl Bins {
    fn new(per_doubling: f64) -> Self {
        Self {
            per_doubling,
            bins: BTreeMap::new(),
        }
    }

    fn add_value(&mut self, at: f64, value: f64) {
        let bin = (at.max(1e-12).log2() * self.per_doubling).round() as i64;
        self.bins.entry(bin).or_default().push(value);
    }

    /// Places and medians; `None` without values.
    fn into_medians(self) -> Option<(Vec<f64>, Vec<f64>)> {
        let mut places = (Vec::new(), Vec::new());
        for (bin, mut values) in self.bins {
            places.0.push((bin as f64 / self.per_doubling).exp2());
            places.1.push(median(&mut values)?);
        }
        (!places.0.is_empty()).then_some(places)
    }
}

#[cfg(test)]
mod tests;
