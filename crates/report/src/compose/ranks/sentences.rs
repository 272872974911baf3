//! Several ranks of one job.

use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{
    Analysis, CollectiveRow, LanePiece, MatchedBy, RankPart, RankRow, RanksAnalysis,
    SlowestDifference, SlowestRank,
};

/// What one lane is: a rank of a job, or a GPU of one process.
pub fn noun(ranks: &RanksAnalysis) -> &'static str {
    if ranks.are_devices { "GPU" } else { "rank" }
}

/// One line of the summary: how many, how busy, who is waited for.
pub(crate) fn line(analysis: &Analysis) -> Option<String> {
    let ranks = analysis.ranks.as_ref()?;
    let noun = noun(ranks);
    let span = ranks.span_ns;
    if span.0 <= 0 {
        return Some(format!(
            "{}, not recorded at the same time.",
            Count(ranks.ranks.len() as u64, noun)
        ));
    }
    let of = |part: fn(&RankRow) -> Nanos| {
        let shares = ranks
            .ranks
            .iter()
            .map(|row| part(row).0 as f64 / span.0 as f64);
        let (low, high) = shares.fold((f64::INFINITY, 0.0_f64), |(low, high), share| {
            (low.min(share), high.max(share))
        });
        between(low, high)
    };
    let busy = of(|row| row.busy_ns);
    let exposed = of(RankRow::exposed_communication);
    let mut line = format!(
        "{} over {span}: busy {busy}, exposed communication {exposed}.",
        Count(ranks.ranks.len() as u64, noun)
    );
    // Below a hundredth of the window it explains nothing.
    if ranks.entered_apart_ns.0.saturating_mul(100) > span.0 && !ranks.are_devices {
        line += &format!(
            " Recordings started {} apart; no rank is blamed for that.",
            ranks.entered_apart_ns
        );
    }
    if let Some(slowest) = &ranks.slowest {
        line += &format!(" {}", slow(ranks, slowest));
    }
    if !ranks.are_devices
        && let Some(first) = ranks.ranks.first()
    {
        line += &format!(
            " Phases, kernels, operators and speedups below are those of rank {} alone: the run takes as long as its slowest rank.",
            first.rank
        );
    }
    Some(line)
}

/// `12.0 %`, or `12.0 % to 70.1 %` where the two differ.
fn between(low: f64, high: f64) -> String {
    let (low, high) = (Percent(low).to_string(), Percent(high).to_string());
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Who is waited for, and how long.
fn slow(ranks: &RanksAnalysis, slowest: &SlowestRank) -> String {
    let noun = noun(ranks);
    let (others, mean) = match ranks.ranks.len() {
        2 => (format!("The other {noun}"), ""),
        _ => ("The others".to_owned(), " on average"),
    };
    format!(
        "{others} waited for {noun} {} for {}{mean} ({} of the time), at {} of {}.",
        slowest.rank,
        slowest.caused_waiting_ns,
        Percent(slowest.caused_waiting_ns.0 as f64 / ranks.span_ns.0.max(1) as f64),
        slowest.last_at,
        Count(slowest.collectives, "collective")
    )
}

/// How ranks came on one clock.
pub fn basis(ranks: &RanksAnalysis) -> String {
    let noun = noun(ranks);
    let how = match ranks.matched_by {
        Some(MatchedBy::Sequence) => "by process group and sequence number",
        Some(MatchedBy::Order) => {
            "by the order of equal kinds, since no sequence numbers are recorded"
        }
        None => {
            return format!(
                "No collective is known to be one of two {noun}s, so clocks are not aligned and nothing is said of skew."
            );
        }
    };
    let matched = format!("{} matched {how}", Count(ranks.matched, "collective"));
    if ranks.are_devices {
        return format!("{matched}. The GPUs share the clock of one trace.");
    }
    let spread = ranks
        .ranks
        .iter()
        .map(|row| row.clock.spread_ns)
        .max()
        .unwrap_or_default();
    format!(
        "{matched}. Clocks are aligned by the ends of matched collectives, which are one moment for all ranks; for half of them the ends \
         then agree to {spread} or better on every rank."
    )
}

pub fn columns(ranks: &RanksAnalysis) -> String {
    format!(
        "Parts sum to the {} in which every {} was recorded. Time in which several run at once belongs to the first of compute, transfer, \
         waiting, copies; communication behind computing is hidden. Waiting is the part of a collective before its last {} began, transfer the \
         rest.",
        ranks.span_ns,
        noun(ranks),
        noun(ranks)
    )
}

/// What the columns of collectives mean.
pub fn collectives() -> &'static str {
    "Skew is from the first to the last start, transfer from the last start to the end, both the median of the calls. Bus bandwidth is \
     that of nccl-tests: bytes that must cross the links of one rank over the transfer time."
}

/// `3: last in 12 of 16 calls, 7.624 ms of 8.158 ms skew`.
pub fn last(row: &CollectiveRow) -> String {
    format!(
        "{}: last in {} of {}, {} of {} skew",
        row.last_rank,
        row.last_rank_calls,
        Count(row.calls, "call"),
        row.last_rank_skew_ns,
        row.skew_total_ns
    )
}

/// The slowest rank, then what it did differently.
pub fn slowest(ranks: &RanksAnalysis) -> Vec<String> {
    let Some(slowest) = &ranks.slowest else {
        return Vec::new();
    };
    let noun = noun(ranks);
    let mut lines = vec![format!(
        "{} This is {} of all waiting.",
        slow(ranks, slowest),
        Percent(slowest.caused_waiting_ns.0 as f64 / slowest.all_waiting_ns.0.max(1) as f64)
    )];
    // Of a job, the lines on stragglers say what took longer.
    if slowest.differences.is_empty() && ranks.job.is_some() {
        return lines;
    }
    if slowest.differences.is_empty() {
        lines.push(format!(
            "Nothing took clearly longer on {noun} {} than on the others.",
            slowest.rank
        ));
        return lines;
    }
    lines.push(format!(
        "What took longer on {noun} {} before these collectives than on {}: {}.",
        slowest.rank,
        if ranks.ranks.len() == 2 {
            format!("the other {noun}")
        } else {
            "the median of the others".to_owned()
        },
        slowest
            .differences
            .iter()
            .map(|one| difference(one, ranks.job.as_ref().is_some_and(|job| job.on_host)))
            .collect::<Vec<_>>()
            .join("; ")
    ));
    lines
}

/// Time of a rank without work.
pub(crate) fn idle(on_host: bool) -> &'static str {
    if on_host {
        "time without a recorded op"
    } else {
        "GPU idle"
    }
}

fn difference(difference: &SlowestDifference, on_host: bool) -> String {
    match &difference.name {
        None => format!(
            "{}, {} against {}",
            idle(on_host),
            difference.time_ns,
            difference.others_ns
        ),
        Some(name) => {
            let name = crate::kernel_label::kernel_label(name);
            let calls = if difference.calls == difference.others_calls {
                String::new()
            } else {
                format!(
                    " ({} calls against {})",
                    difference.calls, difference.others_calls
                )
            };
            format!(
                "`{name}`, {} against {}{calls}",
                difference.time_ns, difference.others_ns
            )
        }
    }
}

/// Signed, with its sign in front: `+12.3 µs`.
pub fn offset(offset: Nanos) -> String {
    if offset.0 > 0 {
        format!("+{offset}")
    } else {
        offset.to_string()
    }
}

/// `+12.3 ppm`; a dash where the collectives show none.
pub fn drift(ppm: f64) -> String {
    if ppm == 0.0 {
        "–".to_owned()
    } else {
        format!("{ppm:+.1} ppm")
    }
}

/// What a part is called, as in the table.
pub fn part(part: RankPart) -> &'static str {
    match part {
        RankPart::Compute => "compute",
        RankPart::Transfer => "transfer",
        RankPart::Waiting => "waiting",
        RankPart::Unmatched => "other communication",
        RankPart::Copies => "copies",
    }
}

/// The name of a piece of work on a lane; of a collective, what it does then.
pub fn piece(piece: &LanePiece<'_>, noun: &str) -> String {
    match (piece.part, piece.waits_for) {
        (RankPart::Waiting, Some(rank)) => format!("waiting for {noun} {rank}: {}", piece.name),
        (RankPart::Transfer, _) => format!("transfer: {}", piece.name),
        _ => piece.name.to_owned(),
    }
}
