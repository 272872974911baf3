//! What a model is fed: the batches of one pass, made from the dataset before anything starts.

use std::path::{Path, PathBuf};

use llmprof_assets::{
    AssetError,
    dataset::{
        samples::{Content, Samples},
        variant_root,
    },
};
use llmprof_capture::{
    dataset::{DatasetError, Epochs, Lengths, Synthetic},
    runner::protocol::{Generate, GenerateRequest, Image, Instruments, Prompt, TokenSampling},
};
use llmprof_record::plan::{Plan, SamplingPlan};

use crate::{
    failure::Failure,
    subject::{Subject, Vocabulary},
};

/// The batches that one pass runs, one after the other.
pub(super) struct Feed {
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
    /// Opens the dataset and chooses its samples. Synthetic ones have token ids of the model.
    pub(super) fn of(plan: &Plan, subject: &Subject, cwd: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("dataset {}: {error}", plan.dataset.name))
        };
        let dataset = match &plan.dataset.root {
            Some(root) => Source::Stored(
                stored(plan, root, cwd).map_err(|error| failed(&error).hint(error.hint()))?,
            ),
            None => Source::Synthetic(
                synthetic(plan, &subject.vocabulary()?).map_err(|error| failed(&error))?,
            ),
        };
        let epochs = Epochs::new(dataset.len(), &plan.dataset.sampling);
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
                    let sample = dataset.sample(number).map_err(|error| failed(&error))?;
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
                feed.batches.push(generate(plan, requests));
            }
        }
        Ok(feed)
    }

    /// The batches.
    pub(super) fn batches(&self) -> &[Generate] {
        &self.batches
    }

    /// Whether prompts are text.
    pub(super) fn is_text(&self) -> bool {
        self.inputs.iter().any(|input| input.tokens.is_none())
    }

    /// `inputs.yaml`: exactly what was fed in.
    pub(super) fn inputs(&self, plan: &Plan) -> String {
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

/// Where prompts come from.
enum Source {
    Synthetic(Synthetic),
    Stored(Samples),
}

/// One prompt, and the file it is from.
struct Sample {
    id: String,
    prompt: Prompt,
    file: Option<PathBuf>,
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Self::Synthetic(prompts) => prompts.samples,
            Self::Stored(samples) => samples.len(),
        }
    }

    fn sample(&self, index: usize) -> Result<Sample, AssetError> {
        let sample = match self {
            Self::Synthetic(prompts) => {
                return Ok(Sample {
                    id: format!("synthetic-{index}"),
                    prompt: Prompt::Tokens(prompts.prompt(index)),
                    file: None,
                });
            }
            Self::Stored(samples) => samples.sample(index)?,
        };
        let prompt = match sample.content {
            Content::Text(text) => Prompt::Text(text),
            Content::Tokens(tokens) => Prompt::Tokens(tokens),
            Content::Image(_) => {
                return Err(AssetError::Refused {
                    message: format!(
                        "sample {} is an image, and this version feeds texts and token ids",
                        sample.id
                    ),
                    hint: None,
                });
            }
        };
        Ok(Sample {
            id: sample.id,
            prompt,
            file: Some(sample.file),
        })
    }
}

/// Most prompts, and most tokens and images of all of them: a pass is held in memory.
const MOST: [(u64, &str); 3] = [
    (1 << 20, "prompts"),
    (1 << 28, "tokens of prompts"),
    (1 << 20, "images"),
];

/// Refuses a pass that would not fit in memory.
fn check_size(plan: &Plan, samples_per_epoch: usize) -> Result<(), Failure> {
    let epochs = plan.dataset.sampling.num_epochs;
    let prompts = epochs.saturating_mul(samples_per_epoch as u64);
    let tokens = match plan.dataset.root {
        None => prompts.saturating_mul(plan.workload.prompt_tokens),
        Some(_) => 0,
    };
    let images = prompts.saturating_mul(plan.workload.images.count);
    for (asked, (most, what)) in [prompts, tokens, images].into_iter().zip(MOST) {
        if asked > most {
            return Err(Failure::new(format!(
                "one pass would have {asked} {what}; at most {most} fit"
            ))
            .hint(
                "fewer epochs, samples, prompt tokens or images, or a smaller batch".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Prompts of random tokens.
fn synthetic(plan: &Plan, vocabulary: &Vocabulary) -> Result<Synthetic, DatasetError> {
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    let SamplingPlan {
        num_samples_per_epoch,
        seed,
        ..
    } = plan.dataset.sampling;
    let longest = plan.workload.prompt_tokens;
    let reserved = vocabulary.reserved.iter();
    let prompts = Synthetic {
        samples: size(num_samples_per_epoch.unwrap_or(plan.workload.batch_size)),
        lengths: Lengths {
            min: size(plan.dataset.min_prompt_tokens.unwrap_or(longest)),
            max: size(longest),
        },
        vocab_size: u32::try_from(vocabulary.size).unwrap_or(u32::MAX),
        reserved: reserved.filter_map(|id| u32::try_from(*id).ok()).collect(),
        seed: seed.unwrap_or(0),
    };
    prompts.check()?;
    Ok(prompts)
}

/// Samples of files: of the variant, where one is named.
fn stored(plan: &Plan, root: &Path, cwd: &Path) -> Result<Samples, AssetError> {
    let data = &plan.dataset;
    let mut root = cwd.join(root);
    if let Some(variant) = &data.variant {
        root = variant_root(&root, variant)?;
    }
    Ok(match &data.subset_filelist {
        Some(list) => Samples::listed(&root, list, cwd)?,
        None => Samples::found(&root)?,
    })
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
