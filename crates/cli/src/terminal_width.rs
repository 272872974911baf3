//! Text for a terminal of some width: long lines are wrapped at words, tables lose columns. Pipes get neither.

use std::{io::IsTerminal, os::fd::AsFd};

use llmprof_report::{Document, Table, render::terminal};

/// Narrower terminals are written to as if they had this width.
const WIDTH_MIN: usize = 40;

/// The width to write a stream in; `None` where it is not a terminal.
pub(crate) fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then(|| usize::from(columns).max(WIDTH_MIN))
}

/// A line as lines of at most `width` characters, those after the first indented as far as its own text. A word that is longer
/// than a line, such as a path, stays whole.
pub(crate) fn wrap(line: &str, width: usize) -> String {
    let mut text = String::with_capacity(line.len());
    let indent = text_start(line).min(width / 2);
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if column > indent && column + length > width {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        }
        text.push_str(word);
        column += word.chars().count();
    }
    text
}

/// Where the text of a line begins, after its indent and the mark of a list: `1. ` or `- `.
fn text_start(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mark = line[indent..].split_inclusive(' ').next().unwrap_or("");
    let number = mark.trim_end().trim_end_matches('.');
    let is_number = mark.ends_with(". ") && number.bytes().all(|byte| byte.is_ascii_digit());
    if mark == "- " || is_number {
        indent + mark.len()
    } else {
        indent
    }
}

/// A table in at most `width` characters: its last columns are left out until it fits, and named below it.
pub(crate) fn fit_table(table: &Table, width: usize) -> String {
    let widest = |text: &str| {
        let lengths = text.lines().map(|line| line.chars().count());
        lengths.max().unwrap_or(0)
    };
    let mut fitted = table.clone();
    let mut text = terminal::table(&fitted);
    let mut dropped = Vec::new();
    while widest(&text) > width && fitted.columns.len() > 1 {
        dropped.extend(fitted.columns.pop().map(|column| column.header));
        for row in &mut fitted.rows {
            row.cells.truncate(fitted.columns.len());
        }
        text = terminal::table(&fitted);
    }
    if !dropped.is_empty() {
        dropped.reverse();
        let note = format!("(no room for {})", dropped.join(", "));
        text += &wrap(&note, width);
        text.push('\n');
    }
    text
}

/// A document in at most `width` characters: tables lose columns, other long lines are wrapped.
pub(crate) fn fit_document(document: &Document, width: usize) -> String {
    let is_row = |line: &str| line.trim_start().contains("  ");
    let text = terminal::document_with(document, |table| fit_table(table, width));
    let lines = text.lines().map(|line| {
        if is_row(line) {
            line.to_owned()
        } else {
            wrap(line, width)
        }
    });
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_words_below_their_own_text() {
        let line = "1. Decode is host-bound: the GPU is idle for 73 % of it.";
        assert_eq!(
            wrap(line, 40),
            "1. Decode is host-bound: the GPU is idle\n   for 73 % of it."
        );
        assert_eq!(wrap("short", 40), "short");
        let path = format!("report: /{}", "long/".repeat(12));
        let wrapped = wrap(&path, 40);
        assert_eq!(wrapped, format!("report:\n/{}", "long/".repeat(12)));
        for width in 40..120 {
            let text = "- ".to_owned() + &"words of some length ".repeat(9);
            for line in wrap(text.trim_end(), width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_table_loses_its_last_columns_and_says_so() {
        let mut table = Table::new(&["KERNEL", "TIME", "OCCUPANCY"], 1);
        table.row(["gemm", "12 ms", "50 %"]);
        assert_eq!(fit_table(&table, 40), terminal::table(&table));
        assert_eq!(
            fit_table(&table, 15),
            "KERNEL   TIME\ngemm    12 ms\n(no room for\nOCCUPANCY)\n"
        );
        assert!(fit_table(&table, 3).starts_with("KERNEL\ngemm\n"));
    }

    #[test]
    fn tables_of_a_document_lose_columns_too() {
        let mut table = Table::new(&["OPERATOR", "CALLS", "ROOFLINE TIME", "BOUND BY"], 1);
        table.row(["attention", "24", "1.25 ms", "memory"]);
        let mut document = Document::new("A model");
        document.paragraph("Times are those of one step, at the clocks of the datasheet.");
        document.table(table);
        let text = fit_document(&document, 40);
        assert!(text.contains("(no room for BOUND BY)\n"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 40, "{line}");
        }
    }
}
