//! GEMM, experts and attention as serving engines run them, by the format that weights and KV cache are stored in.
//!
//! Ratios to (roofline time + a fixed time) from public tables; `tests/recipes/serving_curves.py` writes the file.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use super::{
    axis::Axis,
    kernel::{Kernel, LEAST_COLUMNS, Stored},
};

/// Engines whose tables are shipped, all of the H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServingEngine {
    Vllm,
    Sglang,
    Trtllm,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServingCurves {
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
    gemm: BTreeMap<String, GemmTable>,
    experts: BTreeMap<String, ExpertsTable>,
    decode_attention: AttentionTables,
    prefill_attention: AttentionTables,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GemmTable {
    fixed_us: f64,
    m: Vec<f64>,
    n: Vec<f64>,
    k: Vec<f64>,
    ratio: Vec<f64>,
}

/// Of both GEMMs of a mixture of experts with all that the engine runs between and after them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpertsTable {
    fixed_us: f64,
    /// Of each expert that is reached.
    rows: Vec<f64>,
    /// Of an expert's matrix.
    elements: Vec<f64>,
    /// Experts that are reached.
    reached: Vec<f64>,
    ratio: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttentionTables {
    fixed_us: f64,
    /// Heads of all sequences: KV heads in decode.
    work: Vec<f64>,
    keys: Vec<f64>,
    cache: BTreeMap<String, CacheTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    dims: Vec<f64>,
    ratio: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Grid<const N: usize> {
    fixed_us: f64,
    axes: [Axis; N],
    ratio: Vec<f64>,
}

/// Ratios resolved for look-up.
#[derive(Clone, Debug)]
pub(crate) struct ServingClock {
    gemm: [Grid<3>; 3],
    experts: [Grid<3>; 5],
    /// Decode and prefill, each with a cache of 16 and of 8 bits.
    attention: [[Grid<3>; 2]; 2],
}

impl<const N: usize> Grid<N> {
    /// `None` where the table has another size than its axes.
    fn new(fixed_us: f64, axes: [&[f64]; N], ratio: &[f64]) -> Option<Self> {
        let cells: usize = axes.iter().map(|axis| axis.len()).product();
        let rises = axes.iter().all(|axis| {
            axis.first().is_some_and(|first| *first > 0.0)
                && axis.windows(2).all(|pair| pair[0] < pair[1])
        });
        let positive = ratio.iter().all(|ratio| *ratio > 0.0 && *ratio < 1e6);
        (cells == ratio.len() && rises && positive && fixed_us >= 0.0).then(|| Self {
            fixed_us,
            axes: axes.map(Axis::new),
            ratio: ratio.to_vec(),
        })
    }
}

impl Grid<3> {
    fn at(&self, [a, b, c]: [f64; 3]) -> f64 {
        let [in_a, in_b, in_c] = [
            self.axes[0].place(a),
            self.axes[1].place(b),
            self.axes[2].place(c),
        ];
        let (columns, depth) = (self.axes[1].0.len(), self.axes[2].0.len());
        in_a.mix(|a| in_b.mix(|b| in_c.mix(|c| self.ratio[(a * columns + b) * depth + c])))
    }
}

impl ServingClock {
    /// The shipped tables of an engine, which are of the H200: ratios carry over to devices with other peaks.
    pub(crate) fn embedded(engine: ServingEngine) -> &'static Self {
        type Lazy = LazyLock<ServingClock>;
        fn read(text: &str) -> ServingClock {
            serde_json::from_str(text)
                .ok()
                .and_then(|curves| ServingClock::new(&curves))
                .expect("the shipped file is whole, as tests read it")
        }
        static VLLM: Lazy = LazyLock::new(|| read(include_str!("../../curves/h200_vllm.json")));
        static SGLANG: Lazy = LazyLock::new(|| read(include_str!("../../curves/h200_sglang.json")));
        static TRTLLM: Lazy = LazyLock::new(|| read(include_str!("../../curves/h200_trtllm.json")));
        match engine {
            ServingEngine::Vllm => &VLLM,
            ServingEngine::Sglang => &SGLANG,
            ServingEngine::Trtllm => &TRTLLM,
        }
    }

    fn new(curves: &ServingCurves) -> Option<Self> {
        let gemm = |name: &str| {
            let table = curves.gemm.get(name)?;
            let axes = [table.m.as_slice(), &table.n, &table.k];
            Grid::new(table.fixed_us, axes, &table.ratio)
        };
        let experts = |name: &str| {
            let table = curves.experts.get(name)?;
            let axes = [table.rows.as_slice(), &table.elements, &table.reached];
            Grid::new(table.fixed_us, axes, &table.ratio)
        };
        let attention = |tables: &AttentionTables| {
            let one = |name: &str| {
                let cache = tables.cache.get(name)?;
                let axes = [cache.dims.as_slice(), &tables.work, &tables.keys];
                Grid::new(tables.fixed_us, axes, &cache.ratio)
            };
            Some([one("bf16")?, one("fp8")?])
        };
        Some(Self {
            gemm: [gemm("bf16")?, gemm("fp8")?, gemm("fp8_block")?],
            experts: [
                experts("bf16")?,
                experts("fp8")?,
                experts("fp8_block")?,
                experts("mxfp4")?,
                experts("int4")?,
            ],
            attention: [
                attention(&curves.decode_attention)?,
                attention(&curves.prefill_attention)?,
            ],
        })
    }

    /// The ratio of a kernel and its fixed time in µs; `None` where other curves have it.
    pub(super) fn of(&self, kernel: &Kernel) -> Option<(f64, f64)> {
        match *kernel {
            Kernel::Gemm {
                groups,
                m,
                n,
                k,
                size,
                stored,
                ..
            } if groups == 1.0 && n >= LEAST_COLUMNS => {
                let table = match stored {
                    Stored::Plain if size > 2.0 => return None,
                    Stored::Plain
                    | Stored::EightExpanded
                    | Stored::FourByBlocks
                    | Stored::FourByGroups => &self.gemm[0],
                    // No table has GEMMs in 4 bits, which no H200 multiplies: those in 8 bits are the nearest.
                    Stored::Eight | Stored::Four => &self.gemm[1],
                    Stored::EightByBlocks => &self.gemm[2],
                };
                Some((table.at([m, n, k]), table.fixed_us))
            }
            Kernel::Grouped {
                pairs,
                n,
                k,
                size,
                stored,
                ..
            } => {
                let table = match stored {
                    Stored::Plain if size > 2.0 => return None,
                    Stored::Plain | Stored::EightExpanded => &self.experts[0],
                    Stored::Eight => &self.experts[1],
                    Stored::EightByBlocks => &self.experts[2],
                    Stored::Four | Stored::FourByBlocks => &self.experts[3],
                    Stored::FourByGroups => &self.experts[4],
                };
                let reached = kernel.touched().max(1e-9);
                Some((table.at([pairs / reached, n * k, reached]), table.fixed_us))
            }
            Kernel::Attention {
                batch,
                heads,
                kv_heads,
                queries,
                keys,
                key_dim,
                masked: false,
                cached,
                ..
            } => {
                let decode = queries <= 1.0;
                let tables = &self.attention[usize::from(!decode)];
                let table = &tables[usize::from(cached < 2.0)];
                let work = batch * if decode { kv_heads } else { heads };
                Some((table.at([key_dim, work, keys]), table.fixed_us))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::DType;

    use super::*;
    use crate::quant::WeightFormat;

    fn gemm(m: f64, size: f64, stored: Stored) -> Kernel {
        Kernel::Gemm {
            groups: 1.0,
            m,
            n: 8192.0,
            k: 8192.0,
            size,
            aligned: true,
            stored,
        }
    }

    /// Cells of the file, and what lies between them.
    #[test]
    fn cells_are_found_by_format_and_shape() {
        let clock = ServingClock::embedded(ServingEngine::Trtllm);
        let found = |kernel: &Kernel| clock.of(kernel).map(|(ratio, _)| ratio).unwrap();
        let half = found(&gemm(8192.0, 2.0, Stored::Plain));
        let block = found(&gemm(8192.0, 1.000_244, Stored::EightByBlocks));
        assert!((1.1..1.3).contains(&half), "{half}");
        assert!((1.7..1.9).contains(&block), "{block}");
        let at = |m: f64| found(&gemm(m, 1.0, Stored::Eight));
        let (low, between, high) = (at(128.0), at(181.02), at(256.0));
        assert!((between - f64::midpoint(low, high)).abs() < 1e-3);
        // Narrow weights that are expanded run as those of 16 bits, whatever their scales take.
        for (size, stored) in [
            (0.53125, Stored::FourByBlocks),
            (0.53125, Stored::FourByGroups),
            (1.015_625, Stored::EightExpanded),
        ] {
            assert_eq!(found(&gemm(8192.0, size, stored)), half);
        }
        assert!(clock.of(&gemm(8192.0, 4.0, Stored::Plain)).is_none());
    }

    /// Integers of 4 bits with a scale for 64 take as many bytes as MXFP4, and other kernels.
    #[test]
    fn experts_are_costed_by_their_format_and_not_by_its_bytes() {
        let clock = ServingClock::embedded(ServingEngine::Vllm);
        let found = |format: &str| {
            let format: WeightFormat = format.parse().unwrap();
            let kernel = Kernel::Grouped {
                experts: 128.0,
                tokens: 64.0,
                pairs: 256.0,
                chosen: 4.0,
                n: 4096.0,
                k: 2048.0,
                size: 0.53125,
                stored: Stored::of(format, format.compute(DType::Bf16)),
            };
            clock.of(&kernel).map(|(ratio, _)| ratio).unwrap()
        };
        assert_eq!(found("int4_g64"), found("awq_g64"));
        assert_eq!(found("int4_g64"), found("gptq_g32"));
        assert!((found("int4_g64") / found("mxfp4") - 1.0).abs() > 0.05);
    }

    /// What a host needs to launch a kernel is no property of its shape: GEMMs too small to take any time take a few µs in all tables.
    #[test]
    fn no_gemm_is_bound_by_the_host_that_measured_it() {
        for engine in [
            ServingEngine::Vllm,
            ServingEngine::Sglang,
            ServingEngine::Trtllm,
        ] {
            for table in &ServingClock::embedded(engine).gemm {
                for (m, n) in [(1.0, 64.0), (1.0, 96.0), (16.0, 128.0), (64.0, 256.0)] {
                    let us = table.at([m, n, 1024.0]) * table.fixed_us;
                    assert!(us < 12.0, "{engine:?}: {us} µs at {m} × {n}");
                }
            }
        }
    }

    #[test]
    fn tables_of_another_size_are_refused() {
        assert!(Grid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0]).is_none());
        assert!(Grid::<2>::new(1.0, [&[2.0, 1.0], &[1.0]], &[1.0, 1.0]).is_none());
        assert!(Grid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0, 0.0]).is_none());
    }
}
