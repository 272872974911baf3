//! Plain text in aligned columns, readable without colour.

use crate::{Align, Block, Document, Table};

/// The whole document.
pub fn document(document: &Document) -> String {
    let mut text = format!("{}\n", document.title);
    for block in &document.blocks {
        text.push('\n');
        match block {
            Block::Heading(_, heading) => text += &format!("{}\n", heading.to_uppercase()),
            Block::Paragraph(paragraph) => text += &format!("{paragraph}\n"),
            Block::List(items) => {
                for item in items {
                    text += &format!("  - {item}\n");
                }
            }
            Block::Table(table) => text += &self::table(table),
        }
    }
    text
}

/// One table, two spaces between columns, no line ending in a space.
pub fn table(table: &Table) -> String {
    let headers: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.header.clone())
        .collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&headers).chain(&table.rows).collect();
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

    #[test]
    fn columns_align_by_characters() {
        let mut table = Table::new(&["PHASE", "TIME"], 1);
        table.row(["prefill", "2 µs"]).row(["décode", "10 ms"]);
        assert_eq!(
            super::table(&table),
            "PHASE     TIME\nprefill   2 µs\ndécode   10 ms\n"
        );
    }
}
