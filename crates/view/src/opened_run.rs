//! A run that pages show.

use std::sync::OnceLock;

use llmprof_analysis::Analysis;
use llmprof_record::run::RunRecord;
use llmprof_report::FindingItem;
use serde_json::Value;

use crate::timeline::{JobClock, ViewTimeline};
use crate::track::EventRef;

pub struct OpenedRun {
    /// What people call it: the path it was opened by.
    pub title: String,
    pub record: RunRecord,
    pub analysis: Option<Analysis>,
    /// `report.html`, where the run has one.
    pub report: Option<String>,
    /// What people wrote about the run.
    pub notes: Option<String>,
    pub timeline: ViewTimeline,
    pub(crate) page: OnceLock<RunPage>,
}

impl OpenedRun {
    pub fn new(
        title: String,
        record: RunRecord,
        analysis: Option<Analysis>,
        report: Option<String>,
    ) -> Result<Self, crate::ViewError> {
        Ok(Self {
            timeline: ViewTimeline::from_record(&record, analysis.as_ref())?,
            title,
            record,
            analysis,
            report,
            notes: None,
            page: OnceLock::new(),
        })
    }

    /// A rank of this job that is not kept in its record, on the clock of the job.
    pub fn open_rank(&self, record: RunRecord) -> Result<Self, crate::ViewError> {
        let clock = JobClock {
            first_trace: self.record.traces.first().map(|first| &first.trace),
            analysis: self.analysis.as_ref(),
            origin: self.timeline.origin,
        };
        Ok(Self {
            timeline: ViewTimeline::of_rank(&record, &clock)?,
            title: record.name.clone(),
            record,
            analysis: None,
            report: None,
            notes: None,
            page: OnceLock::new(),
        })
    }

    /// Facts of an event of trace `number`; `None` where there is none.
    pub(crate) fn event_json(&self, number: usize, event: EventRef) -> Option<Value> {
        let operators = self
            .analysis
            .as_ref()
            .and_then(|analysis| analysis.timeline.as_ref());
        let operators = operators.map_or(&[][..], |trace| &trace.operators);
        self.timeline
            .event_json(&self.record, operators, number, event)
    }
}

/// What a page of a run is made of.
pub(crate) struct RunPage {
    pub(crate) json: Vec<u8>,
    /// Charts as SVG files by name.
    pub(crate) plots: Vec<(String, String)>,
    pub(crate) findings: Vec<FindingItem>,
}
