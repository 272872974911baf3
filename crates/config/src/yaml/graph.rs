//! The node graph of one YAML document: what PyYAML calls composing.
//!
//! Aliases make it a graph, not a tree; nodes are kept in one list and named by their index.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::scalar::{Implicit, loader_type};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Origin, Source};

/// A node's index in its [`Graph`].
pub(super) type Id = usize;

/// A document before it becomes values.
pub(super) struct Graph {
    pub(super) nodes: Vec<Raw>,
    pub(super) root: Id,
}

/// One node of the graph.
pub(super) struct Raw {
    pub(super) tag: RawTag,
    pub(super) content: Content,
    pub(super) span: Range<usize>,
}

/// What a node holds.
pub(super) enum Content {
    Scalar(String),
    Sequence(Vec<Id>),
    Mapping(Vec<(Id, Id)>),
}

impl Content {
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
    /// Anything else, as written.
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

/// `None` for no tag at all and for the non-specific `!`.
fn explicit_tag(tag: Option<&Tag>) -> Option<RawTag> {
    let tag = tag?;
    if tag.original() == "!" {
        return None;
    }
    let name = tag.suffix_in_namespace("tag:yaml.org,2002:");
    Some(match name.as_deref() {
        Some("null") => RawTag::Null,
        Some("bool") => RawTag::Bool,
        Some("int") => RawTag::Int,
        Some("float") => RawTag::Float,
        Some("str") => RawTag::Str,
        Some("binary") => RawTag::Binary,
        Some("timestamp") => RawTag::Timestamp,
        Some("merge") => RawTag::Merge,
        Some("value") => RawTag::Value,
        Some("seq") => RawTag::Sequence,
        Some("map") => RawTag::Mapping,
        Some("set") => RawTag::Set,
        Some("omap" | "pairs") => RawTag::Pairs,
        _ => RawTag::Unknown(tag.original()),
    })
}

/// An open collection whose children are still being read.
struct Open {
    id: Id,
    key: Option<Id>,
}

/// Reads events into a graph; `None` for a stream without a document.
pub(super) fn compose(source: &Arc<Source>) -> Result<Option<Graph>> {
    let options = granit_parser::options! {
        emit_anchor_events: true,
        emit_comments: false,
    };
    let mut composer = Composer {
        source,
        nodes: Vec::new(),
        anchors: HashMap::new(),
        names: HashMap::new(),
        open: Vec::new(),
        root: None,
    };
    let mut documents = 0;
    for next in Parser::new_from_str_with_options(source.text(), options) {
        let (event, span) = next.map_err(|error| composer.scan_error(&error))?;
        let span = span_bytes(&span);
        match event {
            Event::DocumentStart(_, version) => {
                documents += 1;
                if documents > 1 {
                    return Err(composer.error(ErrorKind::MultipleDocuments, &span));
                }
                if version.is_some_and(|version| version.major != 1) {
                    let kind = ErrorKind::Yaml("only YAML 1 documents can be read".to_owned());
                    return Err(composer.error(kind, &span));
                }
            }
            other => composer.take(other, span)?,
        }
    }
    Ok(composer.root.map(|root| Graph {
        nodes: composer.nodes,
        root,
    }))
}

fn span_bytes(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or(0..0)
}

struct Composer<'a> {
    source: &'a Arc<Source>,
    nodes: Vec<Raw>,
    /// The parser's anchor numbers, with the node each stands for.
    anchors: HashMap<usize, Id>,
    names: HashMap<String, Id>,
    open: Vec<Open>,
    root: Option<Id>,
}

impl Composer<'_> {
    fn error(&self, kind: ErrorKind, span: &Range<usize>) -> Error {
        let origin = Origin::new(self.source.clone(), span.clone());
        Error::from(kind).with_origin(Some(&origin))
    }

    fn scan_error(&self, error: &granit_parser::ScanError) -> Error {
        let at = error.marker().byte_offset().unwrap_or(0);
        let rest = self.source.text().get(at..).unwrap_or_default();
        let end = at + rest.chars().next().map_or(0, char::len_utf8);
        self.error(ErrorKind::Yaml(error.info()), &(at..end))
    }

    fn take(&mut self, event: Event<'_>, span: Range<usize>) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = scalar_tag(&text, style, tag.as_ref());
                let id = self.add(tag, Content::Scalar(text.into_owned()), span);
                self.define(anchor, id);
                self.attach(id);
            }
            Event::SequenceStart(_, anchor, tag) => {
                let tag = explicit_tag(tag.as_deref()).unwrap_or(RawTag::Sequence);
                let id = self.add(tag, Content::Sequence(Vec::new()), span);
                self.define(anchor, id);
                self.open.push(Open { id, key: None });
            }
            Event::MappingStart(_, anchor, tag) => {
                let tag = explicit_tag(tag.as_deref()).unwrap_or(RawTag::Mapping);
                let id = self.add(tag, Content::Mapping(Vec::new()), span);
                self.define(anchor, id);
                self.open.push(Open { id, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { id, .. }) = self.open.pop() {
                    self.nodes[id].span.end = span.end.max(self.nodes[id].span.start);
                    self.attach(id);
                }
            }
            Event::Alias(anchor) => {
                let Some(&id) = self.anchors.get(&anchor) else {
                    let kind = ErrorKind::Yaml("undefined alias".to_owned());
                    return Err(self.error(kind, &span));
                };
                self.attach(id);
            }
            Event::Anchor(anchor, name) => {
                let Some(&id) = self.anchors.get(&anchor) else {
                    return Ok(());
                };
                if self.names.insert(name.clone().into_owned(), id).is_some() {
                    let kind = ErrorKind::Yaml(format!("the anchor `&{name}` is defined twice"));
                    return Err(self.error(kind, &span));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, tag: RawTag, content: Content, span: Range<usize>) -> Id {
        self.nodes.push(Raw { tag, content, span });
        self.nodes.len() - 1
    }

    fn define(&mut self, anchor: usize, id: Id) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    /// Puts a complete node into the innermost open collection.
    fn attach(&mut self, id: Id) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(id);
            return;
        };
        match &mut self.nodes[open.id].content {
            Content::Sequence(items) => items.push(id),
            Content::Mapping(pairs) => match open.key.take() {
                None => open.key = Some(id),
                Some(key) => pairs.push((key, id)),
            },
            Content::Scalar(_) => {}
        }
    }
}

fn scalar_tag(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>) -> RawTag {
    match explicit_tag(tag.map(AsRef::as_ref)) {
        Some(tag) => tag,
        // `! "12"` is an integer: the non-specific tag asks for resolution whatever the quotes.
        None if tag.is_some() || style == ScalarStyle::Plain => loader_type(text).into(),
        None => RawTag::Str,
    }
}
