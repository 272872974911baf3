//! Steps that the edges of slices cut.

use crate::steps::grams::Piece;
use crate::steps::launches::Sequence;
use crate::steps::units::Unit;

/// The part of launches that are the same in an interval inside of steps.
const SAME: f64 = 0.95;
/// How many of them must be the same at its beginning.
const FIRST: usize = 4;
/// Places of a step where an interval may begin that are tried: a step with more of them is the same all along.
const MOST_PLACES: usize = 256;

/// The parts of steps of the first pattern that lie at the edges of intervals: what comes before the first unit is the end
/// of a step as far as the launches are those that steps end with, what follows the last is the beginning of one.
pub(crate) fn parts(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    units: &[Unit],
    usual: &[Piece],
) -> Vec<(u32, f64)> {
    let Some(usual) = usual.first() else {
        return Vec::new();
    };
    let step = &sequence.symbols[usual.start..usual.end];
    let mut parts = Vec::new();
    for &(start, end) in intervals {
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

/// How many launches of an interval are those of a step, from one end on: all of them where most are, one changed or not.
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

/// How many launches of an interval without a whole step are those of steps: all of them where, laid along steps that follow one
/// another, most are the same.
fn inside(step: &[u32], found: &[u32]) -> usize {
    let unlike = ((1.0 - SAME) * found.len() as f64) as usize;
    let along = |place: usize| found.iter().zip(step.iter().cycle().skip(place));
    let begins = |place: &usize| along(*place).take(FIRST).all(|(a, b)| a == b);
    let places = (0..step.len()).filter(begins).take(MOST_PLACES);
    // No further than it takes to see that too many differ.
    let mut differ = places.map(|place| {
        along(place)
            .filter(|(a, b)| a != b)
            .take(unlike + 1)
            .count()
    });
    if differ.any(|count| count <= unlike) {
        found.len()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_interval_without_a_whole_step_is_laid_along_steps() {
        let step: Vec<u32> = (0..40).chain([7, 8, 9]).collect();
        let steps: Vec<u32> = step.iter().copied().cycle().take(129).collect();
        for (start, end) in [(3, 30), (0, 43), (20, 60), (41, 120), (42, 43)] {
            assert_eq!(inside(&step, &steps[start..end]), end - start);
        }
        // One that is not the usual one in a while does no harm; another program has no part.
        let mut other = steps[20..60].to_vec();
        other[11] = 99;
        assert_eq!(inside(&step, &other), 40);
        other.reverse();
        assert_eq!(inside(&step, &other), 0);
    }
}
