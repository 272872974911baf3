//! Sweeps spelled out: the elements of a choice, a range or a glob.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::decimal::Decimal;
use super::element::Element;
use super::element::sweep::{Glob, Number, RangeSweep, Sweep};
use super::fnmatch::matches_pattern;
use crate::int::Int;

/// A range with more numbers than this is refused rather than listed.
const MAX_NUMBERS: usize = 1_000_000;

impl Sweep {
    /// The names given by `tag()`; a glob has none.
    pub(super) fn tags_mut(&mut self) -> Option<&mut BTreeSet<String>> {
        match self {
            Self::Choice(choice) => Some(&mut choice.tags),
            Self::Range(range) => Some(&mut range.tags),
            Self::Interval(interval) => Some(&mut interval.tags),
            Self::Glob(_) => None,
        }
    }
}

impl Number {
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn into_element(self) -> Element {
        match self {
            Self::Int(value) => Element::Int(Int::from(value)),
            Self::Float(value) => Element::Float(value),
        }
    }

    fn add_checked(self, other: Self) -> Result<Self, String> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a
                .checked_add(b)
                .map(Self::Int)
                .ok_or_else(|| "integers in a sweep are limited to 128 bits".to_owned()),
            _ => Ok(Self::Float(self.to_f64() + other.to_f64())),
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.saturating_neg()),
            Self::Float(value) => Self::Float(-value),
        }
    }

    fn magnitude(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.saturating_abs()),
            Self::Float(value) => Self::Float(value.abs()),
        }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            _ => self.to_f64().partial_cmp(&other.to_f64()),
        }
    }
}

impl RangeSweep {
    pub(super) fn new(start: Number, stop: Number, step: Number) -> Self {
        Self {
            start,
            stop,
            step,
            shuffle: false,
            tags: BTreeSet::new(),
        }
    }

    pub fn numbers(&self) -> Result<Vec<Element>, String> {
        if let (Number::Int(start), Number::Int(stop), Number::Int(step)) =
            (self.start, self.stop, self.step)
        {
            return integer_values(start, stop, step);
        }
        let [start, stop, step] = [self.start, self.stop, self.step].map(Number::to_f64);
        if step == 0.0 || start.is_nan() || stop.is_nan() || step.is_nan() {
            return Err(format!(
                "a range from {start} to {stop} in steps of {step} has no numbers"
            ));
        }
        let ahead = |from: f64, to: f64| if step > 0.0 { from < to } else { from > to };
        if !ahead(start, stop) {
            return Ok(Vec::new());
        }
        if start.is_infinite() || (stop.is_infinite() && step.is_finite()) {
            return Err("this range never ends".to_owned());
        }
        if step.is_infinite() {
            return Ok(vec![Element::Float(start)]);
        }
        // Each sum of decimals takes a microsecond. The loop counts exactly; the quotients are rounded.
        if stop / step - start / step > (MAX_NUMBERS + 1) as f64 {
            return Err(too_many());
        }
        self.float_values(step > 0.0)
    }

    /// Hydra adds the step in decimal with 28 digits, so that three steps of `0.1` are `0.3`; seven are
    /// `0.7000000000000001` all the same.
    fn float_values(&self, ascending: bool) -> Result<Vec<Element>, String> {
        let exact = |number| match number {
            Number::Int(value) => Decimal::from_int(value),
            Number::Float(value) => Decimal::from_float(value),
        };
        let (mut at, step) = (exact(self.start), exact(self.step));
        // An infinite stop has been dealt with, so all three are finite.
        let stop = exact(self.stop);
        let ahead = if ascending {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        // The start as it is given: it may be a negative zero.
        let mut value = self.start.to_f64();
        let mut numbers = Vec::new();
        while at.cmp(&stop) == ahead {
            if numbers.len() == MAX_NUMBERS {
                return Err(too_many());
            }
            numbers.push(Element::Float(value));
            at = at.add_rounded(&step);
            value = at.to_f64();
        }
        Ok(numbers)
    }

    /// The same numbers in ascending order, or descending.
    pub(super) fn sort_range(mut self, descending: bool) -> Result<Self, String> {
        let wrong = if descending {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        if self.start.compare(self.stop) == Some(wrong) {
            let shift = if descending {
                self.step.magnitude().negated()
            } else {
                self.step.magnitude()
            };
            (self.start, self.stop) = (
                self.stop.add_checked(shift)?,
                self.start.add_checked(shift)?,
            );
            self.step = self.step.negated();
        }
        Ok(self)
    }
}

fn integer_values(start: i128, stop: i128, step: i128) -> Result<Vec<Element>, String> {
    if step == 0 {
        return Err("the step of a range cannot be 0".to_owned());
    }
    let mut numbers = Vec::new();
    let mut at = Some(start);
    while let Some(value) = at.filter(|at| if step > 0 { *at < stop } else { *at > stop }) {
        if numbers.len() == MAX_NUMBERS {
            return Err(too_many());
        }
        numbers.push(Number::Int(value).into_element());
        at = value.checked_add(step);
    }
    Ok(numbers)
}

fn too_many() -> String {
    format!("this range has more than {MAX_NUMBERS} numbers")
}

impl Glob {
    /// Those of `names` that an include pattern matches and no exclude pattern does.
    ///
    /// Fails if a pattern that has to be tried is not a plain string: inside a list, Hydra does not unquote patterns.
    pub fn filter_names<'a>(&self, names: &[&'a str]) -> Result<Vec<&'a str>, String> {
        let matches = |name: &str, patterns: &[Element]| {
            for pattern in patterns {
                let Element::Str(pattern) = pattern else {
                    return Err(format!(
                        "a pattern in a list must be an unquoted string, not {}",
                        pattern.describe()
                    ));
                };
                if matches_pattern(name, pattern) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let mut kept = Vec::new();
        for &name in names {
            if matches(name, &self.include)? && !matches(name, &self.exclude)? {
                kept.push(name);
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(start: f64, stop: f64, step: f64) -> Result<usize, String> {
        let [start, stop, step] = [start, stop, step].map(Number::Float);
        RangeSweep::new(start, stop, step)
            .numbers()
            .map(|numbers| numbers.len())
    }

    #[test]
    fn ranges_of_floats_are_counted_before_they_are_listed() {
        for (start, stop, step) in [(1.0, 1e300, 1e-300), (1.0, -1e300, -1e-3), (0.0, 2e6, 1.0)] {
            assert_eq!(count(start, stop, step), Err(too_many()), "{start}");
        }
        // Their distance is beyond any float. Rounded to 28 digits, the third is short of the stop, as in Python.
        assert_eq!(count(-1e308, 1e308, 1e308), Ok(3));
        assert_eq!(count(1e308, -1e308, -1e308), Ok(3));
    }
}
