//! Where the wall time of each phase went: charts, the same as a table, idle causes, overhead ops.

use llmprof_units::{Nanos, Percent};

use super::phases::phase_cell;
use crate::analyzed::{Analysis, PhaseAnalysis, TracedPhase, UnmatchedOperator};
use crate::document::{Cell, Document, Drawing, Section, Table, key};
use crate::text::waterfall as words;
use crate::text::{self, dash};
use crate::view::{PartKind, Waterfall, WaterfallPart};

/// Overhead ops in a report; `operators.md` has all.
const UNMATCHED_MAX: usize = 8;
/// Host ops per phase.
const HOST_OPS_MAX: usize = 5;

/// Adds the section; nothing where no pass was profiled.
pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    if analysis.phases.is_empty() {
        return;
    }
    let section = document.section("waterfall", "Where the time went");
    for phase in &analysis.phases {
        section.chart(
            format!("waterfall_{}", key(phase.name())),
            Drawing::Waterfall(chart(phase, words::matched(analysis))),
        );
    }
    section.paragraph(words::parts(analysis));
    section.table(table(analysis));
    if let Some(first) = super::summary::first_use(analysis) {
        section.paragraph(first);
    }
    traced(section, analysis);
}

fn chart(phase: &PhaseAnalysis, matched: &str) -> Waterfall {
    let part = |label: &str, duration_ns: Nanos, kind| WaterfallPart {
        label: label.to_owned(),
        duration_ns,
        kind,
    };
    let waterfall = &phase.waterfall;
    let mut parts = match (waterfall.roofline_ns, waterfall.inefficiency_ns) {
        (Some(roofline), Some(rest)) => vec![
            part(words::ROOFLINE, roofline, PartKind::Roofline),
            part(words::INEFFICIENCY, rest, PartKind::Inefficiency),
        ],
        _ => vec![part(matched, waterfall.matched_ns, PartKind::Inefficiency)],
    };
    parts.extend([
        part(words::OVERHEAD, waterfall.extra_ns, PartKind::Overhead),
        part(words::COPIES, waterfall.copies_ns, PartKind::Copies),
        part(
            words::COMMUNICATION,
            waterfall.communication_ns,
            PartKind::Communication,
        ),
        part(
            words::UNATTRIBUTED,
            waterfall.unattributed_ns,
            PartKind::Unattributed,
        ),
    ]);
    let causes: Nanos = waterfall.idle.iter().map(|cause| cause.time_ns).sum();
    let named = waterfall.idle.iter().map(|cause| {
        let label = words::idle_cause(&cause.name);
        part(&label, cause.time_ns, PartKind::Idle)
    });
    parts.extend(named);
    // What has no cause.
    parts.push(part(
        words::IDLE,
        waterfall.idle_ns - causes,
        PartKind::Idle,
    ));
    parts.push(part(
        words::OVERLAP,
        -waterfall.overlap_ns,
        PartKind::Overlap,
    ));
    parts.retain(|part| part.duration_ns.0 != 0);
    Waterfall {
        phase: phase.name().to_owned(),
        wall_ns: waterfall.wall_ns,
        parts,
    }
}

fn table(analysis: &Analysis) -> Table {
    let has_roofline = words::has_roofline(analysis);
    let mut headers = vec!["Phase", "Wall time"];
    if has_roofline {
        headers.extend(["Roofline time", "Kernel inefficiency"]);
    } else {
        headers.push(if analysis.family.is_some() {
            "Matched ops"
        } else {
            "Compute ops"
        });
    }
    headers.extend(["Overhead ops", "Copies"]);
    let communicates = words::has_communication(analysis);
    if communicates {
        headers.extend(["Communication", "Exposed communication"]);
    }
    headers.extend(["Unattributed", "Idle", "Overlap"]);
    let mut table = Table::new(&headers, 1);
    for phase in &analysis.phases {
        let waterfall = &phase.waterfall;
        let share = |part: Nanos| {
            let share = part.0 as f64 / waterfall.wall_ns.0.max(1) as f64;
            if part.0 == 0 {
                "0".to_owned()
            } else if share > 1.0 {
                // Work of several streams or threads at once is no part of the wall time.
                part.to_string()
            } else {
                format!("{part} ({})", Percent(share))
            }
        };
        let mut cells = vec![phase.name().to_owned(), waterfall.wall_ns.to_string()];
        cells.extend(has_roofline.then(|| waterfall.roofline_ns.map_or_else(dash, share)));
        cells.push(share(
            waterfall.inefficiency_ns.unwrap_or(waterfall.matched_ns),
        ));
        cells.extend([waterfall.extra_ns, waterfall.copies_ns].map(share));
        if communicates {
            let exposed = waterfall.exposed_communication_ns;
            cells.extend([waterfall.communication_ns, exposed].map(share));
        }
        cells.extend(
            [
                waterfall.unattributed_ns,
                waterfall.idle_ns,
                waterfall.overlap_ns,
            ]
            .map(share),
        );
        table.keyed(format!("waterfall-{}", key(phase.name())), cells);
    }
    table.without_zero_columns()
}

/// What only a trace shows.
fn traced(section: &mut Section, analysis: &Analysis) {
    let traced: Vec<(&PhaseAnalysis, &TracedPhase)> = analysis
        .phases
        .iter()
        .filter_map(|phase| Some((phase, phase.traced.as_ref()?)))
        .collect();
    let basis = traced
        .iter()
        .filter_map(|(phase, traced)| words::basis(phase, traced));
    section.list(basis.collect());
    let idle = idle(&traced);
    if !idle.rows.is_empty() {
        section.heading("Idle time by cause");
        section.table(idle);
    }
    let waiting = host_ops(&traced);
    if !waiting.rows.is_empty() {
        section.paragraph(words::HOST_OPS);
        section.table(waiting);
    }
    for (phase, _) in &traced {
        let longest = &phase.unmatched[..phase.unmatched.len().min(UNMATCHED_MAX)];
        if !longest.is_empty() {
            section.heading(words::unmatched_heading(analysis, phase));
            section.table(unmatched(
                longest,
                Some(&format!("unmatched-{}", key(phase.name()))),
            ));
        }
    }
}

fn idle(traced: &[(&PhaseAnalysis, &TracedPhase)]) -> Table {
    let mut table = Table::new(&["Phase", "Cause", "Time", "Share of wall time"], 2);
    for (phase, _) in traced {
        for (index, part) in phase.waterfall.idle.iter().enumerate() {
            let anchor = (index == 0).then(|| format!("idle-{}", key(phase.name())));
            let cells = vec![
                phase_cell(phase),
                words::cause(&part.name).into(),
                part.time_ns.to_string().into(),
                Percent(phase.waterfall.share(part.time_ns))
                    .to_string()
                    .into(),
            ];
            table.push(anchor, cells);
        }
    }
    table
}

fn host_ops(traced: &[(&PhaseAnalysis, &TracedPhase)]) -> Table {
    let mut table = Table::new(&["Phase", "Host op or runtime call", "Gaps", "GPU idle"], 2);
    for (phase, traced) in traced {
        for row in traced.host_operators.iter().take(HOST_OPS_MAX) {
            table.row([
                phase_cell(phase),
                Cell::event(&row.name),
                row.count.to_string().into(),
                row.time_ns.to_string().into(),
            ]);
        }
    }
    table
}

/// Work that belongs to no operator, the longest first; links lead to the first row.
pub(super) fn unmatched(rows: &[UnmatchedOperator], anchor: Option<&str>) -> Table {
    let mut table = Table::new(&["Op or kernel", "Calls", "Time", "Category", "Why"], 1)
        .with_words(&["Category", "Why"]);
    for (index, row) in rows.iter().enumerate() {
        let kernel = match &row.expected {
            Some(expected) => format!("{}, expected {expected}", row.found),
            None if row.found.is_empty() => dash(),
            None => row.found.clone(),
        };
        let anchor = anchor.filter(|_| index == 0).map(str::to_owned);
        let cells = vec![
            super::kernels::name(&row.path),
            row.calls.to_string().into(),
            row.time_ns.to_string().into(),
            kernel.into(),
            text::unmatched::reason(row.reason).into(),
        ];
        table.push(anchor, cells);
    }
    table
}
