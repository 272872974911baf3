//! What the images of a dataset became, in the terms that theory counts in.

use llmprof_record::{
    issue::{Issue, IssueCode},
    run::RunRecord,
};
use llmprof_theory::Images;

use crate::runner::protocol::{Generated, SeenImage};

/// Puts the images of the first request into the record's workload. Theory counts all images alike: where they differ, that
/// is an issue.
pub(super) fn record_images(record: &mut RunRecord, answers: &[Generated]) {
    let requests = || answers.iter().flat_map(|answer| &answer.requests);
    let Some(first) = requests().find(|request| !request.images.is_empty()) else {
        return;
    };
    let Some(workload) = &mut record.workload else {
        return;
    };
    let tokens: u64 = first.images.iter().map(|image| image.tokens).sum();
    let asked = to_images(&first.images);
    if workload.images.count == 0 {
        workload.images = asked;
        workload.prompt = first.prompt_tokens.saturating_sub(tokens);
    }
    let counted = workload.images;
    let others = requests().filter(|request| to_images(&request.images) != counted);
    let others = others.count() as u64;
    if others > 0 {
        record.add_issue(Issue::warning(IssueCode::VisionImagesDiffer).counting(others));
    }
}

fn to_images(seen: &[SeenImage]) -> Images {
    let Some(first) = seen.first() else {
        return Images::default();
    };
    Images {
        count: seen.len() as u64,
        height: first.height,
        width: first.width,
        crops_wide: first.crops_wide,
        crops_high: first.crops_high,
    }
}
