//! What will be run, fully resolved, before anything starts.
//!
//! The shape of a [`Plan`] is the shape of the resolved config, so every key has one place. [`Plan::mistakes`] finds
//! what is wrong with a request while nothing has been spent on it.

mod cupti;
mod telemetry;
mod torch;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use llmprof_theory::{
    AttentionConvention, Images, Logits, MlaDecode, Precision, WeightFormat, Workload,
};
use llmprof_units::DType;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

pub use self::cupti::CuptiPlan;
pub use self::telemetry::TelemetryPlan;
pub use self::torch::{Activity, Compile, Preset, TorchProfilerPlan, TorchProfilerSettings};

/// A whole request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names the run.
    pub experiment: String,
    /// Where the model runs.
    pub device: Place,
    /// What is run.
    pub model: ModelPlan,
    /// What it is fed.
    pub dataset: DatasetPlan,
    /// Who runs it.
    pub runtime: RuntimePlan,
    /// How much of it.
    pub workload: WorkloadPlan,
    /// What it is compared with.
    pub hardware: HardwarePlan,
    /// Which stages run.
    pub pipeline: PipelinePlan,
    /// Which files are left.
    pub output: OutputPlan,
    /// How tokens are generated.
    pub infer: InferPlan,
}

/// A place to compute: the CPU, or one CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// The host's processor.
    Cpu,
    /// The CUDA device of this index.
    Cuda(u32),
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let index = match text.as_str() {
            "cpu" => return Ok(Self::Cpu),
            "cuda" => Some(0),
            other => other
                .strip_prefix("cuda:")
                .and_then(|index| index.parse().ok()),
        };
        index
            .map(Self::Cuda)
            .ok_or_else(|| format!("`{text}` is no device (use `cpu` or `cuda:N`)"))
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// The model: a name, where its files are, and its design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPlan {
    /// Names it in paths and reports.
    pub name: String,
    /// Its directory, with `config.json` and weights.
    pub path: Option<PathBuf>,
    /// A `config.json` to read its design from.
    pub config: Option<PathBuf>,
    /// Number format it computes in; its own where absent.
    pub dtype: Option<DType>,
    /// Longest context it is used with.
    pub max_seq_len: Option<u64>,
    /// Where its tokenizer is; its own directory by default.
    pub tokenizer: Option<PathBuf>,
    /// How images are prepared for it.
    pub preprocess: Option<serde_json::Value>,
    /// Its reference implementation.
    pub impl_src: Option<String>,
    /// Its home on a model hub.
    pub hf_src: Option<String>,
    /// Where weights come from.
    pub load_format: LoadFormat,
    /// Its design, with the keys of a Hugging Face `config.json`; empty where `path` has that file.
    #[serde(default)]
    pub design: serde_json::Map<String, serde_json::Value>,
}

impl ModelPlan {
    /// The keys that are not part of the design.
    pub const KEYS: &[&str] = &[
        "name",
        "path",
        "config",
        "dtype",
        "max_seq_len",
        "tokenizer",
        "preprocess",
        "impl_src",
        "hf_src",
        "load_format",
    ];
}

/// Where weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadFormat {
    /// Random numbers of the right shapes.
    Dummy,
    /// The safetensors files of `model.path`.
    Safetensors,
}

/// The data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetPlan {
    /// Names it.
    pub name: String,
    /// Its folder, or one text file; absent makes prompts up.
    pub root: Option<PathBuf>,
    /// Which prepared variant.
    pub variant: Option<String>,
    /// A file that names one sample per line.
    pub subset_filelist: Option<PathBuf>,
    /// Tokens of the shortest synthetic prompt; the longest has `workload.prompt_tokens`, which all have where absent.
    #[serde(default)]
    pub min_prompt_tokens: Option<u64>,
    /// Which samples, how often.
    pub sampling: SamplingPlan,
}

/// Which samples are used, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingPlan {
    /// Times the samples are gone through.
    pub num_epochs: u64,
    /// Samples per epoch; all where absent.
    pub num_samples_per_epoch: Option<u64>,
    /// Whether they are shuffled.
    pub randomize: bool,
    /// Seed of the shuffle and of synthetic prompts.
    pub seed: Option<u64>,
}

/// Who runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeType {
    /// Nobody.
    None,
    /// llmprof's own engine.
    Native,
    /// A Python worker on torch and transformers.
    Pytorch,
    /// A command line that is only watched.
    Command,
}

/// A word of a command line. A config may hold it as a number or a truth value: `[sleep, 300]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Word(
    /// As the command sees it.
    pub String,
);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}

/// The runtime and its settings; which of them exist depends on its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimePlan {
    /// Who runs the model.
    #[serde(rename = "type")]
    pub kind: RuntimeType,
    /// Requests that run together.
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
    /// `pytorch`: the interpreter, by path or by name on the `PATH`.
    #[serde(default)]
    pub python: Option<String>,
    /// `pytorch`: which attention code transformers uses, by its name for it; its choice where absent.
    #[serde(default)]
    pub attn_implementation: Option<String>,
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
    /// `command`: the program and its arguments.
    #[serde(default)]
    pub argv: Vec<Word>,
    /// `command`: variables added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, Word>,
    /// `command`: the directory it starts in.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// `command`: seconds after which it is ended.
    #[serde(default)]
    pub timeout_s: Option<f64>,
}

/// What is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    /// Requests that run together.
    pub batch_size: u64,
    /// Text tokens of each prompt.
    pub prompt_tokens: u64,
    /// Tokens generated per request.
    pub new_tokens: u64,
    /// Tokens in the cache before the prompt.
    pub cached_tokens: u64,
    /// Tokens per prefill chunk.
    pub chunk_tokens: Option<u64>,
    /// Number format of activations.
    pub dtype: Option<DType>,
    /// Storage of weights.
    pub weights: Option<WeightFormat>,
    /// Number format of the KV cache.
    pub kv_dtype: Option<DType>,
    /// How attention is counted.
    pub attention: AttentionConvention,
    /// Which logits prefill computes.
    pub logits: Logits,
    /// How latent attention decodes.
    pub mla: MlaDecode,
    /// Images per request.
    pub images: Images,
}

impl WorkloadPlan {
    /// As theory takes it.
    pub fn workload(&self) -> Workload {
        Workload {
            batch: self.batch_size,
            prompt: self.prompt_tokens,
            new_tokens: self.new_tokens,
            cached: self.cached_tokens,
            chunk: self.chunk_tokens,
            precision: Precision {
                weights: self.weights,
                activations: self.dtype,
                kv: self.kv_dtype,
                compute: None,
            },
            images: self.images,
            attention: self.attention,
            logits: self.logits,
            mla: self.mla,
            ..Workload::default()
        }
    }
}

/// Which device, and what describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePlan {
    /// Which GPU, where there are several.
    pub device_index: u32,
    /// Power limit assumed when judging.
    pub power_limit_w: Option<f64>,
    /// `auto`, the name of a known device, or a file.
    pub spec: String,
}

/// The stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlan {
    /// What the model must cost, on paper.
    pub static_analysis: StagePlan,
    /// The machine while the model runs.
    #[serde(default)]
    pub telemetry: TelemetryPlan,
    /// CUDA, recorded by our own library.
    #[serde(default)]
    pub cupti: CuptiPlan,
    /// Torch's own profiler.
    #[serde(default)]
    pub torch_profiler: TorchProfilerPlan,
}

/// A stage that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagePlan {
    /// Whether it runs.
    pub enable: bool,
}

/// Which files a run leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPlan {
    /// Markdown, for people.
    pub markdown: bool,
    /// JSON, for machines.
    pub json: bool,
}

/// How tokens are generated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferPlan {
    /// Tokens generated per request.
    pub max_new_tokens: u64,
    /// Whether tokens are drawn at random.
    pub do_sample: bool,
    /// Divides the logits before drawing.
    pub temperature: f64,
    /// Length of sequences that must not repeat.
    pub no_repeat_ngram_size: u64,
    /// Whether generation goes on after the model's end token, so that all requests have as many tokens.
    #[serde(default = "goes_on")]
    pub ignore_eos: bool,
}

/// Profiles compare runs of one length, so that is what a config without the key gets.
fn goes_on() -> bool {
    true
}

/// Something wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The config key it is about.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Plan {
    /// Everything wrong with the request as far as the request alone can tell; empty if it can start.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut wrong = |key, message: String, hint: Option<&str>| {
            found.push(Mistake {
                key,
                message,
                hint: hint.map(str::to_owned),
            });
        };
        let positive = [
            ("workload.batch_size", self.workload.batch_size),
            ("workload.new_tokens", self.workload.new_tokens),
            (
                "dataset.sampling.num_epochs",
                self.dataset.sampling.num_epochs,
            ),
            (
                "dataset.sampling.num_samples_per_epoch",
                self.dataset.sampling.num_samples_per_epoch.unwrap_or(1),
            ),
            (
                "workload.chunk_tokens",
                self.workload.chunk_tokens.unwrap_or(1),
            ),
        ];
        for (key, value) in positive {
            if value == 0 {
                wrong(key, "must be at least 1".to_owned(), None);
            }
        }
        if let Some(shortest) = self.dataset.min_prompt_tokens
            && !(1..=self.workload.prompt_tokens).contains(&shortest)
        {
            wrong(
                "dataset.min_prompt_tokens",
                format!(
                    "must lie between 1 and workload.prompt_tokens, {}",
                    self.workload.prompt_tokens
                ),
                None,
            );
        }
        let without_root = [
            (
                "dataset.subset_filelist",
                self.dataset.subset_filelist.is_some(),
            ),
            ("dataset.variant", self.dataset.variant.is_some()),
        ];
        for (key, set) in without_root {
            if set && self.dataset.root.is_none() {
                wrong(
                    key,
                    "the dataset has no folder".to_owned(),
                    Some("dataset=text dataset.root=DIR"),
                );
            }
        }
        if self.workload.prompt_tokens == 0 && self.workload.images.count == 0 {
            wrong(
                "workload.prompt_tokens",
                "there is nothing to prefill".to_owned(),
                None,
            );
        }
        if let Some(longest) = self.model.max_seq_len {
            let asked = [
                self.workload.cached_tokens,
                self.workload.prompt_tokens,
                self.workload.new_tokens,
            ]
            .iter()
            .fold(0u64, |sum, &tokens| sum.saturating_add(tokens));
            if asked > longest {
                wrong(
                    "model.max_seq_len",
                    format!("the request needs {asked} positions, the model has {longest}"),
                    Some("lower workload.prompt_tokens or infer.max_new_tokens"),
                );
            }
        }
        if self.infer.do_sample
            && !(self.infer.temperature > 0.0 && self.infer.temperature.is_finite())
        {
            wrong(
                "infer.temperature",
                format!("{} cannot divide logits", self.infer.temperature),
                Some("a positive number, or infer.do_sample=false"),
            );
        }
        if self
            .hardware
            .power_limit_w
            .is_some_and(|limit| !(limit > 0.0 && limit.is_finite()))
        {
            wrong(
                "hardware.power_limit_w",
                "must be a positive number of watts".to_owned(),
                None,
            );
        }
        found
    }

    /// Everything beyond that which stands against executing it.
    pub fn execution_mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut wrong = |key, message: String, hint: Option<&str>| {
            found.push(Mistake {
                key,
                message,
                hint: hint.map(str::to_owned),
            });
        };
        match self.runtime.kind {
            RuntimeType::Command if self.runtime.argv.is_empty() => wrong(
                "runtime.argv",
                "there is no command to run".to_owned(),
                Some("runtime.argv=[program,argument]"),
            ),
            RuntimeType::None if !self.pipeline.static_analysis.enable => wrong(
                "runtime.type",
                "nothing is executed and no stage is enabled, so there is nothing to do".to_owned(),
                Some("choose a runtime, or pipeline.static_analysis.enable=true"),
            ),
            RuntimeType::None | RuntimeType::Command => {}
            RuntimeType::Native | RuntimeType::Pytorch => {
                if self.runtime.repeats == 0 {
                    wrong("runtime.repeats", "must be at least 1".to_owned(), None);
                }
                if self.runtime.threads == Some(0) {
                    wrong("runtime.threads", "must be at least 1".to_owned(), None);
                }
                if self.model.load_format == LoadFormat::Safetensors && self.model.path.is_none() {
                    wrong(
                        "model.path",
                        "there is no directory to load weights from".to_owned(),
                        Some("model.path=DIR"),
                    );
                }
            }
        }
        if self.runtime.kind == RuntimeType::Native {
            self.native_mistakes(&mut wrong);
        }
        torch::mistakes(self, &mut wrong);
        self.pipeline.telemetry.mistakes(&mut wrong);
        self.pipeline.cupti.mistakes(self, &mut wrong);
        if self
            .runtime
            .timeout_s
            .is_some_and(|limit| !(limit > 0.0 && limit.is_finite()))
        {
            wrong(
                "runtime.timeout_s",
                "must be a positive number of seconds".to_owned(),
                None,
            );
        }
        self.refused(&mut wrong);
        found
    }

    /// What the native runtime cannot do.
    fn native_mistakes(&self, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
        let workload = &self.workload;
        let native = |what: &str| format!("the native runtime {what}");
        let fixed: [(&'static str, bool, &str); 6] = [
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
                "workload.weights",
                workload.weights.is_some(),
                "keeps weights in workload.dtype",
            ),
            (
                "workload.kv_dtype",
                workload.kv_dtype.is_some(),
                "keeps the KV cache in f32",
            ),
            (
                "workload.images.count",
                workload.images.count > 0,
                "runs text models only",
            ),
            (
                "workload.logits",
                workload.logits == Logits::All,
                "computes the logits of the last position",
            ),
        ];
        for (key, set, what) in fixed {
            if set {
                wrong(key, native(what), None);
            }
        }
        if self.device != Place::Cpu {
            let hint = Some("runtime=pytorch runs on GPUs");
            wrong("device", native("runs on the CPU"), hint);
        }
    }

    /// Keys whose capability this version does not have: set to anything but their default they are refused, since
    /// ignoring them would run something else than was asked for.
    fn refused(&self, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
        let absent = |what: &str| format!("this version of llmprof cannot {what} yet");
        let keys: [(&'static str, bool, &str); 3] = [
            (
                "model.preprocess",
                self.model.preprocess.is_some(),
                "prepare images",
            ),
            (
                "model.impl_src",
                self.model.impl_src.is_some(),
                "use a reference implementation",
            ),
            (
                "model.load_format",
                self.model.load_format == LoadFormat::Safetensors
                    && !matches!(
                        self.runtime.kind,
                        RuntimeType::Native | RuntimeType::Pytorch
                    ),
                "load weights with this runtime",
            ),
        ];
        for (key, set, what) in keys {
            if set {
                wrong(key, absent(what), None);
            }
        }
    }
}
