//! What theory counts in the intervals of a trace.

use llmprof_theory::roofline::{MemoryLevel, Roof};
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::TracePhase;
use crate::matching::modules::ModuleTree;
use crate::matching::script::Script;
use crate::matching::units::CountedCalls;
use crate::roofline::Theory;

/// Lowers the model for every interval; `most` limits the calls of operators.
pub(super) fn count_operators<'m>(
    theory: &Theory<'m>,
    phases: &[TracePhase],
    most: usize,
) -> CountedCalls<'m> {
    let (model, roof) = (theory.model, theory.roof);
    let mut script = Script::empty();
    let mut windows = FxHashMap::default();
    let mut tree_of = FxHashMap::default();
    let mut order: Vec<_> = phases
        .iter()
        .flat_map(|phase| {
            phase
                .intervals
                .iter()
                .map(|interval| (phase.phase, interval))
        })
        .collect();
    order.sort_by_key(|(phase, interval)| (phase.is_before_decoder(), interval.start));
    let mut towers = usize::MAX;
    for (phase, interval) in order {
        let begin = script.calls.len();
        let workload = &theory.workload_of(phase);
        // What has no roofline becomes an issue when the phase is put together.
        let levels = theory
            .roofline(phase, interval.work(), &mut Vec::new())
            .map(|(_, levels)| levels);
        let level = |index: usize| -> Option<(&Roof<'_>, MemoryLevel)> {
            Some((roof?, *levels.as_ref()?.get(index)?))
        };
        if phase.is_before_decoder() {
            towers = towers.min(begin);
            script.add_before(phase, model, workload, level(0));
            tree_of.insert(interval.window, 1);
        } else {
            for (index, pass) in interval.passes.iter().enumerate() {
                script.add_pass(model, workload, pass, level(index), most);
            }
            if let Some(step) = &interval.step {
                script.add_step(model, workload, step, level(0));
            }
            tree_of.insert(interval.window, 0);
        }
        windows.insert(interval.window, begin..script.calls.len());
    }
    let towers = towers.min(script.calls.len());
    let trees = vec![
        ModuleTree::from_script(&script, 0..towers),
        ModuleTree::from_script(&script, towers..script.calls.len()),
    ];
    CountedCalls {
        script,
        windows,
        trees,
        tree_of,
    }
}
