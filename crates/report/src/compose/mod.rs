//! Analyses as documents: one composer for every kind of run and profile.
//!
//! [`Report::document`] is the whole report, which Markdown, HTML and the plots render; [`Report::digest`] is its beginning, which
//! a terminal prints.

pub mod advise;
pub mod communication;
pub mod compare;
mod convolutions;
mod copies;
pub mod counters;
mod curves;
mod derived_kernels;
mod findings;
pub mod gemms;
pub mod graphs;
pub mod hardware;
mod host_stacks;
pub(crate) mod job;
pub mod kernel_report;
pub(crate) mod kernels;
mod latency;
pub mod listings;
pub mod memory;
mod modules;
mod operators;
pub mod phases;
pub mod plan;
pub mod predict;
pub mod ranks;
mod roofline;
pub mod serving;
pub mod simulate;
mod slices;
mod stakeholder;
pub mod statics;
pub mod steps;
mod summary;
pub mod sums;
pub mod sweep;
pub mod telemetry;
mod timeline;
pub mod trtexec;
mod waterfall;

pub use findings::concluded_findings;
pub use kernel_report::{KernelNote, KernelNotes, add as add_kernel_report};
pub use kernels::kernels;
pub use memory::series as memory_series;
pub use operators::operators;
pub use stakeholder::stakeholder;
pub use timeline::{EVENTS_MAX, TraceTimeline, trace_timeline};

use llmprof_record::{
    issue::Issue,
    run::RunRecord,
    summary::{Summary, SummaryTable},
    trace::AcceleratorKind,
};
use llmprof_theory::device::Device;

use crate::Document;
use crate::analyzed::Analysis;
use crate::document::{Block, Section};
use crate::text;

/// Devices that are shown one by one: no host has more, but a file may say so.
const DEVICES_MAX: usize = 64;

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub record: &'a RunRecord,
    pub analysis: &'a Analysis,
    pub issues: &'a [Issue],
    /// The device whose peaks are drawn.
    pub device: Option<&'a Device>,
    /// What a user says of kernels.
    pub notes: Option<&'a KernelNotes>,
}

/// The document in words of the device that ran: sentences speak of a GPU.
fn named(mut document: Document, analysis: &Analysis) -> Document {
    let timeline = analysis.timeline.as_deref();
    let kind = timeline.map(|timeline| timeline.accelerator);
    let kind = kind.unwrap_or_default();
    if kind != AcceleratorKind::Gpu {
        document.replace_word("GPU", kind.noun());
    }
    document
}

impl Report<'_> {
    /// Title, summary, findings and issues.
    pub fn digest(&self) -> Document {
        if let Some(document) = self.of_load() {
            return document;
        }
        named(self.first_page(), self.analysis)
    }

    fn of_load(&self) -> Option<Document> {
        let (served, serving) = (self.record.load.as_ref()?, self.analysis.serving.as_ref()?);
        Some(self.served_load(served, serving))
    }

    fn first_page(&self) -> Document {
        let (record, analysis) = (self.record, self.analysis);
        let mut document = Document {
            issues: self.issues.to_vec(),
            ..Document::default()
        };
        if record.has_times() {
            document.title = summary::title(analysis);
            document.subtitle = summary::subtitle(analysis);
            document.summary = summary::summary(analysis);
            let unprofiled = text::causes::unprofiled_times(analysis);
            document.summary.extend(unprofiled);
            document
                .summary
                .extend(text::causes::profiled_times(analysis));
            if let Some(weights) = &record.weights {
                if let Some(result) = document.summary.first_mut() {
                    *result = format!("{result} · {}", text::run_weights::weights_part(weights));
                }
                let line = text::run_weights::weights_line(weights);
                document.subtitle = [document.subtitle, line]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join(" · ");
            }
            document.findings = findings::items(analysis);
            document.no_conclusion = findings::abstentions(analysis);
            let replays = text::causes::replay_notes(analysis);
            if !replays.is_empty() {
                document.sections.push(Section {
                    key: "replay".to_owned(),
                    title: "Replay".to_owned(),
                    blocks: vec![Block::List(replays)],
                    ..Section::default()
                });
            }
        } else {
            document.title = self.title();
        }
        let summary = &mut document.summary;
        let counted = analysis.counters.as_ref();
        summary.extend(
            counted
                .map(counters::sentences::summary)
                .unwrap_or_default(),
        );
        summary.extend(analysis.gemms.as_ref().map(gemms::sentences::summary));
        // A log that was joined, or its twin, says nothing more.
        let is_told = |table: &SummaryTable| {
            analysis.gemms.is_some() && matches!(table.summary, Summary::Gemms(_))
        };
        let tables = record.summaries.iter();
        let tables: Vec<_> = tables.filter(|one| !is_told(&one.table)).collect();
        for one in &tables {
            let mut lines = sums::sentences::summary(&one.table);
            // Of several tables, which one it is.
            if let Some(first) = lines.first_mut().filter(|_| tables.len() > 1) {
                *first = format!("{}: {first}", one.file);
            }
            summary.extend(lines);
        }
        let communication = record.communication.as_ref();
        summary.extend(
            communication
                .map(communication::sentences::summary)
                .unwrap_or_default(),
        );
        let memory = record.memory.as_ref();
        summary.extend(memory.map(memory::sentences::summary).unwrap_or_default());
        if let Some(samples) = record.samples.as_ref().filter(|_| !record.has_times()) {
            let shown = samples.gpus.iter().take(text::devices::IN_SUMMARY);
            summary.extend(shown.map(telemetry::sentences::gpu));
            let more = samples.gpus.len().saturating_sub(text::devices::IN_SUMMARY);
            if more > 0 {
                summary.push(text::devices::more(more, "samples.json"));
            }
        }
        document
    }

    pub fn document(&self) -> Document {
        if let Some(document) = self.of_load() {
            return document;
        }
        let (record, analysis) = (self.record, self.analysis);
        let mut document = self.first_page();
        if record.has_times() {
            self.run(&mut document);
        }
        if let (Some(all), Some(counted)) = (&record.counters, &analysis.counters) {
            let none = KernelNotes::new();
            let notes = self.notes.unwrap_or(&none);
            kernel_report::add(&mut document, counted, self.device, notes);
            counters::add(&mut document, all, counted, !record.has_times());
        }
        derived_kernels::add(&mut document, analysis, self.device);
        for summary in &record.summaries {
            sums::add(&mut document, &summary.table, &summary.file);
        }
        if let Some(communication) = &record.communication {
            communication::add(&mut document, communication);
        }
        if let Some(history) = &record.memory {
            memory::add(&mut document, history);
        }
        if let Some(samples) = record.samples.as_ref().filter(|_| !record.has_times()) {
            telemetry::add_alone(
                &mut document,
                samples,
                &curves::sample_curves(samples, record),
            );
        }
        if record.has_times() {
            document.section("assumptions", "Assumptions").list(
                analysis
                    .assumptions
                    .iter()
                    .map(text::assumption)
                    .collect::<Vec<_>>(),
            );
            findings::link(&mut document, analysis);
        }
        named(document, analysis)
    }

    fn run(&self, document: &mut Document) {
        let (record, analysis) = (self.record, self.analysis);
        waterfall::add(document, analysis);
        phases::add(document, analysis);
        ranks::add(document, analysis, record);
        steps::add(document, analysis);
        latency::add(document, analysis, record);
        timeline::add(document, analysis, record.trace());
        roofline::add(document, analysis, self.device);
        operators::add(document, analysis);
        kernels::add(document, analysis);
        copies::add(document, analysis);
        gemms::add(document, analysis);
        convolutions::add(document, analysis);
        graphs::add(document, analysis);
        modules::add(document, analysis);
        host_stacks::add(document, analysis, record.trace());
        operators::add_framework(document, analysis);
        slices::add(document, analysis);
        let samples = record.samples.as_ref();
        let curves = samples.map(|samples| curves::sample_curves(samples, record));
        telemetry::add(document, analysis, &curves.unwrap_or_default());
    }

    /// What the profiles are, where no timeline has a name.
    fn title(&self) -> String {
        let parts = [
            (self.record.counters.is_some(), "Nsight Compute counters"),
            (
                !self.record.summaries.is_empty(),
                sums::sentences::title(&self.record.summaries),
            ),
            (self.record.communication.is_some(), "communication library"),
            (self.record.samples.is_some(), "GPU telemetry"),
            (self.record.memory.is_some(), "PyTorch allocator memory"),
        ];
        let parts: Vec<&str> = parts
            .into_iter()
            .filter_map(|(there, name)| there.then_some(name))
            .collect();
        parts.join(", ")
    }
}
