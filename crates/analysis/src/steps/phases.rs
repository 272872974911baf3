//! What inferred steps seem to be, for traces whose ranges do not say so.

use crate::steps::Repetition;
use crate::steps::cut::Unit;

/// Phases that are steps.
pub(crate) struct StepPhases {
    /// Intervals of device time, in order and apart, and what they seem to be.
    pub(crate) windows: Vec<(i64, i64, StepLabel)>,
    /// How alike neighbours are: the mean part of its launches that a step shares with the more similar one.
    pub(crate) likeness: f64,
}

/// Units before phases are made of them.
const FEWEST: usize = 3;

/// What an inferred step seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepLabel {
    /// Unlike the usual step, longer, and followed by usual ones.
    Prefill,
    /// The usual step, where there is another kind beside it.
    DecodeStep,
    /// A step of which nothing more can be told.
    Step,
}

impl StepLabel {
    /// The name of the phase.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::DecodeStep => "decode_step",
            Self::Step => "step",
        }
    }
}

/// A prefill works this much longer than the usual step.
const LONGER: f64 = 1.1;

/// Intervals of device time that the steps of the busiest thread or stream take, in order, and how alike neighbours are.
///
/// Layers that repeat in no step are not taken for steps: names of kernels must say that a token was chosen, or
/// something must repeat inside the steps.
pub(crate) fn phases(found: &[Repetition]) -> Option<StepPhases> {
    let main = main(found)?;
    let units = units(found, main);
    if units.len() < FEWEST {
        return None;
    }
    let labels = labels(&units, main.beside);
    let windows = units.iter().zip(labels).enumerate();
    let windows = windows.map(|(index, ((unit, _), label))| {
        let next = units.get(index + 1).map(|(next, _)| next);
        let next =
            next.filter(|next| next.piece.start == unit.piece.end && next.slice == unit.slice);
        let end = next.map_or(unit.own_end, |next| next.start);
        // Two steps cannot begin at one moment unless times are broken; the first then has no length.
        (unit.start, end.max(unit.start), label)
    });
    let mut windows: Vec<_> = windows.collect();
    windows.sort_by_key(|&(start, end, _)| (start, end));
    // Launches that follow each other may begin the other way round on two streams.
    for index in 1..windows.len() {
        let next = windows[index].0;
        let end = &mut windows[index - 1].1;
        *end = (*end).min(next);
    }
    Some(StepPhases {
        windows,
        likeness: main.likeness,
    })
}

/// The steps of the busiest thread or stream, where they are known to be steps.
fn main(found: &[Repetition]) -> Option<&Repetition> {
    let main = found.iter().find(|found| !found.units.is_empty())?;
    main.certain.then_some(main)
}

/// Intervals of the host's time, in order, in which each step was launched that another follows at once.
pub(crate) fn launched(found: &[Repetition]) -> Vec<(i64, i64)> {
    let Some(main) = main(found) else {
        return Vec::new();
    };
    let pairs = main.units.iter().zip(main.units.iter().skip(1));
    let mut steps: Vec<(i64, i64)> = pairs
        .filter(|(unit, next)| {
            unit.pattern.is_some() && next.piece.start == unit.piece.end && next.slice == unit.slice
        })
        .map(|(unit, next)| (unit.launched, next.launched))
        .collect();
    steps.sort_unstable();
    steps
}

/// The units of the main repetition, and steps of others of the same source in place of what is like no other; each with
/// whether it is the usual step.
fn units<'a>(found: &'a [Repetition], main: &'a Repetition) -> Vec<(&'a Unit, bool)> {
    let same = found.iter().filter(|other| other.source == main.source);
    let mut steps: Vec<(&Unit, bool)> = same
        .flat_map(|repetition| {
            let steps = repetition.steps();
            let is_main = std::ptr::eq(repetition, main);
            steps.map(move |unit| (unit, is_main && unit.pattern == Some(0)))
        })
        .collect();
    steps.sort_by_key(|(unit, _)| unit.piece.start);
    let free = |unit: &Unit| {
        let after = steps.partition_point(|(step, _)| step.piece.start < unit.piece.end);
        let before = after.checked_sub(1).map(|before| steps[before].0);
        before.is_none_or(|before| before.piece.end <= unit.piece.start)
    };
    let unlike: Vec<_> = main
        .units
        .iter()
        .filter(|unit| unit.pattern.is_none() && free(unit))
        .map(|unit| (unit, false))
        .collect();
    steps.extend(unlike);
    steps.sort_by_key(|(unit, _)| unit.piece.start);
    steps
}

fn labels(units: &[(&Unit, bool)], beside: bool) -> Vec<StepLabel> {
    if !beside && units.iter().all(|&(_, usual)| usual) {
        return vec![StepLabel::Step; units.len()];
    }
    let mut times: Vec<i64> = units
        .iter()
        .filter(|&&(_, usual)| usual)
        .map(|(unit, _)| unit.kernel_time)
        .collect();
    times.sort_unstable();
    let usual = times.get(times.len() / 2).copied().unwrap_or(i64::MAX);
    let label = |index: usize| {
        let (unit, is_usual) = units[index];
        let decodes = units.get(index + 1).is_some_and(|&(_, usual)| usual);
        if is_usual {
            StepLabel::DecodeStep
        } else if decodes && unit.kernel_time as f64 > LONGER * usual as f64 {
            StepLabel::Prefill
        } else {
            StepLabel::Step
        }
    };
    (0..units.len()).map(label).collect()
}
