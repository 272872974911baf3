//! From a step to the kernels that an implementation launches for it.

use llmprof_theory::{Model, Pass, Step, Workload, kernels::Kernel};

pub(crate) use fused::Wanted;

use super::{eager, efficiency::Implementation, fused};

/// Equal sequences of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) count: f64,
    /// New tokens of each.
    pub(crate) new: f64,
    /// Cached tokens of each.
    pub(crate) cached: f64,
}

impl Group {
    /// Kernels of prefill take sequences with several new tokens.
    pub(crate) fn is_prefill(&self) -> bool {
        self.new > 1.0
    }
}

/// The sequences of a step, and the positions of all of them whose logits are computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sequences {
    pub(crate) groups: Vec<Group>,
    pub(crate) logits: f64,
}

impl Sequences {
    /// A step of a pass that finds `past` cached tokens.
    pub(crate) fn of_pass(pass: &Pass, past: f64) -> Self {
        Self {
            groups: vec![Group {
                count: pass.batch as f64,
                new: pass.queries as f64,
                cached: past,
            }],
            logits: pass.batch as f64 * pass.logits as f64,
        }
    }

    pub(crate) fn of_step(step: &Step, workload: &Workload) -> Self {
        let known = [step.prefill.groups(), step.decode.groups()];
        let group = |known: llmprof_theory::Sequences| Group {
            count: known.count as f64,
            new: known.new as f64,
            cached: known.cached as f64,
        };
        Self {
            groups: known.into_iter().flatten().map(group).collect(),
            logits: step.logit_positions(workload.logits) as f64,
        }
    }

    /// Rows of a linear layer.
    pub(crate) fn rows(&self) -> f64 {
        self.groups
            .iter()
            .map(|group| group.count * group.new)
            .sum()
    }

    pub(crate) fn prefill_rows(&self) -> f64 {
        let prefill = self.groups.iter().filter(|group| group.is_prefill());
        prefill.map(|group| group.count * group.new).sum()
    }

    /// Sequences with one new token, and those with more: each run in one launch.
    pub(crate) fn sides(&self) -> [f64; 2] {
        let mut sides = [0.0; 2];
        for group in &self.groups {
            sides[usize::from(group.is_prefill())] += group.count;
        }
        sides
    }

    /// Whether every sequence has one new token after cached ones.
    pub(crate) fn is_decode(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.new == 1.0 && group.cached > 0.0)
    }

    /// A static batch: every sequence is padded to the longest.
    pub(crate) fn padded(&self) -> Group {
        let longest = |of: fn(&Group) -> f64| self.groups.iter().map(of).fold(0.0, f64::max);
        Group {
            count: self.groups.iter().map(|group| group.count).sum(),
            new: longest(|group| group.new),
            cached: longest(|group| group.cached),
        }
    }
}

/// Whether the kernels that an implementation launches for a model are known here. Those of gated delta layers in transformers are not: such a model is traced.
pub(super) fn knows(implementation: Implementation, model: &Model) -> bool {
    implementation.engine().is_some() || !model.has_gated_delta()
}

/// Sends the wanted kernels of a step to `sink`, with how often each is launched; none for a model without a decoder. Transformers runs static
/// batches, all of whose kernels depend on the longest sequence.
pub(super) fn lower(
    implementation: Implementation,
    model: &Model,
    workload: &Workload,
    (sequences, wanted): (&Sequences, Wanted),
    sink: &mut dyn FnMut(&Kernel, f64),
) {
    let padded = || Sequences {
        groups: vec![sequences.padded()],
        ..*sequences
    };
    // A cache of its full size holds what the workload needs, and the sequences of this step in any case.
    let length = || {
        let longest = sequences.padded();
        let needed = longest.cached + longest.new + 1.0;
        needed.max(positions(model, workload) as f64)
    };
    match implementation {
        Implementation::HfEager => eager::lower(model, workload, &padded(), None, sink),
        Implementation::TorchCompile if sequences.is_decode() => {
            let style = fused::Style::Compiled { length: length() };
            fused::lower(model, workload, &padded(), (style, wanted), sink);
        }
        Implementation::HfGraph | Implementation::TorchCompile => {
            eager::lower(model, workload, &padded(), Some(length()), sink);
        }
        Implementation::Vllm | Implementation::Sglang | Implementation::Trtllm => {
            let style = fused::Style::Serving;
            fused::lower(model, workload, sequences, (style, wanted), sink);
        }
    }
}

/// Kernels that are launched for one that is costed: tables of serving engines have as one what is several.
pub(super) fn launches(implementation: Implementation, kernel: &Kernel) -> f64 {
    if implementation.engine().is_some() {
        fused::launches(kernel)
    } else {
        1.0
    }
}

/// Positions of a KV cache that has its full size from the start.
pub(super) fn positions(model: &Model, workload: &Workload) -> u64 {
    (model.context(workload) + workload.decode_steps()).saturating_add(1)
}
