//! Records that hold nothing but a trace, and perhaps what was asked of which model.

use llmprof_record::run::{RecordedModel, RecordedTrace, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::{Model, Workload};

/// The keys of a workload that a user states.
const STATED: [&str; 3] = [
    "runtime.batch_size",
    "workload.prompt_tokens",
    "infer.max_new_tokens",
];

pub(crate) fn record(trace: &Trace, subject: Option<(&Model, &Workload)>) -> RunRecord {
    RunRecord {
        model: subject.map(|(model, _)| RecordedModel {
            design: serde_json::Map::new(),
            model: Some(model.clone()),
        }),
        workload: subject.map(|(_, workload)| *workload),
        // The workload is the user's, not the defaults of a configuration.
        workload_keys: STATED.map(str::to_owned).to_vec(),
        traces: vec![RecordedTrace {
            pass: None,
            trace: trace.clone(),
        }],
        ..RunRecord::default()
    }
}
