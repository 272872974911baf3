//! Memory-bound decode, and what would help: fewer bytes, more sequences a step.

use llmprof_theory::roofline::MemoryLevel;
use llmprof_theory::{Kind, Model, Pass, Precision, Routing, WeightFormat, Workload};
use llmprof_units::{Basis, Nanos};

use crate::bottleneck::PhaseClass;
use crate::evidence::{Evidence, Measure};
use crate::findings::Facts;
use crate::findings::conclusion::{Abstention, Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding, Gain, GainOf};
use crate::findings::what_if::Subject;
use crate::phase_analysis::PhaseAnalysis;
use llmprof_record::run::RunPhase;

/// Operators below this share of roofline have other problems than bytes.
const LEAST_ROOFLINE_SHARE: f64 = 0.4;
/// A larger batch must give at least this much more than the one before it.
const BATCH_STEP: f64 = 1.15;
/// A batch that is more than this multiple of the present one is far from what was measured.
const FAR: u64 = 8;
/// The largest batch that is looked at, as a multiple of the present one.
const MOST_BATCHES: u64 = 256;

impl Facts<'_> {
    /// Memory-bound decode: weights in 8 bits.
    pub(crate) fn fewer_bytes(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let refuse = |why| Some(Finding::abstain("quantize_weights", phase, why));
        let (model, workload_now) = self.subject?;
        let Some(roof) = self.roof else {
            return refuse(Abstention::NoDevice);
        };
        let formats = model.formats(&workload_now.precision);
        if formats.weights.element().bits() <= 8 {
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
        if fraction < LEAST_ROOFLINE_SHARE {
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
        let Some(outcome) = subject.with(roof, &workload, passes, None, 1.0) else {
            return refuse(Abstention::NotCounted);
        };
        let wall = phase.judged_wall();
        let gain = self.saving(
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
        let finding = Finding::of(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::Medium))
    }

    /// Memory-bound decode: more sequences per step share the weights that are read.
    pub(crate) fn batching(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let refuse = |why| Some(Finding::abstain("batching", phase, why));
        let (model, workload_now) = self.subject?;
        let Some(roof) = self.roof else {
            return refuse(Abstention::NoDevice);
        };
        let capacity = roof
            .device()
            .memory
            .capacity_bytes
            .as_ref()
            .and_then(|figure| model.largest_batch(workload_now, figure.value.0));
        let prefill = self
            .phases
            .iter()
            .find(|(phase, _)| phase.phase == RunPhase::Prefill)
            .map(|(phase, _)| *phase);
        let subject = what_if(model, workload_now, phase, passes);
        let now = phase.judged_wall().seconds();
        let mut best: Option<(u64, f64, f64)> = None;
        let mut times = 2;
        while times <= MOST_BATCHES {
            let batch = workload_now.batch.saturating_mul(times);
            if capacity.is_some_and(|capacity| batch > capacity) {
                break;
            }
            let workload = Workload {
                batch,
                // What was measured at this batch says nothing about the experts that a larger one reaches.
                routing: Routing::Uniform,
                ..*workload_now
            };
            let larger: Vec<Pass> = passes
                .iter()
                .map(|pass| Pass {
                    batch: pass.batch.saturating_mul(times),
                    ..*pass
                })
                .collect();
            let Some(outcome) = subject.with(roof, &workload, &larger, prefill, times as f64)
            else {
                return refuse(Abstention::NotCounted);
            };
            let factor = times as f64 * now / outcome.wall;
            if factor < best.map_or(1.0, |(_, factor, _)| factor) * BATCH_STEP {
                break;
            }
            best = Some((batch, factor, outcome.wall / now));
            times *= 2;
        }
        let (batch, factor, slower) = best?;
        let present = workload_now.batch;
        let sequences =
            |what, batch: u64, basis| Evidence::new(what, batch as f64, "sequences", basis);
        let evidence = vec![
            sequences(Measure::BatchNow, present, Basis::Counted),
            sequences(Measure::BatchThen, batch, Basis::Derived),
            Evidence::new(Measure::DecodeTimeRatio, slower, "×", Basis::Predicted),
        ];
        let gain = Gain {
            of: GainOf::Throughput,
            factor,
            phase_factor: Some(factor),
            saved_ns: None,
            derivation: Derivation::LargerBatch {
                batch,
                present_batch: present,
                step_ratio: slower,
                fills_idle: phase.class.class == Some(PhaseClass::HostBound),
                least_factor: BATCH_STEP,
            },
            is_bound: true,
        };
        let confidence = if batch > present.saturating_mul(FAR) {
            Confidence::Low
        } else {
            Confidence::Medium
        };
        let conclusion = Conclusion::Batching {
            batch,
            present_batch: present,
            step_ratio: slower,
        };
        let finding = Finding::of(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, confidence))
    }

    pub(crate) fn on_chip(&self, phase: &PhaseAnalysis) -> Option<Finding> {
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
        Some(Finding::of(phase, conclusion).with_evidence(evidence))
    }
}

fn what_if<'s>(
    model: &'s Model,
    workload: &'s Workload,
    phase: &'s PhaseAnalysis,
    passes: &'s [Pass],
) -> Subject<'s> {
    Subject {
        model,
        workload,
        passes,
        phase,
    }
}
