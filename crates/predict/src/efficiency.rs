//! How near to a device's limits each kind of operator comes: data, so that measured figures can replace it.

use std::collections::BTreeMap;

use llmprof_units::{Basis, DType};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::interval::Spreads;
use crate::curves::{KernelCurves, ServingEngine};
use llmprof_theory::Kind;

macro_rules! embedded {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../data/efficiencies/", $name, ".yaml")))),*]
    };
}

const EMBEDDED: [(&str, &str); 9] = embedded![
    "fused",
    "hf_eager",
    "hf_graph",
    "ideal",
    "native",
    "sglang",
    "torch_compile",
    "trtllm",
    "vllm"
];

/// Rows of a step from which on kernels are wide.
pub(super) const WIDE_ROWS: u64 = 128;

/// What one kind of operator reaches, and what it costs beyond its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindEfficiency {
    /// Share of the arithmetic peak, above 0 and at most 1.
    pub compute: f64,
    /// The same in steps of less than 128 rows, where it is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub few_rows_compute: Option<f64>,
    /// Share of the peak bandwidth, above 0 and at most 1.
    pub memory: f64,
    /// Number of kernels that one call of the operator launches.
    pub kernels: f64,
    /// Time of each kernel however small its work, in µs, in a step of one row (sequences × new tokens).
    pub kernel_us: f64,
    /// The same in a step of 128 rows or more; between the two it grows with the logarithm of the rows, as a
    /// kernel comes to use more of the device.
    pub wide_kernel_us: f64,
    /// How often the activations of the fused operator are moved by the kernels it really takes.
    pub activation_passes: f64,
    /// How often the bytes of the KV cache are moved.
    pub kv_passes: f64,
    /// How the figures are known.
    pub basis: Basis,
    /// Key in [`EfficiencyProfile::sources`] of the document or run behind the figures.
    pub source: String,
    /// Which part of the source, and what is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Software whose kernels are known one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// Hugging Face transformers 5 in eager mode.
    HfEager,
    /// The same with a static KV cache, decode steps captured as a CUDA graph.
    HfGraph,
    /// The same with Inductor's fused kernels for decode, captured as CUDA graphs.
    TorchCompile,
    /// vLLM: fused kernels, paged KV cache, CUDA graphs for decode.
    Vllm,
    /// The same steps by SGLang's kernels.
    Sglang,
    /// The same steps by TensorRT-LLM's kernels.
    Trtllm,
}

impl Implementation {
    /// The engine, of those that serve.
    pub(super) fn serving_engine(self) -> Option<ServingEngine> {
        match self {
            Self::Vllm => Some(ServingEngine::Vllm),
            Self::Sglang => Some(ServingEngine::Sglang),
            Self::Trtllm => Some(ServingEngine::Trtllm),
            Self::HfEager | Self::HfGraph | Self::TorchCompile => None,
        }
    }
}

/// Costs of a captured step (CUDA Graph) in addition to its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphTimes {
    /// Launch, sampling and the way back to the host, of each step.
    pub step_us: f64,
    /// From the end of a kernel to the start of the next.
    pub gap_us: f64,
    /// Steps with prompts are captured up to this number of tokens; 0 if they are never captured.
    #[serde(default)]
    pub prefill_tokens: u64,
}

/// A figure of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFigure {
    pub value: f64,
    /// Whether the figure was measured, taken from a datasheet or derived.
    pub basis: Basis,
    /// Key in [`EfficiencyProfile::sources`] of the document or run behind the figure.
    pub source: String,
    /// Which part of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A way of running models, with what it makes of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficiencyProfile {
    /// Name on the command line.
    pub name: String,
    pub title: String,
    /// Where the figures are from.
    pub sources: BTreeMap<String, String>,
    /// Kernels of each step that belong to no operator.
    pub pass_kernels: ProfileFigure,
    /// Host time for each kernel, where the host starts them one by one: what the software does between them is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_kernel: Option<ProfileFigure>,
    /// The software whose kernels are costed one by one on GPUs; `kinds` then serve image towers and other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<Implementation>,
    /// Format of arithmetic, activations and KV cache if the software supports only one; weights keep their stored format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<DType>,
    /// Where decode steps are captured as CUDA graphs; the host then only launches those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphTimes>,
    /// How far measurements lay from predictions of that software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spreads: Option<Spreads>,
    /// What is known of its error.
    pub known_error: String,
    /// Kinds that are not listed.
    pub default: KindEfficiency,
    pub kinds: BTreeMap<Kind, KindEfficiency>,
    /// Kernel curves by device name, in place of the shipped ones: those of `llmprof hardware measure --gpu`.
    #[serde(skip)]
    pub curves: BTreeMap<String, KernelCurves>,
}

/// Why a profile could not be had.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProfileError {
    /// No embedded profile has the name.
    #[error(
        "no efficiency profile is called `{wanted}` (known: {known}); give the path of a file to use your own"
    )]
    Unknown { wanted: String, known: String },
    /// Not YAML of the schema.
    #[error("efficiency file {file}: {problem}")]
    Syntax { file: String, problem: String },
    /// A value that cannot be.
    #[error("efficiency file {file}: {key}: {problem}")]
    Invalid {
        file: String,
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl EfficiencyProfile {
    /// Whether the software divides memory as serving engines do: those, and any software with fused kernels or without losses.
    pub fn is_engine(&self) -> bool {
        match self.implementation {
            Some(software) => software.serving_engine().is_some(),
            None => self.computes.is_none(),
        }
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    pub fn embedded(name: &str) -> Result<Self, ProfileError> {
        match EMBEDDED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse_text(text, &format!("{name}.yaml (embedded)")),
            None => Err(ProfileError::Unknown {
                wanted: name.to_owned(),
                known: Self::names().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// Reads a profile; `file` is how errors name it.
    pub fn parse_text(text: &str, file: &str) -> Result<Self, ProfileError> {
        let syntax = |error: &dyn std::fmt::Display| ProfileError::Syntax {
            file: file.to_owned(),
            problem: error.to_string(),
        };
        let profile: Self = match Self::inherit_kinds(text, file)? {
            Some(whole) => serde_json::from_value(whole).map_err(|error| syntax(&error))?,
            None => serde_saphyr::from_str(text).map_err(|error| syntax(&error))?,
        };
        profile.check_figures(file)?;
        Ok(profile)
    }

    /// Resolves `like`: kinds and sources that the profile does not state are taken from the profile it names.
    fn inherit_kinds(text: &str, file: &str) -> Result<Option<Value>, ProfileError> {
        // What is wrong with the text is said where it is read as a profile.
        let Ok(Value::Object(mut own)) = serde_saphyr::from_str(text) else {
            return Ok(None);
        };
        let Some(like) = own.remove("like") else {
            return Ok(None);
        };
        let base = EMBEDDED.iter().find(|(name, _)| like == *name);
        let base = base.and_then(|(_, text)| serde_saphyr::from_str(text).ok());
        let Some(Value::Object(base)) = base else {
            return Err(ProfileError::Invalid {
                file: file.to_owned(),
                key: "like".to_owned(),
                problem: format!("{like} is not an embedded profile"),
            });
        };
        for (key, value) in base {
            match (key.as_str(), own.get_mut(&key), value) {
                ("default" | "kinds", None, value) => {
                    own.insert(key, value);
                }
                ("sources", Some(Value::Object(own)), Value::Object(sources)) => {
                    for (name, source) in sources {
                        own.entry(name).or_insert(source);
                    }
                }
                _ => {}
            }
        }
        Ok(Some(Value::Object(own)))
    }

    /// What a kind of operator reaches.
    pub fn efficiency_of(&self, kind: Kind) -> &KindEfficiency {
        self.kinds.get(&kind).unwrap_or(&self.default)
    }

    fn check_figures(&self, file: &str) -> Result<(), ProfileError> {
        let invalid = |key: String, problem: &str| ProfileError::Invalid {
            file: file.to_owned(),
            key,
            problem: problem.to_owned(),
        };
        let entries = self
            .kinds
            .iter()
            .map(|(kind, entry)| (format!("kinds.{kind}"), entry))
            .chain([("default".to_owned(), &self.default)]);
        for (key, entry) in entries {
            let few_rows = entry.few_rows_compute.unwrap_or(entry.compute);
            for (name, share) in [
                ("compute", entry.compute),
                ("few_rows_compute", few_rows),
                ("memory", entry.memory),
            ] {
                if !(share > 0.0 && share <= 1.0) {
                    return Err(invalid(
                        format!("{key}.{name}"),
                        "must lie above 0 and not above 1",
                    ));
                }
            }
            for (name, amount) in [
                ("kernels", entry.kernels),
                ("kernel_us", entry.kernel_us),
                ("wide_kernel_us", entry.wide_kernel_us),
                ("activation_passes", entry.activation_passes),
                ("kv_passes", entry.kv_passes),
            ] {
                if !(0.0..=1e6).contains(&amount) {
                    return Err(invalid(
                        format!("{key}.{name}"),
                        "must lie between 0 and 10^6",
                    ));
                }
            }
            if !self.sources.contains_key(&entry.source) {
                return Err(invalid(format!("{key}.source"), "is not in `sources`"));
            }
        }
        let figures = [
            ("pass_kernels", Some(&self.pass_kernels)),
            ("host_us_per_kernel", self.host_us_per_kernel.as_ref()),
        ];
        for (key, figure) in figures {
            let Some(figure) = figure else { continue };
            if !(0.0..=1e6).contains(&figure.value) {
                return Err(invalid(key.to_owned(), "must lie between 0 and 10^6"));
            }
            if !self.sources.contains_key(&figure.source) {
                return Err(invalid(format!("{key}.source"), "is not in `sources`"));
            }
        }
        if let Some(spreads) = &self.spreads {
            let phases = [
                ("family", Some(spreads.family)),
                ("common_keys", spreads.common_keys),
                ("traced", spreads.traced),
                ("from_run", spreads.from_run),
            ];
            let phases = phases.into_iter().filter_map(|(name, phases)| {
                let phases = phases?;
                Some([(name, phases.prefill), (name, phases.decode)])
            });
            for (name, spread) in phases.flatten().chain([("host", spreads.host)]) {
                if !(spread.low > 0.0 && spread.low <= 1.0 && (1.0..1e3).contains(&spread.high)) {
                    return Err(invalid(
                        format!("spreads.{name}"),
                        "must have `low` above 0 and not above 1, and `high` not below 1",
                    ));
                }
            }
        }
        Ok(())
    }
}
