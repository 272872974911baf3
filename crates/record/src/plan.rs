//! What will be run, fully resolved, before anything starts.
//!
//! The shape of a [`Plan`] is the shape of the resolved config, so every key has one place. [`Plan::mistakes`] finds
//! what is wrong with a request while nothing has been spent on it.

mod cupti;
mod direct;
mod hardware;
mod mistakes;
mod nsight;
mod runtime;
mod runtime_type;
mod serving;
mod source;
mod telemetry;
mod torch;

use std::{fmt, path::PathBuf};

use llmprof_theory::{
    AttentionConvention, Images, Logits, MlaDecode, Precision, WeightFormat, Workload,
    parallel::Parallel,
};
use llmprof_units::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cupti::CuptiPlan;
pub use self::direct::{DirectInferencePlan, DirectOutputPlan};
pub use self::hardware::HardwarePlan;
pub use self::mistakes::Mistake;
pub use self::nsight::{
    CaptureRange, ClassifyPlan, CublasLogPlan, NcuPlan, NsysPlan, Tier, has_cuda_program,
};
pub use self::runtime::RuntimePlan;
pub use self::runtime_type::{RuntimeType, Word};
pub use self::serving::ServingPlan;
pub use self::source::CodeSource;
pub use self::telemetry::TelemetryPlan;
pub use self::torch::{Activity, Compile, Preset, TorchProfilerPlan, TorchProfilerSettings};

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the experiment; run directories and reports are named after it.
    pub experiment: String,
    /// The device that the model runs on.
    pub device: ModelPlace,
    /// The model and where its files are.
    pub model: ModelPlan,
    /// The samples or synthetic prompts that the model is fed.
    pub dataset: DatasetPlan,
    /// The program that runs the model, with its settings.
    pub runtime: RuntimePlan,
    /// Batch size, lengths and number formats of the requests.
    pub workload: WorkloadPlan,
    /// What it is compared with.
    pub hardware: HardwarePlan,
    /// The stages of the run, each on or off.
    pub pipeline: PipelinePlan,
    /// The kinds of files that the run writes.
    pub output: OutputPlan,
    /// How the model chooses and how many tokens it generates.
    pub infer: InferPlan,
    /// Devices that share the model, on paper.
    #[serde(default, skip_serializing_if = "Parallel::is_single")]
    pub parallel: Parallel,
}

impl Plan {
    /// The workload as theory takes it, with the devices that share it.
    pub fn spread_workload(&self) -> Workload {
        Workload {
            parallel: self.parallel,
            ..self.workload.workload()
        }
    }
}

/// A place to compute: the CPU, one CUDA device, or a device that only torch knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ModelPlace {
    Cpu,
    /// The CUDA device of this index.
    Cuda(u32),
    /// The GPU of an Apple computer, by Metal Performance Shaders.
    Mps,
    /// The Intel GPU of this index.
    Xpu(u32),
    /// The Gaudi accelerator of this index.
    Hpu(u32),
}

impl ModelPlace {
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_))
    }
}

impl TryFrom<String> for ModelPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, index) = match text.split_once(':') {
            None => (text.as_str(), Some(0)),
            Some((kind, index)) => (kind, index.parse().ok()),
        };
        match (kind, index) {
            ("cpu", Some(0)) if text == "cpu" => Ok(Self::Cpu),
            ("mps", Some(0)) => Ok(Self::Mps),
            ("cuda", Some(index)) => Ok(Self::Cuda(index)),
            ("xpu", Some(index)) => Ok(Self::Xpu(index)),
            ("hpu", Some(index)) => Ok(Self::Hpu(index)),
            _ => Err(format!(
                "`{text}` is not a device; use `cpu`, `cuda:N`, `mps`, `xpu:N` or `hpu:N`"
            )),
        }
    }
}

impl From<ModelPlace> for String {
    fn from(place: ModelPlace) -> Self {
        place.to_string()
    }
}

impl fmt::Display for ModelPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Mps => f.write_str("mps"),
            Self::Xpu(index) => write!(f, "xpu:{index}"),
            Self::Hpu(index) => write!(f, "hpu:{index}"),
        }
    }
}

/// The model: a name, where its files are, and its design.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
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
    /// Folders with the source code of the model.
    pub impl_src: Option<CodeSource>,
    /// Its home on a model hub.
    pub hf_src: Option<CodeSource>,
    /// Where weights come from; absent for a runtime that loads none. `null` in a config is decided by what `path` has.
    pub load_format: Option<LoadFormat>,
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

    /// Whether weights are read from files of `path`.
    pub fn reads_weights(&self) -> bool {
        matches!(
            self.load_format,
            Some(LoadFormat::Safetensors | LoadFormat::Pt)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadFormat {
    /// Random numbers of the right shapes.
    Dummy,
    /// The safetensors files of `model.path`.
    Safetensors,
    /// The `.bin` files of `model.path`, as `torch.save` writes them.
    Pt,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetPlan {
    /// Name of the dataset in paths and reports.
    pub name: String,
    /// Its folder, or one text file; absent makes prompts up.
    pub root: Option<PathBuf>,
    /// Variant of the dataset; the source data where absent.
    pub variant: Option<String>,
    /// A file that names one sample per line.
    pub subset_filelist: Option<PathBuf>,
    /// Tokens of the shortest synthetic prompt; the longest has `workload.prompt_tokens`, which all have where absent.
    #[serde(default)]
    pub min_prompt_tokens: Option<u64>,
    /// Which samples are used, in which order and how often.
    pub sampling: SamplingPlan,
}

/// Which samples are used, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingPlan {
    /// Times the samples are gone through.
    pub num_epochs: u64,
    /// Samples per epoch; all where absent.
    pub num_samples_per_epoch: Option<u64>,
    /// Whether samples are shuffled in each epoch.
    pub randomize: bool,
    /// Seed of the shuffle and of synthetic prompts.
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    /// Number of requests that run together.
    pub batch_size: u64,
    /// Text tokens of each prompt.
    pub prompt_tokens: u64,
    /// Number of tokens that each request generates; the first comes from prefill.
    pub new_tokens: u64,
    /// Tokens in the cache before the prompt.
    pub cached_tokens: u64,
    /// Prompt tokens that one prefill step takes; absent if prompts are not split into chunks.
    pub chunk_tokens: Option<u64>,
    /// Number format of activations; the model's own if absent.
    pub dtype: Option<DType>,
    /// Format in which the weight matrices are stored; the model's own if absent.
    pub weights: Option<WeightFormat>,
    /// Number format of the KV cache.
    pub kv_dtype: Option<DType>,
    /// Whether masked positions of attention are counted.
    pub attention: AttentionConvention,
    /// Positions of the prompt for which prefill computes logits.
    pub logits: Logits,
    /// Whether latent attention (MLA) decodes on the compressed or the expanded cache.
    pub mla: MlaDecode,
    /// Number and size of the images in each sequence.
    pub images: Images,
}

impl WorkloadPlan {
    pub fn workload(&self) -> Workload {
        Workload {
            batch: self.batch_size,
            prompt: self.prompt_tokens,
            new_tokens: self.new_tokens,
            cached: self.cached_tokens,
            chunk: self.chunk_tokens,
            precision: Precision {
                weights: self.weights,
                plain: None,
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

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
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
    /// The pass that torch's profiler records.
    #[serde(default)]
    pub torch_profiler: TorchProfilerPlan,
    /// The timeline of Nsight Systems.
    #[serde(default)]
    pub nsys: NsysPlan,
    /// The counters of Nsight Compute.
    #[serde(default)]
    pub ncu: NcuPlan,
    /// The log of the GEMMs that cuBLAS and cuBLASLt run.
    #[serde(default)]
    pub cublas_log: CublasLogPlan,
    /// The pass that runs inference once over every sample of the dataset.
    #[serde(default)]
    pub direct_inference: DirectInferencePlan,
}

/// A stage that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagePlan {
    /// Whether the stage runs.
    pub enable: bool,
}

/// Which files a run leaves.
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of file")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPlan {
    /// Whether Markdown files are written.
    pub markdown: bool,
    /// Whether JSON files are written.
    pub json: bool,
    /// What the model said in the first plain pass of a profiled run.
    #[serde(default = "is_kept")]
    pub predictions: bool,
    /// Boxes of grounded text, where predictions are kept.
    #[serde(default = "is_kept")]
    pub visualizations: bool,
}

fn is_kept() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferPlan {
    /// Number of tokens that each request generates.
    pub max_new_tokens: u64,
    /// Whether tokens are drawn at random.
    pub do_sample: bool,
    /// Divides the logits before drawing.
    pub temperature: f64,
    /// Length of sequences that must not repeat.
    pub no_repeat_ngram_size: u64,
    /// What is asked about each image of a dataset, as text; absent asks with `workload.prompt_tokens` token ids.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Whether generation goes on after the model's end token, so that all requests have as many tokens.
    #[serde(default = "goes_on")]
    pub ignore_eos: bool,
}

/// Profiles compare runs of one length, so that is what a config without the key gets.
fn goes_on() -> bool {
    true
}
