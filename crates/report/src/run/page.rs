use llmprof_analysis::matching::OperatorGroup;
use llmprof_analysis::stats::Distribution;
use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_record::issue::Issue;
use llmprof_theory::device::Device;
use llmprof_units::{DType, Nanos, Percent};

use super::{
    full::{device, document, parts_of_the_wall},
    kernels, steps,
    words::{asked, conclusion},
};
use crate::{
    Align, Block, Column, Document,
    view::{
        Cell, Histogram, Mark, OperatorTable, Part, PartKind, ReportView, Roof, Roofline,
        RooflinePoint, Section, Series, Timeline, Unit, Waterfall, WaterfallPart,
    },
};

/// What a page shows beside the analysis.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Events over time.
    pub timeline: Option<Timeline>,
    /// Sampled values.
    pub telemetry: Vec<Series>,
    /// Gaps between tokens, ns.
    pub gaps_ns: Vec<f64>,
}

/// The page of a run.
pub fn view(
    analysis: &Analysis,
    issues: &[Issue],
    limits: Option<&Device>,
    extras: Extras,
) -> ReportView {
    let mut sections = vec![Section::new("Where the time went", waterfalls(analysis))];
    if let Some(roofline) = limits
        .map(|limits| roofline(analysis, limits))
        .filter(|roofline| !roofline.points.is_empty())
    {
        sections.push(Section::new("Roofline", vec![Part::Roofline(roofline)]));
    }
    if let Some(timeline) = extras.timeline {
        sections.push(Section::new(
            "Timeline of the captured pass",
            vec![Part::Timeline(timeline)],
        ));
    }
    let table = operators(analysis);
    if !table.rows.is_empty() {
        sections.push(Section::new("Operators", vec![Part::Operators(table)]));
    }
    if let Some(table) = kernels::table(analysis) {
        sections.push(Section::new("Kernels", vec![Part::Operators(table)]));
    }
    if let Some(table) = kernels::framework_table(analysis) {
        sections.push(Section::new(
            "Operators of the framework",
            vec![Part::Operators(table)],
        ));
    }
    if let Some(found) = steps::of(analysis) {
        sections.push(Section::new(steps::TITLE, steps::parts(found)));
    }
    let of_phases = step_histograms(analysis);
    if !of_phases.is_empty() && !steps::replace_phases(analysis) {
        sections.push(Section::new("Steps of decode", of_phases));
    }
    if let Some(gaps) = &analysis.latency.itl_ns {
        let histogram = Histogram::of(
            "Gaps between tokens",
            Unit::Nanoseconds,
            &extras.gaps_ns,
            percentiles(gaps),
        );
        sections.push(Section::new("Latency", vec![Part::Histogram(histogram)]));
    }
    if !extras.telemetry.is_empty() {
        let parts = extras.telemetry.into_iter().map(Part::Series).collect();
        sections.push(Section::new("Telemetry", parts));
    }
    sections.push(Section::new(
        "All figures",
        vec![Part::Document(rest(analysis))],
    ));
    ReportView {
        title: format!("{} on {}", analysis.model, device(analysis)),
        subtitle: asked(analysis).unwrap_or_default(),
        conclusion: conclusion(analysis),
        issues: issues.to_vec(),
        sections,
    }
}

pub(super) fn percentiles(values: &Distribution) -> Vec<Mark> {
    [
        ("p50", values.p50),
        ("p90", values.p90),
        ("p99", values.p99),
    ]
    .map(|(label, value)| Mark {
        label: label.to_owned(),
        value,
    })
    .into()
}

/// How long steps of decode took, where a trace shows them.
fn step_histograms(analysis: &Analysis) -> Vec<Part> {
    let histogram = |phase: &PhaseAnalysis| {
        let traced = phase.traced.as_ref()?;
        let steps: Vec<f64> = traced.step_ns.iter().map(|&step| step as f64).collect();
        Some(Part::Histogram(Histogram::of(
            format!("Steps of {}", phase.name()),
            Unit::Nanoseconds,
            &steps,
            percentiles(traced.steps.as_ref()?),
        )))
    };
    analysis.phases.iter().filter_map(histogram).collect()
}

/// The report without what the page shows elsewhere.
fn rest(analysis: &Analysis) -> Document {
    let mut whole = document(analysis, &[]);
    let shown = ["Conclusion", "Operators", "Kernels", steps::TITLE];
    let mut keep = true;
    whole.blocks.retain(|block| {
        if let Block::Heading(1, title) = block {
            keep = !shown.contains(&title.as_str());
        }
        keep
    });
    whole
}

fn waterfalls(analysis: &Analysis) -> Vec<Part> {
    if analysis.phases.is_empty() {
        return Vec::new();
    }
    let mut what = Document::default();
    what.paragraph(parts_of_the_wall(analysis));
    let part = |label: &str, duration_ns: Nanos, kind| WaterfallPart {
        label: label.to_owned(),
        duration_ns,
        kind,
    };
    let charts = analysis.phases.iter().map(|phase| {
        let waterfall = &phase.waterfall;
        let mut parts = match (waterfall.floor_ns, waterfall.inefficiency_ns) {
            (Some(floor), Some(rest)) => vec![
                part("floor", floor, PartKind::Floor),
                part("matched − floor", rest, PartKind::Inefficiency),
            ],
            _ => vec![part(
                "matched",
                waterfall.matched_ns,
                PartKind::Inefficiency,
            )],
        };
        parts.extend([
            part("extra", waterfall.extra_ns, PartKind::Extra),
            part("copies", waterfall.copies_ns, PartKind::Copies),
            part(
                "unattributed",
                waterfall.unattributed_ns,
                PartKind::Unattributed,
            ),
            part("idle", waterfall.idle_ns, PartKind::Idle),
            part("overlap", -waterfall.overlap_ns, PartKind::Overlap),
        ]);
        parts.retain(|part| part.duration_ns.0 != 0);
        Part::Waterfall(Waterfall {
            phase: phase.name().to_owned(),
            wall_ns: waterfall.wall_ns,
            parts,
        })
    });
    std::iter::once(Part::Document(what))
        .chain(charts)
        .collect()
}

fn roofline(analysis: &Analysis, limits: &Device) -> Roofline {
    // A device has peaks for more formats than a run uses; their lines would hide the points.
    let mut used: Vec<DType> = analysis
        .phases
        .iter()
        .flat_map(|phase| phase.by_path.iter().map(|group| group.dtype))
        .collect();
    if used.is_empty() {
        // A trace of an unknown model: the formats that most of them multiply.
        used.extend([DType::Bf16, DType::F32]);
    }
    let roofs = limits
        .peaks
        .iter()
        .filter(|peak| used.contains(&peak.dtype))
        .map(|peak| Roof {
            label: format!("{} {}", peak.dtype, peak.engine),
            peak_flops_per_s: peak.dense_flops_per_s,
            bandwidth: limits.bandwidth(),
            basis: peak.basis,
        })
        .collect();
    let mut points = Vec::new();
    for phase in &analysis.phases {
        for group in &phase.by_path {
            if let Some(rate) = group.achieved_flops_per_s {
                points.push(RooflinePoint {
                    label: group.name.clone(),
                    kind: kind_of(phase, group),
                    phase: phase.name().to_owned(),
                    // Without compulsory bytes it has no place, but is one of those of which the chart says so.
                    intensity: group.intensity.unwrap_or(f64::INFINITY),
                    flops_per_s: rate,
                    time_ns: group.measured_ns,
                    calls: group.calls,
                });
            }
        }
    }
    if !points.iter().any(RooflinePoint::is_drawable) {
        points = kernels::framework_points(analysis);
    }
    Roofline { roofs, points }
}

/// What operators do; the name of the set where kernels alone tell them apart.
fn kind_of(phase: &PhaseAnalysis, group: &OperatorGroup) -> String {
    if phase.by_kernels() {
        return group.name.clone();
    }
    group.kind.to_string()
}

fn operators(analysis: &Analysis) -> OperatorTable {
    let headers = [
        ("Phase", Align::Left),
        ("Operator", Align::Left),
        ("Kind", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Share", Align::Right),
        ("FLOP/s", Align::Right),
        ("B/s", Align::Right),
        ("Floor", Align::Right),
        ("Of the roof", Align::Right),
    ];
    let columns = Column::all(headers);
    let mut rows = Vec::new();
    for phase in &analysis.phases {
        for group in &phase.by_path {
            let time = |time: Nanos| Cell::number(time.0 as f64, time);
            rows.push(vec![
                Cell::Text(phase.name().to_owned()),
                Cell::Text(group.name.clone()),
                Cell::Text(kind_of(phase, group)),
                Cell::number(group.calls as f64, group.calls),
                time(group.measured_ns),
                Cell::number(group.share, Percent(group.share)),
                group
                    .achieved_flops_per_s
                    .map_or(Cell::Missing, |rate| Cell::number(rate.0, rate)),
                group
                    .achieved_bytes_per_s
                    .map_or(Cell::Missing, |rate| Cell::number(rate.0, rate)),
                group.floor_ns.map_or(Cell::Missing, time),
                group.fraction_of_roof.map_or(Cell::Missing, |fraction| {
                    Cell::number(fraction, Percent(fraction))
                }),
            ]);
        }
    }
    OperatorTable {
        title: "operators".to_owned(),
        columns,
        rows,
    }
}
