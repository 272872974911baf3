//! Estimates for the whole run, where it was sampled in slices.

use crate::analyzed::Analysis;
use crate::text::slices as text;
use crate::{Cell, Document, Table};

use super::kernels::name;

/// Adds the section where only slices were recorded.
pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(scaled) = text::scaled_totals(analysis) else {
        return;
    };
    let section = document.section("slices", "Scaled from slices");
    section.paragraph(text::BASIS);
    section.list(text::lines(analysis));
    let mut table = Table::new(&["Kernel", "Calls", "Time"], 1);
    for kernel in &scaled.by_kernel {
        table.row([
            name(&kernel.name),
            Cell::from(text::number(&kernel.calls)),
            Cell::from(text::interval(&kernel.time_ns)),
        ]);
    }
    section.table(table);
}
