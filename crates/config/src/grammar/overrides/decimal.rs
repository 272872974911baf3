//! Just enough of Python's `decimal` for ranges of floats: exact conversion, comparison, and addition to 28 digits.

use std::cmp::Ordering;

/// The precision of Python's default context.
const PRECISION_DIGITS: usize = 28;

/// A finite decimal number: `±0.d₁d₂…` without leading zeros, times a power of ten.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    negative: bool,
    /// Most significant first; empty for zero.
    digits: Vec<u8>,
    /// The power of ten of the last digit.
    exponent: i32,
}

impl Decimal {
    pub(super) fn from_int(value: i128) -> Self {
        Self::parse(&value.to_string())
    }

    /// The exact value of a finite float: 1074 digits after the point always suffice.
    pub(super) fn from_float(value: f64) -> Self {
        Self::parse(&format!("{value:.1074}"))
    }

    fn parse(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0');
        Self::new(negative, digits.collect(), -(fraction.len() as i32))
    }

    fn new(negative: bool, mut digits: Vec<u8>, mut exponent: i32) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
            exponent += 1;
        }
        let leading = digits.iter().take_while(|&&digit| digit == 0).count();
        digits.drain(..leading);
        Self {
            negative,
            // Zero has no digit whose place could matter; one form of it keeps comparison simple.
            exponent: if digits.is_empty() { 0 } else { exponent },
            digits,
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        let digits: String = self.digits.iter().map(|&d| char::from(b'0' + d)).collect();
        let sign = if self.negative { "-" } else { "" };
        let digits = if digits.is_empty() { "0" } else { &digits };
        format!("{sign}{digits}e{}", self.exponent)
            .parse()
            .expect("digits and an exponent are a float")
    }

    /// The sum, rounded half to even.
    pub(super) fn add_rounded(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let (mut a, mut b) = (self.scaled_digits(exponent), other.scaled_digits(exponent));
        let length = a.len().max(b.len()) + 1;
        pad_front(&mut a, length);
        pad_front(&mut b, length);
        let (negative, digits) = if self.negative == other.negative {
            (self.negative, add_digits(&a, &b))
        } else if a >= b {
            (self.negative, subtract_digits(&a, &b))
        } else {
            (other.negative, subtract_digits(&b, &a))
        };
        let mut sum = Self::new(negative, digits, exponent);
        // As in Python, opposite numbers add up to a positive zero.
        sum.negative &= !sum.digits.is_empty() || self.negative == other.negative;
        sum.round_to_precision()
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let magnitude = |number: &Self| {
            let top = number.digits.len() as i32 + number.exponent;
            (top, number.digits.clone())
        };
        sign(self).cmp(&sign(other)).then_with(|| {
            let order = magnitude(self).cmp(&magnitude(other));
            if sign(self) < 0 {
                order.reverse()
            } else {
                order
            }
        })
    }

    /// The digits as if the last one stood at `exponent`, which is not above ours.
    fn scaled_digits(&self, exponent: i32) -> Vec<u8> {
        let mut digits = self.digits.clone();
        if !digits.is_empty() {
            let zeros = (self.exponent - exponent).max(0) as usize;
            digits.resize(digits.len() + zeros, 0);
        }
        digits
    }

    fn round_to_precision(mut self) -> Self {
        if self.digits.len() <= PRECISION_DIGITS {
            return self;
        }
        let dropped = self.digits.split_off(PRECISION_DIGITS);
        let exponent = self.exponent + dropped.len() as i32;
        let beyond_half =
            dropped[0] > 5 || (dropped[0] == 5 && dropped[1..].iter().any(|&d| d > 0));
        let tie = dropped[0] == 5 && !beyond_half;
        let odd = self.digits.last().is_some_and(|d| d % 2 == 1);
        if beyond_half || (tie && odd) {
            let mut one = vec![0; PRECISION_DIGITS + 1];
            one[PRECISION_DIGITS] = 1;
            pad_front(&mut self.digits, PRECISION_DIGITS + 1);
            self.digits = add_digits(&self.digits, &one);
        }
        Self::new(self.negative, self.digits, exponent)
    }
}

/// Zeros in front, up to `length` digits.
fn pad_front(digits: &mut Vec<u8>, length: usize) {
    let missing = length.saturating_sub(digits.len());
    digits.splice(0..0, std::iter::repeat_n(0, missing));
}

/// Of numbers of one length, with room for the carry.
fn add_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut out: Vec<u8> = a
        .iter()
        .zip(b)
        .rev()
        .map(|(a, b)| {
            let total = a + b + carry;
            carry = total / 10;
            total % 10
        })
        .collect();
    out.reverse();
    out
}

/// Of numbers of one length, the larger first.
fn subtract_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let mut out: Vec<u8> = a
        .iter()
        .zip(b)
        .rev()
        .map(|(a, b)| {
            let (total, taken) = if *a >= b + borrow {
                (a - b - borrow, 0)
            } else {
                (a + 10 - b - borrow, 1)
            };
            borrow = taken;
            total
        })
        .collect();
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_tenth_as_python_adds_them() {
        let step = Decimal::from_float(0.1);
        let mut at = Decimal::from_int(0);
        let mut seen = Vec::new();
        for _ in 0..10 {
            at = at.add_rounded(&step);
            seen.push(at.to_f64());
        }
        assert_eq!(
            seen,
            [
                0.1,
                0.2,
                0.3,
                0.4,
                0.5,
                0.6,
                0.700_000_000_000_000_1,
                0.8,
                0.9,
                1.0
            ]
        );
    }

    #[test]
    fn signs_and_order() {
        let number = Decimal::from_float;
        assert_eq!(number(1.5).add_rounded(&number(-4.25)).to_f64(), -2.75);
        assert!(
            number(-1.5)
                .add_rounded(&number(1.5))
                .to_f64()
                .is_sign_positive()
        );
        assert_eq!(number(1e300).add_rounded(&number(1e-300)).to_f64(), 1e300);
        assert_eq!(number(-2.0).cmp(&number(-10.0)), Ordering::Greater);
        assert_eq!(number(0.0).cmp(&number(-0.0)), Ordering::Equal);
        assert_eq!(
            number(1.0)
                .add_rounded(&Decimal::from_int(-1))
                .cmp(&number(0.0)),
            Ordering::Equal
        );
        assert_eq!(number(9.0).cmp(&number(10.0)), Ordering::Less);
    }
}
