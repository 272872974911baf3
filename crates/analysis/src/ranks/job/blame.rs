//! Waiting led back to the rank that caused it.
//!
//! A rank that enters a collective last has either worked longer since its collective before, or left that one late itself: then
//! the rank that was late there is the cause, and this one only passes the delay on.

use llmprof_units::stats::{lower_median, median_deviation};

use super::JobRanks;
use super::steps::step_at;
use crate::ranks::skew::Meeting;
use crate::row_order::sort_ascending;
use crate::thresholds::{STRAGGLER_DEVIATIONS_MIN, STRAGGLER_EXCESS_MIN_SHARE};

/// Collectives that one rank may have open at once; a collective that began before more of them is not looked for.
const OPEN_CALLS_MAX: usize = 32;

/// The waiting that each rank caused.
pub(super) struct Blamed {
    /// Indexed by rank, then by the rank's own step.
    pub(super) steps: Vec<Vec<StepBlame>>,
    /// For each rank, the largest meeting at which it was late by its own work: its members are its peers.
    pub(super) peers: Vec<Option<u32>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepBlame {
    /// How much longer than its peers it worked before collectives at which it was last.
    pub(super) own_delay_ns: i64,
    /// What all other ranks waited because of it, summed up over ranks.
    pub(super) waiting_ns: i64,
}

/// The last collective that ended before another began on the same rank, and the time since.
#[derive(Clone, Copy, Default)]
struct Before {
    call: Option<u32>,
    own_ns: i64,
}

impl Blamed {
    pub(super) fn from_job(job: &JobRanks<'_>) -> Self {
        let before: Vec<Vec<Before>> = job.calls.iter().map(collectives_before).collect();
        let mut result = Self {
            steps: job
                .summaries
                .iter()
                .map(|summary| vec![StepBlame::default(); summary.steps.len()])
                .collect(),
            peers: vec![None; job.summaries.len()],
        };
        let meetings = &job.met.meetings;
        let mut order: Vec<u32> = (0..meetings.len() as u32).collect();
        sort_ascending(&mut order, |&number| meetings[number as usize].last_start);
        // The rank and its step that made each collective late.
        let mut roots: Vec<Option<(usize, usize)>> = vec![None; meetings.len()];
        let tolerance = job.met.aligned.tolerance();
        for number in order {
            let meeting = &meetings[number as usize];
            if !meeting.kind.ends_together() {
                continue;
            }
            let waited: i64 = meeting
                .members
                .iter()
                .map(|member| meeting.wait_since(member, i64::MIN))
                .fold(0, i64::saturating_add);
            let Some(late) = Late::from_meeting(meeting, &before) else {
                continue;
            };
            if late.wait_ns <= tolerance {
                continue;
            }
            let share = late.own_ns as f64 / late.wait_ns as f64;
            let own_waited = (waited as f64 * share).round() as i64;
            let inherited = late
                .before
                .and_then(|call| job.meeting_of[meeting.last][call as usize])
                .and_then(|(number, _)| roots[number as usize])
                .filter(|(rank, _)| *rank != meeting.last);
            let last = &job.summaries[meeting.last];
            let start = job.calls[meeting.last].collectives[late.instance].start;
            let own_step = step_at(last, start);
            if let Some(step) = own_step.filter(|_| late.own_ns > 0) {
                let blame = &mut result.steps[meeting.last][step];
                blame.own_delay_ns = blame.own_delay_ns.saturating_add(late.own_ns);
                blame.waiting_ns = blame.waiting_ns.saturating_add(own_waited);
                let peers = &mut result.peers[meeting.last];
                let size = |number: u32| meetings[number as usize].members.len();
                if peers.is_none_or(|known| size(known) < size(number)) {
                    *peers = Some(number);
                }
            }
            if let Some((rank, step)) = inherited {
                let blame = &mut result.steps[rank][step];
                blame.waiting_ns = blame.waiting_ns.saturating_add(waited - own_waited);
            }
            roots[number as usize] = if share >= 0.5 {
                own_step.map(|step| (meeting.last, step))
            } else {
                inherited
            };
        }
        result
    }
}

/// The last rank of a meeting and why it is late.
struct Late {
    /// What the median of the others waited.
    wait_ns: i64,
    /// The part of it that the last rank worked longer than the median of the others; 0 where that is within what they differ.
    own_ns: i64,
    /// Index of the collective that the last rank took part in before this one.
    before: Option<u32>,
    instance: usize,
}

impl Late {
    /// `None` at the first collective of a rank: what it did before may not be recorded.
    fn from_meeting(meeting: &Meeting, before: &[Vec<Before>]) -> Option<Self> {
        let last = meeting
            .members
            .iter()
            .find(|member| member.rank == meeting.last)?;
        let own = before[last.rank][last.instance];
        own.call?;
        let others = || {
            meeting
                .members
                .iter()
                .filter(|member| member.rank != last.rank)
        };
        let mut waits: Vec<i64> = others()
            .map(|member| meeting.wait_since(member, i64::MIN))
            .collect();
        let mut work: Vec<i64> = others()
            .map(|member| before[member.rank][member.instance])
            .filter(|before| before.call.is_some())
            .map(|before| before.own_ns)
            .collect();
        let wait_ns = lower_median(&mut waits).unwrap_or_default();
        let own_ns = if work.is_empty() {
            0
        } else {
            let (usual, spread) = median_deviation(&mut work).unwrap_or_default();
            let excess = own.own_ns.saturating_sub(usual);
            // 1.48 deviations are one standard deviation of normal noise.
            let noise = STRAGGLER_DEVIATIONS_MIN * 1.48 * spread as f64;
            let least = noise.max(STRAGGLER_EXCESS_MIN_SHARE * usual as f64);
            if excess as f64 > least {
                excess.clamp(0, wait_ns.max(0))
            } else {
                0
            }
        };
        Some(Self {
            wait_ns,
            own_ns,
            before: own.call,
            instance: last.instance,
        })
    }
}

fn collectives_before(calls: &crate::ranks::work::RankCalls) -> Vec<Before> {
    let list = &calls.collectives;
    (0..list.len())
        .map(|index| {
            let start = list[index].start;
            let earlier = index.saturating_sub(OPEN_CALLS_MAX)..index;
            let ended = earlier.filter(|&other| list[other].end <= start);
            match ended.max_by_key(|&other| list[other].end) {
                Some(other) => Before {
                    call: Some(other as u32),
                    own_ns: start.saturating_sub(list[other].end),
                },
                None => Before::default(),
            }
        })
        .collect()
}
