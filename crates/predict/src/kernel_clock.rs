//! Which curves and tables kernels of a device are costed by.

use llmprof_units::DType;

use super::{Calibration, EfficiencyProfile, Implementation, KernelClock, KernelCurves};
use crate::curves::ServingClock;
use llmprof_theory::{
    device::{Device, DeviceKind, Engine},
    roofline::Roof,
};

/// The clock of kernels on `device`, where the profile names software whose kernels are known.
pub(super) fn kernel_clock(
    device: &Device,
    profile: &EfficiencyProfile,
) -> (Option<KernelClock>, Calibration) {
    let has_kernel_curves = profile.implementation.is_some() && device.kind == DeviceKind::Gpu;
    let per_flop = Roof::new(device).seconds_per_flop(DType::Bf16, Engine::Tensor);
    let Some(per_flop) = per_flop.filter(|_| has_kernel_curves) else {
        return (None, Calibration::Efficiencies);
    };
    let device_curves = profile
        .curves
        .get(&device.name)
        .cloned()
        .or_else(|| KernelCurves::embedded(&device.name));
    let engine = profile
        .implementation
        .and_then(Implementation::serving_engine);
    let tables = engine.map(|engine| ServingClock::shipped_for(device, engine));
    // Device curves were measured with transformers; they do not apply to serving engines.
    let calibration = match tables {
        Some((_, true)) => Calibration::PublicTables,
        None if device_curves.is_some() => Calibration::Measured,
        _ => Calibration::Scaled,
    };
    let Some(curves) = device_curves.or_else(|| KernelCurves::embedded("h200")) else {
        return (None, Calibration::Efficiencies);
    };
    let faster = |dtype: DType| {
        let narrow = Roof::new(device).seconds_per_flop(dtype, Engine::Tensor);
        narrow.map_or(1.0, |narrow| per_flop / narrow)
    };
    let clock = KernelClock::new(&curves, 1.0 / per_flop, device.memory_bandwidth().0)
        .with_eight_bit(faster(DType::F8E4m3))
        .with_four_bit(faster(DType::F4E2m1));
    let clock = match tables {
        Some((tables, is_own)) => clock.with_serving(tables, is_own),
        None => clock,
    };
    (Some(clock), calibration)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use llmprof_units::stats::percentile;

    use super::*;
    use llmprof_theory::{
        device::Catalog,
        kernels::{Kernel, Stored},
    };

    /// Rows of the public tables, drawn at random by the recipe that writes the curves; most lie between the curves' cells.
    const SERVING_ROWS: &str = include_str!("../tests/data/serving_rows.csv");

    /// The tables of gated delta kernels.
    const DELTA: [&str; 4] = ["conv_prefill", "conv_decode", "rule_prefill", "rule_decode"];

    fn clock_for(device: &str, engine: &str) -> (KernelClock, Calibration) {
        clock_of(&Catalog::embedded().by_name(device).unwrap(), engine)
    }

    fn clock_of(device: &Device, engine: &str) -> (KernelClock, Calibration) {
        let profile = EfficiencyProfile::embedded(engine).unwrap();
        let (clock, calibration) = kernel_clock(device, &profile);
        (clock.unwrap(), calibration)
    }

    fn parse_format(format: &str) -> (Stored, f64) {
        match format {
            "bf16" => (Stored::Plain, 2.0),
            "fp8" => (Stored::Eight, 1.0),
            "fp8_block" => (Stored::EightByBlocks, 1.0),
            "nvfp4" => (Stored::Four, 0.5625),
            "mxfp4" => (Stored::FourByBlocks, 0.53125),
            "int4" => (Stored::FourByGroups, 0.515_625),
            other => panic!("{other}"),
        }
    }

    fn gemm_kernel(m: f64, n: f64, k: f64, format: &str) -> Kernel {
        let (stored, size) = parse_format(format);
        Kernel::Gemm {
            groups: 1.0,
            m,
            n,
            k,
            size,
            aligned: true,
            stored,
        }
    }

    /// The kernels of a row.
    fn row_kernels(table: &str, format: &str, sizes: &[f64]) -> Vec<Kernel> {
        match (table, sizes) {
            ("gemm", &[m, n, k]) => vec![gemm_kernel(m, n, k, format)],
            ("experts", &[pairs, count, hidden, inner]) => {
                let (stored, size) = parse_format(format);
                // Tokens spread evenly reach as many experts as they can: all matrices, by many tokens.
                let experts = pairs.min(count);
                let one = |n, k| Kernel::Grouped {
                    experts,
                    tokens: 1.0,
                    pairs,
                    chosen: experts,
                    n,
                    k,
                    size,
                    stored,
                };
                vec![one(2.0 * inner, hidden), one(hidden, inner)]
            }
            ("conv_prefill" | "conv_decode", &[batch, queries, key_heads, heads]) => {
                vec![Kernel::CausalConv {
                    batch,
                    queries,
                    channels: (2.0 * key_heads + heads) * 128.0,
                    kernel: 4.0,
                }]
            }
            ("rule_prefill" | "rule_decode", &[batch, queries, key_heads, heads]) => {
                vec![Kernel::DeltaRule {
                    batch,
                    heads,
                    key_heads,
                    queries,
                    key_dim: 128.0,
                    value_dim: 128.0,
                    state: 4.0,
                }]
            }
            (_, &[batch, heads, kv_heads, keys, dim]) => {
                let decode = table == "decode_attention";
                vec![Kernel::Attention {
                    batch,
                    heads,
                    kv_heads,
                    queries: if decode { 1.0 } else { keys },
                    keys,
                    key_dim: dim,
                    value_dim: dim,
                    causal: !decode,
                    masked: false,
                    cached: if format == "fp8" { 1.0 } else { 2.0 },
                }]
            }
            other => panic!("{other:?}"),
        }
    }

    /// Device, table and |clock ÷ measured − 1| of every row, and whether a cell of the curves has its very shape.
    fn row_errors(
        of_delta: bool,
        clock: impl Fn(&str, &str) -> KernelClock,
    ) -> Vec<(&'static str, &'static str, f64, bool)> {
        let mut clocks = BTreeMap::new();
        let of_row = |line: &'static str| {
            let cells: Vec<&str> = line.split(',').collect();
            let [device, engine, table, format, sizes, us] = cells[..] else {
                panic!("{line}");
            };
            let clock = clocks
                .entry((device, engine))
                .or_insert_with(|| clock(device, engine));
            let sizes: Vec<f64> = sizes.split(' ').map(|size| size.parse().unwrap()).collect();
            let kernels = row_kernels(table, format, &sizes);
            let seconds: f64 = kernels
                .iter()
                .map(|one| clock.time_kernel(one).seconds())
                .sum();
            let off = (seconds * 1e6 / us.parse::<f64>().unwrap() - 1.0).abs();
            let powers = sizes.iter().all(|size| size.log2().fract() == 0.0);
            (device, table, off, table == "gemm" && powers)
        };
        let rows = SERVING_ROWS.lines().skip(1);
        rows.filter(|line| DELTA.iter().any(|table| line.contains(table)) == of_delta)
            .map(of_row)
            .collect()
    }

    fn quantile_of(mut off: Vec<f64>, share: f64) -> f64 {
        off.sort_unstable_by(f64::total_cmp);
        percentile(&off, share)
    }

    /// 4.0 % in the median over the 249 rows between cells, 26 % at p90. What lies far off are shapes that were measured apart from their neighbours, by disturbance or by another
    /// kernel, and weights that a second-level cache of 96 MiB holds.
    #[test]
    fn clocks_give_back_what_the_tables_hold() {
        let errors = row_errors(false, |device, engine| {
            let (clock, calibration) = clock_for(device, engine);
            assert_eq!(calibration, Calibration::PublicTables, "{device}");
            clock
        });
        let (exact, between): (Vec<_>, Vec<_>) = errors.into_iter().partition(|row| row.3);
        let all: Vec<f64> = between.iter().map(|row| row.2).collect();
        assert!(quantile_of(all.clone(), 0.5) < 0.05);
        assert!(quantile_of(all, 0.9) < 0.3);
        let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (device, table, off, _) in between {
            by.entry(device).or_default().push(off);
            by.entry(table).or_default().push(off);
        }
        for (group, off) in by {
            let median = quantile_of(off, 0.5);
            assert!(median < 0.08, "{group}: {median}");
        }
        // Three digits of a ratio; one in ten may be a cell that was smoothed.
        let exact: Vec<f64> = exact.iter().map(|row| row.2).collect();
        assert!(
            exact.len() >= 36 && quantile_of(exact.clone(), 0.9) < 0.005,
            "{exact:?}"
        );
    }

    /// 1.9 % in the median over 210 rows of gated delta kernels, half of them with heads between cells, and 21 % at p90: 4.1 and 15 % of the delta rule in prefill, 1.0 and 13 % in decode. Convolutions
    /// of TensorRT-LLM take the same time for any number of channels, and are off by up to 48 %.
    #[test]
    fn clocks_give_back_gated_delta_kernels() {
        let errors = row_errors(true, |device, engine| clock_for(device, engine).0);
        let of = |table: &str| -> Vec<f64> {
            let rows = errors.iter().filter(|row| row.1 == table);
            rows.map(|row| row.2).collect()
        };
        for (table, median, p90) in [
            ("conv_prefill", 0.05, 0.45),
            ("conv_decode", 0.03, 0.25),
            ("rule_prefill", 0.06, 0.2),
            ("rule_decode", 0.02, 0.2),
        ] {
            let off = of(table);
            assert!(off.len() >= 48, "{table}: {}", off.len());
            let quantiles = [0.5, 0.9].map(|share| quantile_of(off.clone(), share));
            assert!(
                quantiles[0] < median && quantiles[1] < p90,
                "{table}: {quantiles:?}"
            );
        }
        let all: Vec<f64> = errors.iter().map(|row| row.2).collect();
        let quantiles = [0.5, 0.9].map(|share| quantile_of(all.clone(), share));
        assert!(quantiles[0] < 0.025 && quantiles[1] < 0.25, "{quantiles:?}");
    }

    /// An H200 is an H100 with more bandwidth, so no kernel may be predicted slower on it, even where SGLang's table says so.
    #[test]
    fn a_disturbed_table_is_not_believed() {
        for (batch, queries) in [(1.0, 8192.0), (32.0, 1024.0), (256.0, 1.0), (512.0, 1.0)] {
            let rule = Kernel::DeltaRule {
                batch,
                heads: 64.0,
                key_heads: 16.0,
                queries,
                key_dim: 128.0,
                value_dim: 128.0,
                state: 4.0,
            };
            let seconds = |device| clock_for(device, "sglang").0.time_kernel(&rule).seconds();
            let (h200, h100) = (seconds("h200"), seconds("h100_sxm"));
            assert!(h200 <= h100, "{batch} × {queries}: {h200} {h100}");
        }
    }

    /// A device that nothing is known of but its peaks takes the H200's ratios.
    #[test]
    fn tables_of_a_device_are_nearer_than_those_of_the_h200() {
        let off = row_errors(false, |device, engine| {
            let mut device = Catalog::embedded().by_name(device).unwrap();
            device.name = "unknown".to_owned();
            device.architecture = None;
            let (clock, calibration) = clock_of(&device, engine);
            assert_eq!(calibration, Calibration::Scaled);
            clock
        });
        let off = off.into_iter().filter(|row| row.0 != "h200");
        let median = quantile_of(off.map(|row| row.2).collect(), 0.5);
        assert!(median > 0.15, "{median}");
    }

    /// Seconds of a product on a device with an engine.
    fn gemm_seconds(device: &str, engine: &str, shape: [f64; 3], format: &str) -> f64 {
        let [m, n, k] = shape;
        clock_for(device, engine)
            .0
            .time_kernel(&gemm_kernel(m, n, k, format))
            .seconds()
    }

    #[test]
    fn faster_devices_and_narrower_formats_are_faster() {
        const LARGE_GEMM: [f64; 3] = [8192.0, 8192.0, 8192.0];
        for engine in ["vllm", "sglang", "trtllm"] {
            for format in ["bf16", "fp8", "fp8_block"] {
                let at = |device| gemm_seconds(device, engine, LARGE_GEMM, format);
                for (faster, slower) in
                    [("b200", "h200"), ("h100_sxm", "l40s"), ("b300", "h100_sxm")]
                {
                    let (one, other) = (at(faster), at(slower));
                    assert!(
                        one < other,
                        "{engine} {format}: {faster} {one}, {slower} {other}"
                    );
                }
            }
            assert!(
                gemm_seconds("h100_sxm", engine, LARGE_GEMM, "bf16")
                    < gemm_seconds("a100_sxm_80gb", engine, LARGE_GEMM, "bf16")
            );
            for device in ["b200", "b300", "gb200", "gb300", "rtx_pro_6000_server"] {
                let of = |format| gemm_seconds(device, engine, LARGE_GEMM, format);
                let [four, eight, sixteen] = ["nvfp4", "fp8", "bf16"].map(of);
                assert!(
                    four < eight && eight < sixteen,
                    "{device} {engine}: {four} {eight} {sixteen}"
                );
            }
            // One row of wide matrices is read from memory: the H200's is 1.43 times as fast as the H100's, with the same units.
            let read = |device| gemm_seconds(device, engine, [1.0, 16384.0, 16384.0], "bf16");
            let ratio = read("h100_sxm") / read("h200");
            assert!((1.3..1.8).contains(&ratio), "{engine}: {ratio}");
        }
    }
}
