//! Where steps begin.
//!
//! A repetition has no beginning of its own. A step of a language model begins after the choice of a token and no later than
//! the lookup of embeddings; between these, or anywhere where names tell nothing, it begins after the host waited for
//! the device, and where the host usually took longest until the next launch.

use crate::thresholds::{LAUNCHES_NEAR_START_MAX, PIECES_ALIKE_MIN_SHARE, STARTS_COMPARED_MAX};
use llmprof_units::stats::upper_median;

use crate::steps::levels::RepetitionLevel;
use crate::steps::runs::{LaunchPiece, PieceKind, Runs};
use crate::steps::sequence::{Sequence, Signs};

/// Places where steps begin, as far as a run of launches near them shows it; [`add_first_steps`] adds others.
pub(crate) fn step_starts(
    sequence: &Sequence,
    runs: &Runs<'_>,
    level: &RepetitionLevel,
) -> Vec<u32> {
    let pieces = level.pieces.iter().copied();
    let alike: Vec<LaunchPiece> = pieces
        .filter(|&piece| runs.are_equal(piece, level.usual))
        .collect();
    // Slices that begin with the repetition were made to begin with a step.
    let begins =
        |piece: &&LaunchPiece| piece.start == 0 || !runs.are_joined(piece.start - 1, piece.start);
    let offset = if alike.len() > 1 && 2 * alike.iter().filter(begins).count() >= alike.len() {
        0
    } else {
        find_offset(sequence, runs, level, &alike)
    };
    // A repetition with another one on both sides shows what is around its beginning.
    let period = level.period;
    let inner = alike
        .windows(2)
        .find(|pair| pair[0].end == pair[1].start && !pair[1].last);
    let shown = inner
        .map(|pair| pair[1])
        .or(alike.first().copied())
        .unwrap_or(level.usual);
    let moved = |places: &[u32], by: i64| -> Vec<u32> {
        let to = places.iter().filter_map(|&place| {
            let to = usize::try_from(i64::from(place) + by).ok()?;
            runs.are_joined(place as usize, to).then_some(to as u32)
        });
        let mut to: Vec<u32> = to.collect();
        to.dedup();
        to
    };
    // A run near to the beginning is not moved by noise elsewhere. Of several the one that occurs most: a prefill may share it
    // where other kernels differ.
    let reach = LAUNCHES_NEAR_START_MAX.min(period / 2) as i64;
    let most = level.pieces.len() + level.pieces.len() / 2 + 4;
    let mut best: Option<(usize, i64, &[u32])> = None;
    for shift in -reach..=reach {
        let place = usize::try_from((shown.start + offset) as i64 + shift);
        let Some(place) = place
            .ok()
            .filter(|&place| runs.are_joined(place, shown.start))
        else {
            continue;
        };
        for places in runs.places_at(place) {
            // Once a repetition, give or take what noise adds.
            let far = period - period / 10 - 1;
            let near = place.saturating_sub(far)..=place + far;
            let first = places.partition_point(|&other| (other as usize) < *near.start());
            let once = places[first..]
                .iter()
                .take_while(|&&other| near.contains(&(other as usize)))
                .count()
                == 1;
            let better = best.is_none_or(|(count, distance, _)| {
                (places.len(), -shift.abs()) > (count, -distance.abs())
            });
            if places.len() <= most && once && better {
                best = Some((places.len(), shift, places));
            }
        }
    }
    if let Some((_, shift, places)) = best {
        return moved(places, -shift);
    }
    let anchors = level.pieces.iter().map(|piece| piece.start as u32);
    moved(&anchors.collect::<Vec<u32>>(), offset as i64)
}

/// Launches from the anchor of the level to the begin of a step.
fn find_offset(
    sequence: &Sequence,
    runs: &Runs<'_>,
    level: &RepetitionLevel,
    alike: &[LaunchPiece],
) -> usize {
    let looked_at = &alike[..alike.len().min(STARTS_COMPARED_MAX)];
    // Whether the host mostly waited before the launch there, and how long it usually took.
    let before = |offset: usize| {
        let mut waited = 0;
        let mut gaps: Vec<i64> = Vec::with_capacity(looked_at.len());
        for piece in looked_at {
            let place = piece.start + offset;
            if place > 0 && runs.are_joined(place - 1, place) {
                let (launch, before) = (sequence.launches[place], sequence.launches[place - 1]);
                waited += usize::from(launch.after_wait);
                gaps.push(launch.at.saturating_sub(before.until));
            }
        }
        (2 * waited > gaps.len(), upper_median(&mut gaps))
    };
    let places = offsets_by_names(sequence, level.usual)
        .or_else(|| Some(vec![offset_by_rows(sequence, runs, level, alike)?]))
        .unwrap_or_else(|| (0..level.period).collect());
    let longest = places
        .into_iter()
        .max_by_key(|&offset| (before(offset), std::cmp::Reverse(offset)));
    longest.unwrap_or(0)
}

/// The offset at which rows of repetitions begin, where most rows are a whole number of repetitions long: no other offset
/// leaves nothing over. Rows that noise ends are as long as it happens, and short.
fn offset_by_rows(
    sequence: &Sequence,
    runs: &Runs<'_>,
    level: &RepetitionLevel,
    alike: &[LaunchPiece],
) -> Option<usize> {
    let period = level.period;
    let same =
        |a: usize, b: usize| runs.are_joined(a, b) && sequence.symbols[a] == sequence.symbols[b];
    let (mut rows, mut votes, mut reached) = (0_usize, vec![0_usize; period], 0);
    for piece in alike.iter().filter(|piece| !piece.last) {
        if piece.start < reached {
            continue;
        }
        let (mut begin, mut end) = (piece.start, piece.end);
        while begin > reached && same(begin - 1, begin - 1 + period) {
            begin -= 1;
        }
        while end < sequence.len() && same(end - period, end) {
            end += 1;
        }
        reached = end;
        rows += 1;
        if (end - begin).is_multiple_of(period) {
            votes[(begin + (piece.start + 1) * period - piece.start) % period] += 1;
        }
    }
    let offset = (0..period).max_by_key(|&offset| (votes[offset], std::cmp::Reverse(offset)))?;
    (2 * votes[offset] > rows && 4 * rows <= alike.len()).then_some(offset)
}

/// The offsets that names of kernels leave; `None` if no name marks a place in a step.
fn offsets_by_names(sequence: &Sequence, usual: LaunchPiece) -> Option<Vec<usize>> {
    let period = usual.len();
    let places = |mark: fn(Signs) -> bool| -> Vec<usize> {
        let marked =
            |&offset: &usize| mark(sequence.signs[sequence.symbols[usual.start + offset] as usize]);
        (0..period).filter(marked).collect()
    };
    let (choosing, embedding) = (places(|signs| signs.chooses), places(|signs| signs.embeds));
    let ahead = |from: usize, to: usize| (to + period - from) % period;
    let around = LAUNCHES_NEAR_START_MAX.min(period);
    // Of several that follow each other, the one with the longest way to the next.
    let far = |places: &[usize], way: &dyn Fn(usize, usize) -> usize| {
        places.iter().copied().max_by_key(|&place| {
            let others = places.iter().filter(|&&other| other != place);
            others.map(|&other| way(place, other)).min()
        })
    };
    let (first, count) = match (&choosing[..], &embedding[..]) {
        ([], []) => return None,
        (_, []) => (far(&choosing, &ahead)? + 1, around),
        ([], _) => (
            far(&embedding, &|to, from| ahead(from, to))? + period + 1 - around,
            around,
        ),
        _ => {
            let pairs = choosing
                .iter()
                .flat_map(|&from| embedding.iter().map(move |&to| (from, to)));
            let (from, to) = pairs.min_by_key(|&(from, to)| ahead(from, to))?;
            match ahead(from, to) {
                // A graph holds both.
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

/// Adds the beginnings of steps that lie before the first known one of each interval, and of those behind something else.
///
/// Before the first known step that is where as many launches as a step has are a step, or where the last lookup of
/// embeddings stands where steps have it. The run that marks the beginning may include the end of the step before, so that
/// a step behind a prefill is missed: a long piece that ends with a step is two.
pub(crate) fn add_first_steps(
    sequence: &Sequence,
    runs: &mut Runs<'_>,
    intervals: &[(usize, usize)],
    starts: Vec<u32>,
) -> Vec<u32> {
    let pieces: Vec<LaunchPiece> = runs.cut_pieces(&starts).collect();
    let (kinds, _) = runs.sort_into_kinds(&pieces);
    let Some(usual) = kinds
        .iter()
        .max_by_key(|kind| kind.members)
        .map(PieceKind::usual)
    else {
        return starts;
    };
    let embeds = |place: usize| sequence.signs[sequence.symbols[place] as usize].embeds;
    let lookup = (usual.start..usual.end).find(|&place| embeds(place));
    let lookup = lookup.map(|place| place - usual.start);
    let mut all = starts.clone();
    all.extend(pieces.iter().filter_map(|piece| {
        let start = piece.end.checked_sub(usual.len())?;
        let two = !piece.last
            && piece.len() as f64 >= (2.0 * PIECES_ALIKE_MIN_SHARE) * usual.len() as f64;
        (two && runs.are_equal(LaunchPiece { start, ..*piece }, usual)).then_some(start as u32)
    }));
    for &(begin, end) in intervals {
        let known = starts.partition_point(|&start| (start as usize) < begin);
        let Some(first) = starts
            .get(known)
            .map(|&first| first as usize)
            .filter(|&first| first < end)
        else {
            continue;
        };
        let same = first.checked_sub(usual.len()).filter(|&start| {
            let piece = LaunchPiece {
                start,
                end: first,
                last: false,
            };
            start >= begin && runs.ends_as(piece, usual) && runs.are_alike(piece, usual)
        });
        let other = || {
            let lookup = lookup?;
            let last = (begin..first).rev().find(|&place| embeds(place))?;
            let start = last.checked_sub(lookup).filter(|&start| start >= begin)?;
            // A step of another kind has about as many layers.
            (first - start)
                .abs_diff(usual.len())
                .lt(&usual.len())
                .then_some(start)
        };
        all.extend(same.or_else(other).map(|start| start as u32));
    }
    all.sort_unstable();
    all
}
