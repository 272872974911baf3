//! The arguments of a call: how they are bound, and which kinds they take.

use super::element::Element;
use super::element::sweep::Sweep;

/// A kind of element that a parameter takes, as `isinstance` sees it: a boolean is an integer too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    Null,
    Bool,
    Int,
    Float,
    Str,
    List,
    Dict,
    Choice,
    Range,
    Interval,
}

impl Accepts {
    /// Whatever a cast takes: everything but a glob.
    pub(super) const ANY: &'static [Self] = &[
        Self::Null,
        Self::Bool,
        Self::Int,
        Self::Float,
        Self::Str,
        Self::List,
        Self::Dict,
        Self::Choice,
        Self::Range,
        Self::Interval,
    ];

    fn matches(self, element: &Element) -> bool {
        match self {
            Self::Null => *element == Element::Null,
            Self::Bool => matches!(element, Element::Bool(_)),
            Self::Int => matches!(element, Element::Int(_) | Element::Bool(_)),
            Self::Float => matches!(element, Element::Float(_)),
            Self::Str => matches!(element, Element::Str(_)),
            Self::List => matches!(element, Element::List(_)),
            Self::Dict => matches!(element, Element::Dict(_)),
            Self::Choice => matches!(element, Element::Sweep(Sweep::Choice(_))),
            Self::Range => matches!(element, Element::Sweep(Sweep::Range(_))),
            Self::Interval => matches!(element, Element::Sweep(Sweep::Interval(_))),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Int => "an integer",
            Self::Float => "a float",
            Self::Str => "a string",
            Self::List => "a list",
            Self::Dict => "a dictionary",
            Self::Choice => "a choice",
            Self::Range => "a range",
            Self::Interval => "an interval",
        }
    }
}

impl Element {
    /// The kind in words, as in "a list".
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Quoted(_) => "a quoted string",
            Self::Sweep(Sweep::Glob(_)) => "a glob",
            // Booleans come before integers in the list, which would take them too.
            _ => Accepts::ANY
                .iter()
                .find(|kind| kind.matches(self))
                .map_or("a value", |kind| kind.name()),
        }
    }
}

/// A named parameter and the kinds it takes.
pub(super) type Parameter = (&'static str, &'static [Accepts]);

/// The arguments of one call; quoted strings that stand alone are plain strings here.
#[derive(Debug)]
pub(super) struct CallArguments {
    positional: Vec<Element>,
    named: Vec<(String, Element)>,
}

impl CallArguments {
    pub(super) fn new(positional: Vec<Element>, named: Vec<(String, Element)>) -> Self {
        let unquote = |element| match element {
            Element::Quoted(quoted) => Element::Str(quoted.text),
            other => other,
        };
        Self {
            positional: positional.into_iter().map(unquote).collect(),
            named: named
                .into_iter()
                .map(|(name, value)| (name, unquote(value)))
                .collect(),
        }
    }

    /// Binds to a fixed list of parameters, of which the first `required` must be given.
    pub(super) fn bind_fixed<const N: usize>(
        mut self,
        parameters: [Parameter; N],
        required: usize,
    ) -> Result<[Option<Element>; N], String> {
        if self.positional.len() > N {
            return Err(format!(
                "takes at most {N} arguments, got {}",
                self.positional.len()
            ));
        }
        let given = self.positional.len();
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(std::mem::take(&mut self.positional)) {
            *slot = Some(value);
        }
        if let Some((name, _)) = parameters[..given]
            .iter()
            .find(|(name, _)| self.has_argument(name))
        {
            return Err(format!("the argument `{name}` is given twice"));
        }
        self.bind_named(&parameters, &mut bound)?;
        if let Some(at) = bound[..required].iter().position(Option::is_none) {
            return Err(format!("the argument `{}` is missing", parameters[at].0));
        }
        Ok(bound)
    }

    /// Binds to any number of positional arguments of `kinds` and optional named ones.
    pub(super) fn bind_variadic<const N: usize>(
        mut self,
        kinds: &[Accepts],
        parameters: [Parameter; N],
    ) -> Result<(Vec<Element>, [Option<Element>; N]), String> {
        let positional = std::mem::take(&mut self.positional);
        for (at, value) in positional.iter().enumerate() {
            check_kind(&format!("{}", at + 1), value, kinds)?;
        }
        let mut bound = [const { None }; N];
        self.bind_named(&parameters, &mut bound)?;
        Ok((positional, bound))
    }

    fn has_argument(&self, name: &str) -> bool {
        self.named.iter().any(|(given, _)| given == name)
    }

    fn bind_named(
        self,
        parameters: &[Parameter],
        bound: &mut [Option<Element>],
    ) -> Result<(), String> {
        for (name, value) in self.named {
            let Some(at) = parameters.iter().position(|(known, _)| *known == name) else {
                let known: Vec<_> = parameters.iter().map(|(known, _)| *known).collect();
                return Err(if known.is_empty() {
                    format!("has no named argument, got `{name}`")
                } else {
                    format!("has no argument `{name}`; it has {}", known.join(", "))
                });
            };
            bound[at] = Some(value);
        }
        for ((name, kinds), value) in parameters.iter().zip(bound) {
            if let Some(value) = value {
                check_kind(&format!("`{name}`"), value, kinds)?;
            }
        }
        Ok(())
    }
}

fn check_kind(argument: &str, value: &Element, kinds: &[Accepts]) -> Result<(), String> {
    if kinds.iter().any(|kind| kind.matches(value)) {
        return Ok(());
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    Err(format!(
        "argument {argument} must be {}, not {}",
        names.join(" or "),
        value.describe()
    ))
}
