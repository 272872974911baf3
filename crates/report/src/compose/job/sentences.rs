//! A whole job: who holds it up, and why.

use llmprof_record::rank_summary::IDLE_CAUSES;
use llmprof_units::{Count, Percent};

use crate::analyzed::{
    GroupKind, GroupSet, JobAnalysis, LookAtReason, RankDifference, SlowLink, Straggler,
};
use crate::compose::ranks::sentences as ranks;
use crate::text::consumers::group_kind;

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
        .map(|one| format!("Rank {} {}.", one.rank, straggler(job, one)))
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
                "Computing is uneven: rank {rank} computes longest, in the median step {longer} longer than the mean rank."
            ),
            None => format!(
                "Computing is uneven: the rank that computes longest, another one in most steps, takes {longer} longer than the mean rank in the median step."
            ),
        });
    }
    lines
}

/// What a straggler did, and what took longer on it.
fn straggler(job: &JobAnalysis, straggler: &Straggler) -> String {
    let mut text = delay(job, straggler);
    if !straggler.differences.is_empty() {
        let differences = straggler.differences.iter();
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
fn delay(job: &JobAnalysis, straggler: &Straggler) -> String {
    let steps = if straggler.steps == 1 {
        "holds the others up".to_owned()
    } else if straggler.is_stable {
        format!(
            "holds the others up in {} of {}",
            straggler.slow_steps.len(),
            Count(straggler.steps, "step")
        )
    } else {
        let named: Vec<String> = straggler
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
            straggler.slow_steps.len(),
            straggler.steps
        )
    };
    format!(
        "{steps}: it takes {} longer than its peers before collectives, and others wait {} ({} of {})",
        straggler.own_delay_ns,
        straggler.caused_waiting_ns,
        Percent(straggler.share_of_step),
        if job.has_marked_steps {
            "a step"
        } else {
            "the recording"
        }
    )
}

fn difference(job: &JobAnalysis, difference: &RankDifference) -> String {
    let times = format!("{} against {}", difference.time_ns, difference.others_ns);
    match (&difference.kernel, &difference.idle_cause) {
        (Some(kernel), _) => {
            let name = crate::kernel_label::kernel_label(kernel);
            let is_more =
                (difference.calls - difference.others_calls).abs() > 0.05 * difference.others_calls;
            let calls = if is_more {
                format!(
                    " ({:.0} calls against {:.0})",
                    difference.calls, difference.others_calls
                )
            } else {
                String::new()
            };
            format!("`{name}`, {times}{calls}")
        }
        (None, _) if job.on_host => format!("{}, {times}", ranks::idle(true)),
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
pub(crate) fn reason(job: &JobAnalysis, reason: &LookAtReason) -> String {
    match reason {
        LookAtReason::Straggler(number) | LookAtReason::SlowInSteps(number) => {
            let straggler = job.stragglers.get(*number as usize);
            straggler.map_or_else(String::new, |straggler| delay(job, straggler))
        }
        LookAtReason::SlowLink(number) => {
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
        LookAtReason::ComputesLonger(share) => {
            format!(
                "computes {} longer than the mean rank in the median step",
                Percent(*share)
            )
        }
        LookAtReason::MissingSteps(steps) => format!("{} missing", Count(*steps, "step")),
        LookAtReason::ClockDrift(ppm) => {
            format!("its clock runs {ppm:+.1} ppm against the others")
        }
        LookAtReason::NotAligned => {
            "no collective of it is known to be one of the others".to_owned()
        }
        LookAtReason::Losses(count) => format!(
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
