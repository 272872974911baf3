//! Steps, once it is known where they begin: which are whole, which are alike, how long they took, and the parts at edges.

use crate::row_order::sort_descending;
use crate::steps::begin::{add_first_steps, step_starts};
use crate::steps::levels::RepetitionLevel;
use crate::steps::runs::{LaunchPiece, PieceKind, Runs};
use crate::steps::sequence::Sequence;
use crate::thresholds::{EDGE_PLACES_MAX, PIECES_ALIKE_MIN_SHARE, TAIL_LAUNCHES};

/// Launches from one beginning of a step to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepUnit {
    /// When its first launch was called, ns; as `start` where there are no calls.
    pub(crate) launched: i64,
    /// When its last launch was called.
    pub(crate) last_launched: i64,
    /// When its first kernel began, ns.
    pub(crate) start: i64,
    /// When the first kernel of the next step of its pattern began, or where none follows, when its own last one ended.
    /// Steps are timed on the device: a host that launches ahead of it would show its own pace.
    pub(crate) end: i64,
    /// When its own last kernel ended.
    pub(crate) own_end: i64,
    pub(crate) kernels: u64,
    /// Launches: kernels that are not in graphs, and graphs.
    pub(crate) launches: u64,
    /// The sum of the times of its kernels, ns.
    pub(crate) kernel_time: i64,
    /// Which pattern it has; nothing where it is like no other.
    pub(crate) pattern: Option<usize>,
    /// Whether its launches are exactly the usual ones.
    pub(crate) equal: bool,
    /// The slice that holds it.
    pub(crate) slice: u32,
    pub(crate) piece: LaunchPiece,
}

/// Steps and what lies between them.
pub(crate) struct Cut {
    pub(crate) units: Vec<StepUnit>,
    /// The usual launches of each pattern, that with the most steps first.
    pub(crate) usual: Vec<LaunchPiece>,
    /// The mean part of its launches that a unit shares with the more similar neighbour.
    pub(crate) likeness: f64,
}

impl Cut {
    pub(crate) fn at_level(
        sequence: &Sequence,
        runs: &mut Runs<'_>,
        intervals: &[(usize, usize)],
        level: &RepetitionLevel,
    ) -> Self {
        let starts = step_starts(sequence, runs, level);
        let starts = add_first_steps(sequence, runs, intervals, starts);
        let pieces: Vec<LaunchPiece> = runs.cut_pieces(&starts).collect();
        let (kinds, of) = runs.sort_into_kinds(&pieces);
        let mut patterns: Vec<usize> = (0..kinds.len())
            .filter(|&kind| kinds[kind].members > 1)
            .filter(|&kind| !is_part(sequence, &kinds, kind))
            .collect();
        sort_descending(&mut patterns, |&kind| kinds[kind].members as i64);
        let usual: Vec<LaunchPiece> = patterns.iter().map(|&kind| kinds[kind].usual()).collect();
        let mut units = Vec::new();
        for (&piece, &kind) in pieces.iter().zip(&of) {
            let own = patterns.iter().position(|&pattern| Some(pattern) == kind);
            let own = own.filter(|&own| !piece.last || runs.ends_as(piece, usual[own]));
            let step = own
                .map(|pattern| (piece, Some(pattern)))
                .or_else(|| begins_with(runs, piece, &usual))
                .or_else(|| (!piece.last).then_some((piece, None)));
            if let Some((piece, pattern)) = step {
                let equal = pattern.is_some_and(|pattern| runs.are_equal(piece, usual[pattern]));
                units.push(read_unit(sequence, piece, pattern, equal));
            }
        }
        extend_to_next(&mut units);
        Self {
            likeness: likeness_of_neighbours(runs, &units),
            units,
            usual,
        }
    }
}

/// A step, and behind it something else: what follows the last step, or comes between two requests.
fn begins_with(
    runs: &mut Runs<'_>,
    piece: LaunchPiece,
    usual: &[LaunchPiece],
) -> Option<(LaunchPiece, Option<usize>)> {
    usual.iter().enumerate().find_map(|(pattern, &usual)| {
        let step = LaunchPiece {
            end: piece.start + usual.len(),
            ..piece
        };
        let fits = step.end < piece.end && runs.ends_as(step, usual) && runs.are_alike(step, usual);
        fits.then_some((step, Some(pattern)))
    })
}

/// Whether the pieces of a kind are those of one with as many members and something else: their ends cut, as slices may end at
/// the same launch of several steps, or something behind them, as the next prefill that is launched in another way.
fn is_part(sequence: &Sequence, kinds: &[PieceKind], kind: usize) -> bool {
    let of = |kind: &PieceKind| {
        let usual = kind.usual();
        &sequence.symbols[usual.start..usual.end]
    };
    let own = of(&kinds[kind]);
    kinds.iter().enumerate().any(|(number, other)| {
        let step = of(other);
        let shorter = own.len().min(step.len());
        let equal = own.iter().zip(step).filter(|(a, b)| a == b).count();
        number != kind
            && other.members >= kinds[kind].members
            && own.len() != step.len()
            && equal as f64 >= PIECES_ALIKE_MIN_SHARE * shorter as f64
            && (kinds[kind].always_last() || (equal == shorter && own.len() > step.len()))
    })
}

fn read_unit(
    sequence: &Sequence,
    piece: LaunchPiece,
    pattern: Option<usize>,
    equal: bool,
) -> StepUnit {
    let launches = &sequence.launches[piece.start..piece.end];
    let first = &launches[0];
    let own_end = launches.iter().map(|launch| launch.end).max();
    let own_end = own_end.unwrap_or(first.end).max(first.start);
    StepUnit {
        launched: first.at,
        last_launched: launches.last().map_or(first.at, |launch| launch.at),
        start: first.start,
        end: own_end,
        own_end,
        kernels: sequence.kernels(piece.start, piece.end),
        launches: launches.len() as u64,
        kernel_time: sequence.time(piece.start, piece.end),
        pattern,
        equal,
        slice: first.slice,
        piece,
    }
}

/// A step lasts until the next one of its pattern begins, where that follows at once.
fn extend_to_next(units: &mut [StepUnit]) {
    for index in 1..units.len() {
        let next = units[index];
        let unit = &mut units[index - 1];
        if unit.piece.end == next.piece.start
            && unit.slice == next.slice
            && unit.pattern == next.pattern
        {
            unit.end = next.start.max(unit.start);
        }
    }
}

fn likeness_of_neighbours(runs: &mut Runs<'_>, units: &[StepUnit]) -> f64 {
    let pairs = units
        .windows(2)
        .map(|pair| runs.shared_part(pair[0].piece, pair[1].piece));
    let pairs: Vec<f64> = pairs.collect();
    let likeness = |index: usize| {
        let before = index.checked_sub(1).map_or(0.0, |before| pairs[before]);
        before.max(pairs.get(index).copied().unwrap_or(0.0))
    };
    (0..units.len()).map(likeness).sum::<f64>() / units.len().max(1) as f64
}

/// By slice, the parts of steps of the first pattern that lie at the edges of intervals: what comes before the first unit is
/// the end of a step as far as the launches are those that steps end with, what follows the last is the beginning of one.
pub(crate) fn edge_parts(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    cut: &Cut,
) -> Vec<(u32, f64)> {
    let Some(usual) = cut.usual.first() else {
        return Vec::new();
    };
    let step = &sequence.symbols[usual.start..usual.end];
    let mut parts = Vec::new();
    for &(start, end) in intervals {
        let first = cut.units.partition_point(|unit| unit.piece.start < start);
        let last = cut.units.partition_point(|unit| unit.piece.start < end);
        let seen = match &cut.units[first..last] {
            [] => count_inside(step, &sequence.symbols[start..end]),
            units => {
                let head = sequence.symbols[start..units[0].piece.start].iter().rev();
                let tail = sequence.symbols[units[units.len() - 1].piece.end..end].iter();
                count_matching(head, step.iter().rev()) + count_matching(tail, step.iter())
            }
        };
        if seen > 0 {
            parts.push((
                sequence.launches[start].slice,
                seen as f64 / step.len() as f64,
            ));
        }
    }
    parts
}

/// How many launches of an interval are those of a step, from one end on: all of them where most are, one changed or not.
fn count_matching<'a>(
    launches: impl ExactSizeIterator<Item = &'a u32> + Clone,
    step: impl ExactSizeIterator<Item = &'a u32> + Clone,
) -> usize {
    let most = launches.len().min(step.len());
    let pairs = launches.zip(step);
    let equal = pairs.clone().filter(|(a, b)| a == b).count();
    if 2 * equal >= most {
        return most;
    }
    pairs.take_while(|(a, b)| a == b).count()
}

/// How many launches of an interval without a whole step are those of steps: all of them where, laid along steps that follow one
/// another, most are the same.
fn count_inside(step: &[u32], launches: &[u32]) -> usize {
    let unlike = ((1.0 - PIECES_ALIKE_MIN_SHARE) * launches.len() as f64) as usize;
    let along = |place: usize| launches.iter().zip(step.iter().cycle().skip(place));
    let begins = |place: &usize| along(*place).take(TAIL_LAUNCHES).all(|(a, b)| a == b);
    let places = (0..step.len()).filter(begins).take(EDGE_PLACES_MAX);
    // No further than it takes to see that too many differ.
    let mut differ = places.map(|place| {
        let differing = along(place).filter(|(a, b)| a != b);
        differing.take(unlike + 1).count()
    });
    if differ.any(|count| count <= unlike) {
        launches.len()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_a_whole_step_is_laid_along_steps() {
        let step: Vec<u32> = (0..40).chain([7, 8, 9]).collect();
        let steps: Vec<u32> = step.iter().copied().cycle().take(129).collect();
        for (start, end) in [(3, 30), (0, 43), (20, 60), (41, 120), (42, 43)] {
            assert_eq!(count_inside(&step, &steps[start..end]), end - start);
        }
        // One that is not the usual one in a while does no harm; another program has no part.
        let mut other = steps[20..60].to_vec();
        other[11] = 99;
        assert_eq!(count_inside(&step, &other), 40);
        other.reverse();
        assert_eq!(count_inside(&step, &other), 0);
    }
}
