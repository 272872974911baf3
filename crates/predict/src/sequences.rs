//! The sequences of a step, as kernels meet them.

use llmprof_theory::{Step, Workload};

/// A number of sequences of a step with equal new and cached tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SequenceGroup {
    pub(crate) count: f64,
    /// New tokens of each sequence in this step.
    pub(crate) new: f64,
    /// Tokens of each sequence that the KV cache holds before the step.
    pub(crate) cached: f64,
}

impl SequenceGroup {
    /// Kernels of prefill take sequences with several new tokens.
    pub(crate) fn is_prefill(&self) -> bool {
        self.new > 1.0
    }
}

/// The sequences of a step, and the positions of all of them whose logits are computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepSequences {
    pub(crate) groups: Vec<SequenceGroup>,
    pub(crate) logits: f64,
}

impl StepSequences {
    pub(crate) fn of_step(step: &Step, workload: &Workload) -> Self {
        let groups_by_phase = [
            step.prefill.sequence_groups(),
            step.decode.sequence_groups(),
        ];
        let group = |known: llmprof_theory::Sequences| SequenceGroup {
            count: known.count as f64,
            new: known.new as f64,
            cached: known.cached as f64,
        };
        Self {
            groups: groups_by_phase.into_iter().flatten().map(group).collect(),
            logits: step.logit_positions(workload.logits) as f64,
        }
    }

    /// Rows of a linear layer.
    pub(crate) fn total_rows(&self) -> f64 {
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
    pub(crate) fn launch_sides(&self) -> [f64; 2] {
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
    pub(crate) fn pad_to_longest(&self) -> SequenceGroup {
        let longest =
            |of: fn(&SequenceGroup) -> f64| self.groups.iter().map(of).fold(0.0, f64::max);
        SequenceGroup {
            count: self.groups.iter().map(|group| group.count).sum(),
            new: longest(|group| group.new),
            cached: longest(|group| group.cached),
        }
    }
}
