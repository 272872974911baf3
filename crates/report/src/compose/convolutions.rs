//! Convolutions by the shapes that the framework recorded.

use llmprof_units::Nanos;

use crate::analyzed::{Analysis, ShapeRow};
use crate::document::{Align, Cell, Column, Document, Table};

/// Rows in a text; a page has all.
const ROWS_IN_TEXT: usize = 20;

/// Operators that launch the kernels of convolutions; those around them only call these.
fn is_convolution(name: &str) -> bool {
    [
        "convolution",
        "conv2d",
        "conv3d",
        "conv1d",
        "conv_transpose",
    ]
    .iter()
    .any(|part| name.contains(part))
}

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return;
    };
    let operators = timeline.operators.iter();
    let operators = operators.filter(|operator| is_convolution(&operator.name));
    let mut rows: Vec<(&str, &ShapeRow)> = operators
        .flat_map(|operator| {
            operator
                .shapes
                .iter()
                .map(|shape| (operator.name.as_str(), shape))
        })
        .filter(|(_, shape)| shape.times.device_self_ns.0 > 0 && shape.inputs.len() > 1)
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(name, shape)| (std::cmp::Reverse(shape.times.device_self_ns), *name));
    let mut table = Table::sortable(
        "Convolution shapes",
        Column::all([
            ("Op", Align::Left),
            ("Input", Align::Left),
            ("Weights", Align::Left),
            ("Calls", Align::Right),
            ("Time", Align::Right),
            ("Per call", Align::Right),
        ]),
    );
    table.rows_in_text = ROWS_IN_TEXT;
    for (name, shape) in rows {
        let time = shape.times.device_self_ns;
        let per_call = time.0 as f64 / shape.times.calls.max(1) as f64;
        // The gradient of a convolution has that of its output first.
        let first = usize::from(name.contains("backward") && shape.inputs.len() > 2);
        table.row([
            Cell::from(name),
            Cell::from(shape.inputs[first].as_str()),
            Cell::from(shape.inputs[first + 1].as_str()),
            Cell::number(shape.times.calls as f64, shape.times.calls),
            Cell::number(time.0 as f64, time),
            Cell::number(per_call, Nanos(per_call.round() as i64)),
        ]);
    }
    document
        .section("convolutions", "Convolution shapes")
        .table(table);
}
