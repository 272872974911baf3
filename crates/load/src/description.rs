//! A load that is fully described: what is sent, when and where, before any of it is drawn or sent.

use std::{sync::Arc, time::Duration};

use llmprof_record::serving::{AskedLoad, AskedSource};

use crate::{
    arrivals::Arrivals,
    body::RequestTemplate,
    client::{CountTokens, ProbeError, Probed, ReadyLoad, probe_server},
    endpoint::Endpoint,
    plan::{LoadPlan, LoadSource, PromptContent},
    prompt::PromptSource,
    slo::Slo,
};

/// Requests in flight of the warm-up of a load whose own number is not bounded.
const WARM_UP_CONCURRENCY: usize = 4;
/// Tokens of the prompt that asks what a server understands.
const PROBE_TOKENS: u64 = 4;

/// A load and the objectives that it is judged by.
pub struct LoadDescription {
    pub endpoint: Arc<Endpoint>,
    /// What all requests have in common; its model is empty until the server names one.
    pub template: RequestTemplate,
    pub arrivals: Arrivals,
    pub source: LoadSource,
    pub prompts: PromptSource,
    /// Requests; a trace may have fewer.
    pub count: usize,
    /// Requests that are sent first and not measured.
    pub warmup_count: usize,
    /// Time between an answer and the next turn.
    pub think: Duration,
    /// Whether answers go on to their last token.
    pub ignore_eos: bool,
    /// Time a request may take.
    pub timeout: Duration,
    /// Most requests in flight in an open loop.
    pub max_concurrency: Option<usize>,
    /// Number of threads that send requests.
    pub workers: usize,
    pub count_tokens: Option<CountTokens>,
    pub slos: Vec<Slo>,
    /// What is loaded where it is not an endpoint.
    pub instead: Option<&'static str>,
}

impl LoadDescription {
    /// Asks the server which model it serves and what it understands, and keeps the answers.
    pub fn probe_server(&mut self, limit: Duration) -> Result<(), ProbeError> {
        let Probed { model, dialect } = probe_server(
            &self.endpoint,
            &self.template,
            &self.prompts.prompt(u64::MAX, PROBE_TOKENS),
            self.ignore_eos,
            limit,
        )?;
        self.template.model = model;
        self.template.dialect = dialect;
        Ok(())
    }

    /// The requests that are measured.
    pub fn load(&self) -> ReadyLoad {
        self.load_with(&self.arrivals, self.count, self.prompts.seed)
    }

    /// Requests that warm the server up: other prompts than the measured ones, so that none of those is cached.
    pub fn warm_up(&self) -> ReadyLoad {
        let concurrency = match self.arrivals {
            Arrivals::Closed { concurrency } => concurrency,
            _ => WARM_UP_CONCURRENCY,
        };
        let count = self.warmup_count;
        let closed = Arrivals::Closed {
            concurrency: concurrency.min(count),
        };
        self.load_with(&closed, count, self.prompts.seed ^ 0x5eed)
    }

    fn load_with(&self, arrivals: &Arrivals, count: usize, seed: u64) -> ReadyLoad {
        let prompts = PromptSource {
            seed,
            ..self.prompts
        };
        let plan = LoadPlan::draw(&self.source, arrivals, prompts, count, self.think);
        ReadyLoad {
            endpoint: Arc::clone(&self.endpoint),
            template: self.template.clone(),
            plan: Arc::new(plan),
            timeout: self.timeout,
            max_concurrency: self.max_concurrency,
            workers: self.workers,
            count_tokens: self.count_tokens.clone(),
        }
    }

    /// What is asked of the server by this plan, as a fact of the run.
    pub fn asked(&self, plan: &LoadPlan) -> AskedLoad {
        let (source, requests) = match &self.source {
            LoadSource::Synthetic {
                prompt,
                output,
                turns,
            } => {
                let source = AskedSource::Synthetic {
                    prompt: *prompt,
                    output: *output,
                    turns: *turns,
                };
                (source, self.count)
            }
            LoadSource::Trace { requests, speedup } => {
                let source = AskedSource::Trace {
                    requests: requests.len() as u64,
                    speedup: *speedup,
                };
                (source, self.count.min(requests.len()))
            }
            LoadSource::Dataset { conversations, .. } => {
                let conversations = conversations.len() as u64;
                (AskedSource::Dataset { conversations }, self.count)
            }
        };
        AskedLoad {
            endpoint: match self.instead {
                Some(instead) => instead.to_owned(),
                None => self.endpoint.to_string(),
            },
            arrivals: self.arrivals.clone(),
            source,
            requests: requests as u64,
            shared_prefix_share: self.shared_share(plan),
            slos: self.slos.clone(),
        }
    }

    /// Tokens that prompts have in common, as a share of the mean prompt.
    fn shared_share(&self, plan: &LoadPlan) -> f64 {
        let (mut shared, mut total) = (0, 0);
        for request in &plan.requests {
            if let PromptContent::Synthetic(tokens) = request.content {
                shared += tokens.min(self.prompts.shared_prefix);
                total += tokens;
            }
        }
        if total == 0 {
            0.0
        } else {
            shared as f64 / total as f64
        }
    }
}
