//! Command lines of Nsight Systems.

use std::path::Path;

use llmprof_record::plan::{CaptureRange, NsysPlan, Word};

use super::{Tool, ToolError, Version};
use crate::process::Launch;

/// The first release with `--cuda-graph-trace` and the report names used here.
pub const NSYS_MIN_VERSION: Version = Version {
    year: 2022,
    release: 1,
};

/// The program under `nsys profile`, with its report at `output` (without extension).
pub fn nsys_profile(
    tool: &Tool,
    plan: &NsysPlan,
    output: &Path,
    program: &Launch,
) -> Result<Launch, ToolError> {
    tool.require_version("nsys", NSYS_MIN_VERSION)?;
    // An option that the user gives takes the place of ours.
    let is_given = |name: &str| plan.args.iter().any(|Word(word)| word.starts_with(name));
    let mut launch = Launch::new(tool.program.to_string_lossy()).arg("profile");
    if !is_given("--trace=") {
        launch = launch.arg(format!("--trace={}", plan.trace));
    }
    if !is_given("--sample=") {
        launch = launch.arg(format!("--sample={}", plan.sample));
    }
    if plan.sample == "none" {
        launch = launch.arg("--cpuctxsw=none");
    }
    launch = launch.arg(format!("--cuda-graph-trace={}", plan.cuda_graph_trace));
    let range = match (plan.capture_range, plan.gating_nvtx, &plan.nvtx_capture) {
        (_, true, Some(_)) => CaptureRange::Nvtx,
        (range, ..) => range,
    };
    match range {
        // A plan with a hot key is refused.
        CaptureRange::None | CaptureRange::Hotkey => {}
        CaptureRange::CudaProfilerApi => launch = launch.arg("--capture-range=cudaProfilerApi"),
        CaptureRange::Nvtx => {
            launch = launch.arg("--capture-range=nvtx");
            let name = plan.nvtx_capture.as_deref().unwrap_or_default();
            launch = launch.arg(format!("--nvtx-capture={name}"));
            // Names that are not registered strings trigger nothing without it.
            launch = launch.arg("--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0");
        }
    }
    if matches!(range, CaptureRange::CudaProfilerApi | CaptureRange::Nvtx) {
        let end = plan.capture_range_end.as_deref().unwrap_or("stop");
        launch = launch.arg(format!("--capture-range-end={end}"));
    }
    launch = launch
        .args(["--force-overwrite=true", "-o"])
        .arg(output.to_string_lossy())
        .args(plan.args.iter().map(|Word(word)| word.clone()));
    Ok(wrap_program(launch, program))
}

/// `nsys stats` of the kernels, as CSV beside `output`: nsys adds `_cuda_gpu_kern_sum.csv`.
pub fn kernel_summary(tool: &Tool, report: &Path, output: &Path) -> Launch {
    Launch::new(tool.program.to_string_lossy())
        .args(["stats", "--report", "cuda_gpu_kern_sum", "--format", "csv"])
        .args(["--force-overwrite", "true", "-o"])
        .arg(output.to_string_lossy())
        .arg(report.to_string_lossy())
}

pub fn export_report(tool: &Tool, report: &Path, output: &Path) -> Launch {
    Launch::new(tool.program.to_string_lossy())
        .args(["export", "--type", "sqlite", "--force-overwrite", "true"])
        .args(["--quiet", "true", "-o"])
        .arg(output.to_string_lossy())
        .arg(report.to_string_lossy())
}

/// A program as the last words of a tool's command line, in its own environment.
pub(super) fn wrap_program(tool: Launch, program: &Launch) -> Launch {
    let mut launch = tool
        .arg(program.program.clone())
        .args(program.args.iter().cloned());
    launch.env.extend(program.env.clone());
    launch.cwd.clone_from(&program.cwd);
    launch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> Tool {
        Tool {
            program: "nsys".into(),
            version: Version {
                year: 2025,
                release: 3,
            },
        }
    }

    fn command_line(plan: &NsysPlan) -> String {
        let program = Launch::new("python3")
            .args(["-m", "worker"])
            .env("A", "b c");
        let launch = nsys_profile(&tool(), plan, Path::new("run/nsys/run"), &program).unwrap();
        launch.to_string()
    }

    #[test]
    fn the_default_records_the_batch_after_warm_up() {
        assert_eq!(
            command_line(&NsysPlan::default()),
            "A='b c' nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --cuda-graph-trace=node \
             --capture-range=cudaProfilerApi --capture-range-end=stop --force-overwrite=true -o run/nsys/run python3 -m worker"
        );
    }

    #[test]
    fn a_range_may_gate_the_recording() {
        let plan = NsysPlan {
            gating_nvtx: true,
            nvtx_capture: Some("decode@*".to_owned()),
            capture_range_end: Some("repeat:3".to_owned()),
            args: vec![Word("--gpu-metrics-devices=0".to_owned())],
            ..NsysPlan::default()
        };
        assert_eq!(
            command_line(&plan),
            "A='b c' nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --cuda-graph-trace=node \
             --capture-range=nvtx '--nvtx-capture=decode@*' --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0 \
             --capture-range-end=repeat:3 --force-overwrite=true -o run/nsys/run --gpu-metrics-devices=0 python3 -m worker"
        );
        let whole = NsysPlan {
            capture_range: CaptureRange::None,
            ..NsysPlan::default()
        };
        assert!(!command_line(&whole).contains("capture-range"));
    }

    #[test]
    fn old_tools_are_refused_by_version() {
        let old = Tool {
            version: Version {
                year: 2021,
                release: 5,
            },
            ..tool()
        };
        let program = Launch::new("python3");
        let error = nsys_profile(&old, &NsysPlan::default(), Path::new("r"), &program).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("nsys 2021.5 is older than 2022.1")
        );
    }
}
