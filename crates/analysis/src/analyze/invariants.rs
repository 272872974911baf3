//! What must hold for every phase, whatever was recorded. Where it does not, two facts disagree, and what rests on them
//! abstains.

use llmprof_record::issue::{Issue, IssueCode};

use crate::bottleneck::{PhaseSignals, classify};
use crate::phase_analysis::PhaseAnalysis;
use crate::roofline::Utilization;
use crate::thresholds::ROOFLINE_TOLERANCE_RATIO;

/// Checks a phase. Where its work cannot have been done in its time, everything that compares the two is taken out.
pub(super) fn check_phase(phase: &mut PhaseAnalysis, signals: &PhaseSignals) -> Option<Issue> {
    let broken = phase
        .utilization
        .as_ref()
        .and_then(above_one)
        .or_else(|| phase.plain_utilization.as_ref().and_then(above_one))?;
    let (name, value) = broken;
    let issue = Issue::warning(IssueCode::InvariantAbovePeak)
        .with("phase", phase.name())
        .with("figure", name)
        .with("share", value)
        .with("wall_ns", phase.waterfall.wall_ns.0);
    forget_work(phase, signals);
    Some(issue)
}

/// Takes out what compares the work of the model with the time of a phase.
pub(super) fn forget_work(phase: &mut PhaseAnalysis, signals: &PhaseSignals) {
    phase.utilization = None;
    phase.plain_utilization = None;
    phase.roofline = None;
    phase.residence = None;
    phase.waterfall.forget_rooflines();
    for group in phase.by_kind.iter_mut().chain(&mut phase.by_path) {
        group.forget_roofline();
    }
    phase.class = classify(&phase.waterfall, None, signals);
}

fn above_one(used: &Utilization) -> Option<(&'static str, f64)> {
    use llmprof_theory::roofline::MemoryLevel;
    let mbu = used.mbu.filter(|_| used.memory_level == MemoryLevel::Main);
    [("MFU", used.mfu), ("MBU", mbu)]
        .into_iter()
        .filter_map(|(name, share)| Some((name, share?)))
        .find(|(_, share)| *share > ROOFLINE_TOLERANCE_RATIO)
}
