//! Batches of prompts of one length, which is what the engine runs.

use std::{collections::BTreeMap, path::Path};

use llmprof_record::plan::Plan;

use super::text::TextTokenizer;
use crate::runner::protocol::{Failure, FailureKind, GenerateRequest, Prompt};

/// A sample with its place in the feed.
pub(crate) type Numbered = (u64, GenerateRequest);

/// Puts samples together whose prompts have as many tokens, so that none of them is cut. Texts become token ids.
pub(crate) fn equal_lengths(
    plan: &Plan,
    cwd: &Path,
    batches: Vec<Vec<Numbered>>,
) -> Result<Vec<Vec<Numbered>>, Failure> {
    let absolute = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| cwd.join(path));
    let (asked, model) = (absolute(&plan.model.tokenizer), absolute(&plan.model.path));
    let tokenizer = TextTokenizer::find_tokenizer(asked.as_deref(), model.as_deref())?;
    let mut by_length: BTreeMap<u64, Vec<Numbered>> = BTreeMap::new();
    for (index, mut request) in batches.into_iter().flatten() {
        if let Prompt::Text(text) = &request.prompt {
            let tokenizer = tokenizer.as_ref().ok_or_else(|| {
                Failure::new(FailureKind::BadRequest, "the model has no tokenizer")
            })?;
            let tokens = match tokenizer.encode_prompt(text, &request.id) {
                Ok(tokens) => tokens,
                // One that has no tokens fails by itself when it is run.
                Err(failure) if failure.kind == FailureKind::BadRequest => Vec::new(),
                Err(failure) => return Err(failure),
            };
            request.prompt = Prompt::Tokens(tokens);
        }
        let length = match &request.prompt {
            Prompt::Tokens(tokens) => tokens.len() as u64,
            Prompt::Text(_) => 0,
        };
        let length = length.min(plan.workload.prompt_tokens);
        by_length.entry(length).or_default().push((index, request));
    }
    let most = usize::try_from(plan.workload.batch_size).unwrap_or(usize::MAX);
    let groups = by_length.into_values();
    Ok(groups
        .flat_map(|group| {
            let batches = group.chunks(most.max(1));
            batches.map(<[Numbered]>::to_vec).collect::<Vec<_>>()
        })
        .collect())
}
