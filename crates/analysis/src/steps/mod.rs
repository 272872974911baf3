//! Steps of a program by the pattern of its launches.
//!
//! A program that generates text launches nearly the same kernels for every step, and within a step nearly the same for
//! every layer. `launches` are what each thread launched, as symbols; `grams` the runs of symbols; a run that returns
//! at regular distances cuts the sequence into pieces that are alike (`likeness`), and each such distance is one of
//! the `levels`: layers, steps, requests. `choice` says which level is that of steps, `boundary` where in its
//! repetition a step begins. What steps did not cover is looked at again, since a prefill may launch kernels while decode
//! launches graphs.
//!
//! All of it takes time linear in launches: runs up to 16 launches, a few candidates for each distance.

mod boundary;
mod choice;
mod grams;
mod heads;
mod launches;
mod levels;
mod likeness;
mod parts;
mod patterns;
mod phases;
mod units;

use llmprof_record::trace::{RangeKind, Trace};

use crate::labels::phase_of_name;
use crate::steps::grams::Grams;
use crate::steps::launches::{Launch, Sequence, sequences};
use crate::steps::likeness::Comparison;
use crate::steps::parts::parts;
use crate::steps::units::{Cut, Unit};
use crate::timeline::device_events::DeviceEvents;

pub(crate) use crate::steps::launches::Source;
pub(crate) use crate::steps::patterns::patterns;
pub use crate::steps::patterns::{StepPattern, StepPatterns};
pub(crate) use crate::steps::phases::{StepLabel, launched, phases};

/// Kernels of a sequence, or of the rest of one, that are looked at: this part of all.
const WORTH_LOOKING: f64 = 0.1;
/// How often the rest of a sequence is looked at.
const ROUNDS: usize = 4;
/// The part of all kernels that is a pattern beside another, wherever its steps are.
const MUCH: f64 = 0.25;
/// Launches at the edge of a slice that show how far the host is ahead.
const AT_AN_EDGE: usize = 9;
/// Steps beside another pattern, each in an interval of its own.
const FEWEST_ALONE: usize = 3;

/// The steps of one sequence that one pattern of launches shows.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// What launches them.
    pub(crate) source: Source,
    /// Steps, and what lies between two of them, in order.
    pub(crate) units: Vec<Unit>,
    /// How many patterns there are.
    patterns: usize,
    /// By slice, the parts of steps of the first pattern that its edges cut.
    pub(crate) parts: Vec<(u32, f64)>,
    /// By slice, how much longer the device took for what was launched in it than the slice is, ns: the host may run ahead of
    /// the device, and further at its end than at its beginning.
    pub(crate) delays: Vec<(u32, i64)>,
    /// Whether names of kernels say that these are steps of a language model.
    marked: bool,
    /// Whether something repeats inside a step.
    holds_layers: bool,
    /// Whether such names occur outside of the steps too: a forward pass of another kind.
    beside: bool,
    /// The mean part of its launches that a unit shares with the more similar neighbour.
    likeness: f64,
}

impl Repetition {
    /// Its steps: units with a pattern.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().filter(|unit| unit.pattern.is_some())
    }
}

/// The steps of a trace by the pattern of its launches, whatever ranges say of them; nothing where nothing repeats.
pub fn step_patterns(trace: &Trace) -> Option<StepPatterns> {
    patterns(trace, &DeviceEvents::of(trace), &find(trace))
}

/// Finds the steps of a trace where no range shows what a step is: a range is believed.
pub(crate) fn unnamed(trace: &Trace) -> Vec<Repetition> {
    if has_step_ranges(trace) {
        return Vec::new();
    }
    find(trace)
}

/// Whether a range says what a step is.
fn has_step_ranges(trace: &Trace) -> bool {
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

/// Finds the steps of a trace, those of the thread or stream with the most kernel time first.
pub(crate) fn find(trace: &Trace) -> Vec<Repetition> {
    let sequences = sequences(trace);
    let all: u64 = sequences
        .iter()
        .map(|sequence| sequence.kernels(0, sequence.len()))
        .sum();
    let worth = |kernels: u64| kernels as f64 >= WORTH_LOOKING * all as f64;
    let busy = sequences
        .iter()
        .filter(|sequence| worth(sequence.kernels(0, sequence.len())));
    busy.flat_map(repetitions).collect()
}

fn repetitions(sequence: &Sequence) -> Vec<Repetition> {
    let kernels = sequence.kernels(0, sequence.len());
    let slices = slices(&sequence.launches);
    let mut intervals = slices.clone();
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let rest: u64 = intervals
            .iter()
            .map(|&(start, end)| sequence.kernels(start, end))
            .sum();
        if (rest as f64) < WORTH_LOOKING * kernels as f64 {
            break;
        }
        let Some(mut repetition) = repetition(sequence, &intervals, kernels) else {
            break;
        };
        if !found.is_empty() && !stands_alone(&repetition, &intervals, kernels) {
            break;
        }
        intervals = outside(&intervals, repetition.steps());
        // What lies at the edge of a slice may be part of a step.
        let is_cut = |&(start, end): &(usize, usize)| {
            let begins = slices.binary_search_by_key(&start, |slice| slice.0);
            let ends = slices.binary_search_by_key(&end, |slice| slice.1);
            slices.len() > 1 && (begins.is_ok() || ends.is_ok())
        };
        let mut whole = intervals.iter().filter(|interval| !is_cut(interval));
        repetition.beside = whole.any(|&(start, end)| {
            let mut symbols = sequence.symbols[start..end].iter();
            symbols.any(|&symbol| {
                let marks = sequence.marks[symbol as usize];
                repetition.marked && (marks.chooses || marks.embeds)
            })
        });
        found.push(repetition);
    }
    found
}

/// Whether what repeats between steps of another pattern is steps: much of all, or once in each interval, as prefills come.
/// Else it is the layers of a prefill, or what else loops inside one thing.
fn stands_alone(repetition: &Repetition, intervals: &[(usize, usize)], kernels: u64) -> bool {
    let steps: Vec<&Unit> = repetition.steps().collect();
    let covered: u64 = steps.iter().map(|step| step.kernels).sum();
    let interval = |step: &Unit| intervals.partition_point(|&(start, _)| start <= step.piece.start);
    let once = steps
        .windows(2)
        .all(|pair| interval(pair[0]) != interval(pair[1]));
    covered as f64 >= MUCH * kernels as f64 || (once && steps.len() >= FEWEST_ALONE)
}

/// The launches of each slice; all of them where the whole was recorded.
fn slices(launches: &[Launch]) -> Vec<(usize, usize)> {
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
fn delays(launches: &[Launch]) -> Vec<(u32, i64)> {
    let slices = launches.chunk_by(|a, b| a.slice == b.slice);
    let median = |launches: &[Launch]| {
        let delays = launches.iter();
        let mut delays: Vec<i64> = delays
            .map(|launch| launch.start.saturating_sub(launch.at))
            .collect();
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied()
    };
    slices
        .filter_map(|slice| {
            let few = AT_AN_EDGE.min(slice.len());
            let first = median(&slice[..few])?;
            let last = median(&slice[slice.len() - few..])?;
            Some((slice.first()?.slice, last.saturating_sub(first)))
        })
        .collect()
}

/// What steps leave of intervals.
fn outside<'a>(
    intervals: &[(usize, usize)],
    steps: impl Iterator<Item = &'a Unit>,
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

fn repetition(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    kernels: u64,
) -> Option<Repetition> {
    let grams = Grams::of(&sequence.symbols, sequence.marks.len(), intervals);
    let mut comparison = Comparison::new(&sequence.symbols, &grams);
    let levels = levels::levels(sequence, &grams, &mut comparison, kernels);
    let choice = choice::choose(sequence, intervals, &levels, &mut comparison)?;
    let starts = boundary::starts(sequence, &grams, &comparison, choice.level);
    let starts = heads::with_heads(sequence, &grams, &mut comparison, intervals, starts);
    let found = Cut::of(sequence, &grams, &mut comparison, &starts);
    let repetition = Repetition {
        source: sequence.source,
        parts: parts(sequence, intervals, &found.units, &found.usual),
        delays: delays(&sequence.launches),
        patterns: found.usual.len(),
        marked: choice.marked,
        holds_layers: choice.holds_layers,
        beside: false,
        likeness: found.likeness,
        units: found.units,
    };
    (repetition.steps().count() > 1).then_some(repetition)
}
