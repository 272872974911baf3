//! What causes know beside the trace.

use llmprof_units::DType;

use super::ProgramPurpose;

/// Facts about the program that the search for causes does not read from the trace.
#[derive(Clone, Debug)]
pub struct ProgramFacts {
    pub purpose: ProgramPurpose,
    /// Whether steps are sequences of launches that repeat: between two of them may lie what is none of a step.
    pub are_steps_inferred: bool,
    /// The format of the model's weights as its config states it.
    pub weights: Option<DType>,
}
