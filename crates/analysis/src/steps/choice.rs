//! Which level is that of steps.
//!
//! Layers repeat inside steps as steps repeat inside requests, so that repetition alone does not tell them apart. Kernels
//! that choose a token come once a step and in no layer; so do those that look up embeddings. A program without either
//! is not known to be a language model: there a step is the longest repetition, unless that is itself a row of pieces
//! of about one size (a request: a prefill, then steps), which steps with few kernels outside of their layers are not.

use crate::steps::grams::Piece;
use crate::steps::launches::{Marks, Sequence};
use crate::steps::levels::Level;
use crate::steps::likeness::Comparison;

/// Of levels that cover less than this part of what the best one covers nothing is said.
const COVERS: f64 = 0.6;
/// Repetitions of a level whose kernels have no telling names.
const FEWEST: usize = 4;
/// The part of what they cover that must be of one kind, where nothing else tells what a step is.
const USUAL: f64 = 0.6;
/// The part of pieces that must have a telling name.
const MARKED: f64 = 0.9;
/// Pieces of a request are at least this part of a step.
const WHOLE_PIECE: f64 = 0.85;
/// A piece holds the usual one where it has this part of its launches.
const ALIKE: f64 = 0.95;
/// Fewer kernels are no step where something longer repeats.
const FEWEST_KERNELS: f64 = 8.0;

/// A level, and whether the names of its kernels say that it is one of steps.
pub(crate) struct Choice<'a> {
    pub(crate) level: &'a Level,
    pub(crate) marked: bool,
    /// Whether a shorter level lies inside it.
    pub(crate) holds_layers: bool,
}

/// The level of steps; nothing where no level is one.
pub(crate) fn choose<'a>(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    levels: &'a [Level],
    comparison: &mut Comparison<'_>,
) -> Option<Choice<'a>> {
    let most = levels.iter().map(|level| level.covered).max()?;
    let covering: Vec<&Level> = levels
        .iter()
        .filter(|level| level.covered as f64 >= COVERS * most as f64)
        .collect();
    for mark in [|marks: Marks| marks.chooses, |marks: Marks| marks.embeds] {
        let before: Vec<u32> = std::iter::once(0)
            .chain(sequence.symbols.iter().scan(0, |sum, &symbol| {
                *sum += u32::from(mark(sequence.marks[symbol as usize]));
                Some(*sum)
            }))
            .collect();
        let marks_in = |start: usize, end: usize| before[end] > before[start];
        // Each piece has a mark: a run that comes twice a step cuts pieces with and without one.
        let has = |level: &&&Level| {
            let usual = marks_in(level.usual.start, level.usual.end);
            let whole = level.pieces.iter().filter(|piece| !piece.last);
            let (pieces, marked) = whole.fold((0, 0), |(pieces, marked), piece| {
                (
                    pieces + 1,
                    marked + usize::from(marks_in(piece.start, piece.end)),
                )
            });
            usual && marked as f64 >= MARKED * pieces as f64
        };
        let marked: Vec<&&Level> = covering.iter().filter(has).collect();
        let often = marked.iter().find(|level| level.repeated >= FEWEST);
        if let Some(level) = often.or(marked.first()) {
            return Some(Choice {
                level,
                marked: true,
                holds_layers: level.period > covering[0].period,
            });
        }
        // A token is chosen, but in no repetition: what repeats are the layers of one step.
        if intervals.iter().any(|&(start, end)| marks_in(start, end)) {
            return None;
        }
    }
    let often: Vec<&Level> = covering
        .into_iter()
        .filter(|level| level.repeated >= FEWEST)
        .filter(|level| level.usual_covered as f64 >= USUAL * level.covered as f64)
        .collect();
    let mut chosen = often.len().checked_sub(1)?;
    while let Some(inner) = (0..chosen)
        .rev()
        .find(|&inner| is_row(sequence, comparison, often[chosen].usual, often[inner]))
    {
        chosen = inner;
    }
    Some(Choice {
        level: often[chosen],
        marked: false,
        holds_layers: chosen > 0,
    })
}

/// Whether a piece is a row of pieces of a shorter level, each a step of some kind: most are like the usual one, others
/// about as large and different, or the usual one and as much behind it. A layer with the little that follows the last
/// layer is none.
fn is_row(
    sequence: &Sequence,
    comparison: &mut Comparison<'_>,
    piece: Piece,
    inner: &Level,
) -> bool {
    let kernels = |piece: Piece| sequence.kernels(piece.start, piece.end) as f64;
    let usual = kernels(inner.usual);
    if usual < FEWEST_KERNELS {
        return false;
    }
    let (mut parts, mut alike) = (0, 0);
    for part in &inner.pieces {
        if !(piece.start..piece.end).contains(&part.start) || part.last {
            continue;
        }
        let common = comparison.shared(0, *part, inner.usual) * part.len().max(inner.period) as f64;
        let extra = kernels(*part) - usual;
        let is_step = if common < ALIKE * inner.period as f64 {
            extra >= -(1.0 - WHOLE_PIECE) * usual
        } else if extra <= (1.0 - ALIKE) * usual {
            alike += 1;
            true
        } else {
            extra >= WHOLE_PIECE * usual
        };
        if !is_step {
            return false;
        }
        parts += 1;
    }
    parts > 1 && 5 * alike >= 4 * parts
}
