//! Reading a resolved config into typed values, with errors that name the key and where it was written.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use crate::key::Key;
use crate::node::{Node, Value};
use crate::source::SourceSpan;

/// A value of the config that does not fit the type it is read into.
#[derive(Clone, Debug)]
pub struct TypeError {
    /// The key, dotted from the root: `workload.batch_size`.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
    /// Where its value was written; absent for a value that no file holds, such as an override's.
    pub origin: Option<SourceSpan>,
}

impl TypeError {
    fn with_parent(mut self, key: &str, child: &Node) -> Self {
        self.key = match self.key.as_str() {
            "" => {
                // The innermost value is to blame; the mappings around it are not where the mistake is.
                self.origin.clone_from(&child.origin);
                key.to_owned()
            }
            rest if rest.starts_with('[') => format!("{key}{rest}"),
            rest => format!("{key}.{rest}"),
        };
        self
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "`{}`: {}", self.key, self.message)
        }
    }
}

impl std::error::Error for TypeError {}

impl de::Error for TypeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            key: String::new(),
            message: message.to_string(),
            origin: None,
        }
    }
}

/// Reads `node`, whose interpolations are resolved, as a `T`.
pub fn read_typed<T: DeserializeOwned>(node: &Node) -> Result<T, TypeError> {
    T::deserialize(NodeReader(node))
}

struct NodeReader<'a>(&'a Node);

impl NodeReader<'_> {
    fn unresolved_error(&self) -> Option<TypeError> {
        let error = |message: &str| Some(de::Error::custom(message));
        if self.0.is_missing() {
            return error("a value is mandatory here and none was given");
        }
        None
    }
}

impl<'de> de::Deserializer<'de> for NodeReader<'_> {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if let Some(error) = self.unresolved_error() {
            return Err(error);
        }
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => match value.as_i64() {
                Some(small) if small >= 0 => visitor.visit_u64(small as u64),
                Some(small) => visitor.visit_i64(small),
                None => match value.to_string().parse() {
                    Ok(large) => visitor.visit_u64(large),
                    Err(_) => Err(de::Error::custom(format!("{value} does not fit 64 bits"))),
                },
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Str(text) => visitor.visit_str(text),
            Value::Bytes(bytes) => visitor.visit_bytes(bytes),
            Value::List(list) => visitor.visit_seq(Items { list, next: 0 }),
            Value::Dict(dict) => visitor.visit_map(Entries {
                entries: dict.iter(),
                current: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if self.0.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        if let Some(error) = self.unresolved_error() {
            return Err(error);
        }
        match &self.0.value {
            Value::Str(text) => visitor.visit_enum(Variant(text)),
            _ => Err(de::Error::custom(format!(
                "a name is expected here, {} was given",
                self.0.value.repr()
            ))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant without contents; config values name their variant and nothing else.
struct Variant<'a>(&'a str);

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = TypeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), TypeError> {
        let variant = seed.deserialize(self.0.into_deserializer())?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = TypeError;

    fn unit_variant(self) -> Result<(), TypeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        self,
        _seed: S,
    ) -> Result<S::Value, TypeError> {
        Err(de::Error::custom(format!("`{}` needs a value", self.0)))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        _visitor: V,
    ) -> Result<V::Value, TypeError> {
        Err(de::Error::custom(format!("`{}` needs values", self.0)))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, TypeError> {
        Err(de::Error::custom(format!("`{}` needs values", self.0)))
    }
}

struct Items<'a> {
    list: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = TypeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, TypeError> {
        let Some(item) = self.list.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(NodeReader(item))
            .map(Some)
            .map_err(|error| error.with_parent(&format!("[{index}]"), item))
    }
}

struct Entries<'a> {
    entries: indexmap::map::Iter<'a, Key, Node>,
    current: Option<(String, &'a Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = TypeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, TypeError> {
        let Some((key, child)) = self.entries.next() else {
            return Ok(None);
        };
        let name = key.to_string();
        // A key that the type does not know fails here: the error belongs to the key, not to the mapping.
        let read = seed
            .deserialize(name.as_str().into_deserializer())
            .map_err(|error: TypeError| error.with_parent(&name, child))?;
        self.current = Some((name, child));
        Ok(Some(read))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TypeError> {
        let (name, child) = self.current.take().ok_or_else(|| {
            <TypeError as de::Error>::custom("a value was asked for before its key")
        })?;
        seed.deserialize(NodeReader(child))
            .map_err(|error| error.with_parent(&name, child))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Causal,
        Full,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        size: u64,
        mode: Mode,
        limit: Option<f64>,
        names: Vec<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        inner: Inner,
    }

    fn inner(edit: impl FnOnce(&mut Node)) -> Node {
        let mut node = Node::empty_dict();
        node.insert("size", Node::new(3));
        node.insert("mode", Node::new("causal"));
        node.insert("limit", Node::new(Value::Null));
        node.insert("names", Node::new(vec![Node::new("a")]));
        edit(&mut node);
        let mut outer = Node::empty_dict();
        outer.insert("inner", node);
        outer
    }

    #[test]
    fn a_fitting_config_is_read() {
        let outer: Outer = read_typed(&inner(|_| ())).unwrap();
        assert_eq!(
            outer.inner,
            Inner {
                size: 3,
                mode: Mode::Causal,
                limit: None,
                names: vec!["a".into()]
            }
        );
    }

    #[test]
    fn errors_name_the_key() {
        type Edit = fn(&mut Node);
        let cases: [(Edit, &str, &str); 6] = [
            (
                |n| n.insert("size", Node::new("many")),
                "inner.size",
                "many",
            ),
            (|n| n.insert("size", Node::new(-1)), "inner.size", "-1"),
            (
                |n| n.insert("sise", Node::new(1)),
                "inner.sise",
                "unknown field",
            ),
            (
                |n| n.insert("mode", Node::new("ful")),
                "inner.mode",
                "unknown variant",
            ),
            (
                |n| n.insert("names", Node::new(vec![Node::new(1)])),
                "inner.names[0]",
                "string",
            ),
            (
                |n| n.insert("size", Node::missing()),
                "inner.size",
                "mandatory",
            ),
        ];
        for (edit, key, part) in cases {
            let error = read_typed::<Outer>(&inner(edit)).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.message.contains(part), "{error}");
        }
    }
}
