//! The numbers behind a finding, and how its speedup is computed from them.

use llmprof_units::{Bytes, BytesPerSecond, FlopsPerSecond, Percent, Times, format_significant};

use crate::analyzed::{Derivation, Evidence, Measure};
use crate::text::{copies, time, waterfall};

/// `GPU idle: 73.0 % (measured)`.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    let what = what(evidence);
    let value = figure(evidence);
    // `calls: 12 calls` says it twice.
    let value = value.strip_suffix(&format!(" {what}")).unwrap_or(&value);
    format!("{what}: {value} ({})", evidence.basis)
}

/// What a number of evidence is.
fn what(evidence: &Evidence) -> String {
    let name = evidence.name.as_deref();
    let named = |what: &str, name: Option<&str>| match name {
        Some(name) => format!("{what}: {name}"),
        None => what.to_owned(),
    };
    let in_dtype = |what: &str| match name {
        Some(dtype) => format!("{what} in {dtype}"),
        None => what.to_owned(),
    };
    let cause = || name.map(waterfall::cause);
    match evidence.what {
        Measure::IdleCauseTime => named("idle", cause()),
        Measure::IdleCauseShare => named("share of idle time, profiled pass", cause()),
        Measure::HostOperatorTime => named("idle while the host was in", name),
        Measure::AchievedRate => in_dtype(match evidence.unit.as_str() {
            "B/s" => "achieved B/s",
            "FLOP/s" => "achieved FLOP/s",
            _ => "achieved",
        }),
        Measure::PeakRate => in_dtype("peak"),
        Measure::CopyRate => named("copies", name.map(copies::of_code)),
        Measure::LinkRate => named("peak", name),
        other => label(other).to_owned(),
    }
}

/// The name of a measure that takes no other.
pub(crate) fn label(measure: Measure) -> &'static str {
    match measure {
        Measure::IdleShare => "idle share of wall time",
        Measure::DataLoadingShare => "share of wall time in which the GPU waits for the DataLoader",
        Measure::PlainIdleShare => "idle share of wall time without profiler",
        Measure::IdleTime => "idle time",
        Measure::LongestGap => "longest gap",
        Measure::PlainWallTime => "wall time without profiler",
        Measure::IdleCauseTime => "idle time of one cause",
        Measure::IdleCauseShare => "share of idle time of one cause",
        Measure::HostOperatorTime => "idle time in one host op",
        Measure::MeasuredTime => "measured time",
        Measure::RooflineTime => "roofline time",
        Measure::RooflineShare => "% of roofline",
        Measure::Calls => "calls",
        Measure::AchievedRate => "achieved",
        Measure::OverheadOpsTime => "overhead ops",
        Measure::CopyTime | Measure::CopyRate => "copies",
        Measure::WallShare => "share of wall time",
        Measure::WeightGemmTime => "weight GEMMs",
        Measure::PeakRate | Measure::LinkRate => "peak",
        Measure::RooflineRatio => "roofline time after ÷ before",
        Measure::LinearRooflineShare => "GEMMs of linear layers, % of roofline",
        Measure::WeightBytes => "weights now",
        Measure::Int8WeightBytes => "weights in int8",
        Measure::BatchNow => "batch now",
        Measure::BatchThen => "batch then",
        Measure::DecodeTimeRatio => "decode time then ÷ now",
        Measure::StepBytes => "bytes of a step",
        Measure::CacheCapacity => "capacity",
        Measure::Kernels => "kernels",
        Measure::GlueKernels => "of them norms, elementwise ops and copies",
        Measure::GlueTime => "their kernel time, overlap included",
        Measure::GlueGapTime => "gaps after them",
        Measure::ThrottledShare => "time below the device's clock",
        Measure::ThrottledTime => "throttled time",
        Measure::MeanPower => "mean power",
        Measure::FirstPassTime => "first pass",
        Measure::LaterPassTime => "later passes, mean",
        Measure::ExtraTtft => "TTFT of the first pass above later ones",
        Measure::ExtraAfterTtft => "time after the first token above later passes",
        Measure::ExtraStepTime => "extra time of a step at a new length",
        Measure::FirstRangeTime => "first",
        Measure::LaterRangeTime => "later, median",
        Measure::AttentionWaits => "waits before attention kernels far above the usual",
        Measure::AttentionWaitTime => "their time above the usual",
        Measure::UsualAttentionWait => "usual wait before an attention kernel",
        Measure::ComputeShare => "compute time at peak ÷ busy time",
        Measure::MemoryShare => "DRAM time at peak bandwidth ÷ busy time",
        Measure::ExposedCommunicationShare => "exposed communication",
        Measure::ExposedCopyShare => "busy time in which only copies and memsets run",

        Measure::SmallKernelShare => "busy time in kernels with fewer blocks than the GPU has SMs",
    }
}

/// The number of an evidence with its unit.
pub(crate) fn figure(evidence: &Evidence) -> String {
    let value = evidence.value;
    match evidence.unit.as_str() {
        "1" => Percent(value).to_string(),
        "×" => Times(value).to_string(),
        "ns" => time(value),
        "B" => Bytes(value as u64).to_string(),
        "B/s" => BytesPerSecond(value).to_string(),
        "FLOP/s" => FlopsPerSecond(value).to_string(),
        // A count of things, which one of is no plural.
        unit => match unit.strip_suffix('s').filter(|_| value == 1.0) {
            Some(one) => format!("1 {one}"),
            None => format!("{} {unit}", format_significant(value)),
        },
    }
}

/// How the factor of a gain follows from the numbers.
pub(crate) fn derivation(derivation: &Derivation) -> String {
    match derivation {
        Derivation::Replayed { now_ns, after_ns } => {
            format!("{now_ns} ÷ {after_ns}, replayed")
        }
        Derivation::WithoutIdle {
            wall_ns: wall,
            idle_ns,
            first_use_ns,
            queued_ns,
        } => {
            let first = first_use_ns.map(|first| format!("; {first} of first use stay"));
            let first = first.unwrap_or_default();
            let queued = queued_ns.map(|queued| format!("; {queued} with work queued stay"));
            let queued = queued.unwrap_or_default();
            format!("{wall} ÷ ({wall} − {idle_ns} idle){first}{queued}")
        }
        Derivation::WithoutFirstUse {
            wall_ns: wall,
            first_use_ns,
        } => format!("{wall} ÷ ({wall} − {first_use_ns} of first use)"),
        Derivation::AtRoofline {
            wall_ns: wall,
            measured_ns,
            roofline_ns,
        } => format!(
            "{wall} ÷ ({wall} − ({measured_ns} measured − {roofline_ns} roofline time)), an upper bound"
        ),
        Derivation::WithoutPart {
            wall_ns: wall,
            part_ns,
        } => format!("{wall} ÷ ({wall} − {part_ns})"),
        Derivation::Fused {
            wall_ns: wall,
            kernels_ns,
            gaps_ns,
        } => format!(
            "{wall} ÷ ({wall} − {kernels_ns} of these kernels alone on the GPU − {gaps_ns} of gaps after them), an upper bound: fused into \
             adjacent kernels they take no time of their own"
        ),
        Derivation::GemmsRecounted {
            wall_ns: wall,
            after_ns,
            roofline_ratio,
            dtype,
        } => format!(
            "{wall} ÷ {after_ns}: with weight GEMMs in {dtype} the roofline time of the phase is {roofline_ratio:.2} of the present; \
             each GEMM keeps its % of roofline, or gets that of decode where it becomes memory-bound; everything else keeps \
             its time"
        ),
        Derivation::Int8Recounted {
            wall_ns: wall,
            after_ns,
            roofline_ratio,
        } => format!(
            "{wall} ÷ {after_ns}: with int8 weights the roofline time is {roofline_ratio:.2} of the present, and each operator keeps \
             its % of roofline"
        ),
        Derivation::FirstOverLaterPasses => "first pass ÷ mean of the later passes".to_owned(),
        Derivation::FirstOverLaterRanges => "first ÷ median of the later ones".to_owned(),
    }
}
