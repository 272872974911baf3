//! Where phases stand under the roof of the device, as a section of the report.

use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_units::{Nanos, Percent, significant};

use crate::{Document, Table};

/// Adds the section where there are floors to stand on.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    if analysis.phases.iter().all(|phase| phase.floor.is_none()) {
        return;
    }
    document.heading("Roofline");
    let is_plain = analysis
        .phases
        .iter()
        .any(|phase| phase.plain_wall().is_some());
    document.paragraph(format!(
        "Intensity is operations per compulsory byte; below the ridge, bytes bind, above it, arithmetic. The whole-phase limit \
         lets all operators overlap: max(Σ operations ÷ peak, Σ bytes ÷ bandwidth). Shares are of the wall time {}. \
         plots/roofline.svg has every operator.",
        if is_plain { "without capture" } else { "of the captured pass" }
    ));
    let mut table = Table::new(
        &[
            "Phase",
            "Bound by",
            "FLOP/B",
            "Ridge, FLOP/B",
            "Operations",
            "Compulsory bytes",
            "Floor",
            "Whole-phase limit",
        ],
        2,
    );
    let mut homes = Vec::new();
    for phase in &analysis.phases {
        let Some(floor) = &phase.floor else { continue };
        let wall = phase.plain_wall().unwrap_or(phase.waterfall.wall_ns);
        let share = |time: Nanos| {
            let share = Percent(time.0 as f64 / wall.0.max(1) as f64);
            format!("{time} ({share})")
        };
        table.row([
            phase.name().to_owned(),
            floor.binds.to_string(),
            floor.intensity.map_or_else(dash, significant),
            floor.ridge.map_or_else(dash, significant),
            floor.flops.to_string(),
            floor.compulsory_bytes.to_string(),
            share(floor.floor_ns),
            share(floor.whole_ns),
        ]);
        homes.extend(home(phase));
    }
    document.table(table);
    document.list(homes);
}

/// Which memory the bytes of a step live in.
fn home(phase: &PhaseAnalysis) -> Option<String> {
    let residence = phase.residence.as_ref()?;
    let capacity = residence
        .capacity_bytes
        .map(|capacity| format!(", which holds {capacity}"))
        .unwrap_or_default();
    Some(format!(
        "{}: weights, cache, inputs and outputs of a step are {}; they live in {}{capacity}.",
        phase.name(),
        residence.bytes_per_step,
        match residence.name.as_str() {
            "main" => "main memory",
            name => name,
        },
    ))
}

fn dash() -> String {
    "–".to_owned()
}
