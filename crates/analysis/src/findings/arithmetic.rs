//! GEMMs in a format that the device multiplies slowly, where it has units for a narrower one.

use llmprof_theory::device::Engine;
use llmprof_theory::roofline::Resource;
use llmprof_theory::{Kind, Pass, Precision, Workload};
use llmprof_units::{Basis, DType, Nanos};

use crate::bottleneck::PhaseClass;
use crate::evidence::{Evidence, Measure};
use crate::findings::conclusion::{Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding};
use crate::findings::what_if::MeasuredPhase;
use crate::findings::{FindingFacts, hidden_by_the_host};
use crate::matching::groups::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;
use crate::thresholds::{
    FINDING_MIN_SHARE, GEMM_FORMAT_MIN_FRACTION, GEMMS_OF_PHASE_MIN_SHARE,
    OTHER_UNIT_PEAK_MIN_RATIO,
};
use llmprof_record::run::RunPhase;

impl FindingFacts<'_> {
    /// Weight GEMMs in f32 on a device that multiplies 16-bit floats much faster, in a phase that is limited by them.
    ///
    /// The GEMMs alone are counted again in the narrow format: weights, KV cache and everything else stay in theirs, so
    /// that nothing is gained but arithmetic. GEMMs of attention stay in f32 too.
    pub(crate) fn faster_format_finding(
        &self,
        phase: &PhaseAnalysis,
        passes: &[Pass],
    ) -> Option<Finding> {
        let ((model, workload_now), roof) = (self.subject?, self.roof?);
        let formats = model.number_formats(&workload_now.precision);
        if formats.compute != DType::F32 || hidden_by_the_host(phase) {
            return None;
        }
        let narrow = match formats.weights.element_dtype() {
            DType::F16 => DType::F16,
            _ => DType::Bf16,
        };
        let peak = |dtype| roof.device().dense_peak(dtype, Engine::Tensor).ok();
        let (used, unused) = (peak(formats.compute)?, peak(narrow)?);
        let times = unused.dense_flops_per_s.0 / used.dense_flops_per_s.0;
        // Without units for it the peak of a narrow format is that of f32.
        if times < OTHER_UNIT_PEAK_MIN_RATIO {
            return None;
        }
        let gemms = WeightGemms::of_phase(phase)?;
        let share = phase.judged_share(gemms.time);
        let is_limited = phase.class.class == Some(PhaseClass::ComputeBound)
            || share >= GEMMS_OF_PHASE_MIN_SHARE;
        if !is_limited || gemms.roofline_fraction() < GEMM_FORMAT_MIN_FRACTION {
            return None;
        }
        let workload = Workload {
            precision: Precision {
                weights: Some(formats.weights),
                plain: Some(formats.plain),
                activations: Some(formats.activations),
                kv: Some(formats.kv),
                compute: Some(narrow),
            },
            ..*workload_now
        };
        let subject = MeasuredPhase {
            model,
            workload: workload_now,
            passes,
            phase,
        };
        // GEMMs that become memory-bound read as those of decode do, which is memory-bound now.
        let decode = self.phases.iter().map(|(other, _)| *other);
        let decode = decode
            .filter(|other| other.phase != phase.phase)
            .find(|other| other.phase == RunPhase::Decode);
        let outcome = subject.count_again(roof, &workload, passes, decode, 1.0)?;
        let wall = phase.judged_wall();
        let saved = wall.seconds() - outcome.wall;
        if saved < FINDING_MIN_SHARE * wall.seconds() {
            return None;
        }
        let gain = self
            .gain_of_saving(
                phase,
                saved,
                Derivation::GemmsRecounted {
                    wall_ns: wall,
                    after_ns: Nanos::from_seconds(outcome.wall),
                    roofline_ratio: outcome.roofline_ratio,
                    dtype: narrow,
                },
            )?
            .at_most();
        let achieved = gemms.flops / gemms.time.seconds();
        let peaks = (used.dense_flops_per_s, unused.dense_flops_per_s);
        let conclusion = Conclusion::FasterFormat {
            share,
            dtype: formats.compute,
            peak_flops_per_s: peaks.0,
            faster_dtype: narrow,
            faster_peak_flops_per_s: peaks.1,
            is_native: phase.traced.as_ref().is_some_and(|t| t.by_identity),
        };
        let rate = |what, value, basis| Evidence::new(what, value, "FLOP/s", basis);
        let evidence = vec![
            Evidence::time(Measure::WeightGemmTime, gemms.time, Basis::Measured),
            rate(Measure::AchievedRate, achieved, Basis::Derived).of(formats.compute.to_string()),
            rate(Measure::PeakRate, peaks.0.0, used.basis).of(formats.compute.to_string()),
            rate(Measure::PeakRate, peaks.1.0, unused.basis).of(narrow.to_string()),
            Evidence::share(
                Measure::RooflineRatio,
                outcome.roofline_ratio,
                Basis::Derived,
            ),
        ];
        // Other kernels on other units: the faster they are, the harder they are to feed. On a Xeon with AMX torch's GEMMs in
        // bf16, whose weights are not packed for the tiles, took a third of the f32 time where a tenth was computed.
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::Low))
    }
}

/// Weight GEMMs that are compute-bound.
struct WeightGemms {
    time: Nanos,
    roofline: Nanos,
    flops: f64,
}

impl WeightGemms {
    fn of_phase(phase: &PhaseAnalysis) -> Option<Self> {
        let is_gemm = |group: &&OperatorGroup| {
            matches!(group.kind, Kind::Linear | Kind::Experts)
                && group.binds == Some(Resource::Tensor)
        };
        let mut gemms = Self {
            time: Nanos(0),
            roofline: Nanos(0),
            flops: 0.0,
        };
        for group in phase.by_kind.iter().filter(is_gemm) {
            let add = |sum: Nanos, time: Nanos| Nanos(sum.0.saturating_add(time.0));
            gemms.time = add(gemms.time, group.measured_ns);
            gemms.roofline = add(gemms.roofline, group.roofline_ns?);
            gemms.flops += group.flops.0 as f64;
        }
        (gemms.time.0 > 0).then_some(gemms)
    }

    fn roofline_fraction(&self) -> f64 {
        self.roofline.seconds() / self.time.seconds()
    }
}
