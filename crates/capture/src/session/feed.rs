//! What a model is fed: the batches of one pass, made from the dataset before anything starts.

use std::path::PathBuf;

use llmprof_record::plan::Plan;
use llmprof_units::Bytes;

use crate::{
    dataset::{Epochs, Prompts, SampleError},
    runner::protocol::{
        Generate, GenerateRequest, Image, Instruments, MAX_LINE_BYTES, Prompt, TokenSampling,
    },
};

/// Why a model cannot be fed.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("dataset {name}: {source}")]
    Dataset { name: String, source: SampleError },
    #[error("one pass would have {asked} {what}; at most {most} fit")]
    TooLarge {
        asked: u64,
        what: &'static str,
        most: u64,
    },
    #[error("cannot write a batch as JSON: {0}")]
    Json(serde_json::Error),
    #[error(
        "runtime.batch_size={batch}: the prompts of a batch are {length} as a message to the worker, which takes {most}"
    )]
    LongBatch {
        batch: u64,
        length: Bytes,
        most: Bytes,
    },
}

impl FeedError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge { .. } => {
                Some("fewer epochs, samples, prompt tokens or images, or a smaller batch")
            }
            Self::LongBatch { .. } => Some("lower runtime.batch_size or workload.prompt_tokens"),
            Self::Dataset { .. } | Self::Json(_) => None,
        }
    }
}

/// The batches that one pass runs, one after the other.
pub struct Feed {
    batches: Vec<Generate>,
    inputs: Vec<Input>,
    /// Seed of the shuffle, given or drawn.
    shuffle_seed: Option<u64>,
}

/// One prompt, for `inputs.yaml`.
struct Input {
    id: String,
    epoch: usize,
    /// The file, its bytes; absent for a synthetic prompt.
    file: Option<(PathBuf, u64)>,
    /// Its length where it is known before a tokenizer ran.
    tokens: Option<usize>,
}

impl Feed {
    /// Chooses among the prompts as the plan says, and reads them.
    pub fn of(plan: &Plan, prompts: &dyn Prompts) -> Result<Self, FeedError> {
        let failed = |source: SampleError| FeedError::Dataset {
            name: plan.dataset.name.clone(),
            source,
        };
        let epochs = Epochs::new(prompts.len(), &plan.dataset.sampling);
        check_size(plan, epochs.samples_per_epoch())?;
        let shuffle_seed = epochs.seed();
        let batch_size = usize::try_from(plan.workload.batch_size).unwrap_or(usize::MAX);
        let mut feed = Self {
            batches: Vec::new(),
            inputs: Vec::new(),
            shuffle_seed,
        };
        for (epoch, samples) in epochs.enumerate() {
            for numbers in samples.chunks(batch_size.max(1)) {
                let mut requests = Vec::with_capacity(numbers.len());
                for &number in numbers {
                    let sample = prompts.sample(number).map_err(failed)?;
                    let (tokens, bytes) = match &sample.prompt {
                        Prompt::Tokens(tokens) => (Some(tokens.len()), 0),
                        Prompt::Text(text) => (None, text.len() as u64),
                    };
                    let id = match plan.dataset.sampling.num_epochs {
                        1 => sample.id.clone(),
                        _ => format!("{epoch}/{}", sample.id),
                    };
                    feed.inputs.push(Input {
                        id: id.clone(),
                        epoch,
                        file: sample.file.map(|file| (file, bytes)),
                        tokens,
                    });
                    requests.push(GenerateRequest {
                        id,
                        prompt: sample.prompt,
                        max_new_tokens: plan.workload.new_tokens,
                        images: images(plan),
                    });
                }
                let batch = generate(plan, requests);
                check_message(plan, &batch)?;
                feed.batches.push(batch);
            }
        }
        Ok(feed)
    }

    pub fn batches(&self) -> &[Generate] {
        &self.batches
    }

    /// Whether prompts are text.
    pub fn is_text(&self) -> bool {
        self.inputs.iter().any(|input| input.tokens.is_none())
    }

    /// `inputs.yaml`: exactly what was fed in.
    pub fn inputs(&self, plan: &Plan) -> String {
        let path = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or_else(|| "null".to_owned(), |path| quoted(&path.to_string_lossy()))
        };
        let number =
            |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let mut text = format!(
            "dataset: {}\ndataset_root: {}\nsubset_filelist: {}\nseed: {}\nshuffle_seed: {}\ncount: {}\nbatch_size: {}\nmax_prompt_tokens: {}\nnew_tokens: {}\nsamples:\n",
            quoted(&plan.dataset.name),
            path(&plan.dataset.root),
            path(&plan.dataset.subset_filelist),
            number(plan.dataset.sampling.seed),
            number(self.shuffle_seed),
            self.inputs.len(),
            plan.workload.batch_size,
            plan.workload.prompt_tokens,
            plan.workload.new_tokens,
        );
        for input in &self.inputs {
            text += &format!(
                "  - id: {}\n    epoch: {}\n",
                quoted(&input.id),
                input.epoch
            );
            if let Some((file, bytes)) = &input.file {
                text += &format!(
                    "    path: {}\n    bytes: {bytes}\n",
                    quoted(&file.to_string_lossy())
                );
            }
            if let Some(tokens) = input.tokens {
                text += &format!("    tokens: {tokens}\n");
            }
        }
        text
    }
}

/// Most prompts, and most tokens and images of all of them: a pass is held in memory.
const MOST: [(u64, &str); 3] = [
    (1 << 20, "prompts"),
    (1 << 28, "tokens of prompts"),
    (1 << 20, "images"),
];

/// Refuses a pass that would not fit in memory.
fn check_size(plan: &Plan, samples_per_epoch: usize) -> Result<(), FeedError> {
    let epochs = plan.dataset.sampling.num_epochs;
    let prompts = epochs.saturating_mul(samples_per_epoch as u64);
    let tokens = match plan.dataset.root {
        None => prompts.saturating_mul(plan.workload.prompt_tokens),
        Some(_) => 0,
    };
    let images = prompts.saturating_mul(plan.workload.images.count);
    for (asked, (most, what)) in [prompts, tokens, images].into_iter().zip(MOST) {
        if asked > most {
            return Err(FeedError::TooLarge { asked, what, most });
        }
    }
    Ok(())
}

/// Refuses a batch that is more than one message to a worker can hold.
fn check_message(plan: &Plan, batch: &Generate) -> Result<(), FeedError> {
    // What stands around a request in its message.
    const ENVELOPE: usize = 4096;
    let mut length = Length(0);
    serde_json::to_writer(&mut length, batch).map_err(FeedError::Json)?;
    if length.0 + ENVELOPE <= MAX_LINE_BYTES {
        return Ok(());
    }
    Err(FeedError::LongBatch {
        batch: plan.workload.batch_size,
        length: Bytes(length.0 as u64),
        most: Bytes(MAX_LINE_BYTES as u64),
    })
}

/// Counts what is written to it.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn generate(plan: &Plan, requests: Vec<GenerateRequest>) -> Generate {
    Generate {
        requests,
        sampling: TokenSampling {
            do_sample: plan.infer.do_sample,
            temperature: plan.infer.temperature,
            no_repeat_ngram_size: plan.infer.no_repeat_ngram_size,
            seed: plan.dataset.sampling.seed.unwrap_or(0),
        },
        ignore_eos: plan.infer.ignore_eos,
        max_prompt_tokens: Some(plan.workload.prompt_tokens),
        events: None,
        instruments: Instruments::default(),
    }
}

/// The images that come with each request.
fn images(plan: &Plan) -> Vec<Image> {
    let images = &plan.workload.images;
    let image = Image {
        height: images.height,
        width: images.width,
    };
    vec![image; usize::try_from(images.count).unwrap_or(usize::MAX)]
}

/// A YAML string in double quotes; JSON's escapes are YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
