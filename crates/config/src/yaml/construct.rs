//! From the node graph to config values, with PyYAML's rules for tags, merge keys and duplicates.
//!
//! PyYAML constructs collections breadth first and flattens merge keys in place, so that whether a
//! merged mapping counts as having duplicate keys depends on what was constructed before it. The
//! same order is kept here.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

use super::binary::decode_base64;
use super::graph::{Id, NodeGraph, RawContent, RawTag};
use super::number::{yaml_float, yaml_int};
use super::scanner::MAX_DEPTH;
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::interpolation;
use crate::key::Key;
use crate::node::{Dict, Node, Value};
use crate::source::{SourceSpan, SourceText};

/// How many values a document may unfold to; aliases let a small file ask for more than memory.
const MAX_VALUES: usize = 1_000_000;

/// A constructed node; collections refer to their children.
enum Built {
    Scalar(Value),
    List(Vec<Id>),
    /// A list of two-element lists.
    Pairs(Vec<(Id, Id)>),
    Dict(IndexMap<MapKey, Id>),
}

/// A key that may be null until the config is made, which refuses it.
#[derive(PartialEq, Eq, Hash)]
enum MapKey {
    Null(Id),
    Key(Key),
}

/// Turns a graph into a config tree.
pub(super) fn construct_node(graph: NodeGraph, source: &Arc<SourceText>) -> Result<Node> {
    let mut constructor = Constructor {
        built: graph.nodes.iter().map(|_| None).collect(),
        flattening: vec![false; graph.nodes.len()],
        graph,
        source,
        values: 0,
    };
    constructor.build_all()?;
    constructor.unfold_node(constructor.graph.root, 0)
}

struct Constructor<'a> {
    graph: NodeGraph,
    source: &'a Arc<SourceText>,
    built: Vec<Option<Built>>,
    flattening: Vec<bool>,
    values: usize,
}

impl Constructor<'_> {
    fn origin_of(&self, id: Id) -> SourceSpan {
        SourceSpan::new(self.source.clone(), self.graph.nodes[id].span.clone())
    }

    fn error_at(&self, kind: ErrorKind, id: Id) -> Error {
        Error::from(kind).with_origin(Some(&self.origin_of(id)))
    }

    fn yaml_error(&self, message: impl Into<String>, id: Id) -> Error {
        self.error_at(ErrorKind::Yaml(message.into()), id)
    }

    fn build_all(&mut self) -> Result<()> {
        let mut queue = VecDeque::from([self.graph.root]);
        while let Some(id) = queue.pop_front() {
            if self.built[id].is_some() {
                continue;
            }
            let built = self.build_node(id)?;
            match &built {
                Built::Scalar(_) => {}
                Built::List(items) => queue.extend(items),
                Built::Pairs(pairs) => queue.extend(pairs.iter().flat_map(|&(a, b)| [a, b])),
                Built::Dict(dict) => queue.extend(dict.values()),
            }
            self.built[id] = Some(built);
        }
        Ok(())
    }

    fn build_node(&mut self, id: Id) -> Result<Built> {
        Ok(match &self.graph.nodes[id].tag {
            RawTag::Sequence => Built::List(self.sequence_items(id)?.to_vec()),
            RawTag::Mapping => Built::Dict(self.build_mapping(id)?),
            RawTag::Pairs => Built::Pairs(self.mapping_pairs(id)?),
            RawTag::Set => {
                self.build_mapping(id)?;
                return Err(self.error_at(ErrorKind::UnsupportedValue("a set".to_owned()), id));
            }
            _ => Built::Scalar(self.scalar_value(id)?),
        })
    }

    fn sequence_items(&self, id: Id) -> Result<&[Id]> {
        match &self.graph.nodes[id].content {
            RawContent::Sequence(items) => Ok(items),
            other => Err(self.yaml_error(
                format!("expected a sequence, but found {}", other.kind()),
                id,
            )),
        }
    }

    fn mapping_pairs(&self, id: Id) -> Result<Vec<(Id, Id)>> {
        self.sequence_items(id)?
            .iter()
            .map(|&item| match &self.graph.nodes[item].content {
                RawContent::Mapping(pairs) if pairs.len() == 1 => Ok(pairs[0]),
                _ => Err(self.yaml_error("expected a mapping with one key", item)),
            })
            .collect()
    }

    fn build_mapping(&mut self, id: Id) -> Result<IndexMap<MapKey, Id>> {
        let RawContent::Mapping(pairs) = &self.graph.nodes[id].content else {
            let kind = self.graph.nodes[id].content.kind();
            return Err(self.yaml_error(format!("expected a mapping, but found {kind}"), id));
        };
        let mut seen = HashSet::new();
        for &(key, _) in pairs {
            let raw = &self.graph.nodes[key];
            if let (RawTag::Str, RawContent::Scalar(text)) = (&raw.tag, &raw.content)
                && !seen.insert(text.as_str())
            {
                return Err(self.error_at(ErrorKind::DuplicateKey(text.clone()), key));
            }
        }
        self.flatten_merges(id)?;
        let RawContent::Mapping(pairs) = &self.graph.nodes[id].content else {
            return Err(self.yaml_error("expected a mapping", id));
        };
        let mut dict = IndexMap::with_capacity(pairs.len());
        for &(key_id, value) in pairs {
            dict.insert(self.mapping_key(key_id)?, value);
        }
        Ok(dict)
    }

    fn mapping_key(&self, id: Id) -> Result<MapKey> {
        let raw = &self.graph.nodes[id];
        if matches!(
            raw.tag,
            RawTag::Sequence | RawTag::Mapping | RawTag::Set | RawTag::Pairs
        ) {
            return Err(self.yaml_error(format!("a key cannot be {}", raw.content.kind()), id));
        }
        Ok(match self.scalar_value(id)? {
            Value::Null => MapKey::Null(id),
            Value::Bool(value) => MapKey::Key(Key::Bool(value)),
            Value::Int(value) => MapKey::Key(Key::Int(value)),
            Value::Float(value) => MapKey::Key(Key::Float(value)),
            Value::Str(value) => MapKey::Key(Key::Str(value)),
            Value::Bytes(value) => MapKey::Key(Key::Bytes(value)),
            Value::List(_) | Value::Dict(_) => {
                return Err(self.yaml_error("a key must be a scalar", id));
            }
        })
    }

    /// Replaces merge keys (`<<`) by what they merge, before the mapping's own keys, for good.
    fn flatten_merges(&mut self, id: Id) -> Result<()> {
        if self.flattening[id] {
            return Err(self.yaml_error("a merge key refers to its own mapping", id));
        }
        let RawContent::Mapping(pairs) = &self.graph.nodes[id].content else {
            return Ok(());
        };
        if !pairs
            .iter()
            .any(|&(key, _)| matches!(self.graph.nodes[key].tag, RawTag::Merge | RawTag::Value))
        {
            return Ok(());
        }
        self.flattening[id] = true;
        let pairs = pairs.clone();
        let mut merged = Vec::new();
        let mut own = Vec::new();
        for (key, value) in pairs {
            match self.graph.nodes[key].tag {
                RawTag::Merge => self.merge_value(value, &mut merged)?,
                RawTag::Value => {
                    self.graph.nodes[key].tag = RawTag::Str;
                    own.push((key, value));
                }
                _ => own.push((key, value)),
            }
            if merged.len() > MAX_VALUES {
                return Err(self.too_large(id));
            }
        }
        merged.extend(own);
        self.graph.nodes[id].content = RawContent::Mapping(merged);
        self.flattening[id] = false;
        Ok(())
    }

    fn merge_value(&mut self, value: Id, merged: &mut Vec<(Id, Id)>) -> Result<()> {
        let sources = match &self.graph.nodes[value].content {
            RawContent::Mapping(_) => vec![value],
            // The first mapping of a list wins, so it is laid down last.
            RawContent::Sequence(items) => items.iter().rev().copied().collect(),
            RawContent::Scalar(_) => {
                let message = "`<<` takes a mapping or a list of mappings, but found a scalar";
                return Err(self.yaml_error(message, value));
            }
        };
        let mut parts = Vec::with_capacity(sources.len());
        // Flattened in written order, as the first failing one is the one reported.
        for &source in sources.iter().rev() {
            self.flatten_merges(source)?;
            match &self.graph.nodes[source].content {
                RawContent::Mapping(pairs) => parts.push(pairs.clone()),
                other => {
                    let message = format!("`<<` takes mappings, but found {}", other.kind());
                    return Err(self.yaml_error(message, source));
                }
            }
        }
        merged.extend(parts.into_iter().rev().flatten());
        Ok(())
    }

    /// The text of a scalar; a mapping stands for the value of its `=` key.
    fn scalar_text(&self, id: Id, depth: usize) -> Result<&str> {
        match &self.graph.nodes[id].content {
            RawContent::Scalar(text) => Ok(text),
            RawContent::Mapping(pairs) if depth < MAX_DEPTH => pairs
                .iter()
                .find(|&&(key, _)| self.graph.nodes[key].tag == RawTag::Value)
                .map_or_else(
                    || Err(self.yaml_error("expected a scalar, but found a mapping", id)),
                    |&(_, value)| self.scalar_text(value, depth + 1),
                ),
            other => {
                Err(self.yaml_error(format!("expected a scalar, but found {}", other.kind()), id))
            }
        }
    }

    fn scalar_value(&self, id: Id) -> Result<Value> {
        let raw = &self.graph.nodes[id];
        if let RawTag::Unknown(tag) = &raw.tag {
            return Err(self.yaml_error(format!("the tag `{tag}` is not known"), id));
        }
        let text = self.scalar_text(id, 0)?;
        let bad = |what: &str| self.yaml_error(format!("`{text}` is not {what}"), id);
        Ok(match &raw.tag {
            RawTag::Null => Value::Null,
            RawTag::Bool => match text.to_lowercase().as_str() {
                "yes" | "true" | "on" => Value::Bool(true),
                "no" | "false" | "off" => Value::Bool(false),
                _ => return Err(bad("a boolean")),
            },
            RawTag::Int => Value::Int(yaml_int(text).ok_or_else(|| bad("an integer"))?),
            RawTag::Float => Value::Float(yaml_float(text).ok_or_else(|| bad("a float"))?),
            RawTag::Binary => Value::Bytes(decode_base64(text).ok_or_else(|| bad("base64 data"))?),
            RawTag::Timestamp => {
                return Err(self.error_at(ErrorKind::UnsupportedValue("a date".to_owned()), id));
            }
            RawTag::Merge => {
                return Err(self
                    .yaml_error("`<<` is only allowed as a key", id)
                    .with_hint("quote it to get the string"));
            }
            RawTag::Value => {
                return Err(self
                    .yaml_error("a bare `=` is not a value in YAML 1.1", id)
                    .with_hint("quote it to get the string"));
            }
            _ => Value::Str(text.to_owned()),
        })
    }

    fn too_large(&self, id: Id) -> Error {
        let message = format!("aliases unfold to more than {MAX_VALUES} values");
        self.error_at(ErrorKind::Limit(message), id)
    }

    /// Copies the graph into a tree, as a config holds no shared nodes.
    fn unfold_node(&mut self, id: Id, depth: usize) -> Result<Node> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.too_large(id));
        }
        if depth > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(self.error_at(ErrorKind::Limit(message), id));
        }
        // Taken out and put back, so that children can be unfolded meanwhile; a node that is
        // found taken contains itself.
        let Some(built) = self.built[id].take() else {
            let message = "an alias refers to a collection that contains it".to_owned();
            return Err(self.error_at(ErrorKind::Limit(message), id));
        };
        let value = match &built {
            Built::Scalar(value) => {
                if let Value::Str(text) = value {
                    self.check_interpolation(text, id)?;
                }
                value.clone()
            }
            Built::List(items) => Value::List(
                items
                    .iter()
                    .map(|&item| self.unfold_node(item, depth + 1))
                    .collect::<Result<_>>()?,
            ),
            Built::Pairs(pairs) => Value::List(
                pairs
                    .iter()
                    .map(|&(first, second)| {
                        let pair = vec![
                            self.unfold_node(first, depth + 2)?,
                            self.unfold_node(second, depth + 2)?,
                        ];
                        Ok(Node::new(pair).at(Some(self.origin_of(first))))
                    })
                    .collect::<Result<_>>()?,
            ),
            Built::Dict(entries) => {
                let mut dict = Dict::with_capacity(entries.len());
                for (key, &item) in entries {
                    match key {
                        MapKey::Null(key_id) => {
                            return Err(
                                self.error_at(ErrorKind::KeyType("null".to_owned()), *key_id)
                            );
                        }
                        MapKey::Key(key) => {
                            let child = self.unfold_node(item, depth + 1)?;
                            dict.insert(key.clone(), child);
                        }
                    }
                }
                Value::Dict(dict)
            }
        };
        self.built[id] = Some(built);
        Ok(Node::new(value).at(Some(self.origin_of(id))))
    }

    /// OmegaConf refuses a malformed interpolation when the config is made, not when it is read.
    fn check_interpolation(&self, text: &str, id: Id) -> Result<()> {
        if !interpolation::is_interpolation(text) {
            return Ok(());
        }
        let Err(error) = interpolation::parse_template(text) else {
            return Ok(());
        };
        let span = self.graph.nodes[id].span.clone();
        let kind = ErrorKind::Grammar(error.to_string());
        // Unquoted text stands in the file as it is, so the very characters can be shown.
        if self.source.text().get(span.clone()) == Some(text) {
            let (start, end) = (error.span().start, error.span().end);
            let origin = SourceSpan::new(self.source.clone(), span.start + start..span.start + end);
            return Err(Error::from(kind).with_origin(Some(&origin)));
        }
        Err(self.error_at(kind, id))
    }
}
