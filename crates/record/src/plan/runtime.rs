//! What executes the model, and how.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Compile, RuntimeType, ServingPlan, Word};

/// The runtime and its settings; which of them exist depends on its type.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimePlan {
    /// The kind of program that runs the model.
    #[serde(rename = "type")]
    pub kind: RuntimeType,
    /// Number of requests that run together.
    pub batch_size: u64,
    /// `native`, `pytorch`: threads that compute; the runtime's choice where absent.
    #[serde(default)]
    pub threads: Option<u32>,
    /// `native`, `pytorch`: batches that run before anything is measured.
    #[serde(default)]
    pub warmup: u64,
    /// `native`, `pytorch`: batches that are measured with nothing attached.
    #[serde(default)]
    pub repeats: u64,
    /// `pytorch`, `vllm` without a server: the interpreter, by path or by name on the `PATH`.
    #[serde(default)]
    pub python: Option<String>,
    /// `pytorch`: which attention code transformers uses, by its name for it; its choice where absent.
    #[serde(default)]
    pub attn_implementation: Option<String>,
    /// `pytorch`: which code of transformers multiplies the experts of a mixture, by its name for it; its choice where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts_implementation: Option<String>,
    /// `pytorch`: how decode is compiled.
    #[serde(default)]
    pub compile: Compile,
    /// `pytorch`: whether a decode step is captured as a CUDA graph and replayed.
    #[serde(default)]
    pub cuda_graph: bool,
    /// `pytorch`: whether captured passes have a range for every call of a module.
    #[serde(default)]
    pub module_ranges: bool,
    /// `pytorch`: whether code of the model's own directory may be executed.
    #[serde(default)]
    pub trust_remote_code: bool,
    /// `worker`: the worker's program and its arguments.
    #[serde(default)]
    pub worker: Vec<Word>,
    /// `command`: the program and its arguments.
    #[serde(default)]
    pub argv: Vec<Word>,
    /// `command`: variables added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, Word>,
    /// `command`: the directory it starts in.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Seconds after which a `command` is ended, or that one step of the worker may take with `native` and `pytorch`.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// Serving runtimes: the endpoint, the load, and the server to start.
    #[serde(default)]
    pub serving: Option<ServingPlan>,
}
