//! The node graph of one YAML document: what PyYAML calls composing.
//!
//! Aliases make it a graph, not a tree; nodes are kept in one list and named by their index.

use std::ops::Range;

use super::scalar::{Implicit, loader_type};

/// A node's index in its [`NodeGraph`].
pub(super) type Id = usize;

/// A document before it becomes values.
pub(super) struct NodeGraph {
    pub(super) nodes: Vec<RawNode>,
    pub(super) root: Id,
}

/// One node of the graph.
pub(super) struct RawNode {
    pub(super) tag: RawTag,
    pub(super) content: RawContent,
    pub(super) span: Range<usize>,
}

pub(super) enum RawContent {
    Scalar(String),
    Sequence(Vec<Id>),
    Mapping(Vec<(Id, Id)>),
}

impl RawContent {
    /// The kind's name in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "a scalar",
            Self::Sequence(_) => "a sequence",
            Self::Mapping(_) => "a mapping",
        }
    }
}

/// The type of a node, from its tag or its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RawTag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Binary,
    Timestamp,
    Merge,
    Value,
    Sequence,
    Mapping,
    Set,
    /// `!!omap` and `!!pairs`, which PyYAML both reads as a list of pairs.
    Pairs,
    Unknown(String),
}

impl From<Implicit> for RawTag {
    fn from(implicit: Implicit) -> Self {
        match implicit {
            Implicit::Null => Self::Null,
            Implicit::Bool => Self::Bool,
            Implicit::Int => Self::Int,
            Implicit::Float => Self::Float,
            Implicit::Merge => Self::Merge,
            Implicit::Value => Self::Value,
            Implicit::Timestamp => Self::Timestamp,
            Implicit::Str => Self::Str,
        }
    }
}

impl RawTag {
    /// The type an explicit tag asks for, from its full form.
    pub(super) fn named(tag: &str) -> Self {
        match tag.strip_prefix("tag:yaml.org,2002:") {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("str") => Self::Str,
            Some("binary") => Self::Binary,
            Some("timestamp") => Self::Timestamp,
            Some("merge") => Self::Merge,
            Some("value") => Self::Value,
            Some("seq") => Self::Sequence,
            Some("map") => Self::Mapping,
            Some("set") => Self::Set,
            Some("omap" | "pairs") => Self::Pairs,
            _ => Self::Unknown(tag.to_owned()),
        }
    }

    /// The type of a scalar that has no tag, or only the non-specific `!`.
    pub(super) fn of_text(text: &str) -> Self {
        loader_type(text).into()
    }
}
