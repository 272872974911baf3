//! Runs of one, two and four launches as single numbers, where each occurs, and which pieces of a sequence are alike.

use crate::thresholds::{
    FOURS_MIN_LAUNCHES, PIECE_KINDS_MAX, PIECES_ALIKE_MIN_SHARE, SHARED_RUNS_MIN_LAUNCHES,
    TAIL_LAUNCHES,
};
use rustc_hash::FxHashMap;

/// The lengths of runs. The anchor of a level is one of them; likeness counts pairs, or fours.
const SIZES: [usize; 3] = [1, 2, 4];
/// No run of this length begins here that occurs again.
pub(crate) const NO_RUN: u32 = u32::MAX;

/// Launches from one cut to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchPiece {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether it ends where its interval does, which may have cut it.
    pub(crate) last: bool,
}

impl LaunchPiece {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// A kind of pieces that are alike.
#[derive(Clone, Debug)]
pub(crate) struct PieceKind {
    /// Different sequences among them, each with how many pieces are equal to it; the first ones that were met.
    variants: Vec<(LaunchPiece, u32)>,
    pub(crate) members: u32,
}

impl PieceKind {
    /// The sequence that most of them have.
    pub(crate) fn usual(&self) -> LaunchPiece {
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

/// The runs of one length.
struct OfSize {
    /// The number of the run that begins at each launch.
    ids: Vec<u32>,
    /// The places of all runs, those of each number together and in order.
    places: Vec<u32>,
    /// Where the places of each number begin in `places`, and where the last ones end.
    offsets: Vec<u32>,
}

impl OfSize {
    fn index_places(ids: Vec<u32>, kinds: usize) -> Self {
        let mut offsets = vec![0_u32; kinds + 1];
        for &id in ids.iter().filter(|&&id| id != NO_RUN) {
            offsets[id as usize + 1] += 1;
        }
        for index in 0..kinds {
            offsets[index + 1] += offsets[index];
        }
        let mut next = offsets.clone();
        let mut places = vec![0; offsets[kinds] as usize];
        for (place, &id) in ids.iter().enumerate().filter(|(_, id)| **id != NO_RUN) {
            let slot = &mut next[id as usize];
            places[*slot as usize] = place as u32;
            *slot += 1;
        }
        Self {
            ids,
            places,
            offsets,
        }
    }
}

/// The runs inside some intervals of a sequence.
pub(crate) struct Runs<'a> {
    symbols: &'a [u32],
    by_size: Vec<OfSize>,
    /// The number of the interval that holds each launch; [`NO_RUN`] outside of all.
    interval: Vec<u32>,
    /// Exclusive end of each interval.
    ends: Vec<usize>,
    /// Scratch of [`Runs::shared_part`], all zero between calls.
    counts: Vec<i32>,
}

impl<'a> Runs<'a> {
    pub(crate) fn in_intervals(
        symbols: &'a [u32],
        kinds: usize,
        intervals: &[(usize, usize)],
    ) -> Self {
        let mut interval = vec![NO_RUN; symbols.len()];
        let mut ids = vec![NO_RUN; symbols.len()];
        for (number, &(start, end)) in intervals.iter().enumerate() {
            interval[start..end].fill(number as u32);
            ids[start..end].copy_from_slice(&symbols[start..end]);
        }
        let mut by_size = vec![OfSize::index_places(ids, kinds)];
        for half in &SIZES[..SIZES.len() - 1] {
            let shorter = &by_size[by_size.len() - 1];
            // Without order nearly all long runs occur once; to number them would take most of the time.
            let again = |id: u32| {
                let at = |id: u32| shorter.offsets[id as usize];
                id != NO_RUN && at(id + 1) - at(id) > 1
            };
            let mut numbers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
            let mut ids = vec![NO_RUN; symbols.len()];
            for place in 0..symbols.len().saturating_sub(*half) {
                let (a, b) = (shorter.ids[place], shorter.ids[place + half]);
                if interval[place] == interval[place + half] && again(a) && again(b) {
                    let next = numbers.len() as u32;
                    ids[place] = *numbers.entry((a, b)).or_insert(next);
                }
            }
            by_size.push(OfSize::index_places(ids, numbers.len()));
        }
        let kinds = by_size.iter().map(|runs| runs.offsets.len()).max();
        Self {
            symbols,
            by_size,
            interval,
            ends: intervals.iter().map(|&(_, end)| end).collect(),
            counts: vec![0; kinds.unwrap_or(0)],
        }
    }

    /// The places of each run that occurs more than once, of each length.
    pub(crate) fn all_places(&self) -> impl Iterator<Item = &[u32]> {
        self.by_size.iter().flat_map(|runs| {
            let ends = runs.offsets.windows(2);
            ends.map(|pair| &runs.places[pair[0] as usize..pair[1] as usize])
                .filter(|places| places.len() > 1)
        })
    }

    /// The places of the runs that begin at a launch, the shortest run first.
    pub(crate) fn places_at(&self, place: usize) -> impl Iterator<Item = &[u32]> {
        self.by_size.iter().filter_map(move |runs| {
            let id = runs.ids[place];
            let from = *runs.offsets.get(id as usize)? as usize;
            let to = *runs.offsets.get(id as usize + 1)? as usize;
            Some(&runs.places[from..to])
        })
    }

    /// Whether two launches lie in one interval.
    pub(crate) fn are_joined(&self, a: usize, b: usize) -> bool {
        match (self.interval.get(a), self.interval.get(b)) {
            (Some(a), Some(b)) => a == b && *a != NO_RUN,
            _ => false,
        }
    }

    /// The pieces that a sequence falls into when it is cut at some places: each lasts until the next place, or to the
    /// end of its interval.
    pub(crate) fn cut_pieces(&self, cuts: &[u32]) -> impl Iterator<Item = LaunchPiece> {
        cuts.iter().enumerate().filter_map(|(index, &cut)| {
            let start = cut as usize;
            let interval = *self.interval.get(start)?;
            let limit = *self.ends.get(interval as usize)?;
            let next = cuts.get(index + 1).map(|&next| next as usize);
            let next = next.filter(|&next| next < limit);
            Some(LaunchPiece {
                start,
                end: next.unwrap_or(limit),
                last: next.is_none(),
            })
        })
    }

    pub(crate) fn are_equal(&self, a: LaunchPiece, b: LaunchPiece) -> bool {
        self.symbols[a.start..a.end] == self.symbols[b.start..b.end]
    }

    pub(crate) fn are_alike(&mut self, a: LaunchPiece, b: LaunchPiece) -> bool {
        let (short, long) = (a.len().min(b.len()), a.len().max(b.len()));
        self.are_equal(a, b)
            || (short >= SHARED_RUNS_MIN_LAUNCHES
                && short as f64 >= PIECES_ALIKE_MIN_SHARE * long as f64
                && self.shared_part(a, b) >= PIECES_ALIKE_MIN_SHARE)
    }

    /// Whether a piece ends as the usual one does: with the same few launches, or with the last one where it is no shorter, so
    /// that a kernel more among them does no harm.
    pub(crate) fn ends_as(&self, piece: LaunchPiece, usual: LaunchPiece) -> bool {
        let tail = if piece.len() >= usual.len() {
            1
        } else {
            TAIL_LAUNCHES.min(usual.len())
        };
        let of = |piece: LaunchPiece| &self.symbols[piece.end - tail..piece.end];
        piece.len() >= tail && of(piece) == of(usual)
    }

    /// The runs of launches that two pieces have in common, of all that either has.
    pub(crate) fn shared_part(&mut self, a: LaunchPiece, b: LaunchPiece) -> f64 {
        if self.are_equal(a, b) {
            return 1.0;
        }
        let size = if a.len().min(b.len()) < FOURS_MIN_LAUNCHES {
            1
        } else {
            2
        };
        let ids = &self.by_size[size].ids;
        let of = |piece: LaunchPiece| {
            let end = (piece.end + 1).saturating_sub(SIZES[size]);
            &ids[piece.start..end.max(piece.start)]
        };
        let (a, b) = (of(a), of(b));
        for &id in a.iter().filter(|&&id| id != NO_RUN) {
            self.counts[id as usize] += 1;
        }
        let mut common = 0_usize;
        for &id in b.iter().filter(|&&id| id != NO_RUN) {
            let count = &mut self.counts[id as usize];
            common += usize::from(*count > 0);
            *count -= 1;
        }
        for &id in a.iter().chain(b).filter(|&&id| id != NO_RUN) {
            self.counts[id as usize] = 0;
        }
        common as f64 / (a.len() + b.len() - common).max(1) as f64
    }

    /// Puts pieces into kinds; returns them with the kind of each piece, where it has one.
    pub(crate) fn sort_into_kinds(
        &mut self,
        pieces: &[LaunchPiece],
    ) -> (Vec<PieceKind>, Vec<Option<usize>>) {
        let mut kinds: Vec<PieceKind> = Vec::new();
        let mut of = vec![None; pieces.len()];
        // Pieces that the end of an interval may have cut come last, so that they do not make kinds that others fill.
        for last in [false, true] {
            let mut before = 0;
            for (index, &piece) in pieces.iter().enumerate() {
                if piece.last == last {
                    of[index] = self.add_to_kind(&mut kinds, piece, before);
                    before = of[index].unwrap_or(before);
                }
            }
        }
        (kinds, of)
    }

    /// The kind of a piece, which is mostly that of the piece before; a new one where none fits.
    fn add_to_kind(
        &mut self,
        kinds: &mut Vec<PieceKind>,
        piece: LaunchPiece,
        before: usize,
    ) -> Option<usize> {
        let known = kinds.len();
        let order = || {
            let others = (0..known).filter(move |&kind| kind != before);
            (before..known.min(before + 1)).chain(others)
        };
        for number in order() {
            let variants = &mut kinds[number].variants;
            if let Some(same) = variants
                .iter_mut()
                .find(|(known, _)| self.are_equal(*known, piece))
            {
                same.1 += 1;
                kinds[number].members += 1;
                return Some(number);
            }
        }
        let alike = order().find(|&number| self.are_alike(kinds[number].variants[0].0, piece));
        if let Some(number) = alike {
            let kind = &mut kinds[number];
            kind.members += 1;
            if kind.variants.len() < PIECE_KINDS_MAX {
                kind.variants.push((piece, 1));
            }
            return Some(number);
        }
        if kinds.len() == PIECE_KINDS_MAX {
            return None;
        }
        kinds.push(PieceKind {
            variants: vec![(piece, 1)],
            members: 1,
        });
        Some(kinds.len() - 1)
    }
}
