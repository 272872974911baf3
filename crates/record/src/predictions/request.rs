use std::{io, path::Path};

use llmprof_units::hex_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    plan::Plan,
    store::{Folder, JSON_MAX_BYTES, StoreError, io_error},
};

/// What direct inference was asked for, in the run directory.
const FILE: &str = "direct_inference.json";

/// What decides the predictions of a run: a run goes on only where this is the same. Batch size, device and threads may
/// change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectRequest {
    /// The configuration of the model.
    model: Value,
    /// The configuration of the dataset.
    dataset: Value,
    /// The configuration of how tokens are chosen.
    infer: Value,
    /// The keys of the workload that change what is computed: `prompt_tokens`, `dtype` and `images`.
    workload: Value,
    /// The `type` of the runtime.
    runtime: Value,
    /// Which outputs are written for each sample.
    output: Value,
    /// All samples of the run.
    samples: SampleDigest,
}

/// How many samples a run has, and what they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct SampleDigest {
    /// Number of samples in the run.
    count: u64,
    /// SHA-256 of the ids and contents of all samples, in order.
    sha256: String,
}

impl DirectRequest {
    /// `samples` are ids and contents of all samples, in order.
    pub fn new<'a>(plan: &Plan, samples: impl Iterator<Item = (&'a str, String)>) -> Self {
        let mut hash = Sha256::new();
        let mut count = 0u64;
        for (id, content) in samples {
            count += 1;
            hash.update(format!("{}:{id}{}:{content}", id.len(), content.len()));
        }
        Self {
            model: json!(plan.model),
            dataset: json!(plan.dataset),
            infer: json!(plan.infer),
            workload: json!({
                "prompt_tokens": plan.workload.prompt_tokens,
                "dtype": plan.workload.dtype,
                "images": plan.workload.images,
            }),
            runtime: json!({ "type": plan.runtime.kind }),
            output: json!(plan.pipeline.direct_inference.output.prediction),
            samples: SampleDigest {
                count,
                sha256: hex_text(&hash.finalize()),
            },
        }
    }

    /// That of an earlier run in the directory, where there is one.
    pub fn load(run: &Path) -> Result<Option<Self>, StoreError> {
        let path = run.join(FILE);
        let text = Folder::open(run).and_then(|folder| folder.read(FILE, JSON_MAX_BYTES));
        let text = match text {
            Ok(text) => text,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(io_error("read", path)(error)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| StoreError::BadManifest {
                path,
                reason: error.to_string(),
            })
    }

    /// Its file name and contents.
    pub fn file(&self) -> (&'static str, String) {
        (FILE, format!("{:#}\n", json!(self)))
    }

    /// The keys whose values differ, dotted.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut keys = Vec::new();
        collect_differences("", &json!(self), &json!(other), &mut keys);
        keys
    }
}

fn collect_differences(key: &str, one: &Value, other: &Value, keys: &mut Vec<String>) {
    let (Value::Object(left), Value::Object(right)) = (one, other) else {
        if one != other {
            keys.push(key.to_owned());
        }
        return;
    };
    let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let inner = if key.is_empty() {
            name.clone()
        } else {
            format!("{key}.{name}")
        };
        let of = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
        collect_differences(&inner, &of(left), &of(right), keys);
    }
}
