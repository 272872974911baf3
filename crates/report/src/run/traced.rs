//! What only a trace shows: idle time by cause, steps, first use, work that no operator needs.

use llmprof_analysis::matching::UnmatchedOperator;
use llmprof_analysis::phase_facts::TracedPhase;
use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_units::{Nanos, Percent};

use super::full::dash;
use super::words::time;
use crate::{Block, Document, Table};

/// Rows of work without an operator that the report has; `operators.md` has all.
const MOST_UNMATCHED: usize = 8;

/// Adds the tables of traced phases; nothing for runs of the native engine.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    let traced: Vec<(&PhaseAnalysis, &TracedPhase)> = analysis
        .phases
        .iter()
        .filter_map(|phase| Some((phase, phase.traced.as_ref()?)))
        .collect();
    if traced.is_empty() {
        return;
    }
    document.list(
        traced
            .iter()
            .filter_map(|(phase, traced)| how_known(phase, traced))
            .collect(),
    );
    let idle = idle(&traced);
    if !idle.rows.is_empty() {
        document.push(Block::Heading(2, "Idle time by cause".to_owned()));
        document.table(idle);
    }
    let waiting = host_operators(&traced);
    if !waiting.rows.is_empty() {
        document.paragraph("What the host was longest in while the device waited for it:");
        document.table(waiting);
    }
    let steps = steps(&traced);
    if !steps.rows.is_empty() && !super::steps::replace_phases(analysis) {
        document.push(Block::Heading(
            2,
            "Steps of decode, in the captured pass".to_owned(),
        ));
        document.table(steps);
    }
    for (phase, _) in &traced {
        let found = &phase.unmatched[..phase.unmatched.len().min(MOST_UNMATCHED)];
        if !found.is_empty() {
            document.push(Block::Heading(
                2,
                match analysis.family {
                    Some(_) => format!("{}: work of no operator", phase.name()),
                    None => format!("{}: extra and unattributed work", phase.name()),
                },
            ));
            document.table(unmatched(found));
        }
    }
}

/// How many stretches, which were left out, and how much is attributed to modules.
fn how_known(phase: &PhaseAnalysis, traced: &TracedPhase) -> Option<String> {
    let count = traced.instances.len();
    let mut parts = Vec::new();
    if let Some(part) = &traced.recorded {
        parts.push(format!(
            "{part} were recorded, and its wall time is theirs; what lies between slices counts nowhere, not as idle time either"
        ));
    } else if count > 1 {
        parts.push(format!("{count} stretches"));
    }
    if let Some(first) = &traced.first_use {
        parts.push(format!(
            "the first, which took {} for the same work, is left out",
            first.wall_ns
        ));
    }
    if let Some(inside) = traced.in_modules_ns {
        let sum = phase.waterfall.sum_ns;
        parts.push(format!(
            "{} of {} of work lie inside modules ({})",
            inside,
            sum,
            Percent(inside.0 as f64 / sum.0.max(1) as f64)
        ));
    }
    let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
    if wall != phase.waterfall.wall_ns {
        parts.push(format!(
            "without capture it takes {wall} with {idle} ({}) idle, and the same on the device",
            Percent(phase.judged_share(idle))
        ));
    }
    if phase.waterfall.carried_in_ns.0 > 0 {
        parts.push(format!(
            "{} of device work was launched before the phase",
            phase.waterfall.carried_in_ns
        ));
    }
    if let Some(why) = &phase.waterfall.extra_abstains {
        parts.push(format!("extra work cannot be told apart: {why}"));
    }
    (!parts.is_empty()).then(|| format!("{}: {}.", phase.name(), parts.join("; ")))
}

fn idle(traced: &[(&PhaseAnalysis, &TracedPhase)]) -> Table {
    let mut table = Table::new(&["Phase", "Cause", "Time", "Of the wall"], 2);
    for (phase, _) in traced {
        for part in &phase.waterfall.idle {
            table.row([
                phase.name().to_owned(),
                part.name.clone(),
                part.time_ns.to_string(),
                Percent(phase.waterfall.share(part.time_ns)).to_string(),
            ]);
        }
    }
    table
}

fn host_operators(traced: &[(&PhaseAnalysis, &TracedPhase)]) -> Table {
    let mut table = Table::new(&["Phase", "Host operator", "Gaps", "Device waited"], 2);
    for (phase, traced) in traced {
        for row in traced.host_operators.iter().take(5) {
            table.row([
                phase.name().to_owned(),
                row.name.clone(),
                row.count.to_string(),
                row.time_ns.to_string(),
            ]);
        }
    }
    table
}

fn steps(traced: &[(&PhaseAnalysis, &TracedPhase)]) -> Table {
    let mut table = Table::new(
        &["Phase", "Steps", "Mean", "p50", "p90", "p99", "Longest"],
        1,
    );
    for (phase, traced) in traced {
        let Some(steps) = &traced.steps else { continue };
        table.row([
            phase.name().to_owned(),
            steps.count.to_string(),
            time(steps.mean),
            time(steps.p50),
            time(steps.p90),
            time(steps.p99),
            time(steps.max),
        ]);
    }
    table
}

/// Work that belongs to no operator, the longest first.
pub(super) fn unmatched(found: &[UnmatchedOperator]) -> Table {
    let mut table = Table::new(&["What ran", "As", "Why", "Calls", "Time"], 3);
    for row in found {
        table.row([
            row.path.clone(),
            match &row.expected {
                Some(expected) => format!("{}, expected {expected}", row.found),
                None if row.found.is_empty() => dash(),
                None => row.found.clone(),
            },
            row.reason.to_string(),
            row.calls.to_string(),
            Nanos(row.time_ns.0).to_string(),
        ]);
    }
    table
}
