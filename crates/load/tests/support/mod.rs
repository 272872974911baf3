//! Loads against the stub.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]
#![allow(dead_code, reason = "each test file uses some of it")]

use std::{sync::Arc, time::Duration};

use llmprof_load::{
    arrivals::Arrivals,
    body::{Dialect, RequestTemplate},
    client::{ReadyLoad, drive_load},
    endpoint::{Api, Endpoint},
    lengths::Lengths,
    plan::{LoadPlan, LoadSource},
    prompt::PromptSource,
    record::LoadRecord,
};

pub(crate) const PROMPTS: PromptSource = PromptSource {
    as_tokens: true,
    vocabulary: 32_000,
    shared_prefix: 0,
    seed: 11,
};

pub(crate) fn load(url: &str, arrivals: &Arrivals, count: usize, output: u64) -> ReadyLoad {
    let source = LoadSource::Synthetic {
        prompt: Lengths::Fixed { tokens: 16 },
        output: Lengths::Fixed { tokens: output },
        turns: 1,
    };
    let endpoint = Arc::new(Endpoint::parse(url).unwrap());
    ReadyLoad {
        template: RequestTemplate {
            api: endpoint.api,
            model: "stub".to_owned(),
            stream: true,
            dialect: Dialect::all(true)[0],
            extra: serde_json::Map::new(),
        },
        endpoint,
        plan: Arc::new(LoadPlan::draw(
            &source,
            arrivals,
            PROMPTS,
            count,
            Duration::ZERO,
        )),
        timeout: Duration::from_secs(20),
        max_concurrency: None,
        workers: 1,
        count_tokens: None,
    }
}

pub(crate) fn chat(load: &mut ReadyLoad) {
    load.template.api = Api::Chat;
    let mut endpoint = (*load.endpoint).clone();
    endpoint.api = Api::Chat;
    load.endpoint = Arc::new(endpoint);
}

pub(crate) fn run(load: &ReadyLoad) -> LoadRecord {
    drive_load(load, |_, _| true).unwrap()
}
