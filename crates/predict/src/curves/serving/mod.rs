//! GEMM, experts, attention and gated delta kernels as serving engines run them, by the format that weights and KV cache are stored in.
//!
//! Ratios to (roofline time + a fixed time) from public tables of several devices; `tests/recipes/serving_curves.py` writes the files.

mod file;
mod shipped;

use super::{
    axis::{Axis, AxisPlace},
    sizes::COLUMNS_MIN,
};
use file::{AttentionTables, ServingCurves};
use llmprof_theory::{
    device::Device,
    kernels::{Kernel, Stored},
};

/// Engines whose tables are shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServingEngine {
    Vllm,
    Sglang,
    Trtllm,
}

#[derive(Clone, Debug)]
struct RatioGrid<const N: usize> {
    fixed_us: f64,
    axes: [Axis; N],
    ratio: Vec<f64>,
}

/// The ratios of a format.
#[derive(Clone, Debug)]
struct RatioTable<const N: usize = 3> {
    grid: RatioGrid<N>,
    /// Whether they were measured on the device, by whichever engine.
    own: bool,
}

/// Ratios to roofline time on one device, ready for interpolation.
#[derive(Clone, Debug)]
pub(crate) struct ServingClock {
    gemm: [RatioTable; 4],
    experts: [RatioTable; 6],
    /// Decode and prefill, each with a cache of 16 and of 8 bits.
    attention: [[RatioTable; 2]; 2],
    /// Convolution and delta rule, each of decode and prefill.
    gated_delta: [[RatioTable<2>; 2]; 2],
}

/// What a model needs tables of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableNeeds {
    pub(crate) stored: Stored,
    pub(crate) has_experts: bool,
    pub(crate) has_gated_delta: bool,
    /// Bytes of an element of the KV cache.
    pub(crate) cached: f64,
}

impl<const N: usize> RatioGrid<N> {
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

impl<const N: usize> RatioTable<N> {
    /// Of the device's file, which must be whole.
    fn measured_here(grid: Option<RatioGrid<N>>) -> Option<Self> {
        Some(Self {
            grid: grid?,
            own: true,
        })
    }

    fn borrowed_from(other: &Self) -> Self {
        Self {
            grid: other.grid.clone(),
            own: false,
        }
    }
}

/// The ratios of a kernel over the two sizes that grow with its work, at its other sizes.
pub(crate) struct KernelRatios<'t> {
    pub(super) axes: [&'t Axis; 2],
    pub(super) fixed_us: f64,
    /// Whether the table was measured on the device that most tables are of.
    pub(super) is_own: bool,
    cells: RatioCells<'t>,
}

/// Places on axes that do not grow with the work.
enum RatioCells<'t> {
    /// By rows; columns and depth of a matrix are given.
    Gemm(&'t RatioGrid<3>, [AxisPlace; 2]),
    /// By rows and experts; elements of a matrix are given.
    Experts(&'t RatioGrid<3>, AxisPlace),
    /// By work items and keys; the width of a head is given.
    Attention(&'t RatioGrid<3>, AxisPlace),
    Delta(&'t RatioGrid<2>),
}

impl KernelRatios<'_> {
    /// The ratio at places on both axes.
    pub(super) fn cell_ratio(&self, first: usize, second: usize) -> f64 {
        match self.cells {
            RatioCells::Gemm(grid, [n, k]) => {
                n.interpolate_by(|n| k.interpolate_by(|k| grid.cell_value([second, n, k])))
            }
            RatioCells::Experts(grid, elements) => {
                elements.interpolate_by(|at| grid.cell_value([second, at, first]))
            }
            RatioCells::Attention(grid, dim) => {
                dim.interpolate_by(|dim| grid.cell_value([dim, first, second]))
            }
            RatioCells::Delta(grid) => grid.cell_value([first, second]),
        }
    }
}

impl<const N: usize> RatioGrid<N> {
    fn cell_value(&self, places: [usize; N]) -> f64 {
        let axes = self.axes.iter().zip(places);
        self.ratio[axes.fold(0, |at, (axis, place)| at * axis.len() + place)]
    }
}

/// The place of a format in [`ServingClock::gemm`].
fn gemm_place(stored: Stored) -> usize {
    match stored {
        Stored::Plain | Stored::EightExpanded | Stored::FourByBlocks | Stored::FourByGroups => 0,
        Stored::EightByBlocks => 1,
        Stored::Four => 2,
        Stored::Eight => 3,
    }
}

/// The place of a format in [`ServingClock::experts`].
fn experts_place(stored: Stored) -> usize {
    match stored {
        Stored::Plain | Stored::EightExpanded => 0,
        Stored::Eight => 1,
        Stored::EightByBlocks => 2,
        Stored::FourByGroups => 3,
        Stored::Four => 4,
        Stored::FourByBlocks => 5,
    }
}

impl ServingEngine {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Vllm, Self::Sglang, Self::Trtllm];
}

impl ServingClock {
    /// The ratios of an engine for a device, and whether they were measured on it: ratios carry over to devices with other peaks.
    pub(crate) fn shipped_for(device: &Device, engine: ServingEngine) -> (&'static Self, bool) {
        shipped::device_clock(device, engine)
    }

    /// Formats that the file has no table of are those of `others`, which are asked for only then. Without others, as on the H200, which does not multiply in 4
    /// bits, NVFP4 takes the ratios of FP8 GEMMs and of MXFP4 experts.
    fn new(curves: &ServingCurves, others: impl Fn() -> Option<&'static Self>) -> Option<Self> {
        let gemm = |name: &str, place: usize| match curves.gemm.get(name) {
            Some(table) => {
                let axes = [table.m.as_slice(), &table.n, &table.k];
                RatioTable::measured_here(RatioGrid::new(table.fixed_us, axes, &table.ratio))
            }
            None => others().map(|others| RatioTable::borrowed_from(&others.gemm[place])),
        };
        let experts = |name: &str, place: usize| match curves.experts.get(name) {
            Some(table) => {
                let axes = [table.rows.as_slice(), &table.elements, &table.reached];
                RatioTable::measured_here(RatioGrid::new(table.fixed_us, axes, &table.ratio))
            }
            None => others().map(|others| RatioTable::borrowed_from(&others.experts[place])),
        };
        let attention = |tables: &AttentionTables, phase: usize| {
            let one = |name: &str, place: usize| match tables.cache.get(name) {
                Some(cache) => {
                    let axes = [cache.dims.as_slice(), &tables.work, &tables.keys];
                    RatioTable::measured_here(RatioGrid::new(tables.fixed_us, axes, &cache.ratio))
                }
                None => others()
                    .map(|others| RatioTable::borrowed_from(&others.attention[phase][place])),
            };
            Some([one("bf16", 0)?, one("fp8", 1)?])
        };
        let delta = |name: &str, kernel: usize, phase: usize| match curves.gated_delta.get(name) {
            Some(table) => {
                let axes = [table.work.as_slice(), &table.tokens];
                RatioTable::measured_here(RatioGrid::new(table.fixed_us, axes, &table.ratio))
            }
            None => {
                others().map(|others| RatioTable::borrowed_from(&others.gated_delta[kernel][phase]))
            }
        };
        let (eight, expanded) = (gemm("fp8", 3)?, experts("mxfp4", 5)?);
        Some(Self {
            gemm: [
                gemm("bf16", 0)?,
                gemm("fp8_block", 1)?,
                gemm("nvfp4", 2).unwrap_or_else(|| RatioTable::borrowed_from(&eight)),
                eight,
            ],
            experts: [
                experts("bf16", 0)?,
                experts("fp8", 1)?,
                experts("fp8_block", 2)?,
                experts("int4", 3)?,
                experts("nvfp4", 4).unwrap_or_else(|| RatioTable::borrowed_from(&expanded)),
                expanded,
            ],
            attention: [
                attention(&curves.decode_attention, 0)?,
                attention(&curves.prefill_attention, 1)?,
            ],
            gated_delta: [
                [delta("conv_decode", 0, 0)?, delta("conv_prefill", 0, 1)?],
                [delta("rule_decode", 1, 0)?, delta("rule_prefill", 1, 1)?],
            ],
        })
    }

    /// Whether tables were measured on the device in the formats of a model: of its matrices, of its experts and gated delta layers where it has any, and of its
    /// KV cache.
    pub(crate) fn covers_needs(&self, needs: &TableNeeds) -> bool {
        let delta = || self.gated_delta.iter().flatten().all(|table| table.own);
        self.gemm[gemm_place(needs.stored)].own
            && (!needs.has_experts || self.experts[experts_place(needs.stored)].own)
            && (!needs.has_gated_delta || delta())
            && self
                .attention
                .iter()
                .all(|phase| phase[usize::from(needs.cached < 2.0)].own)
    }

    /// The ratios of a kernel; `None` where other curves have it.
    pub(super) fn measured_ratios(&self, kernel: &Kernel) -> Option<KernelRatios<'_>> {
        let (axes, fixed_us, is_own, cells) = match *kernel {
            Kernel::Gemm {
                groups,
                n,
                k,
                size,
                stored,
                ..
            } if groups == 1.0 && n >= COLUMNS_MIN && size <= 2.0 => {
                let RatioTable { grid, own } = &self.gemm[gemm_place(stored)];
                let [in_m, in_n, in_k] = &grid.axes;
                let cells = RatioCells::Gemm(grid, [in_n.find_place(n), in_k.find_place(k)]);
                ([Axis::single_point(), in_m], grid.fixed_us, *own, cells)
            }
            Kernel::Grouped {
                n, k, size, stored, ..
            } if size <= 2.0 => {
                let RatioTable { grid, own } = &self.experts[experts_place(stored)];
                let [rows, elements, reached] = &grid.axes;
                let cells = RatioCells::Experts(grid, elements.find_place(n * k));
                ([reached, rows], grid.fixed_us, *own, cells)
            }
            Kernel::Attention {
                queries,
                key_dim,
                masked: false,
                cached,
                ..
            } => {
                let phase = &self.attention[usize::from(queries > 1.0)];
                let RatioTable { grid, own } = &phase[usize::from(cached < 2.0)];
                let [dims, work, keys] = &grid.axes;
                let cells = RatioCells::Attention(grid, dims.find_place(key_dim));
                ([work, keys], grid.fixed_us, *own, cells)
            }
            Kernel::CausalConv { queries, .. } | Kernel::DeltaRule { queries, .. } => {
                let is_rule = matches!(kernel, Kernel::DeltaRule { .. });
                let tables = &self.gated_delta[usize::from(is_rule)];
                let RatioTable { grid, own } = &tables[usize::from(queries > 1.0)];
                let [work, tokens] = &grid.axes;
                ([work, tokens], grid.fixed_us, *own, RatioCells::Delta(grid))
            }
            _ => return None,
        };
        Some(KernelRatios {
            axes,
            fixed_us,
            is_own,
            cells,
        })
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::DType;

    use super::*;
    use llmprof_theory::{WeightFormat, device::Catalog};

    fn shipped_clock(device: &str, engine: ServingEngine) -> &'static ServingClock {
        let device = Catalog::embedded().by_name(device).unwrap();
        ServingClock::shipped_for(&device, engine).0
    }

    fn gemm_kernel(m: f64, size: f64, stored: Stored) -> Kernel {
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
        let clock = shipped_clock("h200", ServingEngine::Trtllm);
        // At 8192 rows.
        let ratio_of = |kernel: &Kernel| clock.measured_ratios(kernel).unwrap().cell_ratio(0, 13);
        let half = ratio_of(&gemm_kernel(8192.0, 2.0, Stored::Plain));
        let block = ratio_of(&gemm_kernel(8192.0, 1.000_244, Stored::EightByBlocks));
        assert!((1.1..1.3).contains(&half), "{half}");
        assert!((1.7..1.9).contains(&block), "{block}");
        // Narrow weights that are expanded run as 16-bit ones; the bytes of their scales do not matter.
        for (size, stored) in [
            (0.53125, Stored::FourByBlocks),
            (0.53125, Stored::FourByGroups),
            (1.015_625, Stored::EightExpanded),
        ] {
            assert_eq!(ratio_of(&gemm_kernel(8192.0, size, stored)), half);
        }
        assert!(
            clock
                .measured_ratios(&gemm_kernel(8192.0, 4.0, Stored::Plain))
                .is_none()
        );
    }

    /// Integers of 4 bits with a scale for 64 take as many bytes as MXFP4, and other kernels.
    #[test]
    fn experts_are_costed_by_their_format_and_not_by_its_bytes() {
        let clock = shipped_clock("h200", ServingEngine::Vllm);
        let ratio_of = |format: &str| {
            let format: WeightFormat = format.parse().unwrap();
            let kernel = Kernel::Grouped {
                experts: 128.0,
                tokens: 64.0,
                pairs: 256.0,
                chosen: 4.0,
                n: 4096.0,
                k: 2048.0,
                size: 0.53125,
                stored: Stored::from_format(format, format.default_compute(DType::Bf16)),
            };
            clock.measured_ratios(&kernel).unwrap().cell_ratio(2, 1)
        };
        assert_eq!(ratio_of("int4_g64"), ratio_of("awq_g64"));
        assert_eq!(ratio_of("int4_g64"), ratio_of("gptq_g32"));
        assert!((ratio_of("int4_g64") / ratio_of("mxfp4") - 1.0).abs() > 0.05);
    }

    /// Launch overhead does not depend on the shape: the smallest GEMMs take a few µs in all tables.
    /// One row is left out: vLLM's FP8 GEMMs take 18 µs and more for it in the tables of B200, B300, GB200 and GB300, and 6 µs for two; why is not known.
    #[test]
    fn no_gemm_is_bound_by_the_host_that_measured_it() {
        for device in Catalog::embedded().entries() {
            let device = Catalog::embedded().by_name(&device.name).unwrap();
            for engine in ServingEngine::ALL {
                for table in &ServingClock::shipped_for(&device, engine).0.gemm {
                    for (m, n) in [(2.0, 64.0), (2.0, 128.0), (16.0, 128.0), (64.0, 256.0)] {
                        let [in_m, in_n, in_k] = &table.grid.axes;
                        let place = [
                            in_m.find_place(m),
                            in_n.find_place(n),
                            in_k.find_place(1024.0),
                        ];
                        let ratio = table.grid.cell_value(place.map(|place| place.index));
                        let us = ratio * table.grid.fixed_us;
                        assert!(
                            us < 12.0,
                            "{} {engine:?}: {us} µs at {m} × {n}",
                            device.name
                        );
                    }
                }
            }
        }
    }

    /// The A100 multiplies in 16 bits alone; no H200 in 4.
    #[test]
    fn formats_without_a_table_are_those_of_the_h200() {
        let [a100, h200, b200] = ["a100_sxm_80gb", "h200", "b200"]
            .map(|device| shipped_clock(device, ServingEngine::Sglang));
        let covers = |clock: &ServingClock, stored, has_experts, cached| {
            clock.covers_needs(&TableNeeds {
                stored,
                has_experts,
                has_gated_delta: false,
                cached,
            })
        };
        assert!(covers(a100, Stored::Plain, true, 2.0));
        assert!(covers(a100, Stored::FourByGroups, true, 2.0));
        assert!(!covers(a100, Stored::Eight, false, 2.0));
        assert!(!covers(a100, Stored::FourByBlocks, true, 2.0));
        assert!(!covers(a100, Stored::Plain, false, 1.0));
        assert!(!covers(h200, Stored::Four, false, 2.0));
        assert!(covers(b200, Stored::Four, true, 1.0));
        let ratio_of = |clock: &ServingClock, stored| {
            let kernel = gemm_kernel(64.0, 0.5625, stored);
            clock.measured_ratios(&kernel).unwrap().cell_ratio(0, 6)
        };
        assert_eq!(ratio_of(a100, Stored::Eight), ratio_of(h200, Stored::Eight));
        assert_eq!(ratio_of(h200, Stored::Four), ratio_of(h200, Stored::Eight));
        assert_ne!(ratio_of(b200, Stored::Four), ratio_of(b200, Stored::Eight));
    }

    #[test]
    fn tables_of_another_size_are_refused() {
        assert!(RatioGrid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0]).is_none());
        assert!(RatioGrid::<2>::new(1.0, [&[2.0, 1.0], &[1.0]], &[1.0, 1.0]).is_none());
        assert!(RatioGrid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0, 0.0]).is_none());
    }
}
