//! What a request says about a serving endpoint, or about the server to start.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LoadFormat, Plan, RuntimeType, Word};

/// The endpoint, the load, and the server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingPlan {
    /// `openai`: the address of the endpoint. The others start a server on `port`.
    #[serde(default)]
    pub url: Option<String>,
    /// The name by which the endpoint knows the model; its first where absent.
    #[serde(default)]
    pub served_model: Option<String>,
    /// Whether requests go to `/v1/chat/completions` instead of `/v1/completions`.
    #[serde(default)]
    pub chat: bool,
    /// The environment variable that holds the API key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Number of requests in the load.
    pub requests: u64,
    /// Requests per second; absent is a closed loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// The shape of gaps between requests; absent is Poisson.
    #[serde(default)]
    pub burstiness: Option<f64>,
    /// Requests in flight of a closed loop; `runtime.batch_size` where absent.
    #[serde(default)]
    pub concurrency: Option<u64>,
    /// Tokens that all prompts begin with.
    #[serde(default)]
    pub shared_prefix: u64,
    /// Objectives that the load is judged by, each such as `ttft:p99<500ms`.
    #[serde(default)]
    pub slo: Vec<String>,
    /// The first and the last rate of a search for the highest that meets the objectives: `1:64`.
    #[serde(default)]
    pub sweep: Option<String>,
    /// Whether the server profiles itself for a while.
    #[serde(default)]
    pub profile: bool,
    /// `vllm`: its `LLM` class in a process of its own instead of a server.
    #[serde(default)]
    pub offline: bool,
    /// The program and leading arguments that start the server.
    #[serde(default)]
    pub program: Vec<Word>,
    /// More arguments of the server.
    #[serde(default)]
    pub extra_args: Vec<Word>,
    /// Variables added to the server's environment.
    #[serde(default)]
    pub env: BTreeMap<String, Word>,
    /// The port it listens on.
    #[serde(default)]
    pub port: Option<u16>,
    /// GPUs that share each layer.
    #[serde(default)]
    pub tensor_parallel: Option<u32>,
    /// Seconds until it must be healthy.
    #[serde(default)]
    pub ready_timeout_s: Option<f64>,
}

impl RuntimeType {
    /// Whether requests go to a server.
    pub fn is_serving(self) -> bool {
        matches!(
            self,
            Self::Openai | Self::Vllm | Self::Sglang | Self::Tensorrtllm
        )
    }
}

/// All requests of the `LLM` class are due together, so nothing that shapes arrivals applies.
fn offline_mistakes(
    kind: RuntimeType,
    serving: &ServingPlan,
    wrong: &mut impl FnMut(&'static str, String, Option<&str>),
) {
    if kind != RuntimeType::Vllm {
        let what = "only vLLM is run without a server".to_owned();
        wrong("runtime.serving.offline", what, Some("runtime=vllm"));
    }
    let shaped = [
        ("runtime.serving.rate", serving.rate.is_some()),
        ("runtime.serving.concurrency", serving.concurrency.is_some()),
        ("runtime.serving.sweep", serving.sweep.is_some()),
        ("runtime.serving.chat", serving.chat),
    ];
    for (key, is_set) in shaped {
        if is_set {
            let what = "requests of runtime.serving.offline are prompts that are due together";
            wrong(key, what.to_owned(), Some("runtime.serving.offline=false"));
        }
    }
}

fn load_mistakes(
    serving: &ServingPlan,
    wrong: &mut impl FnMut(&'static str, String, Option<&str>),
) {
    if serving.requests == 0 {
        wrong(
            "runtime.serving.requests",
            "must be at least 1".to_owned(),
            None,
        );
    }
    let rates = [
        ("runtime.serving.rate", serving.rate),
        ("runtime.serving.burstiness", serving.burstiness),
        ("runtime.serving.ready_timeout_s", serving.ready_timeout_s),
    ];
    for (key, value) in rates {
        if value.is_some_and(|value| !(value > 0.0 && value < 1e9)) {
            wrong(key, "must be a positive number".to_owned(), None);
        }
    }
    if serving.rate.is_some() && serving.concurrency.is_some() {
        let what = "a load has a rate or a concurrency, not both".to_owned();
        wrong("runtime.serving.concurrency", what, None);
    }
    if serving.burstiness.is_some() && serving.rate.is_none() {
        let what = "only a rate has gaps to shape".to_owned();
        wrong(
            "runtime.serving.burstiness",
            what,
            Some("runtime.serving.rate=4"),
        );
    }
    if serving.sweep.is_some() && serving.slo.is_empty() {
        let what = "there is no objective to meet".to_owned();
        wrong(
            "runtime.serving.sweep",
            what,
            Some("runtime.serving.slo=['ttft:p99<500ms']"),
        );
    }
}

/// What stands against starting a server of our own.
fn server_mistakes(
    plan: &Plan,
    serving: &ServingPlan,
    wrong: &mut impl FnMut(&'static str, String, Option<&str>),
) {
    if serving.url.is_some() {
        let what = "this runtime starts its own server".to_owned();
        wrong(
            "runtime.serving.url",
            what,
            Some("runtime=openai for one that is up"),
        );
    }
    if serving.program.is_empty() {
        wrong(
            "runtime.serving.program",
            "there is no server to start".to_owned(),
            None,
        );
    }
    if plan.model.path.is_none() {
        let what = "a server needs the model's directory".to_owned();
        wrong("model.path", what, Some("model=local model.path=DIR"));
    }
    if plan.runtime.kind == RuntimeType::Tensorrtllm
        && plan.model.load_format == Some(LoadFormat::Dummy)
    {
        let what = "trtllm-serve has no option for random weights".to_owned();
        wrong(
            "model.load_format",
            what,
            Some("model.load_format=safetensors"),
        );
    }
}

/// What stands against loading a server.
pub(super) fn mistakes(plan: &Plan, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
    let kind = plan.runtime.kind;
    let Some(serving) = &plan.runtime.serving else {
        if kind.is_serving() {
            let what = "there is no endpoint and no load".to_owned();
            wrong(
                "runtime.serving",
                what,
                Some("runtime=openai, runtime=vllm"),
            );
        }
        return;
    };
    if !kind.is_serving() {
        let what = "only serving runtimes have it".to_owned();
        wrong(
            "runtime.serving",
            what,
            Some("runtime=openai, runtime=vllm"),
        );
        return;
    }
    load_mistakes(serving, wrong);
    if serving.offline {
        offline_mistakes(kind, serving, wrong);
    }
    if kind == RuntimeType::Openai {
        if serving.url.is_none() {
            let what = "there is no endpoint".to_owned();
            wrong(
                "runtime.serving.url",
                what,
                Some("runtime.serving.url=http://localhost:8000"),
            );
        }
        return;
    }
    server_mistakes(plan, serving, wrong);
}
