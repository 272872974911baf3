//! The rules that findings are drawn by. Each computes its gain, or has the reason why it cannot.

mod arithmetic;
mod causes;
mod conclusion;
pub(crate) mod contended;
mod devices;
pub(crate) mod finding;
mod first_use;
mod fusion;
pub(crate) mod gemm_shapes;
mod losses;
mod memory;
pub(crate) mod throttling;
mod what_if;

use llmprof_record::run::RunPhase;
use llmprof_theory::roofline::Roof;
use llmprof_theory::{Model, Pass, Workload};
use llmprof_units::Nanos;

pub use self::conclusion::{Abstention, Conclusion, Derivation, HostWork, IdleRemedy};
use self::finding::sort_findings;
pub use self::finding::{Confidence, Finding, Gain, GainOf};
use crate::bottleneck::PhaseClass;
use crate::causes::{Cause, CauseKind, Diagnosis, PhaseGain};
use crate::latency::Latency;
use crate::phase_analysis::PhaseAnalysis;
use crate::program::ProgramKind;
use crate::thresholds::FINDING_MIN_SHARE;
use crate::timeline::host_gaps::HostGaps;

/// What findings are drawn from.
pub(crate) struct FindingFacts<'a> {
    /// What was asked of which model; absent for a trace of an unknown one.
    pub(crate) subject: Option<(&'a Model, &'a Workload)>,
    /// What ran: of a program that does not generate text, statements have no gain but what is measured.
    pub(crate) program: ProgramKind,
    /// The rank that was recorded, and of how many, where only one was.
    pub(crate) rank: Option<(u64, u64)>,
    /// Whether the end of the trace is missing: it shows too little to promise anything.
    pub(crate) is_cut: bool,
    /// Whether a model was named, though nothing of it may be counted.
    pub(crate) is_named: bool,
    pub(crate) roof: Option<&'a Roof<'a>>,
    pub(crate) latency: &'a Latency,
    /// What phases that were not recorded take in passes without capture.
    pub(crate) unrecorded_seconds: f64,
    /// GEMMs with recorded shapes and a roofline time; absent where the trace has none.
    pub(crate) gemms: Option<gemm_shapes::ShapedGemms>,
    /// Each phase with the passes that it ran.
    pub(crate) phases: Vec<(&'a PhaseAnalysis, Vec<Pass>)>,
    /// Time without an op; absent unless the CPU alone was recorded, by another tool, of a program that uses no device.
    pub(crate) host_gaps: Option<HostGaps>,
    /// Causes with replayed gains; absent where the trace has no launches.
    pub(crate) diagnosis: Option<&'a Diagnosis>,
}

/// All findings of a run, in the order of their gains.
pub(crate) fn draw_findings(facts: &FindingFacts<'_>) -> Vec<Finding> {
    let mut of_devices = Vec::new();
    for (phase, passes) in &facts.phases {
        if facts.is_negligible(phase) {
            continue;
        }
        let mut findings = Vec::new();
        // Where the timeline can be replayed, causes say what parts of the time are for.
        if phase.misses_kernels() {
            findings.extend(facts.copy_finding(phase).map(Finding::without_gain));
            findings.extend(
                facts
                    .communication_finding(phase)
                    .map(Finding::without_gain),
            );
        } else if facts.diagnosis.is_none() || phase.device().is_none() {
            findings.extend(facts.idle_finding(phase));
            findings.extend(facts.inefficiency_findings(phase));
            findings.extend(facts.overhead_finding(phase));
            findings.extend(facts.copy_finding(phase));
            findings.extend(facts.communication_finding(phase));
            if facts.program.generates_text() {
                findings.extend(facts.fusion_finding(phase));
            }
            // What a change would do to steps that an engine states is not worked out.
            if !passes.is_empty() {
                findings.extend(facts.faster_format_finding(phase, passes));
                findings.extend(facts.fewer_bytes_finding(phase, passes));
            }
        } else {
            // Limits of the device: the timeline does not show how long another kernel or format would take, so no gain is stated.
            let mut limits = Vec::new();
            if !facts.has_cause(phase) {
                limits.extend(facts.inefficiency_findings(phase));
            }
            if !passes.is_empty() {
                limits.extend(facts.fewer_bytes_finding(phase, passes));
            }
            if !facts.has_communication_cause(phase) {
                limits.extend(facts.communication_finding(phase));
            }
            findings.extend(limits.into_iter().map(Finding::without_gain));
        }
        findings.extend(facts.on_chip_finding(phase));
        if facts.program.generates_text() {
            findings.extend(facts.new_lengths_finding(phase));
            findings.extend(first_use::first_instance(phase));
        }
        let device = phase.device();
        of_devices.extend(findings.into_iter().map(|finding| (device, finding)));
    }
    let mut findings = devices::join_devices(of_devices, &facts.device_seconds());
    findings.extend(facts.first_use_finding());
    findings.extend(facts.host_gaps_finding());
    let is_measured = |gain: &Gain| gain.of == GainOf::FirstRequest;
    for finding in &mut findings {
        if facts.is_cut || !facts.program.generates_text() {
            finding.gain = finding.gain.take().filter(is_measured);
        }
    }
    let is_communication_stated = findings
        .iter()
        .any(|finding| matches!(finding.conclusion, Some(Conclusion::Communication { .. })));
    // A replayed gain is of the recorded timeline, whatever ran; a cut recording has none.
    if !facts.is_cut {
        findings.extend(
            facts
                .diagnosis
                .map(causes::cause_findings)
                .unwrap_or_default()
                .into_iter()
                .filter(|finding| !(is_communication_stated && is_bare_communication(finding))),
        );
    }
    sort_findings(&mut findings);
    findings
}

/// Whether a finding names exposed communication as a cause and states no gain: the share of the time that it takes says more.
fn is_bare_communication(finding: &Finding) -> bool {
    let Some(Conclusion::Cause { cause }) = &finding.conclusion else {
        return false;
    };
    matches!(cause.kind, CauseKind::Communication { .. }) && cause.gains.is_empty()
}

/// Whether the device waits for the host so much that it would only wait longer if it worked faster.
fn hidden_by_the_host(phase: &PhaseAnalysis) -> bool {
    phase.device().is_some() && phase.class.class == Some(PhaseClass::HostBound)
}

impl FindingFacts<'_> {
    /// Whether a range of the program takes so little of its time that no part of it is worth saying. Phases of text generation are
    /// looked at however short: a prefill is what the first token waits for.
    fn is_negligible(&self, phase: &PhaseAnalysis) -> bool {
        let run = self.run_seconds(phase.device());
        phase.phase == RunPhase::Other && phase.judged_wall().seconds() < FINDING_MIN_SHARE * run
    }

    /// Causes that state a gain for the phase.
    fn causes_of<'a>(&'a self, phase: &'a PhaseAnalysis) -> impl Iterator<Item = &'a Cause> {
        let causes = self
            .diagnosis
            .into_iter()
            .flat_map(|diagnosis| &diagnosis.causes);
        let is_here = |gain: &PhaseGain| gain.phase == phase.phase && gain.label == phase.label;
        causes.filter(move |cause| cause.gains.iter().any(is_here))
    }

    fn has_cause(&self, phase: &PhaseAnalysis) -> bool {
        self.causes_of(phase).next().is_some()
    }

    fn has_communication_cause(&self, phase: &PhaseAnalysis) -> bool {
        let mut causes = self.causes_of(phase);
        causes.any(|cause| matches!(cause.kind, CauseKind::Communication { .. }))
    }

    /// Wall time of all phases of a pass on one device, of which less may have been captured, seconds. Devices run in
    /// parallel: what one of them saves is of its own time.
    fn run_seconds(&self, device: Option<u32>) -> f64 {
        let own = self.phases.iter();
        own.filter(|(phase, _)| phase.device() == device)
            .map(|(phase, _)| phase.judged_wall().seconds() * phase.whole_over_captured())
            .sum::<f64>()
            + self.unrecorded_seconds
    }

    /// The devices with the seconds that each took in all.
    fn device_seconds(&self) -> Vec<(u32, f64)> {
        let mut devices: Vec<u32> = self
            .phases
            .iter()
            .filter_map(|(phase, _)| phase.device())
            .collect();
        devices.sort_unstable();
        devices.dedup();
        let times = devices.iter().map(|&device| self.run_seconds(Some(device)));
        devices.iter().copied().zip(times).collect()
    }

    /// The gain of making a phase `saved` seconds shorter.
    fn gain_of_saving(
        &self,
        phase: &PhaseAnalysis,
        saved: f64,
        derivation: Derivation,
    ) -> Option<Gain> {
        let (wall, run) = (
            phase.judged_wall().seconds(),
            self.run_seconds(phase.device()),
        );
        (saved > 0.0 && saved < wall).then(|| Gain {
            of: GainOf::Run,
            factor: run / (run - saved * phase.whole_over_captured()),
            phase_factor: Some(wall / (wall - saved)),
            saved_ns: Some(Nanos::from_seconds(saved)),
            derivation,
            is_bound: false,
        })
    }
}
