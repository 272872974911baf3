//! Where the time of each rank went, in the window in which all of them were recorded.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::clocks::{AlignedClocks, RankClock};
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
    pub clock: RankClock,
    /// Time in kernels that compute.
    pub compute_ns: Nanos,
    /// Communication that computing does not hide: the part after the last rank had begun.
    pub exposed_transfer_ns: Nanos,
    /// Communication that computing does not hide: the part in which the rank waited for the last one.
    pub exposed_waiting_ns: Nanos,
    /// Communication that computing does not hide and that no other rank shows.
    pub exposed_unmatched_ns: Nanos,
    /// Time in which only copies and memory fills ran.
    pub copies_ns: Nanos,
    /// Time in which the device is idle.
    pub idle_ns: Nanos,
    /// Time with any event: the length of the window less `idle_ns`.
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
const COVERING_ORDER: [RankPart; 5] = [
    RankPart::Compute,
    RankPart::Transfer,
    RankPart::Unmatched,
    RankPart::Waiting,
    RankPart::Copies,
];

/// The part that an interval of work counts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankPart {
    Compute,
    /// A collective after its last rank had begun.
    Transfer,
    /// A collective before its last rank had begun.
    Waiting,
    /// Communication that no other rank shows.
    Unmatched,
    Copies,
}

/// A piece of work on the aligned clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankPiece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) part: RankPart,
    /// The work, by its index.
    pub(super) work: usize,
    /// The rank that it waits for.
    pub(super) waits_for: Option<usize>,
}

/// Cuts the work of one rank into pieces: collectives where their last rank began.
pub(super) fn cut_pieces(
    work: &RankWork<'_>,
    rank: usize,
    aligned: &AlignedClocks,
    meetings: &[Meeting],
) -> Vec<RankPiece> {
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
            aligned.to_common(rank, item.start),
            aligned.to_common(rank, item.end),
        );
        let mut push = |start: i64, end: i64, part: RankPart, waits_for: Option<usize>| {
            if end > start {
                pieces.push(RankPiece {
                    start,
                    end,
                    part,
                    work: index,
                    waits_for,
                });
            }
        };
        match item.class {
            Class::Compute => push(start, end, RankPart::Compute, None),
            Class::Copy | Class::Memset => push(start, end, RankPart::Copies, None),
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
                            RankPart::Waiting,
                            Some(last).filter(|last| *last != rank),
                        );
                        push(cut, end, RankPart::Transfer, None);
                    }
                    None => push(start, end, RankPart::Unmatched, None),
                }
            }
        }
    }
    pieces
}

/// The parts of one rank in a window.
pub(super) fn sum_pieces(pieces: &[RankPiece], window: (i64, i64)) -> RankRow {
    let clipped = |wanted: &[RankPart]| {
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
    let mut exposed = [Nanos(0); COVERING_ORDER.len()];
    for (number, part) in exposed.iter_mut().enumerate() {
        let union = clipped(&COVERING_ORDER[..=number]);
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
        communication_ns: Nanos(clipped(&[
            RankPart::Transfer,
            RankPart::Unmatched,
            RankPart::Waiting,
        ])),
        ..RankRow::default()
    }
}
