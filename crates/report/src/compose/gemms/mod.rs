//! GEMMs of a cuBLAS log, joined to the kernels of the timeline.

pub mod sentences;

use llmprof_units::{FlopsPerSecond, Nanos, Percent};

use self::sentences as text;
use super::kernels::name;
use crate::analyzed::{Analysis, GemmShapeRow};
use crate::document::{Align, Cell, Column, Document, Table};

/// Rows in a text; a page has all.
const ROWS_IN_TEXT: usize = 20;

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(gemms) = &analysis.gemms else {
        return;
    };
    let section = document.section("gemms", "GEMMs with their shapes");
    section.paragraph(text::basis(gemms));
    let mut table = Table::sortable(
        "shapes",
        Column::all([
            ("m × n × k", Align::Left),
            ("Batch", Align::Right),
            ("dtype", Align::Left),
            ("Kernel", Align::Left),
            ("Calls", Align::Right),
            ("Time", Align::Right),
            ("Share", Align::Right),
            ("Mean", Align::Right),
            ("FLOP/s", Align::Right),
            ("% of roofline", Align::Right),
        ]),
    );
    table.rows_in_text = ROWS_IN_TEXT;
    for row in &gemms.shapes {
        table.push(None, cells(row, gemms.joined_ns));
    }
    section.table(table);
}

fn cells(row: &GemmShapeRow, whole: Nanos) -> Vec<Cell> {
    let gemm = &row.gemm;
    let mean = row.total_ns.0 as f64 / gemm.calls.max(1) as f64;
    let share = row.total_ns.0 as f64 / whole.0.max(1) as f64;
    vec![
        Cell::number(
            gemm.flops(),
            format_args!("{} × {} × {}", gemm.m, gemm.n, gemm.k),
        ),
        Cell::number(gemm.batch as f64, gemm.batch),
        Cell::from(gemm.dtype.as_str()),
        name(&row.kernel),
        Cell::number(gemm.calls as f64, gemm.calls),
        Cell::number(row.total_ns.0 as f64, row.total_ns),
        Cell::number(share, Percent(share)),
        Cell::number(mean, Nanos(mean.round() as i64)),
        Cell::number(row.flops_per_s, FlopsPerSecond(row.flops_per_s)),
        row.roofline
            .map_or(Cell::Missing, |part| Cell::number(part, Percent(part))),
    ]
}
