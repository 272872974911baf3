//! The theoretical cost of a model: `static_compute.md`, and what `llmprof model` prints.

pub mod sentences;

use llmprof_units::{Basis, Nanos, Percent, format_significant};

use self::sentences as text;
use crate::analyzed::{PhaseStatics, Statics, Sums};
use crate::text::dash;
use crate::{Document, Table};

pub use self::sentences::assumptions;

pub fn document(statics: &Statics) -> Document {
    let mut document = Document::new(text::title(statics));
    document.subtitle = text::subject(statics);
    document.section("phases", "Phases").table(phases(statics));
    for (name, phase) in statics.phases.iter() {
        let title = format!("{} by kind of operator", text::phase(name, phase));
        document
            .section(&format!("kinds-{name}"), title)
            .table(kinds(phase));
    }
    let memory = document.section("memory", "Memory");
    for line in text::memory(statics) {
        memory.paragraph(line);
    }
    document
        .section("assumptions", "How this was counted")
        .list(assumptions(statics));
    document
}

fn phases(statics: &Statics) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "FLOPs",
            "Weights",
            "KV read",
            "KV written",
            "Activations",
            "FLOP/B",
            "Roofline time",
            "Bound by",
        ],
        1,
    );
    for (name, phase) in statics.phases.iter() {
        let mut cells = vec![text::phase(name, phase)];
        cells.extend(sums(&phase.sums));
        cells.push(phase.roofline_ns.map_or_else(dash, |time| time.to_string()));
        let roofline = phase.roofline.as_ref();
        cells.push(roofline.map_or_else(dash, |roofline| roofline.binds.to_string()));
        table.row(cells);
    }
    table
}

fn kinds(phase: &PhaseStatics) -> Table {
    let mut table = Table::new(
        &[
            "Kind",
            "Calls",
            "FLOPs",
            "Weights",
            "KV read",
            "KV written",
            "Activations",
            "FLOP/B",
            "Roofline time",
            "Share",
        ],
        1,
    );
    let share = |time: Option<Nanos>| {
        let (time, whole) = (time?, phase.roofline_ns?);
        (whole.0 > 0).then(|| Percent(time.0 as f64 / whole.0 as f64).to_string())
    };
    for kind in &phase.kinds {
        let mut cells = vec![kind.kind.to_string(), kind.sums.calls.to_string()];
        cells.extend(sums(&kind.sums));
        cells.push(kind.roofline_ns.map_or_else(dash, |time| time.to_string()));
        cells.push(share(kind.roofline_ns).unwrap_or_else(dash));
        table.row(cells);
    }
    table
}

/// The cells that phases and kinds share.
fn sums(sums: &Sums) -> [String; 6] {
    let expected = match sums.basis {
        Basis::Expected => "≈ ",
        _ => "",
    };
    [
        sums.flops.to_string(),
        format!("{expected}{}", sums.weight_bytes),
        sums.kv_read_bytes.to_string(),
        sums.kv_write_bytes.to_string(),
        sums.activation_bytes.to_string(),
        sums.intensity.map_or_else(dash, format_significant),
    ]
}
