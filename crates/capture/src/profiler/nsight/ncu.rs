//! Command lines of Nsight Compute.

use std::path::Path;

use llmprof_record::{
    issue::Issue,
    plan::{NcuPlan, Tier, Word},
};

use super::{CounterPlan, Tool, ToolError, Version, nsys::around};
use crate::process::Launch;

/// The first release with `--filter-mode per-launch-config`.
const NEEDED: Version = Version {
    year: 2023,
    release: 1,
};

/// Metrics of older chips and tools, and what counts the same on newer ones. Bank conflicts and stalls kept their names.
const SUCCESSORS: [(&str, &str); 5] = [
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
];

/// What the installed tool has: identifiers of sections, base names of metrics. Empty where it was not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Available {
    pub sections: Vec<String>,
    pub metrics: Vec<String>,
}

impl Available {
    /// Reads what `ncu --list-sections` and `ncu --query-metrics` print.
    pub fn of(sections: &str, metrics: &str) -> Self {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        let is_section = |word: &String| word.starts_with(char::is_uppercase);
        // What has no such table says nothing of sections: an error, or another version.
        let (_, sections) = sections.split_once("Identifier").unwrap_or_default();
        Self {
            sections: sections
                .lines()
                .skip(1)
                .filter(|line| !line.starts_with([' ', '-']))
                .filter_map(first)
                .filter(is_section)
                .collect(),
            metrics: metrics
                .lines()
                .filter_map(first)
                .filter(|word| word.contains("__"))
                .collect(),
        }
    }

    /// What the installed tool says that it has. Metrics take it seconds and a GPU: it is asked for them only where the request
    /// names some.
    pub fn asked(tool: &Tool, plan: &NcuPlan) -> Self {
        let ask = |word: &str| {
            let command = Launch::new(tool.program.to_string_lossy()).arg(word);
            let output = command.output();
            output
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_default()
        };
        let metrics = if plan.metrics.is_empty() {
            String::new()
        } else {
            ask("--query-metrics")
        };
        Self::of(&ask("--list-sections"), &metrics)
    }

    /// Sections, those of the tier first, and metrics that the tool has; what it lacks is replaced or dropped with an issue.
    pub fn checked(&self, plan: &NcuPlan) -> (Vec<String>, Vec<String>, Vec<Issue>) {
        let mut issues = Vec::new();
        let mut sections = Vec::new();
        let of_tier = tier(plan.tier)
            .1
            .iter()
            .map(|section| (*section).to_owned());
        for section in of_tier.chain(plan.sections.iter().cloned()) {
            if sections.contains(&section) {
                continue;
            }
            let section = &section;
            if self.sections.is_empty() || self.sections.contains(section) {
                sections.push(section.clone());
            } else {
                issues.push(Issue::warning("ncu.no_section").with("section", section.as_str()));
            }
        }
        let has = |metric: &str| {
            let base = metric.split('.').next().unwrap_or(metric);
            let is_listed = self.metrics.iter().any(|known| known == base);
            self.metrics.is_empty() || is_listed || base.starts_with("launch__")
        };
        let mut metrics = Vec::new();
        for metric in &plan.metrics {
            let successor = SUCCESSORS.iter().find(|(old, _)| old == metric);
            if has(metric) {
                metrics.push(metric.clone());
            } else if let Some((_, new)) = successor.filter(|(_, new)| has(new)) {
                metrics.push((*new).to_owned());
                issues.push(
                    Issue::info("ncu.metric_replaced")
                        .with("metric", metric.as_str())
                        .with("by", *new),
                );
            } else {
                issues.push(Issue::warning("ncu.no_metric").with("metric", metric.as_str()));
            }
        }
        (sections, metrics, issues)
    }
}

/// The options of a tier: a set, and sections beside it.
fn tier(tier: Tier) -> (&'static str, &'static [&'static str]) {
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

/// Bytes are summed over launches, which rates are not exact enough for.
const BYTES: [&str; 2] = ["dram__bytes_read.sum", "dram__bytes_write.sum"];

/// Which launches ncu profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// A pattern on demangled names; all kernels where absent.
    pub pattern: Option<String>,
    /// The NVTX push/pop range whose launches are looked at; all where absent.
    pub range: Option<String>,
    /// Launches of each (kernel, grid, block) that are passed over, and that are profiled.
    pub skip: u64,
    pub count: u64,
}

impl Selection {
    pub fn of(plan: &CounterPlan, range: Option<&str>) -> Self {
        Self {
            pattern: plan.pattern(),
            range: range.map(str::to_owned),
            skip: plan.skip,
            count: plan.count,
        }
    }
}

/// The program under ncu, with its report at `output` (without extension). `from_start` says that launches are counted from the
/// start of the process and not from `cudaProfilerStart`.
pub fn profile(
    tool: &Tool,
    plan: &NcuPlan,
    available: &Available,
    selection: &Selection,
    from_start: bool,
    output: &Path,
    program: &Launch,
) -> Result<(Launch, Vec<Issue>), ToolError> {
    if tool.version < NEEDED {
        return Err(ToolError::TooOld {
            name: "ncu",
            found: tool.version,
            needed: NEEDED,
        });
    }
    let (sections, more_metrics, issues) = available.checked(plan);
    let (set, _) = tier(plan.tier);
    let mut launch = Launch::new(tool.program.to_string_lossy()).args([
        "--target-processes",
        "all",
        "--set",
        set,
    ]);
    for section in sections {
        launch = launch.args(["--section".to_owned(), section]);
    }
    let metrics: Vec<String> = BYTES
        .into_iter()
        .map(str::to_owned)
        .chain(more_metrics)
        .collect();
    launch = launch
        .args(["--metrics".to_owned(), metrics.join(",")])
        .args(["--replay-mode", &plan.replay_mode])
        .args(["--clock-control", &plan.clock_control])
        .args(["--cache-control", &plan.cache_control])
        .args(["--graph-profiling", "node"]);
    if !from_start {
        launch = launch.args(["--profile-from-start", "off"]);
    }
    launch = launch.arg("--nvtx");
    if let Some(range) = &selection.range {
        // A push/pop range is named with a slash after it.
        launch = launch.args(["--nvtx-include".to_owned(), format!("{range}/")]);
    }
    launch = match &selection.pattern {
        Some(pattern) => launch
            .args(["--kernel-name-base", "demangled", "--kernel-name"])
            .arg(format!("regex:{pattern}")),
        // ncu separates configurations by this name: functions are one for all instances of a template, and kernels with
        // C names have no demangled one.
        None => launch.args(["--kernel-name-base", "mangled"]),
    };
    launch = launch
        .args(["--filter-mode", "per-launch-config"])
        .args(["--launch-skip".to_owned(), selection.skip.to_string()])
        .args(["--launch-count".to_owned(), selection.count.to_string()])
        .args(["--force-overwrite", "--export"])
        .arg(output.to_string_lossy())
        .args(plan.args.iter().map(|Word(word)| word.clone()));
    Ok((around(launch, program), issues))
}

/// One page of a report as CSV on standard output.
pub fn page(tool: &Tool, report: &Path, page: &str) -> Launch {
    Launch::new(tool.program.to_string_lossy())
        .arg("--import")
        .arg(report.to_string_lossy())
        .args(["--page", page, "--csv", "--print-units", "base"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> Tool {
        Tool {
            program: "ncu".into(),
            version: Version {
                year: 2025,
                release: 3,
            },
        }
    }

    fn made(plan: &NcuPlan, available: &Available) -> (String, Vec<Issue>) {
        let selection = Selection {
            pattern: Some("^(a|b)$".to_owned()),
            range: plan.gating_nvtx.then(|| "decode".to_owned()),
            skip: 3,
            count: 2,
        };
        let program = Launch::new("python3").arg("x.py");
        let (launch, issues) = profile(
            &tool(),
            plan,
            available,
            &selection,
            false,
            Path::new("run/ncu/decode"),
            &program,
        )
        .unwrap();
        (launch.to_string(), issues)
    }

    #[test]
    fn one_run_profiles_each_configuration_by_its_launch_index() {
        let plan = NcuPlan {
            gating_nvtx: false,
            ..NcuPlan::default()
        };
        let (line, issues) = made(&plan, &Available::default());
        assert_eq!(
            line,
            "ncu --target-processes all --set roofline --section MemoryWorkloadAnalysis --section Occupancy --section LaunchStats \
             --section WarpStateStats --metrics dram__bytes_read.sum,dram__bytes_write.sum --replay-mode kernel --clock-control none \
             --cache-control all --graph-profiling node --profile-from-start off --nvtx --kernel-name-base demangled --kernel-name \
             'regex:^(a|b)$' --filter-mode per-launch-config --launch-skip 3 --launch-count 2 --force-overwrite --export \
             run/ncu/decode python3 x.py"
        );
        assert!(issues.is_empty());
    }

    /// By its function name, all instances of a template would be one configuration.
    #[test]
    fn configurations_are_told_apart_by_symbols() {
        let selection = Selection {
            pattern: None,
            range: Some("decode".to_owned()),
            skip: 0,
            count: 1,
        };
        let program = Launch::new("python3");
        let plan = NcuPlan::default();
        let none = Available::default();
        let path = Path::new("decode");
        let (launch, _) =
            profile(&tool(), &plan, &none, &selection, false, path, &program).unwrap();
        let line = launch.to_string();
        let expected = "--nvtx --nvtx-include decode/ --kernel-name-base mangled --filter-mode per-launch-config --launch-skip 0";
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn names_that_the_tool_lacks_are_replaced_or_dropped() {
        let available = Available {
            sections: vec!["SpeedOfLight".to_owned()],
            metrics: vec!["smsp__sass_thread_inst_executed_op_ffma_pred_on".to_owned()],
        };
        let plan = NcuPlan {
            tier: Tier::Basic,
            sections: vec!["SpeedOfLight".to_owned(), "Roofline".to_owned()],
            metrics: vec!["flop_count_sp.sum".to_owned(), "l3__hits.sum".to_owned()],
            gating_nvtx: true,
            ..NcuPlan::default()
        };
        let (line, issues) = made(&plan, &available);
        assert!(
            line.contains("--set basic --section SpeedOfLight --metrics"),
            "{line}"
        );
        assert!(line.contains("op_ffma_pred_on.sum --replay"), "{line}");
        assert!(line.contains("--nvtx-include decode/"), "{line}");
        let codes: Vec<&str> = issues.iter().map(|issue| issue.code.as_str()).collect();
        assert_eq!(
            codes,
            ["ncu.no_section", "ncu.metric_replaced", "ncu.no_metric"]
        );
        // Sections of a tier are names like any other.
        let (line, issues) = made(
            &NcuPlan::default(),
            &Available {
                sections: vec!["Occupancy".to_owned(), "LaunchStats".to_owned()],
                metrics: Vec::new(),
            },
        );
        assert!(
            line.contains("--set roofline --section Occupancy --section LaunchStats --metrics"),
            "{line}"
        );
        assert_eq!(issues.len(), 2, "MemoryWorkloadAnalysis, WarpStateStats");
    }

    #[test]
    fn lists_of_the_tool_are_read() {
        let sections = "---- ----\nIdentifier  Display Name\n---- ----\nOccupancy   Occupancy  yes ./Occ\nSpeedOfLight GPU yes\n";
        let metrics = "Device NVIDIA H200 (GH100)\n---- ----\ndram__bytes   Counter  byte  # of bytes\nsm__throughput Throughput\n";
        let available = Available::of(sections, metrics);
        assert_eq!(available.sections, ["Occupancy", "SpeedOfLight"]);
        assert_eq!(available.metrics, ["dram__bytes", "sm__throughput"]);
        let error = Available::of("ERROR unrecognised option '--list-sections'", "");
        assert!(error.sections.is_empty(), "not known");
    }
}
