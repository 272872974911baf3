//! Clocks of ranks, aligned by the ends of collectives: no rank can leave one before all have entered, so that the ends of all
//! ranks are one moment. A clock has an offset, and a drift where the ends show one.

use std::collections::{BTreeMap, VecDeque};

use llmprof_units::{
    Nanos,
    stats::{lower_median, median, median_deviation, whole_median},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::matched::Matched;
use crate::ranks::work::RankCalls;

/// Where the clock of one rank stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Clock {
    /// The clock of this rank less that of the first, where both say when their zero was.
    pub offset_ns: Nanos,
    /// How much faster it runs than the median of the ranks, millionths; 0 where the ends of collectives show no drift.
    #[serde(default)]
    pub drift_ppm: f64,
    /// Half of the collectives agree with the offset to this.
    pub spread_ns: Nanos,
    /// Collectives that it was found by; 0 for a rank that shares none.
    pub collectives: u64,
}

/// From the clock of one rank to the common one.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    shift: i64,
    /// What is added for each ns after `pivot`.
    rate: f64,
    pivot: i64,
}

impl Fit {
    fn common(&self, time: i64) -> i64 {
        let drift = self.rate * time.saturating_sub(self.pivot) as f64;
        time.saturating_add(self.shift)
            .saturating_add(drift.round() as i64)
    }
}

/// The clocks of all ranks.
pub(super) struct Aligned {
    fits: Vec<Fit>,
    pub(super) clocks: Vec<Clock>,
    /// Ranks that share no collective with the others: their clocks are taken as they are.
    pub(super) alone: Vec<usize>,
}

/// Below this, clocks are not worth doubting, ns.
const TOLERANCE_MIN_NS: i64 = 5_000;
/// Rounds in which each rank is fitted to the median of the others.
const ROUNDS: usize = 6;
/// Fewer collectives than this show no drift.
const DRIFT_COLLECTIVES_MIN: usize = 12;
/// A drift must move the clock by this many spreads over the recording, and by at least [`DRIFT_MIN_NS`].
const DRIFT_SPREADS_MIN: i64 = 4;
const DRIFT_MIN_NS: i64 = 2_000;
/// Oscillators are within 100 ppm of each other; ten times as much is another mistake.
const DRIFT_MAX: f64 = 1e-3;

impl Aligned {
    /// Ranks with one clock.
    pub(super) fn as_is(ranks: usize) -> Self {
        Self {
            fits: vec![Fit::default(); ranks],
            clocks: vec![Clock::default(); ranks],
            alone: Vec::new(),
        }
    }

    /// A time of one rank on the common clock.
    pub(super) fn common(&self, rank: usize, time: i64) -> i64 {
        self.fits[rank].common(time)
    }

    /// How far ends of one collective may be apart: half of them are within the spread, nearly all within some times of it.
    pub(super) fn tolerance(&self) -> i64 {
        let spreads = self.clocks.iter().map(|clock| clock.spread_ns.0);
        let worst = spreads.max().unwrap_or(0);
        worst.saturating_mul(8).max(TOLERANCE_MIN_NS)
    }
}

/// Aligns all ranks that share collectives, directly or through others. Each collective is looked at a few times, whatever the
/// number of ranks.
pub(super) fn aligned(ranks: &[&RankCalls], matched: &[Matched]) -> Aligned {
    let origin = |rank: usize| ranks[rank].origin;
    let pivot = |rank: usize| {
        let first = ranks[rank].collectives.first();
        first.map_or(0, |instance| instance.start)
    };
    let by_clock = |rank: usize| origin(rank).saturating_sub(origin(0));
    let mut result = Aligned {
        // On the clock of the first rank, were all clocks right.
        fits: (0..ranks.len())
            .map(|rank| Fit {
                shift: by_clock(rank),
                rate: 0.0,
                pivot: pivot(rank),
            })
            .collect(),
        clocks: vec![Clock::default(); ranks.len()],
        alone: Vec::new(),
    };
    let is_exact = |matched: &Matched| {
        let &(rank, index) = &matched.members[0];
        ranks[rank].collectives[index].kind.ends_together()
    };
    let (exact, rough): (Vec<&Matched>, Vec<&Matched>) =
        matched.iter().partition(|matched| is_exact(matched));
    let mut reached = Reached::of(ranks, &exact);
    reached.spread_from(0, ranks, &mut result.fits);
    // Kinds whose ends are not one moment count only where there are no others.
    let mut by_rough = Reached::of(ranks, &rough);
    by_rough.is_done.clone_from(&reached.is_done);
    let done: Vec<usize> = (0..ranks.len())
        .filter(|&rank| reached.is_done[rank])
        .collect();
    for rank in done {
        by_rough.spread_from(rank, ranks, &mut result.fits);
    }
    result.alone = (0..ranks.len())
        .filter(|&rank| !by_rough.is_done[rank])
        .collect();
    for round in 0..=ROUNDS {
        refine(ranks, &exact, &rough, &mut result, round == ROUNDS);
    }
    anchor(&mut result, by_clock);
    result
}

/// Ranks whose clocks are set, and the collectives by which they set those of others.
struct Reached<'a> {
    matched: &'a [&'a Matched],
    /// For each rank its collectives, by their numbers in `matched`.
    of_rank: Vec<Vec<u32>>,
    is_used: Vec<bool>,
    is_done: Vec<bool>,
}

impl<'a> Reached<'a> {
    fn of(ranks: &[&RankCalls], matched: &'a [&'a Matched]) -> Self {
        let mut of_rank = vec![Vec::new(); ranks.len()];
        for (number, matched) in matched.iter().enumerate() {
            for (rank, _) in &matched.members {
                of_rank[*rank].push(number as u32);
            }
        }
        Self {
            matched,
            of_rank,
            is_used: vec![false; matched.len()],
            is_done: vec![false; ranks.len()],
        }
    }

    /// Sets the clocks of all that share a collective with `first`, then of those that share one with them.
    fn spread_from(&mut self, first: usize, ranks: &[&RankCalls], fits: &mut [Fit]) {
        let mut queue = VecDeque::from([first]);
        self.is_done[first] = true;
        let end = |rank: usize, index: usize| ranks[rank].collectives[index].end;
        while let Some(rank) = queue.pop_front() {
            let mut later: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
            for number in std::mem::take(&mut self.of_rank[rank]) {
                // Whoever used it has set the clocks of all its members.
                if std::mem::replace(&mut self.is_used[number as usize], true) {
                    continue;
                }
                let members = &self.matched[number as usize].members;
                let Some(&(_, own)) = members.iter().find(|(member, _)| *member == rank) else {
                    continue;
                };
                let own = fits[rank].common(end(rank, own));
                for &(member, index) in members.iter().filter(|(member, _)| !self.is_done[*member])
                {
                    let other = fits[member].common(end(member, index));
                    later
                        .entry(member)
                        .or_default()
                        .push(other.saturating_sub(own));
                }
            }
            for (member, mut differences) in later {
                fits[member].shift = fits[member]
                    .shift
                    .saturating_sub(lower_median(&mut differences).unwrap_or_default());
                self.is_done[member] = true;
                queue.push_back(member);
            }
        }
    }
}

/// Fits each rank to the median ends of its collectives. The last round only says how well they agree.
fn refine(
    ranks: &[&RankCalls],
    exact: &[&Matched],
    rough: &[&Matched],
    aligned: &mut Aligned,
    is_last: bool,
) {
    // For each rank, when its collectives ended by its clock and how much later than the median of all members.
    let mut residuals: Vec<Vec<(i64, i64)>> = vec![Vec::new(); ranks.len()];
    let mut collect = |list: &[&Matched], only_without: bool| {
        let has = residuals
            .iter()
            .map(|list| !list.is_empty())
            .collect::<Vec<_>>();
        let mut ends = Vec::new();
        for matched in list {
            ends.clear();
            let time = |rank: usize, index: usize| ranks[rank].collectives[index].end;
            ends.extend(
                matched
                    .members
                    .iter()
                    .map(|&(rank, index)| aligned.fits[rank].common(time(rank, index))),
            );
            let together = whole_median(&mut ends.clone()).unwrap_or_default();
            for (&(rank, index), end) in matched.members.iter().zip(&ends) {
                if !(only_without && has[rank]) {
                    residuals[rank].push((time(rank, index), end.saturating_sub(together)));
                }
            }
        }
    };
    collect(exact, false);
    collect(rough, true);
    for (rank, mut list) in residuals.into_iter().enumerate() {
        if list.is_empty() {
            continue;
        }
        list.sort_unstable();
        let mut late: Vec<i64> = list.iter().map(|(_, late)| *late).collect();
        let (offset, spread) = median_deviation(&mut late).unwrap_or_default();
        if is_last {
            aligned.clocks[rank].spread_ns = Nanos(spread);
            aligned.clocks[rank].collectives = list.len() as u64;
            continue;
        }
        let fit = &mut aligned.fits[rank];
        match drift_of(&list) {
            Some(drift) if (fit.rate - drift).abs() <= DRIFT_MAX => {
                fit.rate -= drift;
                let about = fit.pivot;
                let mut rest: Vec<i64> = list
                    .iter()
                    .map(|(time, late)| {
                        late - (drift * time.saturating_sub(about) as f64).round() as i64
                    })
                    .collect();
                fit.shift = fit
                    .shift
                    .saturating_sub(lower_median(&mut rest).unwrap_or_default());
            }
            _ => fit.shift = fit.shift.saturating_sub(offset),
        }
    }
}

/// How fast lateness grows over time: the line through the medians of the first and the last third. Nothing where it is no larger than
/// the spread about it.
fn drift_of(list: &[(i64, i64)]) -> Option<f64> {
    let third = list.len() / 3;
    if list.len() < DRIFT_COLLECTIVES_MIN {
        return None;
    }
    let medians = |part: &[(i64, i64)]| {
        let mut times: Vec<i64> = part.iter().map(|(time, _)| *time).collect();
        let mut late: Vec<i64> = part.iter().map(|(_, late)| *late).collect();
        (
            lower_median(&mut times).unwrap_or_default(),
            lower_median(&mut late).unwrap_or_default(),
        )
    };
    let (first, last) = (
        medians(&list[..third]),
        medians(&list[list.len() - third..]),
    );
    let span = last.0.saturating_sub(first.0);
    let change = last.1.saturating_sub(first.1);
    if span <= 0 {
        return None;
    }
    let rate = change as f64 / span as f64;
    let mut rest: Vec<i64> = list
        .iter()
        .map(|(time, late)| late - (rate * time.saturating_sub(first.0) as f64).round() as i64)
        .collect();
    let (_, spread) = median_deviation(&mut rest).unwrap_or_default();
    let least = spread.saturating_mul(DRIFT_SPREADS_MIN).max(DRIFT_MIN_NS);
    (change.abs() > least).then_some(rate)
}

/// Collectives fix clocks against each other only: the common clock runs at the median rate of all ranks, and shows the first
/// rank's time when that rank had its first collective.
fn anchor(aligned: &mut Aligned, by_clock: impl Fn(usize) -> i64) {
    let mut rates: Vec<f64> = aligned.fits.iter().map(|fit| fit.rate).collect();
    let usual = median(&mut rates).unwrap_or(0.0);
    let Some(first) = aligned.fits.first().copied() else {
        return;
    };
    let begin = first.pivot;
    for fit in &mut aligned.fits {
        let since = fit
            .pivot
            .saturating_add(fit.shift)
            .saturating_sub(begin.saturating_add(first.shift));
        fit.rate -= usual;
        fit.shift = fit
            .shift
            .saturating_sub(first.shift)
            .saturating_sub((usual * since as f64).round() as i64);
    }
    for (rank, clock) in aligned.clocks.iter_mut().enumerate() {
        let fit = &aligned.fits[rank];
        clock.offset_ns = Nanos(by_clock(rank).saturating_sub(fit.shift));
        clock.drift_ppm = 0.0 - fit.rate * 1e6;
    }
}
