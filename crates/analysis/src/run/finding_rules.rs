//! The rules that findings are drawn by. Each computes its gain, or says why it cannot.

use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Kind, Model, Pass, Precision, Routing, WeightFormat, Workload};
use llmprof_units::{Basis, Nanos, Percent};

use super::classes::PhaseClass;
use super::findings::{Confidence, Evidence, Finding, Gain, GainOf, sort};
use super::latency::Latency;
use super::measured::RunPhase;
use super::operator_groups::OperatorGroup;
use super::phase_analysis::PhaseAnalysis;
use super::what_if::Subject;

/// Parts of a phase below this are not worth a sentence.
const WORTH_SAYING: f64 = 0.05;
/// Operators below this fraction of the roof have other problems than bytes.
const NEAR_THE_ROOF: f64 = 0.4;
/// A larger batch must give at least this much more than the one before it.
const BATCH_STEP: f64 = 1.15;
/// A batch that is more than this multiple of the present one is far from what was measured.
const FAR: u64 = 8;
/// The largest batch that is looked at, as a multiple of the present one.
const MOST_BATCHES: u64 = 256;

/// What findings are drawn from.
pub(super) struct Facts<'a> {
    pub(super) model: &'a Model,
    pub(super) workload: &'a Workload,
    pub(super) roof: Option<&'a Roof<'a>>,
    pub(super) latency: &'a Latency,
    /// Each phase with the passes that it ran.
    pub(super) phases: Vec<(&'a PhaseAnalysis, Vec<Pass>)>,
}

/// All findings of a run, in the order of their gains.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (phase, passes) in &facts.phases {
        found.extend(facts.idle(phase));
        found.extend(facts.inefficiency(phase));
        found.extend(facts.extra(phase));
        found.extend(facts.copies(phase));
        found.extend(facts.fewer_bytes(phase, passes));
        found.extend(facts.batching(phase, passes));
        found.extend(facts.on_chip(phase));
    }
    found.extend(facts.first_use());
    sort(&mut found);
    found
}

impl Facts<'_> {
    /// Wall time of all phases, seconds.
    fn run_seconds(&self) -> f64 {
        self.phases
            .iter()
            .map(|(phase, _)| phase.waterfall.wall_ns.seconds())
            .sum()
    }

    /// The gain of making a phase `saved` seconds shorter.
    fn saving(&self, phase: &PhaseAnalysis, saved: f64, derivation: String) -> Option<Gain> {
        let (wall, run) = (phase.waterfall.wall_ns.seconds(), self.run_seconds());
        (saved > 0.0 && saved < wall).then(|| Gain {
            of: GainOf::Run,
            factor: run / (run - saved),
            phase_factor: Some(wall / (wall - saved)),
            saved_ns: Some(Nanos::from_seconds(saved)),
            derivation,
        })
    }

    fn idle(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        let share = waterfall.share(waterfall.idle_ns);
        if share < WORTH_SAYING {
            return None;
        }
        let gain = self.saving(
            phase,
            waterfall.idle_ns.seconds(),
            format!(
                "{0} ÷ ({0} − {1} idle)",
                waterfall.wall_ns, waterfall.idle_ns
            ),
        )?;
        let bound = if phase.class.class == Some(PhaseClass::HostBound) {
            " is host-bound: it"
        } else {
            ""
        };
        let mut evidence = vec![
            Evidence::share("idle share of wall time", share, Basis::Measured),
            Evidence::time("idle time", waterfall.idle_ns, Basis::Measured),
        ];
        evidence.extend(waterfall.idle.iter().take(3).map(|part| {
            Evidence::time(
                format!("idle: {}", part.name),
                part.time_ns,
                Basis::Measured,
            )
        }));
        let factor = gain.phase_factor.unwrap_or(1.0);
        Some(Finding {
            code: "idle".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}{bound} runs no operator for {} of the time; without that it would be up to {factor:.2}× faster",
                phase.phase,
                Percent(share)
            ),
            evidence,
            gain: Some(gain),
            confidence: Confidence::High,
            abstains: None,
        })
    }

    /// The kinds of operators that lose most against their floor.
    fn inefficiency(&self, phase: &PhaseAnalysis) -> Vec<Finding> {
        if self.roof.is_none() {
            return vec![Finding::abstain(
                "inefficiency",
                phase.phase,
                "how far operators are from the device's limits",
                "no device was named",
            )];
        }
        let finding = |group: &OperatorGroup| {
            let lost = group.measured_ns.0.saturating_sub(group.floor_ns?.0);
            let wall = phase.waterfall.wall_ns.0;
            if (lost as f64) < WORTH_SAYING * wall as f64 {
                return None;
            }
            let gain = self.saving(
                phase,
                Nanos(lost).seconds(),
                format!(
                    "{} ÷ ({0} − ({} measured − {} floor)), an upper bound",
                    phase.waterfall.wall_ns, group.measured_ns, group.floor_ns?
                ),
            )?;
            let fraction = group.fraction_of_roof?;
            let where_it_stands = match group.binds {
                Some(resource) => format!(
                    "at {} of their {resource} limit; at the limit",
                    Percent(fraction)
                ),
                None => "and have no floor, since fusion can remove them; without them".to_owned(),
            };
            let mut evidence = vec![
                Evidence::time("measured", group.measured_ns, Basis::Measured),
                Evidence::time("floor", group.floor_ns?, Basis::Derived),
                Evidence::share("fraction of the roof", fraction, Basis::Derived),
                Evidence::new("calls", group.calls as f64, "calls", Basis::Measured),
            ];
            if let Some(rate) = group.achieved_flops_per_s {
                evidence.push(Evidence::new("achieved", rate.0, "FLOP/s", Basis::Derived));
            }
            if let Some(rate) = group.achieved_bytes_per_s {
                evidence.push(Evidence::new("achieved", rate.0, "B/s", Basis::Derived));
            }
            Some(Finding {
                code: format!("inefficiency.{}", group.kind),
                phase: Some(phase.phase),
                title: format!(
                    "{}: {} operators take {} of the time {where_it_stands} the phase would be {:.2}× faster",
                    phase.phase,
                    group.kind,
                    Percent(group.share),
                    gain.phase_factor?
                ),
                evidence,
                gain: Some(gain),
                confidence: Confidence::Low,
                abstains: None,
            })
        };
        phase.by_kind.iter().filter_map(finding).collect()
    }

    fn extra(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        if let Some(why) = &waterfall.extra_abstains {
            return Some(Finding::abstain(
                "extra",
                phase.phase,
                "work that no operator needs",
                why,
            ));
        }
        self.part(
            phase,
            "extra",
            waterfall.extra_ns,
            "is work that no operator of the model needs",
        )
    }

    fn copies(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        self.part(
            phase,
            "copies",
            phase.waterfall.copies_ns,
            "goes to copies and memory fills",
        )
    }

    fn part(&self, phase: &PhaseAnalysis, code: &str, time: Nanos, what: &str) -> Option<Finding> {
        let share = phase.waterfall.share(time);
        if share < WORTH_SAYING {
            return None;
        }
        let wall = phase.waterfall.wall_ns;
        let gain = self.saving(phase, time.seconds(), format!("{wall} ÷ ({wall} − {time})"))?;
        Some(Finding {
            code: code.to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: {} of the time {what}; without it the phase would be {:.2}× faster",
                phase.phase,
                Percent(share),
                gain.phase_factor?
            ),
            evidence: vec![
                Evidence::time(code, time, Basis::Measured),
                Evidence::share("share of wall time", share, Basis::Measured),
            ],
            gain: Some(gain),
            // Nothing else gets faster by itself, but what overlaps may hide a part.
            confidence: if phase.waterfall.overlap_ns.0 > 0 {
                Confidence::Medium
            } else {
                Confidence::High
            },
            abstains: None,
        })
    }

    /// Decode that memory holds back: weights in 8 bits.
    fn fewer_bytes(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let subject = "storing weights in 8 bits";
        let refuse = |why: &str| {
            Some(Finding::abstain(
                "quantize_weights",
                phase.phase,
                subject,
                why,
            ))
        };
        let Some(roof) = self.roof else {
            return refuse("no device was named, so it is not known whether memory is the limit");
        };
        let formats = self.model.formats(&self.workload.precision);
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
        let fraction = linear.and_then(|group| group.fraction_of_roof)?;
        if fraction < NEAR_THE_ROOF {
            return refuse(&format!(
                "linear operators reach {} of their limit: fewer bytes alone may change nothing",
                Percent(fraction)
            ));
        }
        let precision = Precision {
            weights: Some(WeightFormat::Int8),
            activations: Some(formats.activations),
            kv: Some(formats.kv),
            // Weights are expanded on the way, so the device needs no units for the format.
            compute: Some(formats.activations),
        };
        let workload = Workload {
            precision,
            ..*self.workload
        };
        let subject = self.subject(phase, passes);
        let Some(outcome) = subject.with(roof, &workload, passes, None, 1.0) else {
            return refuse("theory cannot count the model with such weights on this device");
        };
        let wall = phase.waterfall.wall_ns;
        let gain = self.saving(
            phase,
            wall.seconds() - outcome.wall,
            format!(
                "{wall} ÷ {}: the model counted again with int8 weights has {:.2} of the floor, and each operator keeps its fraction of the roof",
                Nanos::from_seconds(outcome.wall),
                outcome.floor_ratio
            ),
        )?;
        let before = self.model.parameter_bytes(&self.workload.precision);
        let after = self.model.parameter_bytes(&precision);
        Some(Finding {
            code: "quantize_weights".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "decode is held back by reading {} weights: in int8 it would be {:.2}× faster",
                formats.weights, gain.phase_factor?
            ),
            evidence: vec![
                Evidence::share(
                    "linear operators, fraction of the roof",
                    fraction,
                    Basis::Derived,
                ),
                Evidence::new("weights now", before as f64, "B", Basis::Counted),
                Evidence::new("weights in int8", after as f64, "B", Basis::Counted),
                Evidence::share("floor after ÷ before", outcome.floor_ratio, Basis::Derived),
            ],
            gain: Some(gain),
            confidence: Confidence::Medium,
            abstains: None,
        })
    }

    /// Decode that memory holds back: more sequences per step share the weights that are read.
    fn batching(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        if phase.phase != RunPhase::Decode {
            return None;
        }
        let about = "running more requests at once";
        let refuse = |why: &str| Some(Finding::abstain("batching", phase.phase, about, why));
        let Some(roof) = self.roof else {
            return refuse("no device was named, so the limits of a larger batch are not known");
        };
        let capacity = roof
            .device()
            .memory
            .capacity_bytes
            .as_ref()
            .and_then(|figure| self.model.largest_batch(self.workload, figure.value.0));
        let prefill = self
            .phases
            .iter()
            .find(|(phase, _)| phase.phase == RunPhase::Prefill)
            .map(|(phase, _)| *phase);
        let subject = self.subject(phase, passes);
        let now = phase.waterfall.wall_ns.seconds();
        let mut best: Option<(u64, f64, f64)> = None;
        let mut times = 2;
        while times <= MOST_BATCHES {
            let batch = self.workload.batch.saturating_mul(times);
            if capacity.is_some_and(|capacity| batch > capacity) {
                break;
            }
            let workload = Workload {
                batch,
                // What was measured at this batch says nothing about the experts that a larger one reaches.
                routing: Routing::Uniform,
                ..*self.workload
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
                "a batch of {batch} instead of {} would give {factor:.1}× the tokens per second of decode, each step taking {slower:.2}× as long",
                self.workload.batch
            ),
            evidence: vec![
                Evidence::new(
                    "batch now",
                    self.workload.batch as f64,
                    "sequences",
                    Basis::Counted,
                ),
                Evidence::new("batch", batch as f64, "sequences", Basis::Derived),
                Evidence::share("decode time then ÷ now", slower, Basis::Predicted),
            ],
            gain: Some(Gain {
                of: GainOf::Throughput,
                factor,
                phase_factor: Some(factor),
                saved_ns: None,
                derivation: format!(
                    "{batch} ÷ {} sequences ÷ {slower:.3} of the time: each operator counted again at that batch keeps its fraction of the roof, or prefill's where arithmetic becomes its limit; doubling stops below {BATCH_STEP}× more",
                    self.workload.batch
                ),
            }),
            confidence: if batch > self.workload.batch.saturating_mul(FAR) {
                Confidence::Low
            } else {
                Confidence::Medium
            },
            abstains: None,
        })
    }

    fn on_chip(&self, phase: &PhaseAnalysis) -> Option<Finding> {
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

    fn first_use(&self) -> Option<Finding> {
        let first = self.latency.first_use?;
        if !first.outside_later_range || first.extra_ns < WORTH_SAYING * first.later_ns {
            return None;
        }
        let factor = first.first_ns / first.later_ns;
        Some(Finding {
            code: "first_use".to_owned(),
            phase: None,
            title: format!(
                "the first pass took {}, {factor:.2}× the later ones: warm up before serving",
                Nanos(first.first_ns.round() as i64)
            ),
            evidence: vec![
                Evidence::new("first pass", first.first_ns, "ns", Basis::Measured),
                Evidence::new("later passes, mean", first.later_ns, "ns", Basis::Measured),
                Evidence::new(
                    "more until the first token",
                    first.extra_ttft_ns,
                    "ns",
                    Basis::Measured,
                ),
            ],
            gain: Some(Gain {
                of: GainOf::FirstRequest,
                factor,
                phase_factor: None,
                saved_ns: Some(Nanos(first.extra_ns.round() as i64)),
                derivation: "time of the first pass ÷ mean of the later ones".to_owned(),
            }),
            confidence: Confidence::High,
            abstains: None,
        })
    }

    fn subject<'s>(&'s self, phase: &'s PhaseAnalysis, passes: &'s [Pass]) -> Subject<'s> {
        Subject {
            model: self.model,
            workload: self.workload,
            passes,
            phase,
        }
    }
}
