//! How long a phase would take if the model or the workload were different.
//!
//! Each group of operators keeps its present share of roofline: its new time is its new roofline time ÷ that share. Where
//! another resource holds it back than before, the fraction of the same operators in another phase is taken, if that
//! phase was held back by that resource; where the same does and the other phase comes closer to the roof, its fraction: small
//! kernels are far from the roof because of their size, and more work lets them grow into it. More work never takes less time
//! than now. Everything that is not matched time stays as it is, but in a phase that waits for the host the device first works
//! in the time in which it was idle.

use llmprof_theory::roofline::{MemoryLevel, OperatorRoofline, Resource, Roof};
use llmprof_theory::{Kind, Model, Operator, Pass, Workload};
use rustc_hash::FxHashMap;

use crate::bottleneck::PhaseClass;
use crate::matching::groups::OperatorGroup;
use crate::matching::kernel_table::WorkGroup;
use crate::matching::script::path_without_layer;
use crate::phase_analysis::PhaseAnalysis;

/// A measured phase, with what theory needs to count it again.
pub(crate) struct MeasuredPhase<'a> {
    pub(crate) model: &'a Model,
    pub(crate) workload: &'a Workload,
    pub(crate) passes: &'a [Pass],
    pub(crate) phase: &'a PhaseAnalysis,
}

/// What a change would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WhatIfOutcome {
    /// Wall time of the phase, seconds.
    pub(crate) wall: f64,
    /// Roofline after the change ÷ roofline before.
    pub(crate) roofline_ratio: f64,
}

type Rooflines = FxHashMap<(String, Kind), OperatorRoofline>;

/// The group that an operator is measured in: its place, or its kernels' where nothing finer is known.
fn group_of(operator: &Operator<'_>, by_kernels: bool) -> (String, Kind) {
    if by_kernels {
        let group = WorkGroup::of_kind(operator.kind);
        return (group.name().to_owned(), group.typical_kind());
    }
    (path_without_layer(&operator.path), operator.kind)
}

fn lower_rooflines(
    model: &Model,
    workload: &Workload,
    passes: &[Pass],
    roof: &Roof<'_>,
    level: MemoryLevel,
    by_kernels: bool,
) -> Option<Rooflines> {
    let mut rooflines = Rooflines::default();
    let mut complete = true;
    for pass in passes {
        model.lower_pass(workload, pass, &mut |operator| {
            let Ok(roofline) = roof.operator_times(operator, level) else {
                complete = false;
                return;
            };
            let sum = rooflines.entry(group_of(operator, by_kernels)).or_default();
            sum.tensor += roofline.tensor;
            sum.vector += roofline.vector;
            sum.memory += roofline.memory;
        });
    }
    complete.then_some(rooflines)
}

/// The share of roofline that the operators of `group` reach in another phase, where `resource` binds them there. A phase
/// that tells kernels apart may be compared with one that tells modules apart: there they are all whose kernels look alike.
fn fraction_in(
    other: &PhaseAnalysis,
    group: &OperatorGroup,
    by_kernels: bool,
    resource: Resource,
) -> Option<f64> {
    let same = |candidate: &&OperatorGroup| {
        if by_kernels && !other.by_kernels() {
            WorkGroup::of_kind(candidate.kind) == WorkGroup::of_kind(group.kind)
        } else {
            candidate.name == group.name
        }
    };
    let (mut roofline, mut bound, mut measured) = (0.0, 0.0, 0.0);
    for candidate in other.by_path.iter().filter(same) {
        let time = candidate.measured_ns.seconds();
        let least = candidate.roofline_fraction? * time;
        roofline += least;
        measured += time;
        if candidate.binds == Some(resource) {
            bound += least;
        }
    }
    (roofline > 0.0 && measured > 0.0 && 2.0 * bound > roofline).then(|| roofline / measured)
}

impl MeasuredPhase<'_> {
    /// The phase with another workload and other passes. Operators that have no roofline take `rest` times as long.
    /// `None` if the device cannot do the work.
    pub(crate) fn count_again(
        &self,
        roof: &Roof<'_>,
        workload: &Workload,
        passes: &[Pass],
        other: Option<&PhaseAnalysis>,
        rest: f64,
    ) -> Option<WhatIfOutcome> {
        let level = self.phase.roofline.as_ref()?.memory_level;
        let by_kernels = self.phase.by_kernels();
        let before = lower_rooflines(
            self.model,
            self.workload,
            self.passes,
            roof,
            level,
            by_kernels,
        )?;
        let after = lower_rooflines(self.model, workload, passes, roof, level, by_kernels)?;
        let (mut saved, mut old_sum, mut new_sum) = (0.0, 0.0, 0.0);
        for group in &self.phase.by_path {
            let key = (group.name.clone(), group.kind);
            let (old, new) = (before.get(&key)?, after.get(&key)?);
            let measured = group.measured_ns.seconds();
            old_sum += old.roofline_seconds();
            new_sum += new.roofline_seconds();
            let time = match group.roofline_fraction {
                Some(fraction) if fraction > 0.0 && old.roofline_seconds() > 0.0 => {
                    let changed = new.binding_resource() != old.binding_resource();
                    let elsewhere = other
                        .and_then(|other| {
                            fraction_in(other, group, by_kernels, new.binding_resource())
                        })
                        .filter(|elsewhere| *elsewhere > if changed { 0.0 } else { fraction });
                    let time = new.roofline_seconds() / elsewhere.unwrap_or(fraction);
                    if new.roofline_seconds() < old.roofline_seconds() {
                        // What passes its roof by a slip of measuring must not pass the new one.
                        time.max(new.roofline_seconds()).min(measured)
                    } else {
                        time.max(measured)
                    }
                }
                _ => measured * rest,
            };
            saved += measured - time;
        }
        let waterfall = &self.phase.waterfall;
        // Where events run at once, a part of what one saves is hidden behind another.
        let visible = waterfall.busy_ns.seconds() / waterfall.sum_ns.seconds().max(1e-12);
        let shorter = saved * visible.min(1.0);
        let hidden = if self.phase.class.class == Some(PhaseClass::HostBound) {
            (-shorter).clamp(0.0, self.phase.judged_idle().seconds())
        } else {
            0.0
        };
        let wall = self.phase.judged_wall().seconds() - shorter - hidden;
        (old_sum > 0.0 && wall > 0.0).then(|| WhatIfOutcome {
            wall,
            roofline_ratio: new_sum / old_sum,
        })
    }
}
