//! What a request says about PyTorch: how the model is executed, and what its own profiler records.

use std::fmt;

use llmprof_theory::{Logits, WeightFormat};
use llmprof_units::DType;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

use super::{Plan, RuntimeType, WorkloadPlan};

/// Whether and how `torch.compile` compiles the decode step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compile {
    #[default]
    Off,
    /// `torch.compile` with its default mode.
    Default,
    /// `torch.compile` in the mode that uses CUDA graphs.
    ReduceOverhead,
}

/// YAML reads a bare `off` as false, so false is a spelling of it.
impl<'de> Deserialize<'de> for Compile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Mode;

        impl Visitor<'_> for Mode {
            type Value = Compile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`off`, `default` or `reduce-overhead`")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Compile, E> {
                if on {
                    return Err(E::invalid_value(de::Unexpected::Bool(on), &self));
                }
                Ok(Compile::Off)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Compile, E> {
                match text {
                    "off" => Ok(Compile::Off),
                    "default" => Ok(Compile::Default),
                    "reduce-overhead" => Ok(Compile::ReduceOverhead),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
        }

        deserializer.deserialize_any(Mode)
    }
}

/// Whose work a profiler records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Operators that run on the host.
    Cpu,
    /// Kernels, copies and the calls that launch them.
    Cuda,
}

/// How much torch's profiler records, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Operators and kernels, without the shapes of inputs.
    Min,
    /// With the shapes of inputs.
    #[default]
    Default,
    /// With shapes, allocations, call stacks, FLOPs and the allocator's history.
    Max,
}

/// The stage of torch's own profiler: a preset, and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TorchProfilerPlan {
    /// Whether it runs; absent runs it with `runtime=pytorch`.
    pub enable: Option<bool>,
    /// What holds for every key below that is absent.
    pub preset: Preset,
    /// Whose work is recorded: the host's, the device's; the preset decides if absent.
    pub activities: Option<Vec<Activity>>,
    /// Whether the shapes of operators' inputs are recorded; the preset decides if absent.
    pub shapes: Option<bool>,
    /// Whether allocations and frees are recorded; the preset decides if absent.
    pub memory: Option<bool>,
    /// Whether Python stacks are recorded.
    pub stacks: Option<bool>,
    /// Torch's own count of FLOPs.
    pub flops: Option<bool>,
    /// Batches that run under the profiler before it is believed.
    pub warmup: Option<u64>,
    /// Decode steps that are recorded, at most.
    pub active_steps: Option<u64>,
    /// Batches that are recorded, each in a file of its own.
    pub repeat: Option<u64>,
    /// Whether the allocator's history is written.
    pub memory_snapshot: Option<bool>,
}

/// What torch's profiler does, with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of torch's profiler"
)]
pub struct TorchProfilerSettings {
    /// Whose work is recorded: the host's, the device's.
    pub activities: Vec<Activity>,
    /// Whether the shapes of operators' inputs are recorded.
    pub shapes: bool,
    pub memory: bool,
    pub stacks: bool,
    /// Torch's own count of FLOPs.
    pub flops: bool,
    /// Batches that run under the profiler before it is believed.
    pub warmup: u64,
    /// Decode steps that are recorded, at most.
    pub active_steps: u64,
    /// Batches that are recorded, each in a file of its own.
    pub repeat: u64,
    /// Whether the allocator's history is written.
    pub memory_snapshot: bool,
}

impl TorchProfilerPlan {
    /// The settings: what is stated, else what the preset says. A device that is the CPU has no work of its own.
    pub fn settings(&self, on_cpu: bool) -> TorchProfilerSettings {
        let (detailed, everything, active_steps) = match self.preset {
            Preset::Min => (false, false, 32),
            Preset::Default => (true, false, 32),
            // Stacks make a trace several times as large.
            Preset::Max => (true, true, 8),
        };
        let device = if on_cpu {
            vec![Activity::Cpu]
        } else {
            vec![Activity::Cpu, Activity::Cuda]
        };
        TorchProfilerSettings {
            activities: self.activities.clone().unwrap_or(device),
            shapes: self.shapes.unwrap_or(detailed),
            memory: self.memory.unwrap_or(everything),
            stacks: self.stacks.unwrap_or(everything),
            flops: self.flops.unwrap_or(everything),
            warmup: self.warmup.unwrap_or(1),
            active_steps: self.active_steps.unwrap_or(active_steps),
            repeat: self.repeat.unwrap_or(1),
            memory_snapshot: self.memory_snapshot.unwrap_or(everything && !on_cpu),
        }
    }

    /// What is wrong with it: a key and the reason.
    pub(super) fn mistakes(&self, on_cpu: bool) -> Vec<(&'static str, &'static str)> {
        let settings = self.settings(on_cpu);
        let rules = [
            (
                "pipeline.torch_profiler.activities",
                settings.activities.is_empty(),
                "there is nothing to record",
            ),
            (
                "pipeline.torch_profiler.activities",
                on_cpu && settings.activities.contains(&Activity::Cuda),
                "`cuda` is recorded with device=cuda:N only",
            ),
            (
                "pipeline.torch_profiler.active_steps",
                settings.active_steps == 0,
                "must be at least 1",
            ),
            (
                "pipeline.torch_profiler.repeat",
                settings.repeat == 0,
                "must be at least 1",
            ),
            (
                "pipeline.torch_profiler.memory_snapshot",
                on_cpu && settings.memory_snapshot,
                "only the allocator of a CUDA device has a history",
            ),
        ];
        let broken = rules.into_iter().filter(|(_, broken, _)| *broken);
        broken.map(|(key, _, reason)| (key, reason)).collect()
    }
}

/// What neither the native engine nor the PyTorch worker does: a key, whether it is asked for, and what they do instead.
pub(super) fn of_both_runtimes(workload: &WorkloadPlan) -> [(&'static str, bool, &'static str); 3] {
    [
        (
            "workload.cached_tokens",
            workload.cached_tokens > 0,
            "starts with an empty cache",
        ),
        (
            "workload.chunk_tokens",
            workload.chunk_tokens.is_some(),
            "prefills a prompt at once",
        ),
        (
            "workload.logits",
            workload.logits == Logits::All,
            "computes the logits of the last position",
        ),
    ]
}

/// What stands against running a request with PyTorch, or against profiling it with torch's profiler.
pub(super) fn mistakes(plan: &Plan, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
    let on_cpu = !plan.device.is_cuda();
    if plan.runtime.kind != RuntimeType::Pytorch {
        if plan.pipeline.torch_profiler.enable == Some(true) {
            wrong(
                "pipeline.torch_profiler.enable",
                "torch's profiler sees programs on torch only".to_owned(),
                Some("runtime=pytorch"),
            );
        }
        return;
    }
    if plan.pipeline.torch_profiler.enable != Some(false) {
        for (key, reason) in plan.pipeline.torch_profiler.mistakes(on_cpu) {
            wrong(key, reason.to_owned(), None);
        }
    }
    if plan.runtime.python.as_ref().is_none_or(String::is_empty) {
        let message = "there is no interpreter".to_owned();
        wrong("runtime.python", message, Some("runtime.python=python3"));
    }
    for (key, set, what) in impossible_options(plan, on_cpu) {
        if set {
            wrong(key, what.to_owned(), None);
        }
    }
    for (key, set, what) in of_both_runtimes(&plan.workload) {
        if set {
            wrong(key, format!("the PyTorch worker {what}"), None);
        }
    }
}

/// Whether torch has operators for weights in this format.
fn is_multiplied_by_torch(format: WeightFormat) -> bool {
    match format {
        WeightFormat::Int8 { group } => group == 0,
        WeightFormat::Fp8 { rows, columns } => rows == 0 && columns == 0,
        WeightFormat::Int4 {
            group,
            zeros: false,
            index: false,
        } => matches!(group, 32 | 64 | 128 | 256),
        _ => false,
    }
}

/// What the worker alone cannot do: a key, whether it is asked for, and why not.
fn impossible_options(plan: &Plan, on_cpu: bool) -> [(&'static str, bool, &'static str); 7] {
    let (runtime, workload) = (&plan.runtime, &plan.workload);
    let computes = [DType::F64, DType::F32, DType::F16, DType::Bf16];
    [
        (
            "workload.weights",
            workload
                .weights
                .is_some_and(|format| !is_multiplied_by_torch(format)),
            "predict only: the PyTorch worker multiplies weights in int8, fp8 and int4_gN (N of 32, 64, 128, 256)",
        ),
        (
            "runtime.cuda_graph",
            runtime.cuda_graph && on_cpu,
            "a CUDA graph needs device=cuda:N",
        ),
        (
            "runtime.compile",
            runtime.compile == Compile::ReduceOverhead && on_cpu,
            "`reduce-overhead` is made of CUDA graphs, which need device=cuda:N",
        ),
        (
            "runtime.cuda_graph",
            runtime.cuda_graph && runtime.compile == Compile::ReduceOverhead,
            "`runtime.compile=reduce-overhead` captures CUDA graphs of its own; choose one of the two",
        ),
        (
            "workload.dtype",
            workload
                .dtype
                .is_some_and(|dtype| !computes.contains(&dtype)),
            "the PyTorch worker computes in f64, f32, f16 or bf16",
        ),
        (
            "workload.kv_dtype",
            workload.kv_dtype.is_some(),
            "the PyTorch worker keeps the KV cache in workload.dtype",
        ),
        (
            "workload.images",
            workload.images.crops_wide > 0 || workload.images.crops_high > 0,
            "the PyTorch worker makes whole images, not crops",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compile_modes_are_read_as_yaml_gives_them() {
        let read = |text: &str| serde_json::from_str::<Compile>(text);
        assert_eq!(read("false").unwrap(), Compile::Off);
        assert_eq!(read(r#""off""#).unwrap(), Compile::Off);
        assert_eq!(
            read(r#""reduce-overhead""#).unwrap(),
            Compile::ReduceOverhead
        );
        assert!(read("true").is_err() && read(r#""max""#).is_err());
        let written = serde_json::to_string(&Compile::ReduceOverhead).unwrap();
        assert_eq!(written, r#""reduce-overhead""#);
    }

    #[test]
    fn a_stated_key_departs_from_its_preset() {
        let plan = TorchProfilerPlan {
            preset: Preset::Max,
            stacks: Some(false),
            repeat: Some(3),
            ..TorchProfilerPlan::default()
        };
        let settings = plan.settings(false);
        assert!(settings.shapes && settings.memory && !settings.stacks);
        assert_eq!(settings.repeat, 3);
        assert_eq!(settings.activities, [Activity::Cpu, Activity::Cuda]);
    }

    #[test]
    fn a_cpu_has_no_device_activity() {
        assert_eq!(TorchProfilerPlan::default().mistakes(true), []);
        let plan = TorchProfilerPlan {
            activities: Some(vec![Activity::Cuda]),
            active_steps: Some(0),
            memory_snapshot: Some(true),
            ..TorchProfilerPlan::default()
        };
        let keys: Vec<_> = plan
            .mistakes(true)
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(
            keys,
            [
                "pipeline.torch_profiler.activities",
                "pipeline.torch_profiler.active_steps",
                "pipeline.torch_profiler.memory_snapshot"
            ]
        );
    }
}
