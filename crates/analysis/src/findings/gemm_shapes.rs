//! GEMMs against the roofline of their shapes, where no model says what a phase should cost.

use llmprof_record::kernel_name::{Category, Library, classify};
use llmprof_units::{Basis, Nanos};

use crate::evidence::{Evidence, Measure};
use crate::findings::conclusion::{Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding};
use crate::findings::{FindingFacts, hidden_by_the_host};
use crate::phase_analysis::PhaseAnalysis;
use crate::thresholds::{FINDING_MIN_SHARE, TUNED_GEMMS_MIN_FRACTION};
use crate::trace::TraceAnalysis;

/// The GEMMs of a trace whose shapes were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ShapedGemms {
    calls: u64,
    device_ns: Nanos,
    roofline_ns: Nanos,
}

impl ShapedGemms {
    /// Those of a trace whose roofline time is known; `None` where there are none.
    pub(crate) fn of_trace(timeline: &TraceAnalysis) -> Option<Self> {
        let mut sum = Self::default();
        let shapes = timeline.operators.iter().flat_map(|row| &row.shapes);
        for shape in shapes.filter(|shape| shape.cost.is_some_and(|cost| cost.gemm.is_some())) {
            // An operator that only calls another one has no kernels of its own.
            let work = shape.work.filter(|_| shape.times.device_self_ns.0 > 0);
            // What was faster than its roofline is not what the shapes say.
            if let Some(work) = work.filter(|work| work.roofline.is_some())
                && let Some(roofline_ns) = work.roofline_ns
            {
                sum.calls += work.calls;
                sum.device_ns += work.device_ns;
                sum.roofline_ns += Nanos(roofline_ns as i64);
            }
        }
        (sum.calls > 0).then_some(sum)
    }
}

pub(super) const GEMMS: &[Category] = &[Category::Gemm, Category::Gemv];

/// The library that most of the time of some kernels of a phase is in, as far as names show it.
pub(super) fn library_of(phase: &PhaseAnalysis, categories: &[Category]) -> Option<Library> {
    let kernels = &phase.traced.as_ref()?.longest_kernels;
    let mut times: Vec<(Library, i64)> = Vec::new();
    for kernel in kernels {
        if !categories.contains(&kernel.category) {
            continue;
        }
        let library = classify(&kernel.name).library;
        match times.iter_mut().find(|(known, _)| *known == library) {
            Some((_, time)) => *time = time.saturating_add(kernel.time_ns.0),
            None => times.push((library, kernel.time_ns.0)),
        }
    }
    let all = times
        .iter()
        .map(|(_, time)| *time)
        .fold(0, i64::saturating_add);
    let longest = times.into_iter().max_by_key(|(_, time)| *time);
    longest
        .filter(|(library, time)| *library != Library::Unknown && *time > all / 2)
        .map(|(library, _)| library)
}

impl FindingFacts<'_> {
    /// Where one phase has all the work of the device: shapes are summed over the whole trace.
    pub(super) fn gemm_shapes_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let gemms = self.gemms.filter(|_| self.phases.len() == 1)?;
        let lost = gemms.device_ns - gemms.roofline_ns;
        let share = phase.judged_share(gemms.device_ns);
        let is_inside = gemms.device_ns <= phase.waterfall.busy_ns;
        let lost_share = phase.judged_share(lost);
        if !is_inside || lost_share < FINDING_MIN_SHARE || hidden_by_the_host(phase) {
            return None;
        }
        let fraction = gemms.roofline_ns.0 as f64 / gemms.device_ns.0 as f64;
        if fraction > TUNED_GEMMS_MIN_FRACTION {
            return None;
        }
        let derivation = Derivation::AtRoofline {
            wall_ns: phase.judged_wall(),
            measured_ns: gemms.device_ns,
            roofline_ns: gemms.roofline_ns,
        };
        let gain = self
            .gain_of_saving(phase, lost.seconds(), derivation)?
            .at_most();
        let conclusion = Conclusion::GemmShapes {
            share,
            roofline_fraction: fraction,
            library: library_of(phase, GEMMS),
        };
        let evidence = vec![
            Evidence::time(Measure::MeasuredTime, gemms.device_ns, Basis::Measured),
            Evidence::time(Measure::RooflineTime, gemms.roofline_ns, Basis::Derived),
            Evidence::new(Measure::Calls, gemms.calls as f64, "calls", Basis::Measured),
        ];
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::Low))
    }
}
