//! Distances at which runs of launches return, and which of them are layers and which are steps.
//!
//! Layers return inside a step, steps inside a request. A run of launches that returns at regular distances (the *anchor*)
//! cuts the sequence into pieces that are alike; anchors with about the same distance are one *level*.
//!
//! Repetition alone does not tell layers from steps. A token is chosen once a step and in no layer; embeddings are looked
//! up once a step, unless every layer holds a kernel of the same name. A layer holds attention; what repeats around
//! several layers is a step, and a step of one launch is a graph with the attention of all layers. Where names of
//! kernels tell nothing, a step is the longest repetition that is not itself a row of others: a request is its prefill and
//! steps, and a step has few launches outside of its layers.

use crate::thresholds::{
    ANCHORS_TRIED_MAX, LAYER_ATTENTION_KERNELS_MAX, PERIOD_NEAR_MAX_SHARE, PIECES_ALIKE_MIN_SHARE,
    PIECES_REGULAR_MIN_SHARE, PIECES_REPEATED_MIN_SHARE, REPETITION_KERNELS_MIN,
    REPETITION_MIN_TIME_SHARE, REPETITIONS_MIN, SHARED_RUNS_MIN_LAUNCHES,
};
use llmprof_units::stats::upper_median;

use rustc_hash::FxHashMap;

use crate::row_order::sort_ascending;
use crate::steps::runs::{LaunchPiece, Runs};
use crate::steps::sequence::Sequence;

/// Pieces between returns of one run of launches.
#[derive(Clone, Debug)]
pub(crate) struct RepetitionLevel {
    /// Levels of one class differ in their anchor and have about the same distance.
    class: usize,
    /// Launches in the usual piece.
    pub(crate) period: usize,
    pub(crate) pieces: Vec<LaunchPiece>,
    /// The usual piece: that of the kind with the most kernel time.
    pub(crate) usual: LaunchPiece,
    /// Number of pieces that repeat.
    pub(crate) repeated: usize,
    /// Number of pieces with a neighbour of their own kind.
    in_a_row: usize,
    /// Kernel time in pieces that repeat, ns.
    covered: i64,
    /// Kernel time in those of the usual kind, ns.
    usual_covered: i64,
}

/// The levels of a sequence, the shortest first; `time` is the kernel time of all of it.
pub(crate) fn find_levels(
    sequence: &Sequence,
    runs: &mut Runs<'_>,
    time: i64,
) -> Vec<RepetitionLevel> {
    let least = (REPETITION_MIN_TIME_SHARE * time as f64) as i64;
    let mut levels: Vec<RepetitionLevel> = regular_anchors(sequence, runs, least)
        .into_iter()
        .filter_map(|anchor| RepetitionLevel::at_anchor(sequence, runs, &anchor))
        .filter(|level| level.covered >= least)
        .collect();
    sort_ascending(&mut levels, |level| level.period as i64);
    // Pieces of about one length are one class.
    let mut class = 0;
    for index in 1..levels.len() {
        let apart =
            levels[index - 1].period as f64 <= PIECES_ALIKE_MIN_SHARE * levels[index].period as f64;
        class += usize::from(apart);
        levels[index].class = class;
    }
    levels
}

/// Places of runs with regular distances: for each distance of the few that cover most.
fn regular_anchors(sequence: &Sequence, runs: &Runs<'_>, least: i64) -> Vec<Vec<u32>> {
    let mut best: FxHashMap<u32, Vec<(i64, &[u32])>> = FxHashMap::default();
    let mut lengths = Vec::new();
    for places in runs.all_places() {
        lengths.clear();
        lengths.extend(runs.cut_pieces(places).map(|piece| piece.len()));
        let Some(usual) = upper_median(&mut lengths) else {
            continue;
        };
        let slack = (PERIOD_NEAR_MAX_SHARE * usual as f64) as usize;
        let near = |length: &usize| length.abs_diff(usual) <= slack;
        let regular = lengths.iter().filter(|length| near(length)).count();
        if (regular as f64) < PIECES_REGULAR_MIN_SHARE * places.len() as f64 {
            continue;
        }
        let mut covered = 0;
        for piece in runs.cut_pieces(places) {
            if near(&piece.len()) {
                covered += sequence.time(piece.start, piece.end);
            }
        }
        if covered < least {
            continue;
        }
        let known = best
            .entry((3.0 * (usual as f64).log2()) as u32)
            .or_default();
        known.push((covered, places));
        // The sort is stable: of equals the shorter run and the earlier symbol stay first.
        known.sort_by_key(|&(covered, _)| std::cmp::Reverse(covered));
        known.truncate(ANCHORS_TRIED_MAX);
    }
    // Levels are put in order of their distance; a stable order of equals needs one here.
    let mut anchors: Vec<&[u32]> = best
        .into_values()
        .flatten()
        .map(|(_, places)| places)
        .collect();
    anchors.sort_by_key(|places| (places[0], places.len()));
    anchors.into_iter().map(<[u32]>::to_vec).collect()
}

impl RepetitionLevel {
    /// Cuts a sequence at the places of an anchor; `None` if the pieces are not alike.
    fn at_anchor(sequence: &Sequence, runs: &mut Runs<'_>, anchor: &[u32]) -> Option<Self> {
        let pieces: Vec<LaunchPiece> = runs.cut_pieces(anchor).collect();
        let (kinds, of) = runs.sort_into_kinds(&pieces);
        let time = |piece: LaunchPiece| sequence.time(piece.start, piece.end);
        let kind = |index: usize| of.get(index).copied().flatten();
        let in_a_row = |index: usize| {
            let beside = [index.checked_sub(1), Some(index + 1)];
            of[index].is_some()
                && beside
                    .iter()
                    .any(|&other| other.and_then(kind) == of[index])
        };
        // In a row, or so large and often that it is no chance.
        let repeats = |index: usize| {
            let members = kind(index).map_or(0, |own| kinds[own].members);
            let kernels = sequence.kernels(pieces[index].start, pieces[index].end);
            let all = u64::from(members.saturating_sub(1)) * kernels;
            in_a_row(index)
                || (kernels >= SHARED_RUNS_MIN_LAUNCHES as u64 && all >= REPETITION_KERNELS_MIN)
        };
        let repeats: Vec<bool> = (0..pieces.len()).map(repeats).collect();
        let first = repeats.iter().position(|&repeats| repeats)?;
        let last = repeats.iter().rposition(|&repeats| repeats)?;
        let repeated = repeats.iter().filter(|&&repeats| repeats).count();
        // A piece at the end of an interval is mostly cut off.
        let counted = (first..=last).filter(|&index| repeats[index] || !pieces[index].last);
        if (repeated as f64) < PIECES_REPEATED_MIN_SHARE * counted.count() as f64 {
            return None;
        }
        let often = kinds
            .iter()
            .enumerate()
            .filter(|(_, kind)| kind.members > 1);
        let (usual_kind, usual) = often
            .map(|(number, kind)| (number, kind.usual(), kind.members))
            .max_by_key(|&(_, usual, members)| time(usual).saturating_mul(i64::from(members)))
            .map(|(number, usual, _)| (number, usual))?;
        let sum = |chosen: &dyn Fn(usize) -> bool| {
            let chosen = (0..pieces.len()).filter(|&index| repeats[index] && chosen(index));
            chosen.map(|index| time(pieces[index])).sum()
        };
        let kernels = (0..pieces.len()).filter(|&index| repeats[index]);
        let kernels: u64 = kernels
            .map(|index| sequence.kernels(pieces[index].start, pieces[index].end))
            .sum();
        let covered = sum(&|_| true);
        let usual_covered = sum(&|index| of[index] == Some(usual_kind));
        (kernels >= REPETITION_KERNELS_MIN).then_some(Self {
            class: 0,
            period: usual.len(),
            usual,
            repeated,
            in_a_row: (0..of.len()).filter(|&index| in_a_row(index)).count(),
            covered,
            usual_covered,
            pieces,
        })
    }

    /// Whether pieces of a kind follow each other: halves of a layer come by turns.
    fn is_uniform(&self) -> bool {
        self.in_a_row as f64 >= PIECES_REGULAR_MIN_SHARE * self.pieces.len() as f64
    }

    /// Whether the usual piece and most others hold something that occurs so often before each launch.
    fn holds(&self, before: &[u32]) -> bool {
        let within = |piece: &LaunchPiece| before[piece.end] > before[piece.start];
        let whole = self.pieces.iter().filter(|piece| !piece.last);
        let (pieces, with) = whole.fold((0, 0), |(pieces, with), piece| {
            (pieces + 1, with + usize::from(within(piece)))
        });
        within(&self.usual) && with as f64 >= PIECES_REPEATED_MIN_SHARE * pieces as f64
    }
}

/// Of the shortest class that has such levels, the one that covers most.
fn shortest_level<'a>(
    levels: &[&'a RepetitionLevel],
    fits: impl Fn(&RepetitionLevel) -> bool,
) -> Option<&'a RepetitionLevel> {
    let class = levels.iter().find(|level| fits(level))?.class;
    let same = levels
        .iter()
        .filter(|level| level.class == class && fits(level));
    let rank = |level: &RepetitionLevel| {
        (
            level.covered,
            level.repeated,
            std::cmp::Reverse(level.usual.start),
        )
    };
    same.copied().max_by_key(|level| rank(level))
}

/// What the levels of a sequence are.
pub(crate) struct StepChoice<'a> {
    pub(crate) steps: Option<&'a RepetitionLevel>,
    /// Whether names of kernels, or layers inside, say that these are steps of a model.
    pub(crate) certain: bool,
    /// Whether kernels are known that come once a step.
    pub(crate) marked: bool,
}

/// Says which level is that of steps.
pub(crate) fn choose_steps<'a>(
    sequence: &Sequence,
    intervals: &[(usize, usize)],
    levels: &'a [RepetitionLevel],
    runs: &mut Runs<'_>,
) -> StepChoice<'a> {
    let most = levels.iter().map(|level| level.covered).max().unwrap_or(0);
    let levels: Vec<&RepetitionLevel> = levels
        .iter()
        .filter(|level| level.covered as f64 >= PIECES_REGULAR_MIN_SHARE * most as f64)
        .collect();
    let attention = counts_before(sequence, |symbol| sequence.signs[symbol as usize].attention);
    let chooses = counts_before(sequence, |symbol| {
        u32::from(sequence.signs[symbol as usize].chooses)
    });
    let layers = shortest_level(&levels, |level| {
        let held = attention[level.usual.end] - attention[level.usual.start];
        level.is_uniform()
            && level.holds(&attention)
            && held <= LAYER_ATTENTION_KERNELS_MAX
            && !level.holds(&chooses)
    });
    // A lookup of the same name in each layer marks no step.
    let in_layer = |symbol: u32| {
        let usual = layers.map(|level| &sequence.symbols[level.usual.start..level.usual.end]);
        usual.is_some_and(|usual| usual.contains(&symbol))
    };
    let lookups: Vec<bool> = (0..sequence.signs.len() as u32)
        .map(|symbol| sequence.signs[symbol as usize].embeds && !in_layer(symbol))
        .collect();
    let embeds = counts_before(sequence, |symbol| u32::from(lookups[symbol as usize]));
    let around = |level: &RepetitionLevel| layers.is_none_or(|layer| level.class > layer.class);
    let held = |before: &&&Vec<u32>| {
        intervals
            .iter()
            .any(|&(start, end)| before[end] > before[start])
    };
    let marks: Vec<&Vec<u32>> = [&chooses, &embeds].iter().filter(held).copied().collect();
    if !marks.is_empty() {
        let steps = marks.iter().find_map(|marks| {
            let fits = |level: &RepetitionLevel| around(level) && level.holds(marks);
            let often = shortest_level(&levels, |level| {
                fits(level) && level.repeated >= REPETITIONS_MIN
            });
            often.or_else(|| shortest_level(&levels, fits))
        });
        return StepChoice {
            steps,
            certain: true,
            marked: true,
        };
    }
    let often = |level: &RepetitionLevel| {
        around(level)
            && level.repeated >= REPETITIONS_MIN
            && level.usual_covered as f64 >= PIECES_REGULAR_MIN_SHARE * level.covered as f64
    };
    let (steps, certain) = if layers.is_some() {
        (shortest_level(&levels, often), true)
    } else {
        longest_level(sequence, runs, &levels, often)
    };
    StepChoice {
        steps,
        certain,
        marked: false,
    }
}

/// How much of something there is before each launch, and in all.
fn counts_before(sequence: &Sequence, of: impl Fn(u32) -> u32) -> Vec<u32> {
    let counts = sequence.symbols.iter().scan(0, |sum, &symbol| {
        *sum += of(symbol);
        Some(*sum)
    });
    std::iter::once(0).chain(counts).collect()
}

/// The longest level that is no row of pieces of another, and whether others lie inside.
fn longest_level<'a>(
    sequence: &Sequence,
    runs: &mut Runs<'_>,
    levels: &[&'a RepetitionLevel],
    fits: impl Fn(&RepetitionLevel) -> bool,
) -> (Option<&'a RepetitionLevel>, bool) {
    let classes = levels.last().map_or(0, |level| level.class + 1);
    let often: Vec<&RepetitionLevel> = (0..classes)
        .filter_map(|class| shortest_level(levels, |level| level.class == class && fits(level)))
        .collect();
    let Some(mut chosen) = often.len().checked_sub(1) else {
        return (None, false);
    };
    while let Some(inner) = (0..chosen)
        .rev()
        .find(|&inner| is_row(sequence, runs, often[chosen].usual, often[inner]))
    {
        chosen = inner;
    }
    (Some(often[chosen]), chosen > 0)
}

/// Whether a piece is a row of pieces of a shorter level, each a step of some kind: most are the usual one, give or take one
/// launch, others about as large and different, or the usual one and as much behind it. A layer with the little that
/// follows the last layer is none.
fn is_row(
    sequence: &Sequence,
    runs: &mut Runs<'_>,
    piece: LaunchPiece,
    inner: &RepetitionLevel,
) -> bool {
    let kernels = |piece: LaunchPiece| sequence.kernels(piece.start, piece.end) as f64;
    let usual = kernels(inner.usual);
    if usual < REPETITION_KERNELS_MIN as f64 {
        return false;
    }
    let (mut parts, mut alike) = (0, 0);
    for part in &inner.pieces {
        if !(piece.start..piece.end).contains(&part.start) || part.last {
            continue;
        }
        let size = kernels(*part) / usual;
        if part.len().abs_diff(inner.period) <= 1 && runs.are_alike(*part, inner.usual) {
            alike += 1;
        } else if size < PIECES_ALIKE_MIN_SHARE
            || (size < 1.0 + PIECES_ALIKE_MIN_SHARE
                && runs.shared_part(*part, inner.usual) * size >= PIECES_REGULAR_MIN_SHARE)
        {
            return false;
        }
        parts += 1;
    }
    parts > 1 && alike as f64 >= PIECES_REPEATED_MIN_SHARE * f64::from(parts)
}
