//! Ranks that hold the others up step after step, or in single steps, and what they did differently.

use std::collections::BTreeMap;

use llmprof_record::rank_summary::{IDLE_CAUSES, RankStep, RankSummary};
use llmprof_units::{Nanos, stats::lower_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobRanks;
use super::blame::{Blamed, StepBlame};
use super::steps::own_times;
use crate::row_order::sort_descending;
use crate::thresholds::{
    STRAGGLER_DIFFERENCE_MIN_SHARE, STRAGGLER_STEP_MIN_SHARE, STRAGGLER_STEPS_MIN_SHARE,
};

/// A rank that others wait for because of its own work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Straggler {
    /// Number of the rank in the job.
    pub rank: u32,
    /// Steps in which it held the others up, of those that it has.
    pub slow_steps: Vec<u64>,
    /// Steps that this rank recorded, slow or not.
    pub steps: u64,
    /// Whether it did so in at least half of its steps, of two or more.
    pub is_stable: bool,
    /// How much longer than its peers it worked in one slow step: the mean.
    pub own_delay_ns: Nanos,
    /// What another rank waited because of it in one slow step: the mean over steps and ranks, delays that others passed on included.
    pub caused_waiting_ns: Nanos,
    /// The same over the median duration of a step.
    pub share_of_step: f64,
    /// What took longer in its slow steps than on the median of its peers, in one step; the largest first.
    pub differences: Vec<RankDifference>,
}

/// Time of one kernel or one cause of idle time in a step, compared with the median of the peers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankDifference {
    /// The kernel or copy; absent for idle time.
    pub kernel: Option<String>,
    /// Why the device was idle; absent for kernels.
    pub idle_cause: Option<String>,
    /// Time on this rank in a slow step.
    pub time_ns: Nanos,
    /// Median of the other ranks.
    pub others_ns: Nanos,
    /// Calls in a step; 0 for idle time.
    pub calls: f64,
    /// Calls, median of the other ranks.
    pub others_calls: f64,
}

/// Maximum number of differences in the list of one straggler.
const DIFFERENCES_MAX: usize = 5;
/// Peers that a rank is compared with.
const PEERS_MAX: usize = 64;

/// The ranks that held others up, the costliest first.
pub(super) fn find_stragglers(job: &JobRanks<'_>, blamed: &Blamed) -> Vec<Straggler> {
    let own_times = own_times(job);
    let mut stragglers: Vec<Straggler> = (0..job.summaries.len())
        .filter_map(|rank| judge_rank(job, blamed, &own_times, rank))
        .collect();
    let cost = |straggler: &Straggler| {
        straggler
            .caused_waiting_ns
            .0
            .saturating_mul(straggler.slow_steps.len() as i64)
    };
    stragglers.sort_by_key(|straggler| {
        (
            std::cmp::Reverse((straggler.is_stable, cost(straggler))),
            straggler.rank,
        )
    });
    stragglers
}

/// Whether a rank worked for at least as long as the median of the others in a step: one that waits for them longer than they for it
/// does not hold them up.
fn is_long(job: &JobRanks<'_>, own_times: &[Vec<i64>], rank: usize, step: usize) -> bool {
    let is_step = |of_rank: &[Option<u32>]| of_rank[rank] == Some(step as u32);
    let Some(row) = job.steps.iter().find(|row| is_step(&row.of_rank)) else {
        return true;
    };
    let of_rank = row.of_rank.iter().enumerate();
    let of_others = of_rank.filter(|(other, _)| *other != rank);
    let times = of_others.filter_map(|(rank, step)| Some(own_times[rank][(*step)? as usize]));
    let mut times: Vec<i64> = times.collect();
    own_times[rank][step] >= lower_median(&mut times).unwrap_or_default()
}

fn judge_rank(
    job: &JobRanks<'_>,
    blamed: &Blamed,
    own_times: &[Vec<i64>],
    rank: usize,
) -> Option<Straggler> {
    let summary = job.summaries[rank];
    let others = (job.summaries.len() as i64 - 1).max(1);
    let waited = |blame: &StepBlame| blame.waiting_ns / others;
    let mut durations: Vec<i64> = summary.steps.iter().map(RankStep::duration_ns).collect();
    let usual = lower_median(&mut durations).unwrap_or_default().max(1);
    let least = STRAGGLER_STEP_MIN_SHARE * usual as f64;
    let slow: Vec<usize> = (0..summary.steps.len())
        .filter(|&step| blamed.steps[rank][step].own_delay_ns as f64 >= least)
        .filter(|&step| is_long(job, own_times, rank, step))
        .collect();
    if slow.is_empty() {
        return None;
    }
    let count = slow.len() as i64;
    let sum = |part: &dyn Fn(&StepBlame) -> i64| -> i64 {
        slow.iter()
            .map(|&step| part(&blamed.steps[rank][step]))
            .sum()
    };
    let own_delay = sum(&|blame| blame.own_delay_ns) / count;
    let caused = sum(&waited) / count;
    let steps = summary.steps.len();
    Some(Straggler {
        rank: summary.rank,
        slow_steps: slow
            .iter()
            .map(|&step| summary.steps[step].number.unwrap_or(step as u64))
            .collect(),
        steps: steps as u64,
        is_stable: steps > 1 && slow.len() as f64 >= STRAGGLER_STEPS_MIN_SHARE * steps as f64,
        own_delay_ns: Nanos(own_delay),
        caused_waiting_ns: Nanos(caused),
        share_of_step: caused as f64 / usual as f64,
        differences: compare_with_peers(job, blamed, rank, &slow, own_delay),
    })
}

/// Time of a rank in some steps, ns: by the names of kernels, with their calls, and by cause of idle time.
#[derive(Default)]
struct StepSpending<'a> {
    kernels: BTreeMap<&'a str, (i64, u64)>,
    idle: [i64; IDLE_CAUSES.len()],
    steps: i64,
}

impl<'a> StepSpending<'a> {
    fn over_steps(summary: &'a RankSummary, steps: impl Iterator<Item = usize>) -> Self {
        let mut spent = Self::default();
        for step in steps {
            let step = &summary.steps[step];
            for kernel in &step.kernels {
                let name = summary.names[kernel.name as usize].as_str();
                let (time, calls) = spent.kernels.entry(name).or_default();
                *time = time.saturating_add(kernel.sum_ns);
                *calls += kernel.calls;
            }
            for (sum, idle) in spent.idle.iter_mut().zip(step.idle_ns) {
                *sum = sum.saturating_add(idle);
            }
            spent.steps += 1;
        }
        spent
    }

    fn mean_kernel(&self, name: &str) -> (i64, f64) {
        let (time, calls) = self.kernels.get(name).copied().unwrap_or_default();
        (
            time / self.steps.max(1),
            calls as f64 / self.steps.max(1) as f64,
        )
    }

    fn mean_idle(&self, cause: usize) -> i64 {
        self.idle[cause] / self.steps.max(1)
    }
}

/// Ranks that do the same as this one: members of the largest collective at which it was late.
fn peer_ranks(job: &JobRanks<'_>, blamed: &Blamed, rank: usize) -> Vec<usize> {
    let Some(meeting) = blamed.peers[rank] else {
        return Vec::new();
    };
    let members = &job.met.meetings[meeting as usize].members;
    let others: Vec<usize> = members
        .iter()
        .map(|member| member.rank)
        .filter(|other| *other != rank)
        .collect();
    let every = others.len().div_ceil(PEERS_MAX).max(1);
    others.into_iter().step_by(every).collect()
}

fn compare_with_peers(
    job: &JobRanks<'_>,
    blamed: &Blamed,
    rank: usize,
    slow: &[usize],
    own_delay: i64,
) -> Vec<RankDifference> {
    // The columns of the slow steps: other ranks may have other numbers of steps.
    let columns: Vec<usize> = (0..job.steps.len())
        .filter(|&column| {
            job.steps[column].of_rank[rank].is_some_and(|step| slow.contains(&(step as usize)))
        })
        .collect();
    let spent = |rank: usize| {
        let steps = columns
            .iter()
            .filter_map(|&column| job.steps[column].of_rank[rank]);
        StepSpending::over_steps(job.summaries[rank], steps.map(|step| step as usize))
    };
    let own = spent(rank);
    let others: Vec<StepSpending<'_>> = peer_ranks(job, blamed, rank)
        .into_iter()
        .map(spent)
        .filter(|spent| spent.steps > 0)
        .collect();
    if others.is_empty() || own.steps == 0 {
        return Vec::new();
    }
    let mut differences = Vec::new();
    for name in own.kernels.keys() {
        let (time, calls) = own.mean_kernel(name);
        let mut times: Vec<i64> = others
            .iter()
            .map(|other| other.mean_kernel(name).0)
            .collect();
        let mut counts: Vec<i64> = others
            .iter()
            .map(|other| (other.mean_kernel(name).1 * 1e3) as i64)
            .collect();
        differences.push(RankDifference {
            kernel: Some((*name).to_owned()),
            idle_cause: None,
            time_ns: Nanos(time),
            others_ns: Nanos(lower_median(&mut times).unwrap_or_default()),
            calls,
            others_calls: lower_median(&mut counts).unwrap_or_default() as f64 / 1e3,
        });
    }
    for (cause, name) in IDLE_CAUSES.iter().enumerate() {
        let mut times: Vec<i64> = others.iter().map(|other| other.mean_idle(cause)).collect();
        differences.push(RankDifference {
            kernel: None,
            idle_cause: Some((*name).to_owned()),
            time_ns: Nanos(own.mean_idle(cause)),
            others_ns: Nanos(lower_median(&mut times).unwrap_or_default()),
            calls: 0.0,
            others_calls: 0.0,
        });
    }
    let excess = |row: &RankDifference| row.time_ns.0.saturating_sub(row.others_ns.0);
    differences.retain(|row| {
        excess(row) as f64 >= STRAGGLER_DIFFERENCE_MIN_SHARE * own_delay.max(1) as f64
    });
    sort_descending(&mut differences, excess);
    differences.truncate(DIFFERENCES_MAX);
    differences
}
