use super::*;
use llmprof_theory::kernels::{Access, Stored};

fn shipped() -> KernelCurves {
    KernelCurves::embedded("h200").unwrap()
}

fn clock(curves: &KernelCurves) -> KernelClock {
    KernelClock::new(curves, curves.peak_flops, curves.bytes_per_s)
}

/// Kernels as the sweep has them, with the times that the shipped curves give.
fn samples(curves: &KernelCurves) -> Vec<KernelSample> {
    let mut alone = curves.clone();
    alone.gemm.in_model.fill(1.0);
    alone.attention.prefill_in_model.fill(1.0);
    alone.attention.decode_in_model.fill(1.0);
    let (own, among) = (clock(&alone), clock(curves));
    let mut samples = Vec::new();
    let mut add = |kernel: Kernel, both: bool| {
        let ns = |clock: &KernelClock| clock.time_kernel(&kernel).seconds() * 1e9;
        samples.push(KernelSample {
            kernel,
            ns: ns(&own),
            in_model: false,
        });
        if both {
            samples.push(KernelSample {
                kernel,
                ns: ns(&among),
                in_model: true,
            });
        }
    };
    for m in [1.0, 4.0, 16.0, 128.0, 2048.0] {
        for n in [256.0, 4096.0, 16384.0] {
            for k in [1024.0, 4096.0, 14336.0] {
                let kernel = |groups: f64, size: f64, aligned: bool| Kernel::Gemm {
                    groups,
                    m,
                    n,
                    k,
                    size,
                    aligned,
                    stored: Stored::Plain,
                };
                add(kernel(1.0, 2.0, true), true);
                add(kernel(64.0, 2.0, true), false);
                add(kernel(64.0, 2.0, false), false);
                add(kernel(1.0, 4.0, true), false);
            }
        }
    }
    for batch in [1.0, 4.0, 16.0, 64.0] {
        for keys in [128.0, 512.0, 2048.0, 4096.0] {
            for (queries, kv_heads, masked) in [
                (1.0, 8.0, false),
                (1.0, 32.0, false),
                (keys, 8.0, false),
                (keys, 32.0, true),
            ] {
                let kernel = Kernel::Attention {
                    batch,
                    heads: 32.0,
                    kv_heads,
                    queries,
                    keys,
                    key_dim: 128.0,
                    value_dim: 128.0,
                    causal: queries > 1.0 && !masked,
                    masked,
                    cached: 2.0,
                };
                add(kernel, true);
            }
        }
    }
    for access in Access::ALL {
        let by_row = matches!(access, Access::Reduce | Access::Norm);
        for power in (4..29).step_by(2) {
            let elements = f64::from(1 << power);
            for size in [2.0, 4.0] {
                for width in [128.0, 1024.0, 4096.0] {
                    if by_row && width > elements || !by_row && width > 128.0 {
                        continue;
                    }
                    let kernel = Kernel::Stream {
                        access,
                        bytes: 2.0 * elements * size,
                        elements,
                        width: if by_row { width } else { 0.0 },
                    };
                    add(kernel, false);
                }
            }
        }
    }
    samples
}

#[test]
fn curves_are_found_again_from_their_times() {
    let shipped = shipped();
    let samples = samples(&shipped);
    let limits = [shipped.peak_flops, shipped.bytes_per_s];
    let fitted = fit_curves(&samples, "test".to_owned(), limits, &shipped);
    // No sample is of experts or of rows that are not aligned.
    assert_eq!(fitted.borrowed, ["gemm_unaligned", "grouped"]);
    assert_eq!(fitted.curves.find_mistake(), None);
    for (class, ratio) in ratios_by_class(&samples, &clock(&fitted.curves), &clock(&shipped)) {
        assert!((ratio.median - 1.0).abs() < 0.03, "{class:?} {ratio:?}");
        assert!(ratio.p10 > 0.8 && ratio.p90 < 1.25, "{class:?} {ratio:?}");
    }
}

#[test]
fn a_device_of_half_the_speed_takes_twice_as_long() {
    let shipped = shipped();
    let mut samples = samples(&shipped);
    for sample in &mut samples {
        sample.ns *= 2.0;
    }
    let limits = [shipped.peak_flops / 2.0, shipped.bytes_per_s / 2.0];
    let fitted = fit_curves(&samples, "test".to_owned(), limits, &shipped).curves;
    let slow = KernelClock::new(&fitted, limits[0], limits[1]);
    for (class, ratio) in ratios_by_class(&samples, &slow, &clock(&shipped)) {
        assert!((ratio.median - 2.0).abs() < 0.1, "{class:?} {ratio:?}");
    }
}

#[test]
fn nothing_measured_leaves_all_curves_as_they_were() {
    let shipped = shipped();
    let limits = [shipped.peak_flops, shipped.bytes_per_s];
    let broken = [KernelSample {
        kernel: Kernel::Stream {
            access: Access::Fill,
            bytes: 1.0,
            elements: 1.0,
            width: 0.0,
        },
        ns: f64::NAN,
        in_model: false,
    }];
    let fitted = fit_curves(&broken, shipped.source.clone(), limits, &shipped);
    assert_eq!(fitted.borrowed.len(), 5 + 4 + Access::ALL.len() + 2);
    assert_eq!(fitted.curves.gemm, shipped.gemm);
    assert_eq!(fitted.curves.streams, shipped.streams);
}
