use super::launch::LaunchColumns;
use super::{NcuError, Sink};
use crate::counters::unit::{self, Notation};
use crate::counters::{EstimatedSpeedup, Metric, Reading, Rule, RuleKind, Value};
use crate::import::csv_text::{CsvText, Row};
use crate::issue::{Issue, IssueCode};

/// Where the columns lie that a row per metric or rule has.
struct DetailColumns {
    section: usize,
    label: Option<usize>,
    name: usize,
    unit: usize,
    value: usize,
    rule: Option<RuleColumns>,
    width: usize,
}

struct RuleColumns {
    name: usize,
    kind: usize,
    description: usize,
    speedup_kind: Option<usize>,
    speedup: Option<usize>,
}

impl DetailColumns {
    fn from_header(table: &CsvText<'_>, place: &str) -> Result<Self, NcuError> {
        let need = |column: &'static str| {
            table.column(column).ok_or_else(|| NcuError::MissingColumn {
                place: place.to_owned(),
                column,
            })
        };
        let rule = match (
            table.column("Rule Name"),
            table.column("Rule Type"),
            table.column("Rule Description"),
        ) {
            (Some(name), Some(kind), Some(description)) => Some(RuleColumns {
                name,
                kind,
                description,
                speedup_kind: table.column("Estimated Speedup Type"),
                speedup: table.column("Estimated Speedup"),
            }),
            _ => None,
        };
        Ok(Self {
            section: need("Section Name")?,
            label: table.column("Body Item Label"),
            name: need("Metric Name")?,
            unit: need("Metric Unit")?,
            value: need("Metric Value")?,
            rule,
            width: table.header.len(),
        })
    }

    /// Rows are whole in three lengths: all cells, up to the value, and up to the value with a comma after it.
    fn is_whole(&self, row: &Row) -> bool {
        let full = row.cells.len() == self.width;
        let with_comma = row.cells.len() == self.value + 2;
        let short = row.cells.len() == self.value + 1;
        match row.cut_after {
            None => full || with_comma || short,
            // The file ends here: only a closed cell, or the comma of a short row, shows that nothing is missing.
            Some(b'"') => full,
            Some(b',') => with_comma,
            Some(_) => false,
        }
    }
}

/// The pages with a row per metric or rule.
pub(super) fn read(mut table: CsvText<'_>, sink: &mut Sink<'_>) -> Result<(), NcuError> {
    let mut launches = LaunchColumns::from_header(&table, sink.place)?;
    let columns = DetailColumns::from_header(&table, sink.place)?;
    let mut rows = 0_u64;
    while let Some(row) = table.next_row() {
        rows += 1;
        if !columns.is_whole(&row) {
            let issue = Issue::warning(IssueCode::NcuCutRow).with("line", row.line);
            sink.lose(issue.with("cells", row.cells.len()));
            continue;
        }
        let Some(launch) = sink.launch_of(&row, &mut launches) else {
            continue;
        };
        let rule_name = columns
            .rule
            .as_ref()
            .and_then(|rule| row.cells.get(rule.name));
        match (&columns.rule, rule_name) {
            (Some(rule), Some(name)) if !name.is_empty() => {
                read_rule(&columns, rule, &row, launch, sink);
            }
            _ => read_metric(&columns, &row, launch, sink),
        }
    }
    if rows == 0 {
        sink.lose(Issue::warning(IssueCode::NcuNoRows));
    }
    Ok(())
}

fn read_metric(columns: &DetailColumns, row: &Row, launch: usize, sink: &mut Sink<'_>) {
    let name = &row.cells[columns.name];
    if name.is_empty() {
        sink.lose(Issue::warning(IssueCode::NcuNameless).with("line", row.line));
        return;
    }
    let printed_unit = &row.cells[columns.unit];
    let scaled = unit::base_unit(printed_unit);
    let cell = &row.cells[columns.value];
    let value = parse_value(cell, scaled.exponent, sink.notation);
    if is_suspect(&value, printed_unit) {
        let issue = Issue::warning(IssueCode::NcuBadValue).with("line", row.line);
        let issue = issue.with("metric", name.as_str());
        sink.lose(issue.with("cell", cell.as_str()));
    }
    let metric = sink.builder.metric(Metric {
        section: row.cells[columns.section].clone(),
        label: columns
            .label
            .map_or_else(String::new, |at| row.cells[at].clone()),
        name: name.clone(),
        unit: scaled.base,
    });
    let reading = Reading {
        metric,
        value,
        printed_unit: printed_unit.clone(),
    };
    sink.reading(launch, reading, row.line);
}

fn read_rule(
    columns: &DetailColumns,
    rule: &RuleColumns,
    row: &Row,
    launch: usize,
    sink: &mut Sink<'_>,
) {
    let cell = |at: Option<usize>| {
        at.and_then(|at| row.cells.get(at))
            .map_or("", String::as_str)
    };
    let speedup = match (cell(rule.speedup_kind), cell(rule.speedup)) {
        ("", "") => None,
        (kind @ ("global" | "local"), percent) => match unit::scale_from(percent, 0, sink.notation)
        {
            Some(percent) => Some(EstimatedSpeedup {
                of_whole_kernel: kind == "global",
                percent,
            }),
            None => bad_speedup(row, percent, sink),
        },
        (kind, _) => bad_speedup(row, kind, sink),
    };
    let kind = match cell(Some(rule.kind)) {
        "OPT" => RuleKind::Optimization,
        "INF" => RuleKind::Information,
        "WRN" => RuleKind::Warning,
        other => RuleKind::Other(other.to_owned()),
    };
    let rule = Rule {
        section: row.cells[columns.section].clone(),
        name: cell(Some(rule.name)).to_owned(),
        kind,
        description: cell(Some(rule.description)).to_owned(),
        speedup,
    };
    let rules = &mut sink.builder.counters.launches[launch].rules;
    // Pages of one report repeat the rules of the sections they have in common.
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}

fn bad_speedup(row: &Row, cell: &str, sink: &mut Sink<'_>) -> Option<EstimatedSpeedup> {
    let issue = Issue::warning(IssueCode::NcuBadSpeedup).with("line", row.line);
    sink.lose(issue.with("cell", cell));
    None
}

/// What a cell holds, with a number moved to the base unit.
pub(super) fn parse_value(cell: &str, exponent: i32, notation: Notation) -> Value {
    if matches!(
        cell,
        "" | "n/a" | "N/A" | "no data" | "nan" | "-nan" | "inf" | "-inf"
    ) {
        return Value::Absent;
    }
    match unit::scale_from(cell, exponent, notation) {
        Some(number) => Value::Number(number),
        None => Value::Text(cell.to_owned()),
    }
}

/// Whether a text stands where a number belongs: beside a unit, or beginning like one.
pub(super) fn is_suspect(value: &Value, printed_unit: &str) -> bool {
    match value {
        Value::Text(text) => {
            !printed_unit.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        }
        Value::Number(_) | Value::Absent => false,
    }
}
