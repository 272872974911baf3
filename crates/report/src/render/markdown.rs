//! Markdown, as GitHub reads it.

use crate::{Align, Block, Document, Table};

/// The whole document.
pub fn document(document: &Document) -> String {
    let mut text = format!("# {}\n", document.title);
    for block in &document.blocks {
        text.push('\n');
        match block {
            Block::Heading(level, heading) => {
                let marks = "#".repeat(usize::from(*level).clamp(1, 5) + 1);
                text += &format!("{marks} {heading}\n");
            }
            Block::Paragraph(paragraph) => {
                text += paragraph;
                text.push('\n');
            }
            Block::List(items) => {
                for item in items {
                    text += &format!("- {item}\n");
                }
            }
            Block::Table(table) => text += &self::table(table),
        }
    }
    text
}

/// One table.
pub fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(
        table
            .columns
            .iter()
            .map(|column| escaped(&column.header))
            .collect(),
    );
    let rule = |align| match align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    };
    text += &line(
        table
            .columns
            .iter()
            .map(|column| rule(column.align))
            .collect(),
    );
    for row in &table.rows {
        let cells = (0..table.columns.len())
            .map(|index| row.get(index).map(|cell| escaped(cell)).unwrap_or_default());
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
