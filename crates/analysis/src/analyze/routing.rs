//! How many experts the calls of a mixture reached.

use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::{Routing, Workload};
use rustc_hash::FxHashMap;

use crate::trace::Structure;

/// The mean number of distinct experts that the calls of each phase reached, where the recorder counts them.
pub(super) fn measured_routing(
    workload: &Workload,
    trace: &Trace,
    structure: &Structure,
) -> Routing {
    if workload.routing != Routing::Uniform {
        return workload.routing;
    }
    let calls = &trace.operator_calls;
    let mut sums: FxHashMap<&str, (f64, f64)> = FxHashMap::default();
    for row in 0..trace.hosts.len() {
        let external = trace.hosts.external[row];
        let at = calls.external.partition_point(|&known| known < external);
        let experts = match calls.external.get(at) {
            Some(&known) if known == external => calls.experts[at],
            _ => 0,
        };
        let window = structure.phases.at_launch(trace.hosts.start[row]);
        if let Some(window) = window.filter(|_| experts > 0) {
            let name = structure.phases.windows[window].name;
            let sum = sums.entry(&structure.phases.names[name]).or_default();
            sum.0 += f64::from(experts);
            sum.1 += 1.0;
        }
    }
    let mean = |phase: RunPhase| {
        let &(sum, count) = sums.get(phase.name())?;
        Some(sum / count)
    };
    match (mean(RunPhase::Prefill), mean(RunPhase::Decode)) {
        (Some(prefill), Some(decode)) => Routing::Measured { prefill, decode },
        // Without decode steps the second figure is used nowhere.
        (Some(prefill), None) if workload.decode_steps() == 0 => Routing::Measured {
            prefill,
            decode: 0.0,
        },
        _ => Routing::Uniform,
    }
}
