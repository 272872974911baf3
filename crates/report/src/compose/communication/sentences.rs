//! What communication libraries say of themselves.

use llmprof_record::communication::{Communication, Communicator, PendingCollective};
use llmprof_units::Count;

/// Versions, groups, and what did not end.
pub fn summary(communication: &Communication) -> Vec<String> {
    let mut lines = Vec::new();
    let versions: Vec<String> = communication
        .versions
        .iter()
        .map(|(name, version)| format!("{} {version}", named(name)))
        .collect();
    let groups = communication
        .communicators
        .iter()
        .map(|group| group.ranks)
        .max();
    let mut first = versions;
    if let Some(ranks) = groups {
        let count = Count(communication.communicators.len() as u64, "communicator");
        first.push(format!("{count}, at most {}", Count(ranks, "rank")));
    }
    let ways: Vec<String> = communication
        .transports
        .iter()
        .map(|(way, count)| format!("{way} ({count})"))
        .collect();
    if !ways.is_empty() {
        first.push(format!("connections {}", ways.join(", ")));
    }
    if !first.is_empty() {
        lines.push(format!("Communication: {}.", first.join("; ")));
    }
    if !communication.pending.is_empty() {
        lines.push(format!(
            "{} had not completed when the flight recorder wrote: {}.",
            Count(communication.pending.len() as u64, "collective"),
            communication
                .pending
                .iter()
                .take(3)
                .map(pending)
                .collect::<Vec<_>>()
                .join("; ")
        ));
    }
    lines
}

fn named(name: &str) -> &str {
    match name {
        "nccl" => "NCCL",
        "rccl" => "RCCL",
        "cuda_driver" => "CUDA driver",
        "hip" => "HIP",
        "nccl_inspector" => "NCCL Inspector format",
        "flight_recorder" => "flight recorder format",
        other => other,
    }
}

fn pending(collective: &PendingCollective) -> String {
    let rank = collective
        .rank
        .map(|rank| format!("rank {rank}, "))
        .unwrap_or_default();
    let source = collective
        .source
        .as_ref()
        .map(|source| format!(" at `{source}`"))
        .unwrap_or_default();
    format!(
        "{rank}{} #{} of group {} {}{source}",
        collective.collective, collective.sequence, collective.group, collective.state
    )
}

/// `0, 1, 3` of 8.
pub fn seen(group: &Communicator) -> String {
    let seen: Vec<String> = group.seen.iter().map(u64::to_string).collect();
    seen.join(", ")
}
