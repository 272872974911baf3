//! Markdown, as GitHub reads it.

use llmprof_units::printable;

use super::flat::{Flat, flat};
use crate::document::{Align, Document, FindingItem, Table};

pub fn document(document: &Document) -> String {
    let mut text = format!("# {}\n", prose(&document.title));
    for part in flat(document) {
        text.push('\n');
        match part {
            Flat::Heading(level, heading) => {
                let marks = "#".repeat(usize::from(level) + 1);
                text += &format!("{marks} {}\n", prose(heading));
            }
            Flat::Paragraph(paragraph) => {
                text += &prose(&paragraph);
                text.push('\n');
            }
            Flat::List(items) => {
                for item in items {
                    text += &format!("- {}\n", prose(&item));
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
        text += &format!("{number}. {}\n", prose(&finding.line()));
        for evidence in &finding.evidence {
            text += &format!("   - {}\n", prose(evidence));
        }
    }
    text
}

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

/// A sentence in which only code spans mean something: names in it come from others, and are neither HTML, nor a link or
/// an image that would be fetched, nor a line of their own.
fn prose(sentence: &str) -> String {
    let sentence = printable(sentence).replace(['\n', '\t'], " ");
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence.as_str();
    while let Some(start) = rest.find('`') {
        plain(&mut text, &rest[..start]);
        let marks = rest[start..].bytes().take_while(|&b| b == b'`').count();
        let fence = &rest[start..start + marks];
        let after = &rest[start + marks..];
        // A span ends at the next run of as many marks; without one they are plain.
        let end = closing(after, marks);
        let span = end.map_or(0, |end| end + marks);
        text += fence;
        text += &after[..span];
        rest = &after[span..];
    }
    plain(&mut text, rest);
    text
}

/// Where a run of exactly `marks` backticks begins.
fn closing(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(distance) = text[at..].find('`') {
        let start = at + distance;
        let length = text[start..].bytes().take_while(|&b| b == b'`').count();
        if length == marks {
            return Some(start);
        }
        at = start + length;
    }
    None
}

fn plain(text: &mut String, words: &str) {
    for character in words.chars() {
        if matches!(character, '<' | '[') {
            text.push('\\');
        }
        text.push(character);
    }
}

/// A cell in which nothing ends the cell early: kernel names are full of `|`, `<` and `*`.
fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for character in printable(cell).chars() {
        match character {
            '\n' | '\t' => text.push(' '),
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
    fn sentences_are_neither_html_nor_links() {
        assert_eq!(
            prose("`a<b>` took <img src=x> ![x](http://y)\n# top"),
            "`a<b>` took \\<img src=x> !\\[x](http://y) # top"
        );
        assert_eq!(prose("a ` b <i> c"), "a ` b \\<i> c");
        assert_eq!(prose("``a ` <b>`` <i>"), "``a ` <b>`` \\<i>");
    }

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
