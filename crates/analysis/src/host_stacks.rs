//! What the host did while no GPU was busy, from sampled stacks or from recorded Python functions.
//!
//! Only threads that call CUDA count: they are the ones that a GPU waits for. A sample stands for its period and belongs to the gap or
//! phase in which its moment lies. A wait for the GIL is put down to whoever held it.

mod flame;
mod outer_ranges;
mod phase_times;
mod python_functions;
#[cfg(test)]
mod tests;

use crate::thresholds::HOST_CALLERS_MAX;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use llmprof_record::trace::{
    Collecting, CpuState, FrameId, HostKind, HostSample, HostWait, RangeKind, StackFrame,
    StackFrames, ThreadId, Trace,
};
use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

pub use self::flame::flame_stacks;
use self::outer_ranges::OuterRanges;
use self::phase_times::PhaseTimes;
use crate::phase_analysis::PhaseAnalysis;
use crate::row_order::sort_descending;
use crate::timeline::source_lines::is_program_frame;

/// Gaps that are listed one by one: the longest ones.
const GAPS_LISTED_MAX: usize = 10;
/// Phases or ranges that are listed: those with most idle time.
const PARTS_LISTED_MAX: usize = 10;
/// Places that are listed for each gap, phase or range.
const PLACES_LISTED_MAX: usize = 10;

/// How a thread spent the time of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostActivity {
    /// The thread ran on a CPU.
    Running,
    CollectingGarbage,
    WaitingForGil,
    WaitingForLock,
    Sleeping,
    /// The thread was blocked in a system call other than a sleep or a lock.
    Blocked,
    /// Recorded functions do not say whether they ran or waited.
    Unknown,
}

/// A line of code, and what was done there for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPlace {
    pub activity: HostActivity,
    pub function: String,
    /// Path of the file; empty where unknown, as for native threads.
    pub file: String,
    /// Line in the file; 0 where unknown.
    pub line: u32,
    /// Where the GIL was held meanwhile, for a wait for it: `function file:line`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gil_held_by: String,
    /// The system call, for a thread that is blocked in one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    pub time_ns: Nanos,
    /// Part of what was sampled of the gap or phase.
    pub share: f64,
}

/// What the host did in some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTime {
    /// Samples of threads that call CUDA.
    pub samples: u64,
    /// Time that the samples stand for.
    pub sampled_ns: Nanos,
    /// Lines of code by what was done there, the longest first.
    pub places: Vec<HostPlace>,
}

/// A time without GPU work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostGap {
    /// Since the first GPU work of the trace.
    pub start_ns: Nanos,
    pub duration_ns: Nanos,
    pub host: HostTime,
}

/// A phase, or where none is known the outermost range of the program in which the host was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPart {
    /// The name of the phase, or that of the range without a number at the end.
    pub name: String,
    /// What the host did in the part while no GPU was busy.
    pub host: HostTime,
}

/// Where the samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackSource {
    /// Stacks that were sampled from outside.
    Sampled,
    /// Python functions that torch.profiler recorded (`with_stack`).
    RecordedFunctions,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStacks {
    pub source: StackSource,
    /// What the host did while no GPU was busy.
    pub idle: HostTime,
    /// What the host did in the whole trace.
    pub whole: HostTime,
    /// Whether `parts` are phases; otherwise they are ranges.
    pub by_phase: bool,
    /// `idle` by phase or range, the longest first.
    pub parts: Vec<HostPart>,
    /// The longest gaps of which there are samples, in the order of time.
    pub gaps: Vec<HostGap>,
}

/// What the host did while no GPU was busy, by phase. `None` where the trace holds no stacks, or nothing of a GPU.
pub fn analyze_host_stacks(trace: &Trace, phases: &[PhaseAnalysis]) -> Option<HostStacks> {
    let gaps = find_gaps(trace);
    let host = HostPieces::new(trace, &gaps)?;
    let mut idle = SampleSums::default();
    let mut whole = SampleSums::default();
    let mut by_gap: HashMap<usize, SampleSums> = HashMap::new();
    let phases = PhaseTimes::from_phases(phases);
    let ranges = OuterRanges::read(trace, &host.calling);
    let mut by_part: BTreeMap<&str, SampleSums> = BTreeMap::new();
    host.for_each(|sample| {
        let place = host.place_of(sample);
        whole.add_sample(&place, sample.period);
        if let Some(gap) = gap_at(&gaps, sample.time) {
            idle.add_sample(&place, sample.period);
            by_gap
                .entry(gap)
                .or_default()
                .add_sample(&place, sample.period);
            let part = match &phases {
                Some(phases) => phases.name_at(sample.time),
                None => ranges.name_at(sample.thread, sample.time),
            };
            if let Some(part) = part {
                by_part
                    .entry(part)
                    .or_default()
                    .add_sample(&place, sample.period);
            }
        }
    });
    let starts = [
        &trace.kernels.start,
        &trace.copies.start,
        &trace.memsets.start,
    ];
    let starts = starts.into_iter().flat_map(|starts| starts.iter());
    let origin = starts.copied().min().unwrap_or(0);
    let mut longest: Vec<usize> = by_gap.keys().copied().collect();
    longest.sort_by_key(|&gap| (std::cmp::Reverse(gaps[gap].1 - gaps[gap].0), gap));
    longest.truncate(GAPS_LISTED_MAX);
    longest.sort_unstable();
    let gaps = longest.into_iter().filter_map(|gap| {
        let (start, end) = gaps[gap];
        Some(HostGap {
            start_ns: Nanos(start.saturating_sub(origin)),
            duration_ns: Nanos(end - start),
            host: host.sum_places(by_gap.remove(&gap)?),
        })
    });
    let gaps = gaps.collect();
    let mut parts: Vec<HostPart> = by_part
        .into_iter()
        .map(|(name, sums)| HostPart {
            name: name.to_owned(),
            host: host.sum_places(sums),
        })
        .collect();
    sort_descending(&mut parts, |part| part.host.sampled_ns.0);
    parts.truncate(PARTS_LISTED_MAX);
    Some(HostStacks {
        source: host.source,
        idle: host.sum_places(idle),
        whole: host.sum_places(whole),
        by_phase: phases.is_some(),
        parts,
        gaps,
    })
}

/// Times without GPU work between the first and the last of it, in order. What lies between the slices of a sampled recording is not
/// known, and is in none.
pub fn find_gaps(trace: &Trace) -> Vec<(i64, i64)> {
    let (kernels, copies, memsets) = (&trace.kernels, &trace.copies, &trace.memsets);
    let rows = [
        (&kernels.start, &kernels.duration),
        (&copies.start, &copies.duration),
        (&memsets.start, &memsets.duration),
    ];
    let mut busy: Vec<(i64, i64)> = rows
        .into_iter()
        .flat_map(|(start, duration)| start.iter().zip(duration.iter()))
        .map(|(&start, &duration)| (start, start.saturating_add(duration)))
        .collect();
    busy.sort_unstable();
    let recorded: Vec<(i64, i64)> = trace
        .ranges
        .rows()
        .filter(|range| range.kind == RangeKind::CAPTURE)
        .map(|range| (range.start, range.start.saturating_add(range.duration)))
        .collect();
    let mut gaps = Vec::new();
    let mut end = busy.first().map_or(0, |first| first.1);
    for (start, stop) in busy {
        if start > end {
            gaps.extend(parts_within(&recorded, (end, start)));
        }
        end = end.max(stop);
    }
    gaps
}

/// The parts of a gap that were recorded: all of it where nothing says when.
fn parts_within(recorded: &[(i64, i64)], gap: (i64, i64)) -> Vec<(i64, i64)> {
    if recorded.is_empty() {
        return vec![gap];
    }
    let parts = recorded
        .iter()
        .map(|&(start, end)| (start.max(gap.0), end.min(gap.1)));
    let mut parts: Vec<_> = parts.filter(|(start, end)| start < end).collect();
    parts.sort_unstable();
    parts
}

fn gap_at(gaps: &[(i64, i64)], time: i64) -> Option<usize> {
    let after = gaps.partition_point(|&(start, _)| start <= time);
    let gap = after.checked_sub(1)?;
    (time < gaps[gap].1).then_some(gap)
}

/// A place as numbers of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SampledPlace {
    activity: HostActivity,
    stack: FrameId,
    /// The innermost frame of whoever held the GIL.
    holder: FrameId,
    call: u32,
}

#[derive(Default)]
struct SampleSums {
    samples: u64,
    time: i64,
    by_place: BTreeMap<SampledPlace, i64>,
}

impl SampleSums {
    fn add_sample(&mut self, place: &SampledPlace, period: i64) {
        self.samples += 1;
        self.time += period;
        *self.by_place.entry(*place).or_default() += period;
    }
}

/// Pieces of the time of threads that call CUDA, each with a stack.
struct HostPieces<'a> {
    trace: &'a Trace,
    source: StackSource,
    frames: Cow<'a, StackFrames>,
    /// For recorded functions; none where stacks were sampled.
    pieces: Vec<HostSample>,
    calling: HashSet<ThreadId>,
    /// Rows of samples by moment and thread.
    rows: HashMap<(i64, ThreadId), usize>,
}

impl<'a> HostPieces<'a> {
    fn new(trace: &'a Trace, gaps: &[(i64, i64)]) -> Option<Self> {
        let calling = calling_threads(trace);
        if calling.is_empty() {
            return None;
        }
        let samples = &trace.host_samples;
        if !samples.is_empty() {
            let rows =
                (0..samples.len()).map(|row| ((samples.time[row], samples.thread[row]), row));
            return Some(Self {
                trace,
                source: StackSource::Sampled,
                frames: Cow::Borrowed(&trace.stack_frames),
                pieces: Vec::new(),
                rows: rows.collect(),
                calling,
            });
        }
        let (frames, pieces) = python_functions::read_pieces(trace, &calling, gaps)?;
        Some(Self {
            trace,
            source: StackSource::RecordedFunctions,
            frames: Cow::Owned(frames),
            pieces,
            calling,
            rows: HashMap::new(),
        })
    }

    fn for_each(&self, mut each: impl FnMut(&HostSample)) {
        if self.source == StackSource::RecordedFunctions {
            self.pieces.iter().for_each(each);
            return;
        }
        for sample in self.trace.host_samples.rows() {
            if self.calling.contains(&sample.thread) {
                each(&sample);
            }
        }
    }

    fn place_of(&self, sample: &HostSample) -> SampledPlace {
        let activity = if self.source == StackSource::RecordedFunctions {
            HostActivity::Unknown
        } else {
            activity_of(sample)
        };
        let holder = match activity {
            HostActivity::WaitingForGil => self.rows.get(&(sample.time, sample.gil_holder)),
            _ => None,
        };
        SampledPlace {
            activity,
            stack: sample.stack,
            holder: holder.map_or(FrameId::NONE, |&row| self.trace.host_samples.stack[row]),
            call: match activity {
                HostActivity::Blocked => sample.call.0,
                _ => 0,
            },
        }
    }

    /// The places of some time, those of one line together.
    fn sum_places(&self, sums: SampleSums) -> HostTime {
        let mut by_line: BTreeMap<(HostActivity, String, String, u32, String, String), i64> =
            BTreeMap::new();
        for (place, time) in sums.by_place {
            let innermost = self.describe_stack(place.stack);
            let (function, file, line) = innermost.unwrap_or_default();
            let held_by = self
                .describe_stack(place.holder)
                .map(|(function, file, line)| {
                    if file.is_empty() {
                        function
                    } else {
                        format!("{function} {file}:{line}")
                    }
                });
            let call = self.trace.text(llmprof_record::trace::StrId(place.call));
            let key = (
                place.activity,
                function,
                file,
                line,
                held_by.unwrap_or_default(),
                call.to_owned(),
            );
            *by_line.entry(key).or_default() += time;
        }
        let mut places: Vec<HostPlace> = by_line
            .into_iter()
            .map(
                |((activity, function, file, line, gil_held_by, call), time)| HostPlace {
                    activity,
                    function,
                    file,
                    line,
                    gil_held_by,
                    call,
                    time_ns: Nanos(time),
                    share: time as f64 / sums.time.max(1) as f64,
                },
            )
            .collect();
        // Stable: equal times stay in the order of their names.
        sort_descending(&mut places, |place| place.time_ns.0);
        places.truncate(PLACES_LISTED_MAX);
        HostTime {
            samples: sums.samples,
            sampled_ns: Nanos(sums.time),
            places,
        }
    }

    /// The function, file and line of a stack: of its innermost frame. Recorded frames of torch and built-in functions count for the
    /// function that called them.
    fn describe_stack(&self, id: FrameId) -> Option<(String, String, u32)> {
        let stack = self.frames.stack(id);
        let own = match self.source {
            StackSource::Sampled => None,
            StackSource::RecordedFunctions => {
                let mut callers = stack.take(HOST_CALLERS_MAX);
                callers.find(|frame| is_program_frame(self.trace.text(frame.function)))
            }
        };
        let frame = own.or_else(|| self.frames.stack(id).next())?;
        Some(describe_frame(self.trace, &frame))
    }
}

/// The function, file and line of a frame. Names that torch.profiler made are taken apart.
fn describe_frame(trace: &Trace, frame: &StackFrame) -> (String, String, u32) {
    let function = trace.text(frame.function);
    if frame.file.0 == 0
        && let Some((function, file, line)) = python_functions::split_name(function)
    {
        return (function.to_owned(), file.to_owned(), line);
    }
    (
        function.to_owned(),
        trace.text(frame.file).to_owned(),
        frame.line,
    )
}

fn activity_of(sample: &HostSample) -> HostActivity {
    let holds_gil = sample.gil_holder == sample.thread;
    match (sample.wait, sample.cpu) {
        (HostWait::GIL, _) => HostActivity::WaitingForGil,
        (HostWait::LOCK, _) => HostActivity::WaitingForLock,
        (HostWait::SLEEP, _) => HostActivity::Sleeping,
        (_, CpuState::ON) if holds_gil && sample.collecting == Collecting::YES => {
            HostActivity::CollectingGarbage
        }
        (_, CpuState::ON) => HostActivity::Running,
        (_, CpuState::OFF) => HostActivity::Blocked,
        _ => HostActivity::Unknown,
    }
}

/// Threads that called CUDA: those that launch, copy or wait for a device.
fn calling_threads(trace: &Trace) -> HashSet<ThreadId> {
    let hosts = &trace.hosts;
    let is_call = |kind: HostKind| matches!(kind, HostKind::RUNTIME | HostKind::DRIVER);
    let calls = (0..hosts.len()).filter(|&row| is_call(hosts.kind[row]));
    calls.map(|row| hosts.thread[row]).collect()
}
