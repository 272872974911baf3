//! How long kernels take on a device: measured curves by shape, relative to roofline time.
//!
//! A GEMM's or attention's time is a measured ratio to its roofline time plus a fixed time; what only moves elements takes a
//! fixed time and a time per byte or per element, whichever is longer. Ratios carry over to devices that were not measured,
//! with their own peaks; such times are marked as scaled.

mod axis;
mod growth;
mod serving;
mod sizes;

use std::{cell::RefCell, collections::BTreeMap, sync::LazyLock};

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use axis::Axis;
use growth::{Growth, Sizes, time_between};
use llmprof_theory::kernels::{Access, Kernel, Stored};
use serving::KernelRatios;
pub(crate) use serving::{ServingClock, ServingEngine, TableNeeds};
use sizes::{COLUMNS_MIN, FixedSizes, fixed_sizes, in_16_bits, resize_kernel, sizes_of};

use crate::kernel_factors::KernelFactors;

/// Rows narrower than a warp are reduced as slowly as those of a warp.
const WARP: f64 = 32.0;
/// Fused attention has kernels for heads up to this width, and others beyond.
const WIDE_HEAD: f64 = 128.0;
const H200: &str = include_str!("../../data/curves/h200.json");

fn kernel_factors() -> &'static KernelFactors {
    KernelFactors::shipped_factors()
}

/// The access whose curve stands in for one that older files of curves do not have.
fn stand_in(access: Access) -> Access {
    match access {
        Access::Cast | Access::Transposed | Access::Depthwise | Access::Solve => Access::Broadcast,
        other => other,
    }
}

/// Curves of one device, as files keep them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelCurves {
    /// What they were measured on, and how.
    pub source: String,
    /// Models whose kernels they were fitted to, besides micro-benchmarks.
    #[serde(default)]
    pub models: Vec<String>,
    /// Peak rate of the matrix units that ratios refer to, in operations per second.
    #[schemars(extend("x-unit" = "FLOP/s"))]
    pub peak_flops: f64,
    /// DRAM bandwidth that ratios refer to.
    pub bytes_per_s: f64,
    /// GEMMs of 16-bit numbers whose rows are aligned.
    pub gemm: GemmCurve,
    /// GEMMs of 16-bit numbers whose rows are not aligned.
    pub gemm_unaligned: UnalignedCurve,
    /// Many small GEMMs in one launch, in 16-bit numbers.
    pub gemm_batched: BatchedCurve,
    /// GEMMs of 32-bit numbers, on vector units.
    pub gemm_f32: WideCurve,
    /// Attention as one fused kernel.
    pub attention: AttentionCurves,
    /// GEMMs of all experts of a layer in one launch.
    pub grouped: GroupedCurve,
    /// Kernels that only move and combine elements, by how they go through memory.
    pub streams: BTreeMap<Access, StreamCurve>,
    /// The same where no formula of few parameters fits: measured times by size.
    pub tables: BTreeMap<Access, SizeTable>,
}

/// Ratios to roofline time by rows, columns and depth, the depth innermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GemmCurve {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Rows of the input at which `ratio` is given.
    pub m: Vec<f64>,
    /// Columns of the output at which `ratio` is given.
    pub n: Vec<f64>,
    /// Depths (K) at which `ratio` is given.
    pub k: Vec<f64>,
    /// Ratio at each `m`, `n` and `k`.
    pub ratio: Vec<f64>,
    /// Rows of the input that `in_model` is given at.
    pub rows: Vec<f64>,
    /// By `rows`: time of a GEMM between the other kernels of a model ÷ its time alone.
    pub in_model: Vec<f64>,
}

/// The rate at which weights whose rows are not aligned are read, by rows of the input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnalignedCurve {
    /// Rows of the input at which the rates are given.
    pub rows: Vec<f64>,
    /// Where the number of columns or the depth is odd.
    pub bytes_per_s: Vec<f64>,
    /// Where both are even: numbers are read in pairs. As odd ones where absent.
    #[serde(default)]
    pub even_bytes_per_s: Vec<f64>,
}

/// Many small GEMMs in one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchedCurve {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Rate at which aligned operands are read.
    pub aligned_bytes_per_s: f64,
    /// Rate at which other operands are read.
    pub unaligned_bytes_per_s: f64,
    /// Share of the peak that the multiplications reach.
    pub compute: f64,
}

/// GEMM in 32 bits on vector units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WideCurve {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Few rows fill few units, so that the depth is walked one step after the other.
    #[schemars(extend("x-unit" = "ns"))]
    pub ns_per_k: f64,
    /// Rate where enough rows fill all units.
    pub flops_per_s: f64,
}

/// Ratios to roofline time by width of a head, work items and keys, the keys innermost. A work item is a head of a
/// sequence, in decode a KV head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionCurves {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Work items at which the ratios are given.
    pub work: Vec<f64>,
    /// Keys of a sequence at which the ratios are given.
    pub keys: Vec<f64>,
    /// Times of a kernel alone that the factors below are given at.
    pub alone_us: Vec<f64>,
    /// By `alone_us`: time of a prefill kernel in a model ÷ its time alone.
    pub prefill_in_model: Vec<f64>,
    /// By `alone_us`: time of a decode kernel in a model ÷ its time alone.
    pub decode_in_model: Vec<f64>,
    /// Prefill that reads no mask tensor.
    pub prefill: AttentionTable,
    /// Prefill that reads a mask tensor.
    pub prefill_masked: AttentionTable,
    /// Decode, one KV head per query head.
    pub decode: AttentionTable,
    /// Several query heads share a KV head.
    pub decode_grouped: AttentionTable,
}

/// Ratios of one kind of attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionTable {
    /// Widths of a head at which `ratio` is given.
    pub dims: Vec<f64>,
    /// Ratio at each of `dims`, `work` and `keys`.
    pub ratio: Vec<f64>,
}

/// One of the tables of [`AttentionCurves`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttentionCurve {
    Prefill,
    PrefillMasked,
    Decode,
    DecodeGrouped,
}

/// The table that an attention kernel is in, the width of its heads, and its work items and keys; `None` for other kernels.
pub(crate) fn attention_place(kernel: &Kernel) -> Option<(AttentionCurve, f64, [f64; 2])> {
    let Kernel::Attention {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        key_dim,
        masked,
        ..
    } = *kernel
    else {
        return None;
    };
    let decode = queries <= 1.0;
    let curve = match (decode, masked, heads > kv_heads) {
        (true, _, true) => AttentionCurve::DecodeGrouped,
        (true, _, false) => AttentionCurve::Decode,
        (false, true, _) => AttentionCurve::PrefillMasked,
        (false, false, _) => AttentionCurve::Prefill,
    };
    let work = batch * if decode { kv_heads } else { heads };
    Some((curve, key_dim, [work, keys]))
}

impl AttentionCurves {
    fn select_table(&self, curve: AttentionCurve) -> &AttentionTable {
        match curve {
            AttentionCurve::DecodeGrouped => &self.decode_grouped,
            AttentionCurve::Decode => &self.decode,
            AttentionCurve::PrefillMasked => &self.prefill_masked,
            AttentionCurve::Prefill => &self.prefill,
        }
    }
}

/// Ratios to roofline time by rows of an expert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupedCurve {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Rows of an expert at which `ratio` is given.
    pub rows: Vec<f64>,
    /// Ratio at each of `rows`.
    pub ratio: Vec<f64>,
}

/// Fixed time plus the larger of a time by bytes and a time by elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamCurve {
    /// Time of a kernel that does nothing else.
    pub fixed_us: f64,
    /// Per 1,000 bytes read and written.
    #[schemars(extend("x-unit" = "ns"))]
    pub ns_per_kb: f64,
    /// Time that 1,000 elements take where elements, not bytes, bound the kernel.
    #[schemars(extend("x-unit" = "ns"))]
    pub ns_per_kelement: f64,
    /// Per element of a row, where a row is walked by one block.
    #[serde(default)]
    #[schemars(extend("x-unit" = "ns"))]
    pub ns_per_width: f64,
    /// The same for each row, up to `ns_per_width`: few rows are split among blocks.
    #[serde(default)]
    #[schemars(extend("x-unit" = "ns"))]
    pub ns_per_width_and_row: f64,
    /// Bytes of narrow rows move more slowly: added to `ns_per_kb` after division by the width.
    #[serde(default)]
    #[schemars(extend("x-unit" = "ns"))]
    pub narrow_ns_per_kb: f64,
}

/// What a table's times go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CurveSize {
    Bytes,
    Elements,
}

/// Measured times by the size of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeTable {
    /// Whether `x` counts bytes or elements.
    pub by: CurveSize,
    /// Sizes of the measured calls, rising.
    pub x: Vec<f64>,
    /// Measured time at each size in `x`.
    #[schemars(extend("x-unit" = "µs"))]
    pub us: Vec<f64>,
}

/// What a kernel is predicted to take, by what holds it back, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelTime {
    pub fixed: f64,
    pub tensor: f64,
    pub vector: f64,
    pub memory: f64,
}

impl KernelTime {
    pub fn seconds(&self) -> f64 {
        self.fixed + self.tensor + self.vector + self.memory
    }

    #[must_use]
    pub fn scaled_by(self, factor: f64) -> Self {
        Self {
            fixed: self.fixed * factor,
            tensor: self.tensor * factor,
            vector: self.vector * factor,
            memory: self.memory * factor,
        }
    }
}

impl KernelCurves {
    /// The curves that are shipped for a device.
    pub fn embedded(device: &str) -> Option<Self> {
        static CURVES: LazyLock<Option<KernelCurves>> =
            LazyLock::new(|| KernelCurves::parse_text(H200, "h200.json (embedded)").ok());
        (device == "h200").then(|| CURVES.clone()).flatten()
    }

    /// Reads curves; `file` is how errors name it.
    pub fn parse_text(text: &str, file: &str) -> Result<Self, String> {
        let curves: Self =
            serde_json::from_str(text).map_err(|error| format!("kernel curves {file}: {error}"))?;
        match curves.find_mistake() {
            Some(problem) => Err(format!("kernel curves {file}: {problem}")),
            None => Ok(curves),
        }
    }

    /// What makes the curves unusable.
    pub(crate) fn find_mistake(&self) -> Option<String> {
        let rising = |axis: &[f64]| {
            !axis.is_empty() && axis[0] > 0.0 && axis.windows(2).all(|pair| pair[0] < pair[1])
        };
        let positive = |values: &[f64]| values.iter().all(|value| *value > 0.0 && *value < 1e30);
        let gemm = &self.gemm;
        let attention = &self.attention;
        let tables = [
            &attention.prefill,
            &attention.prefill_masked,
            &attention.decode,
            &attention.decode_grouped,
        ];
        let cells = attention.work.len() * attention.keys.len();
        let checks = [
            ("peak_flops", positive(&[self.peak_flops, self.bytes_per_s])),
            (
                "gemm",
                [&gemm.m, &gemm.n, &gemm.k, &gemm.rows]
                    .iter()
                    .all(|axis| rising(axis))
                    && gemm.ratio.len() == gemm.m.len() * gemm.n.len() * gemm.k.len()
                    && gemm.in_model.len() == gemm.rows.len()
                    && positive(&gemm.ratio)
                    && positive(&gemm.in_model),
            ),
            (
                "attention",
                rising(&attention.work)
                    && rising(&attention.keys)
                    && rising(&attention.alone_us)
                    && [&attention.prefill_in_model, &attention.decode_in_model]
                        .iter()
                        .all(|factors| {
                            factors.len() == attention.alone_us.len() && positive(factors)
                        })
                    && tables.iter().all(|table| {
                        rising(&table.dims)
                            && table.ratio.len() == table.dims.len() * cells
                            && positive(&table.ratio)
                    }),
            ),
            (
                "grouped",
                rising(&self.grouped.rows)
                    && self.grouped.rows.len() == self.grouped.ratio.len()
                    && positive(&self.grouped.ratio),
            ),
            (
                "gemm_unaligned",
                rising(&self.gemm_unaligned.rows) && self.gemm_unaligned.is_whole(),
            ),
            (
                "tables",
                self.tables.values().all(|table| {
                    rising(&table.x) && table.x.len() == table.us.len() && positive(&table.us)
                }),
            ),
            (
                "streams",
                Access::ALL.iter().all(|access| {
                    let access = &stand_in(*access);
                    self.streams.contains_key(access) || self.tables.contains_key(access)
                }),
            ),
        ];
        checks
            .iter()
            .find(|(_, good)| !good)
            .map(|(key, _)| format!("`{key}` has axes that do not rise, or tables of another size"))
    }
}

/// Curves resolved for fast look-up on one device.
#[derive(Clone, Debug)]
pub struct KernelClock {
    curves: KernelCurves,
    flops_per_s: f64,
    bytes_per_s: f64,
    /// Rate of matrix units in 8 bits and in 4 ÷ that in 16.
    eight_bit: f64,
    four_bit: f64,
    /// Bandwidth of the measured device ÷ that of this one.
    memory_scale: f64,
    compute_scale: f64,
    axes: [Axis; 3],
    rows: Axis,
    work: Axis,
    keys: Axis,
    grouped: Axis,
    unaligned: Axis,
    streams: [Option<StreamCurve>; Access::ALL.len()],
    tables: [Option<(CurveSize, Axis, Vec<f64>)>; Access::ALL.len()],
    alone: Axis,
    /// Tables of a serving engine, and whether they are of this very device.
    serving: Option<(&'static ServingClock, bool)>,
    /// Times of kernels that differ only in how much work they have, by tables of another device.
    growths: RefCell<FxHashMap<FixedSizes, Growth>>,
}

/// A measured time of a kernel: a cell of a public table, at the kernel's other sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredCell {
    /// The two sizes that grow with the work: sequences, heads or experts at once, and the rows or keys of each.
    pub sizes: [f64; 2],
    pub seconds: f64,
}

/// Growths that a clock keeps: about four megabytes.
const GROWTHS_MAX: usize = 1 << 11;

impl KernelClock {
    /// The clock of a device with these limits, in operations and bytes per second.
    pub fn new(curves: &KernelCurves, flops_per_s: f64, bytes_per_s: f64) -> Self {
        let gemm = &curves.gemm;
        let held = |access: Access| {
            let has_curve =
                |access| curves.streams.contains_key(access) || curves.tables.contains_key(access);
            if has_curve(&access) {
                access
            } else {
                stand_in(access)
            }
        };
        Self {
            flops_per_s,
            bytes_per_s,
            eight_bit: 1.0,
            four_bit: 1.0,
            memory_scale: curves.bytes_per_s / bytes_per_s,
            compute_scale: curves.peak_flops / flops_per_s,
            axes: [&gemm.m, &gemm.n, &gemm.k].map(|axis| Axis::new(axis)),
            rows: Axis::new(&gemm.rows),
            work: Axis::new(&curves.attention.work),
            keys: Axis::new(&curves.attention.keys),
            grouped: Axis::new(&curves.grouped.rows),
            unaligned: Axis::new(&curves.gemm_unaligned.rows),
            streams: Access::ALL.map(|access| curves.streams.get(&held(access)).copied()),
            tables: Access::ALL.map(|access| {
                curves.tables.get(&held(access)).map(|table| {
                    let logs = table.us.iter().map(|us| (us * 1e-6).ln()).collect();
                    (table.by, Axis::new(&table.x), logs)
                })
            }),
            alone: Axis::new(&curves.attention.alone_us),
            serving: None,
            growths: RefCell::default(),
            curves: curves.clone(),
        }
    }

    /// Sets how many times faster matrix units multiply 8-bit numbers than 16-bit ones.
    #[must_use]
    pub fn with_eight_bit(self, eight_bit: f64) -> Self {
        Self { eight_bit, ..self }
    }

    /// Sets how many times faster matrix units multiply 4-bit numbers than 16-bit ones; 1 if the device expands 4-bit weights instead.
    #[must_use]
    pub fn with_four_bit(self, four_bit: f64) -> Self {
        Self { four_bit, ..self }
    }

    /// The same clock with a serving engine's GEMM, experts and attention.
    #[must_use]
    pub(crate) fn with_serving(self, tables: &'static ServingClock, is_own: bool) -> Self {
        Self {
            serving: Some((tables, is_own)),
            ..self
        }
    }

    /// Whether a serving engine has tables of this device in the formats of a model ([`ServingClock::covers_needs`]).
    pub(crate) fn has_tables(&self, needs: &TableNeeds) -> bool {
        self.serving
            .is_some_and(|(tables, _)| tables.covers_needs(needs))
    }

    pub fn time_kernel(&self, kernel: &Kernel) -> KernelTime {
        if let Some((tables, is_own)) = self.serving
            && let Some(measured) = tables.measured_ratios(kernel)
        {
            return self.time_served(kernel, &measured, is_own);
        }
        match *kernel {
            Kernel::Gemm {
                groups,
                m,
                n,
                k,
                size,
                aligned,
                ..
            } => self.time_gemm(kernel, groups, [m, n, k], size, aligned),
            Kernel::Grouped { pairs, .. } => {
                let rows = pairs / kernel.touched_experts().max(1e-9);
                let curve = &self.curves.grouped;
                let ratio = self
                    .grouped
                    .find_place(rows)
                    .interpolate_by(|at| curve.ratio[at]);
                self.time_at_ratio(kernel, curve.fixed_us, ratio)
            }
            Kernel::Attention { key_dim, .. } => {
                let curves = &self.curves.attention;
                let kernel = &self.pad_heads(kernel);
                let ratio = self.attention_ratio(kernel);
                let alone = self.time_at_ratio(kernel, curves.fixed_us, ratio).seconds();
                let factors = if matches!(kernel, Kernel::Attention { queries, .. } if *queries > 1.0)
                {
                    &curves.prefill_in_model
                } else {
                    &curves.decode_in_model
                };
                let factor = self
                    .alone
                    .find_place(alone * 1e6)
                    .interpolate_by(|at| factors[at]);
                let flash = if takes_flash_2(key_dim) {
                    kernel_factors().flash_2()
                } else {
                    1.0
                };
                self.time_at_ratio(kernel, curves.fixed_us, ratio * factor * flash)
            }
            // Only serving engines run these, and their tables have them.
            Kernel::CausalConv { .. } | Kernel::DeltaRule { .. } => {
                self.time_at_ratio(kernel, 0.0, 1.0)
            }
            Kernel::Stream {
                access,
                bytes,
                elements,
                width,
            } => self.time_stream(access, bytes, elements, width),
        }
    }

    /// A kernel of a serving engine. In 8 bits it takes no longer than in 16 unless it was measured to, on this very device.
    fn time_served(
        &self,
        kernel: &Kernel,
        measured: &KernelRatios<'_>,
        is_own: bool,
    ) -> KernelTime {
        let is_own = is_own && measured.is_own;
        let ratio = self.grown_ratio(kernel, measured, is_own);
        let time = self.time_at_ratio(kernel, measured.fixed_us, ratio);
        if is_own {
            return time;
        }
        match in_16_bits(kernel).map(|wide| self.time_kernel(&wide)) {
            Some(wide) if wide.seconds() < time.seconds() => wide,
            _ => time,
        }
    }

    /// The ratio of a kernel to (roofline time + fixed time) by a table over both sizes that grow with its work.
    fn grown_ratio(&self, kernel: &Kernel, measured: &KernelRatios<'_>, is_own: bool) -> f64 {
        let work = |sizes| {
            let kernel = resize_kernel(kernel, sizes);
            kernel.matrix_flops() + kernel.min_traffic_bytes()
        };
        let [first, second] = measured.axes;
        let sizes = sizes_of(kernel);
        let sizes = [first.clamp(sizes[0]), second.clamp(sizes[1])];
        let cell = |row: usize, column: usize| {
            let sizes = [first.value_at(row), second.value_at(column)];
            measured.cell_ratio(row, column) * self.base_seconds(kernel, measured, sizes)
        };
        let seconds = if is_own {
            time_between(measured.axes, sizes, work, cell)
        } else {
            let mut growths = self.growths.borrow_mut();
            if growths.len() >= GROWTHS_MAX {
                growths.clear();
            }
            let growth = growths
                .entry(fixed_sizes(kernel))
                .or_insert_with(|| Growth::new(measured.axes, cell));
            time_between(measured.axes, sizes, work, |row, column| {
                growth.cell_seconds(row, column)
            })
        };
        seconds / self.base_seconds(kernel, measured, sizes)
    }

    /// What ratios of a table refer to: the roofline time of the kernel at these sizes and a fixed time.
    fn base_seconds(&self, kernel: &Kernel, measured: &KernelRatios<'_>, sizes: Sizes) -> f64 {
        let [tensor, memory] = self.limit_seconds(&resize_kernel(kernel, sizes));
        tensor.max(memory) + measured.fixed_us * 1e-6
    }

    /// The grid cells around a kernel; empty if no table of this device covers it.
    pub(crate) fn cells_around(&self, kernel: &Kernel) -> Vec<MeasuredCell> {
        let own = self.serving.filter(|(_, is_own)| *is_own);
        let measured = own.and_then(|(tables, _)| tables.measured_ratios(kernel));
        let Some(measured) = measured.filter(|measured| measured.is_own) else {
            return Vec::new();
        };
        let sizes = sizes_of(kernel);
        let [rows, columns] = [0, 1].map(|axis| measured.axes[axis].find_place(sizes[axis]).ends());
        let cell = |row, column| {
            let sizes = [
                measured.axes[0].value_at(row),
                measured.axes[1].value_at(column),
            ];
            MeasuredCell {
                sizes,
                seconds: measured.cell_ratio(row, column)
                    * self.base_seconds(kernel, &measured, sizes),
            }
        };
        rows.flat_map(|row| columns.clone().map(move |column| (row, column)))
            .map(|(row, column)| cell(row, column))
            .collect()
    }

    /// Times of a kernel at the limits of matrix units and of memory.
    fn limit_seconds(&self, kernel: &Kernel) -> [f64; 2] {
        let rate = self.flops_per_s
            * match kernel.stored() {
                Stored::Eight | Stored::EightByBlocks => self.eight_bit,
                Stored::Four => self.four_bit,
                _ => 1.0,
            };
        [
            kernel.matrix_flops() / rate,
            kernel.min_traffic_bytes() / self.bytes_per_s,
        ]
    }

    /// `ratio` × (roofline time of the kernel + a fixed time).
    fn time_at_ratio(&self, kernel: &Kernel, fixed_us: f64, ratio: f64) -> KernelTime {
        let [tensor, memory] = self.limit_seconds(kernel).map(|time| time * ratio);
        let fixed = fixed_us * 1e-6 * ratio;
        if tensor > memory {
            KernelTime {
                fixed,
                tensor,
                ..KernelTime::default()
            }
        } else {
            KernelTime {
                fixed,
                memory,
                ..KernelTime::default()
            }
        }
    }

    fn time_gemm(
        &self,
        kernel: &Kernel,
        groups: f64,
        [m, n, k]: [f64; 3],
        size: f64,
        aligned: bool,
    ) -> KernelTime {
        let bytes = kernel.min_traffic_bytes();
        if size >= 4.0 {
            return self.wide_gemm(kernel, groups, m, k);
        }
        if groups > 1.0 {
            let together = self.batched_gemm(kernel, [m, n, k], aligned);
            if !aligned || n < COLUMNS_MIN {
                return together;
            }
            // Large matrices are multiplied at the rate of single ones.
            let one = Kernel::Gemm {
                groups: 1.0,
                m,
                n,
                k,
                size,
                aligned,
                stored: kernel.stored(),
            };
            let apart = self.time_kernel(&one).scaled_by(groups);
            return if apart.seconds() < together.seconds() {
                apart
            } else {
                together
            };
        }
        let curve = &self.curves.gemm;
        if n < COLUMNS_MIN {
            let memory = bytes / (kernel_factors().vector_share() * self.bytes_per_s);
            let fixed = curve.fixed_us * kernel_factors().narrow_fixed() * 1e-6;
            return longest_of(fixed, 0.0, 0.0, memory);
        }
        let [in_m, in_n, in_k] = [
            self.axes[0].find_place(m),
            self.axes[1].find_place(n),
            self.axes[2].find_place(k),
        ];
        let (columns, depth) = (curve.n.len(), curve.k.len());
        let mut ratio = in_m.interpolate_by(|a| {
            in_n.interpolate_by(|b| {
                in_k.interpolate_by(|c| curve.ratio[(a * columns + b) * depth + c])
            })
        });
        if !aligned {
            let time = self.time_at_ratio(kernel, curve.fixed_us, ratio);
            let rates = self.curves.gemm_unaligned.bandwidth_rates(n, k);
            let rate = self.unaligned.find_place(m).interpolate_by(|at| rates[at]);
            let slow = n * k * size / rate * self.memory_scale;
            return if slow > time.seconds() {
                longest_of(0.0, 0.0, 0.0, slow)
            } else {
                time
            };
        }
        ratio *= self
            .rows
            .find_place(m)
            .interpolate_by(|at| curve.in_model[at]);
        self.time_at_ratio(kernel, curve.fixed_us, ratio)
    }

    fn batched_gemm(&self, kernel: &Kernel, [m, n, k]: [f64; 3], aligned: bool) -> KernelTime {
        let curve = &self.curves.gemm_batched;
        let (rate, share) = if aligned {
            (curve.aligned_bytes_per_s, curve.compute)
        } else if m > 1.0 {
            (
                curve.unaligned_bytes_per_s,
                kernel_factors().unaligned_share(n, k),
            )
        } else {
            (
                kernel_factors().vector_share() * self.curves.bytes_per_s,
                kernel_factors().unaligned_share(n, k),
            )
        };
        let memory = kernel.min_traffic_bytes() / rate * self.memory_scale;
        let tensor = kernel.matrix_flops() / (share * self.flops_per_s);
        longest_of(curve.fixed_us * 1e-6, tensor, 0.0, memory)
    }

    fn wide_gemm(&self, kernel: &Kernel, groups: f64, m: f64, k: f64) -> KernelTime {
        let curve = &self.curves.gemm_f32;
        let walk = if m > 1.0 && k > 4.0 {
            k * curve.ns_per_k * 1e-9
        } else {
            kernel_factors().few_products_s()
        };
        let filled = kernel_factors().filled_share(k);
        let vector = kernel.matrix_flops() / (curve.flops_per_s * filled) * self.compute_scale;
        // Many products of a matrix and a vector, as scores of a decode step.
        let share = if groups > 1.0 && m <= 1.0 {
            kernel_factors().vector_share()
        } else {
            1.0
        };
        let memory = kernel.min_traffic_bytes() / (share * self.bytes_per_s);
        longest_of(curve.fixed_us * 1e-6 + walk, 0.0, vector, memory)
    }

    /// Pads the head width: heads wider than [`WIDE_HEAD`], and widths that are not a multiple of eight, run in kernels of the next measured width and take its time.
    fn pad_heads(&self, kernel: &Kernel) -> Kernel {
        let mut padded = *kernel;
        if let Some((curve, width, _)) = attention_place(kernel)
            && (width > WIDE_HEAD || takes_flash_2(width))
            && let dims = &self.curves.attention.select_table(curve).dims
            && let Some(wider) = dims.iter().find(|dim| **dim >= width)
            && let Kernel::Attention {
                key_dim, value_dim, ..
            } = &mut padded
        {
            if value_dim == key_dim {
                *value_dim = *wider;
            }
            *key_dim = *wider;
        }
        padded
    }

    fn attention_ratio(&self, kernel: &Kernel) -> f64 {
        let Some((curve, key_dim, [work, keys])) = attention_place(kernel) else {
            return 1.0;
        };
        let curves = &self.curves.attention;
        let table = curves.select_table(curve);
        let work = self.work.find_place(work);
        let in_keys = self.keys.find_place(keys);
        let (items, columns) = (curves.work.len(), curves.keys.len());
        let at = |dim: usize| {
            work.interpolate_by(|w| {
                in_keys.interpolate_by(|s| table.ratio[(dim * items + w) * columns + s])
            })
        };
        // Widths of heads lie between measured ones by their size, not its logarithm.
        let next = table.dims.partition_point(|dim| *dim <= key_dim);
        if next == 0 {
            return at(0);
        }
        if next == table.dims.len() || table.dims[next - 1] == key_dim {
            return at(next - 1);
        }
        let (low, high) = (table.dims[next - 1], table.dims[next]);
        let share = (key_dim - low) / (high - low);
        at(next - 1) * (1.0 - share) + at(next) * share
    }

    fn time_stream(&self, access: Access, bytes: f64, elements: f64, width: f64) -> KernelTime {
        if let Some((by, axis, logs)) = &self.tables[access as usize] {
            let size = match by {
                CurveSize::Bytes => bytes,
                CurveSize::Elements => elements,
            };
            let place = axis.find_place(size);
            let mut seconds = place.interpolate_by(|at| logs[at]).exp();
            // Beyond the last size the time grows with it.
            seconds *= (size / axis.value_at(axis.len() - 1)).max(1.0);
            let fixed = logs.first().map_or(0.0, |log| log.exp()).min(seconds);
            return KernelTime {
                fixed,
                memory: (seconds - fixed) * self.memory_scale,
                ..KernelTime::default()
            };
        }
        let Some(curve) = self.streams[access as usize] else {
            return KernelTime::default();
        };
        curve.seconds(
            bytes,
            elements,
            width,
            [self.memory_scale, self.compute_scale],
        )
    }
}

impl UnalignedCurve {
    fn is_whole(&self) -> bool {
        let suits =
            |rates: &[f64]| rates.len() == self.rows.len() && rates.iter().all(|rate| *rate > 0.0);
        suits(&self.bytes_per_s)
            && (self.even_bytes_per_s.is_empty() || suits(&self.even_bytes_per_s))
    }

    fn bandwidth_rates(&self, n: f64, k: f64) -> &[f64] {
        if n % 2.0 == 0.0 && k % 2.0 == 0.0 && !self.even_bytes_per_s.is_empty() {
            &self.even_bytes_per_s
        } else {
            &self.bytes_per_s
        }
    }
}

impl StreamCurve {
    /// The time of a kernel on a device that takes `memory_scale` times as long for each byte and `compute_scale` times as long for each element.
    pub(super) fn seconds(
        &self,
        bytes: f64,
        elements: f64,
        width: f64,
        [memory_scale, compute_scale]: [f64; 2],
    ) -> KernelTime {
        let (mut fixed, mut per_kb) = (self.fixed_us * 1e-6, self.ns_per_kb);
        if width > 0.0 {
            let rows = elements / width;
            let split = self.ns_per_width_and_row * rows;
            let walk = if split > 0.0 {
                split.min(self.ns_per_width)
            } else {
                self.ns_per_width
            };
            fixed += width * walk * 1e-9;
            per_kb += self.narrow_ns_per_kb / width.max(WARP);
        }
        let memory = bytes * per_kb * 1e-12 * memory_scale;
        let vector = elements * self.ns_per_kelement * 1e-12 * compute_scale;
        longest_of(fixed, 0.0, vector, memory)
    }
}

fn takes_flash_2(key_dim: f64) -> bool {
    key_dim % 8.0 != 0.0
}

/// A fixed time and the longest of three.
fn longest_of(fixed: f64, tensor: f64, vector: f64, memory: f64) -> KernelTime {
    let mut time = KernelTime {
        fixed,
        ..KernelTime::default()
    };
    if memory >= tensor && memory >= vector {
        time.memory = memory;
    } else if tensor >= vector {
        time.tensor = tensor;
    } else {
        time.vector = vector;
    }
    time
}
