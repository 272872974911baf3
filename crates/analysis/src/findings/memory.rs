//! Decode that memory holds back, and what would help: fewer bytes, more sequences a step.

use llmprof_theory::roofline::MemoryLevel;
use llmprof_theory::{Kind, Model, Pass, Precision, Routing, WeightFormat, Workload};
use llmprof_units::{Basis, Nanos, Percent, Times};

use crate::bottleneck::PhaseClass;
use crate::evidence::Evidence;
use crate::findings::Facts;
use crate::findings::finding::{Confidence, Finding, Gain, GainOf};
use crate::findings::what_if::Subject;
use crate::phase_analysis::PhaseAnalysis;
use llmprof_record::run::RunPhase;

/// Operators below this share of roofline have other problems than bytes.
const NEAR_THE_ROOF: f64 = 0.4;
/// A larger batch must give at least this much more than the one before it.
const BATCH_STEP: f64 = 1.15;
/// A batch that is more than this multiple of the present one is far from what was measured.
const FAR: u64 = 8;
/// The largest batch that is looked at, as a multiple of the present one.
const MOST_BATCHES: u64 = 256;

impl Facts<'_> {
    /// Decode that memory holds back: weights in 8 bits.
    pub(crate) fn fewer_bytes(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let subject = "storing weights in 8 bits";
        let refuse = |why: &str| Some(Finding::abstain("quantize_weights", phase, subject, why));
        let (model, workload_now) = self.subject?;
        let Some(roof) = self.roof else {
            return refuse("no device was named, so it is not known whether memory is the limit");
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
                // Something else is known to hold it back: nothing to say.
                Some(_) => None,
                None => refuse(&format!(
                    "it is not known whether memory is the limit ({})",
                    phase.class.why
                )),
            };
        }
        let linear = phase
            .by_kind
            .iter()
            .find(|group| group.kind == Kind::Linear);
        let fraction = linear.and_then(|group| group.roofline_fraction)?;
        if fraction < NEAR_THE_ROOF {
            return refuse(&format!(
                "linear operators reach {} of their limit: fewer bytes alone may change nothing",
                Percent(fraction)
            ));
        }
        let precision = Precision {
            weights: Some(WeightFormat::Int8),
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
            return refuse("theory cannot count the model with such weights on this device");
        };
        let wall = phase.judged_wall();
        let gain = self.saving(
            phase,
            wall.seconds() - outcome.wall,
            format!(
                "{wall} ÷ {}: with int8 weights the model has {:.2} of its roofline time, and each operator stays at its present share of roofline",
                Nanos::from_seconds(outcome.wall),
                outcome.roofline_ratio
            ),
        )?;
        let before = model.parameter_bytes(&workload_now.precision);
        let after = model.parameter_bytes(&precision);
        Some(Finding {
            code: "quantize_weights".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "decode is held back by reading {} weights: in int8 it would be {} faster",
                formats.weights,
                Times(gain.phase_factor?)
            ),
            evidence: vec![
                Evidence::share(
                    "linear operators, share of roofline",
                    fraction,
                    Basis::Derived,
                ),
                Evidence::new("weights now", before as f64, "B", Basis::Counted),
                Evidence::new("weights in int8", after as f64, "B", Basis::Counted),
                Evidence::share(
                    "roofline time after ÷ before",
                    outcome.roofline_ratio,
                    Basis::Derived,
                ),
            ],
            gain: Some(gain),
            confidence: Confidence::Medium,
            abstains: None,
        })
    }

    /// Decode that memory holds back: more sequences per step share the weights that are read.
    pub(crate) fn batching(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let about = "running more requests at once";
        let refuse = |why: &str| Some(Finding::abstain("batching", phase, about, why));
        let (model, workload_now) = self.subject?;
        let Some(roof) = self.roof else {
            return refuse("no device was named, so the limits of a larger batch are not known");
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
                return refuse("theory cannot count a larger batch on this device");
            };
            let factor = times as f64 * now / outcome.wall;
            if factor < best.map_or(1.0, |(_, factor, _)| factor) * BATCH_STEP {
                break;
            }
            best = Some((batch, factor, outcome.wall / now));
            times *= 2;
        }
        let (batch, factor, slower) = best?;
        Some(Finding {
            code: "batching".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "a batch of {batch} instead of {} would give {} the tokens per second of decode, each step taking {} as long",
                workload_now.batch,
                Times(factor),
                Times(slower)
            ),
            evidence: vec![
                Evidence::new(
                    "batch now",
                    workload_now.batch as f64,
                    "sequences",
                    Basis::Counted,
                ),
                Evidence::new("batch then", batch as f64, "sequences", Basis::Derived),
                Evidence::new("decode time then ÷ now", slower, "×", Basis::Predicted),
            ],
            gain: Some(Gain {
                of: GainOf::Throughput,
                factor,
                phase_factor: Some(factor),
                saved_ns: None,
                derivation: format!(
                    "{batch} ÷ {} sequences ÷ {slower:.3} of the time: each operator counted again at that batch keeps its fraction of the \
                     roof, or prefill's where that is higher for the same limit, and takes no less than now{}; doubling stops below \
                     {BATCH_STEP}× more",
                    workload_now.batch,
                    if phase.class.class == Some(PhaseClass::HostBound) {
                        ", and works first while the device was idle"
                    } else {
                        ""
                    }
                ),
                is_bound: true,
            }),
            confidence: if batch > workload_now.batch.saturating_mul(FAR) {
                Confidence::Low
            } else {
                Confidence::Medium
            },
            abstains: None,
        })
    }

    pub(crate) fn on_chip(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let residence = phase.residence.as_ref()?;
        if residence.level != MemoryLevel::OnChip || phase.phase != RunPhase::Decode {
            return None;
        }
        Some(Finding {
            code: "weights_on_chip".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "a decode step needs {}, which {} can hold: main memory's bandwidth is not its limit, and results do not carry over to larger models",
                residence.bytes_per_step,
                match residence.name.as_str() {
                    "caches" => "the caches together".to_owned(),
                    name => format!("the {name} cache"),
                }
            ),
            evidence: vec![
                Evidence::new(
                    "bytes of a step",
                    residence.bytes_per_step.0 as f64,
                    "B",
                    Basis::Counted,
                ),
                Evidence::new(
                    "capacity",
                    residence.capacity_bytes.map_or(0.0, |bytes| bytes.0 as f64),
                    "B",
                    self.roof?.device().basis,
                ),
            ],
            gain: None,
            confidence: Confidence::High,
            abstains: None,
        })
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
