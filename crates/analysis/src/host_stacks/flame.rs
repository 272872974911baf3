//! Stacks with their times, for flame graphs.

use std::collections::BTreeMap;

use llmprof_record::flame::FlameStack;
use llmprof_record::trace::{FrameId, StackFrames, Trace};
use llmprof_units::Nanos;

use super::{HostActivity, HostPieces, describe_frame, find_gaps, gap_at};

/// Frames of a stack that a flame graph shows, from the outermost. Deeper ones, as of an endless recursion, share one frame.
const FRAMES_LISTED_MAX: usize = 256;

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
    let listed = find_listed_frames(&host.frames);
    for (place, time) in by_place {
        let row = place.stack.0 as usize;
        let innermost = listed.get(row).copied().unwrap_or(FrameId::NONE);
        let stack = host.frames.stack(innermost);
        let mut frames: Vec<String> = stack
            .map(|frame| frame_label(describe_frame(trace, &frame)))
            .collect();
        frames.reverse();
        if innermost != place.stack {
            frames.push("(frames deeper than 256)".to_owned());
        }
        frames.extend(activity_label(place.activity));
        if let Some(holder) = host.describe_stack(place.holder) {
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

/// For each frame the innermost of its stack that is listed: itself, or its caller at the depth `FRAMES_LISTED_MAX`. One pass finds them,
/// since a caller comes before what it calls: to walk each stack takes the square of the depth of a recursion.
fn find_listed_frames(frames: &StackFrames) -> Vec<FrameId> {
    let mut depths = vec![0_usize; frames.len()];
    let mut listed: Vec<FrameId> = (0..frames.len() as u32).map(FrameId).collect();
    for (row, caller) in frames.parent.iter().enumerate().skip(1) {
        let caller = caller.0 as usize;
        depths[row] = depths[caller] + 1;
        if depths[row] > FRAMES_LISTED_MAX {
            listed[row] = listed[caller];
        }
    }
    listed
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

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{StackFrame, StrId};

    use super::*;

    #[test]
    fn listed_frames_are_those_of_walked_stacks() {
        let mut frames = StackFrames::default();
        frames.push(StackFrame::default());
        // A recursion, and branches from it at each tenth frame.
        let mut callers = vec![0];
        for depth in 0..2 * FRAMES_LISTED_MAX as u32 {
            callers.push(depth);
        }
        callers.extend((0..callers.len() as u32).step_by(10));
        for (row, &caller) in callers.iter().enumerate().skip(1) {
            frames.push(StackFrame {
                parent: FrameId(caller),
                function: StrId(row as u32),
                ..StackFrame::default()
            });
        }
        let listed = find_listed_frames(&frames);
        for row in 1..frames.len() as u32 {
            let functions = |id: FrameId| {
                let mut stack: Vec<StrId> = frames.stack(id).map(|frame| frame.function).collect();
                stack.reverse();
                stack
            };
            let mut walked = functions(FrameId(row));
            let is_deep = walked.len() > FRAMES_LISTED_MAX;
            walked.truncate(FRAMES_LISTED_MAX);
            assert_eq!(functions(listed[row as usize]), walked);
            assert_eq!(listed[row as usize] != FrameId(row), is_deep);
        }
    }
}
