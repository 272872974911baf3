//! The tokens of YAML text.

use std::ops::Range;

/// A token with the bytes it was read from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlToken {
    pub(super) kind: TokenKind,
    pub(super) span: Range<usize>,
}

/// What a token is. Starts and ends of block collections come from indentation alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    StreamEnd,
    Directive(Directive),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    /// A handle (`!`, `!!`, `!e!`), where there is one, and the rest.
    Tag(Option<String>, String),
    Scalar {
        text: String,
        plain: bool,
    },
}

/// A line that starts with `%`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Directive {
    /// `%YAML`, with whether the major version is 1.
    Yaml {
        major_is_one: bool,
    },
    Tag {
        handle: String,
        prefix: String,
    },
    Other,
}

impl TokenKind {
    /// The token as messages name it.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::StreamEnd => "the end of the file",
            Self::Directive(_) => "a directive",
            Self::DocumentStart => "`---`",
            Self::DocumentEnd => "`...`",
            Self::BlockSequenceStart => "the start of a list",
            Self::BlockMappingStart => "the start of a mapping",
            Self::BlockEnd => "the end of an indented block",
            Self::FlowSequenceStart => "`[`",
            Self::FlowSequenceEnd => "`]`",
            Self::FlowMappingStart => "`{`",
            Self::FlowMappingEnd => "`}`",
            Self::BlockEntry => "`-`",
            Self::FlowEntry => "`,`",
            Self::Key => "a key",
            Self::Value => "`:`",
            Self::Alias(_) => "an alias",
            Self::Anchor(_) => "an anchor",
            Self::Tag(..) => "a tag",
            Self::Scalar { .. } => "a scalar",
        }
    }
}
