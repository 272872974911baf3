//! Several ranks of one job: clocks aligned by matching collectives, where the time of each went, who held the others up.
//!
//! [`work`] is what one rank did, [`matched`] which collectives are one, [`clocks`] what aligns them, [`skew`] the collectives
//! on one clock, [`parts`] the time of each rank, [`slowest`] the rank that the others waited for.

mod alone;
mod clocks;
pub mod job;
pub mod kind;
mod matched;
mod parts;
mod reduce;
mod skew;
mod slowest;
mod work;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::rank_summary::{RankSummary, SummarySource};
use llmprof_record::run::RunRecord;
use llmprof_record::trace::Trace;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::alone::OwnCollectives;
pub(crate) use self::alone::own_collectives;
pub use self::clocks::RankClock;
use self::job::JobAnalysis;
pub use self::kind::CollectiveKind;
pub use self::matched::MatchedBy;
pub use self::parts::{RankPart, RankRow};
pub use self::reduce::summarize;
pub use self::skew::CollectiveRow;
pub use self::slowest::{SlowestDifference, SlowestRank};
use crate::ranks::clocks::{AlignedClocks, align_clocks};
use crate::ranks::matched::{Matched, match_collectives};
use crate::ranks::parts::{RankPiece, cut_pieces, sum_pieces};
use crate::ranks::skew::{Meeting, collective_rows};
use crate::ranks::slowest::{caused_waits, find_slowest};
use crate::ranks::work::{RankCalls, RankWork};
use crate::thresholds::DEVICES_MAX;

/// What several ranks did together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RanksAnalysis {
    /// Number of ranks of the job, which may exceed the imported ones; absent where not recorded.
    pub world_size: Option<u32>,
    /// Whether the rows are devices of one trace rather than ranks with a trace each.
    pub are_devices: bool,
    /// Length of the window in which all of them were recorded.
    pub span_ns: Nanos,
    /// From the first to the last rank's first recorded event: ranks were that far apart when they entered the recording. What made
    /// one enter late is not recorded, and no rank is blamed for it.
    #[serde(default)]
    pub entered_apart_ns: Nanos,
    /// How collectives were matched: the weaker way where both were needed; absent where none was.
    pub matched_by: Option<MatchedBy>,
    /// Collectives that at least two ranks show.
    pub matched: u64,
    /// Collectives of single ranks that no other shows.
    pub unmatched: u64,
    /// Time breakdown of each rank, ordered by rank number.
    pub ranks: Vec<RankRow>,
    /// Collectives by kind and size.
    pub collectives: Vec<CollectiveRow>,
    /// The rank that the others waited for most.
    pub slowest: Option<SlowestRank>,
    /// Steps, stragglers, slow links and groups; absent for devices of one trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobAnalysis>,
}

/// Work of ranks on one clock, for a timeline with a lane for each.
pub struct RankLanes<'a> {
    pub lanes: Vec<RankLane<'a>>,
    pub are_devices: bool,
}

pub struct RankLane<'a> {
    pub rank: u32,
    pub trace: &'a Trace,
    pub pieces: Vec<LanePiece<'a>>,
}

/// A piece of work on the clock of the first rank.
#[derive(Clone, Copy, Debug)]
pub struct LanePiece<'a> {
    pub start_ns: Nanos,
    pub end_ns: Nanos,
    pub part: RankPart,
    pub name: &'a str,
    /// The rank that it waits for.
    pub waits_for: Option<u32>,
}

/// Analyzes the ranks of a record; `None` for fewer than two.
pub(crate) fn analyze(record: &RunRecord) -> Option<(RanksAnalysis, Vec<Issue>)> {
    if !record.rank_summaries.is_empty() {
        let summaries: Vec<&RankSummary> = record.rank_summaries.iter().collect();
        let (analysis, mut issues) = job::analyze_summaries(&summaries)?;
        issues.extend(mostly_waiting(&analysis));
        return Some((analysis, issues));
    }
    let joined = Joined::from_record(record)?;
    let mut issues = joined.list_issues(record);
    let Joined {
        ranks,
        aligned,
        meetings,
        pieces,
        window,
        are_devices,
        ..
    } = &joined;
    if window.0 >= window.1 {
        issues.push(Issue::warning(IssueCode::RanksApart));
    }
    let entered = joined.entry_times();
    let caused = caused_waits(meetings, &entered, *window);
    let rank_rows = ranks.iter().enumerate().map(|(index, work)| {
        let (caused_waiting, last_at) = caused[index];
        RankRow {
            rank: work.calls.rank,
            clock: aligned.clocks[index],
            caused_waiting_ns: Nanos(caused_waiting),
            last_at,
            ..sum_pieces(&pieces[index], *window)
        }
    });
    let in_meetings: usize = meetings.iter().map(|meeting| meeting.members.len()).sum();
    let instances: usize = ranks.iter().map(|work| work.calls.collectives.len()).sum();
    let world_size = world_sizes(record).into_iter().max();
    let misses_ranks = !are_devices && world_size.is_some_and(|size| size as usize > ranks.len());
    let analysis = RanksAnalysis {
        world_size,
        are_devices: *are_devices,
        span_ns: Nanos((window.1 - window.0).max(0)),
        entered_apart_ns: Nanos(largest_distance(&entered)),
        matched_by: meetings.iter().map(|meeting| meeting.by).max(),
        matched: meetings.len() as u64,
        unmatched: instances.saturating_sub(in_meetings) as u64,
        ranks: rank_rows.collect(),
        collectives: collective_rows(meetings, &calls_of(ranks), misses_ranks),
        slowest: find_slowest(ranks, pieces, meetings, &entered, *window),
        job: (!are_devices).then(|| job_of(record)).flatten(),
    };
    issues.extend(mostly_waiting(&analysis));
    Some((analysis, issues))
}

/// The job by summaries of the traces, as it is for ranks that were reduced when they were read.
fn job_of(record: &RunRecord) -> Option<JobAnalysis> {
    use rayon::prelude::*;
    let summaries: Vec<RankSummary> = record
        .ranks()
        .par_iter()
        .map(|&(rank, trace)| summarize(trace, rank, SummarySource::default()))
        .collect();
    job::analyze_beside_traces(&summaries.iter().collect::<Vec<_>>())
}

impl RanksAnalysis {
    /// The part of the exposed communication of a device, or of the first rank, which the findings are of, that is waiting for slower
    /// ranks.
    pub(crate) fn waiting_share(&self, device: Option<u32>) -> Option<f64> {
        let device = device.filter(|_| self.are_devices);
        let mut rows = self.ranks.iter();
        let row = rows.find(|row| device.is_none_or(|device| row.rank == device))?;
        let exposed = row.exposed_communication().0;
        (exposed > 0).then(|| row.exposed_waiting_ns.0 as f64 / exposed as f64)
    }
}

impl RanksAnalysis {
    /// The first rank, which the findings are of, and the number of ranks of the job, where some of them were not imported.
    pub(crate) fn part_of_job(&self) -> Option<(u64, u64)> {
        let world = self.world_size.filter(|_| !self.are_devices)?;
        let first = self.ranks.first()?;
        (world as usize > self.ranks.len()).then_some((u64::from(first.rank), u64::from(world)))
    }
}

fn largest_distance(times: &[i64]) -> i64 {
    let (first, last) = (times.iter().min(), times.iter().max());
    let apart = last
        .zip(first)
        .map(|(last, first)| last.saturating_sub(*first));
    apart.unwrap_or(0)
}

/// The issue that the first rank, which the findings are of, mostly waits in its exposed communication: overlapping it would gain
/// nothing.
fn mostly_waiting(analysis: &RanksAnalysis) -> Option<Issue> {
    let first = analysis.ranks.first()?;
    let (exposed, waiting) = (first.exposed_communication(), first.exposed_waiting_ns);
    let is_large = waiting.0.saturating_mul(20) > analysis.span_ns.0;
    (is_large && waiting.0.saturating_mul(2) > exposed.0).then(|| {
        let issue = Issue::info(IssueCode::RanksWaiting).with("rank", first.rank);
        let issue = issue.with("waiting", waiting.to_string());
        issue.with("exposed", exposed.to_string())
    })
}

/// The work of each rank or device as lanes of a timeline; `None` for fewer than two.
pub fn rank_lanes(record: &RunRecord) -> Option<RankLanes<'_>> {
    let joined = Joined::from_record(record)?;
    let number = |rank: usize| joined.ranks[rank].calls.rank;
    let lanes = joined
        .ranks
        .iter()
        .zip(&joined.pieces)
        .map(|(work, pieces)| {
            let pieces = pieces.iter().map(|piece| LanePiece {
                start_ns: Nanos(piece.start),
                end_ns: Nanos(piece.end),
                part: piece.part,
                name: work.trace.text(work.work[piece.work].name),
                waits_for: piece.waits_for.map(number),
            });
            RankLane {
                rank: work.calls.rank,
                trace: work.trace,
                pieces: pieces.collect(),
            }
        });
    Some(RankLanes {
        lanes: lanes.collect(),
        are_devices: joined.are_devices,
    })
}

fn calls_of<'a>(ranks: &'a [RankWork<'_>]) -> Vec<&'a RankCalls> {
    ranks.iter().map(|work| &work.calls).collect()
}

/// Collectives of ranks on one clock.
struct Met {
    aligned: AlignedClocks,
    meetings: Vec<Meeting>,
    /// Number of matches that are impossible: some rank had ended before another began.
    dropped: usize,
}

/// Matches the collectives of ranks, aligns their clocks and puts the collectives on one.
fn meet_on_one_clock(ranks: &[&RankCalls], share_clock: bool) -> Met {
    let matches = match_collectives(ranks);
    let aligned = if share_clock {
        AlignedClocks::as_is(ranks.len())
    } else {
        align_clocks(ranks, &matches)
    };
    let tolerance = aligned.tolerance();
    let meeting = |matched: &Matched| Meeting::from_matched(ranks, &aligned, matched, tolerance);
    let meetings: Vec<Meeting> = matches.iter().filter_map(meeting).collect();
    Met {
        dropped: matches.len() - meetings.len(),
        aligned,
        meetings,
    }
}

/// The ranks of a record on one clock.
struct Joined<'a> {
    ranks: Vec<RankWork<'a>>,
    are_devices: bool,
    aligned: AlignedClocks,
    meetings: Vec<Meeting>,
    /// Number of matches that are impossible: some rank had ended before another began.
    dropped: usize,
    pieces: Vec<Vec<RankPiece>>,
    window: (i64, i64),
}

impl<'a> Joined<'a> {
    fn from_record(record: &'a RunRecord) -> Option<Self> {
        let traces = record.ranks();
        let are_devices = traces.is_empty();
        let ranks: Vec<RankWork<'a>> = if are_devices {
            communicating_devices(record.trace()?)
        } else {
            use rayon::prelude::*;
            let traces = traces.par_iter();
            traces
                .map(|&(rank, trace)| RankWork::from_trace(rank, trace, None))
                .collect()
        };
        if ranks.len() < 2 {
            return None;
        }
        let Met {
            aligned,
            meetings,
            dropped,
        } = meet_on_one_clock(&calls_of(&ranks), are_devices);
        let pieces = ranks.iter().enumerate();
        let pieces: Vec<Vec<RankPiece>> = pieces
            .map(|(index, work)| cut_pieces(work, index, &aligned, &meetings))
            .collect();
        let at = |index: usize, time: i64| aligned.to_common(index, time);
        let starts = ranks
            .iter()
            .enumerate()
            .map(|(index, work)| at(index, work.recorded.0));
        let ends = ranks
            .iter()
            .enumerate()
            .map(|(index, work)| at(index, work.recorded.1));
        let window = (starts.max()?, ends.min()?);
        Some(Self {
            ranks,
            are_devices,
            aligned,
            meetings,
            dropped,
            pieces,
            window,
        })
    }

    /// When the recording of each rank began, on one clock.
    fn entry_times(&self) -> Vec<i64> {
        let starts = self.ranks.iter().enumerate();
        starts
            .map(|(rank, work)| self.aligned.to_common(rank, work.recorded.0))
            .collect()
    }

    fn list_issues(&self, record: &RunRecord) -> Vec<Issue> {
        let mut issues = Vec::new();
        issues.extend(world_issues(&world_sizes(record), self.ranks.len()));
        for &rank in &self.aligned.alone {
            issues.push(
                Issue::warning(IssueCode::RanksNotAligned)
                    .with("rank", self.ranks[rank].calls.rank),
            );
        }
        if self.dropped > 0 {
            issues.push(Issue::warning(IssueCode::RanksMismatched).counting(self.dropped as u64));
        }
        issues
    }
}

/// The devices of one trace that exchange data. Empty above `DEVICES_MAX`: no host has as many.
fn communicating_devices(trace: &Trace) -> Vec<RankWork<'_>> {
    let mut numbers: Vec<u32> = trace.kernels.device.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    if !(2..=DEVICES_MAX).contains(&numbers.len()) {
        return Vec::new();
    }
    let mut all: Vec<RankWork<'_>> = numbers
        .into_iter()
        .map(|device| RankWork::from_trace(device, trace, Some(device)))
        .collect();
    all.retain(|work| !work.calls.collectives.is_empty());
    all
}

/// Ranks of other jobs, or ranks that are missing.
fn world_issues(worlds: &[u32], ranks: usize) -> Option<Issue> {
    let world = worlds.iter().max().copied();
    if worlds.iter().any(|size| Some(*size) != world) {
        return Some(Issue::warning(IssueCode::RanksOtherJob));
    }
    let world = world.filter(|world| (*world as usize) > ranks)?;
    let missing = Issue::info(IssueCode::RanksMissing).with("have", ranks);
    Some(missing.with("world_size", world))
}

fn world_sizes(record: &RunRecord) -> Vec<u32> {
    let ranks = record.ranks();
    let sizes = ranks
        .iter()
        .filter_map(|(_, trace)| trace.metadata.get("distributed_world_size"));
    sizes.filter_map(|size| size.parse().ok()).collect()
}
