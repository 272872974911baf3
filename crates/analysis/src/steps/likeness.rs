//! Which pieces of a sequence are alike, and the kinds of pieces that there are.

use crate::steps::grams::{Grams, NONE, Piece, SIZES};

/// Pieces are alike where they share this part of their launches, in any order…
const SHARED: f64 = 0.95;
/// …and these parts of runs of so many launches (by number in [`SIZES`]), so that the order counts too. A kernel that
/// changes takes with it every run that it is in; short pieces have few runs.
const SHORT: (usize, f64) = (2, 0.6);
const LONG: (usize, f64) = (4, 0.4);
/// Pieces below this many launches are short.
const LONG_FROM: usize = 64;
/// Pieces of fewer launches are alike only where they are equal.
const LEAST: usize = 8;
/// More kinds than this are no pattern.
const MOST_KINDS: usize = 16;

/// Pieces that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Different sequences among them, each with how many pieces are equal to it; the first ones that were met.
    variants: Vec<(Piece, u32)>,
    /// How many pieces.
    pub(crate) members: u32,
}

impl Kind {
    /// The sequence that most of them have.
    pub(crate) fn usual(&self) -> Piece {
        let usual = self
            .variants
            .iter()
            .max_by_key(|&&(piece, count)| (count, std::cmp::Reverse(piece.start)));
        usual.expect("a kind is made with its first piece").0
    }

    /// Whether each of them ends where its interval does: others would have come first.
    pub(crate) fn always_last(&self) -> bool {
        self.variants[0].0.last
    }
}

/// Compares pieces of one sequence.
pub(crate) struct Comparison<'a> {
    symbols: &'a [u32],
    grams: &'a Grams,
    counts: Vec<i32>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(symbols: &'a [u32], grams: &'a Grams) -> Self {
        let kinds = (0..SIZES.len()).map(|size| grams.kinds(size)).max();
        Self {
            symbols,
            grams,
            counts: vec![0; kinds.unwrap_or(0)],
        }
    }

    pub(crate) fn equal(&self, a: Piece, b: Piece) -> bool {
        self.symbols[a.start..a.end] == self.symbols[b.start..b.end]
    }

    /// Whether two pieces are nearly the same sequence.
    pub(crate) fn alike(&mut self, a: Piece, b: Piece) -> bool {
        let (short, long) = (a.len().min(b.len()), a.len().max(b.len()));
        if (short as f64) < SHARED * long as f64 {
            return false;
        }
        if self.equal(a, b) {
            return true;
        }
        let (size, least) = if short < LONG_FROM { SHORT } else { LONG };
        short >= LEAST && self.shared(0, a, b) >= SHARED && self.shared(size, a, b) >= least
    }

    /// The part of runs of one length that two pieces have in common, of those that the longer one has.
    pub(crate) fn shared(&mut self, size: usize, a: Piece, b: Piece) -> f64 {
        let inside = SIZES[size] - 1;
        let ids = self.grams.ids(size);
        let of =
            |piece: Piece| &ids[piece.start..piece.end.saturating_sub(inside).max(piece.start)];
        let (a, b) = (of(a), of(b));
        // A run that occurs once is in neither of two pieces' common ones.
        let again = |ids: &'a [u32]| ids.iter().filter(|&&id| id != NONE);
        for &id in again(a) {
            self.counts[id as usize] += 1;
        }
        let mut common = 0_usize;
        for &id in again(b) {
            let count = &mut self.counts[id as usize];
            common += usize::from(*count > 0);
            *count -= 1;
        }
        for &id in again(a).chain(again(b)) {
            self.counts[id as usize] = 0;
        }
        common as f64 / a.len().max(b.len()).max(1) as f64
    }

    /// Puts pieces into kinds; the second answer is the kind of each piece, where it has one.
    pub(crate) fn kinds(&mut self, pieces: &[Piece]) -> (Vec<Kind>, Vec<Option<usize>>) {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut of = vec![None; pieces.len()];
        // Pieces that the end of an interval may have cut come last, so that they do not make kinds that others fill.
        for last in [false, true] {
            let mut before = 0;
            for (index, &piece) in pieces.iter().enumerate() {
                if piece.last == last {
                    of[index] = self.kind(&mut kinds, piece, before);
                    before = of[index].unwrap_or(before);
                }
            }
        }
        (kinds, of)
    }

    /// The kind of a piece, which is mostly that of the piece before; a new one where none fits.
    fn kind(&mut self, kinds: &mut Vec<Kind>, piece: Piece, before: usize) -> Option<usize> {
        let known = kinds.len();
        let order = || {
            let others = (0..known).filter(move |&kind| kind != before);
            (before..known.min(before + 1)).chain(others)
        };
        for number in order() {
            let variants = &mut kinds[number].variants;
            if let Some(same) = variants
                .iter_mut()
                .find(|(known, _)| self.equal(*known, piece))
            {
                same.1 += 1;
                kinds[number].members += 1;
                return Some(number);
            }
        }
        let alike = order().find(|&number| self.alike(kinds[number].variants[0].0, piece));
        if let Some(number) = alike {
            let kind = &mut kinds[number];
            kind.members += 1;
            if kind.variants.len() < MOST_KINDS {
                kind.variants.push((piece, 1));
            }
            return Some(number);
        }
        if kinds.len() == MOST_KINDS {
            return None;
        }
        kinds.push(Kind {
            variants: vec![(piece, 1)],
            members: 1,
        });
        Some(kinds.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: usize, end: usize) -> Piece {
        Piece {
            start,
            end,
            last: false,
        }
    }

    /// 40 kernels, the same with one more inside, the same 40 in another order.
    #[test]
    fn one_more_kernel_is_alike_and_another_order_is_not() {
        let mut symbols: Vec<u32> = (0..40).collect();
        symbols.extend((0..40).flat_map(|kernel| {
            if kernel == 20 {
                vec![40, kernel]
            } else {
                vec![kernel]
            }
        }));
        symbols.extend((0..40).rev());
        let grams = Grams::of(&symbols, 41, &[(0, symbols.len())]);
        let mut comparison = Comparison::new(&symbols, &grams);
        let (plain, more, turned) = (piece(0, 40), piece(40, 81), piece(81, 121));
        assert!(comparison.alike(plain, more));
        assert!(!comparison.alike(plain, turned));
        assert_eq!(comparison.shared(0, plain, turned), 1.0);
        let (kinds, of) = comparison.kinds(&[plain, more, turned, plain]);
        assert_eq!(of, [Some(0), Some(0), Some(1), Some(0)]);
        assert_eq!((kinds[0].members, kinds[0].usual()), (3, plain));
    }
}
