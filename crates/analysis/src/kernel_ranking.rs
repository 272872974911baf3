//! The kernels with the most GPU time, by the phase that launched them.

use std::collections::HashMap;

use llmprof_record::{
    import::Profile,
    run::RunRecord,
    summary::{TimeRow, kernel_times},
    trace::{Kernels, Trace},
};
use llmprof_units::{Nanos, Share};

use crate::{AnalysisError, analyze};

/// Ranges of phases, as workers and step labels name them.
const PHASES: [&str; 4] = ["vision", "encoder", "prefill", "decode"];

/// A kernel and the phase that launched it; `None` for sources without phases.
pub type PhaseRow = (Option<&'static str>, TimeRow);

/// The kernels of a timeline with the phases that launched them.
pub struct PhaseKernels {
    pub rows: Vec<PhaseRow>,
    /// Phases whose first uses are left out, since they took longer than the others.
    pub shortened: Vec<&'static str>,
}

/// Kernels of each phase. Where the timeline has phases, what was launched outside of them (set-up, warm-up) is left out, and so are
/// first uses, as in reports.
pub fn kernels_by_phase(trace: &Trace) -> Result<PhaseKernels, AnalysisError> {
    let mut ranking = PhaseKernels {
        rows: Vec::new(),
        shortened: Vec::new(),
    };
    let mut first_uses = None;
    for phase in PHASES {
        let label = format!("llmprof.step {phase} ");
        let inside = trace.launched_inside(|name| name == phase || name.starts_with(&label));
        if inside.kernels.is_empty() {
            continue;
        }
        let known = match &mut first_uses {
            Some(known) => known,
            unknown => unknown.insert(find_first_uses(trace)?),
        };
        let windows = known.get(phase).map_or(&[][..], Vec::as_slice);
        if !windows.is_empty() {
            ranking.shortened.push(phase);
        }
        let rows = kernel_times(&started_outside(inside, windows)).into_iter();
        ranking.rows.extend(rows.map(|row| (Some(phase), row)));
    }
    if ranking.rows.is_empty() {
        ranking.rows = without_phases(kernel_times(trace));
    }
    Ok(ranking)
}

/// Rows of a source without phases.
pub fn without_phases(rows: Vec<TimeRow>) -> Vec<PhaseRow> {
    rows.into_iter().map(|row| (None, row)).collect()
}

/// Merges rows of the same name.
pub fn merge_by_name(rows: impl IntoIterator<Item = TimeRow>) -> Vec<TimeRow> {
    let mut merged: Vec<TimeRow> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for row in rows {
        if let Some(&place) = places.get(&row.name) {
            merged[place].total_ns += row.total_ns;
            merged[place].times.count += row.times.count;
        } else {
            places.insert(row.name.clone(), merged.len());
            merged.push(row);
        }
    }
    merged
}

/// Number of leading rows that together hold a share of the total.
pub fn count_covering(rows: &[PhaseRow], total: Nanos, coverage: Share) -> usize {
    let wanted = coverage.fraction() * total.0 as f64;
    let mut sum = 0.0;
    let enough = rows.iter().position(|(_, row)| {
        sum += row.total_ns.0 as f64;
        sum >= wanted
    });
    enough.map_or(rows.len(), |last| last + 1)
}

/// The trace without the kernels that started in a window.
fn started_outside(mut trace: Trace, windows: &[(i64, i64)]) -> Trace {
    if windows.is_empty() {
        return trace;
    }
    let mut kept = Kernels::default();
    for kernel in trace.kernels.rows() {
        let mut windows = windows.iter();
        if !windows.any(|(start, end)| (*start..*end).contains(&kernel.start)) {
            kept.push(kernel);
        }
    }
    trace.kernels = kept;
    trace
}

/// The intervals that the analysis of the trace leaves out of their phases: what is paid once.
fn find_first_uses(trace: &Trace) -> Result<HashMap<String, Vec<(i64, i64)>>, AnalysisError> {
    let mut record = RunRecord::default();
    record
        .add_profile("", Profile::Trace(Box::new(trace.clone())))
        .expect("an empty record takes a timeline");
    let mut windows: HashMap<String, Vec<(i64, i64)>> = HashMap::new();
    for phase in &analyze(&record, None)?.phases {
        let instances = phase.traced.iter().flat_map(|traced| &traced.instances);
        for instance in instances.filter(|instance| instance.left_out) {
            let start = instance.start_ns.0;
            let window = (start, start.saturating_add(instance.wall_ns.0));
            let of_phase = windows.entry(phase.name().to_owned()).or_default();
            of_phase.push(window);
        }
    }
    Ok(windows)
}
