//! Phases: wall time with and without the profiler, bottleneck, utilization.

use llmprof_units::{Percent, Times};

use crate::analyzed::Analysis;
use crate::document::{Document, Table, key};
use crate::text::{dash, phases as text};

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    if analysis.phases.is_empty() {
        return;
    }
    let section = document.section("phases", "Phases");
    section.table(table(analysis));
    section.list(analysis.phases.iter().map(text::why).collect());
    if let Some(overhead) = text::overhead(analysis) {
        section.paragraph(overhead);
    }
}

fn table(analysis: &Analysis) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "Bottleneck",
            "Wall time, plain",
            "Wall time, profiled",
            "Profiling overhead",
            "MFU",
            "MBU",
        ],
        2,
    );
    for phase in &analysis.phases {
        let percent =
            |value: Option<f64>| value.map_or_else(dash, |value| Percent(value).to_string());
        let used = phase
            .plain_utilization
            .as_ref()
            .or(phase.utilization.as_ref());
        let plain = phase.plain_wall();
        let overhead = phase.capture_ratio;
        table.keyed(
            format!("phase-{}", key(phase.name())),
            [
                phase.name().to_owned(),
                text::class(phase),
                plain.map_or_else(dash, |wall| wall.to_string()),
                phase.waterfall.wall_ns.to_string(),
                overhead.map_or_else(dash, |ratio| Times(ratio).to_string()),
                percent(used.and_then(|used| used.mfu)),
                percent(used.and_then(|used| used.mbu)),
            ],
        );
    }
    table
}
