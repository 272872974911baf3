//! What one rank of a job did, reduced to what joining it with thousands of others needs.
//!
//! A summary is made once from the profile of a rank and kept as a file ([`file`]); a job is joined from summaries alone.
//! All times are ns after [`RankSummary::begin_ns`], which is on the clock of the rank.

mod digest;
mod file;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::digest::Digest;
pub use self::file::{RANK_FILE_MAX_BYTES, RANK_FILE_SUFFIX, RANK_FOLDER, RankFileError};
use crate::issue::Issue;

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankSummary {
    /// Number of the rank in the job.
    pub rank: u32,
    /// Ranks of the job, where recorded.
    pub world_size: Option<u32>,
    /// The profile that it was made of.
    pub source: SummarySource,
    /// The first recorded event on the clock of the rank, ns.
    pub begin_ns: i64,
    /// From the first to the last recorded event.
    pub recorded_ns: i64,
    /// Number of events in the profile.
    pub events: u64,
    /// Name of the GPU; absent if it was not recorded.
    pub device: Option<String>,
    /// Names of kernels, copies and kinds of collectives.
    pub names: Vec<String>,
    /// Process groups of the rank.
    pub groups: Vec<ProcessGroup>,
    /// In order of time; one for the whole recording where nothing marks steps.
    pub steps: Vec<RankStep>,
    /// Whether something in the profile marks the steps.
    pub has_marked_steps: bool,
    /// The collectives of this rank, in order of their starts.
    pub collectives: Vec<RankCollective>,
    /// What ran after the last collective.
    pub tail: Between,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
}

/// The file that a summary was made of: a rank whose file has not changed is not read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
pub struct SummarySource {
    /// Path of the profile that was read.
    pub file: String,
    /// Size of the profile, in bytes.
    pub bytes: u64,
    /// When the file was changed, since 1970.
    pub modified_ns: i64,
}

/// A group of ranks that exchange data, as the framework names it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
pub struct ProcessGroup {
    /// Name of the process group.
    pub name: String,
    /// The members as the tool wrote them, long lists shortened: `[0, 1, 2, 3]`.
    pub ranks: String,
}

/// What ran between two collectives, while none ran, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Between {
    /// Time in kernels that compute.
    pub compute_ns: i64,
    /// Copies and memory fills beside no kernel.
    pub copies_ns: i64,
    /// Time in which nothing ran.
    pub idle_ns: i64,
}

/// Causes of idle time that a step has sums of, in the order of [`RankStep::idle_ns`].
pub const IDLE_CAUSES: [&str; 8] = [
    "host_sync",
    "host_busy",
    "launch_latency",
    "launch_call",
    "queued_gap",
    "not_started",
    "data_loading",
    "unknown",
];

/// One step of a rank: its window on the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankStep {
    /// The number that the profile gives it (`ProfilerStep#12`).
    pub number: Option<u64>,
    /// Start of the step, ns after `begin_ns`.
    pub start_ns: i64,
    /// End of the step, ns after `begin_ns`.
    pub end_ns: i64,
    /// Time in kernels that compute.
    pub compute_ns: i64,
    /// Communication beside no computing kernel.
    pub exposed_communication_ns: i64,
    /// Time in copies and memory fills that overlap neither, ns.
    pub copies_ns: i64,
    /// Idle time by cause, ns, in the order of [`IDLE_CAUSES`].
    pub idle_ns: [i64; IDLE_CAUSES.len()],
    /// The kernels and copies with most time, communication excluded.
    pub kernels: Vec<KernelSums>,
    /// Events and time of those that are not listed.
    pub other_events: u64,
    /// Time in copies and memory fills.
    pub other_ns: i64,
}

impl RankStep {
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Calls of one kernel in one step. A row of numbers in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(into = "Vec<i64>", try_from = "Vec<i64>")]
pub struct KernelSums {
    /// The kernel, by its index in [`RankSummary::names`].
    pub name: u32,
    /// Number of calls in the step.
    pub calls: u64,
    /// Sum of the calls' durations, ns.
    pub sum_ns: i64,
    /// Duration of the shortest call, ns.
    pub min_ns: i64,
    /// Duration of the longest call, ns.
    pub max_ns: i64,
    /// Distribution of the calls' durations, in buckets.
    pub digest: Digest,
}

impl From<KernelSums> for Vec<i64> {
    fn from(sums: KernelSums) -> Self {
        let mut row = vec![
            i64::from(sums.name),
            sums.calls as i64,
            sums.sum_ns,
            sums.min_ns,
            sums.max_ns,
        ];
        row.extend(sums.digest.to_row());
        row
    }
}

impl TryFrom<Vec<i64>> for KernelSums {
    type Error = &'static str;

    fn try_from(row: Vec<i64>) -> Result<Self, Self::Error> {
        let Some((&[name, calls, sum_ns, min_ns, max_ns], digest)) = row.split_first_chunk::<5>()
        else {
            return Err("a row of a kernel is too short");
        };
        let digest = Digest::from_row(digest)?;
        let kernel = Self {
            name: u32::try_from(name).map_err(|_| "the name of a kernel is negative")?,
            calls: u64::try_from(calls).map_err(|_| "the calls of a kernel are negative")?,
            sum_ns,
            min_ns,
            max_ns,
            digest,
        };
        if kernel.digest.count() != kernel.calls || min_ns > max_ns || min_ns < 0 {
            return Err("the sums of a kernel disagree");
        }
        Ok(kernel)
    }
}

/// One collective on this rank. A row of numbers in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(into = "Vec<i64>", try_from = "Vec<i64>")]
pub struct RankCollective {
    /// Start of the collective, ns after `begin_ns`.
    pub start_ns: i64,
    /// End of the collective, ns after `begin_ns`.
    pub end_ns: i64,
    /// The kind, by its index in [`RankSummary::names`].
    pub kind: u32,
    /// The process group, by its index in [`RankSummary::groups`].
    pub group: u32,
    /// Ranks in the group; 0 where unknown.
    pub group_size: u64,
    /// Its number in the group, where recorded.
    pub sequence: Option<i64>,
    /// Bytes that this rank gives and gets.
    pub given: Option<u64>,
    /// Bytes that the rank got.
    pub got: Option<u64>,
    /// What ran since all collectives before it had ended.
    pub before: Between,
    /// The parts beside no computing kernel: start and end.
    pub exposed: Vec<(i64, i64)>,
}

/// A number that is not recorded, in a row.
const NOT_RECORDED: i64 = -1;

impl From<RankCollective> for Vec<i64> {
    fn from(call: RankCollective) -> Self {
        let bytes = |bytes: Option<u64>| {
            bytes.map_or(NOT_RECORDED, |bytes| {
                i64::try_from(bytes).unwrap_or(NOT_RECORDED)
            })
        };
        let length = call.end_ns.saturating_sub(call.start_ns);
        let mut row = vec![
            call.start_ns,
            length,
            i64::from(call.kind),
            i64::from(call.group),
            call.group_size as i64,
            call.sequence.unwrap_or(NOT_RECORDED),
            bytes(call.given),
            bytes(call.got),
            call.before.compute_ns,
            call.before.copies_ns,
            call.before.idle_ns,
        ];
        // Most collectives are exposed as a whole: no list says so.
        if call.exposed != [(call.start_ns, call.end_ns)] {
            row.push(call.exposed.len() as i64);
            for (start, end) in call.exposed {
                row.push(start.saturating_sub(call.start_ns));
                row.push(end.saturating_sub(start));
            }
        }
        row
    }
}

impl TryFrom<Vec<i64>> for RankCollective {
    type Error = &'static str;

    fn try_from(row: Vec<i64>) -> Result<Self, Self::Error> {
        let Some((fixed, exposed)) = row.split_first_chunk::<11>() else {
            return Err("a row of a collective is too short");
        };
        let [
            start_ns,
            length,
            kind,
            group,
            group_size,
            sequence,
            given,
            got,
            compute_ns,
            copies_ns,
            idle_ns,
        ] = *fixed;
        if length < 0 || [compute_ns, copies_ns, idle_ns].iter().any(|ns| *ns < 0) {
            return Err("a time of a collective is negative");
        }
        let end_ns = start_ns.saturating_add(length);
        let exposed = match exposed.split_first() {
            None => vec![(start_ns, end_ns)],
            Some((&count, pairs)) if usize::try_from(count) == Ok(pairs.len() / 2) => pairs
                .chunks_exact(2)
                .map(|pair| {
                    let start = start_ns.saturating_add(pair[0]);
                    (start, start.saturating_add(pair[1]))
                })
                .collect(),
            Some(_) => return Err("the exposed parts of a collective are cut"),
        };
        let recorded = |value: i64| u64::try_from(value).ok();
        Ok(Self {
            start_ns,
            end_ns,
            kind: u32::try_from(kind).map_err(|_| "the kind of a collective is negative")?,
            group: u32::try_from(group).map_err(|_| "the group of a collective is negative")?,
            group_size: recorded(group_size).ok_or("the size of a group is negative")?,
            sequence: Some(sequence).filter(|sequence| *sequence >= 0),
            given: recorded(given),
            got: recorded(got),
            before: Between {
                compute_ns,
                copies_ns,
                idle_ns,
            },
            exposed,
        })
    }
}
