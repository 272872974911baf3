//! Analyses as documents: one composer for every kind of run and profile.
//!
//! [`Report::document`] is the whole report, which Markdown, HTML and the plots render; [`Report::digest`] is its beginning, which
//! a terminal prints.

mod counters;
mod findings;
mod kernels;
mod latency;
mod memory;
mod operators;
mod phases;
mod roofline;
mod slices;
mod stakeholder;
pub mod statics;
mod steps;
mod sums;
mod telemetry;
mod timeline;
mod waterfall;

pub use kernels::kernels;
pub use memory::series as memory_series;
pub use operators::operators;
pub use stakeholder::stakeholder;
pub use timeline::{MOST_EVENTS, TraceTimeline, trace_timeline};

use llmprof_record::{
    counters::Counters, issue::Issue, memory::MemoryHistory, summary::SummaryTable, trace::Trace,
};
use llmprof_theory::device::Device;

use crate::Document;
use crate::analyzed::{CountersAnalysis, MeasuredRun, RunAnalysis};
use crate::text;
use crate::view::Series;

/// What a report is made of; everything may be absent.
#[derive(Clone, Debug, Default)]
pub struct Report<'a> {
    pub analysis: Option<&'a RunAnalysis>,
    pub issues: &'a [Issue],
    /// The device whose peaks are drawn.
    pub device: Option<&'a Device>,
    pub measured: Option<&'a MeasuredRun>,
    /// The trace of the profiled pass.
    pub trace: Option<&'a Trace>,
    pub telemetry: &'a [Series],
    pub counters: Option<&'a Counters>,
    /// Tables of sums, each with the name of its file.
    pub sums: Vec<(&'a str, &'a SummaryTable)>,
    pub memory: Option<&'a MemoryHistory>,
}

impl Report<'_> {
    /// Title, summary, findings and issues.
    pub fn digest(&self) -> Document {
        self.begin(self.counted().as_ref())
    }

    /// The whole report.
    pub fn document(&self) -> Document {
        let counted = self.counted();
        let mut document = self.begin(counted.as_ref());
        if let Some(analysis) = self.analysis {
            self.run(&mut document, analysis);
        }
        if let (Some(all), Some(counted)) = (self.counters, &counted) {
            counters::add(&mut document, all, counted, self.analysis.is_none());
        }
        for (file, table) in &self.sums {
            sums::add(&mut document, table, file);
        }
        if let Some(history) = self.memory {
            memory::add(&mut document, history);
        }
        if let Some(analysis) = self.analysis {
            document
                .section("assumptions", "Assumptions")
                .list(analysis.assumptions.clone());
            findings::link(&mut document, analysis);
        }
        document
    }

    fn begin(&self, counted: Option<&CountersAnalysis>) -> Document {
        let mut document = Document {
            issues: self.issues.to_vec(),
            ..Document::default()
        };
        match self.analysis {
            Some(analysis) => {
                document.title = text::summary::title(analysis);
                document.subtitle = text::summary::subtitle(analysis);
                document.summary = text::summary::summary(analysis);
                document.findings = findings::items(analysis);
            }
            None => document.title = self.title(),
        }
        let summary = &mut document.summary;
        summary.extend(counted.map(text::counters::summary).unwrap_or_default());
        for (_, table) in &self.sums {
            summary.extend(text::sums::summary(table));
        }
        summary.extend(self.memory.map(text::memory::summary).unwrap_or_default());
        document
    }

    fn run(&self, document: &mut Document, analysis: &RunAnalysis) {
        waterfall::add(document, analysis);
        phases::add(document, analysis);
        steps::add(document, analysis);
        latency::add(document, analysis, self.measured);
        timeline::add(document, analysis, self.trace, self.measured);
        roofline::add(document, analysis, self.device);
        operators::add(document, analysis);
        kernels::add(document, analysis);
        operators::add_framework(document, analysis);
        slices::add(document, analysis);
        telemetry::add(document, analysis, self.telemetry);
    }

    fn counted(&self) -> Option<CountersAnalysis> {
        let timeline = self.analysis.and_then(|run| run.timeline.as_deref());
        let counters = self.counters?;
        Some(CountersAnalysis::of(counters, timeline))
    }

    /// What the profiles are, where no timeline has a name.
    fn title(&self) -> String {
        let parts = [
            (self.counters.is_some(), "Nsight Compute counters"),
            (!self.sums.is_empty(), "Nsight Systems summaries"),
            (self.memory.is_some(), "PyTorch allocator memory"),
        ];
        let parts: Vec<&str> = parts
            .into_iter()
            .filter_map(|(there, name)| there.then_some(name))
            .collect();
        parts.join(", ")
    }
}
