//! One batch on the engine: from a request of the protocol to its answer.

use std::{fs::File, path::Path};

use llmprof_engine::{
    GenerationOptions, KvCache, NativeEngine, Recorder, SamplingOptions, TokenSampler,
    generate_tokens, now_ns,
};
use llmprof_record::{
    import::engine,
    issue::{Issue, IssueCode},
};
use llmprof_units::{Count, Nanos};

use super::{Ready, events, to_failure};
use crate::runner::protocol::{
    EventsFile, Failure, FailureKind, Finish, Generate, GenerateRequest, Generated, HostSpan,
    Instruments, PhaseSpan, Progress, Prompt, RequestResult,
};

/// Events that are kept for one batch: 56 bytes each.
const EVENTS_MAX: usize = 8_000_000;

impl Ready {
    pub(super) fn generate_batch(
        &mut self,
        batch: &Generate,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Generated, Failure> {
        check_supported(batch)?;
        let start = now_ns();
        let mut issues = Vec::new();
        let (prompts, cut) = self.tokenize_prompts(batch, &mut issues)?;
        let mut timing = Timing {
            start,
            tokenized: now_ns(),
            steps: Vec::new(),
        };
        let max_new_tokens = self.check_size(batch, prompts.len())?;
        let mut recorder = new_recorder(batch, &self.engine, max_new_tokens);
        let mut sampler =
            TokenSampler::new(sampling_of(batch)).map_err(|error| to_failure(&error))?;
        let generation = GenerationOptions {
            max_new_tokens,
            chunk: None,
            stop: if batch.ignore_eos {
                &[]
            } else {
                &self.end_tokens
            },
        };
        let cache = fitting_cache(
            &mut self.cache,
            &self.engine,
            prompts.len(),
            self.max_positions,
        )?;
        timing.steps.reserve(max_new_tokens);
        let generated = generate_tokens(
            &self.engine,
            cache,
            &prompts,
            &generation,
            &mut sampler,
            &mut recorder,
            |step| {
                timing.steps.push((step.sampling_ns, step.end_ns));
                progress(Progress {
                    done: step.index as u64 + 1,
                    total: max_new_tokens as u64,
                });
            },
        )
        .map_err(|error| to_failure(&error))?;
        let has_text = batch
            .requests
            .iter()
            .any(|request| matches!(request.prompt, Prompt::Text(_)));
        let host = timing.host_spans(has_text);
        let phases = timing.phase_spans();
        let events = batch
            .events
            .as_ref()
            .map(|path| self.write_events(path, &recorder, &phases, &host))
            .transpose()?;
        let requests = batch.requests.iter().zip(prompts.iter().zip(cut));
        let requests = requests
            .zip(generated.tokens)
            .map(|((request, (prompt, cut)), tokens)| {
                self.request_result(batch, (request, prompt, cut), tokens, &timing)
            })
            .collect();
        Ok(Generated {
            start_ns: to_nanos(start),
            end_ns: to_nanos(timing.end_time()),
            requests,
            phases,
            host: if events.is_some() { host } else { Vec::new() },
            events,
            device_token_ns: Vec::new(),
            memory: None,
            issues,
        })
    }

    /// How many tokens every request asks for, where the batch is one that was announced.
    fn check_size(&self, batch: &Generate, requests: usize) -> Result<usize, Failure> {
        let bad = |message: String| Failure::new(FailureKind::BadRequest, message);
        let wanted = || batch.requests.iter().map(|request| request.max_new_tokens);
        let most = wanted().max().unwrap_or(0);
        if wanted().any(|tokens| tokens != most) {
            return Err(bad(
                "all requests of a batch must ask for as many tokens".to_owned()
            ));
        }
        if requests > self.max_batch {
            return Err(bad(format!(
                "{}, but at most {} were announced",
                Count(requests as u64, "request"),
                self.max_batch
            )));
        }
        usize::try_from(most).map_err(|_| bad("too many tokens".to_owned()))
    }

    fn request_result(
        &self,
        batch: &Generate,
        (request, prompt, cut): (&GenerateRequest, &[u32], u64),
        tokens: Vec<u32>,
        timing: &Timing,
    ) -> RequestResult {
        let ends = |token: &u32| !batch.ignore_eos && self.end_tokens.contains(token);
        let is_stopped =
            (tokens.len() as u64) < request.max_new_tokens || tokens.last().is_some_and(ends);
        let decoded = self.tokenizer.as_ref();
        let decoded = decoded.and_then(|tokenizer| tokenizer.decode_ids(&tokens));
        let (text, raw_text) = decoded.map_or((None, None), |(text, raw)| {
            let differs = raw != text;
            (Some(text), differs.then_some(raw))
        });
        RequestResult {
            id: request.id.clone(),
            text,
            raw_text,
            cut_prompt_tokens: cut,
            decoder_prompt_tokens: None,
            images: Vec::new(),
            finish: if is_stopped {
                Finish::Stop
            } else {
                Finish::Length
            },
            prompt_tokens: prompt.len() as u64,
            start_ns: to_nanos(timing.start),
            token_ns: timing
                .token_times()
                .take(tokens.len())
                .map(to_nanos)
                .collect(),
            output_tokens: tokens,
        }
    }

    fn write_events(
        &self,
        path: &Path,
        recorder: &Recorder,
        phases: &[PhaseSpan],
        host: &[HostSpan],
    ) -> Result<EventsFile, Failure> {
        let written = File::create(path).and_then(|mut file| {
            events::write_events(&mut file, self.engine.operators(), recorder, phases, host)
        });
        written.map_err(|error| {
            Failure::new(
                FailureKind::Internal,
                format!("cannot write {}: {error}", path.display()),
            )
        })?;
        Ok(EventsFile {
            path: path.to_owned(),
            format: engine::FORMAT.to_owned(),
            events: recorder.events().len() as u64,
        })
    }

    /// The token ids of each prompt, cut to what was asked for and to one length, and how many were cut of each.
    ///
    /// Theory counts batches of equal prompts: longer ones lose their end, which is reported.
    fn tokenize_prompts(
        &self,
        batch: &Generate,
        issues: &mut Vec<Issue>,
    ) -> Result<(Vec<Vec<u32>>, Vec<u64>), Failure> {
        let mut prompts = Vec::with_capacity(batch.requests.len());
        let mut lengths = Vec::with_capacity(batch.requests.len());
        for request in &batch.requests {
            let mut tokens = match (&request.prompt, &self.tokenizer) {
                (Prompt::Tokens(tokens), _) => tokens.clone(),
                (Prompt::Text(text), Some(tokenizer)) => {
                    tokenizer.encode_prompt(text, &request.id)?
                }
                (Prompt::Text(_), None) => {
                    return Err(Failure::new(
                        FailureKind::BadRequest,
                        "the model has no tokenizer, so prompts must be token ids",
                    )
                    .with_hint("model.tokenizer=DIR with a tokenizer.json, or dataset=synthetic"));
                }
            };
            lengths.push(tokens.len());
            if let Some(most) = batch.max_prompt_tokens {
                tokens.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            }
            prompts.push(tokens);
        }
        let shortest = prompts.iter().map(Vec::len).min().unwrap_or(0);
        let longer = prompts.iter().filter(|prompt| prompt.len() > shortest);
        let (count, cut) = longer.fold((0_u64, 0), |(count, cut), prompt| {
            (count + 1, cut + (prompt.len() - shortest) as u64)
        });
        if count > 0 {
            issues.push(
                Issue::info(IssueCode::NativePromptsCut)
                    .with("prompts", count)
                    .with("tokens", shortest)
                    .counting(cut),
            );
        }
        for prompt in &mut prompts {
            prompt.truncate(shortest);
        }
        let cut = lengths.iter().map(|length| (length - shortest) as u64);
        Ok((prompts, cut.collect()))
    }
}

fn check_supported(batch: &Generate) -> Result<(), Failure> {
    let unsupported = |message: &str| Err(Failure::new(FailureKind::Unsupported, message));
    if batch.instruments != Instruments::default() {
        return unsupported("the native runtime records operators and nothing else");
    }
    let mut requests = batch.requests.iter();
    if requests.any(|request| !request.images.is_empty()) {
        return unsupported("the native runtime runs text models only");
    }
    Ok(())
}

/// The cache of the batch before where it fits, else a new one.
fn fitting_cache<'c>(
    place: &'c mut Option<KvCache>,
    engine: &NativeEngine,
    batch: usize,
    max_positions: usize,
) -> Result<&'c mut KvCache, Failure> {
    let cache = match place.take().filter(|cache| cache.sequence_count() == batch) {
        Some(mut cache) => {
            cache.clear_tokens();
            cache
        }
        None => engine
            .new_cache(batch, max_positions)
            .map_err(|error| to_failure(&error))?,
    };
    Ok(place.insert(cache))
}

fn new_recorder(batch: &Generate, engine: &NativeEngine, max_new_tokens: usize) -> Recorder {
    match batch.events {
        Some(_) => {
            let wanted = engine.events_per_step().saturating_mul(max_new_tokens + 1);
            Recorder::with_capacity(wanted.min(EVENTS_MAX))
        }
        None => Recorder::off(),
    }
}

fn sampling_of(batch: &Generate) -> SamplingOptions {
    let sampling = &batch.sampling;
    SamplingOptions {
        temperature: sampling.do_sample.then_some(sampling.temperature),
        no_repeat_ngram_size: usize::try_from(sampling.no_repeat_ngram_size).unwrap_or(usize::MAX),
        seed: sampling.seed,
    }
}

/// When a batch was taken up and what its steps did, ns.
struct Timing {
    start: u64,
    /// When prompts were token ids.
    tokenized: u64,
    /// Of each step: when sampling began, and when the token was there.
    steps: Vec<(u64, u64)>,
}

impl Timing {
    /// When each token was there.
    fn token_times(&self) -> impl Iterator<Item = u64> {
        self.steps.iter().map(|&(_, end)| end)
    }

    fn end_time(&self) -> u64 {
        self.token_times().last().unwrap_or(self.start)
    }

    fn phase_spans(&self) -> Vec<PhaseSpan> {
        let prefill_end = self.token_times().next().unwrap_or(self.start);
        let mut phases = vec![phase_span("prefill", self.start, prefill_end)];
        if self.end_time() > prefill_end {
            phases.push(phase_span("decode", prefill_end, self.end_time()));
        }
        phases
    }

    /// What the host did besides the model.
    fn host_spans(&self, has_text: bool) -> Vec<HostSpan> {
        let tokenizer = has_text.then(|| host_span("tokenizer", self.start, self.tokenized));
        let sampling = self.steps.iter();
        let sampling = sampling.map(|&(from, to)| host_span("sampling", from, to));
        tokenizer.into_iter().chain(sampling).collect()
    }
}

fn phase_span(name: &str, start: u64, end: u64) -> PhaseSpan {
    PhaseSpan {
        phase: name.to_owned(),
        start_ns: to_nanos(start),
        end_ns: to_nanos(end),
    }
}

fn host_span(name: &str, start: u64, end: u64) -> HostSpan {
    HostSpan {
        name: name.to_owned(),
        start_ns: to_nanos(start),
        end_ns: to_nanos(end),
    }
}

pub(super) fn to_nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}
