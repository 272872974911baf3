//! Reports of profiles beside a timeline: counters, sums, memory. Where there is no timeline they are a report of their own.

use llmprof_analysis::{Analysis, counters::CountersAnalysis};
use llmprof_record::issue::Issue;
use llmprof_report::{
    counters, memory,
    render::{html, markdown},
    sums,
    view::{ReportView, Section},
};

use super::contents::Contents;
use crate::outputs::{Output, plots};

/// What profiles say that tell no time line.
pub(super) struct Others<'a> {
    contents: &'a Contents,
    counters: Option<CountersAnalysis>,
}

impl<'a> Others<'a> {
    /// Those of `contents`; counters are joined with the kernels of a timeline.
    pub(super) fn of(contents: &'a Contents, timeline: Option<&Analysis>) -> Self {
        let found = contents.counters.as_deref();
        Self {
            contents,
            counters: found.map(|found| CountersAnalysis::of(found, timeline)),
        }
    }

    /// The sections of a report.
    pub(super) fn sections(&self) -> Vec<Section> {
        let contents = self.contents;
        let mut sections = Vec::new();
        sections.extend(self.counters.iter().flat_map(counters::sections));
        let tables = contents.summaries.iter();
        sections.extend(tables.map(|table| sums::section(&table.table, &table.file)));
        sections.extend(contents.memory.as_deref().and_then(memory::section));
        sections
    }

    /// `report.html`, `report.md` and the plots, where there is no timeline.
    pub(super) fn files(&self, issues: &[Issue]) -> Vec<Output> {
        let mut page = ReportView {
            title: self.title(),
            subtitle: String::new(),
            conclusion: self.conclusion(),
            issues: issues.to_vec(),
            sections: self.sections(),
        };
        let text = markdown::document(&page.document());
        let all = self.contents.counters.as_deref();
        page.sections.extend(all.and_then(counters::readings));
        let mut files = plots(&page);
        files.push(("report.md".to_owned(), text));
        files.push(("report.html".to_owned(), html::report(&page)));
        files
    }

    fn title(&self) -> String {
        let contents = self.contents;
        let parts = [
            (contents.counters.is_some(), "counters of Nsight Compute"),
            (!contents.summaries.is_empty(), "sums of Nsight Systems"),
            (contents.memory.is_some(), "memory of torch's allocator"),
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
        lines.extend(self.counters.as_ref().map(counters::conclusion));
        let tables = self.contents.summaries.iter();
        lines.extend(tables.map(|table| sums::conclusion(&table.table)));
        lines.extend(
            self.contents
                .memory
                .as_deref()
                .map(memory::conclusion)
                .unwrap_or_default(),
        );
        lines
    }
}
