//! Time that a phase loses: idle, kernel inefficiency, overhead ops, copies.

use llmprof_record::kernel_name::Category;
use llmprof_theory::roofline::Resource;
use llmprof_units::{Basis, BytesPerSecond, Nanos};

use crate::bottleneck::PhaseClass;
use crate::evidence::{Evidence, Measure};
use crate::findings::conclusion::{Abstention, Conclusion, Derivation, HostWork, IdleRemedy};
use crate::findings::finding::{Confidence, Finding};
use crate::findings::first_use::new_lengths;
use crate::findings::gemm_shapes::{GEMMS, library_of};
use crate::findings::{FindingFacts, hidden_by_the_host};
use crate::matching::UnmatchedReason;
use crate::matching::groups::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::{CopyTime, TracedPhase};
use crate::thresholds::{COPY_DIRECTION_MIN_SHARE, DEVICE_USED_MIN_SHARE, FINDING_MIN_SHARE};
use crate::thresholds::{
    HOST_BOUND_MIN_SHARE, HOST_WORK_MIN_SHARE, LAUNCHING_IDLE_MAX_NS, LONG_GAP_MIN_NS,
};
use crate::timeline::launches::is_memory_call;
use crate::waterfall::idle_parts::{
    DATA_LOADING, HOST_BUSY, LAUNCH_CALL, LAUNCH_LATENCY, NOT_STARTED, NamedTime, QUEUED_GAP,
};
use llmprof_record::run::RunPhase;

impl FindingFacts<'_> {
    pub(crate) fn idle_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
        let share = idle.0 as f64 / wall.0.max(1) as f64;
        let traced = phase.traced.as_ref();
        // Of a host that something else recorded, time without an operator says nothing.
        let is_host_alone = traced.is_some_and(|one| one.device.is_none() && !one.by_identity);
        if share < FINDING_MIN_SHARE || is_host_alone {
            return None;
        }
        if traced.is_some_and(|traced| traced.is_whole_trace) {
            return Some(Finding::abstain("idle", phase, Abstention::NoPhases));
        }
        let waits_for_host = matches!(
            phase.class.class,
            Some(PhaseClass::HostBound | PhaseClass::InputBound)
        );
        // Launches that are late by their number alone are late in every range.
        let has_other_cause = !waits_for_host || idle_remedy(phase).is_none();
        let host_work = host_work(phase).or_else(|| range_work(phase).filter(|_| has_other_cause));
        if !self.program.generates_text() && !waits_for_host && host_work.is_none() {
            return None;
        }
        // What new lengths cost has a finding of its own: another change removes it.
        // Passes without capture have met their lengths before.
        let is_captured = wall == waterfall.wall_ns;
        let apart = new_lengths(phase).filter(|_| is_captured);
        let apart = apart.map_or(Nanos(0), |lengths| lengths.time_ns);
        let usual = waterfall.wall_ns.0.saturating_sub(apart.0).max(1);
        let busy_share = waterfall.busy_ns.0 as f64 / usual as f64;
        if phase.device().is_some() && busy_share < DEVICE_USED_MIN_SHARE {
            return Some(Finding::abstain("idle", phase, Abstention::HardlyUsed));
        }
        if traced.is_some_and(|traced| traced.clocks_disagree) {
            let why = Abstention::ClocksDisagree { share };
            return Some(Finding::abstain("idle", phase, why));
        }
        // What waits with work queued may be busy with what the trace does not show.
        let queued = Nanos::from_seconds(idle.seconds() * phase.idle_part(&[NOT_STARTED]));
        let removable = Nanos(
            idle.0
                .saturating_sub(apart.0)
                .saturating_sub(queued.0)
                .max(0),
        );
        let removable = match &host_work {
            Some(work) => removable.min(Nanos::from_seconds(wall.seconds() * work.share)),
            None => removable,
        };
        let remedy = match &host_work {
            Some(work) if is_memory_call(&work.operator) => Some(IdleRemedy::ReuseMemory),
            Some(_) => Some(IdleRemedy::LessHostWork),
            None => idle_remedy(phase),
        };
        let on_device = phase.device().is_some();
        // Much idle time that gave the phase no class is not known to be the host's.
        let is_unexplained = phase.class.class.is_none() && share >= HOST_BOUND_MIN_SHARE;
        let is_known =
            waits_for_host || remedy.is_some() && (!is_unexplained || host_work.is_some());
        if on_device && !is_known && apart.0 == 0 {
            let why = Abstention::UnknownIdle { share };
            return Some(Finding::abstain("idle", phase, why));
        }
        let queued_share = queued.0 as f64 / wall.0.max(1) as f64;
        if phase.judged_share(removable) < FINDING_MIN_SHARE && queued > apart {
            let why = Abstention::QueuedIdle {
                share,
                queued_share,
            };
            return Some(Finding::abstain("idle", phase, why));
        }
        let gain = self
            .gain_of_saving(
                phase,
                removable.seconds(),
                Derivation::WithoutIdle {
                    wall_ns: wall,
                    idle_ns: removable,
                    first_use_ns: Some(apart).filter(|apart| apart.0 > 0),
                    queued_ns: Some(queued).filter(|_| queued_share >= FINDING_MIN_SHARE),
                },
            )?
            .at_most();
        let confidence = if phase.is_slowed_by_capture() {
            Confidence::Low
        } else {
            Confidence::High
        };
        let first_use_share = apart.0 as f64 / wall.0.max(1) as f64;
        let conclusion = Conclusion::Idle {
            share,
            is_host_bound: phase.class.class == Some(PhaseClass::HostBound),
            on_device,
            first_use_share: (apart.0 > 0).then_some(first_use_share),
            queued_share: (queued_share >= FINDING_MIN_SHARE).then_some(queued_share),
            remedy,
            host_work,
        };
        let finding = Finding::of_phase(phase, conclusion).with_evidence(idle_evidence(phase));
        Some(finding.with_gain(gain, confidence))
    }

    /// Where the time of a program on the CPU goes while no op runs. What would remove it is not known, so it has no gain.
    pub(crate) fn host_gaps_finding(&self) -> Option<Finding> {
        let gaps = self.host_gaps.as_ref().filter(|_| !self.is_cut)?;
        let conclusion = Conclusion::HostGaps { gaps: gaps.clone() };
        (gaps.share() >= FINDING_MIN_SHARE).then(|| {
            Finding::of_run(conclusion).with_evidence(vec![
                Evidence::time(Measure::IdleTime, gaps.time_ns, Basis::Measured),
                Evidence::time(Measure::LongestGap, gaps.longest_ns, Basis::Measured),
            ])
        })
    }

    /// The kinds of operators that lose most against their roofline.
    pub(crate) fn inefficiency_findings(&self, phase: &PhaseAnalysis) -> Vec<Finding> {
        let why = match (self.subject, self.roof) {
            (None, _) if self.is_named => Some(Abstention::NothingCounted),
            (None, _) => Some(Abstention::NoModel),
            (_, None) => Some(Abstention::NoDevice),
            _ => None,
        };
        if let Some(why) = why {
            let by_shape = self.gemm_shapes_finding(phase);
            let is_asked = self.is_named || self.program.generates_text();
            let abstained = || is_asked.then(|| Finding::abstain("inefficiency", phase, why));
            return by_shape.or_else(abstained).into_iter().collect();
        }
        if hidden_by_the_host(phase) {
            return Vec::new();
        }
        let finding = |group: &OperatorGroup| {
            let lost = group.measured_ns.0.saturating_sub(group.roofline_ns?.0);
            let wall = phase.judged_wall().0;
            if (lost as f64) < FINDING_MIN_SHARE * wall as f64 {
                return None;
            }
            let gain = self
                .gain_of_saving(
                    phase,
                    Nanos(lost).seconds(),
                    Derivation::AtRoofline {
                        wall_ns: phase.judged_wall(),
                        measured_ns: group.measured_ns,
                        roofline_ns: group.roofline_ns?,
                    },
                )?
                .at_most();
            let fraction = group.roofline_fraction?;
            let mut evidence = vec![
                Evidence::time(Measure::MeasuredTime, group.measured_ns, Basis::Measured),
                Evidence::time(Measure::RooflineTime, group.roofline_ns?, Basis::Derived),
                Evidence::share(Measure::RooflineShare, fraction, Basis::Derived),
                Evidence::new(Measure::Calls, group.calls as f64, "calls", Basis::Measured),
            ];
            let rate =
                |value, unit| Evidence::new(Measure::AchievedRate, value, unit, Basis::Derived);
            evidence.extend(group.achieved_flops_per_s.map(|r| rate(r.0, "FLOP/s")));
            evidence.extend(group.achieved_bytes_per_s.map(|r| rate(r.0, "B/s")));
            let conclusion = Conclusion::Inefficiency {
                operators: group.name.clone(),
                share: phase.judged_share(group.measured_ns),
                roofline_fraction: fraction,
                // Activations between operators do not count as traffic: what only the vector units limit could be fused away.
                binds: group.binds.filter(|resource| *resource != Resource::Vector),
                library: match group.name.as_str() {
                    "gemm" | "linear" | "experts" => library_of(phase, GEMMS),
                    "attention" => library_of(phase, &[Category::Attention]),
                    _ => None,
                },
            };
            let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
            Some(finding.with_gain(gain, Confidence::Low))
        };
        // A roofline time that is an upper bound bounds no speedup.
        let is_known = |group: &&OperatorGroup| {
            phase.experts_at_most.is_none() || group.basis == Basis::Counted
        };
        let groups = phase.by_kind.iter().filter(is_known);
        groups.filter_map(finding).collect()
    }

    pub(crate) fn overhead_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        // Without a model nothing says what is needed.
        self.subject?;
        if let Some(why) = waterfall.extra_abstains {
            let why = Abstention::Unmatched { why };
            return Some(Finding::abstain("extra", phase, why));
        }
        if phase.phase == RunPhase::Other {
            return Some(Finding::abstain("extra", phase, Abstention::UnknownPhase));
        }
        // What runs behind other kernels takes no time of its own.
        let alone = waterfall.exposed_extra_ns;
        let conclusion = Conclusion::Extra {
            share: phase.judged_share(alone),
            by_name: false,
            on_device: phase.device().is_some(),
            views_share: Some(views_share(phase)).filter(|share| *share >= FINDING_MIN_SHARE),
        };
        self.part_finding(phase, alone, Measure::OverheadOpsTime, conclusion, true)
    }

    /// Exchange between devices that nothing hides: overlapped with other work it would take no time of its own.
    pub(crate) fn communication_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let exposed = phase.waterfall.exposed_communication_ns;
        let share = phase.judged_share(exposed);
        if share < FINDING_MIN_SHARE {
            return None;
        }
        // Overlapped with all other work, the phase still takes as long as the longer of the two.
        let wall = phase.judged_wall();
        let all = phase.waterfall.communication_ns.min(wall);
        let saved = Nanos(wall.0.saturating_sub(all.0)).min(exposed);
        let derivation = Derivation::WithoutPart {
            wall_ns: wall,
            part_ns: saved,
        };
        let gain = self.gain_of_saving(phase, saved.seconds(), derivation);
        let evidence = vec![Evidence::share(
            Measure::ExposedCommunicationShare,
            share,
            Basis::Measured,
        )];
        let conclusion = Conclusion::Communication {
            exposed_share: share,
            waiting_share: None,
            rank: self.rank,
            device: phase.device(),
            is_point_to_point: false,
        };
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(match gain {
            Some(gain) => finding.with_gain(gain.at_most(), Confidence::Low),
            None => finding,
        })
    }

    pub(crate) fn copy_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        // What kernels run beside takes no time of its own.
        let exposed = phase.traced.as_ref().map(|traced| {
            let share = traced.exposed_copy_share.unwrap_or(0.0);
            Nanos::from_seconds(share * phase.waterfall.busy_ns.seconds())
        });
        let all = phase.waterfall.copies_ns;
        let time = exposed.map_or(all, |exposed| exposed.min(all));
        let copies = phase.traced.as_ref().map(|traced| &traced.copies);
        let inside = |is_inside: bool| {
            let copies = copies.into_iter().flatten();
            copies
                .filter(|one| one.is_on_device() == is_inside)
                .map(|one| one.time_ns.0)
                .fold(0, i64::saturating_add)
        };
        let longest = copies.and_then(|copies| copies.first());
        let others = copies.into_iter().flatten().skip(1);
        let is_large = |other: &&CopyTime| {
            longest.is_some_and(|longest| {
                other.time_ns.0 as f64 >= COPY_DIRECTION_MIN_SHARE * longest.time_ns.0 as f64
            })
        };
        let conclusion = Conclusion::Copies {
            share: phase.judged_share(time),
            is_on_device: inside(true) > inside(false),
            is_copy_bound: phase.class.class == Some(PhaseClass::CopyBound),
            longest: longest.cloned(),
            others: others.filter(is_large).cloned().collect(),
        };
        let mut finding = self.part_finding(phase, time, Measure::CopyTime, conclusion, false)?;
        finding
            .evidence
            .extend(longest.map(copy_rates).unwrap_or_default());
        Some(finding)
    }

    /// A part of the waterfall that could be removed, all of it where `is_known`.
    fn part_finding(
        &self,
        phase: &PhaseAnalysis,
        time: Nanos,
        measure: Measure,
        conclusion: Conclusion,
        is_known: bool,
    ) -> Option<Finding> {
        let share = phase.judged_share(time);
        if share < FINDING_MIN_SHARE || hidden_by_the_host(phase) {
            return None;
        }
        let derivation = Derivation::WithoutPart {
            wall_ns: phase.judged_wall(),
            part_ns: time,
        };
        let mut gain = self.gain_of_saving(phase, time.seconds(), derivation)?;
        gain.is_bound = !is_known;
        // Nothing else gets faster by itself, but what overlaps may hide a part.
        let confidence = if !is_known || phase.is_slowed_by_capture() {
            Confidence::Low
        } else if phase.waterfall.overlap_ns.0 > 0 {
            Confidence::Medium
        } else {
            Confidence::High
        };
        let evidence = vec![
            Evidence::time(measure, time, Basis::Measured),
            Evidence::share(Measure::WallShare, share, Basis::Measured),
        ];
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, confidence))
    }
}

/// Ops of the host that touch no data, as a part of the wall time.
fn views_share(phase: &PhaseAnalysis) -> f64 {
    let unmatched = phase.unmatched.iter();
    let views = unmatched.filter(|row| row.reason == UnmatchedReason::TouchesNoData);
    let time = views.map(|row| row.time_ns.0).fold(0, i64::saturating_add);
    phase.judged_share(Nanos(time))
}

/// How fast copies in one direction are, and how fast they could be.
fn copy_rates(copies: &CopyTime) -> Vec<Evidence> {
    let rate = |what, rate: BytesPerSecond, basis| Evidence::new(what, rate.0, "B/s", basis);
    let mut evidence = Vec::new();
    evidence.extend(copies.rate().map(|measured| {
        rate(Measure::CopyRate, measured, Basis::Measured).of(copies.direction.code())
    }));
    evidence.extend(copies.limit.as_ref().map(|limit| {
        rate(Measure::LinkRate, limit.bytes_per_s, Basis::Datasheet).of(limit.name.as_str())
    }));
    evidence
}

/// The idle time with its causes.
fn idle_evidence(phase: &PhaseAnalysis) -> Vec<Evidence> {
    let waterfall = &phase.waterfall;
    let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
    let is_captured = wall == waterfall.wall_ns;
    let basis = if is_captured {
        Basis::Measured
    } else {
        Basis::Derived
    };
    let share = idle.0 as f64 / wall.0.max(1) as f64;
    let mut evidence = vec![
        Evidence::share(Measure::IdleShare, share, basis),
        Evidence::time(Measure::IdleTime, idle, basis),
    ];
    if !is_captured {
        // Of a sample it is a share of the plain passes, or the recorded time less the overhead.
        let is_sampled = phase
            .traced
            .as_ref()
            .is_some_and(|traced| traced.recorded.is_some());
        let basis = if is_sampled {
            Basis::Derived
        } else {
            Basis::Measured
        };
        evidence.push(Evidence::time(Measure::PlainWallTime, wall, basis));
    }
    // Capture makes gaps longer: their causes show how the time divides, not how much it is without.
    evidence.extend(waterfall.idle.iter().take(3).map(|part| {
        let evidence = if is_captured {
            Evidence::time(Measure::IdleCauseTime, part.time_ns, Basis::Measured)
        } else {
            let share = part.time_ns.0 as f64 / waterfall.idle_ns.0.max(1) as f64;
            Evidence::share(Measure::IdleCauseShare, share, Basis::Measured)
        };
        evidence.of(part.name.as_str())
    }));
    let operators = phase
        .traced
        .iter()
        .flat_map(|traced| &traced.host_operators);
    evidence.extend(operators.take(1).map(|operator| {
        let time = operator.time_ns;
        Evidence::time(Measure::HostOperatorTime, time, Basis::Measured).of(operator.name.as_str())
    }));
    evidence
}

/// What the host did for a good part of the idle time: waited for its DataLoader, ran one operator in gaps too long for launching, or
/// allocated and freed memory.
fn host_work(phase: &PhaseAnalysis) -> Option<HostWork> {
    let traced = phase.traced.as_ref().filter(|t| t.device.is_some())?;
    let idle = phase.judged_share(phase.judged_idle());
    let loading = idle * phase.idle_part(&[DATA_LOADING]);
    let is_large = phase.idle_part(&[DATA_LOADING]) > HOST_WORK_MIN_SHARE;
    let loader = traced.host_operators.iter();
    let mut loader = loader.filter(|one| one.name.to_ascii_lowercase().contains("dataloader"));
    let is_told = is_large && loading >= FINDING_MIN_SHARE;
    if let Some(loader) = loader.next().filter(|_| is_told) {
        return Some(HostWork {
            operator: loader.name.clone(),
            gaps: loader.count,
            share: loading,
        });
    }
    let longest = traced.host_operators.first()?;
    let of_idle = longest.time_ns.0 as f64 / phase.waterfall.idle_ns.0.max(1) as f64;
    // Allocating and freeing are not part of a launch, however short they are.
    let is_apart = has_long_gaps(longest) || is_memory_call(&longest.name);
    (is_apart && of_idle > HOST_WORK_MIN_SHARE).then(|| HostWork {
        operator: longest.name.clone(),
        gaps: longest.count,
        share: of_idle.min(1.0) * phase.judged_share(phase.judged_idle()),
    })
}

/// The range of the program in which a good part of the idle time lies.
fn range_work(phase: &PhaseAnalysis) -> Option<HostWork> {
    let range = phase.traced.as_ref()?.idle_ranges.first()?;
    let of_idle = range.time_ns.0 as f64 / phase.waterfall.idle_ns.0.max(1) as f64;
    (of_idle > HOST_WORK_MIN_SHARE).then(|| HostWork {
        operator: range.name.clone(),
        gaps: range.count,
        share: of_idle.min(1.0) * phase.judged_share(phase.judged_idle()),
    })
}

/// Whether gaps with one operator are on average too long for launching.
fn has_long_gaps(operator: &NamedTime) -> bool {
    operator.time_ns.0 > LONG_GAP_MIN_NS.saturating_mul(operator.count.max(1) as i64)
}

/// Whether most idle time lies in gaps that are too long for launching: cheaper launches would change little.
fn waits_long(phase: &PhaseAnalysis, traced: &TracedPhase) -> bool {
    let idle = phase.waterfall.idle_ns.0;
    let long = traced
        .host_operators
        .iter()
        .filter(|one| has_long_gaps(one));
    let long = long.map(|one| one.time_ns.0).fold(0, i64::saturating_add);
    let launching = LAUNCHING_IDLE_MAX_NS.saturating_mul(traced.kernels.max(1) as i64);
    long > idle / 2 || idle > launching
}

/// What would make idle time of a device shorter, by what most of it is.
fn idle_remedy(phase: &PhaseAnalysis) -> Option<IdleRemedy> {
    let traced = phase.traced.as_ref().filter(|t| t.device.is_some())?;
    let from_graphs = 2 * traced.graph_kernels > traced.kernels;
    if phase.idle_part(&[HOST_BUSY, LAUNCH_LATENCY, LAUNCH_CALL]) > 0.5 {
        return match (from_graphs, waits_long(phase, traced)) {
            (true, _) => Some(IdleRemedy::LessAroundGraphs),
            (false, false) => Some(IdleRemedy::CheaperLaunches),
            (false, true) => None,
        };
    }
    (phase.idle_part(&[QUEUED_GAP]) > 0.5).then_some(IdleRemedy::FewerKernels)
}
