//! Distances at which runs of launches return.
//!
//! Layers return inside a step, steps inside a request. Every run of launches that returns at regular distances cuts the
//! sequence into pieces that are alike; runs with about the same distance are one *level*, told by the one that covers
//! most of the sequence.

use rustc_hash::FxHashMap;

use crate::steps::grams::{ANCHORS, Grams, Piece};
use crate::steps::launches::Sequence;
use crate::steps::likeness::{Comparison, Kind};

/// A distance is regular where it is within this part of the usual one…
const NEAR: f64 = 0.05;
/// …and a run is looked at where so many of its distances are: a prefill comes between runs of steps, and between two
/// launches of a graph lie whole steps of another kind.
const REGULAR: f64 = 0.4;
/// The part of pieces, from the first to the last that repeats, that must repeat.
const REPEATED: f64 = 0.9;
/// Kernels that repetitions must have together before they mean anything.
const FEWEST_KERNELS: u64 = 32;
/// A piece of so many kernels that occurs twice did not do so by chance; one of `SOME_KERNELS` needs four.
const MANY_KERNELS: u64 = 32;
const SOME_KERNELS: u64 = 8;
/// The part of all kernels that a level must cover.
const COVERED: f64 = 0.1;
/// Runs of each distance that are looked at closely, those that cover most.
const TRIED: usize = 3;
/// Distances that differ by less than this factor are one level.
const APART: f64 = 1.4;

/// Runs of launches that return at one distance.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Launches in the usual piece.
    pub(crate) period: usize,
    /// Where the run occurs.
    pub(crate) anchors: Vec<u32>,
    pub(crate) pieces: Vec<Piece>,
    /// The usual piece: that of the kind with the most kernels.
    pub(crate) usual: Piece,
    /// Pieces that repeat.
    pub(crate) repeated: usize,
    /// Kernels in them.
    pub(crate) covered: u64,
    /// Those of them in pieces of the usual kind.
    pub(crate) usual_covered: u64,
}

/// The levels of a sequence, the shortest first.
pub(crate) fn levels(
    sequence: &Sequence,
    grams: &Grams,
    comparison: &mut Comparison<'_>,
    kernels: u64,
) -> Vec<Level> {
    let least = (COVERED * kernels as f64) as u64;
    let mut levels: Vec<Level> = candidates(sequence, grams, least)
        .into_iter()
        .filter_map(|candidate| {
            let anchors = grams.places(candidate.size, candidate.id);
            Level::of(sequence, grams, comparison, anchors)
        })
        .filter(|level| level.covered >= least.max(FEWEST_KERNELS))
        .collect();
    levels.sort_by_key(|level| {
        (
            level.period,
            std::cmp::Reverse(level.covered),
            level.anchors[0],
        )
    });
    let mut apart: Vec<Level> = Vec::new();
    for level in levels {
        match apart.last_mut() {
            Some(known) if (level.period as f64) < APART * known.period as f64 => {
                if level.covered > known.covered {
                    *known = level;
                }
            }
            _ => apart.push(level),
        }
    }
    apart
}

/// A run that may be regular.
#[derive(Clone, Copy)]
struct Candidate {
    size: usize,
    id: u32,
    covered: u64,
    first: u32,
}

/// Runs with regular distances: for each distance the few that cover most.
fn candidates(sequence: &Sequence, grams: &Grams, least: u64) -> Vec<Candidate> {
    let mut best: FxHashMap<i32, Vec<Candidate>> = FxHashMap::default();
    let mut lengths = Vec::new();
    for size in 0..ANCHORS {
        for id in 0..grams.kinds(size) as u32 {
            let places = grams.places(size, id);
            if places.len() < 2 {
                continue;
            }
            lengths.clear();
            lengths.extend(grams.pieces(places).map(|piece| piece.len()));
            let middle = lengths.len() / 2;
            let usual = *lengths.select_nth_unstable(middle).1;
            let slack = (NEAR * usual as f64) as usize;
            let (mut regular, mut covered) = (0, 0);
            for piece in grams.pieces(places) {
                if piece.len().abs_diff(usual) <= slack {
                    regular += 1;
                    covered += sequence.kernels(piece.start, piece.end);
                }
            }
            if (regular as f64) < REGULAR * places.len() as f64 || covered < least {
                continue;
            }
            let bucket = ((usual as f64).ln() / 1.25_f64.ln()) as i32;
            let known = best.entry(bucket).or_default();
            known.push(Candidate {
                size,
                id,
                covered,
                first: places[0],
            });
            known.sort_by_key(|known| (std::cmp::Reverse(known.covered), known.size, known.first));
            known.truncate(TRIED);
        }
    }
    let mut found: Vec<Candidate> = best.into_values().flatten().collect();
    found.sort_by_key(|candidate| (candidate.size, candidate.id));
    found
}

impl Level {
    /// Cuts a sequence at some places; nothing where the pieces are not alike.
    fn of(
        sequence: &Sequence,
        grams: &Grams,
        comparison: &mut Comparison<'_>,
        anchors: &[u32],
    ) -> Option<Self> {
        let pieces: Vec<Piece> = grams.pieces(anchors).collect();
        let (kinds, of) = comparison.kinds(&pieces);
        let kernels = |piece: Piece| sequence.kernels(piece.start, piece.end);
        let kind = |index: usize| of.get(index).copied().flatten();
        let repeats = |index: usize| {
            let Some(own) = kind(index) else { return false };
            let neighbour =
                index.checked_sub(1).and_then(kind) == Some(own) || kind(index + 1) == Some(own);
            let kernels = kernels(pieces[index]);
            let established = match kinds[own].members {
                0 | 1 => false,
                2 | 3 => kernels >= MANY_KERNELS,
                _ => kernels >= SOME_KERNELS,
            };
            neighbour || established
        };
        let good: Vec<bool> = (0..pieces.len()).map(repeats).collect();
        let first = good.iter().position(|&good| good)?;
        let last = good.iter().rposition(|&good| good)?;
        let repeated = good.iter().filter(|&&good| good).count();
        // A piece at the end of an interval is mostly cut off.
        let counted = (first..=last).filter(|&index| good[index] || !pieces[index].last);
        if (repeated as f64) < REPEATED * counted.count() as f64 {
            return None;
        }
        let (usual, usual_kind) = usual(&kinds, kernels)?;
        let sum = |chosen: &dyn Fn(usize) -> bool| {
            let chosen = (0..pieces.len()).filter(|&index| good[index] && chosen(index));
            chosen.map(|index| kernels(pieces[index])).sum()
        };
        Some(Self {
            period: usual.len(),
            anchors: anchors.to_vec(),
            usual,
            repeated,
            covered: sum(&|_| true),
            usual_covered: sum(&|index| of[index] == Some(usual_kind)),
            pieces,
        })
    }
}

/// The usual piece of the kind that has most kernels, of those that repeat.
fn usual(kinds: &[Kind], kernels: impl Fn(Piece) -> u64) -> Option<(Piece, usize)> {
    kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.members > 1)
        .max_by_key(|(_, kind)| u64::from(kind.members) * kernels(kind.usual()))
        .map(|(number, kind)| (kind.usual(), number))
}
