//! The native runtime: llmprof's own engine on the CPU, as a worker like any other.

mod events;
mod text;

use std::{collections::BTreeMap, fs::File};

use llmprof_engine::{
    Cache, Engine, EngineError, Generation, Options, Recorder, Sampler, Sampling, Source, generate,
    now_ns,
};
use llmprof_record::{
    import::engine,
    issue::{Issue, Severity},
    plan::LoadFormat,
};
use llmprof_theory::{Model, Precision};
use llmprof_units::{Bytes, Count, DType, Nanos};
use serde_json::Value;

use self::text::{TextTokenizer, end_tokens};
use crate::runner::{
    Backend,
    protocol::{
        EventsFile, Failure, FailureKind, Finish, Generate, GenerateRequest, Generated, HostSpan,
        Instruments, Load, LoadOptions, Loaded, PhaseSpan, Progress, Prompt, RequestResult,
    },
};

/// Events that are kept for one batch: 56 bytes each.
const MOST_EVENTS: usize = 8_000_000;

/// The engine behind the worker protocol.
#[derive(Default)]
pub struct NativeBackend {
    ready: Option<Ready>,
}

struct Ready {
    engine: Engine,
    cache: Option<Cache>,
    max_batch: usize,
    max_positions: usize,
    tokenizer: Option<TextTokenizer>,
    end_tokens: Vec<u32>,
}

impl Backend for NativeBackend {
    fn runtime(&self) -> (String, String) {
        ("native".to_owned(), env!("CARGO_PKG_VERSION").to_owned())
    }

    fn load(&mut self, load: Load, _progress: &mut dyn FnMut(Progress)) -> Result<Loaded, Failure> {
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
        let tokenizer = TextTokenizer::find(load.tokenizer.as_deref(), load.path.as_deref())?;
        let end_tokens = end_tokens(&load.config);
        let source = match (load.load_format, load.path) {
            (LoadFormat::Dummy, _) => Source::Dummy { seed: load.seed },
            (LoadFormat::Safetensors, Some(path)) => Source::Directory(path),
            (LoadFormat::Safetensors, None) => {
                return Err(Failure::new(
                    FailureKind::BadRequest,
                    "there is no directory to load weights from",
                ));
            }
        };
        let model = Model::from_config(&Value::Object(load.config), None)
            .map_err(|error| Failure::new(FailureKind::Model, error.to_string()))?;
        let options = Options {
            weights: load.dtype,
            threads: load.threads.map(|threads| threads as usize),
        };
        let engine = Engine::load(&model, &source, options).map_err(|error| failure(&error))?;
        let precision = engine.precision();
        let loaded = Loaded {
            start_ns: nanos(start),
            end_ns: nanos(now_ns()),
            dtype: precision.activations.unwrap_or(DType::F32),
            parameters: model.parameters(),
            weight_bytes: Bytes(model.parameter_bytes(&precision)),
            vocab_size: u32::try_from(engine.vocabulary()).unwrap_or(u32::MAX),
            threads: u32::try_from(engine.threads()).ok(),
            tokenizer: tokenizer.is_some(),
            facts: facts(&engine),
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

    fn generate(
        &mut self,
        batch: Generate,
        _warm_up: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        let Some(ready) = &mut self.ready else {
            return Err(Failure::new(FailureKind::Protocol, "no model is loaded"));
        };
        ready.generate(&batch, progress)
    }
}

impl Ready {
    fn generate(
        &mut self,
        batch: &Generate,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        let bad = |message: String| Failure::new(FailureKind::BadRequest, message);
        if batch.instruments != Instruments::default() {
            return Err(Failure::new(
                FailureKind::Unsupported,
                "the native runtime records operators and nothing else",
            ));
        }
        if batch
            .requests
            .iter()
            .any(|request| !request.images.is_empty())
        {
            return Err(Failure::new(
                FailureKind::Unsupported,
                "the native runtime runs text models only",
            ));
        }
        let start = now_ns();
        let mut host = Vec::new();
        let mut issues = Vec::new();
        let prompts = self.prompts(batch, &mut issues)?;
        let with_text = |request: &GenerateRequest| matches!(request.prompt, Prompt::Text(_));
        if batch.requests.iter().any(with_text) {
            host.push(host_span("tokenizer", start, now_ns()));
        }
        let new_tokens = batch
            .requests
            .iter()
            .map(|request| request.max_new_tokens)
            .max()
            .unwrap_or(0);
        if batch
            .requests
            .iter()
            .any(|request| request.max_new_tokens != new_tokens)
        {
            return Err(bad(
                "all requests of a batch must ask for as many tokens".to_owned()
            ));
        }
        if prompts.len() > self.max_batch {
            return Err(bad(format!(
                "{}, but at most {} were announced",
                Count(prompts.len() as u64, "request"),
                self.max_batch
            )));
        }
        let max_new_tokens =
            usize::try_from(new_tokens).map_err(|_| bad("too many tokens".to_owned()))?;
        let cache = match &mut self.cache {
            Some(cache) if cache.batch() == prompts.len() => {
                cache.clear();
                cache
            }
            place => {
                let cache = self.engine.new_cache(prompts.len(), self.max_positions);
                place.insert(cache.map_err(|error| failure(&error))?)
            }
        };
        let mut recorder = match batch.events {
            Some(_) => {
                let wanted = self
                    .engine
                    .events_per_step()
                    .saturating_mul(max_new_tokens + 1);
                Recorder::with_capacity(wanted.min(MOST_EVENTS))
            }
            None => Recorder::off(),
        };
        let mut sampler = Sampler::new(Sampling {
            temperature: batch
                .sampling
                .do_sample
                .then_some(batch.sampling.temperature),
            no_repeat_ngram_size: usize::try_from(batch.sampling.no_repeat_ngram_size)
                .unwrap_or(usize::MAX),
            seed: batch.sampling.seed,
        })
        .map_err(|error| failure(&error))?;
        let generation = Generation {
            max_new_tokens,
            chunk: None,
            stop: if batch.ignore_eos {
                &[]
            } else {
                &self.end_tokens
            },
        };
        let mut times: Vec<(u64, u64)> = Vec::with_capacity(max_new_tokens);
        let generated = generate(
            &self.engine,
            cache,
            &prompts,
            &generation,
            &mut sampler,
            &mut recorder,
            |step| {
                times.push((step.sampling_ns, step.end_ns));
                progress(Progress {
                    done: step.index as u64 + 1,
                    total: new_tokens,
                });
            },
        )
        .map_err(|error| failure(&error))?;
        let end = times.last().map_or(start, |&(_, end)| end);
        let prefill_end = times.first().map_or(end, |&(_, end)| end);
        let mut phases = vec![phase("prefill", start, prefill_end)];
        if end > prefill_end {
            phases.push(phase("decode", prefill_end, end));
        }
        if batch.events.is_some() {
            let sampling = times.iter();
            host.extend(sampling.map(|&(from, to)| host_span("sampling", from, to)));
        } else {
            host.clear();
        }
        let requests = batch.requests.iter().zip(&prompts).zip(generated.tokens);
        let requests = requests
            .map(|((request, prompt), tokens)| RequestResult {
                text: self
                    .tokenizer
                    .as_ref()
                    .and_then(|tokenizer| tokenizer.decode(&tokens)),
                finish: if tokens.len() < max_new_tokens
                    || (!batch.ignore_eos
                        && tokens
                            .last()
                            .is_some_and(|last| self.end_tokens.contains(last)))
                {
                    Finish::Stop
                } else {
                    Finish::Length
                },
                id: request.id.clone(),
                prompt_tokens: prompt.len() as u64,
                start_ns: nanos(start),
                token_ns: times
                    .iter()
                    .take(tokens.len())
                    .map(|&(_, end)| nanos(end))
                    .collect(),
                output_tokens: tokens,
            })
            .collect();
        let events = match &batch.events {
            Some(path) => {
                let written = File::create(path).and_then(|mut file| {
                    events::write(
                        &mut file,
                        self.engine.operators(),
                        &recorder,
                        &phases,
                        &host,
                    )
                });
                written.map_err(|error| {
                    Failure::new(
                        FailureKind::Internal,
                        format!("cannot write {}: {error}", path.display()),
                    )
                })?;
                Some(EventsFile {
                    path: path.clone(),
                    format: engine::FORMAT.to_owned(),
                    events: recorder.events().len() as u64,
                })
            }
            None => None,
        };
        Ok(Generated {
            start_ns: nanos(start),
            end_ns: nanos(end),
            requests,
            phases,
            host,
            events,
            device_token_ns: Vec::new(),
            memory: None,
            issues,
        })
    }

    /// The token ids of each prompt, cut to what was asked for and to one length.
    ///
    /// Theory counts batches of equal prompts: longer ones lose their end, which is told.
    fn prompts(&self, batch: &Generate, issues: &mut Vec<Issue>) -> Result<Vec<Vec<u32>>, Failure> {
        let mut prompts = Vec::with_capacity(batch.requests.len());
        for request in &batch.requests {
            let mut tokens = match (&request.prompt, &self.tokenizer) {
                (Prompt::Tokens(tokens), _) => tokens.clone(),
                (Prompt::Text(text), Some(tokenizer)) => tokenizer.encode(text, &request.id)?,
                (Prompt::Text(_), None) => {
                    return Err(Failure::new(
                        FailureKind::BadRequest,
                        "the model has no tokenizer, so prompts must be token ids",
                    )
                    .with_hint("model.tokenizer=DIR with a tokenizer.json, or dataset=synthetic"));
                }
            };
            if let Some(most) = batch.max_prompt_tokens {
                tokens.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            }
            prompts.push(tokens);
        }
        let shortest = prompts.iter().map(Vec::len).min().unwrap_or(0);
        let longer = prompts.iter().filter(|prompt| prompt.len() > shortest);
        let (count, lost) = longer.fold((0, 0), |(count, lost), prompt| {
            (count + 1, lost + (prompt.len() - shortest) as u64)
        });
        if count > 0 {
            issues.push(
                Issue::new(
                    Severity::Info,
                    "native.prompts_cut",
                    format!(
                        "{} had to be cut to {}, the shortest of their batch: a batch has prompts of one length",
                        Count(count, "prompt"),
                        Count(shortest as u64, "token")
                    ),
                )
                .counting(lost)
                .with_hint("runtime.batch_size=1 keeps prompts whole"),
            );
        }
        for prompt in &mut prompts {
            prompt.truncate(shortest);
        }
        Ok(prompts)
    }
}

/// What a reader of the run must know: the instructions in use, and the number formats that theory must assume.
fn facts(engine: &Engine) -> BTreeMap<String, String> {
    let precision = engine.precision();
    let mut facts = BTreeMap::from([("instructions".to_owned(), engine.instructions().to_owned())]);
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
pub fn precision(facts: &BTreeMap<String, String>) -> Precision {
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

fn phase(name: &str, start: u64, end: u64) -> PhaseSpan {
    PhaseSpan {
        phase: name.to_owned(),
        start_ns: nanos(start),
        end_ns: nanos(end),
    }
}

fn host_span(name: &str, start: u64, end: u64) -> HostSpan {
    HostSpan {
        name: name.to_owned(),
        start_ns: nanos(start),
        end_ns: nanos(end),
    }
}

fn nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

fn failure(error: &EngineError) -> Failure {
    Failure::new(FailureKind::Model, error.to_string())
}
