//! Intervals of a sequence of launches that repeats, for traces that nothing else divides.

use crate::steps::Repetition;
use crate::thresholds::REPETITION_WINDOWS_MIN;

pub(crate) struct StepPhases {
    /// Intervals of device time with the number of their pattern, in order and apart.
    pub(crate) windows: Vec<(i64, i64, usize)>,
    /// How alike neighbours are: the mean part of its launches that a step shares with the more similar one.
    pub(crate) likeness: f64,
}

/// Intervals of device time that the steps of the busiest thread or stream take, in order, and how alike neighbours are.
///
/// Layers that repeat in no step are not taken for steps: names of kernels must say that a token was chosen, or
/// something must repeat inside the steps. Steps of the first `patterns` patterns count.
pub(crate) fn step_phases(repetitions: &[Repetition], patterns: usize) -> Option<StepPhases> {
    let main = main_repetition(repetitions)?;
    let usual = main.units.iter().filter(|unit| unit.pattern == Some(0));
    if usual.clone().count() < REPETITION_WINDOWS_MIN {
        return None;
    }
    let windows = main.units.iter().enumerate();
    let windows = windows.filter_map(|(index, unit)| {
        let pattern = unit.pattern.filter(|&pattern| pattern < patterns)?;
        let next = main.units.get(index + 1);
        let next =
            next.filter(|next| next.piece.start == unit.piece.end && next.slice == unit.slice);
        let end = next.map_or(unit.own_end, |next| next.start);
        // Two steps cannot begin at one moment unless times are broken; the first then has no length.
        Some((unit.start, end.max(unit.start), pattern))
    });
    let mut windows: Vec<(i64, i64, usize)> = windows.collect();
    windows.sort_unstable();
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
fn main_repetition(repetitions: &[Repetition]) -> Option<&Repetition> {
    let main = repetitions
        .iter()
        .find(|repetition| !repetition.units.is_empty())?;
    main.certain.then_some(main)
}

/// When each step of the busiest thread or stream was launched.
pub(crate) fn step_launches(repetitions: &[Repetition]) -> Vec<i64> {
    let steps = main_repetition(repetitions).into_iter();
    steps
        .flat_map(Repetition::steps)
        .map(|unit| unit.launched)
        .collect()
}

/// Intervals of the host's time, in order, in which each step was launched that another follows at once.
pub(crate) fn launched_steps(repetitions: &[Repetition]) -> Vec<(i64, i64)> {
    let Some(main) = main_repetition(repetitions) else {
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
