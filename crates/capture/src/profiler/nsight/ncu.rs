//! Command lines of Nsight Compute.

use std::path::Path;

use llmprof_record::{issue::Issue, plan::NcuPlan};

use super::{Available, CounterPlan, Tool, ToolError, Version, nsys::wrap_program};
use crate::process::Launch;

/// The first release with `--filter-mode per-launch-config`.
pub const NCU_MIN_VERSION: Version = Version {
    year: 2023,
    release: 1,
};

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
    pub fn from_plan(plan: &CounterPlan, range: Option<&str>) -> Self {
        Self {
            pattern: plan.name_pattern(),
            range: range.map(str::to_owned),
            skip: plan.skip,
            count: plan.count,
        }
    }
}

/// The program under ncu, with its report at `output` (without extension). `from_start` says that launches are counted from the
/// start of the process and not from `cudaProfilerStart`.
pub fn ncu_profile(
    tool: &Tool,
    plan: &NcuPlan,
    available: &Available,
    selection: &Selection,
    from_start: bool,
    output: &Path,
    program: &Launch,
) -> Result<(Launch, Vec<Issue>), ToolError> {
    tool.require_version("ncu", NCU_MIN_VERSION)?;
    let asked = available.check_plan(plan);
    let mut launch =
        Launch::new(tool.program.to_string_lossy()).args(["--target-processes", "all"]);
    if let Some(set) = asked.set {
        launch = launch.args(["--set".to_owned(), set]);
    }
    for section in asked.sections {
        launch = launch.args(["--section".to_owned(), section]);
    }
    if !asked.metrics.is_empty() {
        launch = launch.args(["--metrics".to_owned(), asked.metrics.join(",")]);
    }
    launch = launch
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
        .args(asked.args);
    Ok((wrap_program(launch, program), asked.issues))
}

/// One page of a report as CSV on standard output.
pub fn export_page(tool: &Tool, report: &Path, page: &str) -> Launch {
    Launch::new(tool.program.to_string_lossy())
        .arg("--import")
        .arg(report.to_string_lossy())
        .args(["--page", page, "--csv", "--print-units", "base"])
}

#[cfg(test)]
mod tests {
    use llmprof_record::plan::{Tier, Word};

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

    fn profile_command(plan: &NcuPlan, available: &Available) -> (String, Vec<Issue>) {
        let selection = Selection {
            pattern: Some("^(a|b)$".to_owned()),
            range: plan.gating_nvtx.then(|| "decode".to_owned()),
            skip: 3,
            count: 2,
        };
        let program = Launch::new("python3").arg("x.py");
        let (launch, issues) = ncu_profile(
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
        let (line, issues) = profile_command(&plan, &Available::default());
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
            ncu_profile(&tool(), &plan, &none, &selection, false, path, &program).unwrap();
        let line = launch.to_string();
        let expected = "--nvtx --nvtx-include decode/ --kernel-name-base mangled --filter-mode per-launch-config --launch-skip 0";
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn names_that_the_tool_lacks_are_replaced_or_dropped() {
        let available = Available {
            sets: vec!["basic".to_owned()],
            sections: vec!["SpeedOfLight".to_owned()],
            metrics: vec!["smsp__sass_thread_inst_executed_op_ffma_pred_on".to_owned()],
        };
        let plan = NcuPlan {
            tier: Tier::Basic,
            sections: vec!["SpeedOfLight".to_owned(), "Roofline".to_owned()],
            metrics: vec!["flop_count_sp.sum".to_owned()],
            args: ["--set", "detailed", "--check-exit-code", "no"]
                .map(|word| Word(word.to_owned()))
                .to_vec(),
            ..NcuPlan::default()
        };
        let (line, issues) = profile_command(&plan, &available);
        let expected = "--set basic --section SpeedOfLight --metrics smsp__sass_thread_inst_executed_op_ffma_pred_on.sum --replay-mode";
        assert!(line.contains(expected), "{line}");
        assert!(line.contains("--nvtx-include decode/"), "{line}");
        let expected = "--export run/ncu/decode --check-exit-code no python3 x.py";
        assert!(line.ends_with(expected), "{line}");
        let codes: Vec<&str> = issues.iter().map(|issue| issue.code.as_str()).collect();
        assert_eq!(
            codes,
            [
                "ncu.no_set",
                "ncu.no_section",
                "ncu.no_metric",
                "ncu.no_metric",
                "ncu.metric_replaced"
            ]
        );
        // Sections of a tier are names like any other.
        let (line, issues) = profile_command(
            &NcuPlan::default(),
            &Available {
                sections: vec!["Occupancy".to_owned(), "LaunchStats".to_owned()],
                ..Available::default()
            },
        );
        assert!(
            line.contains("--set roofline --section Occupancy --section LaunchStats --metrics"),
            "{line}"
        );
        assert_eq!(issues.len(), 2, "MemoryWorkloadAnalysis, WarpStateStats");
    }
}
