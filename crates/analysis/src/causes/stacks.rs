//! What sampled host stacks say of some intervals of a thread.

use crate::thresholds::STACK_SAMPLES_MIN;
use llmprof_record::trace::{Collecting, FrameId, HostWait, StrId, ThreadId};
use rustc_hash::FxHashMap;

use super::scene::Scene;

/// Parts of the paths of files that are not the program's own.
const LIBRARIES: [&str; 5] = [
    "site-packages/",
    "dist-packages/",
    "/lib/python",
    "<frozen",
    ".so",
];

#[derive(Debug, Default, PartialEq)]
pub(super) struct Sampled {
    /// Function, file and line that most samples are in.
    pub(super) line: Option<String>,
    /// The part of the time in which the garbage collector ran.
    pub(super) collecting_share: Option<f64>,
    /// Where another thread held the GIL while this one waited for it, for most of the time.
    pub(super) gil_holder: Option<String>,
}

/// Reads the samples of a thread in `intervals`, which are sorted and disjoint.
pub(super) fn read_samples(
    scene: &Scene<'_>,
    thread: ThreadId,
    intervals: &[(i64, i64)],
) -> Sampled {
    let samples = &scene.trace.host_samples;
    let inside = |time: i64| {
        let next = intervals.partition_point(|interval| interval.1 <= time);
        intervals
            .get(next)
            .is_some_and(|interval| interval.0 <= time)
    };
    let (mut count, mut total, mut collecting, mut waiting) = (0, 0_i64, 0_i64, 0_i64);
    let mut lines: FxHashMap<FrameId, i64> = FxHashMap::default();
    let mut holders: FxHashMap<ThreadId, i64> = FxHashMap::default();
    for row in 0..samples.len() {
        if !inside(samples.time[row]) || samples.thread[row] != thread {
            continue;
        }
        let period = samples.period[row].max(1);
        count += 1;
        total += period;
        if samples.collecting[row] == Collecting::YES {
            collecting += period;
        }
        let holder = samples.gil_holder[row];
        if samples.wait[row] == HostWait::GIL && holder != ThreadId::NONE && holder != thread {
            waiting += period;
            *holders.entry(holder).or_default() += period;
        }
        let frame = program_frame(scene, samples.stack[row]);
        *lines.entry(frame).or_default() += period;
    }
    if count < STACK_SAMPLES_MIN {
        return Sampled::default();
    }
    lines.remove(&FrameId::NONE);
    let most = |(frame, time): (&FrameId, &i64)| (*time, std::cmp::Reverse(*frame));
    let longest = lines
        .iter()
        .max_by_key(|&(frame, time)| most((frame, time)));
    let holder = holders
        .iter()
        .max_by_key(|(thread, time)| (**time, std::cmp::Reverse(**thread)));
    Sampled {
        line: longest.and_then(|(frame, _)| frame_text(scene, *frame)),
        collecting_share: (collecting > 0).then(|| collecting as f64 / total as f64),
        gil_holder: holder
            .filter(|_| 2 * waiting > total)
            .map(|(thread, _)| holder_text(scene, *thread, &inside)),
    }
}

/// The innermost frame that is not of a library: what a library does is done for the line that calls it. The innermost one where all are.
fn program_frame(scene: &Scene<'_>, innermost: FrameId) -> FrameId {
    let frames = &scene.trace.stack_frames;
    let is_of_program = |frame: FrameId| {
        let file = scene.trace.text(frames.file[frame.0 as usize]);
        !file.is_empty() && !LIBRARIES.iter().any(|part| file.contains(part))
    };
    let mut frame = innermost;
    while frame != FrameId::NONE {
        if is_of_program(frame) {
            return frame;
        }
        frame = frames.parent[frame.0 as usize];
    }
    innermost
}

fn frame_text(scene: &Scene<'_>, frame: FrameId) -> Option<String> {
    let frame = scene.trace.stack_frames.stack(frame).next()?;
    let function = scene.trace.text(frame.function);
    if frame.file == StrId::EMPTY {
        return Some(function.to_owned());
    }
    let file = scene.trace.text(frame.file);
    let file = file.rsplit('/').next().unwrap_or(file);
    Some(format!("{file}({}): {function}", frame.line))
}

/// The thread that holds the GIL, with the line it is most often in.
fn holder_text(scene: &Scene<'_>, thread: ThreadId, inside: &dyn Fn(i64) -> bool) -> String {
    let samples = &scene.trace.host_samples;
    let mut lines: FxHashMap<FrameId, i64> = FxHashMap::default();
    for row in 0..samples.len() {
        if samples.thread[row] == thread && inside(samples.time[row]) {
            let frame = program_frame(scene, samples.stack[row]);
            *lines.entry(frame).or_default() += samples.period[row].max(1);
        }
    }
    lines.remove(&FrameId::NONE);
    let longest = lines
        .iter()
        .max_by_key(|(frame, time)| (**time, std::cmp::Reverse(**frame)));
    let name = scene
        .trace
        .text(scene.trace.threads.name[thread.0 as usize]);
    let line = longest.and_then(|(frame, _)| frame_text(scene, *frame));
    match (line, name) {
        (Some(line), "") => format!("another thread in {line}"),
        (Some(line), name) => format!("thread {name} in {line}"),
        (None, "") => "another thread".to_owned(),
        (None, name) => format!("thread {name}"),
    }
}
