//! Markdown, as GitHub reads it.

use super::flat::{Flat, flat};
use crate::document::{Align, Document, FindingItem, Table};

/// The whole document.
pub fn document(document: &Document) -> String {
    let mut text = format!("# {}\n", document.title);
    for part in flat(document) {
        text.push('\n');
        match part {
            Flat::Heading(level, heading) => {
                let marks = "#".repeat(usize::from(level) + 1);
                text += &format!("{marks} {heading}\n");
            }
            Flat::Paragraph(paragraph) => {
                text += &paragraph;
                text.push('\n');
            }
            Flat::List(items) => {
                for item in items {
                    text += &format!("- {item}\n");
                }
            }
            Flat::Findings(findings) => text += &self::findings(findings),
            Flat::Table(table) => text += &self::table(table.table()),
        }
    }
    text
}

/// A numbered list, each with its evidence below.
fn findings(findings: &[FindingItem]) -> String {
    let mut text = String::new();
    for (number, finding) in (1..).zip(findings) {
        text += &format!("{number}. {}\n", finding.line());
        for evidence in &finding.evidence {
            text += &format!("   - {evidence}\n");
        }
    }
    text
}

/// One table.
pub fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let columns = table.columns.iter();
    let mut text = line(columns.map(|column| escaped(&column.header)).collect());
    let rule = |align| match align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    };
    let columns = table.columns.iter();
    text += &line(columns.map(|column| rule(column.align)).collect());
    for row in table.text_rows() {
        let cells = (0..table.columns.len()).map(|index| {
            let cell = row.cells.get(index);
            cell.map(|cell| escaped(cell.text())).unwrap_or_default()
        });
        text += &line(cells.collect());
    }
    text
}

/// A cell in which nothing ends the cell early: kernel names are full of `|`, `<` and `*`.
fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for character in cell.chars() {
        match character {
            '\n' | '\r' => text.push(' '),
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cannot_break_the_table() {
        let mut table = Table::new(&["Kernel", "Time"], 1);
        table.row(["f<a|b>*\nx", "1 ms"]).row(["short"]);
        assert_eq!(
            super::table(&table),
            "| Kernel | Time |\n| --- | ---: |\n| f\\<a\\|b>\\* x | 1 ms |\n| short |  |\n"
        );
    }
}
