//! Matched operators summed up by kind and by place, each with its position under the roofline.

use llmprof_theory::roofline::{OperatorRoofline, Resource};
use llmprof_theory::{Kind, Shape};
use llmprof_units::{Basis, Bytes, BytesPerSecond, DType, Flops, FlopsPerSecond, Nanos};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::matching::expected::Expected;
use crate::row_order::sort_descending_named;

/// Calls of operators that belong together, measured and counted.
///
/// The share of roofline is roofline time ÷ measured time. For work of one format on one kind of unit that is the position
/// under the roofline: achieved FLOP/s ÷ min(peak, intensity × bandwidth).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorGroup {
    /// The kind, or the path with `*` for the number of the layer.
    pub name: String,
    /// What the operators do; of a set that kernels cannot separate, one of its kinds.
    pub kind: Kind,
    /// The format that they multiply.
    pub dtype: DType,
    /// Size of the first call.
    pub shape: Shape,
    /// Calls of the operators that are matched to measured work.
    pub calls: u64,
    /// Measured time of these calls.
    pub measured_ns: Nanos,
    /// Part of the phase's wall time.
    pub share: f64,
    /// Floating-point operations of these calls; a multiply-add is two.
    pub flops: Flops,
    /// Bytes that no software can avoid.
    pub min_dram_bytes: Bytes,
    /// Bytes that move if nothing is fused.
    pub unfused_bytes: Bytes,
    /// The least time; absent without a device.
    pub roofline_ns: Option<Nanos>,
    /// What gives the least time.
    pub binds: Option<Resource>,
    /// Floating-point operations per second of measured time.
    pub achieved_flops_per_s: Option<FlopsPerSecond>,
    /// Minimum DRAM traffic ÷ measured time.
    pub achieved_bytes_per_s: Option<BytesPerSecond>,
    /// FLOPs per byte of minimum DRAM traffic; absent where none must move.
    pub intensity: Option<f64>,
    /// Operations ÷ roofline: the roof above this group.
    pub roof_flops_per_s: Option<FlopsPerSecond>,
    /// Roofline time ÷ measured time; above 1 where the comparison does not hold.
    pub roofline_fraction: Option<f64>,
    /// `counted`, or how else the work is known where random routing decides.
    pub basis: Basis,
}

impl OperatorGroup {
    /// Faster than the device can do it: other work ran than the operators that it is compared with.
    pub(crate) fn is_impossible(&self) -> bool {
        // A clock that counts whole nanoseconds, and peaks that are stated with three digits.
        self.roofline_fraction.is_some_and(|share| share > 1.005)
    }

    /// Leaves nothing but the time.
    pub(crate) fn forget_work(&mut self) {
        self.forget_roofline();
        self.achieved_flops_per_s = None;
        self.achieved_bytes_per_s = None;
    }

    pub(crate) fn forget_roofline(&mut self) {
        self.roofline_ns = None;
        self.binds = None;
        self.roof_flops_per_s = None;
        self.roofline_fraction = None;
    }
}

/// Sums over calls, in the order in which groups first appear.
#[derive(Default)]
pub(crate) struct GroupSums {
    index: FxHashMap<(u32, Kind), usize>,
    sums: Vec<GroupSum>,
}

struct GroupSum {
    name: u32,
    kind: Kind,
    dtype: DType,
    shape: Shape,
    calls: u64,
    measured: i64,
    flops: u64,
    min_dram_bytes: u64,
    unfused: u64,
    roofline: Option<OperatorRoofline>,
    least: f64,
    basis: Basis,
}

impl GroupSums {
    /// Adds time to a group that has work.
    pub(crate) fn add_time(&mut self, name: u32, kind: Kind, time: i64) {
        if let Some(&at) = self.index.get(&(name, kind)) {
            let sum = &mut self.sums[at];
            sum.measured = sum.measured.saturating_add(time);
        }
    }

    /// Adds the work of a call to a group of `kind`, which stands for that of the call.
    pub(crate) fn add_work(&mut self, name: u32, kind: Kind, call: &Expected) {
        let at = *self.index.entry((name, kind)).or_insert_with(|| {
            self.sums.push(GroupSum {
                name,
                kind,
                dtype: call.dtype,
                shape: call.shape,
                calls: 0,
                measured: 0,
                flops: 0,
                min_dram_bytes: 0,
                unfused: 0,
                roofline: call.roofline.map(|_| OperatorRoofline::default()),
                least: 0.0,
                basis: Basis::Counted,
            });
            self.sums.len() - 1
        });
        let sum = &mut self.sums[at];
        sum.calls += 1;
        sum.flops = sum.flops.saturating_add(call.flops);
        sum.min_dram_bytes = sum.min_dram_bytes.saturating_add(call.min_dram_bytes);
        sum.unfused = sum.unfused.saturating_add(call.unfused);
        match (&mut sum.roofline, call.roofline) {
            (Some(sum_roofline), Some(roofline)) => {
                sum_roofline.tensor += roofline.tensor;
                sum_roofline.vector += roofline.vector;
                sum_roofline.memory += roofline.memory;
                sum.least += roofline.roofline_seconds();
            }
            (sum_roofline, _) => *sum_roofline = None,
        }
        if call.basis != Basis::Counted {
            sum.basis = call.basis;
        }
    }

    /// The groups, the longest first; `name` turns a number into text, `wall` is the phase's time.
    pub(crate) fn into_groups(
        self,
        wall: i64,
        name: impl Fn(u32, Kind) -> String,
    ) -> Vec<OperatorGroup> {
        let mut groups: Vec<OperatorGroup> = self
            .sums
            .into_iter()
            .map(|sum| sum.into_group(wall, &name))
            .collect();
        sort_descending_named(&mut groups, |group| (group.measured_ns.0, &group.name));
        groups
    }
}

impl GroupSum {
    fn into_group(self, wall: i64, name: &impl Fn(u32, Kind) -> String) -> OperatorGroup {
        let measured = Nanos(self.measured);
        let (flops, bytes) = (Flops(self.flops), Bytes(self.min_dram_bytes));
        let least = self.roofline.map(|_| self.least);
        OperatorGroup {
            name: name(self.name, self.kind),
            kind: self.kind,
            dtype: self.dtype,
            shape: self.shape,
            calls: self.calls,
            measured_ns: measured,
            share: if wall > 0 {
                self.measured as f64 / wall as f64
            } else {
                0.0
            },
            flops,
            min_dram_bytes: bytes,
            unfused_bytes: Bytes(self.unfused),
            roofline_ns: least.map(Nanos::from_seconds),
            binds: self
                .roofline
                .filter(|roofline| roofline.roofline_seconds() > 0.0)
                .map(|roofline| roofline.binding_resource()),
            achieved_flops_per_s: flops.per(measured),
            achieved_bytes_per_s: bytes.per(measured),
            intensity: (bytes.0 > 0).then(|| flops.0 as f64 / bytes.0 as f64),
            roof_flops_per_s: least
                .filter(|least| *least > 0.0)
                .map(|least| FlopsPerSecond(flops.0 as f64 / least)),
            roofline_fraction: least
                .filter(|_| self.measured > 0)
                .map(|least| least / measured.seconds()),
            basis: self.basis,
        }
    }
}
