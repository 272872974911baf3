//! Where the wall time of a phase went.

use llmprof_analysis::waterfall::{
    DATA_LOADING, HOST_BUSY, HOST_SYNC, LAUNCH_CALL, LAUNCH_LATENCY, NOT_STARTED, QUEUED_GAP,
    UNRECORDED,
};
use llmprof_units::{Count, Percent};

use super::{slices, unmatched};
use crate::analyzed::{Analysis, PhaseAnalysis, TracedPhase};

pub const ROOFLINE: &str = "roofline time";
pub const INEFFICIENCY: &str = "kernel inefficiency";
pub const MATCHED: &str = "matched ops";
/// What stands in their place where no model says which operators there are.
pub const COMPUTE: &str = "compute ops";
pub const OVERHEAD: &str = "overhead ops";
pub const COPIES: &str = "copies";
pub const COMMUNICATION: &str = "communication";
pub const UNATTRIBUTED: &str = "unattributed";
pub const IDLE: &str = "idle";
pub const OVERLAP: &str = "overlap";

/// What the parts are and how they add up.
pub fn parts(analysis: &Analysis) -> String {
    let has_roofline = has_roofline(analysis);
    let sum = if has_roofline {
        format!("{ROOFLINE} + {INEFFICIENCY}")
    } else {
        matched(analysis).to_owned()
    };
    let matched = match analysis.family {
        None => {
            "Without a model config, ops are classified by name: compute ops calculate, overhead ops move, fill or reorder data."
        }
        Some(_) if has_roofline => {
            "Roofline time is the least time that the peaks allow for the operators that ran; kernel inefficiency is measured time \
             above it."
        }
        Some(_) => "Matched ops are the model's operators.",
    };
    let idle = match &analysis.timeline {
        None => "Idle is time between ops.",
        Some(_) => "Idle is split by cause.",
    };
    let communicates = if has_communication(analysis) {
        format!(" + {COMMUNICATION}")
    } else {
        String::new()
    };
    format!(
        "Wall time = {sum} + {OVERHEAD} + {COPIES}{communicates} + {UNATTRIBUTED} + {IDLE} − {OVERLAP}, from the profiled pass. {matched} {idle}"
    )
}

/// The part that a model's operators, or kernels that calculate, take.
pub(crate) fn matched(analysis: &Analysis) -> &'static str {
    match analysis.family {
        Some(_) => MATCHED,
        None => COMPUTE,
    }
}

pub(crate) fn has_roofline(analysis: &Analysis) -> bool {
    let mut phases = analysis.phases.iter();
    phases.any(|phase| phase.waterfall.roofline_ns.is_some())
}

pub(crate) fn has_communication(analysis: &Analysis) -> bool {
    let mut phases = analysis.phases.iter();
    phases.any(|phase| phase.waterfall.communication_ns.0 > 0)
}

/// The name of a cause of idle time.
pub fn idle_cause(name: &str) -> String {
    format!("idle: {}", cause(name))
}

/// The words for the code of a cause; what a recorder named keeps its name.
pub(crate) fn cause(name: &str) -> &str {
    match name {
        HOST_SYNC => "host in a sync call",
        HOST_BUSY => "host busy before the launch",
        LAUNCH_LATENCY => "launch latency",
        LAUNCH_CALL => "host in the launch call",
        NOT_STARTED => "queued, not started",
        QUEUED_GAP => "inter-kernel gap",
        DATA_LOADING => "host in the DataLoader",
        UNRECORDED => "between ops",
        "sampling" => "token sampling",
        name => name,
    }
}

/// What the figures of a traced phase rest on: how many ranges, which were left out, how much is attributed to modules.
pub fn basis(phase: &PhaseAnalysis, traced: &TracedPhase) -> Option<String> {
    let count = traced.instances.len();
    let whole = traced.instances.iter().filter(|one| !one.left_out).count();
    let mut parts = Vec::new();
    if let Some(part) = &traced.recorded {
        parts.push(format!(
            "sampled in slices, {}: its wall time is that of the recorded steps; time between slices counts neither as busy nor as idle",
            slices::part(part, whole)
        ));
    } else if count > 1 {
        parts.push(Count(count as u64, "separate interval").to_string());
    }
    if let Some(first) = &traced.first_use {
        parts.push(format!(
            "the first took {} and is left out as warm-up",
            first.wall_ns
        ));
    }
    if let Some(inside) = traced.in_modules_ns {
        let sum = phase.waterfall.sum_ns;
        parts.push(format!(
            "{} of {} attributed to modules ({})",
            inside,
            sum,
            Percent(inside.0 as f64 / sum.0.max(1) as f64)
        ));
    }
    let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
    if wall != phase.waterfall.wall_ns {
        parts.push(format!(
            "without the profiler {wall}, idle {idle} ({}), same device time",
            Percent(phase.judged_share(idle))
        ));
    }
    if let Some(why) = &phase.waterfall.extra_abstains {
        parts.push(format!(
            "overhead ops are unknown: {}",
            unmatched::reason(*why)
        ));
    }
    (!parts.is_empty()).then(|| format!("{}: {}.", phase.name(), parts.join("; ")))
}

/// The heading above what a phase ran beside the model's operators.
pub fn unmatched_heading(analysis: &Analysis, phase: &PhaseAnalysis) -> String {
    match analysis.family {
        Some(_) => format!("{}: overhead ops and unattributed time", phase.name()),
        None => format!(
            "{}: overhead ops and unattributed time, by name",
            phase.name()
        ),
    }
}

pub const HOST_OPS: &str =
    "GPU idle time while the host was in an op (the outermost counts) or a runtime call:";
