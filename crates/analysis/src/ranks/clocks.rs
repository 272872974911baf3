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
use crate::thresholds::{CLOCK_DRIFT_MAX_SHARE, DRIFT_ERRORS_MIN, DRIFT_MIN_NS};

/// Where the clock of one rank stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankClock {
    /// The clock of this rank less that of the first, where both say when their zero was.
    pub offset_ns: Nanos,
    /// How much faster it runs than the median of the ranks, millionths; 0 where the ends of collectives show no drift.
    #[serde(default)]
    pub drift_ppm: f64,
    /// Half of the collectives agree with the offset to this.
    pub spread_ns: Nanos,
    /// Number of collectives that the clock was aligned by; 0 for a rank that shares none.
    pub collectives: u64,
}

/// From the clock of one rank to the common one.
#[derive(Clone, Copy, Debug, Default)]
struct ClockFit {
    shift: i64,
    /// What is added for each ns after `pivot`.
    rate: f64,
    pivot: i64,
}

impl ClockFit {
    fn to_common(self, time: i64) -> i64 {
        let drift = self.rate * time.saturating_sub(self.pivot) as f64;
        time.saturating_add(self.shift)
            .saturating_add(drift.round() as i64)
    }
}

/// The clocks of all ranks.
pub(super) struct AlignedClocks {
    fits: Vec<ClockFit>,
    pub(super) clocks: Vec<RankClock>,
    /// Ranks that share no collective with the others: their clocks are taken as they are.
    pub(super) alone: Vec<usize>,
}

/// Smallest tolerance between aligned clocks: shorter differences are not worth doubting.
const TOLERANCE_MIN_NS: i64 = 5_000;
/// Rounds in which each rank is fitted to the median of the others.
const FIT_ROUNDS: usize = 6;
/// Fewer collectives than this show no drift: the spread of a few is too small by chance.
const DRIFT_COLLECTIVES_MIN: usize = 24;

impl AlignedClocks {
    /// Clocks that need no alignment, as those of one host's devices.
    pub(super) fn as_is(ranks: usize) -> Self {
        Self {
            fits: vec![ClockFit::default(); ranks],
            clocks: vec![RankClock::default(); ranks],
            alone: Vec::new(),
        }
    }

    /// A time of one rank on the common clock.
    pub(super) fn to_common(&self, rank: usize, time: i64) -> i64 {
        self.fits[rank].to_common(time)
    }

    /// How far ends of one collective may be apart: half of them are within the spread, nearly all within some times of it.
    pub(super) fn tolerance(&self) -> i64 {
        let spreads = self.clocks.iter().map(|clock| clock.spread_ns.0);
        let worst = spreads.max().unwrap_or(0);
        worst.saturating_mul(8).max(TOLERANCE_MIN_NS)
    }
}

/// Aligns all ranks that share collectives, directly or through others. Time is linear in the number of collectives and their
/// members.
pub(super) fn align_clocks(ranks: &[&RankCalls], matched: &[Matched]) -> AlignedClocks {
    let origin = |rank: usize| ranks[rank].origin;
    let pivot = |rank: usize| {
        let first = ranks[rank].collectives.first();
        first.map_or(0, |instance| instance.start)
    };
    let by_clock = |rank: usize| origin(rank).saturating_sub(origin(0));
    let mut result = AlignedClocks {
        // On the clock of the first rank, were all clocks right.
        fits: (0..ranks.len())
            .map(|rank| ClockFit {
                shift: by_clock(rank),
                rate: 0.0,
                pivot: pivot(rank),
            })
            .collect(),
        clocks: vec![RankClock::default(); ranks.len()],
        alone: Vec::new(),
    };
    let is_exact = |matched: &Matched| {
        let &(rank, index) = &matched.members[0];
        ranks[rank].collectives[index].kind.ends_together()
    };
    let (exact, rough): (Vec<&Matched>, Vec<&Matched>) =
        matched.iter().partition(|matched| is_exact(matched));
    let mut reached = ReachedRanks::new(ranks, &exact);
    reached.spread_from(0, ranks, &mut result.fits);
    // Kinds whose ends are not one moment count only for ranks that share no other kind.
    let mut by_rough = ReachedRanks::new(ranks, &rough);
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
    for round in 0..=FIT_ROUNDS {
        refine_fits(ranks, &exact, &rough, &mut result, round == FIT_ROUNDS);
    }
    anchor_to_first(&mut result, by_clock);
    result
}

/// Ranks whose clocks are set, and the collectives by which they set those of others.
struct ReachedRanks<'a> {
    matched: &'a [&'a Matched],
    /// For each rank its collectives, by their numbers in `matched`.
    of_rank: Vec<Vec<u32>>,
    is_used: Vec<bool>,
    is_done: Vec<bool>,
}

impl<'a> ReachedRanks<'a> {
    fn new(ranks: &[&RankCalls], matched: &'a [&'a Matched]) -> Self {
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
    fn spread_from(&mut self, first: usize, ranks: &[&RankCalls], fits: &mut [ClockFit]) {
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
                let own = fits[rank].to_common(end(rank, own));
                for &(member, index) in members.iter().filter(|(member, _)| !self.is_done[*member])
                {
                    let other = fits[member].to_common(end(member, index));
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
fn refine_fits(
    ranks: &[&RankCalls],
    exact: &[&Matched],
    rough: &[&Matched],
    aligned: &mut AlignedClocks,
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
                    .map(|&(rank, index)| aligned.fits[rank].to_common(time(rank, index))),
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
            Some(drift) if (fit.rate - drift).abs() <= CLOCK_DRIFT_MAX_SHARE => {
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

/// Standard error of the difference of two medians of `count` values each: a median has 1.2533 times the error of a mean, and the
/// deviation of normal noise is 1.4826 times the median deviation.
fn median_difference_error(median_deviation: i64, count: usize) -> f64 {
    1.2533 * 1.4826 * std::f64::consts::SQRT_2 * median_deviation as f64 / (count as f64).sqrt()
}

/// How fast lateness grows over time: the slope between the medians of the first and the last third. `None` if chance could give
/// that slope as well.
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
    let is_sure = change.abs() as f64 > DRIFT_ERRORS_MIN * median_difference_error(spread, third);
    let recorded = list[list.len() - 1].0.saturating_sub(list[0].0);
    (is_sure && rate.abs() * recorded as f64 > DRIFT_MIN_NS).then_some(rate)
}

/// Collectives fix clocks against each other only: the common clock runs at the median rate of all ranks, and shows the first
/// rank's time when that rank had its first collective.
fn anchor_to_first(aligned: &mut AlignedClocks, by_clock: impl Fn(usize) -> i64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of collectives 800 µs apart on a clock that runs `ppm` faster, seen to `noise_ns`: numbers that look random and are the same
    /// every time.
    fn ends(count: u64, ppm: f64, noise_ns: f64, seed: u64) -> Vec<(i64, i64)> {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut noise = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
        };
        (0..count as i64)
            .map(|collective| {
                let time = 800_000 * collective;
                let late = time as f64 * ppm * 1e-6 + noise_ns * noise();
                (time, late.round() as i64)
            })
            .collect()
    }

    /// 120 collectives in 96 ms, whose ends are seen to half a microsecond: 20 ppm move the last by 1.9 µs.
    #[test]
    fn a_drift_of_two_microseconds_is_seen() {
        for seed in 0..100 {
            let drift = drift_of(&ends(120, 20.0, 500.0, seed)).unwrap() * 1e6;
            assert!((drift - 20.0).abs() < 6.0, "{seed}: {drift}");
        }
    }

    /// A quarter is hidden by noise, twice as much never: docs/ranks.md states the limit between them.
    #[test]
    fn the_least_drift_that_is_seen_falls_with_the_collectives() {
        for (count, limit_ppm) in [(64, 33.0), (120, 13.0), (240, 4.6)] {
            for seed in 0..200 {
                let is_seen = |ppm| drift_of(&ends(count, ppm, 500.0, seed)).is_some();
                assert!(is_seen(2.0 * limit_ppm), "{count} {seed}");
                assert!(!is_seen(0.25 * limit_ppm), "{count} {seed}");
            }
        }
    }

    #[test]
    fn noise_of_thousands_of_ranks_is_no_drift() {
        for (count, noise_ns) in [(24, 500.0), (24, 20_000.0), (120, 500.0), (120, 20_000.0)] {
            for seed in 0..4_096 {
                let drift = drift_of(&ends(count, 0.0, noise_ns, seed));
                assert_eq!(drift, None, "{count} {noise_ns} {seed}");
            }
        }
    }
}
