//! Why a phase has its bottleneck class, or none.

use llmprof_units::Percent;

use super::findings::label;
use crate::analyzed::{ClassReason, Limits, Measure, PhaseClass};

/// The rule that gave the class, or why none did.
pub(crate) fn reason(class: Option<PhaseClass>, why: &ClassReason) -> String {
    match why {
        ClassReason::Share {
            what: Measure::DataLoadingShare,
            share,
            ..
        } => format!(
            "the GPU waits for the DataLoader for {} of the time, which is most of its idle time",
            Percent(*share)
        ),
        ClassReason::Share {
            what,
            share,
            least_share,
        } => format!(
            "{} is {} (threshold {})",
            label(*what),
            Percent(*share),
            Percent(*least_share)
        ),
        ClassReason::HostCauses { share, least_share } => format!(
            "the GPU waits for a host that launches nothing for {} of the time (threshold {})",
            Percent(*share),
            Percent(*least_share)
        ),
        ClassReason::SmallKernels {
            share,
            least_share,
            limits,
        } => {
            let limits = limits
                .as_ref()
                .map(|limits| format!("{}; ", explained(limits)));
            format!(
                "{}kernels with fewer blocks than the GPU has SMs take {} of the busy time (threshold {})",
                limits.unwrap_or_default(),
                Percent(*share),
                Percent(*least_share)
            )
        }
        ClassReason::Balanced { factor } => {
            format!("compute and DRAM time at peak are within a factor of {factor}")
        }
        ClassReason::AtLimit { share } => {
            let what = match class {
                Some(PhaseClass::L2Bound) => "on-chip memory bandwidth",
                Some(PhaseClass::MemoryBound) => "memory bandwidth",
                _ => "peak compute",
            };
            format!("{what} explains {} of the busy time", Percent(*share))
        }
        ClassReason::NoLimitNear {
            limits,
            least_share,
            is_cache_unknown,
        } => {
            let cache = if *is_cache_unknown {
                "; the bytes of a step stay in caches whose bandwidth the device file does not state"
            } else {
                ""
            };
            format!(
                "{} (threshold {}){cache}",
                explained(limits),
                Percent(*least_share)
            )
        }
        ClassReason::QueuedIdle {
            idle_share,
            queued_share,
        } => format!(
            "the GPU idles for {} of the time, {} with work queued that it did not start, and the trace does not show why",
            Percent(*idle_share),
            Percent(*queued_share)
        ),
        ClassReason::IdleUnexplained {
            idle_share,
            loading_share,
            host_share,
        } => {
            let causes = [
                (loading_share, "while the program waits for its DataLoader"),
                (host_share, "while the host is late with launches"),
            ];
            let causes = causes.iter().filter(|(share, _)| **share > 0.0);
            let mut parts: Vec<String> = causes
                .map(|(share, when)| format!("for {} {when}", Percent(**share)))
                .collect();
            if parts.is_empty() {
                return format!(
                    "the GPU idles for {} of the time, and the trace does not show why",
                    Percent(*idle_share)
                );
            }
            parts.push("for the rest the trace shows no cause".to_owned());
            format!(
                "the GPU idles for {} of the time: {}",
                Percent(*idle_share),
                parts.join(", ")
            )
        }
        ClassReason::HostAlone { uses_device: true } => {
            "the host uses a GPU whose events are not in the trace".to_owned()
        }
        ClassReason::HostAlone { .. } => "the trace has no GPU events".to_owned(),
        ClassReason::Cut => {
            "the trace is cut: kernels of recorded launches may be missing".to_owned()
        }
        ClassReason::OtherDevices {
            idle_share,
            elsewhere_share,
        } => format!(
            "the GPU idles for {} of the time, for {} of it while another GPU works",
            Percent(*idle_share),
            Percent(*elsewhere_share)
        ),
        ClassReason::ClocksDisagree { idle_share } => format!(
            "the GPU idles for {} of the time, and host and device clocks disagree, so the trace does not show what it waits for",
            Percent(*idle_share)
        ),
        ClassReason::NoLimits => {
            "there is no roofline to compare with, and idle time alone does not explain the phase"
                .to_owned()
        }
        ClassReason::ExpertsUnknown { memory_share } => format!(
            "memory bandwidth explains at most {} of the busy time: how many experts were read is not known",
            Percent(*memory_share)
        ),
        ClassReason::NoTime => "the phase took no time".to_owned(),
        ClassReason::NoPhases => {
            "no range divides the trace, so the time includes the program's start and end"
                .to_owned()
        }
    }
}

fn explained(limits: &Limits) -> String {
    format!(
        "peak compute explains {} and memory bandwidth {} of the busy time",
        Percent(limits.compute_share),
        Percent(limits.memory_share)
    )
}
