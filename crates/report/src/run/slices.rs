//! What slices say of the whole, where recording kept within a budget.

use llmprof_analysis::Analysis;
use llmprof_analysis::trace::scaled::Scaled;
use llmprof_record::kernel_name::brief;

use super::kernels::LONGEST_NAME;
use crate::{Document, Table};

/// The heading.
const TITLE: &str = "Scaled from slices";

/// What slices say; nothing where all of the time was recorded.
pub(super) fn of(analysis: &Analysis) -> Option<&Scaled> {
    analysis.timeline.as_ref()?.scaled.as_ref()
}

/// The sentences for the conclusion.
pub(super) fn lines(analysis: &Analysis) -> Vec<String> {
    let told = |scaled: &Scaled| {
        let mut lines = vec![scaled.basis()];
        lines.extend(scaled.totals());
        lines
    };
    of(analysis).map(told).unwrap_or_default()
}

/// Adds the section where only slices were recorded.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    let Some(scaled) = of(analysis) else { return };
    document.heading(TITLE);
    document.paragraph(
        "To keep within its budget, recording was on now and then. What lies between slices was not seen: it belongs to no phase \
         and is not idle time. These are sums over all of it, with 95 % intervals; the other tables are of what was recorded.",
    );
    document.list(lines(analysis));
    let mut table = Table::new(&["Kernel", "Calls", "Time"], 1);
    for kernel in &scaled.by_kernel {
        table.row([
            brief(&kernel.name, LONGEST_NAME),
            kernel.calls.number(),
            kernel.time_ns.time(),
        ]);
    }
    document.table(table);
}
