//! Hardware counters of single kernel launches.

use llmprof_analysis::counters::KernelBottleneck;
use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{CountedLaunch, CountersAnalysis};
use crate::compose::kernel_report::sentences::{class, classes, metric};
use crate::kernel_label::kernel_label;

/// Launches in the summary.
const LAUNCHES_MAX: usize = 5;

/// The result, then the longest launches.
pub fn summary(analysis: &CountersAnalysis) -> Vec<String> {
    let mut longest: Vec<&CountedLaunch> = analysis.launches.iter().collect();
    longest.sort_by_key(|row| std::cmp::Reverse(row.duration_ns));
    let rest = longest.len().saturating_sub(LAUNCHES_MAX) as u64;
    let more = (rest > 0).then(|| format!("{} in the report.", Count(rest, "more launch")));
    let launches = longest.into_iter().take(LAUNCHES_MAX).map(launch);
    std::iter::once(result(analysis))
        .chain(launches)
        .chain(more)
        .collect()
}

/// What limits the kernels, by share of time, the largest first.
pub fn class_shares(analysis: &CountersAnalysis) -> String {
    let mut shares = classes(analysis);
    shares.sort_by(|(_, _, a), (_, _, b)| b.total_cmp(a));
    let parts: Vec<String> = shares
        .into_iter()
        .map(|(one, _, share)| format!("{} {}", class(one), Percent(share)))
        .collect();
    format!("Time by what limits it: {}.", parts.join(", "))
}

fn result(analysis: &CountersAnalysis) -> String {
    let durations = analysis.launches.iter().filter_map(|row| row.duration_ns);
    // Pages of a single section have no durations.
    let total = if durations.clone().next().is_none() {
        "duration not recorded".to_owned()
    } else {
        format!("{} together (cold caches)", durations.sum::<Nanos>())
    };
    let launches = Count(analysis.launches.len() as u64, "launch");
    let joined = analysis
        .joined
        .map(|joined| format!("; {joined} of them match a kernel on the timeline"));
    format!(
        "{launches} with counters, {total}{}.",
        joined.unwrap_or_default()
    )
}

fn launch(row: &CountedLaunch) -> String {
    let mut parts = Vec::new();
    parts.extend(row.duration_ns.map(|time| time.to_string()));
    parts.push(match row.class {
        KernelBottleneck::Unknown => "class unknown".to_owned(),
        known => class(known).to_owned(),
    });
    // What decides: the SM may be less busy than its FLOP pipe is full.
    let flop_rate = row.used.flops_pct;
    parts.extend(
        flop_rate
            .filter(|_| row.class == KernelBottleneck::ComputeBound)
            .map(|percent| format!("FLOP rate {}", Percent(percent / 100.0))),
    );
    let shown = [
        "sm_throughput_pct",
        "dram_throughput_pct",
        "l2_throughput_pct",
        "achieved_occupancy_pct",
    ];
    for (name, value) in row
        .percentages
        .iter()
        .filter(|(name, _)| shown.contains(&name.as_str()))
    {
        parts.extend(
            value.map(|value| format!("{} {}", inside(metric(name)), Percent(value / 100.0))),
        );
    }
    format!("{}: {}", kernel_label(&row.kernel), parts.join(", "))
}

/// The name of a metric inside a line: only abbreviations keep their capitals.
fn inside(metric: &str) -> String {
    let mut letters = metric.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(metric.chars().skip(1)).collect()
        }
        _ => metric.to_owned(),
    }
}

/// A rule's text up to the end of its first sentence.
pub(crate) fn first_sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    match text.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => text,
    }
}

pub const LAUNCHES: &str = "One row per launch, in the order of the file. Durations are Nsight Compute's, which flushes caches and \
                            fixes clocks by default: on a timeline the same kernels take less. Percentages are of peak sustained \
                            throughput over the elapsed time; L1 throughput is over the cycles in which an SM was active, and of \
                            tiny kernels beyond 100 %.";

pub const ADVICE: &str = "For each launch the rule with the largest speedup that Nsight Compute estimates (share of its time \
                          saved), by the first sentence; the kernel report has the whole text. Small kernels often lack work, \
                          not tuning.";

/// What a page leaves out of the readings.
pub fn more_readings(left_out: u64) -> String {
    format!(
        "{} more are in `counters.json`.",
        Count(left_out, "reading")
    )
}
