//! Where the prompts of a run come from: made up, or samples of files.

use std::path::{Path, PathBuf};

use llmprof_assets::{
    AssetError,
    dataset::{
        samples::{Content, Samples},
        variant_root,
    },
};
use llmprof_capture::{
    dataset::{DatasetSample, ImageFile, Prompts, SampleError, Synthetic, Unreadable, Vocabulary},
    runner::protocol::Prompt,
};
use llmprof_grounding::page;
use llmprof_record::plan::{Plan, RuntimeType};

use crate::{failure::Failure, subject::Subject};

/// Opens the dataset of a plan. Synthetic prompts have token ids of the model.
pub(super) fn prompts(
    plan: &Plan,
    subject: &Subject,
    cwd: &Path,
) -> Result<Box<dyn Prompts>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("dataset {}: {error}", plan.dataset.name))
    };
    let Some(root) = &plan.dataset.root else {
        let prompts = Synthetic::from_plan(plan, &subject.vocabulary()?);
        return match prompts {
            Ok(prompts) => Ok(Box::new(prompts)),
            Err(error) => Err(failed(&error)),
        };
    };
    let samples = match stored(plan, root, cwd) {
        Ok(samples) => samples,
        Err(error) => return Err(failed(&error).hint(error.hint())),
    };
    let question = match &plan.infer.prompt {
        Some(text) => Question::Text(text.clone()),
        None => {
            match Synthetic::from_plan(plan, &subject.vocabulary().unwrap_or_else(|_| tokenless()))
            {
                Ok(tokens) => Question::Tokens(tokens),
                Err(_) => Question::None,
            }
        }
    };
    Ok(Box::new(Stored {
        samples,
        question,
        runtime: plan.runtime.kind,
        // Direct inference leaves a page out when its turn comes; decoding thousands before the first would take minutes.
        decodes: !plan.pipeline.direct_inference.enable,
    }))
}

fn tokenless() -> Vocabulary {
    Vocabulary {
        size: 0,
        reserved: Vec::new(),
    }
}

/// Samples of files: of the variant, where one is named.
fn stored(plan: &Plan, root: &Path, cwd: &Path) -> Result<Samples, AssetError> {
    let data = &plan.dataset;
    let mut root = cwd.join(root);
    if let Some(variant) = &data.variant {
        root = variant_root(&root, variant)?;
    }
    Ok(match &data.subset_filelist {
        Some(list) => Samples::listed(&root, list, &[&root, cwd])?,
        None => Samples::found(&root)?,
    })
}

/// What is asked about an image.
enum Question {
    Text(String),
    Tokens(Synthetic),
    /// The vocabulary of the model is not known.
    None,
}

/// Samples of files, as prompts.
struct Stored {
    samples: Samples,
    question: Question,
    runtime: RuntimeType,
    /// Whether images are decoded before they are used.
    decodes: bool,
}

impl Stored {
    fn of_image(&self, index: usize, path: &Path) -> Result<(Prompt, ImageFile), String> {
        let (width, height) = page::size(path)?;
        if self.decodes {
            page::read(path)?;
        }
        let prompt = match &self.question {
            Question::Text(text) => Prompt::Text(text.clone()),
            Question::Tokens(tokens) => Prompt::Tokens(tokens.prompt_tokens(index)),
            Question::None => return Err("there is no infer.prompt to ask about it".to_owned()),
        };
        let image = ImageFile {
            path: path.to_owned(),
            width,
            height,
            bytes: std::fs::metadata(path).map_or(0, |file| file.len()),
        };
        Ok((prompt, image))
    }
}

impl Prompts for Stored {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn read_sample(&self, index: usize) -> Result<DatasetSample, SampleError> {
        let sample = self.samples.sample(index)?;
        let (prompt, image) = match sample.content {
            Content::Text(text) => (Prompt::Text(text), None),
            Content::Tokens(tokens) => (Prompt::Tokens(tokens), None),
            Content::Image(_) if self.runtime == RuntimeType::Native => {
                let id = sample.id;
                let message = format!(
                    "sample {id} is an image, and the native runtime runs text models only; runtime=pytorch takes images"
                );
                return Err(message.into());
            }
            Content::Image(path) => {
                let path: PathBuf = std::path::absolute(&path).unwrap_or(path);
                let unreadable = |why| Unreadable {
                    id: sample.id.clone(),
                    file: path.clone(),
                    why,
                };
                let (prompt, image) = self.of_image(index, &path).map_err(unreadable)?;
                (prompt, Some(image))
            }
        };
        Ok(DatasetSample {
            id: sample.id,
            prompt,
            file: Some(sample.file),
            image,
        })
    }
}
