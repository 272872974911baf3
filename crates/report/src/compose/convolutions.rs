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

/// Which arguments are the input and the weights, by the signatures of torch's operators.
fn tensors(name: &str) -> (Option<usize>, Option<usize>) {
    match name {
        // (size, gradient of the output, weights) and (size, gradient of the output, input)
        _ if name.ends_with("_backward_input") => (None, Some(2)),
        _ if name.ends_with("_backward_weight") => (Some(2), None),
        // (input, gradient of the output, weights)
        "aten::cudnn_convolution_backward" | "aten::miopen_convolution_backward" => {
            (Some(0), Some(2))
        }
        // (gradient of the output, input, weights)
        _ if name.contains("backward") => (Some(1), Some(2)),
        _ => (Some(0), Some(1)),
    }
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
        let (input, weights) = tensors(name);
        let shape_at = |argument: Option<usize>| {
            let shape = argument.and_then(|argument| shape.inputs.get(argument));
            Cell::from(shape.map_or("–", String::as_str))
        };
        table.row([
            Cell::event(name),
            shape_at(input),
            shape_at(weights),
            Cell::number(shape.times.calls as f64, shape.times.calls),
            Cell::number(time.0 as f64, time),
            Cell::number(per_call, Nanos(per_call.round() as i64)),
        ]);
    }
    document
        .section("convolutions", "Convolution shapes")
        .table(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_have_their_arguments_in_another_order() {
        assert_eq!(tensors("aten::cudnn_convolution"), (Some(0), Some(1)));
        assert_eq!(tensors("aten::convolution_backward"), (Some(1), Some(2)));
        let weight = tensors("aten::cudnn_convolution_backward_weight");
        assert_eq!(weight, (Some(2), None));
        let input = tensors("aten::cudnn_convolution_backward_input");
        assert_eq!(input, (None, Some(2)));
    }
}
