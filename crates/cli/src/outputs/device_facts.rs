//! What a device reported beside the run's clock: when tokens were there by its own events, and what its allocator did.

use llmprof_record::{
    memory::MemoryHistory,
    run::{AllocatorFacts, PassKind, RunRecord},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Output, text};
use llmprof_report::csv_field;

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
    if !record.requests.is_empty() {
        files.push(("token_times.csv".to_owned(), token_times(record)));
    }
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

/// When each token was there: by the host's clock since its request began, and by the device's since its batch began.
fn token_times(record: &RunRecord) -> String {
    let mut text = "pass,kind,request,token,host_ns,device_ns\n".to_owned();
    for request in &record.requests {
        let kind = record
            .passes
            .get(request.pass)
            .map_or(PassKind::Plain, |pass| pass.kind);
        for (token, time) in request.token_ns.iter().enumerate() {
            let device = request.device_token_ns.get(token);
            text += &format!(
                "{},{},{},{token},{},{}\n",
                request.pass,
                kind.name(),
                csv_field(&request.id),
                (*time - request.start_ns).0,
                device.map(|time| time.0.to_string()).unwrap_or_default()
            );
        }
    }
    text
}
