//! Steps of all ranks side by side.

use std::collections::BTreeMap;

use llmprof_record::rank_summary::{RankStep, RankSummary};
use llmprof_units::{
    Nanos,
    stats::{lower_median, median, whole_median},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobRanks;
use super::rows::exposed_waiting;
use crate::ranks::clocks::AlignedClocks;

/// One step on all ranks that have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct JobStep {
    /// The number that the profiles give it.
    pub number: Option<u64>,
    /// Ranks that have the step.
    pub ranks: u64,
    /// From the start of the step on the device to that of the next.
    pub median_ns: Nanos,
    /// Longest duration over the ranks.
    pub max_ns: Nanos,
    /// The rank whose own time, without waiting for others, is longest, and that time.
    pub longest_rank: u32,
    /// Longest own time: duration less waiting for other ranks.
    pub longest_own_ns: Nanos,
    /// The median of the own times.
    pub median_own_ns: Nanos,
}

/// The own time of each rank in each step: its time less what it waited for other ranks in collectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct StepTimes {
    /// Rank number of each row of `own_ns`.
    pub ranks: Vec<u32>,
    /// By rank, then step; −1 where a rank does not have the step.
    pub own_ns: Vec<Vec<i64>>,
}

/// The same step on all ranks: for each rank its number among the steps of the rank.
pub(super) struct StepRow {
    pub(super) number: Option<u64>,
    pub(super) of_rank: Vec<Option<u32>>,
}

/// Steps by their numbers where all have one, else by their time on the common clock: ranks may be recorded from different steps on.
pub(super) fn common_steps(summaries: &[&RankSummary], aligned: &AlignedClocks) -> Vec<StepRow> {
    let is_numbered = summaries
        .iter()
        .all(|summary| summary.steps.iter().all(|step| step.number.is_some()));
    let mut rows: BTreeMap<i64, StepRow> = BTreeMap::new();
    for (rank, summary) in summaries.iter().enumerate() {
        let Some(later) = (if is_numbered {
            Some(0)
        } else {
            steps_later(summaries, aligned, rank)
        }) else {
            continue;
        };
        for (index, step) in summary.steps.iter().enumerate() {
            let number = step.number.filter(|_| is_numbered);
            let place = number.map_or(index as i64 + later, u64::cast_signed);
            let row = rows.entry(place);
            let row = row.or_insert_with(|| StepRow {
                number,
                of_rank: vec![None; summaries.len()],
            });
            row.of_rank[rank].get_or_insert(index as u32);
        }
    }
    let mut rows: Vec<StepRow> = rows.into_values().collect();
    rows.retain(|row| row.of_rank.iter().flatten().count() > 1);
    rows
}

/// By how many steps of the first rank the recording of a rank begins later; `None` where no step of the two ran at one time. Without
/// marks, or without a common clock, the order is all that is known.
fn steps_later(summaries: &[&RankSummary], aligned: &AlignedClocks, rank: usize) -> Option<i64> {
    let (first, own) = (summaries.first()?, summaries[rank]);
    let is_known = first.has_marked_steps && own.has_marked_steps;
    if rank == 0 || !is_known || aligned.alone.contains(&rank) {
        return Some(0);
    }
    let begins = first
        .steps
        .iter()
        .map(|step| aligned.to_common(0, step.start_ns));
    let begins: Vec<i64> = begins.collect();
    let end = aligned.to_common(0, first.steps.last()?.end_ns);
    let later = own.steps.iter().enumerate().filter_map(|(index, step)| {
        let middle = step.start_ns.midpoint(step.end_ns);
        let middle = aligned.to_common(rank, middle);
        let after = begins.partition_point(|begin| *begin <= middle);
        (after > 0 && middle < end).then(|| after as i64 - 1 - index as i64)
    });
    lower_median(&mut later.collect::<Vec<i64>>())
}

/// The step of a rank in which a time lies.
pub(super) fn step_at(summary: &RankSummary, time: i64) -> Option<usize> {
    let after = summary.steps.partition_point(|step| step.start_ns <= time);
    let step = after.checked_sub(1)?;
    (time < summary.steps[step].end_ns).then_some(step)
}

/// Own times of all ranks by their own steps.
pub(super) fn own_times(job: &JobRanks<'_>) -> Vec<Vec<i64>> {
    let times = |rank: usize| {
        let summary = job.summaries[rank];
        let mut own: Vec<i64> = summary.steps.iter().map(RankStep::duration_ns).collect();
        for (index, call) in summary.collectives.iter().enumerate() {
            if let Some(step) = step_at(summary, call.start_ns) {
                own[step] = own[step].saturating_sub(exposed_waiting(job, rank, index));
            }
        }
        own
    };
    (0..job.summaries.len()).map(times).collect()
}

/// How unevenly the ranks compute.
pub(super) struct ComputeImbalance {
    /// The largest compute time ÷ the mean, less 1: the median of the steps.
    pub(super) excess: f64,
    /// The rank that computes longest in more than half of the steps.
    pub(super) rank: Option<u32>,
}

/// The steps, the table of own times, and how uneven computing is.
pub(super) fn compare_steps(job: &JobRanks<'_>) -> (Vec<JobStep>, StepTimes, ComputeImbalance) {
    let own = own_times(job);
    let mut steps = Vec::new();
    let mut imbalances = Vec::new();
    let mut longest_computing: BTreeMap<u32, usize> = BTreeMap::new();
    let mut table = vec![vec![-1; job.steps.len()]; job.summaries.len()];
    for (column, row) in job.steps.iter().enumerate() {
        let of_rank = row.of_rank.iter().enumerate();
        let present: Vec<(usize, usize)> = of_rank
            .filter_map(|(rank, step)| Some((rank, (*step)? as usize)))
            .collect();
        for &(rank, step) in &present {
            table[rank][column] = own[rank][step];
        }
        let step = |&(rank, step): &(usize, usize)| &job.summaries[rank].steps[step];
        let mut durations: Vec<i64> = present.iter().map(|at| step(at).duration_ns()).collect();
        let mut own_ns: Vec<i64> = present
            .iter()
            .map(|&(rank, step)| own[rank][step])
            .collect();
        let longest = present
            .iter()
            .max_by_key(|&&(rank, step)| (own[rank][step], std::cmp::Reverse(rank)));
        let computing: Vec<i64> = present.iter().map(|at| step(at).compute_ns).collect();
        let mean = computing.iter().sum::<i64>() as f64 / computing.len().max(1) as f64;
        if mean > 0.0 {
            let most = computing.iter().max().copied().unwrap_or(0);
            imbalances.push(most as f64 / mean - 1.0);
            if let Some(at) = computing.iter().position(|time| *time == most) {
                let rank = job.summaries[present[at].0].rank;
                *longest_computing.entry(rank).or_default() += 1;
            }
        }
        let (longest_rank, longest_own) = longest.map_or((0, 0), |&(rank, step)| {
            (job.summaries[rank].rank, own[rank][step])
        });
        steps.push(JobStep {
            number: row.number,
            ranks: present.len() as u64,
            median_ns: Nanos(whole_median(&mut durations).unwrap_or_default()),
            max_ns: Nanos(durations.iter().max().copied().unwrap_or(0)),
            longest_rank,
            longest_own_ns: Nanos(longest_own),
            median_own_ns: Nanos(whole_median(&mut own_ns).unwrap_or_default()),
        });
    }
    let compared = imbalances.len();
    let in_most_steps = |(_, steps): &(&u32, &usize)| **steps * 2 > compared;
    let imbalance = ComputeImbalance {
        excess: median(&mut imbalances).unwrap_or(0.0),
        rank: longest_computing
            .iter()
            .find(in_most_steps)
            .map(|(rank, _)| *rank),
    };
    let times = StepTimes {
        ranks: job.summaries.iter().map(|summary| summary.rank).collect(),
        own_ns: table,
    };
    (steps, times, imbalance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 1 ms that an optimizer ends, from `first` on.
    fn recorded_from(first: i64) -> RankSummary {
        let step = |number: i64| RankStep {
            start_ns: number * 1_000_000,
            end_ns: (number + 1) * 1_000_000,
            ..RankStep::default()
        };
        RankSummary {
            has_marked_steps: true,
            steps: (first..first + 5).map(step).collect(),
            ..RankSummary::default()
        }
    }

    #[test]
    fn steps_without_numbers_are_those_of_one_time() {
        let (first, later) = (recorded_from(0), recorded_from(2));
        let rows = common_steps(&[&first, &later], &AlignedClocks::as_is(2));
        let pairs: Vec<_> = rows.iter().map(|row| row.of_rank.clone()).collect();
        assert_eq!(
            pairs,
            [[Some(2), Some(0)], [Some(3), Some(1)], [Some(4), Some(2)]]
        );
        let apart = recorded_from(9);
        assert!(common_steps(&[&first, &apart], &AlignedClocks::as_is(2)).is_empty());
    }
}
