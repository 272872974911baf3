//! Python's equality, `<` and `sorted()` on elements.

use std::cmp::Ordering;

use super::element::Element;
use crate::grammar::number;
use crate::int::Int;

impl Element {
    /// `self == other` in Python: `1`, `1.0` and `true` are equal, `nan` equals nothing.
    pub(in crate::grammar) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Self::Dict(a), Self::Dict(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| {
                        b.iter()
                            .any(|(other_key, other)| other_key.equals(key) && other.equals(value))
                    })
            }
            _ if self.is_number() && other.is_number() => {
                self.compare_numbers(other) == Some(Ordering::Equal)
            }
            _ => self == other,
        }
    }

    /// `self < other` in Python; the error says which kinds have no order.
    fn less(&self, other: &Self) -> Result<bool, String> {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => Ok(a < b),
            (Self::List(a), Self::List(b)) => match a.iter().zip(b).find(|(a, b)| !a.equals(b)) {
                Some((a, b)) => a.less(b),
                None => Ok(a.len() < b.len()),
            },
            _ if self.is_number() && other.is_number() => {
                Ok(self.compare_numbers(other) == Some(Ordering::Less))
            }
            _ => Err(format!(
                "cannot order {} and {}",
                self.describe(),
                other.describe()
            )),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_) | Self::Bool(_))
    }

    fn as_int(&self) -> Option<Int> {
        match self {
            Self::Int(value) => Some(value.clone()),
            Self::Bool(value) => Some(Int::from(i64::from(*value))),
            _ => None,
        }
    }

    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Float(a), b) => Some(compare_int_float(&b.as_int()?, *a)?.reverse()),
            (a, Self::Float(b)) => compare_int_float(&a.as_int()?, *b),
            (a, b) => Some(a.as_int()?.cmp(&b.as_int()?)),
        }
    }
}

/// Exact, where rounding the integer to a float would lose digits.
fn compare_int_float(int: &Int, float: f64) -> Option<Ordering> {
    if float.is_infinite() {
        return 0.0.partial_cmp(&float);
    }
    let whole = number::int_from_float(float)?;
    Some(
        int.cmp(&whole)
            .then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)),
    )
}

/// `sorted(items, reverse=reverse)`.
///
/// CPython finds the leading run and inserts the rest by binary search (its algorithm up to 63 elements). Doing the same
/// makes the result equal even where `nan` or partly comparable lists break the order.
pub(super) fn sort_elements(
    mut items: Vec<Element>,
    reverse: bool,
) -> Result<Vec<Element>, String> {
    if reverse {
        items.reverse();
    }
    for next in leading_run(&mut items)?..items.len() {
        let (mut low, mut high) = (0, next);
        while low < high {
            let middle = low + (high - low) / 2;
            if items[next].less(&items[middle])? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        items[low..=next].rotate_right(1);
    }
    if reverse {
        items.reverse();
    }
    Ok(items)
}

/// The length of the ascending start; a strictly descending one is turned round first.
fn leading_run(items: &mut [Element]) -> Result<usize, String> {
    if items.len() < 2 {
        return Ok(items.len());
    }
    let descending = items[1].less(&items[0])?;
    let mut length = 2;
    while length < items.len() && items[length].less(&items[length - 1])? == descending {
        length += 1;
    }
    if descending {
        items[..length].reverse();
    }
    Ok(length)
}
