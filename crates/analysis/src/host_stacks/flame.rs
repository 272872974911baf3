//! Stacks with their times, for flame graphs.

use std::collections::BTreeMap;

use llmprof_record::flame::FlameStack;
use llmprof_record::trace::{StackFrame, Trace};
use llmprof_units::Nanos;

use super::{HostActivity, HostPieces, describe_frame, find_gaps, gap_at};

/// Frames of a stack that a flame graph shows, from the outermost. Deeper ones, as of an endless recursion, share one frame.
const FRAMES_MAX: usize = 256;

/// The stacks of threads that call CUDA, in the order of their names: while no GPU was busy, or of the whole trace. The last frame says
/// what was done, where that is more than running. Empty where no stacks were recorded.
pub fn flame_stacks(trace: &Trace, only_idle: bool) -> Vec<FlameStack> {
    let gaps = find_gaps(trace);
    let Some(host) = HostPieces::new(trace, &gaps) else {
        return Vec::new();
    };
    let mut by_place: BTreeMap<_, i64> = BTreeMap::new();
    host.for_each(|sample| {
        if !only_idle || gap_at(&gaps, sample.time).is_some() {
            *by_place.entry(host.place_of(sample)).or_default() += sample.period;
        }
    });
    let mut by_frames: BTreeMap<Vec<String>, i64> = BTreeMap::new();
    for (place, time) in by_place {
        let mut stack: Vec<StackFrame> = host.frames.stack(place.stack).collect();
        stack.reverse();
        let labels = stack.iter().take(FRAMES_MAX);
        let mut frames: Vec<String> = labels
            .map(|frame| frame_label(describe_frame(trace, frame)))
            .collect();
        if stack.len() > FRAMES_MAX {
            frames.push("(frames deeper than 256)".to_owned());
        }
        frames.extend(activity_label(place.activity));
        if let Some(holder) = host.frame(place.holder) {
            frames.push(format!("held by {}", frame_label(holder)));
        }
        if frames.is_empty() {
            frames.push("(no Python stack)".to_owned());
        }
        *by_frames.entry(frames).or_default() += time;
    }
    let stacks = by_frames.into_iter().map(|(frames, time)| FlameStack {
        frames,
        time_ns: Nanos(time),
    });
    stacks.collect()
}

fn frame_label((function, file, line): (String, String, u32)) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        function
    } else {
        format!("{function} ({name}:{line})")
    }
}

fn activity_label(activity: HostActivity) -> Option<String> {
    let label = match activity {
        HostActivity::Running | HostActivity::Unknown => return None,
        HostActivity::CollectingGarbage => "[garbage collection]",
        HostActivity::WaitingForGil => "[waiting for the GIL]",
        HostActivity::WaitingForLock => "[waiting for a lock]",
        HostActivity::Sleeping => "[sleeping]",
        HostActivity::Blocked => "[blocked in a system call]",
    };
    Some(label.to_owned())
}
