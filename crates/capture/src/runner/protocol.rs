//! The messages between llmprof and a worker. `docs/worker-protocol.md` is the same for people who write a worker.
//!
//! A message is one JSON object with one key, its kind, on one line. Unknown keys are refused on both sides: a
//! misspelt option must not be ignored by a program whose purpose is to measure exactly what was asked for.

use std::{collections::BTreeMap, path::PathBuf};

use llmprof_record::{
    issue::Issue,
    plan::{Activity, Compile, LoadFormat},
    run::AllocatorFacts,
};
use llmprof_theory::{
    WeightFormat,
    kernels::{KernelSample, TracedModel},
};
use llmprof_units::{Bytes, DType, Nanos};
use serde::{Deserialize, Serialize};

/// The version of the protocol. Both sides must speak the same one.
pub const PROTOCOL_VERSION: u32 = 1;

/// The environment variable that gives a worker the path of its socket.
pub const SOCKET_VARIABLE: &str = "LLMPROF_WORKER_SOCKET";

/// The longest line either side accepts, in bytes.
///
/// A batch of 64 requests with 32,768 tokens each, times and ids written out, takes about 60 MB.
pub(crate) const MAX_LINE_BYTES: usize = 128 << 20;

/// What llmprof asks of a worker. Each is answered by the [`Reply`] of the same kind, or by [`Reply::Error`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Exchange versions, before anything else.
    Hello(ClientHello),
    /// Load a model and allocate its cache.
    Load(Load),
    /// Run a batch whose times do not count.
    WarmUp(Generate),
    Generate(Generate),
    /// Measure how long kernels take on a device.
    Measure(Measure),
    /// Find the kernels of a model without running it.
    Trace(Trace),
    Bye(Empty),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Hello(WorkerHello),
    /// The model is ready for batches.
    Load(Loaded),
    WarmUp(Generated),
    Generate(Generated),
    Measure(Measured),
    Trace(TracedModel),
    Bye(Empty),
    /// The step failed for a known reason; the worker is ready for another request.
    Error(Failure),
    /// How far the step has come. Any number of these may precede the answer.
    Progress(Progress),
}

impl Reply {
    /// The name of its kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Load(_) => "load",
            Self::WarmUp(_) => "warm_up",
            Self::Generate(_) => "generate",
            Self::Measure(_) => "measure",
            Self::Trace(_) => "trace",
            Self::Bye(_) => "bye",
            Self::Error(_) => "error",
            Self::Progress(_) => "progress",
        }
    }
}

/// A message with nothing to say: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// The first message to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientHello {
    /// The version that llmprof speaks.
    pub version: u32,
}

/// The first message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerHello {
    /// The version that the worker speaks.
    pub version: u32,
    /// The runtime: `native`, `pytorch`, `vllm`.
    pub runtime: String,
    /// Version of the runtime itself.
    pub runtime_version: String,
    /// Its process id; the process that was started may be a profiler around it.
    pub pid: u32,
    /// `CLOCK_MONOTONIC` when this message was made: shows that both sides read the same clock.
    pub monotonic_ns: Nanos,
}

/// A model to be made ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its design, with the keys of a Hugging Face `config.json`.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Its directory with weights and tokenizer; absent where only the design is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The directory of its tokenizer, where that is not `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// Whether weights are read from files or made up.
    pub load_format: LoadFormat,
    /// Number format it computes in; its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// Storage of the weight matrices, quantized while loading; `dtype` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightFormat>,
    /// Where it runs: `cpu`, `cuda:0`.
    pub device: String,
    /// Most requests that will run together.
    pub max_batch: u64,
    /// Most positions (prompt and generated) that a request will have.
    pub max_positions: u64,
    /// Threads to compute with; the runtime's choice where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Seed of weights that are made up.
    pub seed: u64,
    /// How the runtime executes it.
    #[serde(default, skip_serializing_if = "LoadOptions::is_default")]
    pub options: LoadOptions,
}

/// How a runtime executes a model. A worker refuses what it does not know how to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadOptions {
    /// Which attention code the runtime uses, by its own name for it; its choice where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attn_implementation: Option<String>,
    /// Which code multiplies the experts of a mixture, by the runtime's own name for it; its choice where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts_implementation: Option<String>,
    /// Whether and how decode is compiled.
    pub compile: Compile,
    /// Whether a decode step is captured once as a CUDA graph and replayed.
    pub cuda_graph: bool,
    /// Whether code of the model's own directory may be executed.
    pub trust_remote_code: bool,
    /// How images are prepared, with the runtime's own names; its choice where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preprocess: Option<serde_json::Map<String, serde_json::Value>>,
    /// Processes that share the model, each with a device of its own; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

impl LoadOptions {
    /// Whether the KV cache has its full size from the start, as compiled and captured steps need it.
    pub fn has_fixed_cache(&self) -> bool {
        self.cuda_graph || self.compile != Compile::Off
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is known of a model that is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loaded {
    pub start_ns: Nanos,
    /// When the model was ready.
    pub end_ns: Nanos,
    /// Number format it computes in.
    pub dtype: DType,
    /// Distinct parameters; a tied embedding counts once.
    pub parameters: u64,
    /// Memory that its weights take, in bytes.
    pub weight_bytes: Bytes,
    /// Token ids it knows: 0 up to this, exclusive.
    pub vocab_size: u32,
    /// Threads it computes with, where the runtime knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether it takes prompts as text.
    pub tokenizer: bool,
    /// Other facts for `env.json`: versions, kernels in use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Packages that are installed where it runs, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// What was dropped or should not be trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

/// A batch: requests that start together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// The requests; at least one.
    pub requests: Vec<GenerateRequest>,
    /// How the next token is chosen.
    pub sampling: TokenSampling,
    /// Whether a request goes on after the model's end token, so that every request has `max_new_tokens`.
    pub ignore_eos: bool,
    /// Longer prompts are cut to this many tokens, from their front; absent cuts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_prompt_tokens: Option<u64>,
    /// The file to write operator events to; absent where nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<PathBuf>,
    /// What is added to the run for those who watch it; nothing in a plain pass.
    #[serde(default, skip_serializing_if = "Instruments::is_default")]
    pub instruments: Instruments,
}

/// What a worker adds to a batch so that it can be understood. Each costs time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Instruments {
    /// Whether every call of a module is a range that is named by the module's path.
    pub module_ranges: bool,
    /// What the framework's own profiler records. In a warm-up without `events` it runs and its records are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The file to write the allocator's history to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_snapshot: Option<PathBuf>,
    /// Whether the batch runs between `cudaProfilerStart` and `cudaProfilerStop`, by which Nsight's tools know it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cuda_profiler: bool,
}

impl Instruments {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the framework's own profiler records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of torch's profiler"
)]
pub struct Profile {
    /// Whose work: the host's, the device's.
    pub activities: Vec<Activity>,
    /// Whether shapes of operators' inputs are recorded.
    pub shapes: bool,
    pub memory: bool,
    pub stacks: bool,
    /// The framework's own count of FLOPs.
    pub flops: bool,
}

/// One request of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerateRequest {
    /// Names it within the batch.
    pub id: String,
    /// The token ids or text that it continues.
    pub prompt: Prompt,
    /// Most tokens to generate; the first comes from prefill.
    pub max_new_tokens: u64,
    /// Images that stand before the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// An image: a file, or random pixels. Its tokens come on top of the prompt's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Pixels from top to bottom; 0 is the model's own size.
    pub height: u64,
    /// Pixels from left to right; 0 is the model's own size.
    pub width: u64,
    /// A PNG or JPEG file of that size; absent draws random pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// What a request starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    Tokens(Vec<u32>),
    /// Text, for workers with a tokenizer.
    Text(String),
}

/// How the next token is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSampling {
    /// Whether it is drawn at random; else it is the most likely one.
    pub do_sample: bool,
    /// Divides the logits before drawing.
    pub temperature: f64,
    /// Length of sequences that must not repeat; 0 forbids nothing.
    pub no_repeat_ngram_size: u64,
    /// Seed of the random draw.
    pub seed: u64,
}

/// A batch that ran. All times are on the run's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// When the batch began, on the run's clock.
    pub start_ns: Nanos,
    /// When its last token was there.
    pub end_ns: Nanos,
    /// One result for each request, in their order.
    pub requests: Vec<RequestResult>,
    /// What the runtime was doing, in order and without overlap.
    pub phases: Vec<PhaseSpan>,
    /// What the runtime itself did between operators (`sampling`, `tokenizer`), where it was asked to record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<HostSpan>,
    /// The operator events, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsFile>,
    /// When each token of the longest request was there on the device's own clock, from the start of the batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_token_ns: Vec<Nanos>,
    /// What the device's allocator did during the batch, where it reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DeviceMemory>,
    /// What was dropped or should not be trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

/// What came of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestResult {
    pub id: String,
    /// Number of tokens in its prompt.
    pub prompt_tokens: u64,
    /// When its work began, on the run's clock.
    pub start_ns: Nanos,
    pub output_tokens: Vec<u32>,
    /// When each of them was there; the first comes from prefill.
    pub token_ns: Vec<Nanos>,
    pub finish: Finish,
    /// The tokens as text, where the worker has a tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text with its special tokens, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_text: Option<String>,
    /// Tokens of the prompt that `max_prompt_tokens` cut off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_prompt_tokens: u64,
    /// Tokens that its decoder began with, where an encoder read the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder_prompt_tokens: Option<u64>,
    /// What the images of the request became.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<SeenImage>,
}

/// An image as the model took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenImage {
    /// Tokens that stand for it in the prompt.
    pub tokens: u64,
    /// Pixels of the whole image as it went into the vision tower.
    pub height: u64,
    pub width: u64,
    /// Crops beside the whole image, across and down.
    pub crops_wide: u64,
    pub crops_high: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had all the tokens it was allowed.
    Length,
    /// The model's end token came.
    Stop,
}

/// A phase of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpan {
    /// What it is: `vision`, `encoder`, `prefill`, `decode`, `mixed`.
    pub phase: String,
    pub start_ns: Nanos,
    pub end_ns: Nanos,
}

/// Something with a name that the runtime did between operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpan {
    /// What it is: `sampling`, `tokenizer`.
    pub name: String,
    pub start_ns: Nanos,
    pub end_ns: Nanos,
}

/// A file of operator events that the worker wrote; JSON would be slow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsFile {
    /// Where it is: the path that was asked for.
    pub path: PathBuf,
    /// What is in it: `llmprof_operators`, `kineto_json`.
    pub format: String,
    /// How many events it holds.
    pub events: u64,
}

/// What the device's allocator did during a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    #[serde(flatten)]
    pub facts: AllocatorFacts,
    /// The file of the allocator's history, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<PathBuf>,
}

/// What to measure on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Where kernels run: `cpu`, `cuda:0`.
    pub device: String,
    /// What has not run after this many seconds is left out.
    pub seconds: f64,
    /// Whether sweeps go as far as a large GPU does, or have a few small sizes.
    pub full: bool,
}

/// Times that micro-benchmarks measured on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Version of torch that ran them.
    pub torch: String,
    /// The device as its driver calls it.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Bytes>,
    /// Number of SMs or compute units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_bytes: Option<Bytes>,
    /// How long it all took.
    pub seconds: f64,
    pub samples: Vec<KernelSample>,
    /// Cases that time ran out for.
    pub skipped: u64,
    /// Cases that failed, by reason.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    pub launches: LaunchTimes,
    /// Bytes per second, by where they were copied: `device`, `to_device`, `from_device`.
    pub copies: BTreeMap<String, f64>,
}

/// What launching kernels takes, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchTimes {
    /// Time of the host for each.
    pub host_ns: f64,
    /// From one tiny kernel of a CUDA graph to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_kernel_ns: Option<f64>,
    /// From the launch of a graph of one tiny kernel to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_launch_ns: Option<f64>,
}

/// A model whose kernels are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Its design, with the keys of a Hugging Face `config.json`.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Number format it computes in; bf16 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// The library's name of its attention code; its own choice where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attn_implementation: Option<String>,
    pub batch: u64,
    /// Number of tokens in each prompt.
    pub prompt: u64,
    /// Cached tokens of the decode steps that are asked for.
    pub contexts: Vec<u64>,
}

/// A step failed for a reason the worker knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub kind: FailureKind,
    /// What was wrong with what.
    pub message: String,
    /// What would help, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with no hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// The same failure with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The message is not one of this protocol, or came at the wrong time.
    Protocol,
    /// The request asks for something impossible: a token outside the vocabulary, more positions than were loaded.
    BadRequest,
    /// The worker cannot do this: another model family, dtype or device.
    Unsupported,
    /// A file of the model is missing or broken.
    Model,
    /// There is not enough memory.
    OutOfMemory,
    /// Something the runtime needs is not installed.
    Missing,
    /// Anything else; also every kind this version does not know.
    #[serde(other)]
    Internal,
}

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}
