//! What describes the device, and how many of them share the model.

use llmprof_theory::device::{Catalog, DeviceKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Compile, ModelPlace, Plan, RuntimeType};

/// The device that results are compared with, and how many of them share the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePlan {
    /// `auto`, the name of a known device, or a file.
    pub spec: String,
    /// Processes that share the model, each with a device of its own.
    #[serde(default = "one_rank")]
    pub ranks: u32,
    /// Power limit of the GPUs while the run lasts, W; absent leaves them as they are.
    #[serde(default)]
    pub power_limit_w: Option<f64>,
}

fn one_rank() -> u32 {
    1
}

/// No GPU draws as much; a larger limit is a mistake in the config.
const POWER_LIMIT_MAX_W: f64 = 10_000.0;

/// More processes than any machine has GPUs.
const RANKS_MAX: u32 = 64;

impl HardwarePlan {
    /// A power limit that no device has.
    pub(super) fn impossible_power(&self) -> Option<(&'static str, String)> {
        let limit = self.power_limit_w?;
        let is_possible = limit > 0.0 && limit <= POWER_LIMIT_MAX_W;
        let message = || format!("{limit}, but must lie above 0 and up to {POWER_LIMIT_MAX_W} W");
        (!is_possible).then(|| ("hardware.power_limit_w", message()))
    }

    fn power_mistakes(
        &self,
        plan: &Plan,
        wrong: &mut impl FnMut(&'static str, String, Option<&str>),
    ) {
        const KEY: &str = "hardware.power_limit_w";
        if self.power_limit_w.is_none() {
            return;
        }
        if !plan.device.is_cuda() {
            let message = format!("limits a CUDA device, and device={}", plan.device);
            wrong(KEY, message, Some("device=cuda:0"));
        }
        let is_elsewhere = matches!(plan.runtime.kind, RuntimeType::None | RuntimeType::Openai);
        if is_elsewhere {
            let message = "nothing runs on a GPU of this machine with this runtime";
            wrong(KEY, message.to_owned(), Some("hardware.power_limit_w=null"));
        }
    }

    /// A GPU named for a run on the CPU: its times would be reported as those of the GPU.
    fn device_mistakes(
        &self,
        plan: &Plan,
        wrong: &mut impl FnMut(&'static str, String, Option<&str>),
    ) {
        let runs_here = matches!(
            plan.runtime.kind,
            RuntimeType::Native | RuntimeType::Pytorch
        );
        if !(runs_here && plan.device == ModelPlace::Cpu) {
            return;
        }
        let Ok(device) = Catalog::embedded().find_device(&self.spec) else {
            return;
        };
        if device.kind != DeviceKind::Cpu {
            let name = &device.name;
            let hint = format!(
                "`llmprof predict hardware.spec={name}` predicts it; runtime=pytorch device=cuda:0 runs on a GPU"
            );
            let message = format!("{name}, but the model runs on this CPU (device=cpu)");
            wrong("hardware.spec", message, Some(&hint));
        }
    }

    /// The GPUs of a run, as CUDA counts them.
    pub fn cuda_devices(&self, place: ModelPlace) -> Vec<u32> {
        match place {
            ModelPlace::Cuda(0) => (0..self.ranks.max(1)).collect(),
            ModelPlace::Cuda(device) => vec![device],
            _ => Vec::new(),
        }
    }

    /// What is wrong with it.
    pub(super) fn mistakes(
        &self,
        plan: &Plan,
        wrong: &mut impl FnMut(&'static str, String, Option<&str>),
    ) {
        const KEY: &str = "hardware.ranks";
        self.power_mistakes(plan, wrong);
        self.device_mistakes(plan, wrong);
        if !(1..=RANKS_MAX).contains(&self.ranks) {
            wrong(KEY, format!("must lie between 1 and {RANKS_MAX}"), None);
        }
        if self.ranks <= 1 {
            return;
        }
        if plan.runtime.kind != RuntimeType::Pytorch {
            let hint = "runtime=pytorch, or give a server its own option for tensor parallelism";
            let message = "this runtime does not share a model among processes";
            wrong(KEY, message.to_owned(), Some(hint));
        }
        if matches!(plan.device, ModelPlace::Cuda(number) if number > 0) {
            let message = format!("{} ranks use GPUs 0 to {}", self.ranks, self.ranks - 1);
            wrong("device", message, Some("device=cuda:0"));
        }
        let single: [(&'static str, bool); 5] = [
            ("runtime.compile", plan.runtime.compile != Compile::Off),
            ("runtime.cuda_graph", plan.runtime.cuda_graph),
            (
                "pipeline.cupti.enable",
                plan.pipeline.cupti.enable == Some(true),
            ),
            ("pipeline.nsys.enable", plan.pipeline.nsys.is_enabled()),
            ("pipeline.ncu.enable", plan.pipeline.ncu.is_enabled()),
        ];
        for (key, _) in single.into_iter().filter(|(_, is_set)| *is_set) {
            let message =
                "is not supported with several ranks; torch's profiler records each of them";
            wrong(key, message.to_owned(), Some("hardware.ranks=1"));
        }
    }
}
