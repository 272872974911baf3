//! The config tree: ordered mappings, lists and scalars, each knowing where it was written.
//!
//! As in OmegaConf, a missing value is the string `???` and an interpolation is a string that
//! contains `${`; both stay text until something asks for the value.

pub mod hint;

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use self::hint::{Hint, StructType};
use crate::int::Int;
use crate::key::Key;
use crate::python;
use crate::source::SourceSpan;

/// An ordered mapping of config nodes.
pub type Dict = IndexMap<Key, Node>;

/// The text that marks a value as mandatory and not yet given.
pub(crate) const MISSING: &str = "???";

/// A value with its metadata. Equality compares values only.
#[derive(Debug, Clone)]
pub struct Node {
    pub value: Value,
    /// Where it was written, when that is known.
    pub origin: Option<SourceSpan>,
    /// Flags set on this very node; unset ones are inherited from the parent.
    pub(crate) flags: Flags,
    /// The type the node is bound to; `None` for untyped nodes.
    pub(crate) hint: Option<Arc<Hint>>,
    /// The declared class of a mapping that came from a typed config.
    pub(crate) class: Option<Arc<StructType>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// A whole number of any size.
    Int(Int),
    Float(f64),
    /// Text; also `???` and interpolations.
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Node>),
    Dict(Dict),
}

/// OmegaConf's per-node flags; `None` inherits from the parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Whether unknown keys are errors (`OmegaConf.set_struct`).
    pub structured: Option<bool>,
    /// Whether changes are errors (`OmegaConf.set_readonly`).
    pub readonly: Option<bool>,
}

impl Flags {
    /// These flags with unset ones taken from `parent`.
    #[must_use]
    pub(crate) fn inherit(self, parent: Self) -> Self {
        Self {
            structured: self.structured.or(parent.structured),
            readonly: self.readonly.or(parent.readonly),
        }
    }
}

impl Node {
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Dict(_) => "a mapping".to_owned(),
            other => format!("the {} `{}`", self.type_name(), other.repr()),
        }
    }

    /// An untyped node with no known origin.
    pub fn new(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            origin: None,
            flags: Flags::default(),
            hint: None,
            class: None,
        }
    }

    pub fn empty_dict() -> Self {
        Self::new(Value::Dict(Dict::new()))
    }

    pub(crate) fn empty_list() -> Self {
        Self::new(Value::List(Vec::new()))
    }

    /// A value that must be given: OmegaConf's `???`.
    pub fn missing() -> Self {
        Self::new(MISSING)
    }

    /// The same node, written at `origin`.
    #[must_use]
    pub fn at(mut self, origin: Option<SourceSpan>) -> Self {
        self.origin = origin;
        self
    }

    /// The same node, bound to a type. The value is not checked.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: Hint) -> Self {
        self.hint = Some(Arc::new(hint));
        self
    }

    /// Whether the value is `???`.
    pub(crate) fn is_missing(&self) -> bool {
        self.as_str() == Some(MISSING)
    }

    /// Whether the value is text with an interpolation (or an escaped one).
    pub(crate) fn is_interpolation(&self) -> bool {
        self.as_str().is_some_and(|text| text.contains("${"))
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Whether the value is null, missing or an interpolation.
    pub(crate) fn is_special(&self) -> bool {
        self.is_null() || self.is_missing() || self.is_interpolation()
    }

    /// Whether this is a mapping, or typed as one while it holds a special value.
    pub(crate) fn is_dict(&self) -> bool {
        matches!(self.value, Value::Dict(_)) || self.hint.as_ref().is_some_and(|h| h.is_dict())
    }

    /// Whether this is a list, or typed as one while it holds a special value.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_)) || self.hint.as_ref().is_some_and(|h| h.is_list())
    }

    /// Whether this is a mapping or a list, in the sense of [`is_dict`](Self::is_dict).
    pub(crate) fn is_container(&self) -> bool {
        self.is_dict() || self.is_list()
    }

    /// The text of a string value.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean of a boolean value.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The integer of an integer value that fits 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.value {
            Value::Int(value) => value.as_i64(),
            _ => None,
        }
    }

    /// The entries, when the value is a mapping.
    pub fn as_dict(&self) -> Option<&Dict> {
        match &self.value {
            Value::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// The entries for change, when the value is a mapping.
    pub fn as_dict_mut(&mut self) -> Option<&mut Dict> {
        match &mut self.value {
            Value::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// The elements, when the value is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The elements for change, when the value is a list.
    pub(crate) fn as_list_mut(&mut self) -> Option<&mut Vec<Node>> {
        match &mut self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The child under a string key, exactly as written (no key path, no resolution).
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_dict()?.get(&Key::from(key))
    }

    /// The child under a string key, for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.as_dict_mut()?.get_mut(&Key::from(key))
    }

    /// Puts a child under a string key without any check, keeping the place of an old one.
    ///
    /// A node that is not a mapping becomes one first.
    pub fn insert(&mut self, key: &str, child: Node) {
        if self.as_dict().is_none() {
            self.value = Value::Dict(Dict::new());
        }
        if let Value::Dict(dict) = &mut self.value {
            dict.insert(Key::from(key), child);
        }
    }

    /// Takes a child out, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.as_dict_mut()?.shift_remove(&Key::from(key))
    }

    /// Sets or clears the struct flag of this node (`OmegaConf.set_struct`).
    pub fn set_struct(&mut self, value: Option<bool>) {
        self.flags.structured = value;
    }

    /// The type name Python has for the value, as messages show it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "ListConfig",
            Value::Dict(_) => "DictConfig",
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// As Python's `str()` shows the value: what string interpolation inserts.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Str(text) => {
                if let Some(Hint {
                    kind: hint::HintKind::Enum(kind),
                    ..
                }) = self.hint.as_deref()
                    && !self.is_special()
                {
                    write!(f, "{}.", kind.name)?;
                }
                f.write_str(text)
            }
            other => f.write_str(&other.repr()),
        }
    }
}

impl Value {
    /// Python's `repr()` of the value.
    pub fn repr(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => python::float_repr(*value),
            Self::Str(text) => python::str_repr(text),
            Self::Bytes(bytes) => python::bytes_repr(bytes),
            Self::List(list) => {
                let items: Vec<_> = list.iter().map(|item| item.value.repr()).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Dict(dict) => {
                let items: Vec<_> = dict
                    .iter()
                    .map(|(key, item)| {
                        let key = match key {
                            Key::Str(text) => python::str_repr(text),
                            other => other.to_string(),
                        };
                        format!("{key}: {}", item.value.repr())
                    })
                    .collect();
                format!("{{{}}}", items.join(", "))
            }
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Int::from(value))
    }
}

impl From<Int> for Value {
    fn from(value: Int) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Vec<Node>> for Value {
    fn from(list: Vec<Node>) -> Self {
        Self::List(list)
    }
}

impl From<Dict> for Value {
    fn from(dict: Dict) -> Self {
        Self::Dict(dict)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Compares as OmegaConf compares plain values: numbers by value, containers by content.
impl Node {
    /// Python's `==` of the two values, where `1 == 1.0 == True`.
    pub(crate) fn equals(&self, other: &Node) -> bool {
        fn as_float(value: &Value) -> Option<f64> {
            match value {
                Value::Bool(b) => Some(f64::from(u8::from(*b))),
                Value::Int(i) => Some(i.to_f64()),
                Value::Float(x) => Some(*x),
                _ => None,
            }
        }
        match (&self.value, &other.value) {
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.equals(y))
            }
            (Value::Dict(a), Value::Dict(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, x)| b.get(key).is_some_and(|y| x.equals(y)))
            }
            (a, b) => match (as_float(a), as_float(b)) {
                (Some(x), Some(y)) => x == y,
                _ => a == b,
            },
        }
    }
}
