//! The value behind an interpolation.

mod resolvers;

use std::cell::{Cell, RefCell};

use crate::context::{Context, ResolverCall};
use crate::convert;
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::interpolation::{
    self, Argument, Expression, Interpolation, InterpolationTarget, TemplatePiece,
};
use crate::key::Key;
use crate::keypath;
use crate::node::{Dict, Node, Value};
use crate::place::NodePlace;

/// How many interpolations may be resolved for one request; nesting can ask for exponentially many.
const MAX_STEPS: usize = 100_000;

/// How much text interpolations may write out for one request.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// How deep interpolations may lead to others. Python gives up sooner.
const MAX_DEPTH: usize = 128;

/// Resolves interpolations of one config.
pub(crate) struct Evaluator<'c> {
    pub(crate) context: &'c Context,
    /// The interpolations being resolved, outermost first, to find cycles.
    active: RefCell<Vec<(*const Node, String)>>,
    steps: Cell<usize>,
    /// Bytes of text that interpolations were written out to.
    written: Cell<usize>,
}

/// What to do when a lookup meets a missing value or a failing interpolation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strictness {
    /// A missing value (`???`) is an error.
    pub(crate) missing: bool,
    /// A failing interpolation is an error; otherwise the result is `None`.
    pub(crate) failure: bool,
}

impl<'c> Evaluator<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self {
            context,
            active: RefCell::default(),
            steps: Cell::new(0),
            written: Cell::new(0),
        }
    }

    /// The node itself, or what its interpolation leads to.
    pub(crate) fn dereference<'a>(&self, place: &NodePlace<'a>) -> Result<NodePlace<'a>> {
        let node = place.node();
        let Some(text) = node.as_str().filter(|_| node.is_interpolation()) else {
            return Ok(place.clone());
        };
        self.enter_node(place)?;
        let result = self
            .evaluate_text(text, place)
            .and_then(|result| fit_to_hint(place, result));
        self.active.borrow_mut().pop();
        result.map_err(|error| {
            error
                .with_key(place.full_key())
                .with_origin(node.origin.as_ref())
        })
    }

    fn enter_node(&self, place: &NodePlace<'_>) -> Result<()> {
        let mut active = self.active.borrow_mut();
        let address = place.address();
        if let Some(first) = active.iter().position(|&(seen, _)| seen == address) {
            let mut chain: Vec<_> = active[first..].iter().map(|(_, key)| key.clone()).collect();
            chain.push(place.full_key());
            return Err(ErrorKind::Cycle(chain).into());
        }
        self.steps.set(self.steps.get() + 1);
        if active.len() >= MAX_DEPTH || self.steps.get() > MAX_STEPS {
            let message = "this config takes too many interpolations to resolve".to_owned();
            return Err(ErrorKind::InterpolationResolution(message).into());
        }
        active.push((address, place.full_key()));
        Ok(())
    }

    fn evaluate_text<'a>(&self, text: &str, place: &NodePlace<'a>) -> Result<NodePlace<'a>> {
        let Some(parent) = place.parent() else {
            let message = "an interpolation needs a config around it".to_owned();
            return Err(ErrorKind::InterpolationResolution(message).into());
        };
        let template = interpolation::parse_template(text)
            .map_err(|error| ErrorKind::Grammar(error.to_string()))?;
        if let [TemplatePiece::Interpolation(lone)] = &template.pieces[..] {
            return self.resolve_interpolation(lone, text, parent, place);
        }
        let joined = self.join_pieces(&template.pieces, text, parent, place)?;
        Ok(computed_place(joined, place))
    }

    /// Text with its interpolations written out.
    fn join_pieces(
        &self,
        pieces: &[TemplatePiece],
        source: &str,
        parent: &NodePlace<'_>,
        place: &NodePlace<'_>,
    ) -> Result<String> {
        let mut joined = String::new();
        for piece in pieces {
            match piece {
                TemplatePiece::Literal(text) => joined.push_str(text),
                TemplatePiece::Interpolation(inner) => {
                    let value = self.resolve_interpolation(inner, source, parent, place)?;
                    joined.push_str(&value.node().to_string());
                    self.count_written(joined.len())?;
                }
            }
        }
        Ok(joined)
    }

    /// A key or a name: its interpolations must give strings.
    fn join_name(
        &self,
        pieces: &[TemplatePiece],
        source: &str,
        parent: &NodePlace<'_>,
        place: &NodePlace<'_>,
    ) -> Result<String> {
        let mut joined = String::new();
        for piece in pieces {
            match piece {
                TemplatePiece::Literal(text) => joined.push_str(text),
                TemplatePiece::Interpolation(inner) => {
                    let value = self.resolve_interpolation(inner, source, parent, place)?;
                    let Some(text) = value.node().as_str() else {
                        let message = format!(
                            "`{}` is used in a key, so it must be a string, but it is `{}`",
                            inner.span.slice_of(source),
                            value.node()
                        );
                        return Err(ErrorKind::InterpolationResolution(message).into());
                    };
                    joined.push_str(text);
                    self.count_written(joined.len())?;
                }
            }
        }
        Ok(joined)
    }

    /// Counts text that was written out, within a limit: ten values that each name the one before ten times are a text of
    /// gigabytes.
    fn count_written(&self, bytes: usize) -> Result<()> {
        self.written.set(self.written.get().saturating_add(bytes));
        if self.written.get() > MAX_TEXT_BYTES {
            let message = format!(
                "interpolations of this config write out more than {MAX_TEXT_BYTES} bytes of text"
            );
            return Err(ErrorKind::InterpolationResolution(message).into());
        }
        Ok(())
    }

    /// What one `${…}` stands for.
    pub(crate) fn resolve_interpolation<'a>(
        &self,
        inner: &Interpolation,
        source: &str,
        parent: &NodePlace<'a>,
        place: &NodePlace<'a>,
    ) -> Result<NodePlace<'a>> {
        match &inner.target {
            InterpolationTarget::Node(pieces) => {
                let key = self.join_name(pieces, source, parent, place)?;
                self.node_at(&key, parent).map_err(wrap_resolver_error)
            }
            InterpolationTarget::Resolver { name, args } => {
                let name = self.join_name(name, source, parent, place)?;
                self.call_resolver(&name, args, source, parent, place)
                    .map_err(wrap_resolver_error)
            }
        }
    }

    /// The node a key leads to, from the container that holds the interpolation.
    fn node_at<'a>(&self, key: &str, parent: &NodePlace<'a>) -> Result<NodePlace<'a>> {
        let strict = Strictness {
            missing: true,
            failure: true,
        };
        let (start, rest) = start_of(key, parent)
            .ok_or_else(|| Error::from(ErrorKind::InterpolationKey(key.to_owned())))?;
        let selected =
            self.select_path(&start, rest, strict)
                .map_err(|error| match error.kind() {
                    ErrorKind::MissingMandatory(key) => {
                        ErrorKind::InterpolationToMissing(key.clone()).into()
                    }
                    _ => error,
                })?;
        let Some(target) = selected else {
            return Err(unknown_key(&start, rest));
        };
        let mut ancestor = Some(parent);
        while let Some(place) = ancestor {
            if place.is_same(&target) {
                let message = format!("`${{{key}}}` leads to a container that holds it");
                return Err(ErrorKind::InterpolationResolution(message).into());
            }
            ancestor = place.parent();
        }
        Ok(target)
    }

    /// Follows a key path, resolving interpolations on the way; `None` when nothing is there.
    pub(crate) fn select_path<'a>(
        &self,
        start: &NodePlace<'a>,
        path: &str,
        strict: Strictness,
    ) -> Result<Option<NodePlace<'a>>> {
        if path.is_empty() {
            return Ok(Some(start.clone()));
        }
        let parts = keypath::split_path(path);
        let mut place = start.clone();
        for (i, part) in parts.iter().enumerate() {
            if place.node().is_null() {
                return Ok(None);
            }
            let child = match place.follow_part(part) {
                Ok(child) => child,
                Err(_) if !strict.failure => None,
                Err(_) => {
                    let list = place.full_key();
                    let message = format!("`{part}` is not an index into the list `{list}`");
                    return Err(ErrorKind::Type(message).into());
                }
            };
            let Some(child) = child else {
                return Ok(None);
            };
            if strict.missing && child.node().is_missing() {
                let kind = ErrorKind::MissingMandatory(child.full_key());
                return Err(Error::from(kind).with_origin(child.node().origin.as_ref()));
            }
            place = match self.dereference(&child) {
                Ok(target) => target,
                Err(error) if !strict.failure && error.kind().is_interpolation() => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            if let Some(next) = parts.get(i + 1)
                && !place.is_container()
            {
                return Err(ErrorKind::NotContainer {
                    key: parts[..=i].join("."),
                    found: place.node().describe(),
                    child: next.clone(),
                }
                .into());
            }
        }
        Ok(Some(place))
    }

    fn call_resolver<'a>(
        &self,
        name: &str,
        args: &[Argument],
        source: &str,
        parent: &NodePlace<'a>,
        place: &NodePlace<'a>,
    ) -> Result<NodePlace<'a>> {
        let mut arguments = Vec::with_capacity(args.len());
        let mut texts = Vec::with_capacity(args.len());
        for argument in args {
            arguments.push(match &argument.value {
                Expression::Interpolation(inner) => {
                    self.resolve_interpolation(inner, source, parent, place)?
                }
                other => computed_place(
                    self.evaluate_expression(other, source, parent, place)?
                        .value,
                    place,
                ),
            });
            texts.push(argument.span.slice_of(source).to_owned());
        }
        let values: Vec<Node> = arguments.iter().map(|arg| arg.node().clone()).collect();
        let call = ResolverCall {
            args: &values,
            root: parent.tree_root().node(),
            key: &place.full_key(),
        };
        if let Some(result) = self.context.call_resolver(name, &call, &texts) {
            return Ok(NodePlace::from_resolver(
                result?,
                Some(parent.clone()),
                place.key().cloned(),
            ));
        }
        match resolvers::builtin_resolver(name) {
            Some(function) => function(self, &arguments, parent, place),
            None => Err(
                Error::from(ErrorKind::UnsupportedInterpolation(name.to_owned())).suggesting(
                    name,
                    resolvers::BUILTIN_NAMES
                        .into_iter()
                        .chain(self.context.resolver_names()),
                ),
            ),
        }
    }

    /// The value of an argument or of an element of one.
    pub(crate) fn evaluate_expression(
        &self,
        expression: &Expression,
        source: &str,
        parent: &NodePlace<'_>,
        place: &NodePlace<'_>,
    ) -> Result<Node> {
        Ok(match expression {
            Expression::Null => Node::new(Value::Null),
            Expression::Bool(value) => Node::new(*value),
            Expression::Int(value) => Node::new(value.clone()),
            Expression::Float(value) => Node::new(*value),
            Expression::Str(text) => Node::new(text.clone()),
            Expression::Interpolation(inner) => {
                let target = self.resolve_interpolation(inner, source, parent, place)?;
                target.node().clone()
            }
            Expression::Text(pieces) | Expression::Quoted(pieces) => {
                Node::new(self.join_pieces(pieces, source, parent, place)?)
            }
            Expression::List(items) => Node::new(
                items
                    .iter()
                    .map(|item| self.evaluate_expression(item, source, parent, place))
                    .collect::<Result<Vec<_>>>()?,
            ),
            Expression::Dict(pairs) => {
                let mut dict = Dict::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let key = self.evaluate_expression(key, source, parent, place)?;
                    let value = self.evaluate_expression(value, source, parent, place)?;
                    dict.insert(dict_key(&key)?, value);
                }
                Node::new(dict)
            }
        })
    }
}

fn dict_key(node: &Node) -> Result<Key> {
    Ok(match &node.value {
        Value::Str(text) => Key::Str(text.clone()),
        Value::Bool(value) => Key::Bool(*value),
        Value::Int(value) => Key::Int(value.clone()),
        Value::Float(value) => Key::Float(*value),
        Value::Bytes(bytes) => Key::Bytes(bytes.clone()),
        Value::Null | Value::List(_) | Value::Dict(_) => {
            return Err(ErrorKind::KeyType(node.describe()).into());
        }
    })
}

/// A value that interpolation made, in place of the node that asked for it.
pub(crate) fn computed_place<'a>(value: impl Into<Value>, place: &NodePlace<'a>) -> NodePlace<'a> {
    let origin = place.node().origin.clone();
    NodePlace::bare(
        Node::new(value).at(origin),
        place.parent().cloned(),
        place.key().cloned(),
    )
}

/// Where a key starts: the top, or for each dot past the first one container further up.
///
/// `None` when there are more dots than containers.
pub(crate) fn start_of<'a, 'k>(
    key: &'k str,
    parent: &NodePlace<'a>,
) -> Option<(NodePlace<'a>, &'k str)> {
    let rest = key.trim_start_matches('.');
    let dots = key.len() - rest.len();
    if dots == 0 {
        return Some((parent.tree_root().clone(), key));
    }
    let mut start = parent;
    for _ in 1..dots {
        start = start.parent()?;
    }
    Some((start.clone(), rest))
}

/// A typed node takes the result of its interpolation only if it fits.
fn fit_to_hint<'a>(place: &NodePlace<'a>, result: NodePlace<'a>) -> Result<NodePlace<'a>> {
    let Some(hint) = place.node().hint.as_deref() else {
        return Ok(result);
    };
    if hint.is_dict() || hint.is_list() {
        return Ok(result);
    }
    let converted = convert::convert_scalar(hint, &result.node().value)
        .map_err(|message| Error::from(ErrorKind::InterpolationValidation(message)))?;
    if converted == result.node().value {
        return Ok(result);
    }
    Ok(computed_place(converted, place))
}

/// Mistakes inside a resolver are reported as a failed interpolation.
fn wrap_resolver_error(error: Error) -> Error {
    if error.kind().is_interpolation() {
        return error;
    }
    let wrapped = Error::from(ErrorKind::InterpolationResolution(error.to_string()))
        .with_origin(error.origin());
    match error.hint() {
        Some(hint) => wrapped.with_hint(hint),
        None => wrapped,
    }
}

fn unknown_key(start: &NodePlace<'_>, path: &str) -> Error {
    let error = Error::from(ErrorKind::InterpolationKey(path.to_owned()));
    let mut place = start.clone();
    for part in keypath::split_path(path) {
        let Ok(Some(child)) = place.follow_part(&part) else {
            let keys = place.node().as_dict().into_iter().flat_map(Dict::keys);
            return error.suggesting(&part, keys.filter_map(Key::as_str));
        };
        place = child;
    }
    error
}
