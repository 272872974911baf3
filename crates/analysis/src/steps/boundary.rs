//! Where in its repetition a step begins.
//!
//! A repetition has no beginning of its own. A step of a language model begins after the choice of a token and no later than
//! the lookup of embeddings; between these, or anywhere where names tell nothing, it begins after the host waited for
//! the device, and where the host usually took longest until the next launch.

use crate::steps::grams::{ANCHORS, Grams, NONE, Piece};
use crate::steps::launches::{Marks, Sequence};
use crate::steps::levels::Level;
use crate::steps::likeness::Comparison;

/// Launches around a kernel with a telling name in which a step may begin, where only one such kernel is known.
const AROUND: usize = 16;
/// Repetitions that are looked at.
const LOOKED_AT: usize = 64;
/// Repetitions of a row, on average, for its beginning to tell something.
const LONG_ROW: usize = 4;

/// Where steps begin: places in the sequence.
pub(crate) fn starts(
    sequence: &Sequence,
    grams: &Grams,
    comparison: &Comparison<'_>,
    level: &Level,
) -> Vec<u32> {
    let alike: Vec<Piece> = level
        .pieces
        .iter()
        .copied()
        .filter(|&piece| comparison.equal(piece, level.usual))
        .collect();
    // Slices that begin with the repetition were made to begin with a step.
    let begins = |piece: &&Piece| piece.start == 0 || !grams.joined(piece.start - 1, piece.start);
    let at_begin = alike.iter().filter(begins).count();
    let offset = if alike.len() > 1 && 2 * at_begin >= alike.len() {
        0
    } else {
        offset(sequence, grams, level, &alike)
    };
    anchored(grams, level, &alike, offset)
}

/// How far behind the run that marks the level a step begins.
fn offset(sequence: &Sequence, grams: &Grams, level: &Level, alike: &[Piece]) -> usize {
    let period = level.period;
    let looked_at = &alike[..alike.len().min(LOOKED_AT)];
    let launch_before = |piece: &Piece, offset: usize| {
        let place = piece.start + offset;
        let before = place.checked_sub(1)?;
        grams
            .joined(before, place)
            .then(|| (sequence.launches[before], sequence.launches[place]))
    };
    let waits = |offset: usize| {
        let pairs = looked_at
            .iter()
            .filter_map(|piece| launch_before(piece, offset));
        let (all, waited) = pairs.fold((0, 0), |(all, waited), (_, launch)| {
            (all + 1, waited + usize::from(launch.after_wait))
        });
        all > 0 && 2 * waited > all
    };
    let usual_gap = |offset: usize| {
        let pairs = looked_at
            .iter()
            .filter_map(|piece| launch_before(piece, offset));
        let mut gaps: Vec<i64> = pairs
            .map(|(before, launch)| launch.at.saturating_sub(before.until))
            .collect();
        gaps.sort_unstable();
        gaps.get(gaps.len() / 2).copied()
    };
    let mut places = match by_name(sequence, level.usual) {
        Some(places) => places,
        None => match by_run(sequence, grams, level, alike) {
            Some(offset) => return offset,
            None => (0..period).collect(),
        },
    };
    let after_wait: Vec<usize> = places
        .iter()
        .copied()
        .filter(|&offset| waits(offset))
        .collect();
    if !after_wait.is_empty() {
        places = after_wait;
    }
    places
        .into_iter()
        .max_by_key(|&offset| (usual_gap(offset), std::cmp::Reverse(offset)))
        .unwrap_or(0)
}

/// The offset at which rows of repetitions begin, where most rows are a whole number of repetitions long: no other offset
/// leaves nothing over.
fn by_run(sequence: &Sequence, grams: &Grams, level: &Level, alike: &[Piece]) -> Option<usize> {
    let period = level.period;
    let same =
        |a: usize, b: usize| grams.joined(a, b) && sequence.symbols[a] == sequence.symbols[b];
    let (mut rows, mut votes) = (0_usize, vec![0_usize; period]);
    let mut reached = 0;
    for piece in alike {
        if piece.start < reached {
            continue;
        }
        let mut begin = piece.start;
        while begin > reached && same(begin - 1, begin - 1 + period) {
            begin -= 1;
        }
        let mut end = piece.end;
        while end < sequence.len() && same(end - period, end) {
            end += 1;
        }
        reached = end;
        rows += 1;
        if (end - begin).is_multiple_of(period) {
            // Where the row begins, as an offset behind the beginning of a piece.
            votes[(begin + (piece.start + 1) * period - piece.start) % period] += 1;
        }
    }
    let offset = (0..period).max_by_key(|&offset| (votes[offset], std::cmp::Reverse(offset)))?;
    // Rows that noise ends are as long as it happens.
    (2 * votes[offset] > rows && LONG_ROW * rows <= alike.len()).then_some(offset)
}

/// The offsets that names of kernels leave; nothing where they tell nothing.
fn by_name(sequence: &Sequence, usual: Piece) -> Option<Vec<usize>> {
    let period = usual.len();
    let places = |mark: fn(Marks) -> bool| -> Vec<usize> {
        let symbols = sequence.symbols[usual.start..usual.end].iter();
        let marked = symbols
            .enumerate()
            .filter(|&(_, &symbol)| mark(sequence.marks[symbol as usize]));
        marked.map(|(offset, _)| offset).collect()
    };
    let (choosing, embedding) = (places(|marks| marks.chooses), places(|marks| marks.embeds));
    let ahead = |from: usize, to: usize| (to + period - from) % period;
    let around = AROUND.min(period);
    let (first, count) = match (&choosing[..], &embedding[..]) {
        ([], []) => return None,
        (_, []) => {
            // The last of several choices that follow each other.
            let last = choosing.iter().copied().max_by_key(|&place| {
                choosing
                    .iter()
                    .filter(|&&next| next != place)
                    .map(|&next| ahead(place, next))
                    .min()
            })?;
            (last + 1, around)
        }
        ([], _) => {
            let first = embedding.iter().copied().max_by_key(|&place| {
                embedding
                    .iter()
                    .filter(|&&before| before != place)
                    .map(|&before| ahead(before, place))
                    .min()
            })?;
            (first + period + 1 - around, around)
        }
        _ => {
            let pairs = choosing
                .iter()
                .flat_map(|&from| embedding.iter().map(move |&to| (from, to)));
            // A graph holds both.
            let (from, to) = pairs.min_by_key(|&(from, to)| ahead(from, to))?;
            match ahead(from, to) {
                0 => (0, period),
                count => (from + 1, count),
            }
        }
    };
    Some(
        (first..first + count)
            .map(|offset| offset % period)
            .collect(),
    )
}

/// Looks for steps by a run of launches near to where they begin, which noise elsewhere does not move. Of several runs
/// the one that occurs most: a prefill may share it where other kernels differ.
fn anchored(grams: &Grams, level: &Level, alike: &[Piece], offset: usize) -> Vec<u32> {
    let by_level = || shifted(grams, &level.anchors, offset as i64);
    let period = level.period;
    // A repetition with another one on both sides shows what is around its beginning.
    let Some(shown) = alike
        .iter()
        .find(|piece| {
            let before = piece.start.checked_sub(period);
            before.is_some_and(|before| grams.joined(before, piece.start)) && !piece.last
        })
        .or(alike.first())
    else {
        return by_level();
    };
    let start = shown.start + offset;
    let reach = AROUND.min(period / 2) as i64;
    let most = level.pieces.len() + level.pieces.len() / 2 + 4;
    let mut best: Option<(usize, i64, usize, u32)> = None;
    for size in 0..ANCHORS {
        for shift in -reach..=reach {
            let place = start as i64 + shift;
            let Ok(place) = usize::try_from(place) else {
                continue;
            };
            if !grams.joined(place, shown.start) {
                continue;
            }
            let id = grams.ids(size)[place];
            if id == NONE {
                continue;
            }
            let places = grams.places(size, id);
            // Once a repetition, give or take what noise adds.
            let far = period - period / 10 - 1;
            let (low, high) = (place.saturating_sub(far), place + far);
            let near = places
                .iter()
                .filter(|&&other| (low..=high).contains(&(other as usize)));
            if places.len() > most || near.count() != 1 {
                continue;
            }
            let better = best.is_none_or(|(count, distance, _, _)| {
                (places.len(), -shift.abs()) > (count, -distance.abs())
            });
            if better {
                best = Some((places.len(), shift, size, id));
            }
        }
    }
    match best {
        Some((_, shift, size, id)) => shifted(grams, grams.places(size, id), -shift),
        None => by_level(),
    }
}

/// Places moved by a number of launches, where they stay in their interval.
fn shifted(grams: &Grams, places: &[u32], by: i64) -> Vec<u32> {
    let moved = places.iter().filter_map(|&place| {
        let to = usize::try_from(i64::from(place) + by).ok()?;
        grams.joined(place as usize, to).then_some(to as u32)
    });
    let mut moved: Vec<u32> = moved.collect();
    moved.dedup();
    moved
}
