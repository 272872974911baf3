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
pub use self::clocks::Clock;
use self::job::JobAnalysis;
pub use self::kind::CollectiveKind;
pub use self::matched::MatchedBy;
pub use self::parts::{Part, RankRow};
pub use self::reduce::summarize;
pub use self::skew::CollectiveRow;
pub use self::slowest::{Difference, SlowestRank};
use crate::ranks::clocks::{Aligned, aligned};
use crate::ranks::matched::{Matched, matched};
use crate::ranks::parts::{Piece, pieces, row};
use crate::ranks::skew::{Meeting, rows};
use crate::ranks::slowest::{caused, slowest};
use crate::ranks::work::{RankCalls, RankWork};
use crate::thresholds::DEVICES_MAX;

/// What several ranks did together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RanksAnalysis {
    /// Ranks of the job, where recorded: more than were imported, maybe.
    pub world_size: Option<u32>,
    /// Whether the lanes are ranks with traces of their own, or devices of one trace.
    pub are_devices: bool,
    /// The window in which all of them were recorded.
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
    /// The lowest rank first.
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
    pub part: Part,
    pub name: &'a str,
    /// The rank that it waits for.
    pub waits_for: Option<u32>,
}

/// Everything about the ranks of a record; nothing where it has one.
pub(crate) fn analyze(record: &RunRecord) -> Option<(RanksAnalysis, Vec<Issue>)> {
    if !record.rank_summaries.is_empty() {
        let summaries: Vec<&RankSummary> = record.rank_summaries.iter().collect();
        let (analysis, mut issues) = job::analyze(&summaries)?;
        issues.extend(mostly_waiting(&analysis));
        return Some((analysis, issues));
    }
    let joined = Joined::of(record)?;
    let mut issues = joined.issues(record);
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
    let entered = joined.entered();
    let caused = caused(meetings, &entered, *window);
    let rank_rows = ranks.iter().enumerate().map(|(index, work)| {
        let (caused_waiting, last_at) = caused[index];
        RankRow {
            rank: work.calls.rank,
            clock: aligned.clocks[index],
            caused_waiting_ns: Nanos(caused_waiting),
            last_at,
            ..row(&pieces[index], *window)
        }
    });
    let in_meetings: usize = meetings.iter().map(|meeting| meeting.members.len()).sum();
    let instances: usize = ranks.iter().map(|work| work.calls.collectives.len()).sum();
    let analysis = RanksAnalysis {
        world_size: world_sizes(record).into_iter().max(),
        are_devices: *are_devices,
        span_ns: Nanos((window.1 - window.0).max(0)),
        entered_apart_ns: Nanos(apart(&entered)),
        matched_by: meetings.iter().map(|meeting| meeting.by).max(),
        matched: meetings.len() as u64,
        unmatched: instances.saturating_sub(in_meetings) as u64,
        ranks: rank_rows.collect(),
        collectives: rows(meetings, &calls_of(ranks)),
        slowest: slowest(ranks, pieces, meetings, &entered, *window),
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
    job::of_summaries(&summaries.iter().collect::<Vec<_>>())
}

impl RanksAnalysis {
    /// The part of the exposed communication of the first rank, which the findings are of, that is waiting for slower ranks.
    pub(crate) fn waiting_share(&self) -> Option<f64> {
        let first = self.ranks.first()?;
        let exposed = first.exposed_communication().0;
        (exposed > 0).then(|| first.exposed_waiting_ns.0 as f64 / exposed as f64)
    }
}

fn apart(times: &[i64]) -> i64 {
    let (first, last) = (times.iter().min(), times.iter().max());
    let apart = last
        .zip(first)
        .map(|(last, first)| last.saturating_sub(*first));
    apart.unwrap_or(0)
}

/// Where the first rank, which the findings are of, mostly waits in its exposed communication: overlapping it would gain nothing.
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

/// The lanes of a timeline.
pub fn lanes(record: &RunRecord) -> Option<RankLanes<'_>> {
    let joined = Joined::of(record)?;
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
    aligned: Aligned,
    meetings: Vec<Meeting>,
    /// Matches that cannot be: some rank had ended before another began.
    dropped: usize,
}

/// Matches the collectives of ranks, aligns their clocks and puts the collectives on one.
fn meet(ranks: &[&RankCalls], share_clock: bool) -> Met {
    let found = matched(ranks);
    let aligned = if share_clock {
        Aligned::as_is(ranks.len())
    } else {
        aligned(ranks, &found)
    };
    let tolerance = aligned.tolerance();
    let meeting = |matched: &Matched| Meeting::of(ranks, &aligned, matched, tolerance);
    let meetings: Vec<Meeting> = found.iter().filter_map(meeting).collect();
    Met {
        dropped: found.len() - meetings.len(),
        aligned,
        meetings,
    }
}

/// The ranks of a record on one clock.
struct Joined<'a> {
    ranks: Vec<RankWork<'a>>,
    are_devices: bool,
    aligned: Aligned,
    meetings: Vec<Meeting>,
    /// Matches that cannot be: some rank had ended before another began.
    dropped: usize,
    pieces: Vec<Vec<Piece>>,
    window: (i64, i64),
}

impl<'a> Joined<'a> {
    fn of(record: &'a RunRecord) -> Option<Self> {
        let traces = record.ranks();
        let are_devices = traces.is_empty();
        let ranks: Vec<RankWork<'a>> = if are_devices {
            devices(record.trace()?)
        } else {
            use rayon::prelude::*;
            let traces = traces.par_iter();
            traces
                .map(|&(rank, trace)| RankWork::of(rank, trace, None))
                .collect()
        };
        if ranks.len() < 2 {
            return None;
        }
        let Met {
            aligned,
            meetings,
            dropped,
        } = meet(&calls_of(&ranks), are_devices);
        let pieces = ranks.iter().enumerate();
        let pieces: Vec<Vec<Piece>> = pieces
            .map(|(index, work)| pieces_of(work, index, &aligned, &meetings))
            .collect();
        let at = |index: usize, time: i64| aligned.common(index, time);
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
    fn entered(&self) -> Vec<i64> {
        let starts = self.ranks.iter().enumerate();
        starts
            .map(|(rank, work)| self.aligned.common(rank, work.recorded.0))
            .collect()
    }

    fn issues(&self, record: &RunRecord) -> Vec<Issue> {
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

fn pieces_of(
    work: &RankWork<'_>,
    index: usize,
    aligned: &Aligned,
    meetings: &[Meeting],
) -> Vec<Piece> {
    pieces(work, index, aligned, meetings)
}

/// The devices of one trace that exchange data; none of more than any host has.
fn devices(trace: &Trace) -> Vec<RankWork<'_>> {
    let mut numbers: Vec<u32> = trace.kernels.device.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    if !(2..=DEVICES_MAX).contains(&numbers.len()) {
        return Vec::new();
    }
    let mut all: Vec<RankWork<'_>> = numbers
        .into_iter()
        .map(|device| RankWork::of(device, trace, Some(device)))
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
