use super::launch::LaunchColumns;
use super::{NcuError, Sink, details};
use crate::counters::{Metric, MetricId, Reading, unit};
use crate::import::csv_text::CsvText;
use crate::issue::{Issue, IssueCode};

/// A column of the raw page.
struct MetricColumn {
    at: usize,
    id: MetricId,
    name: String,
    printed_unit: String,
    exponent: i32,
}

/// The page with a column per metric: a row of units, then a row per launch.
pub(super) fn read(mut table: CsvText<'_>, sink: &mut Sink<'_>) -> Result<(), NcuError> {
    let mut columns = LaunchColumns::from_header(&table, sink.place)?;
    let Some(units) = table.next_row() else {
        sink.lose(Issue::warning(IssueCode::NcuNoRows));
        return Ok(());
    };
    let width = table.header.len();
    if units.cells.len() != width || units.cells.first().is_some_and(|cell| !cell.is_empty()) {
        sink.lose(Issue::warning(IssueCode::NcuBadUnits).with("line", units.line));
        return Ok(());
    }
    let metrics: Vec<MetricColumn> = table
        .header
        .iter()
        .zip(&units.cells)
        .enumerate()
        .filter(|(_, (name, _))| !LaunchColumns::is_shared(name))
        .map(|(at, (name, printed_unit))| {
            let scaled = unit::base_unit(printed_unit);
            let id = sink.builder.metric(Metric {
                section: String::new(),
                label: String::new(),
                name: name.clone(),
                unit: scaled.base,
            });
            MetricColumn {
                at,
                id,
                name: name.clone(),
                printed_unit: printed_unit.clone(),
                exponent: scaled.exponent,
            }
        })
        .collect();

    while let Some(row) = table.next_row() {
        let is_cut = row.cut_after.is_some_and(|byte| byte != b'"');
        if row.cells.len() != width || is_cut {
            let issue = Issue::warning(IssueCode::NcuCutRow).with("line", row.line);
            sink.lose(issue.with("cells", row.cells.len()));
            continue;
        }
        let Some(launch) = sink.launch_of(&row, &mut columns) else {
            continue;
        };
        for metric in &metrics {
            let cell = &row.cells[metric.at];
            let value = details::parse_value(cell, metric.exponent, sink.notation);
            if details::is_suspect(&value, &metric.printed_unit) {
                let issue = Issue::warning(IssueCode::NcuBadValue).with("line", row.line);
                let issue = issue.with("metric", metric.name.as_str());
                sink.lose(issue.with("cell", cell.as_str()));
            }
            let reading = Reading {
                metric: metric.id,
                value,
                printed_unit: metric.printed_unit.clone(),
            };
            sink.reading(launch, reading, row.line);
        }
    }
    Ok(())
}
