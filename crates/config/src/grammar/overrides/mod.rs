//! Hydra 1.3's override grammar: `key=value` and its variants.

mod element;
mod sweep;

pub use element::{Element, Quote, QuotedString};
pub use sweep::{ChoiceSweep, Glob, IntervalSweep, Number, RangeSweep, Sweep};

/// What an override does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverrideKind {
    /// `key=value`
    Change,
    /// `+key=value`
    Add,
    /// `++key=value`
    ForceAdd,
    /// `~key` or `~key=value`
    Delete,
}

/// One parsed override.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// What it does.
    pub kind: OverrideKind,
    /// The config group (`db/mysql`) or dotted key (`db.port`); may be empty.
    pub key_or_group: String,
    /// The package after `@`; `Some("")` for a bare `@`.
    pub package: Option<String>,
    /// The value as written: absent only in `~key`; `key=` is the empty string. See [`Override::value`].
    pub element: Option<Element>,
    /// The text this was parsed from.
    pub input_line: String,
}
