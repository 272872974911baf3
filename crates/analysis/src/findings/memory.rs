//! Memory-bound decode, and what would help: fewer bytes, more sequences a step.

use llmprof_theory::roofline::MemoryLevel;
use llmprof_theory::{Kind, Model, Pass, Precision, WeightFormat, Workload};
use llmprof_units::{Basis, Nanos};

use crate::bottleneck::PhaseClass;
use crate::evidence::{Evidence, Measure};
use crate::findings::FindingFacts;
use crate::findings::conclusion::{Abstention, Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding};
use crate::findings::what_if::MeasuredPhase;
use crate::phase_analysis::PhaseAnalysis;
use crate::thresholds::BYTES_LIMIT_MIN_FRACTION;
use llmprof_record::run::RunPhase;

impl FindingFacts<'_> {
    /// Memory-bound decode: weights in 8 bits.
    pub(crate) fn fewer_bytes_finding(
        &self,
        phase: &PhaseAnalysis,
        passes: &[Pass],
    ) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let refuse = |why| Some(Finding::abstain("quantize_weights", phase, why));
        let (model, workload_now) = self.subject?;
        let Some(roof) = self.roof else {
            return refuse(Abstention::NoDevice);
        };
        let formats = model.number_formats(&workload_now.precision);
        if formats.weights.element_dtype().bits() <= 8 {
            return None;
        }
        if !matches!(
            phase.class.class,
            Some(PhaseClass::MemoryBound | PhaseClass::L2Bound | PhaseClass::Balanced)
        ) {
            return match phase.class.class {
                // Something else is known to limit it.
                Some(_) => None,
                None => refuse(Abstention::UnknownLimit {
                    why: phase.class.why.clone(),
                }),
            };
        }
        let linear = phase
            .by_kind
            .iter()
            .find(|group| group.kind == Kind::Linear);
        let fraction = linear.and_then(|group| group.roofline_fraction)?;
        if fraction < BYTES_LIMIT_MIN_FRACTION {
            return refuse(Abstention::FarFromRoofline { fraction });
        }
        let precision = Precision {
            weights: Some(WeightFormat::INT8),
            plain: Some(formats.plain),
            activations: Some(formats.activations),
            kv: Some(formats.kv),
            // Weights are expanded on the way, so the device needs no units for the format.
            compute: Some(formats.activations),
        };
        let workload = Workload {
            precision,
            ..*workload_now
        };
        let subject = what_if(model, workload_now, phase, passes);
        let Some(outcome) = subject.count_again(roof, &workload, passes, None, 1.0) else {
            return refuse(Abstention::NotCounted);
        };
        let wall = phase.judged_wall();
        let gain = self.gain_of_saving(
            phase,
            wall.seconds() - outcome.wall,
            Derivation::Int8Recounted {
                wall_ns: wall,
                after_ns: Nanos::from_seconds(outcome.wall),
                roofline_ratio: outcome.roofline_ratio,
            },
        )?;
        let before = model.parameter_bytes(&workload_now.precision);
        let after = model.parameter_bytes(&precision);
        let bytes = |what, value: u64| Evidence::new(what, value as f64, "B", Basis::Counted);
        let evidence = vec![
            Evidence::share(Measure::LinearRooflineShare, fraction, Basis::Derived),
            bytes(Measure::WeightBytes, before),
            bytes(Measure::Int8WeightBytes, after),
            Evidence::share(
                Measure::RooflineRatio,
                outcome.roofline_ratio,
                Basis::Derived,
            ),
        ];
        let conclusion = Conclusion::QuantizeWeights {
            weights: formats.weights.to_string(),
        };
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::Medium))
    }

    pub(crate) fn on_chip_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let residence = phase.residence.as_ref()?;
        if residence.level != MemoryLevel::OnChip || phase.phase != RunPhase::Decode {
            return None;
        }
        let capacity = residence.capacity_bytes.map_or(0.0, |bytes| bytes.0 as f64);
        let bytes = |what, value, basis| Evidence::new(what, value, "B", basis);
        let evidence = vec![
            bytes(
                Measure::StepBytes,
                residence.bytes_per_step.0 as f64,
                Basis::Counted,
            ),
            bytes(Measure::CacheCapacity, capacity, self.roof?.device().basis),
        ];
        let conclusion = Conclusion::WeightsOnChip {
            bytes_per_step: residence.bytes_per_step,
            cache: residence.name.clone(),
        };
        Some(Finding::of_phase(phase, conclusion).with_evidence(evidence))
    }
}

fn what_if<'s>(
    model: &'s Model,
    workload: &'s Workload,
    phase: &'s PhaseAnalysis,
    passes: &'s [Pass],
) -> MeasuredPhase<'s> {
    MeasuredPhase {
        model,
        workload,
        passes,
        phase,
    }
}
