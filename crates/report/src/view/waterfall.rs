use llmprof_units::Nanos;

/// Where the wall time of one phase went: parts that sum to the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    /// The phase.
    pub phase: String,
    /// Its wall time.
    pub wall_ns: Nanos,
    /// The parts in the order they are stacked.
    pub parts: Vec<WaterfallPart>,
}

/// One part of a [`Waterfall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaterfallPart {
    /// What a reader calls it.
    pub label: String,
    /// How much it adds; negative where it takes away (overlap, an operator faster than its floor).
    pub duration_ns: Nanos,
    /// What sort of time it is.
    pub kind: PartKind,
}

/// What sort of time a [`WaterfallPart`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// The least the device needs.
    Floor,
    /// Matched operators above their floor.
    Inefficiency,
    /// Work that no operator of the model needs.
    Extra,
    /// Copies and memsets.
    Copies,
    /// Time on the device with no known cause.
    Unattributed,
    /// The device waits.
    Idle,
    /// Events at the same time, counted twice above.
    Overlap,
}

impl PartKind {
    /// The name used in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Inefficiency => "inefficiency",
            Self::Extra => "extra",
            Self::Copies => "copies",
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
