//! A whole job: who holds it up, and why.

use llmprof_record::rank_summary::IDLE_CAUSES;
use llmprof_units::{Count, Percent};

use crate::analyzed::{
    GroupKind, GroupSet, JobAnalysis, RankDifference, Reason, SlowLink, Straggler,
};

pub(crate) const HEAT_MAP_TITLE: &str = "Own time of ranks by step";
/// Stragglers and links that are worded; the JSON has all.
const WORDED_MAX: usize = 10;
/// Ranks of a group that are named.
const RANKS_NAMED_MAX: usize = 8;

/// Stragglers and slow links, or that there are none.
pub(crate) fn conclusions(job: &JobAnalysis) -> Vec<String> {
    let mut lines: Vec<String> = job
        .stragglers
        .iter()
        .take(WORDED_MAX)
        .map(|found| format!("Rank {} {}.", found.rank, straggler(job, found)))
        .collect();
    let left = job.stragglers.len().saturating_sub(WORDED_MAX);
    if left > 0 {
        lines.push(format!(
            "{} more that others waited for are in analysis.json.",
            Count(left as u64, "rank")
        ));
    }
    if lines.is_empty() {
        lines.push(
            "No rank holds the others up by its own work for 1 % of a step or more.".to_owned(),
        );
    }
    lines.extend(job.slow_links.iter().take(WORDED_MAX).map(slow_link));
    if job.compute_imbalance >= 0.02 {
        let longer = Percent(job.compute_imbalance);
        lines.push(match job.most_computing_rank {
            Some(rank) => format!(
                "Computing is uneven: rank {rank} computes longest, {longer} longer than the mean rank."
            ),
            None => format!(
                "Computing is uneven: the rank that computes longest, another one in most steps, takes {longer} longer than the mean rank."
            ),
        });
    }
    lines
}

/// What a straggler did, and what took longer on it.
fn straggler(job: &JobAnalysis, found: &Straggler) -> String {
    let mut text = delay(job, found);
    if !found.differences.is_empty() {
        let differences = found.differences.iter();
        let differences: Vec<String> = differences.map(|one| difference(job, one)).collect();
        let step = if job.has_marked_steps {
            " in a step"
        } else {
            ""
        };
        text += &format!(". What takes longer{step}: {}", differences.join("; "));
    }
    text
}

/// In which steps a straggler was waited for, and how long.
fn delay(job: &JobAnalysis, found: &Straggler) -> String {
    let steps = if found.steps == 1 {
        "holds the others up".to_owned()
    } else if found.is_stable {
        format!(
            "holds the others up in {} of {}",
            found.slow_steps.len(),
            Count(found.steps, "step")
        )
    } else {
        let named: Vec<String> = found
            .slow_steps
            .iter()
            .take(RANKS_NAMED_MAX)
            .map(u64::to_string)
            .collect();
        format!(
            "holds the others up in {} only ({} of {})",
            if named.len() == 1 {
                format!("step {}", named[0])
            } else {
                format!("steps {}", named.join(", "))
            },
            found.slow_steps.len(),
            found.steps
        )
    };
    format!(
        "{steps}: it takes {} longer than its peers before collectives, and others wait {} ({} of {})",
        found.own_delay_ns,
        found.caused_waiting_ns,
        Percent(found.share_of_step),
        if job.has_marked_steps {
            "a step"
        } else {
            "the recording"
        }
    )
}

fn difference(job: &JobAnalysis, found: &RankDifference) -> String {
    let times = format!("{} against {}", found.time_ns, found.others_ns);
    match (&found.kernel, &found.idle_cause) {
        (Some(kernel), _) => {
            let name = crate::kernel_label::kernel_label(kernel);
            let is_more = (found.calls - found.others_calls).abs() > 0.05 * found.others_calls;
            let calls = if is_more {
                format!(
                    " ({:.0} calls against {:.0})",
                    found.calls, found.others_calls
                )
            } else {
                String::new()
            };
            format!("`{name}`, {times}{calls}")
        }
        (None, _) if job.on_host => format!("{}, {times}", super::ranks::idle(true)),
        (None, cause) => format!(
            "GPU idle ({}), {times}",
            idle_cause(cause.as_deref().unwrap_or_default())
        ),
    }
}

fn idle_cause(key: &str) -> &'static str {
    let words = [
        "host in a sync call",
        "host busy",
        "launch latency",
        "host in a launch call",
        "inter-kernel gap",
        "queued and not started",
        "waiting for the DataLoader",
        "cause not recorded",
    ];
    let place = IDLE_CAUSES.iter().position(|cause| *cause == key);
    place.map_or("cause not recorded", |place| words[place])
}

fn slow_link(link: &SlowLink) -> String {
    let message = link
        .bytes
        .map_or(String::new(), |bytes| format!(" of {bytes}"));
    let between = if link.ranks.len() == 2 {
        format!(
            "The link between ranks {} and {}",
            link.ranks[0], link.ranks[1]
        )
    } else {
        format!("A link among ranks {}", ranks(&link.ranks))
    };
    format!(
        "{between} is slow: {}{message} takes {} to transfer, {} in {} (in {} of {}).",
        link.kind.name(),
        link.transfer_ns,
        link.others_ns,
        Count(link.groups, "other group"),
        link.slow_steps,
        Count(link.steps, "step")
    )
}

fn ranks(list: &[u32]) -> String {
    let mut named: Vec<String> = list
        .iter()
        .take(RANKS_NAMED_MAX)
        .map(u32::to_string)
        .collect();
    if list.len() > RANKS_NAMED_MAX {
        named.push(format!("… {} in all", list.len()));
    }
    named.join(", ")
}

/// Why a rank should be looked at.
pub(crate) fn reason(job: &JobAnalysis, reason: &Reason) -> String {
    match reason {
        Reason::Straggler(number) | Reason::SlowInSteps(number) => {
            let found = job.stragglers.get(*number as usize);
            found.map_or_else(String::new, |found| delay(job, found))
        }
        Reason::SlowLink(number) => {
            let link = job.slow_links.get(*number as usize);
            link.map_or_else(String::new, |link| {
                format!(
                    "its group transfers {} in {} where others take {}",
                    link.kind.name(),
                    link.transfer_ns,
                    link.others_ns
                )
            })
        }
        Reason::ComputesLonger(share) => {
            format!("computes {} longer than the mean rank", Percent(*share))
        }
        Reason::MissingSteps(steps) => format!("{} missing", Count(*steps, "step")),
        Reason::ClockDrift(ppm) => {
            format!("its clock runs {ppm:+.1} ppm against the others")
        }
        Reason::NotAligned => "it shares no collective with the others".to_owned(),
        Reason::Losses(count) => format!(
            "{} its profile",
            match count {
                1 => "one record or fact is missing in".to_owned(),
                _ => format!("{count} records or facts are missing in"),
            }
        ),
    }
}

/// What the heat map shows.
pub(crate) fn heat_map(job: &JobAnalysis) -> String {
    let steps = if job.has_marked_steps {
        ""
    } else {
        " Nothing in the profiles marks steps."
    };
    format!(
        "Own time is that of a step less waiting for other ranks, over the median of all ranks in that step. Where a row or a \
         column stands for several, it shows the highest; rank_steps.csv has {}.{steps}",
        Count(
            (job.step_times.ranks.len() * job.steps.len()) as u64,
            "value"
        )
    )
}

pub(crate) fn group(set: &GroupSet) -> String {
    let is_sure = set.is_named || set.kind == GroupKind::Unknown;
    format!(
        "{}{}",
        group_kind(set.kind),
        if is_sure { "" } else { " (by what they send)" }
    )
}

/// What a process group is for.
pub(crate) fn group_kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::World => "all ranks",
        GroupKind::Tensor => "tensor parallel",
        GroupKind::Pipeline => "pipeline parallel",
        GroupKind::Data => "data parallel",
        GroupKind::Expert => "expert parallel",
        GroupKind::Context => "context parallel",
        GroupKind::Unknown => "not known",
    }
}
