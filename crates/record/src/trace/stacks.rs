//! Samples of host threads: what each did at a moment, with its call stack.
//!
//! Stacks share their outer frames: a frame is a row of [`StackFrames`] with its caller as `parent`, and a sample
//! names its innermost frame.

use std::collections::HashMap;

use super::column::{Bounds, Element};
use super::ids::{StrId, ThreadId};
use super::table::{codes, table};

/// The number of a frame in [`StackFrames`].
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct FrameId(pub u32);

impl FrameId {
    /// No frame: the end of a stack, or a sample whose stack could not be read.
    pub const NONE: Self = Self(0);
}

impl Element for FrameId {
    const TYPE: &'static str = "frame:u32";

    fn dangling(values: &[Self], bounds: Bounds) -> bool {
        values.iter().any(|id| id.0 as usize >= bounds.frames)
    }
}

codes! {
    /// Whether a thread was on a CPU when it was sampled.
    CpuState {
        UNKNOWN = 0 "unknown",
        /// Running, or ready to run.
        ON = 1 "on_cpu",
        OFF = 2 "off_cpu",
    }
}

codes! {
    /// What a thread that is off CPU waits for.
    HostWait {
        /// The thread does not wait for anything.
        NONE = 0 "none",
        UNKNOWN = 1 "unknown",
        /// The lock of the Python interpreter.
        GIL = 2 "gil",
        /// Another lock, condition or queue: a futex that is not the GIL's.
        LOCK = 3 "lock",
        SLEEP = 4 "sleep",
        /// Another system call, which [`HostSamples::call`] names.
        CALL = 5 "call",
    }
}

codes! {
    /// Whether the interpreter of a thread was collecting garbage.
    Collecting {
        UNKNOWN = 0 "unknown",
        NO = 1 "no",
        YES = 2 "yes",
    }
}

table! {
    /// Frames of sampled call stacks; a caller comes before what it calls. Row 0 stands for "none".
    StackFrames as "stack_frames",
    StackFrame {
        /// The frame that called it; [`FrameId::NONE`] for the outermost.
        parent: FrameId,
        function: StrId,
        /// The source file; [`StrId::EMPTY`] where unknown.
        file: StrId,
        /// The line that was being executed; 0 where unknown.
        line: u32,
    }
}

table! {
    /// Samples of host threads. Sorted by time, then thread; samples of one moment have the same time.
    HostSamples as "host_samples",
    HostSample {
        /// Time on the clock of the trace, ns.
        time: i64,
        /// Time that the sample stands for, ns: the time since the sample before it, which is longer where the sampler was late.
        period: i64,
        thread: ThreadId,
        cpu: CpuState,
        /// What a thread off CPU waits for.
        wait: HostWait,
        /// The system call in which a thread off CPU waits; [`StrId::EMPTY`] where unknown or on CPU.
        call: StrId,
        /// The thread that held the GIL of this thread's process; [`ThreadId::NONE`] where none did or it is unknown.
        gil_holder: ThreadId,
        /// Whether the interpreter collected garbage.
        collecting: Collecting,
        /// The innermost frame; [`FrameId::NONE`] for a native thread or where the stack could not be read.
        stack: FrameId,
    }
}

impl StackFrames {
    /// The frames of a stack, innermost first.
    pub fn stack(&self, innermost: FrameId) -> impl Iterator<Item = StackFrame> {
        let frame = |id: FrameId| {
            let row = (id != FrameId::NONE).then_some(id.0 as usize);
            row.filter(|&row| row < self.len()).map(|row| self.row(row))
        };
        std::iter::successors(frame(innermost), move |inner| frame(inner.parent))
    }

    /// Whether every caller comes before what it calls, so that no stack is endless.
    pub(super) fn is_ordered(&self) -> bool {
        let parents = self.parent.iter().enumerate();
        parents
            .skip(1)
            .all(|(row, parent)| (parent.0 as usize) < row)
            && self.parent.first() == Some(&FrameId::NONE)
    }
}

/// Frames while samples are being read: equal stacks get equal ids.
pub(super) struct FrameList {
    pub(super) frames: StackFrames,
    lookup: HashMap<(FrameId, StrId, StrId, u32), FrameId>,
}

impl Default for FrameList {
    fn default() -> Self {
        let mut frames = StackFrames::default();
        frames.push(StackFrame::default());
        Self {
            frames,
            lookup: HashMap::new(),
        }
    }
}

impl FrameList {
    /// The id of a frame, new where it was not seen below this parent before.
    pub(super) fn id(&mut self, frame: StackFrame) -> FrameId {
        let key = (frame.parent, frame.function, frame.file, frame.line);
        let frames = &mut self.frames;
        *self.lookup.entry(key).or_insert_with(|| {
            frames.push(frame);
            FrameId(frames.len() as u32 - 1)
        })
    }

    /// Adds the frames of `other`, whose strings are renumbered by `strings`; the map gives the id here of an id there.
    pub(super) fn absorb(&mut self, other: &Self, string: impl Fn(StrId) -> StrId) -> Vec<FrameId> {
        let mut map = vec![FrameId::NONE];
        for frame in other.frames.rows().skip(1) {
            let id = self.id(StackFrame {
                parent: map[frame.parent.0 as usize],
                function: string(frame.function),
                file: string(frame.file),
                line: frame.line,
            });
            map.push(id);
        }
        map
    }

    /// The frames in an order that does not depend on the order of samples: each below its caller, siblings by name.
    /// The map gives the new id of an old one.
    pub(super) fn sorted(self) -> (StackFrames, Vec<FrameId>) {
        let frames = self.frames;
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); frames.len()];
        for row in 1..frames.len() {
            children[frames.parent[row].0 as usize].push(row as u32);
        }
        for siblings in &mut children {
            // Pushed last is taken first.
            siblings.sort_by_key(|&row| {
                let frame = frames.row(row as usize);
                std::cmp::Reverse((frame.function, frame.file, frame.line))
            });
        }
        let mut sorted = StackFrames::default();
        let mut map = vec![FrameId::NONE; frames.len()];
        let mut open = vec![0_u32];
        while let Some(row) = open.pop() {
            let frame = frames.row(row as usize);
            map[row as usize] = FrameId(sorted.len() as u32);
            sorted.push(StackFrame {
                parent: map[frame.parent.0 as usize],
                ..frame
            });
            open.extend_from_slice(&children[row as usize]);
        }
        (sorted, map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Trace, TraceBuilder};

    fn frame(parent: FrameId, function: u32) -> StackFrame {
        StackFrame {
            parent,
            function: StrId(function),
            ..StackFrame::default()
        }
    }

    #[test]
    fn equal_stacks_share_frames_and_the_order_of_samples_does_not_show() {
        let build = |order: [[u32; 2]; 3]| {
            let mut list = FrameList::default();
            for [outer, inner] in order {
                let outer = list.id(frame(FrameId::NONE, outer));
                list.id(frame(outer, inner));
            }
            list.sorted().0
        };
        let one = build([[1, 2], [1, 3], [4, 2]]);
        assert_eq!(one, build([[4, 2], [1, 3], [1, 2]]));
        assert_eq!(one.len(), 1 + 2 + 3);
        assert!(one.is_ordered());
        let functions = |id: u32| -> Vec<u32> {
            one.stack(FrameId(id))
                .map(|frame| frame.function.0)
                .collect()
        };
        assert_eq!(functions(2), [2, 1]);
        assert_eq!(functions(5), [2, 4]);
        assert_eq!(functions(0), [0; 0]);
        assert_eq!(functions(99), [0; 0]);
    }

    /// A process whose main thread waits for the GIL that a worker thread holds.
    fn sampled(process: i64, user: &str) -> TraceBuilder {
        let mut builder = TraceBuilder::default();
        let [main, worker] = [1, 2].map(|thread| builder.thread(process, thread));
        let mut parent = FrameId::NONE;
        for (function, line) in [("<module>", 9), ("decode", 4)] {
            let (function, file) = (
                builder.intern(function),
                builder.intern(&format!("/home/{user}/serve.py")),
            );
            parent = builder.frame(StackFrame {
                parent,
                function,
                file,
                line,
            });
        }
        let call = builder.intern("futex");
        for (thread, cpu, wait, call) in [
            (worker, CpuState::ON, HostWait::NONE, StrId::EMPTY),
            (main, CpuState::OFF, HostWait::GIL, call),
        ] {
            builder.host_samples.push(HostSample {
                time: 100,
                period: 10_000_000,
                thread,
                cpu,
                wait,
                call,
                gil_holder: worker,
                collecting: Collecting::NO,
                stack: parent,
            });
        }
        builder
    }

    #[test]
    fn samples_are_merged_saved_and_loaded() {
        let merged = |first: (i64, &str), second: (i64, &str)| {
            let mut builder = sampled(first.0, first.1);
            builder.absorb(sampled(second.0, second.1));
            builder.finish()
        };
        let trace = merged((7, "ann"), (8, "bob"));
        assert_eq!(trace, merged((8, "bob"), (7, "ann")));
        // The two processes run the same program: without the names of users their stacks are equal.
        assert_eq!((trace.stack_frames.len(), trace.host_samples.len()), (3, 4));
        let sample = trace.host_samples.row(0);
        let stack: Vec<_> = trace
            .stack_frames
            .stack(sample.stack)
            .map(|frame| {
                (
                    trace.text(frame.function),
                    trace.text(frame.file),
                    frame.line,
                )
            })
            .collect();
        assert_eq!(
            stack,
            [("decode", "~/serve.py", 4), ("<module>", "~/serve.py", 9)]
        );
        assert_eq!(trace.text(sample.call), "futex");
        let holder = trace.threads.row(sample.gil_holder.0 as usize);
        assert_eq!((holder.process, holder.thread), (7, 2));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.llmprof");
        trace.save(&path).unwrap();
        assert_eq!(Trace::load(&path).unwrap(), trace);
        let mut chrome = Vec::new();
        trace.write_chrome(&mut chrome).unwrap();
        let chrome: serde_json::Value = serde_json::from_slice(&chrome).unwrap();
        let first = &chrome["samples"][0];
        assert_eq!((&first["name"], &first["tid"]), (&"gil".into(), &1.into()));
        let frame = &chrome["stackFrames"][first["sf"].as_str().unwrap()];
        assert_eq!(frame["name"], "decode (~/serve.py:4)");
        let caller = &chrome["stackFrames"][frame["parent"].as_str().unwrap()];
        assert_eq!(caller["name"], "<module> (~/serve.py:9)");
    }

    #[test]
    fn samples_without_stacks_are_loaded() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(7, 1);
        builder.host_samples.push(HostSample {
            thread,
            ..HostSample::default()
        });
        let trace = builder.finish();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.llmprof");
        trace.save(&path).unwrap();
        assert_eq!(Trace::load(&path).unwrap(), trace);
    }

    #[test]
    fn a_frame_that_calls_itself_is_refused() {
        let mut frames = StackFrames::default();
        frames.push(frame(FrameId::NONE, 0));
        frames.push(frame(FrameId(1), 1));
        assert!(!frames.is_ordered());
        assert!(!StackFrames::default().is_ordered());
    }
}
