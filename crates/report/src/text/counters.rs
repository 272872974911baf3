//! Hardware counters of single kernel launches.

use llmprof_units::{Count, Nanos, significant};

use crate::analyzed::{CountedLaunch, CountersAnalysis};
use crate::kernel_label::kernel_label;
use crate::text::kernel_report::{class, metric};

/// Launches in the summary.
const MOST_LAUNCHES: usize = 5;

/// The result, then the longest launches.
pub fn summary(found: &CountersAnalysis) -> Vec<String> {
    let mut longest: Vec<&CountedLaunch> = found.launches.iter().collect();
    longest.sort_by_key(|row| std::cmp::Reverse(row.duration_ns));
    let launches = longest.into_iter().take(MOST_LAUNCHES).map(launch);
    std::iter::once(result(found)).chain(launches).collect()
}

fn result(found: &CountersAnalysis) -> String {
    let total: Nanos = found
        .launches
        .iter()
        .filter_map(|row| row.duration_ns)
        .sum();
    let launches = Count(found.launches.len() as u64, "launch");
    let joined = found
        .joined
        .map(|joined| format!("; {joined} of them match a kernel on the timeline"));
    format!(
        "{launches} with counters, {total} together (cold caches){}.",
        joined.unwrap_or_default()
    )
}

fn launch(row: &CountedLaunch) -> String {
    let mut parts = Vec::new();
    parts.extend(row.duration_ns.map(|time| time.to_string()));
    parts.push(class(row.class).to_owned());
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
        parts.extend(value.map(|value| format!("{} {} %", metric(name), significant(value))));
    }
    format!("{}: {}", kernel_label(&row.kernel), parts.join(", "))
}

pub const LAUNCHES: &str = "One row per launch, in the order of the file. Durations are Nsight Compute's, which flushes caches and \
                            fixes clocks by default: on a timeline the same kernels take less. Percentages are of peak sustained \
                            throughput.";

pub const ADVICE: &str = "For each launch the rule with the largest estimated speedup, as Nsight Compute estimates it. Small kernels \
                          often lack work, not tuning.";

/// What a page leaves out of the readings.
pub fn more_readings(left_out: u64) -> String {
    format!(
        "{} more are in `counters.json`.",
        Count(left_out, "reading")
    )
}
