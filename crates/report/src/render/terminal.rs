//! Plain text in aligned columns, readable without colour.

use llmprof_units::Count;

use super::flat::{Flat, flat};
use crate::document::{Align, Document, Table};

/// Findings that a terminal prints; the report has all.
const FINDINGS_MAX: usize = 3;
/// Characters of a cell: a name of others may have any length.
const CELL_CHARS_MAX: usize = 200;

pub fn document(document: &Document) -> String {
    document_with(document, table)
}

/// The whole document, with tables as the caller prints them.
pub fn document_with(document: &Document, print_table: impl Fn(&Table) -> String) -> String {
    let mut text = format!("{}\n", document.title);
    for part in flat(document) {
        text.push('\n');
        match part {
            Flat::Heading(_, heading) => text += &format!("{}\n", heading.to_uppercase()),
            Flat::Paragraph(paragraph) => text += &format!("{paragraph}\n"),
            Flat::List(items) => {
                for item in items {
                    text += &format!("  - {item}\n");
                }
            }
            Flat::Findings(findings) => {
                for (number, finding) in (1..).zip(findings) {
                    text += &format!("  {number}. {}\n", finding.line());
                }
            }
            Flat::Table(table) => text += &print_table(table.table()),
        }
    }
    text
}

/// What a command prints of a report: the result, a line per phase, the best findings. What the data do not support stays in
/// the report.
pub fn digest(document: &Document) -> Vec<String> {
    let mut lines = document.caveats.clone();
    lines.extend(document.summary.iter().cloned());
    for (number, finding) in (1..=FINDINGS_MAX).zip(&document.findings) {
        lines.push(format!("{number}. {}", finding.line()));
    }
    match document.findings.len().saturating_sub(FINDINGS_MAX) {
        0 => {}
        more => lines.push(format!(
            "{} in the report",
            Count(more as u64, "more finding")
        )),
    }
    lines.iter().map(|line| in_one_line(line)).collect()
}

/// A name of others must not begin a line of its own.
fn in_one_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

/// The text of a cell, in one line and cut.
fn cell_text(text: &str) -> String {
    let mut cell = in_one_line(text);
    if let Some((end, _)) = cell.char_indices().nth(CELL_CHARS_MAX) {
        cell.truncate(end);
        cell.push('…');
    }
    cell
}

/// One table, two spaces between columns, no line ending in a space.
pub fn table(table: &Table) -> String {
    aligned_lines(table, &cell_lines(table))
}

/// The headers and the rows as texts.
pub(super) fn cell_lines(table: &Table) -> Vec<Vec<String>> {
    let headers = table.columns.iter();
    let headers = headers.map(|column| cell_text(&column.header)).collect();
    let rows = table.text_rows().iter();
    let rows = rows.map(|row| {
        let cells = row.cells.iter();
        cells.map(|cell| cell_text(cell.text())).collect()
    });
    std::iter::once(headers).chain(rows).collect()
}

/// Lines of cells in the columns of a table.
pub(super) fn aligned_lines(table: &Table, lines: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|index| {
            let cells = lines.iter().filter_map(|line| line.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(table.columns.iter().zip(&widths))
            .map(|(cell, (column, &width))| match column.align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::FindingItem;

    #[test]
    fn columns_align_by_characters() {
        let mut table = Table::new(&["PHASE", "TIME"], 1);
        table.row(["prefill", "2 µs"]).row(["décode", "10 ms"]);
        assert_eq!(
            super::table(&table),
            "PHASE     TIME\nprefill   2 µs\ndécode   10 ms\n"
        );
    }

    #[test]
    fn a_digest_has_the_three_best_findings() {
        let finding = |title: &str| FindingItem {
            title: title.to_owned(),
            gain: Some("Upper bound: run 2.00×.".to_owned()),
            ..FindingItem::default()
        };
        let document = Document {
            summary: vec!["TTFT 1 ms".to_owned()],
            findings: vec![finding("a"), finding("b."), finding("c"), finding("d")],
            no_conclusion: vec!["unknown".to_owned()],
            ..Document::default()
        };
        assert_eq!(
            digest(&document),
            [
                "TTFT 1 ms",
                "1. a. Upper bound: run 2.00×.",
                "2. b. Upper bound: run 2.00×.",
                "3. c. Upper bound: run 2.00×.",
                "1 more finding in the report"
            ]
        );
    }
}
