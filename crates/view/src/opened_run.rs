//! A run that pages show.

use std::sync::OnceLock;

use llmprof_analysis::Analysis;
use llmprof_record::run::RunRecord;
use llmprof_report::FindingItem;

use crate::timeline::Timeline;

pub struct OpenedRun {
    /// What people call it: the path it was opened by.
    pub title: String,
    pub record: RunRecord,
    pub analysis: Option<Analysis>,
    /// `report.html`, where the run has one.
    pub report: Option<String>,
    pub timeline: Timeline,
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
            timeline: Timeline::of(&record, analysis.as_ref())?,
            title,
            record,
            analysis,
            report,
            page: OnceLock::new(),
        })
    }
}

/// What a page of a run is made of.
pub(crate) struct RunPage {
    pub(crate) json: Vec<u8>,
    /// Charts as SVG files by name.
    pub(crate) plots: Vec<(String, String)>,
    pub(crate) findings: Vec<FindingItem>,
}
