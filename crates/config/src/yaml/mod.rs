//! YAML as OmegaConf 2.3 reads it: PyYAML's safe loader (YAML 1.1), more floats, no dates, and no
//! duplicate keys.

mod binary;
mod construct;
mod cursor;
mod graph;
mod header;
mod number;
mod parser;
mod scalar;
mod scan_property;
mod scan_scalar;
mod scanner;
mod token;

use std::sync::Arc;

pub(crate) use binary::encode_base64;
pub use header::parse_header;
pub(crate) use scalar::{Implicit, dumper_type, is_bool};

use crate::error::{Error, ErrorKind, Result};
use crate::node::{Node, Value};
use crate::source::{SourceSpan, SourceText};

/// Reads one YAML document of any kind; `None` when there is none.
pub fn parse_document(source: &Arc<SourceText>) -> Result<Option<Node>> {
    check_characters(source)?;
    match parser::compose_graph(source)? {
        Some(graph) => construct::construct_node(graph, source).map(Some),
        None => Ok(None),
    }
}

/// Reads a config file as `OmegaConf.load` does.
///
/// An empty file is an empty mapping, and a file that holds one string is read again as the text of
/// a config, where a plain word becomes a key with no value. Other scalars are refused.
pub fn load_config(source: &Arc<SourceText>) -> Result<Node> {
    let Some(node) = parse_document(source)? else {
        return Ok(Node::empty_dict());
    };
    match &node.value {
        Value::Null => Ok(Node::empty_dict()),
        Value::Dict(_) | Value::List(_) => Ok(node),
        Value::Str(text) => create_config(&SourceText::new(source.name(), text.clone())),
        _ => Err(invalid_root(&node)),
    }
}

/// Makes a config of YAML text as `OmegaConf.create` does with a string.
pub fn create_config(source: &Arc<SourceText>) -> Result<Node> {
    let Some(node) = parse_document(source)? else {
        return Ok(Node::empty_dict());
    };
    match &node.value {
        Value::Null => Ok(Node::empty_dict()),
        Value::Dict(_) | Value::List(_) => Ok(node),
        Value::Str(text) => {
            let mut dict = Node::empty_dict().at(node.origin.clone());
            dict.insert(text, Node::new(Value::Null).at(node.origin.clone()));
            Ok(dict)
        }
        _ => Err(invalid_root(&node)),
    }
}

fn invalid_root(node: &Node) -> Error {
    let kind = ErrorKind::InvalidRoot(format!("the {} `{}`", node.type_name(), node.value.repr()));
    Error::from(kind).with_origin(node.origin.as_ref())
}

/// PyYAML refuses control characters before it looks at anything else.
fn check_characters(source: &Arc<SourceText>) -> Result<()> {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{85}' | '\x20'..='\x7e' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
    match source.text().char_indices().find(|&(_, c)| !allowed(c)) {
        None => Ok(()),
        Some((at, c)) => {
            let kind = ErrorKind::Yaml(format!(
                "the character U+{:04X} is not allowed in YAML",
                u32::from(c)
            ));
            let origin = SourceSpan::new(source.clone(), at..at + c.len_utf8());
            Err(Error::from(kind).with_origin(Some(&origin)))
        }
    }
}
