//! Kernels classified from model and timeline, where counters were asked for and there are none.

use llmprof_theory::device::{Device, Engine};
use llmprof_units::{FlopsPerSecond, Percent};

use super::{kernel_report::sentences as text, kernels::sentences::hundredths};
use crate::analyzed::{Analysis, DerivedKernels, DerivedRow};
use crate::document::{Align, Cell, Column, Document, Drawing, Table};
use crate::view::{PlottedOperator, Roofline, RooflineCeiling, RooflineTitles};

/// Rows with an entry of their own.
const KERNELS_MAX: usize = 20;

pub(super) fn add(document: &mut Document, analysis: &Analysis, device: Option<&Device>) {
    let (Some(derived), Some(device)) = (&analysis.derived_kernels, device) else {
        return;
    };
    let section = document.section("kernel_classes", "Kernel classes (derived)");
    section.paragraph(text::derived_rule(derived));
    section.table(table(derived));
    let points: Vec<PlottedOperator> = derived.rows.iter().filter_map(point).collect();
    if !points.is_empty() {
        let section = document.section("kernel_roofline", "Kernel rooflines (derived)");
        section.chart(
            "kernel_roofline",
            Drawing::Roofline(chart(derived, device, points)),
        );
    }
    let section = document.section("kernel_report", "Kernel report (derived)");
    for (rank, row) in derived.rows.iter().take(KERNELS_MAX).enumerate() {
        section.heading(format!(
            "{}. {} ({}): {}, derived",
            rank + 1,
            row.operator,
            row.phase,
            text::class(row.class)
        ));
        let mut lines = text::derived_evidence(row);
        let advice = text::advice(row.class, text::CountedWork::of_kind(row.kind));
        lines.push(format!("Try: {advice}"));
        section.list(lines);
    }
}

fn table(derived: &DerivedKernels) -> Table {
    let mut table = Table::sortable(
        "kernels",
        Column::all([
            ("Phase", Align::Left),
            ("Operator", Align::Left),
            ("Class", Align::Left),
            ("Calls", Align::Right),
            ("Time", Align::Right),
            ("FLOP/s", Align::Right),
            ("Of peak", Align::Right),
            ("DRAM, at least", Align::Right),
            ("FLOP/B", Align::Right),
            ("Basis", Align::Left),
        ]),
    );
    table.rows_in_text = KERNELS_MAX;
    for row in &derived.rows {
        let percent = |value: f64| Cell::number(value, Percent(value / 100.0));
        table.row([
            Cell::from(row.phase.as_str()),
            Cell::from(row.operator.as_str()),
            Cell::from(text::class(row.class)),
            Cell::number(row.calls as f64, row.calls),
            Cell::number(row.total_ns.0 as f64, row.total_ns),
            Cell::number(row.flops_per_s(), FlopsPerSecond(row.flops_per_s())),
            row.flops_pct.map_or(Cell::Missing, percent),
            percent(row.dram_pct),
            row.intensity().map_or(Cell::Missing, |intensity| {
                Cell::number(intensity, hundredths(intensity))
            }),
            Cell::from(derived.basis.to_string()),
        ]);
    }
    table
}

fn point(row: &DerivedRow) -> Option<PlottedOperator> {
    Some(PlottedOperator {
        label: row.operator.clone(),
        kind: text::class(row.class).to_owned(),
        phase: row.phase.clone(),
        intensity: row.intensity()?,
        flops_per_s: FlopsPerSecond(row.flops_per_s()),
        time_ns: row.total_ns,
        calls: row.calls,
        anchor: None,
    })
}

fn chart(derived: &DerivedKernels, device: &Device, points: Vec<PlottedOperator>) -> Roofline {
    let is_used = |dtype| derived.rows.iter().any(|row| row.dtype == dtype);
    let peaks = device
        .peaks
        .iter()
        .filter(|peak| peak.engine == Engine::Tensor && is_used(peak.dtype));
    Roofline {
        titles: Some(RooflineTitles {
            title: "Kernels under the roofline, derived from model and timeline".to_owned(),
            intensity: "arithmetic intensity (FLOPs per byte of minimum DRAM traffic)".to_owned(),
            shapes: "phase",
            colors: "class",
            is_normalized: false,
        }),
        roofs: peaks
            .map(|peak| RooflineCeiling {
                label: format!("{} {}, DRAM", peak.engine, peak.dtype),
                peak_flops_per_s: peak.dense_flops_per_s,
                bandwidth: device.memory_bandwidth(),
                basis: peak.basis,
                is_own: peak.basis == llmprof_units::Basis::Measured,
            })
            .collect(),
        points,
        own_lacks_peak: false,
    }
}
