//! What a model is fed: the batches of one pass, made from the dataset before anything starts.

use std::path::PathBuf;

use llmprof_record::{
    plan::Plan,
    predictions::{Skipped, file_names},
};
use llmprof_units::{Bytes, hex_text};
use sha2::{Digest as _, Sha256};

use crate::{
    dataset::{DatasetSample, Epochs, Prompts, SampleError, Unreadable},
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
    #[error("dataset {name}: none of {skipped} samples can be read{}", why.as_ref().map(|why| format!("; the first: {why}")).unwrap_or_default())]
    NothingReadable {
        name: String,
        skipped: usize,
        why: Option<String>,
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
            Self::Dataset { .. } | Self::NothingReadable { .. } | Self::Json(_) => None,
        }
    }
}

/// The batches that one pass runs, one after the other.
pub struct Feed {
    batches: Vec<Generate>,
    inputs: Vec<ListedInput>,
    skipped: Vec<Skipped>,
    files: Vec<Option<PathBuf>>,
    names: Vec<String>,
    /// Seed of the shuffle, given or drawn.
    shuffle_seed: Option<u64>,
}

/// One prompt as `inputs.yaml` lists it.
struct ListedInput {
    id: String,
    epoch: usize,
    /// The file, its bytes; absent for a synthetic prompt.
    file: Option<(PathBuf, u64)>,
    /// Its length where it is known before a tokenizer ran.
    tokens: Option<usize>,
    /// Width and height of its image.
    image: Option<(u64, u64)>,
    /// SHA-256 of its text, or of its token ids as 4 bytes each, the lowest first.
    sha256: String,
}

impl Feed {
    /// Chooses among the prompts as the plan says, and reads them.
    pub fn from_plan(plan: &Plan, prompts: &dyn Prompts) -> Result<Self, FeedError> {
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
            skipped: Vec::new(),
            files: Vec::new(),
            names: Vec::new(),
            shuffle_seed,
        };
        for (epoch, samples) in epochs.enumerate() {
            let mut requests = Vec::new();
            for number in samples {
                let sample = match prompts.read_sample(number) {
                    Ok(sample) => sample,
                    Err(error) => {
                        let unreadable = error.downcast::<Unreadable>().map_err(failed)?;
                        feed.skipped.push(Skipped {
                            id: unreadable.id,
                            file: Some(unreadable.file),
                            why: unreadable.why,
                        });
                        continue;
                    }
                };
                let image = sample.image.as_ref().map(|image| &image.path);
                let mut paths = sample.file.iter().chain(image);
                if let Some(path) = paths.find(|path| path.to_str().is_none()) {
                    // Workers and records are told of files in JSON.
                    feed.skipped.push(Skipped {
                        file: Some(path.clone()),
                        id: sample.id,
                        why: "its path is not UTF-8".to_owned(),
                    });
                    continue;
                }
                requests.push(feed.new_request(plan, epoch, sample));
            }
            for requests in requests.chunks(batch_size.max(1)) {
                let batch = generate_request(plan, requests.to_vec());
                check_message(plan, &batch)?;
                feed.batches.push(batch);
            }
        }
        if feed.inputs.is_empty() {
            return Err(FeedError::NothingReadable {
                name: plan.dataset.name.clone(),
                skipped: feed.skipped.len(),
                why: feed.skipped.first().map(|one| one.why.clone()),
            });
        }
        let inputs = &feed.inputs;
        feed.names = file_names(inputs.iter().map(|input| input.id.as_str()));
        let files = inputs.iter().map(|input| input.file.as_ref());
        feed.files = files
            .map(|file| file.map(|(file, _)| file.clone()))
            .collect();
        Ok(feed)
    }

    fn new_request(&mut self, plan: &Plan, epoch: usize, sample: DatasetSample) -> GenerateRequest {
        let (tokens, bytes) = match &sample.prompt {
            Prompt::Tokens(tokens) => (Some(tokens.len()), 0),
            Prompt::Text(text) => (None, text.len() as u64),
        };
        let id = match plan.dataset.sampling.num_epochs {
            1 => sample.id.clone(),
            _ => format!("{epoch}/{}", sample.id),
        };
        let bytes = sample.image.as_ref().map_or(bytes, |image| image.bytes);
        let size = |image: &crate::dataset::ImageFile| (image.width, image.height);
        self.inputs.push(ListedInput {
            id: id.clone(),
            epoch,
            file: sample.file.map(|file| (file, bytes)),
            tokens,
            image: sample.image.as_ref().map(size),
            sha256: hash(&sample.prompt),
        });
        let shown = sample.image.map(|image| Image {
            height: image.height,
            width: image.width,
            path: Some(image.path),
        });
        GenerateRequest {
            id,
            prompt: sample.prompt,
            max_new_tokens: plan.workload.new_tokens,
            images: shown.map_or_else(|| plan_images(plan), |image| vec![image]),
        }
    }

    /// Samples that cannot be read and are left out.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The file that each sample is from, in their order.
    pub fn files(&self) -> &[Option<PathBuf>] {
        &self.files
    }

    /// The name of each sample's files, in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The id and all that is asked of each sample, in their order.
    pub fn samples(&self) -> impl Iterator<Item = (&str, String)> {
        let requests = self.batches.iter().flat_map(|batch| &batch.requests);
        requests.map(|request| {
            let asked = serde_json::to_string(request).expect("a request has only string keys");
            (request.id.as_str(), asked)
        })
    }

    pub fn batches(&self) -> &[Generate] {
        &self.batches
    }

    pub fn is_text(&self) -> bool {
        self.inputs.iter().any(|input| input.tokens.is_none())
    }

    /// Width and height of the first image of the dataset, where it has images.
    pub fn first_image_size(&self) -> Option<(u64, u64)> {
        self.inputs.first()?.image
    }

    /// `inputs.yaml`: exactly what was fed in.
    pub fn render_inputs(&self, plan: &Plan) -> String {
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(
                || "null".to_owned(),
                |path| yaml_quoted(&path.to_string_lossy()),
            )
        };
        let number =
            |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let mut text = format!(
            "dataset: {}\ndataset_root: {}\nsubset_filelist: {}\nseed: {}\nshuffle_seed: {}\ncount: {}\nbatch_size: {}\nmax_prompt_tokens: {}\nnew_tokens: {}\nsamples:\n",
            yaml_quoted(&plan.dataset.name),
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
                yaml_quoted(&input.id),
                input.epoch
            );
            if let Some((file, bytes)) = &input.file {
                text += &format!(
                    "    path: {}\n    bytes: {bytes}\n",
                    yaml_quoted(&file.to_string_lossy())
                );
            }
            if let Some((width, height)) = input.image {
                text += &format!("    width: {width}\n    height: {height}\n");
            }
            if let Some(tokens) = input.tokens {
                text += &format!("    tokens: {tokens}\n");
            }
            text += &format!("    prompt_sha256: {}\n", input.sha256);
        }
        text
    }
}

/// Most prompts, and most tokens and images of all of them: a pass is held in memory.
const PASS_LIMITS: [(u64, &str); 3] = [
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
    for (asked, (most, what)) in [prompts, tokens, images].into_iter().zip(PASS_LIMITS) {
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
    let mut length = LengthCounter(0);
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
struct LengthCounter(usize);

impl std::io::Write for LengthCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hash(prompt: &Prompt) -> String {
    let mut hash = Sha256::new();
    match prompt {
        Prompt::Text(text) => hash.update(text),
        Prompt::Tokens(tokens) => {
            for token in tokens {
                hash.update(token.to_le_bytes());
            }
        }
    }
    hex_text(&hash.finalize())
}

fn generate_request(plan: &Plan, requests: Vec<GenerateRequest>) -> Generate {
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
fn plan_images(plan: &Plan) -> Vec<Image> {
    let images = &plan.workload.images;
    let image = Image {
        height: images.height,
        width: images.width,
        path: None,
    };
    vec![image; usize::try_from(images.count).unwrap_or(usize::MAX)]
}

/// A YAML string in double quotes; JSON's escapes are YAML's.
fn yaml_quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
