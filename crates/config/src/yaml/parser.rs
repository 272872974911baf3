//! Tokens to the node graph: the grammar of PyYAML's parser, and its composer's anchors.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::graph::{Id, NodeGraph, RawContent, RawNode, RawTag};
use super::scanner::{MAX_DEPTH, ScanError, scan_text};
use super::token::{Directive, TokenKind, YamlToken};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{SourceSpan, SourceText};

/// Reads the one document of a text; `None` when there is none.
pub(super) fn compose_graph(source: &Arc<SourceText>) -> Result<Option<NodeGraph>> {
    let (tokens, failure) = scan_text(source.text());
    let mut parser = YamlParser {
        source,
        tokens: tokens.into_iter().peekable(),
        failure,
        handles: HashMap::new(),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        depth: 0,
        last: 0,
    };
    let root = parser.parse_stream()?;
    Ok(root.map(|root| NodeGraph {
        nodes: parser.nodes,
        root,
    }))
}

struct YamlParser<'a> {
    source: &'a Arc<SourceText>,
    tokens: std::iter::Peekable<std::vec::IntoIter<YamlToken>>,
    /// Why the tokens end early.
    failure: Option<ScanError>,
    /// Tag handles other than `!` and `!!`, or those redefined.
    handles: HashMap<String, String>,
    nodes: Vec<RawNode>,
    anchors: HashMap<String, Id>,
    depth: usize,
    /// Where the last token taken ends.
    last: usize,
}

/// Which collections may start without brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CollectionContext {
    Flow,
    Block,
    /// In a block mapping, where a list needs no indentation of its own.
    BlockOrIndentless,
}

/// What stands before a node's content.
struct Properties {
    anchor: Option<String>,
    tag: Option<String>,
}

impl YamlParser<'_> {
    fn error_at<T>(&self, kind: ErrorKind, span: Range<usize>) -> Result<T> {
        let origin = SourceSpan::new(self.source.clone(), span);
        Err(Error::from(kind).with_origin(Some(&origin)))
    }

    fn yaml_error<T>(&self, message: impl Into<String>, span: Range<usize>) -> Result<T> {
        self.error_at(ErrorKind::Yaml(message.into()), span)
    }

    fn peek_kind(&mut self) -> Result<&TokenKind> {
        if self.tokens.peek().is_none() {
            let failure = self.failure.take();
            let (message, span) = match failure {
                Some(failure) => (failure.message, failure.span),
                None => ("unexpected end".to_owned(), self.last..self.last),
            };
            return self.yaml_error(message, span);
        }
        Ok(&self.tokens.peek().expect("a token is there").kind)
    }

    fn take_token(&mut self) -> Result<YamlToken> {
        self.peek_kind()?;
        let token = self.tokens.next().expect("a token was seen");
        self.last = token.span.end;
        Ok(token)
    }

    fn is_at(&mut self, kind: &TokenKind) -> Result<bool> {
        Ok(self.peek_kind()? == kind)
    }

    fn next_start(&mut self) -> usize {
        self.tokens
            .peek()
            .map_or(self.last, |token| token.span.start)
    }

    fn unexpected_token<T>(&mut self, expected: &str) -> Result<T> {
        let actual = self.peek_kind()?.describe();
        let token = self.take_token()?;
        self.yaml_error(
            format!("expected {expected}, but found {actual}"),
            token.span,
        )
    }

    fn add_node(&mut self, tag: RawTag, content: RawContent, span: Range<usize>) -> Id {
        self.nodes.push(RawNode { tag, content, span });
        self.nodes.len() - 1
    }

    fn add_empty(&mut self) -> Id {
        let at = self.last;
        self.add_node(RawTag::Null, RawContent::Scalar(String::new()), at..at)
    }

    // Documents

    fn parse_stream(&mut self) -> Result<Option<Id>> {
        let root = match self.peek_kind()? {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::Directive(_) | TokenKind::DocumentStart => {
                self.document_start()?;
                match self.peek_kind()? {
                    TokenKind::Directive(_)
                    | TokenKind::DocumentStart
                    | TokenKind::DocumentEnd
                    | TokenKind::StreamEnd => self.add_empty(),
                    _ => self.parse_node(CollectionContext::Block)?,
                }
            }
            _ => self.parse_node(CollectionContext::Block)?,
        };
        while self.is_at(&TokenKind::DocumentEnd)? {
            self.take_token()?;
        }
        if !self.is_at(&TokenKind::StreamEnd)? {
            let span = self.document_start()?;
            return self.error_at(ErrorKind::MultipleDocuments, span);
        }
        Ok(Some(root))
    }

    fn document_start(&mut self) -> Result<Range<usize>> {
        self.handles.clear();
        let mut version_seen = false;
        while let TokenKind::Directive(_) = self.peek_kind()? {
            let token = self.take_token()?;
            let duplicate = match token.kind {
                TokenKind::Directive(Directive::Yaml {
                    major_is_one: false,
                }) => {
                    return self.yaml_error("only YAML 1 documents can be read", token.span);
                }
                TokenKind::Directive(Directive::Yaml { .. }) => {
                    std::mem::replace(&mut version_seen, true)
                }
                TokenKind::Directive(Directive::Tag { handle, prefix }) => {
                    self.handles.insert(handle, prefix).is_some()
                }
                _ => false,
            };
            if duplicate {
                return self.yaml_error("this directive stands here twice", token.span);
            }
        }
        if !self.is_at(&TokenKind::DocumentStart)? {
            return self.unexpected_token("the end of the document or `---`");
        }
        Ok(self.take_token()?.span)
    }

    // Nodes

    fn parse_node(&mut self, context: CollectionContext) -> Result<Id> {
        if let TokenKind::Alias(_) = self.peek_kind()? {
            return self.parse_alias();
        }
        let start = self.next_start();
        let mut anchor = None;
        let mut tag = None;
        loop {
            match self.peek_kind()? {
                TokenKind::Anchor(_) if anchor.is_none() => {
                    let token = self.take_token()?;
                    if let TokenKind::Anchor(name) = token.kind {
                        if self.anchors.contains_key(&name) {
                            let message = format!("the anchor `&{name}` is defined twice");
                            return self.yaml_error(message, token.span);
                        }
                        anchor = Some(name);
                    }
                }
                TokenKind::Tag(..) if tag.is_none() => tag = Some(self.parse_tag()?),
                _ => break,
            }
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return self.error_at(ErrorKind::Limit(message), start..start);
        }
        let id = self.parse_content(context, Properties { anchor, tag })?;
        self.depth -= 1;
        Ok(id)
    }

    /// The tag in full, with its handle replaced; `!` stays as it is.
    fn parse_tag(&mut self) -> Result<String> {
        let token = self.take_token()?;
        let TokenKind::Tag(handle, suffix) = token.kind else {
            return self.yaml_error("expected a tag", token.span);
        };
        let Some(handle) = handle else {
            return Ok(suffix);
        };
        let prefix = match (self.handles.get(&handle), handle.as_str()) {
            (Some(prefix), _) => prefix,
            (None, "!") => "!",
            (None, "!!") => "tag:yaml.org,2002:",
            _ => {
                let message = format!("the tag handle `{handle}` is not defined");
                return self.yaml_error(message, token.span);
            }
        };
        Ok(format!("{prefix}{suffix}"))
    }

    fn parse_content(&mut self, context: CollectionContext, properties: Properties) -> Result<Id> {
        let in_block = context != CollectionContext::Flow;
        match self.peek_kind()? {
            TokenKind::BlockEntry if context == CollectionContext::BlockOrIndentless => {
                let id = self.open_collection(properties, RawTag::Sequence);
                self.block_sequence_items(id, true)
            }
            TokenKind::Scalar { .. } => {
                let token = self.take_token()?;
                let TokenKind::Scalar { text, plain } = token.kind else {
                    return self.yaml_error("expected a scalar", token.span);
                };
                let tag = match properties.tag.as_deref() {
                    // `! "12"` is an integer: the lone `!` asks for resolution in spite of the quotes.
                    Some("!") => RawTag::of_text(&text),
                    Some(tag) => RawTag::named(tag),
                    None if plain => RawTag::of_text(&text),
                    None => RawTag::Str,
                };
                let id = self.add_node(tag, RawContent::Scalar(text), token.span);
                self.define_anchor(properties.anchor, id);
                Ok(id)
            }
            TokenKind::FlowSequenceStart => {
                let id = self.open_collection(properties, RawTag::Sequence);
                self.take_token()?;
                self.flow_sequence_items(id)
            }
            TokenKind::FlowMappingStart => {
                let id = self.open_collection(properties, RawTag::Mapping);
                self.take_token()?;
                self.flow_mapping_pairs(id)
            }
            TokenKind::BlockSequenceStart if in_block => {
                let id = self.open_collection(properties, RawTag::Sequence);
                self.take_token()?;
                self.block_sequence_items(id, false)
            }
            TokenKind::BlockMappingStart if in_block => {
                let id = self.open_collection(properties, RawTag::Mapping);
                self.take_token()?;
                self.block_mapping_pairs(id)
            }
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                let id = self.add_empty();
                if let Some(tag) = properties.tag.filter(|tag| tag != "!") {
                    self.nodes[id].tag = RawTag::named(&tag);
                }
                self.define_anchor(properties.anchor, id);
                Ok(id)
            }
            _ => self.unexpected_token("a value"),
        }
    }

    fn define_anchor(&mut self, anchor: Option<String>, id: Id) {
        if let Some(name) = anchor {
            self.anchors.insert(name, id);
        }
    }

    /// A collection about to be filled; its anchor counts inside it already.
    fn open_collection(&mut self, properties: Properties, kind: RawTag) -> Id {
        let content = match kind {
            RawTag::Mapping => RawContent::Mapping(Vec::new()),
            _ => RawContent::Sequence(Vec::new()),
        };
        let tag = properties
            .tag
            .filter(|tag| tag != "!")
            .map_or(kind, |tag| RawTag::named(&tag));
        let start = self.next_start();
        let id = self.add_node(tag, content, start..start);
        self.define_anchor(properties.anchor, id);
        id
    }

    fn push_item(&mut self, id: Id, item: Id) {
        if let RawContent::Sequence(items) = &mut self.nodes[id].content {
            items.push(item);
        }
    }

    fn push_pair(&mut self, id: Id, key: Id, value: Id) {
        if let RawContent::Mapping(pairs) = &mut self.nodes[id].content {
            pairs.push((key, value));
        }
    }

    fn close_collection(&mut self, id: Id) -> Id {
        let span = &mut self.nodes[id].span;
        span.end = self.last.max(span.start);
        id
    }

    // Block collections

    fn block_sequence_items(&mut self, id: Id, indentless: bool) -> Result<Id> {
        while self.is_at(&TokenKind::BlockEntry)? {
            self.take_token()?;
            let is_empty = match self.peek_kind()? {
                TokenKind::BlockEntry | TokenKind::BlockEnd => true,
                TokenKind::Key | TokenKind::Value => indentless,
                _ => false,
            };
            let item = if is_empty {
                self.add_empty()
            } else {
                self.parse_node(CollectionContext::Block)?
            };
            self.push_item(id, item);
        }
        self.close_collection(id);
        if !indentless {
            if !self.is_at(&TokenKind::BlockEnd)? {
                return self.unexpected_token("another `-` or the end of the list");
            }
            self.take_token()?;
        }
        Ok(id)
    }

    fn block_mapping_pairs(&mut self, id: Id) -> Result<Id> {
        loop {
            let key = match self.peek_kind()? {
                TokenKind::Key => {
                    self.take_token()?;
                    self.block_mapping_part()?
                }
                TokenKind::BlockEnd => break,
                _ => return self.unexpected_token("another key or the end of the mapping"),
            };
            let value = if self.is_at(&TokenKind::Value)? {
                self.take_token()?;
                self.block_mapping_part()?
            } else {
                self.add_empty()
            };
            self.push_pair(id, key, value);
        }
        self.close_collection(id);
        self.take_token()?;
        Ok(id)
    }

    fn block_mapping_part(&mut self) -> Result<Id> {
        match self.peek_kind()? {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(self.add_empty()),
            _ => self.parse_node(CollectionContext::BlockOrIndentless),
        }
    }

    // Flow collections

    fn flow_sequence_items(&mut self, id: Id) -> Result<Id> {
        let mut first = true;
        while !self.is_at(&TokenKind::FlowSequenceEnd)? {
            if !first {
                if !self.is_at(&TokenKind::FlowEntry)? {
                    return self.unexpected_token("`,` or `]`");
                }
                self.take_token()?;
            }
            first = false;
            match self.peek_kind()? {
                TokenKind::FlowSequenceEnd => break,
                // `[a: 1]` is a list of one mapping.
                TokenKind::Key => {
                    let start = self.next_start();
                    let mapping = self.add_node(
                        RawTag::Mapping,
                        RawContent::Mapping(Vec::new()),
                        start..start,
                    );
                    self.flow_pair(mapping, &TokenKind::FlowSequenceEnd)?;
                    self.close_collection(mapping);
                    self.push_item(id, mapping);
                }
                _ => {
                    let item = self.parse_node(CollectionContext::Flow)?;
                    self.push_item(id, item);
                }
            }
        }
        self.take_token()?;
        Ok(self.close_collection(id))
    }

    fn flow_mapping_pairs(&mut self, id: Id) -> Result<Id> {
        let mut first = true;
        while !self.is_at(&TokenKind::FlowMappingEnd)? {
            if !first {
                if !self.is_at(&TokenKind::FlowEntry)? {
                    return self.unexpected_token("`,` or `}`");
                }
                self.take_token()?;
            }
            first = false;
            match self.peek_kind()? {
                TokenKind::FlowMappingEnd => break,
                TokenKind::Key => self.flow_pair(id, &TokenKind::FlowMappingEnd)?,
                _ => {
                    let key = self.parse_node(CollectionContext::Flow)?;
                    let value = self.add_empty();
                    self.push_pair(id, key, value);
                }
            }
        }
        self.take_token()?;
        Ok(self.close_collection(id))
    }

    /// A key and its value between brackets; both may be left out.
    fn flow_pair(&mut self, id: Id, end: &TokenKind) -> Result<()> {
        self.take_token()?;
        let key = if self.is_at(&TokenKind::Value)? {
            self.add_empty()
        } else {
            self.flow_part(end)?
        };
        let value = if self.is_at(&TokenKind::Value)? {
            self.take_token()?;
            self.flow_part(end)?
        } else {
            self.add_empty()
        };
        self.push_pair(id, key, value);
        Ok(())
    }

    fn flow_part(&mut self, end: &TokenKind) -> Result<Id> {
        let token = self.peek_kind()?;
        if *token == TokenKind::FlowEntry || token == end {
            Ok(self.add_empty())
        } else {
            self.parse_node(CollectionContext::Flow)
        }
    }

    fn parse_alias(&mut self) -> Result<Id> {
        let token = self.take_token()?;
        let TokenKind::Alias(name) = token.kind else {
            return self.yaml_error("expected an alias", token.span);
        };
        match self.anchors.get(&name) {
            Some(&id) => Ok(id),
            None => self.yaml_error(
                format!("the anchor `&{name}` is not defined above"),
                token.span,
            ),
        }
    }
}
