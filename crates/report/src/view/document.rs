//! A report as text: every chart becomes a table of the same numbers, so Markdown and HTML cannot disagree.

use llmprof_units::{Count, Percent, significant};

use super::{
    Cell, Histogram, OperatorTable, Part, ReportView, Roofline, Section, Series, Timeline, Unit,
    Waterfall,
};
use crate::{Block, Document, Table};

impl ReportView {
    /// The report for renderers of text: conclusion, issues, then the sections. Subtitles of charts become headings.
    pub fn document(&self) -> Document {
        let mut document = Document::new(&self.title);
        if !self.subtitle.is_empty() {
            document.paragraph(&self.subtitle);
        }
        document.list(self.conclusion.clone());
        if !self.issues.is_empty() {
            document.heading("Issues");
            let mut issues: Vec<_> = self.issues.iter().collect();
            issues.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
            document.list(issues.iter().map(|issue| issue.with_advice()).collect());
        }
        for section in &self.sections {
            document.section(section);
        }
        document
    }
}

impl Document {
    /// Adds a section of a page: its charts become tables of the same numbers.
    pub fn section(&mut self, section: &Section) -> &mut Self {
        self.heading(&section.title);
        for part in &section.parts {
            add(self, part);
        }
        self
    }
}

fn add(document: &mut Document, part: &Part) {
    match part {
        Part::Document(inner) => {
            for block in &inner.blocks {
                document.push(match block {
                    // Its headings stand below the section's.
                    Block::Heading(level, text) => {
                        Block::Heading(level.saturating_add(1), text.clone())
                    }
                    other => other.clone(),
                });
            }
        }
        Part::Waterfall(view) => {
            document.push(Block::Heading(
                2,
                format!("Where the time of {} went", view.phase),
            ));
            document.table(waterfall(view));
        }
        Part::Roofline(view) => {
            document.table(roofs(view));
            document.table(points(view));
        }
        Part::Timeline(view) => {
            document.paragraph(timeline(view));
        }
        Part::Histogram(view) => {
            document.push(Block::Heading(2, view.title.clone()));
            document.paragraph(histogram(view));
        }
        Part::Series(view) => {
            document.push(Block::Heading(2, view.title.clone()));
            document.table(series(view));
        }
        Part::Operators(view) => {
            document.table(operators(view));
        }
    }
}

fn waterfall(view: &Waterfall) -> Table {
    let mut table = Table::new(&["Part", "Time", "Share"], 1);
    let whole = view.wall_ns.0 as f64;
    let share = |nanos: i64| {
        if whole > 0.0 {
            Percent(nanos as f64 / whole).to_string()
        } else {
            String::new()
        }
    };
    for part in &view.parts {
        table.row([
            part.label.clone(),
            part.duration_ns.to_string(),
            share(part.duration_ns.0),
        ]);
    }
    let remainder = view.remainder_ns();
    if remainder.0 != 0 {
        table.row([
            "not in any part".to_owned(),
            remainder.to_string(),
            share(remainder.0),
        ]);
    }
    table.row([
        "wall time".to_owned(),
        view.wall_ns.to_string(),
        share(view.wall_ns.0),
    ]);
    table
}

fn roofs(view: &Roofline) -> Table {
    let mut table = Table::new(&["Limit", "Basis", "Peak", "Bandwidth", "Ridge"], 2);
    for roof in &view.roofs {
        table.row([
            roof.label.clone(),
            roof.basis.to_string(),
            roof.peak_flops_per_s.to_string(),
            roof.bandwidth.to_string(),
            Unit::FlopsPerByte.format(roof.ridge()),
        ]);
    }
    table
}

fn points(view: &Roofline) -> Table {
    let mut table = Table::new(
        &[
            "Operator", "Kind", "Phase", "FLOP/B", "Rate", "Time", "Calls",
        ],
        3,
    );
    for point in &view.points {
        table.row([
            point.label.clone(),
            point.kind.clone(),
            point.phase.clone(),
            if point.intensity.is_finite() {
                significant(point.intensity)
            } else {
                "–".to_owned()
            },
            point.flops_per_s.to_string(),
            point.time_ns.to_string(),
            point.calls.to_string(),
        ]);
    }
    table
}

fn timeline(view: &Timeline) -> String {
    let layout = view.layout();
    let span = llmprof_units::Nanos(layout.end_ns.saturating_sub(layout.start_ns));
    format!(
        "{} in {} over {span}: see `plots/timeline.svg`, or zoom in `report.html`.",
        Count(view.len() as u64, "event"),
        Count(view.lanes.len() as u64, "lane")
    )
}

fn histogram(view: &Histogram) -> String {
    let marks = view
        .marks
        .iter()
        .map(|mark| format!("{} {}", mark.label, view.unit.format(mark.value)));
    let range = match (view.bins.first(), view.bins.last()) {
        (Some(first), Some(last)) => format!(
            "{} to {}",
            view.unit.format(first.low),
            view.unit.format(last.high)
        ),
        _ => "none".to_owned(),
    };
    let texts: Vec<String> = std::iter::once(range).chain(marks).collect();
    format!("{}: {}.", Count(view.total(), "value"), texts.join(", "))
}

fn series(view: &Series) -> Table {
    let mut table = Table::new(&["Sensor", "Samples", "Mean", "Least", "Most"], 1);
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

fn operators(view: &OperatorTable) -> Table {
    Table {
        columns: view.columns.clone(),
        rows: view
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|cell: &Cell| cell.text().to_owned())
                    .collect()
            })
            .collect(),
    }
}
