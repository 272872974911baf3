//! Steps, once it is known where they begin: which are whole, which are alike, how long they took.

use crate::steps::grams::{Grams, Piece};
use crate::steps::launches::Sequence;
use crate::steps::likeness::{Comparison, Kind};

/// Launches at the end of a step that must be the usual ones for it to be whole.
const TAIL: usize = 4;
/// What follows a step and has this part of its kernels is no part of it.
const AGAIN: f64 = 0.5;
/// A step with less than this part of the usual kernels was cut.
const WHOLE: f64 = 0.95;

/// Launches from one beginning of a step to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
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
    /// Kernels.
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
    /// Its launches.
    pub(crate) piece: Piece,
}

/// Steps and what lies between them, with the usual launches of each pattern, that with the most steps first.
pub(crate) struct Cut {
    pub(crate) units: Vec<Unit>,
    pub(crate) usual: Vec<Piece>,
    /// The mean part of its launches that a unit shares with the more similar neighbour.
    pub(crate) likeness: f64,
}

impl Cut {
    /// Cuts a sequence where steps begin.
    pub(crate) fn of(
        sequence: &Sequence,
        grams: &Grams,
        comparison: &mut Comparison<'_>,
        starts: &[u32],
    ) -> Self {
        let pieces: Vec<Piece> = grams.pieces(starts).collect();
        let (kinds, of) = comparison.kinds(&pieces);
        let mut patterns: Vec<usize> = (0..kinds.len())
            .filter(|&kind| kinds[kind].members > 1)
            .filter(|&kind| !is_cut(&sequence.symbols, &kinds, kind))
            .filter(|&kind| !is_two(sequence, &kinds, kind))
            .collect();
        patterns.sort_by_key(|&kind| std::cmp::Reverse(kinds[kind].members));
        let usual: Vec<Piece> = patterns.iter().map(|&kind| kinds[kind].usual()).collect();
        let mut units = Vec::new();
        for (&piece, &kind) in pieces.iter().zip(&of) {
            let own = patterns
                .iter()
                .position(|&pattern| Some(pattern) == kind)
                .filter(|&pattern| is_whole(sequence, piece, usual[pattern], piece.last));
            let found = own
                .map(|pattern| (piece, Some(pattern)))
                .or_else(|| begins_with(sequence, comparison, piece, &usual))
                .or_else(|| (!piece.last).then_some((piece, None)));
            if let Some((piece, pattern)) = found {
                let equal = pattern.is_some_and(|pattern| comparison.equal(piece, usual[pattern]));
                units.push(unit(sequence, piece, pattern, equal));
            }
        }
        follow(&mut units);
        Self {
            likeness: likeness_of_neighbours(comparison, &units),
            units,
            usual,
        }
    }
}

/// Whether a piece has all that the usual one has: `cut` where its end may be missing.
fn is_whole(sequence: &Sequence, piece: Piece, usual: Piece, cut: bool) -> bool {
    let kernels = |piece: Piece| sequence.kernels(piece.start, piece.end) as f64;
    (!cut || same_tail(&sequence.symbols, piece, usual)) && kernels(piece) >= WHOLE * kernels(usual)
}

/// A step, and behind it something else: what follows the last step, or comes between two requests.
fn begins_with(
    sequence: &Sequence,
    comparison: &mut Comparison<'_>,
    piece: Piece,
    usual: &[Piece],
) -> Option<(Piece, Option<usize>)> {
    usual.iter().enumerate().find_map(|(pattern, &usual)| {
        let step = Piece {
            end: piece.start + usual.len(),
            ..piece
        };
        let fits = step.end < piece.end
            && comparison.alike(step, usual)
            && is_whole(sequence, step, usual, true);
        fits.then_some((step, Some(pattern)))
    })
}

/// Whether the pieces of a kind are those of another with their ends cut, or with a little of the next step behind them:
/// slices may end at the same launch of several steps.
fn is_cut(symbols: &[u32], kinds: &[Kind], kind: usize) -> bool {
    let of = |kind: &Kind| {
        let usual = kind.usual();
        &symbols[usual.start..usual.end]
    };
    let own = of(&kinds[kind]);
    let same = |other: &Kind| {
        let often = other.members >= kinds[kind].members;
        let other = of(other);
        let shorter = own.len().min(other.len());
        let equal = own.iter().zip(other).filter(|(a, b)| a == b).count();
        often && own.len() != other.len() && equal as f64 >= WHOLE * shorter as f64
    };
    kinds[kind].always_last() && kinds.iter().any(same)
}

/// Whether the pieces of a kind are those of a more usual one, each with as much again behind it: the last step of a request,
/// and the prefill of the next that is launched in another way.
fn is_two(sequence: &Sequence, kinds: &[Kind], kind: usize) -> bool {
    let own = kinds[kind].usual();
    kinds.iter().any(|other| {
        let step = other.usual();
        let end = own.start + step.len();
        other.members > kinds[kind].members
            && end < own.end
            && sequence.symbols[own.start..end] == sequence.symbols[step.start..step.end]
            && sequence.kernels(end, own.end) as f64
                >= AGAIN * sequence.kernels(step.start, step.end) as f64
    })
}

/// Whether a piece ends as the usual one does: with the same few launches, or with the last one where it is no shorter, so
/// that a kernel more among them does no harm.
fn same_tail(symbols: &[u32], piece: Piece, usual: Piece) -> bool {
    let tail = if piece.len() >= usual.len() {
        1
    } else {
        TAIL.min(usual.len())
    };
    piece.len() >= tail
        && symbols[piece.end - tail..piece.end] == symbols[usual.end - tail..usual.end]
}

fn unit(sequence: &Sequence, piece: Piece, pattern: Option<usize>, equal: bool) -> Unit {
    let launches = &sequence.launches[piece.start..piece.end];
    let first = &launches[0];
    let own_end = launches.iter().map(|launch| launch.end).max();
    let own_end = own_end.unwrap_or(first.end).max(first.start);
    Unit {
        launched: first.at,
        last_launched: launches.last().map_or(first.at, |launch| launch.at),
        start: first.start,
        end: own_end,
        own_end,
        kernels: sequence.kernels(piece.start, piece.end),
        launches: launches.len() as u64,
        kernel_time: launches
            .iter()
            .fold(0, |sum, launch| sum.saturating_add(launch.time)),
        pattern,
        equal,
        slice: first.slice,
        piece,
    }
}

/// A step lasts until the next one of its pattern begins, where that follows at once.
fn follow(units: &mut [Unit]) {
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

fn likeness_of_neighbours(comparison: &mut Comparison<'_>, units: &[Unit]) -> f64 {
    let pairs: Vec<f64> = units
        .windows(2)
        .map(|pair| comparison.shared(0, pair[0].piece, pair[1].piece))
        .collect();
    let likeness = |index: usize| {
        let before = index.checked_sub(1).map_or(0.0, |before| pairs[before]);
        before.max(pairs.get(index).copied().unwrap_or(0.0))
    };
    (0..units.len()).map(likeness).sum::<f64>() / units.len().max(1) as f64
}
