//! One phase of a captured pass, joined with what theory counts for it.

use llmprof_record::issue::{Issue, Severity};
use llmprof_theory::floor::{MemoryLevel, OperatorFloor, PhaseFloor, Roof};
use llmprof_theory::{Cost, Model, Operator, Pass, Phase, Workload};
use llmprof_units::{Basis, Nanos};
use serde::{Deserialize, Serialize};

use super::classes::{Classification, PhaseSignals, classify};
use super::matching::{MissingOperator, Script, UnmatchedOperator, match_operators};
use super::measured::{MeasuredPass, MeasuredRun, OperatorEvent, PassKind, PhaseSpan, RunPhase};
use super::operator_groups::OperatorGroup;
use super::residence::Residence;
use super::statistics::Summary;
use super::traced::TracedPhase;
use super::utilization::Utilization;
use super::waterfall::{Input, Waterfall};

/// What one phase did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseAnalysis {
    /// The phase.
    pub phase: RunPhase,
    /// What to call it, where the phase's own name does not tell: a range of the program, one of several devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where the time of the captured pass went.
    pub waterfall: Waterfall,
    /// Mean wall time in passes without capture; absent where there are none.
    pub plain_wall_ns: Option<Nanos>,
    /// Wall time of the captured pass ÷ that of the same work in passes without capture: what capturing costs.
    pub capture_ratio: Option<f64>,
    /// The least time of all operators that theory counts, whether they ran or not; absent without a device.
    pub floor: Option<PhaseFloor>,
    /// How much of the device the captured pass used.
    pub utilization: Option<Utilization>,
    /// The same in passes without capture.
    pub plain_utilization: Option<Utilization>,
    /// Where the bytes of a step can stay.
    pub residence: Option<Residence>,
    /// What holds it back.
    pub class: Classification,
    /// Calls that were matched.
    pub matched_calls: u64,
    /// Matched operators by kind, the longest first.
    pub by_kind: Vec<OperatorGroup>,
    /// Matched operators by place in the model, the longest first.
    pub by_path: Vec<OperatorGroup>,
    /// Operators that ran and are not matched.
    pub unmatched: Vec<UnmatchedOperator>,
    /// Operators that theory counts and that did not run.
    pub missing: Vec<MissingOperator>,
    /// `counted`, or how else the work is known where random routing decides.
    pub basis: Basis,
    /// What a trace shows beyond that; absent for runs of the native engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TracedPhase>,
}

impl PhaseAnalysis {
    /// What to call it.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(self.phase.name())
    }

    /// The wall time that gains are judged by. A device works as long whoever watches it, but watching slows the host down: a
    /// phase of a device is judged by the passes without capture where there are some, any other by the captured pass,
    /// whose parts are what could be saved.
    pub fn judged_wall(&self) -> Nanos {
        let plain = self.plain_wall().filter(|_| self.device().is_some());
        plain.unwrap_or(self.waterfall.wall_ns)
    }

    /// What passes without capture took for the work that was captured, which may be less than all that they did.
    pub fn plain_wall(&self) -> Option<Nanos> {
        let ratio = self.capture_ratio.filter(|ratio| *ratio > 0.0)?;
        Some(Nanos(
            (self.waterfall.wall_ns.0 as f64 / ratio).round() as i64
        ))
    }

    /// How many times the captured work passes without capture do in this phase: they may have more batches, or more steps.
    pub fn whole_over_captured(&self) -> f64 {
        match (self.plain_wall_ns, self.plain_wall()) {
            (Some(whole), Some(captured)) if captured.0 > 0 => whole.0 as f64 / captured.0 as f64,
            _ => 1.0,
        }
    }

    /// The idle time of that wall time.
    pub fn judged_idle(&self) -> Nanos {
        if self.judged_wall() == self.waterfall.wall_ns {
            self.waterfall.idle_ns
        } else {
            Nanos((self.judged_wall().0 - self.waterfall.busy_ns.0).max(0))
        }
    }

    /// A time of the captured pass as a part of the wall time that gains are judged by.
    pub fn judged_share(&self, part: Nanos) -> f64 {
        part.0 as f64 / self.judged_wall().0.max(1) as f64
    }

    /// The part of the captured pass's idle time that has one of these names, from 0 to 1.
    pub(super) fn idle_part(&self, names: &[&str]) -> f64 {
        let parts = self.waterfall.idle.iter();
        let named = parts.filter(|part| names.contains(&part.name.as_str()));
        let sum: i64 = named
            .map(|part| part.time_ns.0)
            .fold(0, i64::saturating_add);
        sum as f64 / self.waterfall.idle_ns.0.max(1) as f64
    }

    /// The device whose events it is made of; absent for the host.
    pub fn device(&self) -> Option<u32> {
        self.traced.as_ref()?.device
    }

    /// Whether operators are told apart by their kernels alone, so that groups are sets of kinds.
    pub fn by_kernels(&self) -> bool {
        self.traced.as_ref().is_some_and(|traced| !traced.by_module)
    }
}

/// What all phases of a run have in common.
pub(super) struct Context<'a> {
    pub(super) model: &'a Model,
    pub(super) workload: &'a Workload,
    pub(super) roof: Option<&'a Roof<'a>>,
    pub(super) run: &'a MeasuredRun,
}

impl Context<'_> {
    /// The phases of a captured pass, each with what the decoder did in it.
    pub(super) fn phases(
        &self,
        pass: &MeasuredPass,
        issues: &mut Vec<Issue>,
    ) -> Vec<(PhaseAnalysis, Vec<Pass>)> {
        if pass.lost_events > 0 {
            issues.push(
                Issue::new(
                    Severity::Warning,
                    "run.lost_events",
                    "the recorder was full: time of the operators that are lost appears as idle",
                )
                .counting(pass.lost_events),
            );
        }
        let mut events = pass.operators.clone();
        events.sort_by_key(|event| (event.start_ns, event.end_ns));
        let mut spans = pass.phases.clone();
        spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        let outside = events
            .iter()
            .filter(|event| !spans.iter().any(|span| holds(span, event)))
            .count();
        if outside > 0 {
            issues.push(
                Issue::new(
                    Severity::Warning,
                    "run.outside_phases",
                    "operator calls lie in no phase",
                )
                .counting(outside as u64),
            );
        }
        let mut order: Vec<RunPhase> = Vec::new();
        for span in &spans {
            if span.phase != RunPhase::Load && !order.contains(&span.phase) {
                order.push(span.phase);
            }
        }
        order
            .into_iter()
            .map(|phase| {
                let spans: Vec<&PhaseSpan> =
                    spans.iter().filter(|span| span.phase == phase).collect();
                self.phase(phase, &spans, pass, &events, issues)
            })
            .collect()
    }

    fn phase(
        &self,
        phase: RunPhase,
        spans: &[&PhaseSpan],
        pass: &MeasuredPass,
        events: &[OperatorEvent],
        issues: &mut Vec<Issue>,
    ) -> (PhaseAnalysis, Vec<Pass>) {
        let passes: Vec<Pass> = spans.iter().flat_map(|span| self.passes(span)).collect();
        let mut cost = Cost::default();
        self.lower(phase, &passes, &mut |operator| cost.add(operator));
        let floor = self.floor(phase, &passes, issues);
        let residence = self
            .roof
            .filter(|_| cost.calls > 0)
            .map(|roof| Residence::of(roof, self.bytes_per_step(phase, &passes)));
        let level = floor
            .as_ref()
            .map_or(MemoryLevel::Main, |(floor, _)| floor.memory_level);
        let (floor, levels) = match floor {
            Some((floor, levels)) => (Some(floor), Some(levels)),
            None => (None, None),
        };
        let roof = self.roof.zip(levels.as_deref());
        let inside: Vec<OperatorEvent> = events
            .iter()
            .filter(|event| spans.iter().any(|span| holds(span, event)))
            .copied()
            .collect();
        // Twice as many, so that what did not run is counted too.
        let most = inside.len().saturating_mul(2);
        let script = Script::of(self.model, self.workload, &passes, roof, most);
        let matched = match_operators(&script, &self.run.operators, &inside, wall(pass, phase));
        let mut host = pass.host.clone();
        host.sort_by_key(|host| (host.start_ns, host.end_ns));
        let waterfall = spans
            .iter()
            .map(|span| {
                Waterfall::of(&Input {
                    window: (span.start_ns, span.end_ns),
                    events: &matched.events,
                    floors: matched.floors.as_deref(),
                    host: &host,
                })
            })
            .reduce(|mut sum, next| {
                sum.add(&next);
                sum
            })
            .unwrap_or_default();
        issues.extend(waterfall.issues(phase.name()));
        matching_issues(phase, &matched.unmatched, &matched.missing, issues);

        let plain = plain_wall(self.run, phase);
        let utilization = |wall: Nanos| {
            let roof = self.roof.filter(|_| cost.calls > 0)?;
            Some(Utilization::of(roof, &cost, wall, level))
        };
        let signals = PhaseSignals {
            throttled_share: pass.throttled_share,
            ..PhaseSignals::default()
        };
        let analysis = PhaseAnalysis {
            phase,
            label: None,
            plain_wall_ns: plain,
            capture_ratio: plain
                .filter(|plain| plain.0 > 0)
                .map(|plain| waterfall.wall_ns.0 as f64 / plain.0 as f64),
            utilization: utilization(waterfall.wall_ns),
            plain_utilization: plain.and_then(utilization),
            class: classify(&waterfall, floor.as_ref(), &signals),
            floor,
            residence,
            waterfall,
            matched_calls: matched.calls,
            by_kind: matched.by_kind,
            by_path: matched.by_path,
            unmatched: matched.unmatched,
            missing: matched.missing,
            basis: cost.basis,
            traced: None,
        };
        (analysis, passes)
    }

    /// What theory counts in a stretch.
    fn passes(&self, span: &PhaseSpan) -> Vec<Pass> {
        let phase = match span.phase.counted() {
            Some(phase @ (Phase::Prefill | Phase::Decode)) => phase,
            Some(Phase::Vision) | None => return Vec::new(),
        };
        if !span.passes.is_empty() {
            return span.passes.iter().map(|shape| shape.pass(phase)).collect();
        }
        match phase {
            Phase::Prefill => self.model.prefill_passes(self.workload).collect(),
            _ => self.model.decode_pass(self.workload).into_iter().collect(),
        }
    }

    pub(super) fn lower<'m>(
        &'m self,
        phase: RunPhase,
        passes: &[Pass],
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        if phase == RunPhase::Vision {
            self.model.lower_vision(self.workload, sink);
        }
        for pass in passes {
            self.model.lower(self.workload, pass, sink);
        }
    }

    /// The most bytes that a step of any pass needs.
    pub(super) fn bytes_per_step(&self, phase: RunPhase, passes: &[Pass]) -> u64 {
        let of = |passes: &[Pass]| {
            let mut bytes = 0.0;
            self.lower(phase, passes, &mut |operator| {
                bytes += operator.traffic.compulsory() as f64 * f64::from(operator.layers)
                    / operator.steps.max(1) as f64;
            });
            bytes as u64
        };
        if phase == RunPhase::Vision {
            return of(&[]);
        }
        passes.chunks(1).map(of).max().unwrap_or(0)
    }

    /// The least time of a phase, and the memory level of each pass. Passes run one after the other, so each has its own.
    pub(super) fn floor(
        &self,
        phase: RunPhase,
        passes: &[Pass],
        issues: &mut Vec<Issue>,
    ) -> Option<(PhaseFloor, Vec<MemoryLevel>)> {
        let roof = self.roof?;
        let floors: Result<Vec<PhaseFloor>, _> = if phase == RunPhase::Vision {
            PhaseFloor::of(roof, |sink| self.model.lower_vision(self.workload, sink))
                .map(|floor| vec![floor])
        } else {
            passes
                .iter()
                .map(|pass| PhaseFloor::of_pass(roof, self.model, self.workload, pass))
                .collect()
        };
        match floors {
            Ok(floors) => {
                let levels = floors.iter().map(|floor| floor.memory_level).collect();
                Some((floors.into_iter().reduce(after_each_other)?, levels))
            }
            Err(missing) => {
                issues.push(Issue::new(
                    Severity::Warning,
                    "run.missing_peak",
                    format!("{phase} has no floor: {missing}"),
                ));
                None
            }
        }
    }
}

/// Mean wall time of a phase in the passes of a run without capture.
pub(super) fn plain_wall(run: &MeasuredRun, phase: RunPhase) -> Option<Nanos> {
    let walls: Vec<f64> = run
        .passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Plain)
        .map(|pass| wall(pass, phase) as f64)
        .filter(|wall| *wall > 0.0)
        .collect();
    Summary::of(&walls).map(|summary| Nanos(summary.mean.round() as i64))
}

/// The floor of two passes of which one follows the other. Bytes come from main memory where they do in either.
fn after_each_other(a: PhaseFloor, b: PhaseFloor) -> PhaseFloor {
    let sums = OperatorFloor {
        tensor: (a.tensor_ns + b.tensor_ns).seconds(),
        vector: (a.vector_ns + b.vector_ns).seconds(),
        memory: (a.memory_ns + b.memory_ns).seconds(),
    };
    let flops = a.flops + b.flops;
    let compulsory_bytes = a.compulsory_bytes + b.compulsory_bytes;
    let mut missing = a.vector_peaks_missing;
    for dtype in b.vector_peaks_missing {
        if !missing.contains(&dtype) {
            missing.push(dtype);
        }
    }
    PhaseFloor {
        floor_ns: a.floor_ns + b.floor_ns,
        whole_ns: Nanos::from_seconds(sums.seconds()),
        tensor_ns: a.tensor_ns + b.tensor_ns,
        vector_ns: a.vector_ns + b.vector_ns,
        memory_ns: a.memory_ns + b.memory_ns,
        binds: sums.binds(),
        memory_level: if a.memory_level == MemoryLevel::OnChip {
            b.memory_level
        } else {
            a.memory_level
        },
        flops,
        compulsory_bytes,
        intensity: (compulsory_bytes.0 > 0).then(|| flops.0 as f64 / compulsory_bytes.0 as f64),
        ridge: a.ridge.or(b.ridge),
        vector_peaks_missing: missing,
    }
}

/// Whether a call belongs to a stretch: it does where it began.
pub(super) fn holds(span: &PhaseSpan, event: &OperatorEvent) -> bool {
    (span.start_ns..span.end_ns).contains(&event.start_ns)
}

fn matching_issues(
    phase: RunPhase,
    unmatched: &[UnmatchedOperator],
    missing: &[MissingOperator],
    issues: &mut Vec<Issue>,
) {
    if let Some(first) = unmatched.first() {
        let calls = unmatched.iter().map(|operator| operator.calls).sum();
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.unmatched_operators",
                format!(
                    "{phase}: operator calls are not matched to theory, first `{}`: {}",
                    first.path, first.reason
                ),
            )
            .counting(calls),
        );
    }
    if let Some(first) = missing.first() {
        let calls = missing.iter().map(|operator| operator.calls).sum();
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.missing_operators",
                format!(
                    "{phase}: operator calls that theory counts did not run, first `{}`",
                    first.path
                ),
            )
            .counting(calls),
        );
    }
}

/// How long a stretch is, ns.
pub(super) fn length(span: &PhaseSpan) -> i64 {
    span.end_ns.saturating_sub(span.start_ns).max(0)
}

/// Time of a phase in a pass, ns.
pub(super) fn wall(pass: &MeasuredPass, phase: RunPhase) -> i64 {
    let spans = pass.phases.iter().filter(|span| span.phase == phase);
    spans.map(length).fold(0, i64::saturating_add)
}
