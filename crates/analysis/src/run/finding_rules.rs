//! The rules that findings are drawn by. Each computes its gain, or says why it cannot.

use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Kind, Model, Pass, Precision, Routing, WeightFormat, Workload};
use llmprof_units::{Basis, Nanos, Percent};

use super::classes::PhaseClass;
use super::findings::{Confidence, Evidence, Finding, Gain, GainOf, sort};
use super::idle_parts::{HOST_BUSY, LAUNCH_LATENCY};
use super::latency::Latency;
use super::measured::RunPhase;
use super::operator_groups::OperatorGroup;
use super::phase_analysis::PhaseAnalysis;
use super::traced::NewLengths;
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
    /// What was asked of which model; absent for a trace of an unknown one.
    pub(super) subject: Option<(&'a Model, &'a Workload)>,
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
        found.extend(facts.new_lengths(phase));
        found.extend(first_instance(phase));
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
            .map(|(phase, _)| phase.judged_wall().seconds())
            .sum()
    }

    /// The gain of making a phase `saved` seconds shorter.
    fn saving(&self, phase: &PhaseAnalysis, saved: f64, derivation: String) -> Option<Gain> {
        let (wall, run) = (phase.judged_wall().seconds(), self.run_seconds());
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
        let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
        let share = idle.0 as f64 / wall.0.max(1) as f64;
        if share < WORTH_SAYING {
            return None;
        }
        // What new lengths cost has a finding of its own: another change removes it.
        // Passes without capture have met their lengths before.
        let is_captured = wall == waterfall.wall_ns;
        let apart = new_lengths(phase).filter(|_| is_captured);
        let apart = apart.map_or(Nanos(0), |found| found.time_ns);
        let removable = Nanos(idle.0.saturating_sub(apart.0).max(0));
        let but = if apart.0 > 0 {
            format!(" (and {apart} of first use, which is told apart)")
        } else {
            String::new()
        };
        let gain = self.saving(
            phase,
            removable.seconds(),
            format!("{wall} ÷ ({wall} − {removable} idle){but}"),
        )?;
        let on_device = phase.device().is_some();
        let bound = if phase.class.class == Some(PhaseClass::HostBound) {
            if on_device {
                " is host-bound: the device"
            } else {
                " is host-bound: it"
            }
        } else if on_device {
            ": the device"
        } else {
            ""
        };
        let mut evidence = vec![
            Evidence::share("idle share of wall time", share, Basis::Measured),
            Evidence::time("idle time", idle, Basis::Measured),
        ];
        if !is_captured {
            evidence.push(Evidence::time(
                "wall time without capture, from which the device's busy time is taken",
                wall,
                Basis::Measured,
            ));
        }
        evidence.extend(waterfall.idle.iter().take(3).map(|part| {
            Evidence::time(
                format!("idle: {}", part.name),
                part.time_ns,
                Basis::Measured,
            )
        }));
        if let Some(operator) = phase.traced.as_ref().and_then(|t| t.host_operators.first()) {
            evidence.push(Evidence::time(
                format!("idle while the host was longest in: {}", operator.name),
                operator.time_ns,
                Basis::Measured,
            ));
        }
        let factor = gain.phase_factor.unwrap_or(1.0);
        let what = if on_device {
            "idles"
        } else {
            "runs no operator"
        };
        let remedy = if on_device && launches_hold_it_back(phase) {
            "; CUDA graphs or a compiled model launch with less work of the host"
        } else {
            ""
        };
        Some(Finding {
            code: "idle".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}{bound} {what} for {} of the time; without that it would be up to {factor:.2}× faster{remedy}",
                phase.name(),
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
        let about = "how far operators are from the device's limits";
        let why = match (self.subject, self.roof) {
            (None, _) => Some("no model was named"),
            (_, None) => Some("no device was named"),
            _ => None,
        };
        if let Some(why) = why {
            return vec![Finding::abstain("inefficiency", phase, about, why)];
        }
        let finding = |group: &OperatorGroup| {
            let lost = group.measured_ns.0.saturating_sub(group.floor_ns?.0);
            let wall = phase.judged_wall().0;
            if (lost as f64) < WORTH_SAYING * wall as f64 {
                return None;
            }
            let gain = self.saving(
                phase,
                Nanos(lost).seconds(),
                format!(
                    "{} ÷ ({0} − ({} measured − {} floor)), an upper bound",
                    phase.judged_wall(),
                    group.measured_ns,
                    group.floor_ns?
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
                code: format!("inefficiency.{}", group.name),
                phase: Some(phase.phase),
                title: format!(
                    "{}: {} operators take {} of the time {where_it_stands} the phase would be {:.2}× faster",
                    phase.name(),
                    group.name,
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
                phase,
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
        let wall = phase.judged_wall();
        let gain = self.saving(phase, time.seconds(), format!("{wall} ÷ ({wall} − {time})"))?;
        Some(Finding {
            code: code.to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: {} of the time {what}; without it the phase would be {:.2}× faster",
                phase.name(),
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
                "{wall} ÷ {}: the model counted again with int8 weights has {:.2} of the floor, and each operator keeps its fraction of the roof",
                Nanos::from_seconds(outcome.wall),
                outcome.floor_ratio
            ),
        )?;
        let before = model.parameter_bytes(&workload_now.precision);
        let after = model.parameter_bytes(&precision);
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
                "a batch of {batch} instead of {} would give {factor:.1}× the tokens per second of decode, each step taking {slower:.2}× as long",
                workload_now.batch
            ),
            evidence: vec![
                Evidence::new(
                    "batch now",
                    workload_now.batch as f64,
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
                    workload_now.batch
                ),
            }),
            confidence: if batch > workload_now.batch.saturating_mul(FAR) {
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

    /// Steps that wait before their first attention kernel, as a length of the cache does that never ran before.
    fn new_lengths(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let found = new_lengths(phase)?;
        let share = phase.waterfall.share(found.time_ns);
        if share < WORTH_SAYING {
            return None;
        }
        let wall = phase.judged_wall();
        let gain = self.saving(
            phase,
            found.time_ns.seconds(),
            format!("{wall} ÷ ({wall} − {} of first use)", found.time_ns),
        )?;
        Some(Finding {
            code: "first_use.kv_lengths".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: {} attention kernels wait {} on average for a length that has not run before; warm up the lengths that are \
                 served, {:.2}× faster then (CUDA graphs do not remove this)",
                phase.name(),
                found.waits,
                found.mean(),
                gain.phase_factor?
            ),
            evidence: found.evidence(),
            gain: Some(gain),
            confidence: Confidence::Medium,
            abstains: None,
        })
    }

    fn first_use(&self) -> Option<Finding> {
        let first = self.latency.first_use?;
        if !first.outside_later_range || first.extra_ns < WORTH_SAYING * first.later_ns {
            return None;
        }
        let factor = first.first_ns / first.later_ns;
        let mut evidence = vec![
            Evidence::new("first pass", first.first_ns, "ns", Basis::Measured),
            Evidence::new("later passes, mean", first.later_ns, "ns", Basis::Measured),
            Evidence::new(
                "more until the first token",
                first.extra_ttft_ns,
                "ns",
                Basis::Measured,
            ),
        ];
        let step = self.latency.itl_ns.as_ref().map_or(0.0, |gaps| gaps.p50);
        let lengths = first
            .extra_step_ns
            .filter(|extra| *extra > WORTH_SAYING * step);
        let lengths = lengths.map(|extra| {
            evidence.push(Evidence::new("more for each later step", extra, "ns", Basis::Measured));
            format!(
                ", and its median step {} longer: each length of the cache that has not run before costs that once (CUDA graphs \
                 do not remove this); warm up the lengths that are served",
                Nanos(extra.round() as i64)
            )
        });
        Some(Finding {
            code: "first_use".to_owned(),
            phase: None,
            title: format!(
                "the first pass took {}, {factor:.2}× the later ones{}",
                Nanos(first.first_ns.round() as i64),
                lengths.unwrap_or_else(|| ": warm up before serving".to_owned())
            ),
            evidence,
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
}

/// The first time that a phase ran, where it took longer for the same work.
fn first_instance(phase: &PhaseAnalysis) -> Option<Finding> {
    let first = phase.traced.as_ref()?.first_use.as_ref()?;
    let factor = first.wall_ns.0 as f64 / first.later_ns.max(1.0);
    let mut evidence = vec![
        Evidence::time("the first", first.wall_ns, Basis::Measured),
        Evidence::new(
            "the later ones, mean",
            first.later_ns,
            "ns",
            Basis::Measured,
        ),
    ];
    let lengths = match &first.new_lengths {
        Some(found) => {
            evidence.extend(found.evidence());
            format!(
                ", of which {} before attention kernels of {} lengths that had not run before (CUDA graphs do not remove this)",
                found.time_ns, found.waits
            )
        }
        None => String::new(),
    };
    Some(Finding {
        code: "first_use".to_owned(),
        phase: Some(phase.phase),
        title: format!(
            "the first {} took {}, {factor:.2}× the later ones, for the same work on the device{lengths}: warm up before serving",
            phase.name(),
            first.wall_ns
        ),
        evidence,
        gain: Some(Gain {
            of: GainOf::FirstRequest,
            factor,
            phase_factor: Some(factor),
            saved_ns: Some(Nanos(
                first
                    .wall_ns
                    .0
                    .saturating_sub(first.later_ns.round() as i64),
            )),
            derivation: "time of the first ÷ mean of the later ones".to_owned(),
        }),
        confidence: Confidence::High,
        abstains: None,
    })
}

fn new_lengths(phase: &PhaseAnalysis) -> Option<&NewLengths> {
    phase.traced.as_ref()?.new_lengths.as_ref()
}

/// Whether most idle time is the host's work before launches, rather than waiting for the device.
fn launches_hold_it_back(phase: &PhaseAnalysis) -> bool {
    let named = |name: &str| {
        let parts = phase.waterfall.idle.iter();
        let times = parts.filter(|part| part.name == name);
        times.map(|part| part.time_ns.seconds()).sum::<f64>()
    };
    2.0 * (named(HOST_BUSY) + named(LAUNCH_LATENCY)) > phase.waterfall.idle_ns.seconds()
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
