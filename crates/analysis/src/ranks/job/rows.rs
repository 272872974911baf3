//! The time of each rank by part, from its collectives and what ran between them.

use llmprof_record::rank_summary::Between;
use llmprof_units::Nanos;

use super::JobRanks;
use crate::ranks::parts::RankRow;
use crate::ranks::skew::collective_rows;
use crate::ranks::slowest::{SlowestRank, caused_waits};
use crate::ranks::{RanksAnalysis, largest_distance};
use crate::timeline::intervals::union_length;

/// When the last rank began a collective of this rank, by the clock of this rank; `None` if no other rank shows it.
fn last_start(job: &JobRanks<'_>, rank: usize, call: usize) -> Option<i64> {
    let (_, later) = job.meeting_of[rank][call]?;
    Some(
        job.calls[rank].collectives[call]
            .start
            .saturating_add(later),
    )
}

/// Time in which a rank waited for others in a collective and did not compute.
pub(super) fn exposed_waiting(job: &JobRanks<'_>, rank: usize, call: usize) -> i64 {
    let Some(last) = last_start(job, rank, call) else {
        return 0;
    };
    let parts = &job.summaries[rank].collectives[call].exposed;
    parts
        .iter()
        .map(|&(start, end)| end.min(last).saturating_sub(start).max(0))
        .sum()
}

/// Rows of all ranks in the window in which all were recorded, collectives by kind, and the rank that is waited for most.
pub(super) fn sum_up(job: &JobRanks<'_>) -> RanksAnalysis {
    let aligned = &job.met.aligned;
    let ranks = 0..job.summaries.len();
    let entered: Vec<i64> = ranks
        .clone()
        .map(|rank| aligned.to_common(rank, 0))
        .collect();
    let ends = ranks
        .clone()
        .map(|rank| aligned.to_common(rank, job.summaries[rank].recorded_ns));
    let window = (
        entered.iter().copied().max().unwrap_or(0),
        ends.min().unwrap_or(0),
    );
    let caused = caused_waits(&job.met.meetings, &entered, window);
    let rows_of_ranks: Vec<RankRow> = ranks
        .map(|rank| RankRow {
            rank: job.summaries[rank].rank,
            clock: aligned.clocks[rank],
            caused_waiting_ns: Nanos(caused[rank].0),
            last_at: caused[rank].1,
            ..sum_rank(job, rank, window)
        })
        .collect();
    let slowest = caused
        .iter()
        .enumerate()
        .max_by_key(|(rank, (time, _))| (*time, std::cmp::Reverse(*rank)))
        .filter(|(_, (time, _))| *time > 0)
        .map(|(rank, &(time, last_at))| SlowestRank {
            rank: job.summaries[rank].rank,
            caused_waiting_ns: Nanos(time),
            all_waiting_ns: Nanos(caused.iter().map(|(time, _)| time).sum()),
            last_at,
            collectives: caused.iter().map(|(_, calls)| calls).sum(),
            differences: Vec::new(),
        });
    let meetings = &job.met.meetings;
    let members: usize = meetings.iter().map(|meeting| meeting.members.len()).sum();
    let calls: usize = job.calls.iter().map(|calls| calls.collectives.len()).sum();
    let worlds = job
        .summaries
        .iter()
        .filter_map(|summary| summary.world_size);
    let world_size = worlds.max();
    let misses_ranks = world_size.is_some_and(|size| size as usize > job.summaries.len());
    RanksAnalysis {
        world_size,
        are_devices: false,
        span_ns: Nanos(window.1.saturating_sub(window.0).max(0)),
        entered_apart_ns: Nanos(largest_distance(&entered)),
        matched_by: meetings.iter().map(|meeting| meeting.by).max(),
        matched: meetings.len() as u64,
        unmatched: calls.saturating_sub(members) as u64,
        ranks: rows_of_ranks,
        collectives: collective_rows(
            meetings,
            &job.calls.iter().collect::<Vec<_>>(),
            misses_ranks,
        ),
        slowest,
        job: None,
    }
}

/// The parts of one rank in a window of the common clock. Sums between two collectives are cut in proportion if the window begins or
/// ends between them; everything else is exact.
fn sum_rank(job: &JobRanks<'_>, rank: usize, window: (i64, i64)) -> RankRow {
    let summary = job.summaries[rank];
    let begin = job.met.aligned.to_common(rank, 0);
    // The window by the clock of the rank: drift within it is below a thousandth of it.
    let from = window.0.saturating_sub(begin).max(0);
    let to = window.1.saturating_sub(begin).min(summary.recorded_ns);
    let mut row = RankRow::default();
    let mut add_between = |start: i64, end: i64, between: &Between| {
        let (length, inside) = (end - start, end.min(to) - start.max(from));
        if length <= 0 || inside <= 0 {
            return;
        }
        let share = inside as f64 / length as f64;
        let part = |ns: i64| (ns as f64 * share).round() as i64;
        row.compute_ns.0 += part(between.compute_ns);
        row.copies_ns.0 += part(between.copies_ns);
    };
    let mut until = 0;
    let (mut transfers, mut others, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let mut communicating = Vec::new();
    for (index, call) in summary.collectives.iter().enumerate() {
        add_between(until, call.start_ns, &call.before);
        until = until.max(call.end_ns);
        communicating.push((call.start_ns, call.end_ns));
        let last = last_start(job, rank, index);
        for &(start, end) in &call.exposed {
            match last {
                Some(last) => {
                    waits.push((start, end.min(last)));
                    transfers.push((start.max(last), end));
                }
                None => others.push((start, end)),
            }
        }
    }
    add_between(until, summary.recorded_ns, &summary.tail);
    let clip = |parts: &[(i64, i64)]| -> Vec<(i64, i64)> {
        let mut parts: Vec<(i64, i64)> = parts
            .iter()
            .map(|&(start, end)| (start.max(from), end.min(to)))
            .filter(|(start, end)| end > start)
            .collect();
        parts.sort_unstable();
        parts
    };
    let union = |lists: &[&[(i64, i64)]]| {
        let all: Vec<(i64, i64)> = lists.iter().flat_map(|list| list.iter().copied()).collect();
        union_length(clip(&all))
    };
    let transfer = union(&[&transfers]);
    let with_others = union(&[&transfers, &others]);
    let exposed = union(&[&transfers, &others, &waits]);
    let communication = union(&[&communicating]);
    row.exposed_transfer_ns = Nanos(transfer);
    row.exposed_unmatched_ns = Nanos(with_others - transfer);
    row.exposed_waiting_ns = Nanos(exposed - with_others);
    row.communication_ns = Nanos(communication);
    // Communication that is not exposed overlaps with computing.
    row.compute_ns.0 += communication - exposed;
    let span = window.1.saturating_sub(window.0).max(0);
    row.busy_ns = Nanos(row.compute_ns.0 + row.copies_ns.0 + exposed).min(Nanos(span));
    row.idle_ns = Nanos(span - row.busy_ns.0);
    row
}
