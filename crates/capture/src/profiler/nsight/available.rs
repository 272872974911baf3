//! Sets, sections and metrics of Nsight Compute: what is asked for, checked against what the installed tool has.

use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{NcuPlan, Tier, Word},
};

use super::Tool;
use crate::process::Launch;

/// Metrics of older chips and tools, and what counts the same on newer ones. Bank conflicts and stalls kept their names.
const METRIC_SUCCESSORS: [(&str, &str); 7] = [
    (
        "flop_count_hp.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
    ),
    (
        "flop_count_sp.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    ),
    (
        "flop_count_dp.sum",
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    ),
    (
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    (
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    ),
    // Blackwell's names.
    ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
];

/// Sets that were renamed: tools of 2023 have the first name, later ones the second.
const SET_SUCCESSORS: [(&str, &str); 1] = [("default", "basic")];

/// Bytes are summed over launches, which rates are not exact enough for.
const DRAM_BYTES_METRICS: [&str; 2] = ["dram__bytes_read.sum", "dram__bytes_write.sum"];

/// What begins like this is collected and not listed by `--query-metrics`, which knows counters of the hardware alone.
const NOT_LISTED: [&str; 11] = [
    "launch__",
    "device__",
    "derived__",
    "numa__",
    "nvlink__",
    "c2clink__",
    "profiler__",
    "sass__",
    "sm__maximum_warps_",
    "smsp__maximum_warps_",
    "smsp__pcsamp_",
];

/// What the installed tool has: identifiers of sets and sections, base names of metrics. A list is empty where the tool did not
/// answer, and then nothing is checked by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Available {
    pub sets: Vec<String>,
    pub sections: Vec<String>,
    pub metrics: Vec<String>,
}

/// What ncu is asked for, as far as the tool has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Absent where the tool has none by that name: sections and metrics are collected alone.
    pub set: Option<String>,
    pub sections: Vec<String>,
    pub metrics: Vec<String>,
    /// Options of the request that name none of them.
    pub args: Vec<String>,
    pub issues: Vec<Issue>,
}

impl Available {
    /// Reads what `ncu --list-sets`, `--list-sections` and `--query-metrics` print.
    pub fn parse_lists(sets: &str, sections: &str, metrics: &str) -> Self {
        let is_metric = |word: &&str| word.contains("__");
        let metrics = metrics.lines().filter_map(first_word).filter(is_metric);
        Self {
            sets: first_column(sets),
            sections: first_column(sections),
            metrics: metrics.map(str::to_owned).collect(),
        }
    }

    /// What the installed tool says that it has. For metrics it takes seconds and a GPU.
    pub fn ask_tool(tool: &Tool) -> Self {
        let ask = |word: &str| {
            let command = Launch::new(tool.program.to_string_lossy()).arg(word);
            let output = command.output();
            output
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_default()
        };
        std::thread::scope(|scope| {
            let sets = scope.spawn(|| ask("--list-sets"));
            let sections = scope.spawn(|| ask("--list-sections"));
            let metrics = ask("--query-metrics");
            let answer = |thread: std::thread::ScopedJoinHandle<'_, String>| {
                thread.join().unwrap_or_default()
            };
            Self::parse_lists(&answer(sets), &answer(sections), &metrics)
        })
    }

    /// Set, sections (those of the tier first) and metrics that the tool has; what it lacks is replaced or dropped with an issue.
    /// Free options that name some are checked like the keys: a set takes the place of the tier's, sections and metrics add to
    /// the others, since ncu takes `--set` and `--metrics` once.
    pub fn check_plan(&self, plan: &NcuPlan) -> Checked {
        let mut checked = Checked::default();
        let mut free = FreeOptions::parse_args(&plan.args);
        let (of_tier, sections) = tier_contents(plan.tier);
        for set in free.sets.drain(..).rev().chain([of_tier.to_owned()]) {
            if checked.set.is_none() {
                checked.set = self.supported_set(&set, &mut checked.issues);
            }
        }
        let of_tier = sections.iter().map(|&section| section.to_owned());
        for section in of_tier
            .chain(plan.sections.iter().cloned())
            .chain(free.sections)
        {
            if checked.sections.contains(&section) {
                continue;
            }
            // A pattern is matched by the tool.
            let has = self.sections.is_empty() || self.sections.contains(&section);
            if has || section.starts_with("regex:") {
                checked.sections.push(section);
            } else {
                let issue = Issue::warning(IssueCode::NcuNoSection).with("section", section);
                checked.issues.push(issue);
            }
        }
        let bytes = DRAM_BYTES_METRICS.iter().map(|&metric| metric.to_owned());
        for metric in bytes
            .chain(plan.metrics.iter().cloned())
            .chain(free.metrics)
        {
            if let Some(metric) = self.supported_metric(&metric, &mut checked.issues)
                && !checked.metrics.contains(&metric)
            {
                checked.metrics.push(metric);
            }
        }
        checked.args = free.rest;
        checked
    }

    /// The set of this name, or the one that has its place.
    fn supported_set(&self, set: &str, issues: &mut Vec<Issue>) -> Option<String> {
        let has = |name: &str| self.sets.is_empty() || self.sets.iter().any(|known| known == name);
        if has(set) {
            return Some(set.to_owned());
        }
        let other = SET_SUCCESSORS.iter().find_map(|&(old, new)| {
            let is_new = (set == new).then_some(old);
            is_new.or((set == old).then_some(new))
        });
        if let Some(other) = other.filter(|other| has(other)) {
            let issue = Issue::info(IssueCode::NcuSetReplaced).with("set", set);
            issues.push(issue.with("by", other));
            return Some(other.to_owned());
        }
        issues.push(Issue::warning(IssueCode::NcuNoSet).with("set", set));
        None
    }

    /// The metric of this name, or the one that has its place.
    fn supported_metric(&self, metric: &str, issues: &mut Vec<Issue>) -> Option<String> {
        let has = |metric: &str| {
            let base = metric.split('.').next().unwrap_or(metric);
            // `group:`, `breakdown:`, `regex:`, `pmsampling:`.
            let is_other = base.contains(':') || NOT_LISTED.iter().any(|one| base.starts_with(one));
            self.metrics.is_empty() || is_other || self.metrics.iter().any(|known| known == base)
        };
        if has(metric) {
            return Some(metric.to_owned());
        }
        let successor = METRIC_SUCCESSORS.iter().find(|(old, _)| *old == metric);
        if let Some((_, new)) = successor.filter(|(_, new)| has(new)) {
            let issue = Issue::info(IssueCode::NcuMetricReplaced).with("metric", metric);
            issues.push(issue.with("by", *new));
            return Some((*new).to_owned());
        }
        issues.push(Issue::warning(IssueCode::NcuNoMetric).with("metric", metric));
        None
    }
}

fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

/// The first column of a table. What has none says nothing: an error, or another version.
fn first_column(text: &str) -> Vec<String> {
    let (_, rows) = text.split_once("Identifier").unwrap_or_default();
    // A row that needs several lines goes on with spaces.
    rows.lines()
        .skip(1)
        .filter(|line| !line.starts_with([' ', '\t', '-', '=']))
        .filter_map(first_word)
        .map(str::to_owned)
        .collect()
}

/// A tier: a set, and sections beside it.
fn tier_contents(tier: Tier) -> (&'static str, &'static [&'static str]) {
    match tier {
        Tier::Basic => ("basic", &[]),
        Tier::Roofline => (
            "roofline",
            &[
                "MemoryWorkloadAnalysis",
                "Occupancy",
                "LaunchStats",
                "WarpStateStats",
            ],
        ),
        Tier::Full => ("full", &[]),
    }
}

/// Sets, sections and metrics among free options.
#[derive(Debug, Default)]
struct FreeOptions {
    sets: Vec<String>,
    sections: Vec<String>,
    metrics: Vec<String>,
    rest: Vec<String>,
}

impl FreeOptions {
    fn parse_args(args: &[Word]) -> Self {
        let mut options = Self::default();
        let mut words = args.iter().map(|Word(word)| word.as_str());
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            if !["--set", "--section", "--metrics"].contains(&name) {
                options.rest.push(word.to_owned());
                continue;
            }
            // An option at the end without its value is for ncu to refuse.
            let Some(value) = value.or_else(|| words.next()) else {
                options.rest.push(word.to_owned());
                break;
            };
            match name {
                "--set" => options.sets.push(value.to_owned()),
                "--section" => options.sections.push(value.to_owned()),
                _ => {
                    let names = value.split(',').map(str::trim);
                    let names = names.filter(|name| !name.is_empty());
                    options.metrics.extend(names.map(str::to_owned));
                }
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ncu 2025.3 prints, of three sets.
    const SETS: &str = "\
---------- --------------------------------------------------------------------------- ------- -----------------
Identifier Sections                                                                    Enabled Estimated Metrics
---------- --------------------------------------------------------------------------- ------- -----------------
basic      LaunchStats, Occupancy, SpeedOfLight, WorkloadDistribution                  yes     213              
full       ComputeWorkloadAnalysis, InstructionStats, LaunchStats, MemoryWorkloadAnaly no      7794             
           sis, MemoryWorkloadAnalysis_Chart, MemoryWorkloadAnalysis_Tables, NumaAffin                          
           ity, Nvlink_Tables, Nvlink_Topology, Occupancy, PmSampling, SchedulerStats,                          
            SourceCounters, SpeedOfLight, SpeedOfLight_HierarchicalDoubleRooflineChart                          
           _RooflineChart, WarpStateStats, WorkloadDistribution                                                 
roofline   SpeedOfLight, SpeedOfLight_HierarchicalDoubleRooflineChart, SpeedOfLight_Hi no      6649             
           orkloadDistribution                                                                                  
";
    const SECTIONS: &str = "---- ----\nIdentifier  Display Name\n---- ----\nOccupancy   Occupancy  yes ./Occ\nSpeedOfLight GPU yes\n";
    const METRICS: &str = "Device NVIDIA H200 (GH100)\n---- ----\ndram__bytes_read   Counter  byte  # of bytes\n\
                           dram__bytes_write Counter\nsm__throughput Throughput\n";

    fn available_tool() -> Available {
        Available::parse_lists(SETS, SECTIONS, METRICS)
    }

    fn ncu_plan(args: &str) -> NcuPlan {
        let args = args.split_whitespace();
        NcuPlan {
            tier: Tier::Basic,
            args: args.map(|word| Word(word.to_owned())).collect(),
            ..NcuPlan::default()
        }
    }

    /// Code and value of each issue.
    fn issues_of(checked: &Checked) -> Vec<String> {
        let text = |issue: &Issue| {
            let values = issue.values.values().map(ToString::to_string);
            format!("{} {}", issue.code, values.collect::<Vec<_>>().join(" "))
        };
        checked.issues.iter().map(text).collect()
    }

    #[test]
    fn lists_of_the_tool_are_read() {
        let tool = available_tool();
        assert_eq!(tool.sets, ["basic", "full", "roofline"]);
        assert_eq!(tool.sections, ["Occupancy", "SpeedOfLight"]);
        assert_eq!(
            tool.metrics,
            ["dram__bytes_read", "dram__bytes_write", "sm__throughput"]
        );
        let error = "ERROR unrecognised option '--list-sections'";
        assert_eq!(
            Available::parse_lists(error, error, ""),
            Available::default()
        );
    }

    /// What a tool does not answer for is asked for as it is.
    #[test]
    fn without_lists_nothing_is_checked() {
        let mut plan = ncu_plan("--set anything");
        plan.sections = vec!["Any".to_owned()];
        plan.metrics = vec!["any__metric.sum".to_owned()];
        let checked = Available::default().check_plan(&plan);
        assert_eq!(checked.set.as_deref(), Some("anything"));
        assert_eq!(checked.sections, ["Any"]);
        let metrics = [
            DRAM_BYTES_METRICS[0],
            DRAM_BYTES_METRICS[1],
            "any__metric.sum",
        ];
        assert_eq!(
            (checked.metrics, checked.issues),
            (metrics.map(str::to_owned).to_vec(), vec![])
        );
    }

    #[test]
    fn sets_are_checked_too() {
        // A set of the request takes the tier's place.
        let checked = available_tool().check_plan(&ncu_plan("--set full --kernel-id ::x:"));
        assert_eq!(checked.set.as_deref(), Some("full"));
        assert_eq!(checked.args, ["--kernel-id", "::x:"]);
        assert_eq!(issues_of(&checked), [""; 0]);
        // Older guides say `default`.
        let checked = available_tool().check_plan(&ncu_plan("--set=default"));
        assert_eq!(checked.set.as_deref(), Some("basic"));
        assert_eq!(checked.issues[0].code, IssueCode::NcuSetReplaced);
        // One that nothing replaces is dropped, and the tier's stays.
        let checked = available_tool().check_plan(&ncu_plan("--set source"));
        assert_eq!(checked.set.as_deref(), Some("basic"));
        assert_eq!(checked.issues[0].code, IssueCode::NcuNoSet);
        assert_eq!(checked.issues[0].values["set"], "source");
        // A tool that has no set of the tier collects sections and metrics alone.
        let mut other = available_tool();
        other.sets = vec!["nvlink".to_owned()];
        let checked = other.check_plan(&ncu_plan(""));
        assert_eq!(checked.set, None);
        assert_eq!(checked.issues[0].values["set"], "basic");
        // Tools of 2023 have the older name.
        other.sets = vec!["default".to_owned()];
        assert_eq!(
            other.check_plan(&ncu_plan("")).set.as_deref(),
            Some("default")
        );
    }

    /// On Blackwell the bytes that llmprof itself asks for have other names.
    #[test]
    fn our_own_metrics_are_checked_like_those_of_a_request() {
        let mut chip = available_tool();
        chip.metrics = vec![
            "dram__bytes_op_read".to_owned(),
            "sm__throughput".to_owned(),
        ];
        let checked = chip.check_plan(&ncu_plan("--metrics sm__throughput.avg,l3__hits.sum"));
        assert_eq!(
            checked.metrics,
            ["dram__bytes_op_read.sum", "sm__throughput.avg"]
        );
        let codes: Vec<&str> = checked.issues.iter().map(|one| one.code.as_str()).collect();
        assert_eq!(
            codes,
            ["ncu.metric_replaced", "ncu.no_metric", "ncu.no_metric"]
        );
        assert_eq!(checked.issues[1].values["metric"], DRAM_BYTES_METRICS[1]);
        assert_eq!(checked.issues[2].values["metric"], "l3__hits.sum");
    }

    #[test]
    fn what_the_lists_do_not_hold_is_left_to_the_tool() {
        let mut plan = ncu_plan(
            "--section regex:Memory.* --section Nowhere --metrics group:memory__dram_table",
        );
        plan.metrics = [
            "launch__grid_size",
            "nvlink__enabled_mask",
            "sm__maximum_warps_per_active_cycle_pct",
            "breakdown:sm__throughput.avg",
            "sass__inst_executed",
        ]
        .map(str::to_owned)
        .to_vec();
        let checked = available_tool().check_plan(&plan);
        assert_eq!(checked.sections, ["regex:Memory.*"]);
        assert_eq!(
            checked.metrics[2..],
            [
                "launch__grid_size",
                "nvlink__enabled_mask",
                "sm__maximum_warps_per_active_cycle_pct",
                "breakdown:sm__throughput.avg",
                "sass__inst_executed",
                "group:memory__dram_table"
            ]
        );
        assert_eq!(checked.issues[0].values["section"], "Nowhere");
        assert_eq!(checked.issues.len(), 1);
    }
}
