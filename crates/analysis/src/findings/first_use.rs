//! What the first use costs: of the process, of a phase, of a length of the KV cache.

use llmprof_units::{Basis, Nanos};

use crate::evidence::{Evidence, Measure};
use crate::findings::FindingFacts;
use crate::findings::conclusion::{Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding, Gain, GainOf};
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::NewLengths;
use crate::thresholds::FINDING_MIN_SHARE;

impl FindingFacts<'_> {
    /// Steps that wait before their first attention kernel, as a length of the cache does that never ran before.
    pub(crate) fn new_lengths_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let lengths = new_lengths(phase)?;
        let share = phase.waterfall.share(lengths.time_ns);
        if share < FINDING_MIN_SHARE {
            return None;
        }
        let wall = phase.judged_wall();
        let gain = self.gain_of_saving(
            phase,
            lengths.time_ns.seconds(),
            Derivation::WithoutFirstUse {
                wall_ns: wall,
                first_use_ns: lengths.time_ns,
            },
        )?;
        let conclusion = Conclusion::KvLengths {
            waits: lengths.waits,
            mean_ns: lengths.mean(),
        };
        let finding = Finding::of_phase(phase, conclusion).with_evidence(lengths.evidence());
        Some(finding.with_gain(gain, Confidence::Medium))
    }

    pub(crate) fn first_use_finding(&self) -> Option<Finding> {
        let first = self.latency.first_use?;
        if !first.outside_later_range || first.extra_e2e_ns < FINDING_MIN_SHARE * first.later_ns {
            return None;
        }
        let factor = first.first_ns / first.later_ns;
        let time = |what, value| Evidence::new(what, value, "ns", Basis::Measured);
        let mut evidence = vec![
            time(Measure::FirstPassTime, first.first_ns),
            time(Measure::LaterPassTime, first.later_ns),
            time(Measure::ExtraTtft, first.extra_ttft_ns),
            time(
                Measure::ExtraAfterTtft,
                first.extra_e2e_ns - first.extra_ttft_ns,
            ),
        ];
        let step = self.latency.itl_ns.as_ref().map_or(0.0, |gaps| gaps.p50);
        let extra_step = first
            .extra_step_ns
            .filter(|extra| *extra > FINDING_MIN_SHARE * step);
        evidence.extend(extra_step.map(|extra| time(Measure::ExtraStepTime, extra)));
        let nanos = |value: f64| Nanos(value.round() as i64);
        let conclusion = Conclusion::FirstPass {
            first_ns: nanos(first.first_ns),
            extra_step_ns: extra_step.map(nanos),
            // Whether a model that is not counted has a cache that grows is not known.
            has_kv_cache: self.subject.is_some(),
        };
        let gain = Gain {
            of: GainOf::FirstRequest,
            factor,
            phase_factor: None,
            saved_ns: Some(nanos(first.extra_e2e_ns)),
            derivation: Derivation::FirstOverLaterPasses,
            is_bound: false,
        };
        let finding = Finding::of_run(conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::High))
    }
}

/// The first time that a phase ran, where it took longer for the same work.
pub(crate) fn first_instance(phase: &PhaseAnalysis) -> Option<Finding> {
    let first = phase.traced.as_ref()?.first_use.as_ref()?;
    let factor = first.wall_ns.0 as f64 / first.later_ns.max(1.0);
    let mut evidence = vec![
        Evidence::time(Measure::FirstRangeTime, first.wall_ns, Basis::Measured),
        Evidence::new(
            Measure::LaterRangeTime,
            first.later_ns,
            "ns",
            Basis::Measured,
        ),
    ];
    let lengths = first.new_lengths.as_ref();
    evidence.extend(lengths.into_iter().flat_map(NewLengths::evidence));
    let conclusion = Conclusion::FirstRange {
        first_ns: first.wall_ns,
        attention_wait_ns: lengths.map(|lengths| lengths.time_ns),
        lengths: lengths.map_or(0, |lengths| lengths.waits),
    };
    let later = first.later_ns.round() as i64;
    let gain = Gain {
        of: GainOf::FirstRequest,
        factor,
        phase_factor: Some(factor),
        saved_ns: Some(Nanos(first.wall_ns.0.saturating_sub(later))),
        derivation: Derivation::FirstOverLaterRanges,
        is_bound: false,
    };
    let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
    Some(finding.with_gain(gain, Confidence::High))
}

pub(crate) fn new_lengths(phase: &PhaseAnalysis) -> Option<&NewLengths> {
    phase.traced.as_ref()?.new_lengths.as_ref()
}
