//! Where the prompts of a run come from: made up, or samples of files.

use std::path::{Path, PathBuf};

use llmprof_assets::{
    AssetError,
    dataset::{
        samples::{DatasetSamples, SampleContent},
        variant_root,
    },
};
use llmprof_capture::{
    dataset::{DatasetSample, ImageFile, Prompts, SampleError, Synthetic, Unreadable, Vocabulary},
    runner::protocol::Prompt,
};
use llmprof_grounding::page;
use llmprof_record::plan::{Plan, RuntimeType};

use crate::{failure::Failure, subject::RunSubject};

/// Opens the dataset of a plan. Synthetic prompts have token ids of the model.
pub(super) fn prompts(
    plan: &Plan,
    subject: &RunSubject,
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
        Some(text) => PromptQuestion::Text(text.clone()),
        None => {
            match Synthetic::from_plan(plan, &subject.vocabulary().unwrap_or_else(|_| tokenless()))
            {
                Ok(tokens) => PromptQuestion::Tokens(tokens),
                Err(_) => PromptQuestion::None,
            }
        }
    };
    Ok(Box::new(StoredPrompt {
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
fn stored(plan: &Plan, root: &Path, cwd: &Path) -> Result<DatasetSamples, AssetError> {
    let data = &plan.dataset;
    let mut root = cwd.join(root);
    if let Some(variant) = &data.variant {
        root = variant_root(&root, variant)?;
    }
    Ok(match &data.subset_filelist {
        Some(list) => DatasetSamples::read_list(&root, list, &[&root, cwd])?,
        None => DatasetSamples::find_below(&root)?,
    })
}

/// What is asked about an image.
enum PromptQuestion {
    Text(String),
    Tokens(Synthetic),
    /// The vocabulary of the model is not known.
    None,
}

/// Samples of files, as prompts.
struct StoredPrompt {
    samples: DatasetSamples,
    question: PromptQuestion,
    runtime: RuntimeType,
    /// Whether images are decoded before they are used.
    decodes: bool,
}

impl StoredPrompt {
    fn of_image(&self, index: usize, path: &Path) -> Result<(Prompt, ImageFile), String> {
        let (width, height) = page::page_size(path)?;
        if self.decodes {
            page::read_page(path)?;
        }
        let prompt = match &self.question {
            PromptQuestion::Text(text) => Prompt::Text(text.clone()),
            PromptQuestion::Tokens(tokens) => Prompt::Tokens(tokens.prompt_tokens(index)),
            PromptQuestion::None => {
                return Err("there is no infer.prompt to ask about it".to_owned());
            }
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

impl Prompts for StoredPrompt {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn read_sample(&self, index: usize) -> Result<DatasetSample, SampleError> {
        let sample = self.samples.sample(index)?;
        let (prompt, image) = match sample.content {
            SampleContent::Text(text) => (Prompt::Text(text), None),
            SampleContent::Tokens(tokens) => (Prompt::Tokens(tokens), None),
            SampleContent::Image(_) if self.runtime == RuntimeType::Native => {
                let id = sample.id;
                let message = format!(
                    "sample {id} is an image, and the native runtime runs text models only; runtime=pytorch takes images"
                );
                return Err(message.into());
            }
            SampleContent::Image(path) => {
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
