//! Python functions that torch.profiler recorded (`with_stack`), as pieces of time that each have one stack.

use std::collections::{HashMap, HashSet};

use llmprof_record::trace::{
    FrameId, HostKind, HostSample, StackFrame, StackFrames, StrId, ThreadId, Trace,
};

/// The function, file and line of a name as torch.profiler makes it: `serve.py(12): step`. `None` for built-in functions and modules.
pub(super) fn split_name(name: &str) -> Option<(&str, &str, u32)> {
    let (place, function) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some((function, file, line.parse().ok()?))
}

/// The frames of recorded functions, and pieces of the time of these threads, cut where gaps begin and end. `None` where no function
/// was recorded.
pub(super) fn read_pieces(
    trace: &Trace,
    threads: &HashSet<ThreadId>,
    gaps: &[(i64, i64)],
) -> Option<(StackFrames, Vec<HostSample>)> {
    let hosts = &trace.hosts;
    let is_python = |row: &usize| hosts.kind[*row] == HostKind::PYTHON;
    let mut rows = (0..hosts.len())
        .filter(is_python)
        .filter(|&row| threads.contains(&hosts.thread[row]))
        .peekable();
    rows.peek()?;
    let mut frames = Frames::new();
    let mut cutter = PieceCutter {
        edges: gaps.iter().flat_map(|&(start, end)| [start, end]).collect(),
        pieces: Vec::new(),
    };
    let mut open = OpenFunctions::default();
    for row in rows {
        let (start, thread) = (hosts.start[row], hosts.thread[row]);
        if thread != open.thread {
            open.close_until(i64::MAX, &mut cutter);
            open.thread = thread;
            open.reached = start;
        }
        open.close_until(start, &mut cutter);
        let parent = open.functions.last().map_or(FrameId::NONE, |&(_, id)| id);
        let frame = frames.frame_id(parent, hosts.name[row]);
        let end = start.saturating_add(hosts.duration[row]);
        open.functions.push((end, frame));
    }
    open.close_until(i64::MAX, &mut cutter);
    Some((frames.frames, cutter.pieces))
}

struct Frames {
    frames: StackFrames,
    lookup: HashMap<(FrameId, StrId), FrameId>,
}

impl Frames {
    fn new() -> Self {
        let mut frames = StackFrames::default();
        frames.push(StackFrame::default());
        Self {
            frames,
            lookup: HashMap::new(),
        }
    }

    fn frame_id(&mut self, parent: FrameId, function: StrId) -> FrameId {
        let frames = &mut self.frames;
        *self.lookup.entry((parent, function)).or_insert_with(|| {
            frames.push(StackFrame {
                parent,
                function,
                ..StackFrame::default()
            });
            FrameId(frames.len() as u32 - 1)
        })
    }
}

/// Functions of one thread that have begun, outermost first, with their ends.
#[derive(Default)]
struct OpenFunctions {
    thread: ThreadId,
    functions: Vec<(i64, FrameId)>,
    /// Up to where the time of the thread was given out.
    reached: i64,
}

impl OpenFunctions {
    /// Gives out the time up to `time`, to the innermost function that was open in each part of it.
    fn close_until(&mut self, time: i64, cutter: &mut PieceCutter) {
        while let Some(&(end, frame)) = self.functions.last() {
            cutter.add_time(self.thread, frame, self.reached, end.min(time));
            self.reached = self.reached.max(end.min(time));
            if end > time {
                return;
            }
            self.functions.pop();
        }
        if time != i64::MAX {
            self.reached = self.reached.max(time);
        }
    }
}

struct PieceCutter {
    edges: Vec<i64>,
    pieces: Vec<HostSample>,
}

impl PieceCutter {
    fn add_time(&mut self, thread: ThreadId, stack: FrameId, mut start: i64, end: i64) {
        let mut next = self.edges.partition_point(|&edge| edge <= start);
        while start < end {
            let stop = self.edges.get(next).map_or(end, |&edge| edge.min(end));
            self.pieces.push(HostSample {
                time: start,
                period: stop - start,
                thread,
                stack,
                ..HostSample::default()
            });
            start = stop;
            next += 1;
        }
    }
}
