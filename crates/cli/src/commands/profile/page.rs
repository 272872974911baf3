//! Reports of profiles beside a timeline: counters, sums, memory. Where there is no timeline they are a report of their own.

use llmprof_analysis::Analysis;
use llmprof_record::{issue::Issue, run::RunRecord};
use llmprof_report::{
    counters, memory,
    render::{html, markdown},
    sums,
    view::{ReportView, Section},
};

use crate::outputs::{Output, plots};

/// What profiles say that tell no time line.
pub(crate) struct Others<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) analysis: &'a Analysis,
}

impl Others<'_> {
    /// The sections of a report.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let record = self.record;
        let mut sections = Vec::new();
        sections.extend(self.analysis.counters.iter().flat_map(counters::sections));
        let tables = record.summaries.iter();
        sections.extend(tables.map(|table| sums::section(&table.table, &table.file)));
        sections.extend(record.memory.as_ref().and_then(memory::section));
        sections
    }

    /// `report.html`, `report.md` and the plots, where there is no timeline.
    pub(crate) fn files(&self, issues: &[Issue]) -> Vec<Output> {
        let mut page = ReportView {
            title: self.title(),
            subtitle: String::new(),
            conclusion: self.conclusion(),
            issues: issues.to_vec(),
            sections: self.sections(),
        };
        let text = markdown::document(&page.document());
        let all = self.record.counters.as_ref();
        page.sections.extend(all.and_then(counters::readings));
        let mut files = plots(&page);
        files.push(("report.md".to_owned(), text));
        files.push(("report.html".to_owned(), html::report(&page)));
        files
    }

    fn title(&self) -> String {
        let record = self.record;
        let parts = [
            (record.counters.is_some(), "counters of Nsight Compute"),
            (!record.summaries.is_empty(), "sums of Nsight Systems"),
            (record.memory.is_some(), "memory of torch's allocator"),
        ];
        let parts: Vec<&str> = parts
            .into_iter()
            .filter_map(|(there, name)| there.then_some(name))
            .collect();
        let title = parts.join(", ");
        let mut letters = title.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    }

    fn conclusion(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.analysis.counters.as_ref().map(counters::conclusion));
        let tables = self.record.summaries.iter();
        lines.extend(tables.map(|table| sums::conclusion(&table.table)));
        lines.extend(
            self.record
                .memory
                .as_ref()
                .map(memory::conclusion)
                .unwrap_or_default(),
        );
        lines
    }
}
