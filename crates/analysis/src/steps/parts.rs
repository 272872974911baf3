//! Steps that the edges of slices cut.

use super::grams::Piece;
use super::launches::Sequence;
use super::units::Unit;

/// The parts of steps of the first pattern that lie at the edges of stretches: what comes before the first unit is the end
/// of a step as far as the launches are those that steps end with, what follows the last is the beginning of one.
pub(super) fn parts(
    sequence: &Sequence,
    stretches: &[(usize, usize)],
    units: &[Unit],
    usual: &[Piece],
) -> Vec<(u32, f64)> {
    let Some(usual) = usual.first() else {
        return Vec::new();
    };
    let step = &sequence.symbols[usual.start..usual.end];
    let mut parts = Vec::new();
    for &(start, end) in stretches {
        let first = units.partition_point(|unit| unit.piece.start < start);
        let last = units.partition_point(|unit| unit.piece.start < end);
        let (head, tail) = match &units[first..last] {
            [] => (start..start, end..end),
            [first, .., last] => (start..first.piece.start, last.piece.end..end),
            [only] => (start..only.piece.start, only.piece.end..end),
        };
        let seen = if first == last {
            inside(step, &sequence.symbols[start..end])
        } else {
            let head = sequence.symbols[head].iter().rev();
            matching(head, step.iter().rev()) + matching(sequence.symbols[tail].iter(), step.iter())
        };
        if seen > 0 {
            let part = seen as f64 / step.len() as f64;
            parts.push((sequence.launches[start].slice, part));
        }
    }
    parts
}

/// How many launches of a stretch are those of a step, from one end on: all of them where most are, one changed or not.
fn matching<'a>(
    found: impl ExactSizeIterator<Item = &'a u32> + Clone,
    step: impl ExactSizeIterator<Item = &'a u32> + Clone,
) -> usize {
    let most = found.len().min(step.len());
    let pairs = found.zip(step);
    let equal = pairs.clone().filter(|(a, b)| a == b).count();
    if 2 * equal >= most {
        return most;
    }
    pairs.take_while(|(a, b)| a == b).count()
}

/// The launches of a stretch that lies inside a step.
fn inside(step: &[u32], found: &[u32]) -> usize {
    let mut places = step.windows(found.len().max(1));
    if places.any(|place| place == found) {
        found.len()
    } else {
        0
    }
}
