//! The ranks to look at first, and why.

use std::collections::BTreeMap;

use llmprof_record::issue::Severity;
use llmprof_units::stats::lower_median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobRanks;
use super::links::SlowLink;
use super::steps::ComputeImbalance;
use super::stragglers::Straggler;
use crate::thresholds::{CLOCK_DRIFT_MIN_PPM, COMPUTES_LONGER_MIN};

/// Maximum number of ranks in the list.
const LOOK_AT_MAX: usize = 10;

/// A rank and what speaks for looking at it; the strongest reason first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankToLookAt {
    /// Number of the rank in the job.
    pub rank: u32,
    /// What speaks for looking at it, the strongest reason first.
    pub reasons: Vec<LookAtReason>,
}

/// Why a rank should be looked at. The order is that of urgency.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookAtReason {
    /// It held the others up in most of its steps: the number in the list of stragglers.
    Straggler(u64),
    /// Its group transfers slowly: the number in the list of slow links.
    SlowLink(u64),
    /// It held the others up in some steps: the number in the list of stragglers.
    SlowInSteps(u64),
    /// It computes longer than the mean rank in most steps, by this share.
    ComputesLonger(f64),
    /// Steps that it lacks, of those that the median rank has.
    MissingSteps(u64),
    /// Its clock runs faster than those of the others, millionths.
    ClockDrift(f64),
    /// It shares no collective with the others.
    NotAligned,
    /// Its profile lost this many records.
    Losses(u64),
}

/// Sort key of a reason: its place in the order of urgency, then in its list.
fn reason_urgency(reason: &LookAtReason) -> (u8, u64) {
    match reason {
        LookAtReason::Straggler(number) => (0, *number),
        LookAtReason::SlowLink(number) => (1, *number),
        LookAtReason::SlowInSteps(number) => (2, *number),
        LookAtReason::ComputesLonger(_) => (3, 0),
        LookAtReason::NotAligned => (4, 0),
        LookAtReason::MissingSteps(steps) => (5, u64::MAX - steps),
        LookAtReason::ClockDrift(ppm) => (6, u64::MAX - ppm.abs() as u64),
        LookAtReason::Losses(count) => (7, u64::MAX - count),
    }
}

pub(super) fn choose_ranks(
    job: &JobRanks<'_>,
    stragglers: &[Straggler],
    links: &[SlowLink],
    imbalance: &ComputeImbalance,
) -> Vec<RankToLookAt> {
    let mut reasons: BTreeMap<u32, Vec<LookAtReason>> = BTreeMap::new();
    let mut add = |rank: u32, reason: LookAtReason| reasons.entry(rank).or_default().push(reason);
    for (number, straggler) in stragglers.iter().enumerate() {
        let number = number as u64;
        let reason = if straggler.is_stable {
            LookAtReason::Straggler(number)
        } else {
            LookAtReason::SlowInSteps(number)
        };
        add(straggler.rank, reason);
    }
    for (number, link) in links.iter().enumerate() {
        for rank in &link.ranks {
            add(*rank, LookAtReason::SlowLink(number as u64));
        }
    }
    if let Some(rank) = imbalance.rank
        && imbalance.excess >= COMPUTES_LONGER_MIN
    {
        add(rank, LookAtReason::ComputesLonger(imbalance.excess));
    }
    let mut counts: Vec<i64> = job
        .summaries
        .iter()
        .map(|summary| summary.steps.len() as i64)
        .collect();
    let usual = lower_median(&mut counts).unwrap_or_default() as usize;
    for (rank, summary) in job.summaries.iter().enumerate() {
        if summary.steps.len() < usual {
            let missing = usual - summary.steps.len();
            add(summary.rank, LookAtReason::MissingSteps(missing as u64));
        }
        let drift = job.met.aligned.clocks[rank].drift_ppm;
        if drift.abs() >= CLOCK_DRIFT_MIN_PPM {
            add(summary.rank, LookAtReason::ClockDrift(drift));
        }
        if job.met.aligned.alone.contains(&rank) {
            add(summary.rank, LookAtReason::NotAligned);
        }
        let losses = summary.issues.iter();
        let losses = losses.filter(|issue| issue.severity >= Severity::Warning);
        let lost = losses.map(|issue| issue.count).sum();
        if lost > 0 {
            add(summary.rank, LookAtReason::Losses(lost));
        }
    }
    let mut ranks: Vec<RankToLookAt> = reasons
        .into_iter()
        .map(|(rank, mut reasons)| {
            reasons.sort_by_key(reason_urgency);
            RankToLookAt { rank, reasons }
        })
        .collect();
    ranks.sort_by_key(|rank| (rank.reasons.first().map(reason_urgency), rank.rank));
    ranks.truncate(LOOK_AT_MAX);
    ranks
}
