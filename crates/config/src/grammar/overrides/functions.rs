//! The functions that make and change sweeps.

use super::arguments::{Accepts, CallArguments};
use super::element::Element;
use super::element::sweep::{ChoiceSweep, Glob, IntervalSweep, Number, RangeSweep, Sweep};
use super::order;
use super::shuffle::{Shuffle, shuffle_items};

const NUMBER: &[Accepts] = &[Accepts::Int, Accepts::Float];
const OPTIONAL_NUMBER: &[Accepts] = &[Accepts::Int, Accepts::Float, Accepts::Null];
const OPTIONAL_SWEEP: &[Accepts] = &[Accepts::Choice, Accepts::Range, Accepts::Null];
const OPTIONAL_LIST: &[Accepts] = &[Accepts::List, Accepts::Null];
const SORTABLE: &[Accepts] = &[
    Accepts::Str,
    Accepts::Int,
    Accepts::Float,
    Accepts::List,
    Accepts::Dict,
    Accepts::Choice,
    Accepts::Range,
];

pub(super) fn eval_choice(args: CallArguments) -> Result<Element, String> {
    const KINDS: &[Accepts] = &[
        Accepts::Str,
        Accepts::Int,
        Accepts::Float,
        Accepts::Dict,
        Accepts::List,
        Accepts::Choice,
    ];
    let (list, []) = args.bind_variadic(KINDS, [])?;
    match list.as_slice() {
        [] => Err("needs at least one element".to_owned()),
        [Element::Sweep(Sweep::Choice(inner))] if inner.simple_form => {
            let mut inner = inner.clone();
            inner.simple_form = false;
            Ok(Element::Sweep(Sweep::Choice(inner)))
        }
        [Element::Sweep(Sweep::Choice(_))] => Err("a choice cannot contain a choice".to_owned()),
        _ => Ok(Element::Sweep(Sweep::Choice(ChoiceSweep {
            list,
            ..ChoiceSweep::default()
        }))),
    }
}

pub(super) fn eval_range(args: CallArguments) -> Result<Element, String> {
    let [start, stop, step] = args.bind_fixed(
        [
            ("start", NUMBER),
            ("stop", OPTIONAL_NUMBER),
            ("step", NUMBER),
        ],
        1,
    )?;
    let number = |element: Option<Element>| element.as_ref().map(expect_number).transpose();
    let start = number(start)?.unwrap_or(Number::Int(0));
    let stop = number(stop.filter(|stop| *stop != Element::Null))?;
    let step = number(step)?.unwrap_or(Number::Int(1));
    let (start, stop) = stop.map_or((Number::Int(0), start), |stop| (start, stop));
    Ok(Element::Sweep(Sweep::Range(RangeSweep::new(
        start, stop, step,
    ))))
}

pub(super) fn eval_interval(args: CallArguments) -> Result<Element, String> {
    let [start, end] = args.bind_fixed([("start", NUMBER), ("end", NUMBER)], 2)?;
    let float = |element: Option<Element>| match element {
        Some(Element::Int(value)) if value.to_f64().is_infinite() => {
            Err("this integer is too large for a float".to_owned())
        }
        Some(Element::Int(value)) => Ok(Number::Float(value.to_f64())),
        Some(other) => Ok(Number::Float(expect_number(&other)?.to_f64())),
        None => Ok(Number::Float(0.0)),
    };
    Ok(Element::Sweep(Sweep::Interval(IntervalSweep {
        start: float(start)?,
        end: float(end)?,
        tags: std::collections::BTreeSet::new(),
    })))
}

pub(super) fn eval_glob(args: CallArguments) -> Result<Element, String> {
    let [include, exclude] = args.bind_fixed(
        [
            ("include", &[Accepts::List, Accepts::Str]),
            ("exclude", &[Accepts::List, Accepts::Str, Accepts::Null]),
        ],
        1,
    )?;
    let patterns = |element| match element {
        Some(Element::List(items)) => items,
        None | Some(Element::Null) => Vec::new(),
        Some(single) => vec![single],
    };
    Ok(Element::Sweep(Sweep::Glob(Glob {
        include: patterns(include),
        exclude: patterns(exclude),
    })))
}

pub(super) fn eval_tag(args: CallArguments) -> Result<Element, String> {
    const SWEEPS: &[Accepts] = &[
        Accepts::Str,
        Accepts::Choice,
        Accepts::Range,
        Accepts::Interval,
    ];
    const OPTIONAL: &[Accepts] = &[
        Accepts::Choice,
        Accepts::Range,
        Accepts::Interval,
        Accepts::Null,
    ];
    let (mut positional, [sweep]) = args.bind_variadic(SWEEPS, [("sweep", OPTIONAL)])?;
    if positional.is_empty() {
        return Err("needs at least one positional argument".to_owned());
    }
    positional.extend(sweep.filter(|sweep| *sweep != Element::Null));
    let Some(Element::Sweep(mut sweep)) = positional.pop() else {
        return Err("the last argument must be a choice, a range or an interval".to_owned());
    };
    let names = positional
        .into_iter()
        .map(|name| match name {
            Element::Str(name) => Ok(name),
            other => Err(format!("a tag must be a string, not {}", other.describe())),
        })
        .collect::<Result<_, _>>()?;
    if let Some(tags) = sweep.tags_mut() {
        *tags = names;
    }
    Ok(Element::Sweep(sweep))
}

pub(super) fn eval_shuffle(
    args: CallArguments,
    shuffle: &mut dyn Shuffle,
) -> Result<Element, String> {
    let (mut positional, [sweep, list]) = args.bind_variadic(
        SORTABLE,
        [("sweep", OPTIONAL_SWEEP), ("list", OPTIONAL_LIST)],
    )?;
    if let Some(named) = non_null(list).or_else(|| non_null(sweep)) {
        positional = vec![named];
    }
    if positional.len() != 1 {
        let mut choice = simple_choice(positional)?;
        choice.shuffle = true;
        return Ok(Element::Sweep(Sweep::Choice(choice)));
    }
    Ok(match positional.swap_remove(0) {
        Element::Sweep(Sweep::Choice(choice)) => Element::Sweep(Sweep::Choice(ChoiceSweep {
            shuffle: true,
            ..choice
        })),
        Element::Sweep(Sweep::Range(range)) => Element::Sweep(Sweep::Range(RangeSweep {
            shuffle: true,
            ..range
        })),
        Element::List(items) => Element::List(shuffle_items(&items, shuffle)),
        single => Element::List(vec![single]),
    })
}

/// `sort(a,b)`, `sort([…])`, `sort(sweep)`, each with `reverse=true`
pub(super) fn eval_sort(args: CallArguments) -> Result<Element, String> {
    let (mut positional, [sweep, list, reverse]) = args.bind_variadic(
        SORTABLE,
        [
            ("sweep", OPTIONAL_SWEEP),
            ("list", OPTIONAL_LIST),
            ("reverse", &[Accepts::Bool]),
        ],
    )?;
    let reverse = reverse == Some(Element::Bool(true));
    if let Some(named) = non_null(list).or_else(|| non_null(sweep)) {
        positional = vec![named];
    }
    match positional.len() {
        0 => Err("needs something to sort".to_owned()),
        1 => match positional.swap_remove(0) {
            Element::Sweep(Sweep::Choice(choice)) => sort_choice(choice, reverse),
            Element::Sweep(Sweep::Range(range)) => {
                Ok(Element::Sweep(Sweep::Range(range.sort_range(reverse)?)))
            }
            Element::List(items) => Ok(Element::List(order::sort_elements(items, reverse)?)),
            single => Ok(single),
        },
        _ => {
            let is_scalar = |element: &Element| {
                !matches!(
                    element,
                    Element::List(_) | Element::Dict(_) | Element::Sweep(_)
                )
            };
            if let Some(other) = positional.iter().find(|element| !is_scalar(element)) {
                return Err(format!(
                    "sorts several scalars or one list or sweep, got {} among several",
                    other.describe()
                ));
            }
            sort_choice(simple_choice(positional)?, reverse)
        }
    }
}

fn sort_choice(choice: ChoiceSweep, reverse: bool) -> Result<Element, String> {
    Ok(Element::Sweep(Sweep::Choice(ChoiceSweep {
        list: order::sort_elements(choice.list, reverse)?,
        ..choice
    })))
}

/// Several elements as `a,b` would give them; a sweep cannot be one of them.
pub(super) fn simple_choice(list: Vec<Element>) -> Result<ChoiceSweep, String> {
    if let Some(sweep) = list
        .iter()
        .find(|element| matches!(element, Element::Sweep(_)))
    {
        return Err(format!(
            "{} cannot be one of several arguments",
            sweep.describe()
        ));
    }
    Ok(ChoiceSweep {
        list,
        simple_form: true,
        ..ChoiceSweep::default()
    })
}

/// An argument that was given and is not null.
fn non_null(argument: Option<Element>) -> Option<Element> {
    argument.filter(|value| *value != Element::Null)
}

/// A number of a range.
fn expect_number(element: &Element) -> Result<Number, String> {
    match element {
        Element::Int(value) => value
            .to_string()
            .parse()
            .map(Number::Int)
            .map_err(|_| "integers in a sweep are limited to 128 bits".to_owned()),
        Element::Bool(value) => Ok(Number::Int(i128::from(*value))),
        Element::Float(value) => Ok(Number::Float(*value)),
        other => Err(format!("expected a number, got {}", other.describe())),
    }
}
