//! Every number that decides what is said of a trace, with its unit in the name and its reason above.

// Bottleneck classes. W is the wall time of a phase, B its busy time. A part that takes half of the time outweighs all others
// together: no other class could explain more.

/// Part of the time below its clock from which on a device is throttled.
pub(crate) const THROTTLED_MIN_SHARE: f64 = 0.2;
/// Part of W from which on a phase is communication-bound.
pub(crate) const COMMUNICATION_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of W from which on a phase is host-bound.
pub(crate) const HOST_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B from which on a phase is copy-bound.
pub(crate) const COPY_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B from which on a phase is latency-bound.
pub(crate) const LATENCY_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B that a limit must explain.
pub(crate) const LIMIT_NEAR_MIN_SHARE: f64 = 0.4;
/// Ratio of compute and memory time up to which a phase is balanced.
pub(crate) const BALANCED_MAX_RATIO: f64 = 1.25;

// Idle time

/// The longest that launching takes: the call on the host, the start on the device after it, and the time between two queued
/// events, each. In recorded traces calls take 4 to 40 µs; an idle device starts 1 to 3 µs (NVIDIA) or 4 to 25 µs (MI300X) after
/// the call; queued kernels are up to 3 µs apart, and 14 µs behind a HIP graph. What takes longer has another cause.
pub(crate) const LAUNCH_MAX_NS: i64 = 50_000;
/// An operator of eager PyTorch keeps the host for 16 to 25 µs before its launch (1,006 launches in a decode step of 16 to 25 ms
/// on an H200), and for a few times that while it is profiled. A gap before one launch that is longer than this is for something else.
pub(crate) const LONG_GAP_MIN_NS: i64 = 1_000_000;
/// Part of the idle time from which on one operator of the host is named as what the device waits for: in ResNet training that
/// searches for convolutions (`fixtures/foreign`, train_resnet18) the longest of five covers 0.42.
pub(crate) const HOST_WORK_MIN_SHARE: f64 = 0.25;
/// A few events may lead to the wrong call, where ids of calls are used again.
pub(crate) const EARLY_EVENTS_MIN_PART: usize = 100;

/// Part of the device events of all phases that may lack their launch call for causes to be looked for: work of another process or
/// from before the recording is less than that in every recording of `fixtures`, and lost calls come by the thousand.
pub(crate) const WITHOUT_CALL_MAX_SHARE: f64 = 0.1;
/// Device events for each launch call, from which on the work of the phases was recorded: most calls launch one kernel, and those that
/// are captured into a graph run with the graph.
pub(crate) const WORK_OF_LAUNCHES_MIN_SHARE: f64 = 0.5;

/// Roofline time ÷ time of GEMMs above which they are as fast as libraries make them: clocks under load are below those of a datasheet,
/// and the large BF16 products of the H200 recordings in `fixtures` reach 0.6 to 0.8.
pub(crate) const TUNED_GEMMS_MIN_FRACTION: f64 = 0.7;

/// Part of the time that ranks wait for one of them from which on it is named: less is no reason to look for what it did.
pub(crate) const RANK_WAITING_MIN_SHARE: f64 = 0.001;

/// Part of the wall time from which on a range is named that is open while nothing runs: less is not what a reader looks for first.
pub(crate) const OPEN_RANGE_MIN_SHARE: f64 = 0.1;

// Steps and phases

/// One part in so many of the device's span is named. Of the public traces with labelled steps (`fixtures/public`) four have 7 to 50 % of
/// their span outside the steps and the others nothing: 2 % is well below what a reader misses.
pub(crate) const OUTSIDE_NOTICED_PART: i64 = 50;
/// The operator that the host was longest in between phases is named where it takes one part in so many of the idle time.
pub(crate) const HOST_OPERATOR_NAMED_PART: i64 = 10;
/// Ranges that run at once for a larger part of their time are not steps: requests of a server, or work of several threads.
pub(crate) const RANGE_OVERLAP_MAX_SHARE: f64 = 0.1;
/// Phases explain at least this part of the device time from the first of them on: what explains less is not what the trace is about.
pub(crate) const PHASES_COVERED_MIN_SHARE: f64 = 0.5;
/// Part of the time of its ranges that a device must work for to set their pace. Devices that lag behind their host in public traces
/// (`fixtures/public`, MI300X and H100) work for more than 0.9 of it.
pub(crate) const DEVICE_PACE_MIN_SHARE: f64 = 0.5;
/// A device belongs to the process that launched at least this part of its time: others may copy a tensor there.
pub(crate) const DEVICE_OWNER_MIN_SHARE: f64 = 0.99;
/// Ranges of more names than this are parts of something, not its phases.
pub(crate) const RANGE_NAMES_MAX: usize = 32;
/// A first step that is longer than this many usual ones holds the start of the program too.
pub(crate) const FIRST_STEP_MAX_RATIO: f64 = 1.5;
/// More than one launch of a hundred: a few fail, or launch a graph without kernels.
pub(crate) const CUT_LAUNCHES_MIN_PART: u64 = 100;
/// A last range in which nothing is recorded for longer than this, and for more than one part in so many of it, was cut: a program
/// that ends leaves its last range within a millisecond of its last call.
pub(crate) const CUT_SILENCE_MIN_NS: i64 = 1_000_000;
pub(crate) const CUT_SILENCE_MIN_PART: i64 = 10;
/// How many ranges of a step are looked back over for one of another stream.
pub(crate) const ENGINE_STREAMS_MAX: usize = 64;
/// With fewer whole steps than this a phase may be something else than it looks like.
pub(crate) const SAMPLED_STEPS_MIN: u64 = 4;

// First use

/// A first interval is first use if it takes this many times as long as the later ones…
pub(crate) const FIRST_USE_MIN_RATIO: f64 = 1.5;
/// …for its work, and its device time is not shorter by this factor.
pub(crate) const SAME_WORK_MAX_RATIO: f64 = 1.5;
/// Waits from here on…
pub(crate) const ATTENTION_WAIT_MIN_NS: i64 = 5_000_000;
/// …and above this many times the usual one are not usual.
pub(crate) const ATTENTION_WAIT_MIN_RATIO: i64 = 20;

// Repetitions

/// A distance is regular where it is within this part of the median: experts that come and go change the length of a layer.
pub(crate) const PERIOD_NEAR_MAX_SHARE: f64 = 0.25;
/// The part of an anchor's distances that are regular. In no order about 0.17 are: of an exponential distribution that lies
/// within a quarter of its median.
pub(crate) const PIECES_REGULAR_MIN_SHARE: f64 = 0.5;
/// The part of pieces, from the first to the last that repeats, that repeat; others are single prefills, or noise.
pub(crate) const PIECES_REPEATED_MIN_SHARE: f64 = 0.8;
/// The part of the kernel time that a level must cover, and that a sequence must have to be looked at.
pub(crate) const REPETITION_MIN_TIME_SHARE: f64 = 0.1;
/// Repetitions without telling names below which chance may have made them.
pub(crate) const REPETITIONS_MIN: usize = 4;
/// Kernels that repetitions must have together, for the same reason; and fewer are no step where something longer repeats.
pub(crate) const REPETITION_KERNELS_MIN: u64 = 32;
/// Attention kernels of one layer: self- and cross-attention, each with a kernel that merges its parts. More are layers.
pub(crate) const LAYER_ATTENTION_KERNELS_MAX: u32 = 4;
/// The part of their runs of launches that alike pieces share: experts of a mixture that come and go leave more, and a
/// prefill and a decode step of one model have less than half in common.
pub(crate) const PIECES_ALIKE_MIN_SHARE: f64 = 0.75;
/// The part of all kernels that is a pattern beside another, wherever its steps are.
pub(crate) const SECOND_PATTERN_MIN_TIME_SHARE: f64 = 0.25;
/// Units before phases are made of them.
pub(crate) const REPETITION_WINDOWS_MIN: usize = 3;

// Sizes

/// Devices times intervals that are analyzed one by one, each a row of about 600 bytes in `analysis.json`: at most one for so many
/// device events, which take more than that in any profile. A device that works in an interval has events in it.
pub(crate) const EVENTS_PER_DEVICE_INTERVAL_MIN: usize = 8;
/// Devices times intervals that are analyzed in any case: 8 GPUs for 250 steps.
pub(crate) const DEVICE_INTERVALS_MIN: usize = 2_000;
/// Devices that are analyzed one by one.
pub(crate) const DEVICES_MAX: usize = 64;

/// A rank is late by its own work where it worked longer before a collective than the median of the others by this many standard
/// deviations of them: of 10,000 ranks with normal noise the largest is at 3.9.
pub(crate) const STRAGGLER_DEVIATIONS_MIN: f64 = 6.0;
/// The same for few ranks, whose deviation says little: longer by this share.
pub(crate) const STRAGGLER_EXCESS_MIN_SHARE: f64 = 0.05;
/// A rank is a straggler in a step where its peers waited for its own work for this share of a step.
pub(crate) const STRAGGLER_STEP_MIN_SHARE: f64 = 0.01;
/// A straggler or a slow link is stable where it is one in this share of the steps.
pub(crate) const STRAGGLER_STEPS_MIN_SHARE: f64 = 0.5;
/// What a straggler did differently explains at least this share of its delay.
pub(crate) const STRAGGLER_DIFFERENCE_MIN_SHARE: f64 = 0.1;
/// A link is slow where transfers take this many times those of the median group of the same kind, size and message,
pub(crate) const SLOW_LINK_MIN_RATIO: f64 = 1.25;
/// and exceed them by this many standard deviations of all such groups,
pub(crate) const SLOW_LINK_DEVIATIONS_MIN: f64 = 6.0;
/// of which there must be this many: two groups do not say which of them is slow.
pub(crate) const SLOW_LINK_GROUPS_MIN: usize = 4;
/// Clocks that NTP or PTP keeps drift by less.
pub(crate) const CLOCK_DRIFT_MIN_PPM: f64 = 5.0;

/// A rank that computes this much longer than the mean rank in most steps is one to look at: less is usual between GPUs of one kind.
pub(crate) const COMPUTES_LONGER_MIN: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds that must not cross: a phase cannot be two things at once, and a first step that is left out is longer than one that is
    /// compared.
    #[test]
    fn thresholds_agree_with_each_other() {
        const {
            assert!(HOST_BOUND_MIN_SHARE + COMMUNICATION_BOUND_MIN_SHARE >= 1.0);
            assert!(LIMIT_NEAR_MIN_SHARE < LATENCY_BOUND_MIN_SHARE);
            assert!(LAUNCH_MAX_NS < LONG_GAP_MIN_NS && LONG_GAP_MIN_NS < ATTENTION_WAIT_MIN_NS);
            assert!(RANGE_OVERLAP_MAX_SHARE < PHASES_COVERED_MIN_SHARE);
            assert!(REPETITION_WINDOWS_MIN <= REPETITIONS_MIN);
            assert!(DEVICES_MAX <= DEVICE_INTERVALS_MIN);
        }
    }

    /// What decides about steps, classes and idle time stands here, and nowhere else.
    #[test]
    fn no_share_is_decided_elsewhere() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let decides = ["program", "phases", "steps", "timeline", "trace"];
        let mut files: Vec<_> = decides.iter().map(|folder| root.join(folder)).collect();
        files.push(root.join("bottleneck.rs"));
        files.push(root.join("analyze/first_use.rs"));
        while let Some(path) = files.pop() {
            if path.is_dir() {
                let inside = std::fs::read_dir(&path).unwrap();
                files.extend(inside.map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let is_share = |line: &&str| line.contains("const ") && line.contains(": f64 =");
            assert_eq!(text.lines().find(is_share), None, "{}", path.display());
        }
    }
}
