//! Operators, bytes and roofline time of a phase by theory.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::RunPhase;
use llmprof_theory::roofline::{MemoryLevel, OperatorRoofline, PhaseRoofline, Roof};
use llmprof_theory::{Model, Operator, Pass, Routing, Step, Workload};
use llmprof_units::Nanos;

/// A model, what was asked of it, and the device whose peaks count.
#[derive(Clone, Copy)]
pub(crate) struct Theory<'a> {
    pub(crate) model: &'a Model,
    pub(crate) workload: &'a Workload,
    pub(crate) roof: Option<&'a Roof<'a>>,
    /// Phases in which fewer experts were read than uniform routing expects.
    pub(crate) experts: &'a [ExpertsRead],
}

/// The most experts that the kernels of a phase can have read in their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExpertsRead {
    pub(crate) phase: RunPhase,
    /// Mean of a layer and step.
    pub(crate) at_most: f64,
}

/// The work of a decoder: passes of equal sequences, or steps that an engine states.
#[derive(Clone, Copy, Default)]
pub(crate) struct DecoderWork<'a> {
    pub(crate) passes: &'a [Pass],
    pub(crate) steps: &'a [Step],
}

impl<'a> Theory<'a> {
    pub(crate) fn with_experts<'b>(self, experts: &'b [ExpertsRead]) -> Theory<'b>
    where
        'a: 'b,
    {
        Theory { experts, ..self }
    }
}

impl Theory<'_> {
    /// What was asked, with no more experts than the phase can have read.
    pub(crate) fn workload_of(&self, phase: RunPhase) -> Workload {
        let mut workload = *self.workload;
        if let Some(at_most) = self.experts_at_most(phase) {
            workload.routing = Routing::Measured {
                prefill: at_most,
                decode: at_most,
            };
        }
        workload
    }

    pub(crate) fn experts_at_most(&self, phase: RunPhase) -> Option<f64> {
        let mut known = self.experts.iter();
        known
            .find(|known| known.phase == phase)
            .map(|known| known.at_most)
    }

    pub(crate) fn lower_phase<'m>(
        &'m self,
        phase: RunPhase,
        work: DecoderWork<'_>,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        self.lower_before(phase, sink);
        let workload = self.workload_of(phase);
        for pass in work.passes {
            self.model.lower_pass(&workload, pass, sink);
        }
        for step in work.steps {
            self.model.lower_step(&workload, step, sink);
        }
    }

    /// What comes before the decoder: image towers, an encoder.
    fn lower_before<'m>(&'m self, phase: RunPhase, sink: &mut dyn FnMut(&Operator<'m>)) {
        match phase {
            RunPhase::Vision => self.model.lower_vision(self.workload, sink),
            RunPhase::Encoder => self.model.lower_encoder(self.workload, sink),
            _ => {}
        }
    }

    /// The most bytes that a step of any pass needs.
    pub(crate) fn bytes_per_step(&self, phase: RunPhase, work: DecoderWork<'_>) -> u64 {
        let bytes_of = |work: DecoderWork<'_>| {
            let mut bytes = 0.0;
            self.lower_phase(phase, work, &mut |operator| {
                bytes += operator.traffic.min_dram_bytes() as f64 * f64::from(operator.layers)
                    / operator.steps.max(1) as f64;
            });
            bytes as u64
        };
        if phase.is_before_decoder() {
            return bytes_of(DecoderWork::default());
        }
        let passes = work.passes.chunks(1).map(|passes| DecoderWork {
            passes,
            ..DecoderWork::default()
        });
        let steps = work.steps.chunks(1).map(|steps| DecoderWork {
            steps,
            ..DecoderWork::default()
        });
        passes.chain(steps).map(bytes_of).max().unwrap_or(0)
    }

    /// The least time of a phase, and the memory level of each pass. Passes run one after the other, so each has its own.
    pub(crate) fn roofline(
        &self,
        phase: RunPhase,
        work: DecoderWork<'_>,
        issues: &mut Vec<Issue>,
    ) -> Option<(PhaseRoofline, Vec<MemoryLevel>)> {
        let roof = self.roof?;
        let rooflines: Result<Vec<PhaseRoofline>, _> = if phase.is_before_decoder() {
            PhaseRoofline::of_operators(roof, |sink| self.lower_before(phase, sink))
                .map(|roofline| vec![roofline])
        } else {
            let workload = self.workload_of(phase);
            let of_pass = |pass| PhaseRoofline::of_pass(roof, self.model, &workload, pass);
            let of_step = |step| PhaseRoofline::of_step(roof, self.model, &workload, step);
            let passes = work.passes.iter().map(of_pass);
            passes.chain(work.steps.iter().map(of_step)).collect()
        };
        match rooflines {
            Ok(rooflines) => {
                let levels = rooflines
                    .iter()
                    .map(|roofline| roofline.memory_level)
                    .collect();
                Some((rooflines.into_iter().reduce(after_each_other)?, levels))
            }
            Err(missing) => {
                let issue = Issue::warning(IssueCode::RunMissingPeak)
                    .with("phase", phase.name())
                    .with("device", missing.device)
                    .with("engine", missing.engine.to_string())
                    .with("dtype", missing.dtype.to_string())
                    .with("known", missing.known);
                issues.push(issue);
                None
            }
        }
    }
}

/// The roofline of two passes of which one follows the other. Bytes come from main memory where they do in either.
fn after_each_other(a: PhaseRoofline, b: PhaseRoofline) -> PhaseRoofline {
    let sums = OperatorRoofline {
        tensor: (a.tensor_ns + b.tensor_ns).seconds(),
        vector: (a.vector_ns + b.vector_ns).seconds(),
        memory: (a.memory_ns + b.memory_ns).seconds(),
    };
    let flops = a.flops + b.flops;
    let min_dram_bytes = a.min_dram_bytes + b.min_dram_bytes;
    let mut missing = a.vector_peaks_missing;
    for dtype in b.vector_peaks_missing {
        if !missing.contains(&dtype) {
            missing.push(dtype);
        }
    }
    PhaseRoofline {
        roofline_ns: a.roofline_ns + b.roofline_ns,
        whole_ns: Nanos::from_seconds(sums.roofline_seconds()),
        tensor_ns: a.tensor_ns + b.tensor_ns,
        vector_ns: a.vector_ns + b.vector_ns,
        memory_ns: a.memory_ns + b.memory_ns,
        binds: sums.binding_resource(),
        memory_level: if a.memory_level == MemoryLevel::OnChip {
            b.memory_level
        } else {
            a.memory_level
        },
        flops,
        min_dram_bytes,
        intensity: (min_dram_bytes.0 > 0).then(|| flops.0 as f64 / min_dram_bytes.0 as f64),
        ridge: a.ridge.or(b.ridge),
        vector_peaks_missing: missing,
    }
}
