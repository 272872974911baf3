//! Steps and layers of a program by the pattern of its launches.
//!
//! A program that runs a model launches nearly the same kernels for every step, and within a step nearly the same for every
//! layer. A `sequence` is what one thread launched, as symbols; `runs` of one to four symbols that return at regular
//! distances cut it into pieces that are alike; each such distance is one of the `levels`: layers, steps, requests.
//! `begin` says where steps begin, `cut` which are whole. What steps did not cover is looked at again, since a prefill may
//! launch kernels while decode launches graphs.
//!
//! All of it takes time linear in launches but for sorting: a few anchors for each of a few dozen distances.

mod begin;
mod cut;
mod figures;
mod levels;
mod phases;
mod runs;
mod sequence;

use crate::thresholds::{
    REPETITION_MIN_TIME_SHARE, REPETITION_ROUNDS_MAX, SECOND_PATTERN_MIN_TIME_SHARE,
    SLICE_EDGE_LAUNCHES,
};
use llmprof_record::trace::{RangeKind, Trace};
use llmprof_units::stats::upper_median;

use crate::labels::phase_of_name;
use crate::steps::cut::{Cut, StepUnit, edge_parts};
use crate::steps::levels::{choose_steps, find_levels};
use crate::steps::runs::Runs;
use crate::steps::sequence::{Sequence, SequenceLaunch, read_sequences};
use crate::timeline::device_events::DeviceEvents;

pub(crate) use crate::steps::figures::summarize_patterns;
pub use crate::steps::figures::{StepPattern, StepPatterns};
pub(crate) use crate::steps::phases::{launched_steps, step_launches, step_phases};
pub(crate) use crate::steps::sequence::LaunchSource;

/// What repeats in one sequence.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// The thread or stream that launches the steps.
    pub(crate) source: LaunchSource,
    /// Steps, and what lies between two of them, in order.
    pub(crate) units: Vec<StepUnit>,
    /// How many patterns steps have.
    pub(crate) patterns: usize,
    /// By slice, the parts of steps of the first pattern that its edges cut.
    pub(crate) parts: Vec<(u32, f64)>,
    /// By slice, how much longer the device took for what was launched in it than the slice is, ns: the host may run ahead of
    /// the device, and further at its end than at its beginning.
    pub(crate) delays: Vec<(u32, i64)>,
    /// Whether names of kernels, or layers inside, say that these are steps of a model.
    pub(crate) certain: bool,
    /// Whether kernels that come once a step occur outside of the steps too: a forward pass of another kind.
    pub(crate) beside: bool,
    /// The mean part of its launches that a unit shares with the more similar neighbour.
    pub(crate) likeness: f64,
}

impl Repetition {
    /// Its steps: units with a pattern.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &StepUnit> {
        self.units.iter().filter(|unit| unit.pattern.is_some())
    }
}

/// Sequences of launches that repeat, whatever ranges say of them; nothing where nothing repeats.
pub fn step_patterns(trace: &Trace) -> Option<StepPatterns> {
    summarize_patterns(
        trace,
        &DeviceEvents::from_trace(trace),
        &find_repetitions(trace),
    )
}

/// Whether a range says what a step is.
pub(crate) fn has_step_ranges(trace: &Trace) -> bool {
    let ranges = &trace.ranges;
    let mut known = rustc_hash::FxHashMap::default();
    (0..ranges.len()).any(|row| {
        matches!(
            ranges.kind[row],
            RangeKind::ANNOTATION | RangeKind::NVTX | RangeKind::NVTX_START_END
        ) && *known.entry(ranges.name[row]).or_insert_with(|| {
            phase_of_name(trace.text(ranges.name[row])).as_deref() == Some("decode_step")
        })
    })
}

/// Finds what repeats in a trace, that of the thread or stream with the most kernel time first.
pub(crate) fn find_repetitions(trace: &Trace) -> Vec<Repetition> {
    let sequences = read_sequences(trace);
    let time = |sequence: &Sequence| sequence.time(0, sequence.len()) as f64;
    let kernels = |sequence: &Sequence| sequence.kernels(0, sequence.len());
    let called = |sequence: &&Sequence| matches!(sequence.source, LaunchSource::Thread(_));
    let all: f64 = sequences.iter().map(time).sum();
    let have_calls: u64 = sequences.iter().filter(called).map(kernels).sum();
    let mostly_called = 2 * have_calls >= sequences.iter().map(kernels).sum();
    let worth = sequences
        .iter()
        .filter(|sequence| time(sequence) >= REPETITION_MIN_TIME_SHARE * all);
    worth
        .flat_map(|sequence| {
            let mut repetitions = repetitions_in(sequence);
            // Launched before the recording began: the end of something.
            if mostly_called && !called(&sequence) {
                repetitions.clear();
            }
            repetitions
        })
        .collect()
}

/// What repeats in a sequence, and in what its steps leave of it.
pub(crate) fn repetitions_in(sequence: &Sequence) -> Vec<Repetition> {
    let time = sequence.time(0, sequence.len());
    let slices = slice_bounds(&sequence.launches);
    let mut intervals = slices.clone();
    let mut repetitions: Vec<Repetition> = Vec::new();
    for _ in 0..REPETITION_ROUNDS_MAX {
        let rest: i64 = intervals
            .iter()
            .map(|&(start, end)| sequence.time(start, end))
            .sum();
        if (rest as f64) < REPETITION_MIN_TIME_SHARE * time as f64 {
            break;
        }
        let Some(mut repetition) = find_repetition(sequence, &intervals, time) else {
            break;
        };
        if !repetitions.is_empty() && !stands_alone(&repetition, &intervals, time) {
            break;
        }
        intervals = rest_of_intervals(&intervals, repetition.steps());
        // What lies at the edge of a slice may be part of a step.
        let is_cut = |&(start, end): &(usize, usize)| {
            let begins = slices.binary_search_by_key(&start, |slice| slice.0);
            let ends = slices.binary_search_by_key(&end, |slice| slice.1);
            slices.len() > 1 && (begins.is_ok() || ends.is_ok())
        };
        let mut whole = intervals.iter().filter(|interval| !is_cut(interval));
        let certain = repetition.beside;
        repetition.beside = whole.any(|&(start, end)| {
            let mut symbols = sequence.symbols[start..end].iter();
            symbols.any(|&symbol| {
                let signs = sequence.signs[symbol as usize];
                certain && (signs.chooses || signs.embeds)
            })
        });
        repetitions.push(repetition);
    }
    repetitions
}

/// Whether what repeats between steps of another pattern is steps: much of all, or once in each interval, as prefills come.
/// Else it is what loops inside one thing.
fn stands_alone(repetition: &Repetition, intervals: &[(usize, usize)], time: i64) -> bool {
    let steps: Vec<&StepUnit> = repetition.steps().collect();
    let covered: i64 = steps.iter().map(|step| step.kernel_time).sum();
    let interval =
        |step: &StepUnit| intervals.partition_point(|&(start, _)| start <= step.piece.start);
    let once = steps
        .windows(2)
        .all(|pair| interval(pair[0]) != interval(pair[1]));
    covered as f64 >= SECOND_PATTERN_MIN_TIME_SHARE * time as f64 || (once && steps.len() > 2)
}

/// The launches of each slice; all of them where the whole was recorded.
fn slice_bounds(launches: &[SequenceLaunch]) -> Vec<(usize, usize)> {
    let mut end = 0;
    let slices = launches.chunk_by(|a, b| a.slice == b.slice);
    slices
        .map(|slice| {
            let start = end;
            end += slice.len();
            (start, end)
        })
        .collect()
}

/// By slice, how much later after their launches its last kernels began than its first ones: the median of a few, since some
/// may be of another stream.
fn slice_delays(launches: &[SequenceLaunch]) -> Vec<(u32, i64)> {
    let slices = launches.chunk_by(|a, b| a.slice == b.slice);
    let median = |launches: &[SequenceLaunch]| {
        let delays = launches.iter();
        let mut delays: Vec<i64> = delays
            .map(|launch| launch.start.saturating_sub(launch.at))
            .collect();
        upper_median(&mut delays)
    };
    slices
        .filter_map(|slice| {
            let few = SLICE_EDGE_LAUNCHES.min(slice.len());
            let first = median(&slice[..few])?;
            let last = median(&slice[slice.len() - few..])?;
            Some((slice.first()?.slice, last.saturating_sub(first)))
        })
        .collect()
}

/// What steps leave of intervals.
fn rest_of_intervals<'a>(
    intervals: &[(usize, usize)],
    steps: impl Iterator<Item = &'a StepUnit>,
) -> Vec<(usize, usize)> {
    let mut steps = steps.map(|step| step.piece).peekable();
    let mut rest = Vec::new();
    for &(start, end) in intervals {
        let mut from = start;
        while let Some(step) = steps.next_if(|step| step.start < end) {
            if step.start > from {
                rest.push((from, step.start));
            }
            from = step.end;
        }
        if end > from {
            rest.push((from, end));
        }
    }
    rest
}

fn find_repetition(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    time: i64,
) -> Option<Repetition> {
    let mut runs = Runs::in_intervals(&sequence.symbols, sequence.signs.len(), intervals);
    let levels = find_levels(sequence, &mut runs, time);
    if levels.is_empty() {
        return None;
    }
    let choice = choose_steps(sequence, intervals, &levels, &mut runs);
    let cut = choice
        .steps
        .map(|level| Cut::at_level(sequence, &mut runs, intervals, level));
    let cut = cut.filter(|cut| {
        cut.units
            .iter()
            .filter(|unit| unit.pattern.is_some())
            .count()
            > 1
    });
    cut.map(|cut| Repetition {
        source: sequence.source,
        parts: edge_parts(sequence, intervals, &cut),
        delays: slice_delays(&sequence.launches),
        patterns: cut.usual.len(),
        certain: choice.certain,
        beside: choice.marked,
        likeness: cut.likeness,
        units: cut.units,
    })
}
