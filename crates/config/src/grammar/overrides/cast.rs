//! `int()`, `float()`, `str()` and `bool()`, which reach into containers and sweeps.

use super::arguments::{Accepts, CallArguments};
use super::element::Element;
use super::element::sweep::{ChoiceSweep, IntervalSweep, Number, RangeSweep, Sweep};
use super::functions::simple_choice;
use crate::grammar::number;
use crate::int::Int;
use crate::python::float_repr;

/// The type to cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cast {
    Int,
    Float,
    Str,
    Bool,
}

/// A call of a cast: one value, positional or named, or several that make a sweep.
pub(super) fn cast_call(cast: Cast, args: CallArguments) -> Result<Element, String> {
    let (mut positional, [value]) = args.bind_variadic(Accepts::ANY, [("value", Accepts::ANY)])?;
    let value = value.filter(|value| *value != Element::Null);
    match (positional.len(), value) {
        (0, Some(value)) => cast.cast_element(value),
        (0, None) => Err("needs a value".to_owned()),
        (_, Some(_)) => Err("takes positional arguments or `value`, not both".to_owned()),
        (1, None) => cast.cast_element(positional.swap_remove(0)),
        _ => cast.cast_choice(simple_choice(positional)?),
    }
}

impl Cast {
    fn cast_element(self, element: Element) -> Result<Element, String> {
        match element {
            Element::Quoted(quoted) => self.cast_element(Element::Str(quoted.text)),
            Element::List(items) => items
                .into_iter()
                .map(|item| self.cast_element(item))
                .collect::<Result<_, _>>()
                .map(Element::List),
            Element::Dict(pairs) => pairs
                .into_iter()
                .map(|(key, value)| Ok((key, self.cast_element(value)?)))
                .collect::<Result<_, String>>()
                .map(Element::Dict),
            Element::Sweep(Sweep::Choice(choice)) => self.cast_choice(choice),
            Element::Sweep(Sweep::Range(range)) => self.cast_range(&range),
            Element::Sweep(Sweep::Interval(interval)) => self.cast_interval(interval),
            scalar => match self {
                Self::Int => to_int(&scalar).map(Element::Int),
                Self::Float => to_float(&scalar).map(Element::Float),
                Self::Str => to_str(scalar).map(Element::Str),
                Self::Bool => to_bool(&scalar).map(Element::Bool),
            },
        }
    }

    /// Tags and shuffling do not survive a cast in Hydra.
    fn cast_choice(self, choice: ChoiceSweep) -> Result<Element, String> {
        let list = choice
            .list
            .into_iter()
            .map(|element| match self.cast_element(element)? {
                Element::Sweep(_) => Err("a choice cannot contain a sweep".to_owned()),
                element => Ok(element),
            })
            .collect::<Result<_, _>>()?;
        Ok(Element::Sweep(Sweep::Choice(ChoiceSweep {
            list,
            simple_form: choice.simple_form,
            ..ChoiceSweep::default()
        })))
    }

    fn cast_range(self, range: &RangeSweep) -> Result<Element, String> {
        let what = "a range can only be cast to int or float";
        Ok(Element::Sweep(Sweep::Range(RangeSweep::new(
            self.cast_number(range.start, what)?,
            self.cast_number(range.stop, what)?,
            self.cast_number(range.step, what)?,
        ))))
    }

    fn cast_interval(self, interval: IntervalSweep) -> Result<Element, String> {
        let what = "an interval can only be cast to int or float";
        Ok(Element::Sweep(Sweep::Interval(IntervalSweep {
            start: self.cast_number(interval.start, what)?,
            end: self.cast_number(interval.end, what)?,
            tags: interval.tags,
        })))
    }

    fn cast_number(self, value: Number, otherwise: &str) -> Result<Number, String> {
        match (self, value) {
            (Self::Int, Number::Int(_)) => Ok(value),
            (Self::Int, Number::Float(float)) => to_int(&Element::Float(float))?
                .to_string()
                .parse()
                .map(Number::Int)
                .map_err(|_| "integers in a sweep are limited to 128 bits".to_owned()),
            (Self::Float, _) => Ok(Number::Float(value.to_f64())),
            (Self::Str | Self::Bool, _) => Err(otherwise.to_owned()),
        }
    }
}

fn to_int(element: &Element) -> Result<Int, String> {
    match element {
        Element::Int(value) => Some(value.clone()),
        Element::Bool(value) => Some(Int::from(i64::from(*value))),
        Element::Float(value) => number::int_from_float(*value),
        Element::Str(text) => number::int_from_text(text),
        _ => None,
    }
    .ok_or_else(|| cast_error(element, "an integer"))
}

fn to_float(element: &Element) -> Result<f64, String> {
    match element {
        Element::Int(value) => Some(value.to_f64()).filter(|value| value.is_finite()),
        Element::Bool(value) => Some(f64::from(u8::from(*value))),
        Element::Float(value) => Some(*value),
        Element::Str(text) => number::float_from_text(text),
        _ => None,
    }
    .ok_or_else(|| cast_error(element, "a float"))
}

fn to_str(element: Element) -> Result<String, String> {
    match element {
        Element::Int(value) => Ok(value.to_string()),
        Element::Bool(value) => Ok(value.to_string()),
        Element::Float(value) => Ok(float_repr(value)),
        Element::Str(text) => Ok(text),
        other => Err(cast_error(&other, "a string")),
    }
}

/// Only strings are read; the rest follows Python's truth, in which even `nan` is true.
fn to_bool(element: &Element) -> Result<bool, String> {
    match element {
        Element::Str(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Element::Str(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Element::Str(_) => Err(cast_error(element, "a boolean")),
        Element::Int(value) => Ok(*value != Int::from(0_i64)),
        Element::Bool(value) => Ok(*value),
        Element::Float(value) => Ok(*value != 0.0),
        Element::Null => Ok(false),
        _ => Ok(true),
    }
}

fn cast_error(element: &Element, target: &str) -> String {
    match element.to_text(false) {
        Some(text) => format!("cannot make {target} of `{text}`"),
        None => format!("cannot make {target} of {}", element.describe()),
    }
}
