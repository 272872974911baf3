//! What the sweep functions evaluate to.

use std::collections::BTreeSet;

use super::Element;

/// A value that stands for several.
#[derive(Debug, Clone, PartialEq)]
pub enum Sweep {
    Choice(ChoiceSweep),
    Range(RangeSweep),
    Interval(IntervalSweep),
    Glob(Glob),
}

/// A sweep over listed elements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChoiceSweep {
    pub list: Vec<Element>,
    /// Written `a,b` rather than `choice(a,b)`.
    pub simple_form: bool,
    /// To be visited in random order.
    pub shuffle: bool,
    /// The names given by `tag()`.
    pub tags: BTreeSet<String>,
}

/// A number as Python's `range` and Hydra's float range take it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer; `true` counts as 1.
    Int(i128),
    Float(f64),
}

/// A sweep over evenly spaced numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeSweep {
    pub start: Number,
    /// The bound that is not reached.
    pub stop: Number,
    /// The distance, whose sign is the direction.
    pub step: Number,
    /// To be visited in random order.
    pub shuffle: bool,
    /// The names given by `tag()`.
    pub tags: BTreeSet<String>,
}

/// A sweep over a continuous interval; the basic sweeper cannot enumerate it.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalSweep {
    /// The lower bound: a float, or an integer after a cast.
    pub start: Number,
    pub end: Number,
    /// The names given by `tag()`.
    pub tags: BTreeSet<String>,
}

/// A sweep over the options of a config group whose names match.
#[derive(Debug, Clone, PartialEq)]
pub struct Glob {
    /// Patterns to take. Hydra does not check that they are strings until they are used.
    pub include: Vec<Element>,
    pub exclude: Vec<Element>,
}
