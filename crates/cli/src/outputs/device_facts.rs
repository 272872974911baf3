//! What a device reported beside the run's clock: when tokens were there by its own events, and what its allocator did.

use llmprof_record::{
    memory::MemoryHistory,
    run::{AllocatorFacts, PassKind, RunRecord},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Output, text};
use llmprof_report::csv::token_times;

use crate::failure::Failure;

/// What the allocator of the device reported.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AllocatorFile<'a> {
    /// Batches of all passes, in order.
    batches: Vec<AllocatorBatch<'a>>,
    /// Snapshot of torch's caching allocator, where one was recorded.
    history: Option<&'a MemoryHistory>,
}

#[derive(Serialize, JsonSchema)]
struct AllocatorBatch<'a> {
    /// Index of the pass in `record.json`.
    pass: usize,
    /// Kind of the pass.
    kind: PassKind,
    /// Memory of the batch.
    memory: &'a AllocatorFacts,
}

/// `token_times.csv`, and `allocator.json` where there is an allocator.
pub(super) fn files(record: &RunRecord) -> Result<Vec<Output>, Failure> {
    let mut files = Vec::new();
    files.extend(token_times::csv(record).map(|text| ("token_times.csv".to_owned(), text)));
    let batches: Vec<_> = record
        .passes
        .iter()
        .enumerate()
        .flat_map(|(number, pass)| {
            let kind = pass.kind;
            let facts = pass.allocator.iter();
            facts.map(move |memory| AllocatorBatch {
                pass: number,
                kind,
                memory,
            })
        })
        .collect();
    if !batches.is_empty() {
        let value = AllocatorFile {
            batches,
            history: record.memory.as_ref(),
        };
        files.push(("allocator.json".to_owned(), text(&value)?));
    }
    Ok(files)
}
