//! What can be wrong with a model's config or with a workload.

/// A config that does not describe a model we can count.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The config is not a JSON object.
    #[error("the model config is not a JSON object")]
    NotAnObject,
    /// No `model_type` and no family given.
    #[error("the config has no `model_type`; known: {known}")]
    NoModelType { known: String },
    /// A `model_type` that no family has.
    #[error("unknown model_type `{found}`; known: {known}")]
    UnknownFamily {
        /// As the config or the user said.
        found: String,
        known: String,
    },
    /// A key that must be there is not.
    #[error("`{field}` is missing from the {family} config")]
    Missing {
        field: String,
        /// The family that needs it.
        family: &'static str,
    },
    /// A value of the wrong type or outside its range: no model has it.
    #[error("`{field}` is {found}, but must be {expected}")]
    Invalid {
        field: String,
        found: String,
        expected: String,
    },
    /// A value that a model may have, and whose cost is not known.
    #[error("`{field}` is {found}; llmprof counts {known} only")]
    Unsupported {
        field: String,
        found: String,
        known: String,
    },
    /// Two keys contradict each other.
    #[error("`{field}` is {found}, which contradicts {other}")]
    Contradiction {
        field: String,
        found: String,
        other: String,
    },
}

impl ModelError {
    /// Whether no program could run such a model, as far as one value tells. What theory alone cannot count, what it misses (others
    /// have defaults) and what contradicts its view of a family is for those to judge who run it.
    pub fn is_absurd(&self) -> bool {
        matches!(self, Self::NotAnObject | Self::Invalid { .. })
    }
}

/// A workload that cannot be counted for a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A value outside its range.
    #[error("`workload.{field}` is {found}, but must be {expected}")]
    Invalid {
        field: &'static str,
        found: String,
        expected: String,
    },
    /// A way of spreading a model over devices that cannot be.
    #[error("`parallel.{key}` is {found}, but must be {expected}")]
    Parallel {
        key: &'static str,
        found: u64,
        expected: String,
    },
    /// A step whose sequences contradict themselves.
    #[error(
        "the {part} sequences of a step are {found}: every sequence needs a new token, and sums must be those of some sequences"
    )]
    Sequences {
        /// Which side of the step.
        part: &'static str,
        found: String,
    },
    /// A count beyond exact integers.
    #[error(
        "the workload is too large to count exactly ({what} above 2^62); lower `workload.batch_size`, `workload.prompt_tokens` or `workload.new_tokens`"
    )]
    TooLarge { what: &'static str },
}

impl WorkloadError {
    pub fn parallel(key: &'static str, found: u64, expected: String) -> Self {
        Self::Parallel {
            key,
            found,
            expected,
        }
    }
}
