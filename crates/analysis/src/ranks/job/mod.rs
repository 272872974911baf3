//! A whole job from the summaries of its ranks: steps of all ranks, stragglers with their causes, slow links, process groups, and
//! the ranks to look at first.
//!
//! [`blame`] leads waiting back to the rank that caused it, [`stragglers`] says which ranks do so step after step and what they
//! did differently, [`links`] compares transfers of groups, [`layout`] reads the parallelism from process groups, [`rows`] sums up
//! the time of each rank.

mod blame;
mod layout;
mod links;
mod look_at;
mod rows;
mod steps;
mod stragglers;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::rank_summary::RankSummary;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(in crate::ranks) use self::layout::named_kind;
pub use self::layout::{GroupKind, GroupSet};
pub use self::links::SlowLink;
pub use self::look_at::{LookAtReason, RankToLookAt};
pub use self::steps::{JobStep, StepTimes};
pub use self::stragglers::{RankDifference, Straggler};
use crate::ranks::kind::CollectiveKind;
use crate::ranks::work::{Instance, RankCalls};
use crate::ranks::{Met, RanksAnalysis, meet_on_one_clock};

/// What all ranks of a job did, step by step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct JobAnalysis {
    /// Whether something in the profiles marks the steps; otherwise the whole recording is one.
    pub has_marked_steps: bool,
    /// Whether the ranks ran on CPUs alone: idle time is that without a recorded operator.
    #[serde(default)]
    pub on_host: bool,
    /// Steps that at least two ranks have.
    pub steps: Vec<JobStep>,
    /// Duration of every step on every rank without its waiting.
    pub step_times: StepTimes,
    /// The largest compute time of a rank ÷ the mean of all, less 1: the median of the steps.
    pub compute_imbalance: f64,
    /// The rank that computes longest in more than half of the steps.
    #[serde(default)]
    pub most_computing_rank: Option<u32>,
    /// Ranks that the others waited for, the costliest first.
    pub stragglers: Vec<Straggler>,
    /// Groups of ranks whose transfers are slow against like groups.
    pub slow_links: Vec<SlowLink>,
    /// Process groups by what they are for.
    pub groups: Vec<GroupSet>,
    /// At most ten, the most urgent first.
    pub look_at: Vec<RankToLookAt>,
    /// Events read from the profiles of all ranks.
    pub events: u64,
}

/// The ranks of a job with their collectives on one clock.
struct JobRanks<'a> {
    summaries: &'a [&'a RankSummary],
    calls: Vec<RankCalls>,
    met: Met,
    /// For each rank and collective, the meeting that it belongs to, and how much later its last rank began.
    meeting_of: Vec<Vec<Option<(u32, i64)>>>,
    steps: Vec<steps::StepRow>,
}

impl<'a> JobRanks<'a> {
    fn new(summaries: &'a [&'a RankSummary]) -> Self {
        let calls: Vec<RankCalls> = summaries.iter().map(|summary| calls_of(summary)).collect();
        let met = meet_on_one_clock(&calls.iter().collect::<Vec<_>>(), false);
        let mut meeting_of: Vec<Vec<Option<(u32, i64)>>> = calls
            .iter()
            .map(|calls| vec![None; calls.collectives.len()])
            .collect();
        for (number, meeting) in met.meetings.iter().enumerate() {
            for member in &meeting.members {
                let later = meeting.last_start.saturating_sub(member.start);
                meeting_of[member.rank][member.instance] = Some((number as u32, later));
            }
        }
        Self {
            steps: steps::common_steps(summaries, &met.aligned),
            summaries,
            calls,
            met,
            meeting_of,
        }
    }
}

/// A summary whose collectives are matched with those of others. Times stay those of the summary.
fn calls_of(summary: &RankSummary) -> RankCalls {
    let kinds: Vec<CollectiveKind> = summary
        .names
        .iter()
        .map(|name| CollectiveKind::from_table_name(name))
        .collect();
    let collectives = summary.collectives.iter().map(|call| Instance {
        start: call.start_ns,
        end: call.end_ns,
        kind: kinds[call.kind as usize],
        group: call.group,
        group_size: call.group_size,
        sequence: call.sequence,
        is_transfer: false,
        given: call.given,
        got: call.got,
    });
    RankCalls {
        rank: summary.rank,
        origin: summary.begin_ns,
        groups: summary.groups.clone(),
        collectives: collectives.collect(),
        transfers: Vec::new(),
        steps: summary
            .steps
            .iter()
            .filter_map(|step| Some((step.number?, step.start_ns)))
            .collect(),
    }
}

/// Whether the work of a rank is operators of the host: a rank with a device has kernels instead.
fn runs_operators(summary: &RankSummary) -> bool {
    summary.names.iter().any(|name| name.starts_with("aten::"))
}

/// What is known of a job by the summaries of its ranks, each rank once, in order.
fn analyze_job(job: &JobRanks<'_>) -> JobAnalysis {
    let blamed = blame::Blamed::from_job(job);
    let stragglers = stragglers::find_stragglers(job, &blamed);
    let slow_links = links::find_slow_links(job);
    let (steps, step_times, imbalance) = steps::compare_steps(job);
    let look_at = look_at::choose_ranks(job, &stragglers, &slow_links, &imbalance);
    JobAnalysis {
        has_marked_steps: job.summaries.iter().all(|summary| summary.has_marked_steps),
        on_host: job.summaries.iter().all(|summary| runs_operators(summary)),
        steps,
        step_times,
        compute_imbalance: imbalance.excess,
        most_computing_rank: imbalance.rank,
        stragglers,
        slow_links,
        groups: layout::find_groups(job),
        look_at,
        events: job.summaries.iter().map(|summary| summary.events).sum(),
    }
}

/// The job part for ranks whose traces were imported as well.
pub(super) fn analyze_beside_traces(summaries: &[&RankSummary]) -> Option<JobAnalysis> {
    (summaries.len() > 1).then(|| analyze_job(&JobRanks::new(summaries)))
}

/// Analyzes ranks of which only summaries were imported; `None` for fewer than two.
pub(super) fn analyze_summaries(summaries: &[&RankSummary]) -> Option<(RanksAnalysis, Vec<Issue>)> {
    if summaries.len() < 2 {
        return None;
    }
    let job = JobRanks::new(summaries);
    let mut analysis = rows::sum_up(&job);
    let mut issues = Vec::new();
    if analysis.span_ns <= Nanos(0) {
        issues.push(Issue::warning(IssueCode::RanksApart));
    }
    let worlds: Vec<u32> = summaries
        .iter()
        .filter_map(|summary| summary.world_size)
        .collect();
    issues.extend(super::world_issues(&worlds, summaries.len()));
    let alone = job.met.aligned.alone.iter();
    issues.extend(alone.map(|&rank| {
        Issue::warning(IssueCode::RanksNotAligned).with("rank", summaries[rank].rank)
    }));
    if job.met.dropped > 0 {
        issues.push(Issue::warning(IssueCode::RanksMismatched).counting(job.met.dropped as u64));
    }
    analysis.job = Some(analyze_job(&job));
    Some((analysis, issues))
}
