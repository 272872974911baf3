//! Steps that follow something else than a step, such as those at the beginning of an interval.

use crate::steps::grams::{Grams, Piece};
use crate::steps::launches::Sequence;
use crate::steps::likeness::Comparison;

/// A first step of another kind (a prefill) has between these parts of the launches of the usual one.
const LEAST: f64 = 0.5;
const MOST: f64 = 2.0;

/// Adds the beginnings of steps that lie before the first known one of each interval, and of those behind something else.
///
/// Before the first known step that is where as many launches as a step has are a step, or where the last lookup of
/// embeddings stands where steps have it. A run of launches that marks the beginning may include the end of the step before,
/// so that a step behind a prefill is missed: a long piece that ends with a step is two.
pub(crate) fn with_heads(
    sequence: &Sequence,
    grams: &Grams,
    comparison: &mut Comparison<'_>,
    intervals: &[(usize, usize)],
    starts: Vec<u32>,
) -> Vec<u32> {
    let pieces: Vec<Piece> = grams.pieces(&starts).collect();
    let (kinds, _) = comparison.kinds(&pieces);
    let often = kinds.iter().max_by_key(|kind| kind.members);
    let Some(usual) = often.map(super::likeness::Kind::usual) else {
        return starts;
    };
    let embeds = |place: usize| sequence.marks[sequence.symbols[place] as usize].embeds;
    let lookup = (usual.start..usual.end).find(|&place| embeds(place));
    let lookup = lookup.map(|place| place - usual.start);
    let mut all = starts.clone();
    all.extend(pieces.iter().filter_map(|piece| {
        let start = piece.end.checked_sub(usual.len())?;
        let step = Piece { start, ..*piece };
        let before = start.saturating_sub(piece.start) as f64;
        let two = !piece.last && before >= LEAST * usual.len() as f64;
        (two && comparison.equal(step, usual)).then_some(start as u32)
    }));
    for &(begin, end) in intervals {
        let known = starts.partition_point(|&start| (start as usize) < begin);
        let first = match starts.get(known) {
            Some(&first) if (first as usize) < end => first as usize,
            _ => continue,
        };
        let same = first.checked_sub(usual.len()).filter(|&start| {
            let piece = Piece {
                start,
                end: first,
                last: false,
            };
            start >= begin && comparison.alike(piece, usual)
        });
        let other = || {
            let lookup = lookup?;
            let last = (begin..first).rev().find(|&place| embeds(place))?;
            let start = last.checked_sub(lookup).filter(|&start| start >= begin)?;
            let part = (first - start) as f64 / usual.len() as f64;
            (LEAST..=MOST).contains(&part).then_some(start)
        };
        all.extend(same.or_else(other).map(|start| start as u32));
    }
    all.sort_unstable();
    all
}
