//! Phases: wall time with and without the profiler, bottleneck, utilization.

pub mod sentences;

use llmprof_units::{Percent, Times};

use self::sentences as text;
use crate::analyzed::{Analysis, PhaseAnalysis};
use crate::document::{Cell, Document, Table, key};

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

/// The phase in a table, with its place on the timeline.
pub(super) fn phase_cell(phase: &PhaseAnalysis) -> Cell {
    Cell::Phase {
        label: phase.name().to_owned(),
        name: phase.phase.to_string(),
    }
}

fn table(analysis: &Analysis) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "Bottleneck",
            text::plain_wall(analysis),
            "Wall time, profiled",
            "Profiling overhead",
            "MFU",
            "MBU",
        ],
        2,
    );
    for phase in &analysis.phases {
        let known = |text: Option<String>| text.map_or(Cell::Missing, Cell::from);
        let percent = |value: Option<f64>| known(value.map(|value| Percent(value).to_string()));
        let used = phase
            .plain_utilization
            .as_ref()
            .or(phase.utilization.as_ref());
        let cells = vec![
            phase_cell(phase),
            Cell::from(text::class(phase)),
            known(phase.unrecorded_wall().map(|wall| wall.to_string())),
            Cell::from(phase.waterfall.wall_ns.to_string()),
            known(phase.capture_ratio.map(|ratio| Times(ratio).to_string())),
            percent(used.and_then(|used| used.mfu)),
            known(used.and_then(|used| used.mbu).map(|mbu| {
                let most = text::at_most(phase).unwrap_or("");
                format!("{most}{}", Percent(mbu))
            })),
        ];
        table.push(Some(format!("phase-{}", key(phase.name()))), cells);
    }
    table.without_empty_columns()
}
