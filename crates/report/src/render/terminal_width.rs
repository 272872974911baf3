//! Text in lines of a width. Nothing is left out: long lines are wrapped at words; a table has its widest text columns shortened,
//! and where that is not enough, each row is a block of `NAME: value`.

use super::terminal::{aligned_lines, cell_lines, document_with, table as whole_table};
use crate::document::{Align, Document, Table};

/// Characters that a shortened column keeps: the start of a kernel's name tells it from others.
const SHORTENED_MIN: usize = 24;

/// Columns of sentences keep this share of their width: the end of a hint is worth as much as its start.
const SENTENCE_KEPT_SHARE: f64 = 0.7;

/// Spaces between columns, and between the values of a block.
const GAP: usize = 2;

/// A line as lines of at most `width` characters, those after the first indented as far as its own text. A word that is longer
/// than a line, such as a path, stays whole.
pub fn wrap(line: &str, width: usize) -> String {
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

/// A table in at most `width` characters.
pub fn table(table: &Table, width: usize) -> String {
    let mut lines = cell_lines(table);
    let widths = column_widths(&lines, table.columns.len());
    if total_width(&widths) <= width {
        return whole_table(table);
    }
    let Some(kept) = shortened_widths(table, &lines, widths, width) else {
        return blocks(&lines, width);
    };
    for line in &mut lines {
        for (cell, &kept) in line.iter_mut().zip(&kept) {
            shorten_cell(cell, kept);
        }
    }
    aligned_lines(table, &lines)
}

/// A document in at most `width` characters.
pub fn document(document: &Document, width: usize) -> String {
    // Rows have two spaces between columns and are fitted already.
    let is_row = |line: &str| line.trim_start().contains("  ");
    let text = document_with(document, |part| table(part, width));
    let lines = text.lines().map(|line| {
        if is_row(line) {
            line.to_owned()
        } else {
            wrap(line, width)
        }
    });
    lines.map(|line| line + "\n").collect()
}

fn column_widths(lines: &[Vec<String>], columns: usize) -> Vec<usize> {
    let widest = |index: usize| {
        let cells = lines.iter().filter_map(|line| line.get(index));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(widest).collect()
}

fn total_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The widths of the columns where text columns, the widest first, are cut to `width` in all; `None` where that would leave too
/// little of one.
fn shortened_widths(
    table: &Table,
    lines: &[Vec<String>],
    mut widths: Vec<usize>,
    width: usize,
) -> Option<Vec<usize>> {
    let least: Vec<usize> = (0..widths.len())
        .map(|index| {
            let column = &table.columns[index];
            let header = column.header.chars().count();
            let share = if is_sentence(lines, index) {
                (widths[index] as f64 * SENTENCE_KEPT_SHARE).ceil() as usize
            } else {
                0
            };
            match column.align {
                Align::Left => widths[index].min(SHORTENED_MIN.max(header).max(share)),
                Align::Right => widths[index],
            }
        })
        .collect();
    while total_width(&widths) > width {
        let (_, index) = (0..widths.len())
            .filter(|&index| widths[index] > least[index])
            .map(|index| (widths[index], index))
            .max()?;
        widths[index] -= 1;
    }
    Some(widths)
}

/// Whether a column has values of several words, such as hints and overrides.
fn is_sentence(lines: &[Vec<String>], index: usize) -> bool {
    let mut cells = lines.iter().skip(1).filter_map(|line| line.get(index));
    // Template arguments of a kernel's name have spaces too.
    cells.any(|cell| cell.contains(' ') && !cell.contains(['<', '(']))
}

fn shorten_cell(cell: &mut String, width: usize) {
    if cell.chars().count() > width
        && let Some((end, _)) = cell.char_indices().nth(width.saturating_sub(1))
    {
        cell.truncate(end);
        cell.push('…');
    }
}

/// Each row as `NAME: value`, as many in a line as it has room for, and an empty line between rows.
fn blocks(lines: &[Vec<String>], width: usize) -> String {
    let Some((headers, rows)) = lines.split_first() else {
        return String::new();
    };
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let mut column = 0;
        for (header, cell) in headers.iter().zip(row) {
            if cell.is_empty() {
                continue;
            }
            let pair = match header.as_str() {
                "" => cell.clone(),
                header => format!("{header}: {cell}"),
            };
            let length = pair.chars().count();
            if column > 0 && column + GAP + length > width {
                text.push('\n');
                column = 0;
            }
            if column > 0 {
                text.push_str(&" ".repeat(GAP));
                column += GAP;
            }
            text += &wrap(&pair, width);
            column += length;
        }
        text.push('\n');
    }
    text
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

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn a_table_shortens_names_before_anything_else() {
        let mut kernels = Table::new(&["KERNEL", "TIME", "OCCUPANCY"], 1);
        let name = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn";
        kernels.row([name, "12 ms", "50 %"]);
        assert_eq!(table(&kernels, 100), whole_table(&kernels));
        assert_eq!(
            table(&kernels, 45),
            "KERNEL                        TIME  OCCUPANCY\nampere_bf16_s16816gemm_bf1…  12 ms       50 %\n"
        );
    }

    #[test]
    fn rows_are_blocks_where_columns_do_not_fit() {
        let mut kernels = Table::new(&["KERNEL", "TIME", "OCCUPANCY", "NOTE"], 1);
        kernels.row(["gemm", "12 ms", "50 %", ""]);
        kernels.row(["softmax", "1 ms", "–", "cast"]);
        assert_eq!(
            table(&kernels, 25),
            "KERNEL: gemm  TIME: 12 ms\nOCCUPANCY: 50 %\n\nKERNEL: softmax\nTIME: 1 ms  OCCUPANCY: –\nNOTE: cast\n"
        );
    }

    #[test]
    fn no_width_loses_a_column_or_a_hint() {
        let mut checks = Table::new(&["CHECK", "FOUND", "FIX"], 3);
        checks.row([
            "perf events",
            "2",
            "sudo sysctl kernel.perf_event_paranoid=1 and run it again",
        ]);
        for width in 40..90 {
            let text = table(&checks, width);
            assert!(widest(&text) <= width, "{width}: {text}");
            for part in ["CHECK", "FOUND", "FIX", "perf events", "sudo sysctl"] {
                assert!(text.contains(part), "{width}: {text}");
            }
        }
    }

    #[test]
    fn tables_of_a_document_are_fitted_too() {
        let mut operators = Table::new(&["OPERATOR", "CALLS", "ROOFLINE TIME", "BOUND BY"], 1);
        operators.row(["attention", "24", "1.25 ms", "memory"]);
        let mut cost = Document::new("A model");
        cost.paragraph("Times are those of one step, at the clocks of the datasheet.");
        cost.table(operators);
        let text = document(&cost, 40);
        assert!(text.contains("BOUND BY: memory"), "{text}");
        assert!(widest(&text) <= 40, "{text}");
    }
}
