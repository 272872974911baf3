//! Time that a phase loses: idle, far from the limits, work that nobody needs, copies.

use llmprof_units::{Basis, Nanos, Percent, Times};

use crate::bottleneck::PhaseClass;
use crate::evidence::Evidence;
use crate::findings::finding::{Confidence, Finding};
use crate::findings::first_use::new_lengths;
use crate::findings::{Facts, WORTH_SAYING, hidden_by_the_host};
use crate::matching::groups::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;
use crate::waterfall::idle_parts::{HOST_BUSY, LAUNCH_LATENCY, QUEUED_GAP};
use llmprof_record::run::RunPhase;

/// A phase in which the device is busy for a smaller part of the time is no work of the device: to remove its idle time would
/// promise the impossible.
const NEARLY_UNUSED: f64 = 0.02;

impl Facts<'_> {
    pub(crate) fn idle(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        let (wall, idle) = (phase.judged_wall(), phase.judged_idle());
        let share = idle.0 as f64 / wall.0.max(1) as f64;
        if share < WORTH_SAYING {
            return None;
        }
        if phase.traced.as_ref().is_some_and(|t| t.is_whole_trace) {
            return Some(Finding::abstain(
                "idle",
                phase,
                "what idle time costs",
                "no phases were found, so it includes what the program did before and after its work; name them by NVTX ranges",
            ));
        }
        // What new lengths cost has a finding of its own: another change removes it.
        // Passes without capture have met their lengths before.
        let is_captured = wall == waterfall.wall_ns;
        let apart = new_lengths(phase).filter(|_| is_captured);
        let apart = apart.map_or(Nanos(0), |found| found.time_ns);
        let usual = waterfall.wall_ns.0.saturating_sub(apart.0).max(1);
        let busy_share = waterfall.busy_ns.0 as f64 / usual as f64;
        if phase.device().is_some() && busy_share < NEARLY_UNUSED {
            return Some(Finding::abstain(
                "idle",
                phase,
                "what idle time costs",
                "the device is hardly used in this phase, which is work of the host or of another device",
            ));
        }
        let removable = Nanos(idle.0.saturating_sub(apart.0).max(0));
        let (but, without) = if apart.0 > 0 {
            (
                format!(" (and {apart} of first use, which is told apart)"),
                format!(
                    ", {} in first uses (told apart); without the rest",
                    Percent(apart.0 as f64 / wall.0.max(1) as f64)
                ),
            )
        } else {
            (String::new(), "; without that".to_owned())
        };
        let gain = self
            .saving(
                phase,
                removable.seconds(),
                format!("{wall} ÷ ({wall} − {removable} idle){but}"),
            )?
            .at_most();
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
        let basis = if is_captured {
            Basis::Measured
        } else {
            Basis::Derived
        };
        let mut evidence = vec![
            Evidence::share("idle share of wall time", share, basis),
            Evidence::time("idle time", idle, basis),
        ];
        if !is_captured {
            evidence.push(Evidence::time(
                "wall time without capture, from which the device's busy time is taken",
                wall,
                Basis::Measured,
            ));
        }
        // Watching makes gaps longer: their causes tell how the time divides, not how much it is without.
        evidence.extend(waterfall.idle.iter().take(3).map(|part| {
            if is_captured {
                let what = format!("idle: {}", part.name);
                return Evidence::time(what, part.time_ns, Basis::Measured);
            }
            Evidence::share(
                format!("of the idle time under capture: {}", part.name),
                part.time_ns.0 as f64 / waterfall.idle_ns.0.max(1) as f64,
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
        Some(Finding {
            code: "idle".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}{bound} {what} for {} of the time{without} it would be up to {} faster{}",
                phase.name(),
                Percent(share),
                Times(factor),
                remedy(phase)
            ),
            evidence,
            gain: Some(gain),
            confidence: if phase.is_slowed_by_capture() {
                Confidence::Low
            } else {
                Confidence::High
            },
            abstains: None,
        })
    }

    /// The kinds of operators that lose most against their roofline.
    pub(crate) fn inefficiency(&self, phase: &PhaseAnalysis) -> Vec<Finding> {
        let about = "how far operators are from the device's limits";
        let why = match (self.subject, self.roof) {
            (None, _) => Some("no model is counted"),
            (_, None) => Some("no device was named"),
            _ => None,
        };
        if let Some(why) = why {
            return vec![Finding::abstain("inefficiency", phase, about, why)];
        }
        if hidden_by_the_host(phase) {
            return Vec::new();
        }
        let finding = |group: &OperatorGroup| {
            let lost = group.measured_ns.0.saturating_sub(group.roofline_ns?.0);
            let wall = phase.judged_wall().0;
            if (lost as f64) < WORTH_SAYING * wall as f64 {
                return None;
            }
            let gain = self
                .saving(
                    phase,
                    Nanos(lost).seconds(),
                    format!(
                        "{} ÷ ({0} − ({} measured − {} roofline time)), an upper bound",
                        phase.judged_wall(),
                        group.measured_ns,
                        group.roofline_ns?
                    ),
                )?
                .at_most();
            let fraction = group.roofline_fraction?;
            let where_it_stands = match group.binds {
                Some(resource) => format!(
                    "at {} of their {}; at the limit",
                    Percent(fraction),
                    resource.limit()
                ),
                None => "and have no roofline time, since fusion can remove them; without them"
                    .to_owned(),
            };
            let mut evidence = vec![
                Evidence::time("measured", group.measured_ns, Basis::Measured),
                Evidence::time("roofline time", group.roofline_ns?, Basis::Derived),
                Evidence::share("share of roofline", fraction, Basis::Derived),
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
                    "{}: {} take {} of the time {where_it_stands} the phase would be up to {} faster",
                    phase.name(),
                    spoken(group, phase),
                    Percent(phase.judged_share(group.measured_ns)),
                    Times(gain.phase_factor?)
                ),
                evidence,
                gain: Some(gain),
                confidence: Confidence::Low,
                abstains: None,
            })
        };
        phase.by_kind.iter().filter_map(finding).collect()
    }

    pub(crate) fn extra(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let waterfall = &phase.waterfall;
        if let Some(why) = &waterfall.extra_abstains {
            return Some(Finding::abstain(
                "extra",
                phase,
                "work that no operator needs",
                why,
            ));
        }
        if self.subject.is_some() && phase.phase == RunPhase::Other {
            return Some(Finding::abstain(
                "extra",
                phase,
                "work that no operator needs",
                "which operators of the model this phase runs is not known; ranges `prefill` and `decode` tell",
            ));
        }
        // Without a model some of it may be the model's own: a name alone does not tell.
        let is_known = self.subject.is_some();
        let what = if is_known {
            "is work that no operator of the model needs"
        } else {
            "goes to work that by its name moves, fills, arranges or picks values"
        };
        self.part(phase, "extra", waterfall.extra_ns, what, is_known)
    }

    pub(crate) fn copies(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        self.part(
            phase,
            "copies",
            phase.waterfall.copies_ns,
            "goes to copies and memory fills",
            true,
        )
    }

    /// A part of the waterfall that could go, all of it where `is_known`.
    fn part(
        &self,
        phase: &PhaseAnalysis,
        code: &str,
        time: Nanos,
        what: &str,
        is_known: bool,
    ) -> Option<Finding> {
        let share = phase.judged_share(time);
        if share < WORTH_SAYING || hidden_by_the_host(phase) {
            return None;
        }
        let wall = phase.judged_wall();
        let mut gain = self.saving(phase, time.seconds(), format!("{wall} ÷ ({wall} − {time})"))?;
        gain.is_bound = !is_known;
        Some(Finding {
            code: code.to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: {} of the time {what}; without it the phase would be {}{} faster",
                phase.name(),
                Percent(share),
                if is_known { "" } else { "up to " },
                Times(gain.phase_factor?)
            ),
            evidence: vec![
                Evidence::time(code, time, Basis::Measured),
                Evidence::share("share of wall time", share, Basis::Measured),
            ],
            gain: Some(gain),
            // Nothing else gets faster by itself, but what overlaps may hide a part.
            confidence: if !is_known || phase.is_slowed_by_capture() {
                Confidence::Low
            } else if phase.waterfall.overlap_ns.0 > 0 {
                Confidence::Medium
            } else {
                Confidence::High
            },
            abstains: None,
        })
    }
}

/// What would make idle time of a device shorter, by what most of it is.
fn remedy(phase: &PhaseAnalysis) -> &'static str {
    let Some(traced) = phase.traced.as_ref().filter(|t| t.device.is_some()) else {
        return "";
    };
    let from_graphs = 2 * traced.graph_kernels > traced.kernels;
    if phase.idle_part(&[HOST_BUSY, LAUNCH_LATENCY]) > 0.5 {
        return if from_graphs {
            "; the kernels come from CUDA graphs already, and most of the rest is the host's work around their launches"
        } else {
            "; CUDA graphs or a compiled model launch with less work of the host"
        };
    }
    if phase.idle_part(&[QUEUED_GAP]) > 0.5 {
        return "; most of that are gaps between kernels that were launched already, of which fewer, fused kernels leave less";
    }
    ""
}

/// What to call a group in a sentence.
fn spoken(group: &OperatorGroup, phase: &PhaseAnalysis) -> String {
    match group.name.as_str() {
        "products" if phase.by_kernels() => "GEMMs".to_owned(),
        name => format!("{name} operators"),
    }
}
