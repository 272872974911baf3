//! Groups whose transfers are slower than those of groups like them: a slow link between their members.

use std::collections::BTreeMap;

use llmprof_units::{
    Bytes, Nanos,
    stats::{lower_median, median_deviation, whole_median},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobRanks;
use super::steps::step_at;
use crate::ranks::kind::CollectiveKind;
use crate::ranks::skew::Meeting;
use crate::thresholds::{
    SLOW_LINK_DEVIATIONS_MIN, SLOW_LINK_GROUPS_MIN, SLOW_LINK_MIN_RATIO, STRAGGLER_STEPS_MIN_SHARE,
};

/// Ranks between which data moves slower than between ranks of other groups.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SlowLink {
    /// A pair where the group has two members; otherwise the link is somewhere between these ranks.
    pub ranks: Vec<u32>,
    /// What the collective does, read from its name.
    pub kind: CollectiveKind,
    /// The message of one rank, where recorded.
    pub bytes: Option<Bytes>,
    /// Collective calls between these ranks that the figures are of.
    pub calls: u64,
    /// From the last start to the end: the median of the calls.
    pub transfer_ns: Nanos,
    /// The median of the groups that send as much in the same way.
    pub others_ns: Nanos,
    /// Groups that it is compared with.
    pub groups: u64,
    /// Steps in which its median transfer was that slow, of how many.
    pub slow_steps: u64,
    /// Number of steps in which these ranks exchanged such messages.
    pub steps: u64,
}

/// Collectives that are alike: kind, members, bytes of a rank.
type Alike = (CollectiveKind, usize, Option<u64>);

/// The slow links of a job, the slowest first.
pub(super) fn find_slow_links(job: &JobRanks<'_>) -> Vec<SlowLink> {
    // By the ranks of a group, in order.
    let mut alike: BTreeMap<Alike, BTreeMap<Vec<usize>, Vec<&Meeting>>> = BTreeMap::new();
    for meeting in &job.met.meetings {
        let mut members: Vec<usize> = meeting.members.iter().map(|member| member.rank).collect();
        // Of a group that is not complete, the missing ranks may have been late.
        if members.len() as u64 != meeting.group_size || members.len() == job.summaries.len() {
            continue;
        }
        members.sort_unstable();
        let key = (meeting.kind, members.len(), meeting.message_bytes());
        let groups = alike.entry(key).or_default();
        groups.entry(members).or_default().push(meeting);
    }
    let mut links = Vec::new();
    for ((kind, _, bytes), groups) in &alike {
        if groups.len() < SLOW_LINK_GROUPS_MIN {
            continue;
        }
        let transfer = |calls: &[&Meeting]| {
            let mut times: Vec<i64> = calls.iter().map(|meeting| meeting.transfer_ns()).collect();
            whole_median(&mut times).unwrap_or_default()
        };
        let times: Vec<i64> = groups.values().map(|calls| transfer(calls)).collect();
        let (usual, spread) = median_deviation(&mut times.clone()).unwrap_or_default();
        let noise = (SLOW_LINK_DEVIATIONS_MIN * 1.48 * spread as f64)
            .max(job.met.aligned.tolerance() as f64);
        let is_slow = |time: i64| {
            time as f64 > SLOW_LINK_MIN_RATIO * usual as f64 && (time - usual) as f64 > noise
        };
        for ((members, calls), time) in groups.iter().zip(times) {
            if !is_slow(time) {
                continue;
            }
            let steps = median_by_step(job, calls);
            let slow_steps = steps.iter().filter(|time| is_slow(**time)).count();
            if (slow_steps as f64) < STRAGGLER_STEPS_MIN_SHARE * steps.len() as f64 {
                continue;
            }
            links.push(SlowLink {
                ranks: members
                    .iter()
                    .map(|&rank| job.summaries[rank].rank)
                    .collect(),
                kind: *kind,
                bytes: bytes.map(Bytes),
                calls: calls.len() as u64,
                transfer_ns: Nanos(time),
                others_ns: Nanos(usual),
                groups: groups.len() as u64 - 1,
                slow_steps: slow_steps as u64,
                steps: steps.len() as u64,
            });
        }
    }
    let cost =
        |link: &SlowLink| (link.transfer_ns.0 - link.others_ns.0).saturating_mul(link.calls as i64);
    links.sort_by(|a, b| cost(b).cmp(&cost(a)).then_with(|| a.ranks.cmp(&b.ranks)));
    links
}

/// The median transfer of each step.
fn median_by_step(job: &JobRanks<'_>, calls: &[&Meeting]) -> Vec<i64> {
    let mut steps: BTreeMap<Option<usize>, Vec<i64>> = BTreeMap::new();
    for meeting in calls {
        let member = &meeting.members[0];
        let start = job.calls[member.rank].collectives[member.instance].start;
        let step = step_at(job.summaries[member.rank], start);
        steps.entry(step).or_default().push(meeting.transfer_ns());
    }
    steps
        .into_values()
        .map(|mut times| lower_median(&mut times).unwrap_or_default())
        .collect()
}
