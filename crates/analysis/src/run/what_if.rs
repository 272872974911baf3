//! How long a phase would take if the model or the workload were different.
//!
//! Each group of operators keeps its present fraction of the roof: its new time is its new floor ÷ that fraction. Where
//! another resource holds it back than before, the fraction of the same operators in another phase is taken, if that
//! phase was held back by that resource. Everything that is not matched time stays as it is.

use llmprof_theory::floor::{MemoryLevel, OperatorFloor, Roof};
use llmprof_theory::{Kind, Model, Operator, Pass, Workload};
use rustc_hash::FxHashMap;

use super::kernel_table::WorkGroup;
use super::matching::place;
use super::phase_analysis::PhaseAnalysis;

/// A measured phase, with what theory needs to count it again.
pub(super) struct Subject<'a> {
    pub(super) model: &'a Model,
    pub(super) workload: &'a Workload,
    pub(super) passes: &'a [Pass],
    pub(super) phase: &'a PhaseAnalysis,
}

/// What a change would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Wall time of the phase, seconds.
    pub(super) wall: f64,
    /// Floor after the change ÷ floor before.
    pub(super) floor_ratio: f64,
}

type Floors = FxHashMap<(String, Kind), OperatorFloor>;

/// The group that an operator is measured in: its place, or its kernels' where nothing finer is known.
fn group_of(operator: &Operator<'_>, by_kernels: bool) -> (String, Kind) {
    if by_kernels {
        let group = WorkGroup::of(operator.kind);
        return (group.name().to_owned(), group.kind());
    }
    (place(&operator.path), operator.kind)
}

fn floors(
    model: &Model,
    workload: &Workload,
    passes: &[Pass],
    roof: &Roof<'_>,
    level: MemoryLevel,
    by_kernels: bool,
) -> Option<Floors> {
    let mut floors = Floors::default();
    let mut complete = true;
    for pass in passes {
        model.lower(workload, pass, &mut |operator| {
            let Ok(floor) = roof.operator(operator, level) else {
                complete = false;
                return;
            };
            let sum = floors.entry(group_of(operator, by_kernels)).or_default();
            sum.tensor += floor.tensor;
            sum.vector += floor.vector;
            sum.memory += floor.memory;
        });
    }
    complete.then_some(floors)
}

impl Subject<'_> {
    /// The phase with another workload and other passes. Operators that have no floor take `rest` times as long.
    /// Nothing where the device cannot do the work.
    pub(super) fn with(
        &self,
        roof: &Roof<'_>,
        workload: &Workload,
        passes: &[Pass],
        other: Option<&PhaseAnalysis>,
        rest: f64,
    ) -> Option<Outcome> {
        let level = self.phase.floor.as_ref()?.memory_level;
        let by_kernels = self.phase.by_kernels();
        let before = floors(
            self.model,
            self.workload,
            self.passes,
            roof,
            level,
            by_kernels,
        )?;
        let after = floors(self.model, workload, passes, roof, level, by_kernels)?;
        let (mut saved, mut old_sum, mut new_sum) = (0.0, 0.0, 0.0);
        for group in &self.phase.by_path {
            let key = (group.name.clone(), group.kind);
            let (old, new) = (before.get(&key)?, after.get(&key)?);
            let measured = group.measured_ns.seconds();
            old_sum += old.seconds();
            new_sum += new.seconds();
            let time = match group.fraction_of_roof {
                Some(fraction) if fraction > 0.0 && old.seconds() > 0.0 => {
                    let changed = new.binds() != old.binds();
                    let elsewhere = other
                        .filter(|_| changed)
                        .and_then(|phase| phase.by_path.iter().find(|g| g.name == group.name))
                        .filter(|group| group.binds == Some(new.binds()))
                        .and_then(|group| group.fraction_of_roof)
                        .filter(|fraction| *fraction > 0.0);
                    new.seconds() / elsewhere.unwrap_or(fraction)
                }
                _ => measured * rest,
            };
            saved += measured - time;
        }
        let waterfall = &self.phase.waterfall;
        // Where events run at once, a part of what one saves is hidden behind another.
        let visible = waterfall.busy_ns.seconds() / waterfall.sum_ns.seconds().max(1e-12);
        let wall = self.phase.judged_wall().seconds() - saved * visible.min(1.0);
        (old_sum > 0.0 && wall > 0.0).then(|| Outcome {
            wall,
            floor_ratio: new_sum / old_sum,
        })
    }
}
