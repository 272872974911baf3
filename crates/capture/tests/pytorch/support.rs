//! A worker to talk to, and small models for it.

use std::path::PathBuf;

use llmprof_capture::{
    process::{Interrupt, Launch},
    pytorch::Package,
    runner::{
        Client, Limits, Problem,
        protocol::{
            Failure, Generate, GenerateRequest, Generated, Instruments, Load, LoadOptions, Loaded,
            Prompt, TokenSampling,
        },
    },
};
use llmprof_record::plan::LoadFormat;
use serde_json::{Value, json};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The interpreter, which has what the worker needs.
pub(crate) fn python() -> String {
    let path = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root().join(".venv/bin/python"), PathBuf::from);
    path.to_string_lossy().into_owned()
}

pub(crate) struct Worker {
    client: Option<Client>,
    interrupt: Interrupt,
    pub(crate) folder: tempfile::TempDir,
    _package: Package,
}

impl Worker {
    pub(crate) fn start() -> Self {
        let python = python();
        let package = Package::unpack().unwrap();
        let launch = package.launch_worker(&python);
        Self::launch(package, &launch).unwrap()
    }

    pub(crate) fn launch(package: Package, launch: &Launch) -> Result<Self, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let mut interrupt = Interrupt::install().unwrap();
        let client = Client::start(
            launch,
            folder.path(),
            "worker",
            Limits::default(),
            &mut interrupt,
        );
        Ok(Self {
            client: Some(client.map_err(|error| error.problem)?),
            interrupt,
            folder,
            _package: package,
        })
    }

    pub(crate) fn load(&mut self, load: &Load) -> Result<Loaded, Failure> {
        let client = self.client.as_mut().unwrap();
        client
            .load_model(load, &mut self.interrupt, &mut |_| ())
            .map_err(|error| known(error.problem))
    }

    pub(crate) fn generate(&mut self, batch: &Generate) -> Result<Generated, Failure> {
        let client = self.client.as_mut().unwrap();
        client
            .generate_batch(batch, &mut self.interrupt, &mut |_| ())
            .map_err(|error| known(error.problem))
    }

    pub(crate) fn warm_up(&mut self, batch: &Generate) -> Result<Generated, Failure> {
        let client = self.client.as_mut().unwrap();
        client
            .warm_up(batch, &mut self.interrupt, &mut |_| ())
            .map_err(|error| known(error.problem))
    }

    pub(crate) fn finish(mut self) {
        let ended = self.client.take().unwrap().finish(&mut self.interrupt);
        assert!(ended.unwrap().status.success());
    }
}

/// A failure that the worker reported; anything else ends the test.
fn known(problem: Problem) -> Failure {
    match problem {
        Problem::Failed(failure) => failure,
        other => panic!("{other}"),
    }
}

pub(crate) fn dummy(config: &Value) -> Load {
    Load {
        config: config.as_object().unwrap().clone(),
        path: None,
        tokenizer: None,
        load_format: LoadFormat::Dummy,
        dtype: None,
        weights: None,
        device: "cpu".to_owned(),
        max_batch: 2,
        max_positions: 64,
        threads: Some(1),
        seed: 7,
        options: LoadOptions::default(),
    }
}

pub(crate) fn tiny_qwen2() -> Value {
    json!({
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
        "max_position_embeddings": 128, "tie_word_embeddings": true, "use_sliding_window": false
    })
}

pub(crate) fn batch(prompts: &[&[u32]], new_tokens: u64) -> Generate {
    let requests = prompts
        .iter()
        .enumerate()
        .map(|(index, tokens)| GenerateRequest {
            id: index.to_string(),
            prompt: Prompt::Tokens(tokens.to_vec()),
            max_new_tokens: new_tokens,
            images: Vec::new(),
        });
    Generate {
        requests: requests.collect(),
        sampling: TokenSampling {
            do_sample: false,
            temperature: 1.0,
            no_repeat_ngram_size: 0,
            seed: 3,
        },
        ignore_eos: true,
        max_prompt_tokens: None,
        events: None,
        instruments: Instruments::default(),
    }
}

pub(crate) fn tokens(generated: &Generated) -> Vec<Vec<u32>> {
    let requests = generated.requests.iter();
    requests
        .map(|request| request.output_tokens.clone())
        .collect()
}

pub(crate) fn phases(generated: &Generated) -> Vec<&str> {
    let phases = generated.phases.iter();
    phases.map(|span| span.phase.as_str()).collect()
}
