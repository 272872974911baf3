//! Operators and phases under the device's peaks.

use llmprof_theory::device::Device;
use llmprof_units::{DType, Nanos, Percent, format_significant};

use super::operators::{framework_points, kind_of};
use super::phases::sentences as text;
use crate::analyzed::Analysis;
use crate::document::{Document, Drawing, Table, key};
use crate::text::dash;
use crate::view::{PlottedOperator, Roofline, RooflineCeiling};

/// Adds the section where there are peaks to compare with.
pub(super) fn add(document: &mut Document, analysis: &Analysis, device: Option<&Device>) {
    let chart = device
        .map(|device| chart(analysis, device))
        .filter(|roofline| !roofline.points.is_empty());
    let has_phases = analysis.phases.iter().any(|phase| phase.roofline.is_some());
    if chart.is_none() && !has_phases {
        return;
    }
    let section = document.section("roofline", "Roofline");
    if let Some(chart) = chart {
        section.chart("roofline", Drawing::Roofline(chart));
    }
    if has_phases {
        section.paragraph(text::roofline_basis(analysis));
        section.table(phases(analysis));
        section.list(analysis.phases.iter().filter_map(text::residence).collect());
    }
}

fn phases(analysis: &Analysis) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "Bound by",
            "FLOP/B",
            "Ridge point, FLOP/B",
            "FLOPs",
            "Minimum DRAM traffic",
            "Roofline time",
            "With perfect overlap",
        ],
        2,
    );
    for phase in &analysis.phases {
        let Some(roofline) = &phase.roofline else {
            continue;
        };
        let wall = phase.unrecorded_wall().unwrap_or(phase.waterfall.wall_ns);
        let share = |time: Nanos| {
            let share = Percent(time.0 as f64 / wall.0.max(1) as f64);
            format!("{time} ({share})")
        };
        table.keyed(
            format!("roofline-{}", key(phase.name())),
            [
                phase.name().to_owned(),
                roofline.binds.to_string(),
                roofline.intensity.map_or_else(dash, format_significant),
                roofline.ridge.map_or_else(dash, format_significant),
                roofline.flops.to_string(),
                roofline.min_dram_bytes.to_string(),
                share(roofline.roofline_ns),
                share(roofline.whole_ns),
            ],
        );
    }
    table
}

fn chart(analysis: &Analysis, device: &Device) -> Roofline {
    // A device has peaks for more formats than a run uses; their lines would hide the points.
    let mut used: Vec<DType> = analysis
        .phases
        .iter()
        .flat_map(|phase| phase.by_path.iter().map(|group| group.dtype))
        .collect();
    if used.is_empty() {
        // A trace of an unknown model: the formats of most GEMMs.
        used.extend([DType::Bf16, DType::F32]);
    }
    let roofs = device
        .peaks
        .iter()
        .filter(|peak| used.contains(&peak.dtype))
        .map(|peak| RooflineCeiling {
            label: format!("{} {}", peak.dtype, peak.engine),
            peak_flops_per_s: peak.dense_flops_per_s,
            bandwidth: device.memory_bandwidth(),
            basis: peak.basis,
            is_own: peak.basis == llmprof_units::Basis::Measured,
        })
        .collect();
    let mut points = Vec::new();
    for phase in &analysis.phases {
        for group in &phase.by_path {
            if let Some(rate) = group.achieved_flops_per_s {
                points.push(PlottedOperator {
                    label: group.name.clone(),
                    kind: kind_of(phase, group),
                    phase: phase.name().to_owned(),
                    // Without DRAM traffic it has no place, but is one of those of which the chart says so.
                    intensity: group.intensity.unwrap_or(f64::INFINITY),
                    flops_per_s: rate,
                    time_ns: group.measured_ns,
                    calls: group.calls,
                    anchor: None,
                });
            }
        }
    }
    if !points.iter().any(PlottedOperator::is_drawable) {
        points = framework_points(analysis);
    }
    Roofline {
        roofs,
        points,
        ..Roofline::default()
    }
}
