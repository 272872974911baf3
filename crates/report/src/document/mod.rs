//! What a reader is told, as plain data: every renderer prints the same [`Document`].
//!
//! Sections, charts and rows have keys that stay the same whatever is written beside them: anchors of a page, names of plots and
//! links of findings are made from keys, never from sentences.

mod finding;
mod table;

pub use finding::{FindingItem, Link, ReportTarget};
pub use table::{Align, Cell, Column, Table, TableRow};

use llmprof_record::issue::{Issue, Severity};

use crate::view::{
    Curves, HeatMap, Histogram, Icicle, PairedBars, Roofline, Series, StepLatency, Timeline,
    Waterfall,
};

/// A report, or any other text with headings, tables and charts, in the order a person reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub title: String,
    /// One line under the title: device, workload.
    pub subtitle: String,
    /// What a reader must know before the result.
    pub caveats: Vec<String>,
    /// The result, then one line per phase.
    pub summary: Vec<String>,
    /// Ranked; a terminal prints the first three.
    pub findings: Vec<FindingItem>,
    /// What the data do not support, with the reason.
    pub no_conclusion: Vec<String>,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The anchor of a page.
    pub key: String,
    /// Empty for text that stands before the first heading.
    pub title: String,
    /// Whether it is too long for a text: then only the page has it.
    pub page_only: bool,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading below the section's.
    Heading(String),
    /// A heading that links lead to, by its key.
    Entry {
        key: String,
        title: String,
    },
    Paragraph(String),
    List(Vec<String>),
    Table(Table),
    Chart(Chart),
}

/// A picture of numbers. Its key names its file in `plots/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub key: String,
    pub drawing: Drawing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    Waterfall(Waterfall),
    Roofline(Roofline),
    Timeline(Timeline),
    Histogram(Histogram),
    StepLatency(StepLatency),
    Series(Series),
    PairedBars(PairedBars),
    HeatMap(HeatMap),
    Icicle(Icicle),
    Curves(Curves),
}

impl Document {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Says `other` for `word` in all sentences, headings and heads of tables. Cells have names of kernels, which stay.
    pub(crate) fn replace_word(&mut self, word: &str, other: &str) {
        let replace = |text: &mut String| *text = text.replace(word, other);
        let texts = [&mut self.title, &mut self.subtitle].into_iter();
        let lists = [
            &mut self.caveats,
            &mut self.summary,
            &mut self.no_conclusion,
        ];
        texts.chain(lists.into_iter().flatten()).for_each(replace);
        for finding in &mut self.findings {
            replace(&mut finding.title);
            finding.knob.iter_mut().for_each(replace);
            finding.evidence.iter_mut().for_each(replace);
        }
        for section in &mut self.sections {
            replace(&mut section.title);
            for block in &mut section.blocks {
                match block {
                    Block::Heading(text)
                    | Block::Entry { title: text, .. }
                    | Block::Paragraph(text) => replace(text),
                    Block::List(items) => items.iter_mut().for_each(replace),
                    Block::Table(table) => {
                        let columns = table.columns.iter_mut();
                        columns.for_each(|column| replace(&mut column.header));
                    }
                    Block::Chart(_) => {}
                }
            }
        }
    }

    /// Begins a section; what is added next belongs to it.
    pub fn section(&mut self, key: &str, title: impl Into<String>) -> &mut Section {
        self.sections.push(Section {
            key: key.to_owned(),
            title: title.into(),
            ..Section::default()
        });
        self.last()
    }

    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.last().paragraph(text);
        self
    }

    /// Adds a list; nothing if it is empty.
    pub fn list(&mut self, items: Vec<String>) -> &mut Self {
        self.last().list(items);
        self
    }

    pub fn table(&mut self, table: Table) -> &mut Self {
        self.last().table(table);
        self
    }

    /// The charts, in reading order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        })
    }

    /// Issues that affect a number, the worst first.
    pub fn warnings(&self) -> Vec<&Issue> {
        let mut warnings: Vec<&Issue> = self
            .issues
            .iter()
            .filter(|issue| issue.severity > Severity::Info)
            .collect();
        warnings.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
        warnings
    }

    /// Issues that affect no number.
    pub fn notes(&self) -> impl Iterator<Item = &Issue> {
        let issues = self.issues.iter();
        issues.filter(|issue| issue.severity == Severity::Info)
    }

    /// Whether a link of a page has something to lead to.
    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        self.sections.iter().any(|section| {
            section.key == anchor
                || section.blocks.iter().any(|block| match block {
                    Block::Table(table) => {
                        let mut rows = table.rows.iter();
                        rows.any(|row| row.key.as_deref() == Some(anchor))
                    }
                    Block::Chart(chart) => chart.key == anchor,
                    Block::Entry { key, .. } => key == anchor,
                    _ => false,
                })
        })
    }

    fn last(&mut self) -> &mut Section {
        if self.sections.is_empty() {
            self.sections.push(Section::default());
        }
        self.sections
            .last_mut()
            .expect("one was pushed if none was there")
    }
}

impl Section {
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Heading(text.into()))
    }

    /// Adds a heading that links lead to.
    pub fn entry(&mut self, key: impl Into<String>, title: impl Into<String>) -> &mut Self {
        self.push(Block::Entry {
            key: key.into(),
            title: title.into(),
        })
    }

    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Paragraph(text.into()))
    }

    /// Adds a list; nothing if it is empty.
    pub fn list(&mut self, items: Vec<String>) -> &mut Self {
        if items.is_empty() {
            return self;
        }
        self.push(Block::List(items))
    }

    pub fn table(&mut self, table: Table) -> &mut Self {
        self.push(Block::Table(table))
    }

    pub fn chart(&mut self, key: impl Into<String>, drawing: Drawing) -> &mut Self {
        self.push(Block::Chart(Chart {
            key: key.into(),
            drawing,
        }))
    }

    pub fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }
}

/// Words as a key: lower case, without signs, joined by `_`.
pub fn key(words: &str) -> String {
    let words = words.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_of_files() {
        assert_eq!(key("decode (device 1)"), "decode_device_1");
        assert_eq!(key("../x <y>"), "x_y");
    }

    #[test]
    fn text_before_the_first_heading_has_a_section_of_its_own() {
        let mut document = Document::new("t");
        document.paragraph("first");
        document.section("s", "S").paragraph("second");
        document.list(vec!["third".to_owned()]);
        let titles: Vec<&str> = document.sections.iter().map(|s| s.title.as_str()).collect();
        assert_eq!(titles, ["", "S"]);
        assert_eq!(document.sections[1].blocks.len(), 2);
        assert!(document.has_anchor("s") && !document.has_anchor("t"));
    }
}
