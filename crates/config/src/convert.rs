//! Values made to fit a declared type, as OmegaConf's typed nodes do.

use crate::int::Int;
use crate::node::hint::{Hint, HintKind};
use crate::node::{Node, Value};
use crate::python;

/// Converts a scalar to the type; the message says why it does not fit.
///
/// Null is checked against the type, `???` and interpolations are kept for later.
pub(crate) fn convert_scalar(hint: &Hint, value: &Value) -> Result<Value, String> {
    let refused = |what: &str| Err(format!("`{}` is not {what}", value.repr()));
    if matches!(value, Value::Null) {
        return if hint.optional {
            Ok(Value::Null)
        } else {
            refused(&format!("allowed where the type is {}", hint.describe()))
        };
    }
    if let Value::Str(text) = value
        && (text == crate::node::MISSING || text.contains("${"))
    {
        return Ok(value.clone());
    }
    match (&hint.kind, value) {
        (HintKind::Any, _)
        | (HintKind::Int, Value::Int(_))
        | (HintKind::Bool, Value::Bool(_))
        | (HintKind::Str, Value::Str(_)) => Ok(value.clone()),
        (HintKind::Int, Value::Str(text)) => match python::parse_int(text) {
            Some(number) => Ok(Value::Int(number)),
            None => refused("an integer"),
        },
        (HintKind::Int, _) => refused("an integer"),
        (HintKind::Bool, Value::Int(number)) => Ok(Value::Bool(*number != Int::from(0_i64))),
        (HintKind::Bool, Value::Str(text)) => match parse_boolean(text) {
            Some(truth) => Ok(Value::Bool(truth)),
            None => refused("a boolean"),
        },
        (HintKind::Bool, _) => refused("a boolean"),
        (HintKind::Str, Value::Bytes(_) | Value::List(_) | Value::Dict(_)) => refused("a string"),
        (HintKind::Str, _) => Ok(Value::Str(Node::new(value.clone()).to_string())),
        (HintKind::Enum(kind), Value::Str(text)) => {
            let name = text
                .strip_prefix(kind.name)
                .and_then(|rest| rest.strip_prefix('.'))
                .unwrap_or(text);
            match kind.members.iter().find(|(member, _)| *member == name) {
                Some((member, _)) => Ok(Value::from(*member)),
                None => refused(&format!("one of {}", member_names(kind))),
            }
        }
        (HintKind::Enum(kind), Value::Int(number)) => {
            let number = number.as_i64();
            match kind.members.iter().find(|(_, n)| Some(*n) == number) {
                Some((member, _)) => Ok(Value::from(*member)),
                None => refused(&format!("one of {}", member_names(kind))),
            }
        }
        (HintKind::Enum(kind), _) => refused(&format!("one of {}", member_names(kind))),
        (HintKind::List(_) | HintKind::Dict(_) | HintKind::Struct(_), _) => {
            refused(&format!("allowed where the type is {}", hint.describe()))
        }
    }
}

fn member_names(kind: &crate::node::hint::EnumType) -> String {
    let names: Vec<_> = kind.members.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

fn parse_boolean(text: &str) -> Option<bool> {
    if let Some(number) = python::parse_int(text) {
        return Some(number != Int::from(0_i64));
    }
    match text.to_lowercase().as_str() {
        "yes" | "y" | "on" | "true" => Some(true),
        "no" | "n" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// A node that holds `value` under the type `hint`, converted all the way down.
pub(crate) fn convert_node(hint: &Hint, value: &Node) -> Result<Node, String> {
    let mut out = value.clone();
    match (&hint.kind, &value.value) {
        (HintKind::Any, _) => return Ok(out),
        _ if value.is_special() => {
            if value.is_null() && !hint.optional {
                return Err(format!("null does not fit the type {}", hint.describe()));
            }
        }
        (HintKind::List(element), Value::List(items)) => {
            let items = items.iter().map(|item| convert_node(element, item));
            out.value = Value::List(items.collect::<Result<_, _>>()?);
        }
        (HintKind::Dict(element), Value::Dict(entries)) => {
            let entries = entries.iter().map(|(key, child)| match key.as_str() {
                Some(_) => Ok((key.clone(), convert_node(element, child)?)),
                None => Err(format!("the key `{key}` is not a string")),
            });
            out.value = Value::Dict(entries.collect::<Result<_, _>>()?);
        }
        (HintKind::Struct(kind), Value::Dict(_)) if value.class.as_ref() == Some(kind) => {}
        (HintKind::Struct(kind), Value::Dict(entries)) => {
            out.class = Some(kind.clone());
            let mut fields = crate::node::Dict::new();
            for (name, default) in &kind.fields {
                fields.insert((*name).into(), default.clone());
            }
            for (key, child) in entries {
                let Some(field) = fields.get_mut(key) else {
                    return Err(format!("`{key}` is not a field of {}", kind.name));
                };
                *field = match field.hint.clone() {
                    Some(hint) => convert_node(&hint, child)?,
                    None => child.clone(),
                };
            }
            out.value = Value::Dict(fields);
        }
        (HintKind::List(_) | HintKind::Dict(_) | HintKind::Struct(_), _) => {
            let actual = value.describe();
            return Err(format!(
                "{actual} does not fit the type {}",
                hint.describe()
            ));
        }
        (_, other) => out.value = convert_scalar(hint, other)?,
    }
    out.hint = Some(std::sync::Arc::new(hint.clone()));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_convert_as_typed_nodes_do() {
        let int = Hint::required(HintKind::Int);
        assert_eq!(convert_scalar(&int, &"12".into()), Ok(Value::from(12)));
        assert!(convert_scalar(&int, &Value::Float(1.0)).is_err());
        assert!(convert_scalar(&int, &Value::Bool(true)).is_err());
        assert!(convert_scalar(&int, &Value::Null).is_err());
        let text = Hint::optional(HintKind::Str);
        assert_eq!(convert_scalar(&text, &Value::Bool(true)), Ok("True".into()));
        assert_eq!(convert_scalar(&text, &Value::Null), Ok(Value::Null));
        let truth = Hint::required(HintKind::Bool);
        assert_eq!(convert_scalar(&truth, &"oN".into()), Ok(Value::Bool(true)));
        assert_eq!(convert_scalar(&truth, &"0".into()), Ok(Value::Bool(false)));
        assert!(convert_scalar(&truth, &"maybe".into()).is_err());
    }
}
