//! GEMM, experts, attention and gated delta kernels as serving engines run them, by the format that weights and KV cache are stored in.
//!
//! Ratios to (roofline time + a fixed time) from public tables of several devices; `tests/recipes/serving_curves.py` writes the files.

mod file;
mod shipped;

use super::axis::{Axis, LEAST_COLUMNS};
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
struct Grid<const N: usize> {
    fixed_us: f64,
    axes: [Axis; N],
    ratio: Vec<f64>,
}

/// The ratios of a format.
#[derive(Clone, Debug)]
struct Table<const N: usize = 3> {
    grid: Grid<N>,
    /// Whether they were measured on the device, by whichever engine.
    own: bool,
}

/// Ratios resolved for look-up.
#[derive(Clone, Debug)]
pub(crate) struct ServingClock {
    gemm: [Table; 4],
    experts: [Table; 6],
    /// Decode and prefill, each with a cache of 16 and of 8 bits.
    attention: [[Table; 2]; 2],
    /// Convolution and delta rule, each of decode and prefill.
    gated_delta: [[Table<2>; 2]; 2],
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

/// Channels of a head of the convolution, as tables count its work: the one size of heads that they have.
const HEAD_CHANNELS: f64 = 128.0;

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

impl<const N: usize> Table<N> {
    /// Of the device's file, which must be whole.
    fn own(grid: Option<Grid<N>>) -> Option<Self> {
        Some(Self {
            grid: grid?,
            own: true,
        })
    }

    fn borrowed(other: &Self) -> Self {
        Self {
            grid: other.grid.clone(),
            own: false,
        }
    }
}

impl Table<3> {
    fn at(&self, place: [f64; 3]) -> (f64, f64) {
        (self.grid.at(place), self.grid.fixed_us)
    }
}

impl Table<2> {
    fn at(&self, place: [f64; 2]) -> (f64, f64) {
        (self.grid.at(place), self.grid.fixed_us)
    }
}

impl Grid<2> {
    fn at(&self, [a, b]: [f64; 2]) -> f64 {
        let [in_a, in_b] = [self.axes[0].place(a), self.axes[1].place(b)];
        let columns = self.axes[1].0.len();
        in_a.mix(|a| in_b.mix(|b| self.ratio[a * columns + b]))
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
    pub(crate) fn shipped(device: &Device, engine: ServingEngine) -> (&'static Self, bool) {
        shipped::clock(device, engine)
    }

    /// Formats that the file has no table of are those of `others`, which are asked for only then. Without others, as on the H200, which does not multiply in 4
    /// bits, NVFP4 takes the ratios of FP8 GEMMs and of MXFP4 experts.
    fn new(curves: &ServingCurves, others: impl Fn() -> Option<&'static Self>) -> Option<Self> {
        let gemm = |name: &str, place: usize| match curves.gemm.get(name) {
            Some(table) => {
                let axes = [table.m.as_slice(), &table.n, &table.k];
                Table::own(Grid::new(table.fixed_us, axes, &table.ratio))
            }
            None => others().map(|others| Table::borrowed(&others.gemm[place])),
        };
        let experts = |name: &str, place: usize| match curves.experts.get(name) {
            Some(table) => {
                let axes = [table.rows.as_slice(), &table.elements, &table.reached];
                Table::own(Grid::new(table.fixed_us, axes, &table.ratio))
            }
            None => others().map(|others| Table::borrowed(&others.experts[place])),
        };
        let attention = |tables: &AttentionTables, phase: usize| {
            let one = |name: &str, place: usize| match tables.cache.get(name) {
                Some(cache) => {
                    let axes = [cache.dims.as_slice(), &tables.work, &tables.keys];
                    Table::own(Grid::new(tables.fixed_us, axes, &cache.ratio))
                }
                None => others().map(|others| Table::borrowed(&others.attention[phase][place])),
            };
            Some([one("bf16", 0)?, one("fp8", 1)?])
        };
        let delta = |name: &str, kernel: usize, phase: usize| match curves.gated_delta.get(name) {
            Some(table) => {
                let axes = [table.work.as_slice(), &table.tokens];
                Table::own(Grid::new(table.fixed_us, axes, &table.ratio))
            }
            None => others().map(|others| Table::borrowed(&others.gated_delta[kernel][phase])),
        };
        let (eight, expanded) = (gemm("fp8", 3)?, experts("mxfp4", 5)?);
        Some(Self {
            gemm: [
                gemm("bf16", 0)?,
                gemm("fp8_block", 1)?,
                gemm("nvfp4", 2).unwrap_or_else(|| Table::borrowed(&eight)),
                eight,
            ],
            experts: [
                experts("bf16", 0)?,
                experts("fp8", 1)?,
                experts("fp8_block", 2)?,
                experts("int4", 3)?,
                experts("nvfp4", 4).unwrap_or_else(|| Table::borrowed(&expanded)),
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
    pub(crate) fn covers(&self, needs: &TableNeeds) -> bool {
        let delta = || self.gated_delta.iter().flatten().all(|table| table.own);
        self.gemm[gemm_place(needs.stored)].own
            && (!needs.has_experts || self.experts[experts_place(needs.stored)].own)
            && (!needs.has_gated_delta || delta())
            && self
                .attention
                .iter()
                .all(|phase| phase[usize::from(needs.cached < 2.0)].own)
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
            } if groups == 1.0 && n >= LEAST_COLUMNS && size <= 2.0 => {
                Some(self.gemm[gemm_place(stored)].at([m, n, k]))
            }
            Kernel::Grouped {
                pairs,
                n,
                k,
                size,
                stored,
                ..
            } if size <= 2.0 => {
                let reached = kernel.touched().max(1e-9);
                Some(self.experts[experts_place(stored)].at([pairs / reached, n * k, reached]))
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
                Some(table.at([key_dim, work, keys]))
            }
            Kernel::CausalConv {
                batch,
                queries,
                channels,
                ..
            } => {
                let table = &self.gated_delta[0][usize::from(queries > 1.0)];
                Some(table.at([batch * channels / HEAD_CHANNELS, queries]))
            }
            Kernel::DeltaRule {
                batch,
                heads,
                queries,
                ..
            } => {
                let table = &self.gated_delta[1][usize::from(queries > 1.0)];
                Some(table.at([batch * heads, queries]))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::DType;

    use super::*;
    use llmprof_theory::{WeightFormat, device::Catalog};

    fn clock(device: &str, engine: ServingEngine) -> &'static ServingClock {
        let device = Catalog::embedded().by_name(device).unwrap();
        ServingClock::shipped(&device, engine).0
    }

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
        let clock = clock("h200", ServingEngine::Trtllm);
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
        let clock = clock("h200", ServingEngine::Vllm);
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
    /// One row is left out: vLLM's FP8 GEMMs take 18 µs and more for it in the tables of B200, B300, GB200 and GB300, and 6 µs for two; why is not known.
    #[test]
    fn no_gemm_is_bound_by_the_host_that_measured_it() {
        for device in Catalog::embedded().entries() {
            let device = Catalog::embedded().by_name(&device.name).unwrap();
            for engine in ServingEngine::ALL {
                for table in &ServingClock::shipped(&device, engine).0.gemm {
                    for (m, n) in [(2.0, 64.0), (2.0, 96.0), (16.0, 128.0), (64.0, 256.0)] {
                        let (ratio, fixed_us) = table.at([m, n, 1024.0]);
                        let us = ratio * fixed_us;
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
        let [a100, h200, b200] =
            ["a100_sxm_80gb", "h200", "b200"].map(|device| clock(device, ServingEngine::Sglang));
        let covers = |clock: &ServingClock, stored, has_experts, cached| {
            clock.covers(&TableNeeds {
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
        let found = |clock: &ServingClock, stored| clock.of(&gemm(64.0, 0.5625, stored)).unwrap();
        assert_eq!(found(a100, Stored::Eight), found(h200, Stored::Eight));
        assert_eq!(found(h200, Stored::Four), found(h200, Stored::Eight));
        assert_ne!(found(b200, Stored::Four), found(b200, Stored::Eight));
    }

    #[test]
    fn tables_of_another_size_are_refused() {
        assert!(Grid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0]).is_none());
        assert!(Grid::<2>::new(1.0, [&[2.0, 1.0], &[1.0]], &[1.0, 1.0]).is_none());
        assert!(Grid::<2>::new(1.0, [&[1.0, 2.0], &[1.0]], &[1.0, 0.0]).is_none());
    }
}
