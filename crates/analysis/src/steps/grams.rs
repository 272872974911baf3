//! Runs of one, two, four… launches as single numbers, and where each of them occurs.

use rustc_hash::FxHashMap;

/// The lengths of runs.
pub(crate) const SIZES: [usize; 5] = [1, 2, 4, 8, 16];
/// Those that may mark where a pattern begins; the longest serve comparison alone.
pub(crate) const ANCHORS: usize = 4;
/// No run of this length begins here that occurs again: it would leave its interval, or a part of it occurs only once.
pub(crate) const NONE: u32 = u32::MAX;

/// The runs of a sequence, one list for each of [`SIZES`].
pub(crate) struct Grams {
    by_size: Vec<Runs>,
    /// The number of the interval that holds each launch; [`NONE`] outside of all.
    interval: Vec<u32>,
    /// Where each interval ends.
    ends: Vec<u32>,
}

/// The runs of one length.
struct Runs {
    /// The number of the run that begins at each launch.
    ids: Vec<u32>,
    /// The places of all runs, those of each number together and in order.
    places: Vec<u32>,
    /// Where the places of each number begin in `places`, and where the last ones end.
    offsets: Vec<u32>,
}

impl Runs {
    fn of(ids: Vec<u32>, kinds: usize) -> Self {
        let mut offsets = vec![0_u32; kinds + 1];
        for &id in &ids {
            if id != NONE {
                offsets[id as usize + 1] += 1;
            }
        }
        for index in 0..kinds {
            offsets[index + 1] += offsets[index];
        }
        let mut next = offsets.clone();
        let mut places = vec![0; offsets[kinds] as usize];
        for (place, &id) in ids.iter().enumerate() {
            if id != NONE {
                let slot = &mut next[id as usize];
                places[*slot as usize] = place as u32;
                *slot += 1;
            }
        }
        Self {
            ids,
            places,
            offsets,
        }
    }

    fn kinds(&self) -> usize {
        self.offsets.len() - 1
    }

    fn count(&self, id: u32) -> u32 {
        self.offsets[id as usize + 1] - self.offsets[id as usize]
    }
}

impl Grams {
    /// The runs inside some intervals of a sequence.
    pub(crate) fn of(symbols: &[u32], kinds: usize, intervals: &[(usize, usize)]) -> Self {
        let mut interval = vec![NONE; symbols.len()];
        let mut ids = vec![NONE; symbols.len()];
        for (number, &(start, end)) in intervals.iter().enumerate() {
            interval[start..end].fill(number as u32);
            ids[start..end].copy_from_slice(&symbols[start..end]);
        }
        let ends: Vec<u32> = intervals.iter().map(|&(_, end)| end as u32).collect();
        let mut by_size = vec![Runs::of(ids, kinds)];
        for pair in SIZES.windows(2) {
            let half = pair[0];
            let runs = &by_size[by_size.len() - 1];
            let shorter = &runs.ids;
            // Without order nearly all long runs occur once; to number them would take most of the time.
            let again = |id: u32| id != NONE && runs.count(id) > 1;
            let mut numbers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
            let mut ids = vec![NONE; symbols.len()];
            for place in 0..symbols.len().saturating_sub(half) {
                let (a, b) = (shorter[place], shorter[place + half]);
                if interval[place] == interval[place + half] && again(a) && again(b) {
                    let next = numbers.len() as u32;
                    ids[place] = *numbers.entry((a, b)).or_insert(next);
                }
            }
            by_size.push(Runs::of(ids, numbers.len()));
        }
        Self {
            by_size,
            interval,
            ends,
        }
    }

    /// The numbers of the runs of one length, by where they begin.
    pub(crate) fn ids(&self, size: usize) -> &[u32] {
        &self.by_size[size].ids
    }

    /// How many different runs of one length there are.
    pub(crate) fn kinds(&self, size: usize) -> usize {
        self.by_size[size].kinds()
    }

    /// Where a run occurs, in order.
    pub(crate) fn places(&self, size: usize, id: u32) -> &[u32] {
        let runs = &self.by_size[size];
        let id = id as usize;
        &runs.places[runs.offsets[id] as usize..runs.offsets[id + 1] as usize]
    }

    /// Where the interval ends that holds a launch; nothing outside of all intervals.
    pub(crate) fn end_at(&self, place: usize) -> Option<usize> {
        let interval = *self.interval.get(place)?;
        self.ends.get(interval as usize).map(|&end| end as usize)
    }

    /// Whether two launches lie in one interval.
    pub(crate) fn joined(&self, a: usize, b: usize) -> bool {
        match (self.interval.get(a), self.interval.get(b)) {
            (Some(a), Some(b)) => a == b && *a != NONE,
            _ => false,
        }
    }

    /// The pieces that a sequence falls into when it is cut at some places: each lasts until the next place, or to the
    /// end of its interval, which may cut it short.
    pub(crate) fn pieces(&self, cuts: &[u32]) -> impl Iterator<Item = Piece> {
        cuts.iter().enumerate().filter_map(|(index, &cut)| {
            let start = cut as usize;
            let limit = self.end_at(start)?;
            let next = cuts.get(index + 1).map(|&next| next as usize);
            Some(match next {
                Some(next) if next < limit => Piece {
                    start,
                    end: next,
                    last: false,
                },
                _ => Piece {
                    start,
                    end: limit,
                    last: true,
                },
            })
        })
    }
}

/// Launches from one cut to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether it ends where its interval does.
    pub(crate) last: bool,
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `abcab | ab`: the run `ab` occurs at 0, 3 and 5; `ba` would cross from one interval into the next.
    #[test]
    fn runs_do_not_leave_their_interval() {
        let symbols = [0, 1, 2, 0, 1, 0, 1];
        let grams = Grams::of(&symbols, 3, &[(0, 5), (5, 7)]);
        assert_eq!(grams.places(0, 0), [0, 3, 5]);
        let pair = grams.ids(1)[0];
        assert_eq!(grams.places(1, pair), [0, 3, 5]);
        assert_eq!((grams.ids(1)[4], grams.ids(1)[6]), (NONE, NONE));
        let pieces: Vec<_> = grams
            .pieces(grams.places(1, pair))
            .map(|piece| (piece.start, piece.end, piece.last))
            .collect();
        assert_eq!(pieces, [(0, 3, false), (3, 5, true), (5, 7, true)]);
    }
}
