//! Graphs: the ops that their kernels were captured from.

pub mod sentences;

use llmprof_units::{FlopsPerSecond, Nanos, Percent};

use self::sentences as text;
use crate::analyzed::{Analysis, GraphOperatorRow};
use crate::document::{Align, Cell, Column, Document, Table};

/// Rows in a text; a page has all.
const ROWS_IN_TEXT: usize = 20;

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(graphs) = &analysis.graphs else {
        return;
    };
    let section = document.section("graphs", "CUDA/HIP graphs");
    section.paragraph(text::basis(graphs));
    // The sentence above has all that one row has.
    if graphs.operators.len() < 2 {
        return;
    }
    let mut table = Table::sortable(
        "ops in graphs",
        Column::all([
            ("Module", Align::Left),
            ("Op", Align::Left),
            ("Inputs", Align::Left),
            ("Calls", Align::Right),
            ("Kernels", Align::Right),
            ("Time", Align::Right),
            ("Share", Align::Right),
            ("FLOP/s", Align::Right),
            ("% of roofline", Align::Right),
        ]),
    );
    table.rows_in_text = ROWS_IN_TEXT;
    for row in &graphs.operators {
        table.push(None, cells(row, graphs.device_ns));
    }
    section.table(table.without_empty_columns());
}

fn cells(row: &GraphOperatorRow, whole: Nanos) -> Vec<Cell> {
    let number = |value: f64, text: String| Cell::Number { value, text };
    let known = |text: &Option<String>| text.clone().map_or(Cell::Missing, Cell::Text);
    let tensors: Vec<&str> = row
        .inputs
        .iter()
        .map(String::as_str)
        .filter(|input| input.contains('[') || input.contains('='))
        .collect();
    let inputs = tensors.join(" ");
    let share = row.device_ns.0 as f64 / whole.0.max(1) as f64;
    let rate = row
        .work
        .and_then(|work| work.flops_per_s)
        .filter(|rate| *rate > 0.0);
    let roofline = row.work.and_then(|work| work.roofline);
    vec![
        known(&row.module),
        row.operator.as_deref().map_or(Cell::Missing, Cell::event),
        if inputs.is_empty() {
            Cell::Missing
        } else {
            Cell::Text(inputs)
        },
        number(row.calls as f64, row.calls.to_string()),
        number(row.events as f64, row.events.to_string()),
        number(row.device_ns.0 as f64, row.device_ns.to_string()),
        number(share, Percent(share).to_string()),
        rate.map_or(Cell::Missing, |rate| {
            number(rate, FlopsPerSecond(rate).to_string())
        }),
        roofline.map_or(Cell::Missing, |part| {
            number(part, Percent(part).to_string())
        }),
    ]
}
