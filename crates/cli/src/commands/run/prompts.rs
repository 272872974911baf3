//! Where the prompts of a run come from: made up, or samples of files.

use std::path::Path;

use llmprof_assets::{
    AssetError,
    dataset::{
        samples::{Content, Samples},
        variant_root,
    },
};
use llmprof_capture::{
    dataset::{DatasetSample, Prompts, SampleError, Synthetic},
    runner::protocol::Prompt,
};
use llmprof_record::plan::Plan;

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
    match &plan.dataset.root {
        Some(root) => match stored(plan, root, cwd) {
            Ok(samples) => Ok(Box::new(Stored(samples))),
            Err(error) => Err(failed(&error).hint(error.hint())),
        },
        None => match Synthetic::of(plan, &subject.vocabulary()?) {
            Ok(prompts) => Ok(Box::new(prompts)),
            Err(error) => Err(failed(&error)),
        },
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

/// Samples of files, as prompts.
struct Stored(Samples);

impl Prompts for Stored {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn sample(&self, index: usize) -> Result<DatasetSample, SampleError> {
        let sample = self.0.sample(index)?;
        let prompt = match sample.content {
            Content::Text(text) => Prompt::Text(text),
            Content::Tokens(tokens) => Prompt::Tokens(tokens),
            Content::Image(_) => {
                let id = sample.id;
                let message =
                    format!("sample {id} is an image, and this version feeds texts and token ids");
                return Err(message.into());
            }
        };
        Ok(DatasetSample {
            id: sample.id,
            prompt,
            file: Some(sample.file),
        })
    }
}
