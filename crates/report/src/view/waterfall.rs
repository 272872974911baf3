use llmprof_units::Nanos;

/// Where the wall time of one phase went: parts that sum to the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    pub phase: String,
    pub wall_ns: Nanos,
    /// The parts in the order they are stacked.
    pub parts: Vec<WaterfallPart>,
}

/// One part of a [`Waterfall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaterfallPart {
    pub label: String,
    /// How much it adds; negative where it takes away (overlap, an operator faster than its roofline time).
    pub duration_ns: Nanos,
    pub kind: PartKind,
}

/// What sort of time a [`WaterfallPart`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    Roofline,
    /// Matched operators above their roofline time.
    Inefficiency,
    /// Kernels that no operator of the model needs.
    Overhead,
    Copies,
    /// Exchange between devices.
    Communication,
    /// Time on the device with no known cause.
    Unattributed,
    Idle,
    /// Events at the same time, counted twice above.
    Overlap,
}

impl PartKind {
    /// The name used in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::Inefficiency => "inefficiency",
            Self::Overhead => "overhead",
            Self::Copies => "copies",
            Self::Communication => "communication",
            Self::Unattributed => "unattributed",
            Self::Idle => "idle",
            Self::Overlap => "overlap",
        }
    }
}

impl Waterfall {
    /// What the parts leave of the wall time; not zero only where the analysis is wrong, and then it is shown.
    pub fn remainder_ns(&self) -> Nanos {
        self.wall_ns - self.parts.iter().map(|part| part.duration_ns).sum()
    }
}
