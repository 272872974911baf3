//! Where the time of each rank went, in the window in which all of them were recorded.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::clocks::{Aligned, Clock};
use crate::ranks::skew::Meeting;
use crate::ranks::work::RankWork;
use crate::timeline::device_events::Class;
use crate::timeline::intervals::union_length;

/// The time of one rank by part. Parts sum to the window; where several run at once the time belongs to the first of compute,
/// transfer, communication that was not matched, waiting, copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RankRow {
    /// Number of the rank; of GPUs of one trace, the device.
    pub rank: u32,
    /// How its clock was aligned.
    pub clock: Clock,
    /// Time in kernels that compute.
    pub compute_ns: Nanos,
    /// Communication that computing does not hide: the part after the last rank had begun.
    pub exposed_transfer_ns: Nanos,
    /// The part before: waiting for the slowest rank.
    pub exposed_waiting_ns: Nanos,
    /// Communication that computing does not hide and that no other rank shows.
    pub exposed_unmatched_ns: Nanos,
    /// Copies and memory fills beside nothing else.
    pub copies_ns: Nanos,
    /// Time in which the device is idle.
    pub idle_ns: Nanos,
    /// All but idle.
    pub busy_ns: Nanos,
    /// Time with communication, hidden or not.
    pub communication_ns: Nanos,
    /// Mean time in the window that the other ranks waited for this one, over all collectives at which it came last.
    pub caused_waiting_ns: Nanos,
    /// Collectives at which it came last.
    pub last_at: u64,
}

impl RankRow {
    /// Communication that computing does not hide.
    pub fn exposed_communication(&self) -> Nanos {
        let parts = [
            self.exposed_transfer_ns,
            self.exposed_waiting_ns,
            self.exposed_unmatched_ns,
        ];
        Nanos(parts.iter().map(|part| part.0).sum())
    }
}

/// Parts in the order in which one covers another.
const ORDER: [Part; 5] = [
    Part::Compute,
    Part::Transfer,
    Part::Unmatched,
    Part::Waiting,
    Part::Copies,
];

/// What an interval of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Compute,
    /// A collective after its last rank had begun.
    Transfer,
    /// A collective before.
    Waiting,
    /// Communication that no other rank shows.
    Unmatched,
    Copies,
}

/// A piece of work on the aligned clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) part: Part,
    /// The work, by its index.
    pub(super) work: usize,
    /// The rank that it waits for.
    pub(super) waits_for: Option<usize>,
}

/// The work of one rank in pieces: collectives are cut where their last rank began.
pub(super) fn pieces(
    work: &RankWork<'_>,
    rank: usize,
    aligned: &Aligned,
    meetings: &[Meeting],
) -> Vec<Piece> {
    let mut bounds: Vec<(i64, i64, i64, usize)> = meetings
        .iter()
        .filter_map(|meeting| {
            let member = meeting.members.iter().find(|member| member.rank == rank)?;
            Some((member.start, member.end, meeting.last_start, meeting.last))
        })
        .collect();
    bounds.sort_unstable();
    let mut pieces = Vec::with_capacity(work.work.len());
    for (index, item) in work.work.iter().enumerate() {
        let (start, end) = (
            aligned.common(rank, item.start),
            aligned.common(rank, item.end),
        );
        let mut push = |start: i64, end: i64, part: Part, waits_for: Option<usize>| {
            if end > start {
                pieces.push(Piece {
                    start,
                    end,
                    part,
                    work: index,
                    waits_for,
                });
            }
        };
        match item.class {
            Class::Compute => push(start, end, Part::Compute, None),
            Class::Copy | Class::Memset => push(start, end, Part::Copies, None),
            Class::Communication => {
                let after = bounds.partition_point(|bound| bound.0 <= start);
                let meeting = bounds[..after]
                    .iter()
                    .rev()
                    .take(16)
                    .find(|bound| end <= bound.1);
                match meeting {
                    Some(&(.., last_start, last)) => {
                        let cut = last_start.clamp(start, end);
                        push(
                            start,
                            cut,
                            Part::Waiting,
                            Some(last).filter(|last| *last != rank),
                        );
                        push(cut, end, Part::Transfer, None);
                    }
                    None => push(start, end, Part::Unmatched, None),
                }
            }
        }
    }
    pieces
}

/// The parts of one rank in a window.
pub(super) fn row(pieces: &[Piece], window: (i64, i64)) -> RankRow {
    let clipped = |wanted: &[Part]| {
        let mut intervals: Vec<(i64, i64)> = pieces
            .iter()
            .filter(|piece| wanted.contains(&piece.part))
            .map(|piece| (piece.start.max(window.0), piece.end.min(window.1)))
            .filter(|(start, end)| end > start)
            .collect();
        intervals.sort_unstable();
        union_length(intervals)
    };
    let mut covered = 0;
    let mut exposed = [Nanos(0); ORDER.len()];
    for (number, part) in exposed.iter_mut().enumerate() {
        let union = clipped(&ORDER[..=number]);
        *part = Nanos(union - covered);
        covered = union;
    }
    let [compute, transfer, unmatched, waiting, copies] = exposed;
    RankRow {
        compute_ns: compute,
        exposed_transfer_ns: transfer,
        exposed_unmatched_ns: unmatched,
        exposed_waiting_ns: waiting,
        copies_ns: copies,
        busy_ns: Nanos(covered),
        idle_ns: Nanos((window.1 - window.0).saturating_sub(covered).max(0)),
        communication_ns: Nanos(clipped(&[Part::Transfer, Part::Unmatched, Part::Waiting])),
        ..RankRow::default()
    }
}
