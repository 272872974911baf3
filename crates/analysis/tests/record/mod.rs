//! Records that hold nothing but a trace, and perhaps what was asked of which model.

use llmprof_record::run::{RecordedModel, RecordedTrace, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::{Model, Workload};

pub(crate) fn record(trace: &Trace, subject: Option<(&Model, &Workload)>) -> RunRecord {
    RunRecord {
        model: subject.map(|(model, _)| RecordedModel {
            design: serde_json::Map::new(),
            model: Some(model.clone()),
        }),
        workload: subject.map(|(_, workload)| *workload),
        traces: vec![RecordedTrace {
            pass: None,
            trace: trace.clone(),
        }],
        ..RunRecord::default()
    }
}
