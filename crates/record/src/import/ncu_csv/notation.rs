//! How the numbers of a page are written: a comma may stand between thousands or before decimals.

use super::Sink;
use super::launch::LaunchColumns;
use crate::counters::unit::{Notation, Shown};
use crate::import::csv_text::CsvText;
use crate::issue::{Issue, IssueCode};

/// The notation of all numbers of a page, by those that can be of one notation only. A page without any is taken for one with a
/// decimal point, and says so where that decides a value.
pub(super) fn detect_notation(bytes: &[u8], sink: &mut Sink<'_>) -> Notation {
    let (mut point, mut comma, mut either) = (0_u64, 0_u64, 0_u64);
    let Some(mut table) = CsvText::find(bytes, super::is_header) else {
        return Notation::Point;
    };
    let columns = value_columns(&table);
    while let Some(row) = table.next_row() {
        for cell in columns.iter().filter_map(|at| row.cells.get(*at)) {
            match Notation::shown_by(cell) {
                Shown::Only(Notation::Point) => point += 1,
                Shown::Only(Notation::Comma) => comma += 1,
                Shown::Either => either += 1,
                Shown::Nothing => {}
            }
        }
    }
    if point > 0 && comma > 0 {
        let issue = Issue::error(IssueCode::NcuTwoNotations).with("points", point);
        sink.lose(issue.with("commas", comma));
    } else if point == 0 && comma == 0 && either > 0 {
        sink.lose(Issue::warning(IssueCode::NcuNotationAssumed).with("numbers", either));
    }
    if comma > point {
        Notation::Comma
    } else {
        Notation::Point
    }
}

/// Columns of values: those of a row per metric, or all that are metrics.
fn value_columns(table: &CsvText<'_>) -> Vec<usize> {
    let named = [
        "Metric Value",
        "Estimated Speedup",
        "Minimum",
        "Maximum",
        "Average",
    ];
    let columns: Vec<usize> = named.iter().filter_map(|name| table.column(name)).collect();
    if !columns.is_empty() {
        return columns;
    }
    let all = table.header.iter().enumerate();
    all.filter(|(_, name)| !LaunchColumns::is_shared(name))
        .map(|(at, _)| at)
        .collect()
}
