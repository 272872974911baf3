//! Text, lists and plain tables.

use super::lines;
use crate::{Align, Block, Table, chart::escaped};

/// The parts of a document, inside a section that has its own heading.
pub(super) fn blocks(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        text += &match block {
            Block::Heading(level, heading) => {
                let level = (*level).clamp(1, 4) + 2;
                format!("<h{level}>{}</h{level}>\n", escaped(heading))
            }
            Block::Paragraph(paragraph) => format!("<p>{}</p>\n", prose(paragraph)),
            Block::List(items) => format!("<ul>\n{}</ul>\n", lines("li", items)),
            Block::Table(table) => self::table(table),
        };
    }
    text
}

fn table(table: &Table) -> String {
    let class = |index: usize| match table.columns[index].align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    };
    let mut text = "<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
    for (index, column) in table.columns.iter().enumerate() {
        text += &format!("<th{}>{}</th>", class(index), escaped(&column.header));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += "<tr>";
        for index in 0..table.columns.len() {
            let cell = row.get(index).map_or("", String::as_str);
            text += &format!("<td{}>{}</td>", class(index), escaped(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

/// Running text with the two marks that documents use, `code` and **strong**; a mark without its partner stays as it is.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split('`');
    let mut prose = pieces.next().unwrap_or_default().to_owned();
    while let Some(code) = pieces.next() {
        if let Some(next) = pieces.next() {
            out += &strong(&prose);
            out += &format!("<code>{}</code>", escaped(code));
            next.clone_into(&mut prose);
        } else {
            prose = format!("{prose}`{code}");
        }
    }
    out + &strong(&prose)
}

fn strong(text: &str) -> String {
    let text = escaped(text);
    let pieces: Vec<&str> = text.split("**").collect();
    let pairs = (pieces.len() - 1) / 2;
    let mut out = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        out += match index {
            0 => "",
            index if index > 2 * pairs => "**",
            index if index % 2 == 1 => "<strong>",
            _ => "</strong>",
        };
        out += piece;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_need_their_partner() {
        assert_eq!(
            prose("a `b<c` **d** e"),
            "a <code>b&lt;c</code> <strong>d</strong> e"
        );
        assert_eq!(prose("a ` b"), "a ` b");
        assert_eq!(prose("`x` and ` y"), "<code>x</code> and ` y");
        assert_eq!(prose("2 ** 3"), "2 ** 3");
        assert_eq!(prose("**a** ** b"), "<strong>a</strong> ** b");
        assert_eq!(prose(""), "");
    }

    #[test]
    fn cells_are_escaped_and_short_rows_filled() {
        let mut view = Table::new(&["Kernel", "Time"], 1);
        view.row(["</table>"]);
        let text = table(&view);
        assert!(
            text.contains("<tr><td>&lt;/table&gt;</td><td class=\"n\"></td></tr>"),
            "{text}"
        );
    }
}
