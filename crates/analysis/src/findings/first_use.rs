//! What the first use costs: of the process, of a phase, of a length of the KV cache.

use llmprof_units::{Basis, Count, Nanos, Times};

use crate::evidence::Evidence;
use crate::findings::finding::{Confidence, EACH_LENGTH, Finding, Gain, GainOf};
use crate::findings::{Facts, WORTH_SAYING};
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::NewLengths;

impl Facts<'_> {
    /// Steps that wait before their first attention kernel, as a length of the cache does that never ran before.
    pub(crate) fn new_lengths(&self, phase: &PhaseAnalysis) -> Option<Finding> {
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
                "{}: attention waits {}, {} on average, for a length of the cache that has not run before; warm up the lengths that \
                 are served, or keep the cache at one size, {} faster then",
                phase.name(),
                Count(found.waits, "time"),
                found.mean(),
                Times(gain.phase_factor?)
            ),
            evidence: found.evidence(),
            gain: Some(gain),
            confidence: Confidence::Medium,
            abstains: None,
        })
    }

    pub(crate) fn first_use(&self) -> Option<Finding> {
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
            Evidence::new(
                "more after it",
                first.extra_ns - first.extra_ttft_ns,
                "ns",
                Basis::Measured,
            ),
        ];
        let step = self.latency.itl_ns.as_ref().map_or(0.0, |gaps| gaps.p50);
        let lengths = first
            .extra_step_ns
            .filter(|extra| *extra > WORTH_SAYING * step);
        let lengths = lengths.map(|extra| {
            evidence.push(Evidence::new(EACH_LENGTH, extra, "ns", Basis::Measured));
            let longer = Nanos(extra.round() as i64);
            // Whether a model that is not counted has a cache that grows is not known.
            let (of, or) = match self.subject {
                Some(_) => ("cache", ", or keep the cache at one size"),
                None => ("sequence", ""),
            };
            format!(
                ", and its median step {longer} longer: each length of the {of} that has not run before costs that once; warm up \
                 the lengths that are served{or}"
            )
        });
        Some(Finding {
            code: "first_use".to_owned(),
            phase: None,
            title: format!(
                "the first pass took {}, {} the later ones{}",
                Nanos(first.first_ns.round() as i64),
                Times(factor),
                lengths.unwrap_or_else(|| ": warm up before serving".to_owned())
            ),
            evidence,
            gain: Some(Gain {
                of: GainOf::FirstRequest,
                factor,
                phase_factor: None,
                saved_ns: Some(Nanos(first.extra_ns.round() as i64)),
                derivation: "time of the first pass ÷ mean of the later ones".to_owned(),
                is_bound: false,
            }),
            confidence: Confidence::High,
            abstains: None,
        })
    }
}

/// The first time that a phase ran, where it took longer for the same work.
pub(crate) fn first_instance(phase: &PhaseAnalysis) -> Option<Finding> {
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
                ", of which {} before attention kernels of {} of the cache that had not run before",
                found.time_ns,
                Count(found.waits, "length")
            )
        }
        None => String::new(),
    };
    Some(Finding {
        code: "first_use".to_owned(),
        phase: Some(phase.phase),
        title: format!(
            "the first {} took {}, {} the later ones, for the same work on the device{lengths}: warm up before serving",
            phase.name(),
            first.wall_ns,
            Times(factor)
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
            is_bound: false,
        }),
        confidence: Confidence::High,
        abstains: None,
    })
}

pub(crate) fn new_lengths(phase: &PhaseAnalysis) -> Option<&NewLengths> {
    phase.traced.as_ref()?.new_lengths.as_ref()
}
