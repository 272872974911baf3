//! The resolvers that OmegaConf brings: `oc.env`, `oc.select` and the other `oc.*`.

use super::{Evaluator, Strictness, computed_place, start_of};
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::interpolation;
use crate::key::Key;
use crate::node::{Node, Value};
use crate::place::NodePlace;
use crate::source::SourceText;
use crate::yaml;

/// A built-in resolver: arguments, the container that holds the interpolation, and its node.
pub(crate) type Builtin = for<'a> fn(
    &Evaluator<'_>,
    &[NodePlace<'a>],
    &NodePlace<'a>,
    &NodePlace<'a>,
) -> Result<NodePlace<'a>>;

/// The names of the built-in resolvers.
pub(crate) const BUILTIN_NAMES: [&str; 7] = [
    "oc.create",
    "oc.decode",
    "oc.deprecated",
    "oc.dict.keys",
    "oc.dict.values",
    "oc.env",
    "oc.select",
];

/// The built-in resolver of that name.
pub(crate) fn builtin_resolver(name: &str) -> Option<Builtin> {
    Some(match name {
        "oc.create" => oc_create,
        "oc.decode" => oc_decode,
        "oc.deprecated" => oc_deprecated,
        "oc.dict.keys" => dict_keys,
        "oc.dict.values" => dict_values,
        "oc.env" => oc_env,
        "oc.select" => oc_select,
        _ => return None,
    })
}

fn value_error(message: impl Into<String>) -> Error {
    ErrorKind::Value(message.into()).into()
}

/// The arguments as one that is needed and, where allowed, one more.
fn one_or_two_arguments<'n, 'a>(
    name: &str,
    args: &'n [NodePlace<'a>],
    optional: bool,
) -> Result<(&'n Node, Option<&'n NodePlace<'a>>)> {
    match args {
        [first] => Ok((first.node(), None)),
        [first, second] if optional => Ok((first.node(), Some(second))),
        _ => {
            let wanted = if optional {
                "one or two arguments"
            } else {
                "one argument"
            };
            Err(value_error(format!(
                "`{name}` takes {wanted}, not {}",
                args.len()
            )))
        }
    }
}

fn expect_text<'n>(name: &str, node: &'n Node) -> Result<&'n str> {
    node.as_str()
        .ok_or_else(|| value_error(format!("`{name}` takes a string, not {}", node.describe())))
}

fn oc_env<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    _: &NodePlace<'a>,
    place: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (key, default) = one_or_two_arguments("oc.env", args, true)?;
    let key = expect_text("oc.env", key)?;
    let value = match (evaluator.context.environment_variable(key), default) {
        (Some(value), _) => Value::from(value),
        (None, Some(default)) if default.node().is_null() => Value::Null,
        (None, Some(default)) => Value::from(default.node().to_string()),
        (None, None) => {
            let names = evaluator
                .context
                .environment_variables()
                .keys()
                .map(String::as_str);
            let error = value_error(format!("the environment variable `{key}` is not set"))
                .with_hint(format!("give a default: `${{oc.env:{key},default}}`"));
            return Err(error.suggesting(key, names));
        }
    };
    Ok(computed_place(value, place))
}

fn oc_create<'a>(
    _: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    _: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (object, _) = one_or_two_arguments("oc.create", args, false)?;
    let node = match &object.value {
        Value::Dict(_) | Value::List(_) | Value::Null => object.clone(),
        Value::Str(text) => yaml::create_config(&SourceText::new("oc.create", text.clone()))?,
        _ => {
            let message = format!("`oc.create` cannot make a config of {}", object.describe());
            return Err(value_error(message));
        }
    };
    Ok(NodePlace::from_resolver(node, Some(parent.clone()), None))
}

fn oc_decode<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    place: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (expression, _) = one_or_two_arguments("oc.decode", args, false)?;
    if expression.is_null() {
        return Ok(computed_place(Value::Null, place));
    }
    let source = expect_text("oc.decode", expression)?;
    let parsed = interpolation::parse_element(source)
        .map_err(|error| Error::from(ErrorKind::Grammar(error.to_string())))?;
    // A lone reference gives the very node, so that a container stays one.
    if let interpolation::Expression::Interpolation(inner) = &parsed {
        return evaluator.resolve_interpolation(inner, source, parent, place);
    }
    let node = evaluator.evaluate_expression(&parsed, source, parent, place)?;
    Ok(computed_place(node.value, place))
}

/// Looks a key up from the container of the interpolation; `Ok(None)` also where the way is barred
/// by something that is not a container.
fn lookup_key<'a>(
    evaluator: &Evaluator<'_>,
    key: &str,
    parent: &NodePlace<'a>,
    missing: bool,
) -> Result<Option<NodePlace<'a>>> {
    let (start, rest) = start_of(key, parent)
        .ok_or_else(|| value_error(format!("`{key}` has more dots than there are containers")))?;
    let strict = Strictness {
        missing,
        failure: true,
    };
    match evaluator.select_path(&start, rest, strict) {
        // OmegaConf answers "not found" here, but not for a bad list index.
        Err(error) if matches!(error.kind(), ErrorKind::NotContainer { .. }) => Ok(None),
        other => other,
    }
}

fn oc_select<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    place: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (key, default) = one_or_two_arguments("oc.select", args, true)?;
    let key = expect_text("oc.select", key)?;
    match lookup_key(evaluator, key, parent, false)? {
        Some(selected) if !selected.node().is_missing() => Ok(selected),
        _ => Ok(default
            .cloned()
            .unwrap_or_else(|| computed_place(Value::Null, place))),
    }
}

fn oc_deprecated<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    place: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (key, message) = one_or_two_arguments("oc.deprecated", args, true)?;
    let key = expect_text("oc.deprecated", key)?;
    let message = match message {
        Some(message) => expect_text("oc.deprecated", message.node())?,
        None => "'$OLD_KEY' is deprecated. Change your code and config to use '$NEW_KEY'",
    };
    let Some(target) = lookup_key(evaluator, key, parent, false)? else {
        return Err(ErrorKind::Key(key.to_owned()).into());
    };
    let filled = message
        .replace("$OLD_KEY", &place.full_key())
        .replace("$NEW_KEY", &target.full_key());
    evaluator.context.warn(filled);
    Ok(target)
}

fn dict_input<'a>(
    evaluator: &Evaluator<'_>,
    name: &str,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
) -> Result<(String, NodePlace<'a>)> {
    let (key, _) = one_or_two_arguments(name, args, false)?;
    let key = expect_text(name, key)?;
    let Some(dict) = lookup_key(evaluator, key, parent, true)? else {
        return Err(ErrorKind::Key(key.to_owned()).into());
    };
    if dict.is_bare() || dict.node().as_dict().is_none() {
        let message = format!(
            "`{name}` takes a mapping, but `{key}` is {}",
            dict.node().describe()
        );
        return Err(value_error(message));
    }
    Ok((key.to_owned(), dict))
}

fn dict_keys<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    _: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (_, place) = dict_input(evaluator, "oc.dict.keys", args, parent)?;
    let keys = place
        .node()
        .as_dict()
        .into_iter()
        .flat_map(|dict| dict.keys());
    let list: Vec<Node> = keys.map(key_node).collect();
    Ok(NodePlace::from_resolver(
        Node::new(list),
        Some(parent.clone()),
        None,
    ))
}

fn key_node(key: &Key) -> Node {
    match key {
        Key::Str(text) => Node::new(text.as_str()),
        Key::Int(value) => Node::new(value.clone()),
        Key::Float(value) => Node::new(*value),
        Key::Bool(value) => Node::new(*value),
        Key::Bytes(bytes) => Node::new(Value::Bytes(bytes.clone())),
    }
}

/// A list of interpolations to the values, so that they are resolved where they stand.
fn dict_values<'a>(
    evaluator: &Evaluator<'_>,
    args: &[NodePlace<'a>],
    parent: &NodePlace<'a>,
    _: &NodePlace<'a>,
) -> Result<NodePlace<'a>> {
    let (key, place) = dict_input(evaluator, "oc.dict.values", args, parent)?;
    // One more dot makes up for the list around the interpolations.
    let dot = if key.starts_with('.') { "." } else { "" };
    let mut list = Vec::new();
    for child in place
        .node()
        .as_dict()
        .into_iter()
        .flat_map(|dict| dict.keys())
    {
        let reference = format!("${{{dot}{key}.{child}}}");
        interpolation::parse_template(&reference)
            .map_err(|error| Error::from(ErrorKind::Grammar(error.to_string())))?;
        list.push(Node::new(reference));
    }
    Ok(NodePlace::from_resolver(
        Node::new(list),
        Some(parent.clone()),
        None,
    ))
}
