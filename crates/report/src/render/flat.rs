//! A document as a text has it: one after the other, with charts as the numbers they show.

use llmprof_units::Count;

use crate::document::{Block, Document, Drawing, FindingItem, Section, Table};
use crate::text::{OVERLAP, issue_line};
use crate::view::{Histogram, Series, StepLatency, Timeline, Unit, ValueMark};

pub(super) enum Flat<'a> {
    /// Level 1 is a section's.
    Heading(u8, &'a str),
    Paragraph(String),
    List(Vec<String>),
    Findings(&'a [FindingItem]),
    Table(TableOf<'a>),
}

/// A table of the document, or one that says what a chart shows.
pub(super) enum TableOf<'a> {
    Document(&'a Table),
    Chart(Table),
}

impl TableOf<'_> {
    pub(super) fn table(&self) -> &Table {
        match self {
            Self::Document(table) => table,
            Self::Chart(table) => table,
        }
    }
}

/// Subtitle, caveats, summary, findings, warnings, sections, notes.
pub(super) fn flat(document: &Document) -> Vec<Flat<'_>> {
    let mut parts = Vec::new();
    if !document.subtitle.is_empty() {
        parts.push(Flat::Paragraph(document.subtitle.clone()));
    }
    if !document.caveats.is_empty() {
        parts.push(Flat::List(document.caveats.clone()));
    }
    if !document.summary.is_empty() {
        parts.push(Flat::Heading(1, "Summary"));
        parts.push(Flat::List(document.summary.clone()));
    }
    if !document.findings.is_empty() {
        parts.push(Flat::Heading(1, "Findings"));
        parts.push(Flat::Findings(&document.findings));
        if document.findings.len() > 1 {
            parts.push(Flat::Paragraph(OVERLAP.to_owned()));
        }
    }
    if !document.no_conclusion.is_empty() {
        parts.push(Flat::Heading(1, "No conclusion"));
        parts.push(Flat::List(document.no_conclusion.clone()));
    }
    let warnings = document.warnings();
    if !warnings.is_empty() {
        parts.push(Flat::Heading(1, "Warnings"));
        parts.push(Flat::List(warnings.into_iter().map(issue_line).collect()));
    }
    for section in document
        .sections
        .iter()
        .filter(|section| !section.page_only)
    {
        add(&mut parts, section);
    }
    let notes: Vec<String> = document.notes().map(issue_line).collect();
    if !notes.is_empty() {
        parts.push(Flat::Heading(1, "Notes"));
        parts.push(Flat::List(notes));
    }
    parts
}

fn add<'a>(parts: &mut Vec<Flat<'a>>, section: &'a Section) {
    let before = parts.len();
    if !section.title.is_empty() {
        parts.push(Flat::Heading(1, &section.title));
    }
    let with_heading = parts.len();
    for block in &section.blocks {
        match block {
            Block::Heading(text) | Block::Entry { title: text, .. } => {
                parts.push(Flat::Heading(2, text));
            }
            Block::Paragraph(text) => parts.push(Flat::Paragraph(text.clone())),
            Block::List(items) => parts.push(Flat::List(items.clone())),
            Block::Table(table) if table.rows_in_text == 0 => {}
            Block::Table(table) => {
                parts.push(Flat::Table(TableOf::Document(table)));
                let more = table.rows.len() - table.text_rows().len();
                if more > 0 {
                    let rows = if more == 1 { "row is" } else { "rows are" };
                    let more = format!("{more} more {rows} in the HTML page.");
                    parts.push(Flat::Paragraph(more));
                }
            }
            Block::Chart(chart) => parts.extend(said(&chart.drawing, &chart.key)),
        }
    }
    // What is only drawn is not in the text.
    if parts.len() == with_heading {
        parts.truncate(before);
    }
}

/// What a chart shows, in words. Waterfalls, rooflines, comparisons and sweeps stand beside tables of the same numbers.
fn said<'a>(drawing: &Drawing, key: &str) -> Option<Flat<'a>> {
    Some(match drawing {
        Drawing::Waterfall(_)
        | Drawing::Roofline(_)
        | Drawing::PairedBars(_)
        | Drawing::HeatMap(_)
        | Drawing::Icicle(_)
        | Drawing::Curves(_) => return None,
        Drawing::Timeline(view) => Flat::Paragraph(timeline(view, key)),
        Drawing::Histogram(view) => Flat::Paragraph(histogram(view)),
        Drawing::StepLatency(view) => Flat::Paragraph(step_latency(view)),
        Drawing::Series(view) => Flat::Table(TableOf::Chart(series(view))),
    })
}

fn timeline(view: &Timeline, key: &str) -> String {
    let layout = view.layout();
    let span = layout.span();
    format!(
        "`plots/{key}.svg` and the HTML page draw {} in {} over {span}.",
        Count(view.len() as u64, "event"),
        Count(view.lanes.len() as u64, "lane")
    )
}

fn histogram(view: &Histogram) -> String {
    let range = match (view.bins.first(), view.bins.last()) {
        (Some(first), Some(last)) => format!(
            "{} to {}",
            view.unit.format(first.low),
            view.unit.format(last.high)
        ),
        _ => "none".to_owned(),
    };
    let mut texts = vec![range];
    texts.extend(marks(&view.marks, view.unit));
    let values = Count(view.total(), "value");
    format!("{}: {values}, {}.", view.title, texts.join(", "))
}

/// The first step and the slowest, which a distribution does not show.
fn step_latency(view: &StepLatency) -> String {
    let first = view.lines.iter().find_map(|line| line.values_ns.first());
    let numbered = view
        .lines
        .iter()
        .flat_map(|line| line.values_ns.iter().enumerate());
    let slowest = numbered.max_by(|a, b| a.1.total_cmp(b.1));
    let time = |value: f64| Unit::Nanoseconds.format(value);
    let mut texts = vec![view.counted()];
    texts.extend(first.map(|first| format!("first {}", time(*first))));
    texts.extend(
        slowest
            .map(|(index, most)| format!("slowest {} ({} {})", time(*most), view.noun, index + 1)),
    );
    format!("{}: {}.", view.title, texts.join(", "))
}

fn marks(marks: &[ValueMark], unit: Unit) -> impl Iterator<Item = String> {
    marks
        .iter()
        .map(move |mark| format!("{} {}", mark.label, unit.format(mark.value)))
}

fn series(view: &Series) -> Table {
    let headers = [view.title.as_str(), "Samples", "Mean", "Min", "Max"];
    let mut table = Table::new(&headers, 1);
    for line in &view.lines {
        let (count, texts) = match line.summary() {
            None => (0, ["–".to_owned(), "–".to_owned(), "–".to_owned()]),
            Some(summary) => (
                summary.count,
                [summary.mean, summary.least, summary.most].map(|value| view.unit.format(value)),
            ),
        };
        table.row(
            [line.label.clone(), count.to_string()]
                .into_iter()
                .chain(texts),
        );
    }
    table
}
