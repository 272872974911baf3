//! The native runtime: llmprof's own engine on the CPU, as a worker like any other.

mod events;
mod generation;
mod lengths;
mod text;

use std::collections::BTreeMap;

use llmprof_engine::{EngineError, EngineOptions, KvCache, NativeEngine, WeightSource, now_ns};
use llmprof_record::plan::LoadFormat;
use llmprof_theory::{Model, Precision};
use llmprof_units::{Bytes, DType};
use serde_json::Value;

pub(crate) use self::lengths::{Numbered, equal_lengths};
use self::{
    generation::to_nanos,
    text::{TextTokenizer, end_tokens},
};
use crate::runner::{
    Backend,
    protocol::{Failure, FailureKind, Generate, Generated, Load, LoadOptions, Loaded, Progress},
};

/// The engine behind the worker protocol.
#[derive(Default)]
pub struct NativeBackend {
    ready: Option<Ready>,
}

struct Ready {
    engine: NativeEngine,
    cache: Option<KvCache>,
    max_batch: usize,
    max_positions: usize,
    tokenizer: Option<TextTokenizer>,
    end_tokens: Vec<u32>,
}

impl Backend for NativeBackend {
    fn runtime_version(&self) -> (String, String) {
        ("native".to_owned(), env!("CARGO_PKG_VERSION").to_owned())
    }

    fn load_model(
        &mut self,
        load: Load,
        _progress: &mut dyn FnMut(Progress),
    ) -> Result<Loaded, Failure> {
        let start = now_ns();
        if load.device != "cpu" {
            return Err(Failure::new(
                FailureKind::Unsupported,
                format!("the native runtime runs on the CPU, not on {}", load.device),
            ));
        }
        if load.options != LoadOptions::default() {
            return Err(Failure::new(
                FailureKind::Unsupported,
                "the native runtime has one way to execute a model",
            ));
        }
        let tokenizer =
            TextTokenizer::find_tokenizer(load.tokenizer.as_deref(), load.path.as_deref())?;
        let end_tokens = end_tokens(&load.config);
        let source = match (load.load_format, load.path) {
            (LoadFormat::Pt, _) => {
                return Err(Failure::new(
                    FailureKind::Unsupported,
                    "the native runtime reads .safetensors files",
                ));
            }
            (LoadFormat::Dummy, _) => WeightSource::Dummy { seed: load.seed },
            (LoadFormat::Safetensors, Some(path)) => WeightSource::Directory(path),
            (LoadFormat::Safetensors, None) => {
                return Err(Failure::new(
                    FailureKind::BadRequest,
                    "there is no directory to load weights from",
                ));
            }
        };
        let model = Model::from_config(&Value::Object(load.config), None)
            .map_err(|error| Failure::new(FailureKind::Model, error.to_string()))?;
        let options = EngineOptions {
            weights: load.dtype,
            quantized: load.weights,
            threads: load.threads.map(|threads| threads as usize),
        };
        let engine =
            NativeEngine::load(&model, &source, options).map_err(|error| to_failure(&error))?;
        let precision = engine.theory_precision();
        let loaded = Loaded {
            start_ns: to_nanos(start),
            end_ns: to_nanos(now_ns()),
            dtype: precision.activations.unwrap_or(DType::F32),
            parameters: model.parameter_count(),
            weight_bytes: Bytes(model.parameter_bytes(&precision)),
            vocab_size: u32::try_from(engine.vocabulary_size()).unwrap_or(u32::MAX),
            threads: u32::try_from(engine.thread_count()).ok(),
            tokenizer: tokenizer.is_some(),
            facts: engine_facts(&engine),
            packages: std::collections::BTreeMap::new(),
            issues: Vec::new(),
        };
        self.ready = Some(Ready {
            engine,
            cache: None,
            max_batch: usize::try_from(load.max_batch).unwrap_or(usize::MAX),
            max_positions: usize::try_from(load.max_positions).unwrap_or(usize::MAX),
            tokenizer,
            end_tokens,
        });
        Ok(loaded)
    }

    fn generate_batch(
        &mut self,
        batch: Generate,
        _warm_up: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        let Some(ready) = &mut self.ready else {
            return Err(Failure::new(FailureKind::Protocol, "no model is loaded"));
        };
        ready.generate_batch(&batch, progress)
    }
}

/// What a reader of the run must know: the instructions in use, and the number formats that theory must assume.
fn engine_facts(engine: &NativeEngine) -> BTreeMap<String, String> {
    let precision = engine.theory_precision();
    let mut facts = BTreeMap::from([(
        "instructions".to_owned(),
        engine.instruction_set().to_owned(),
    )]);
    if let Ok(Value::Object(formats)) = serde_json::to_value(precision) {
        for (name, format) in formats {
            if let Value::String(format) = format {
                facts.insert(format!("precision.{name}"), format);
            }
        }
    }
    facts
}

/// The number formats among the facts of a loaded model.
pub fn precision_from(facts: &BTreeMap<String, String>) -> Precision {
    let formats = facts
        .iter()
        .filter_map(|(name, format)| {
            Some((
                name.strip_prefix("precision.")?.to_owned(),
                Value::String(format.clone()),
            ))
        })
        .collect();
    serde_json::from_value(Value::Object(formats)).unwrap_or_default()
}

fn to_failure(error: &EngineError) -> Failure {
    Failure::new(FailureKind::Model, error.to_string())
}
