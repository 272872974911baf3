//! Integers of any size, since Python's have no bound and a config must not lose digits.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

/// An integer as Python has it: machine-sized where it fits, decimal digits where not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Int(Repr);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    Small(i64),
    /// Canonical decimal text (`-` only, no leading zero) of a value outside `i64`.
    Big(Box<str>),
}

/// Converting takes time that grows with the square of this. Python reads 4300 decimal digits; of bits as many take 14,285.
const DIGITS_MAX: usize = 20_000;

impl Int {
    /// Reads digits of a radix from 2 to 16, with an optional sign and underscores anywhere.
    ///
    /// `None` when there is no digit or a character is not one of the radix.
    pub(crate) fn parse_radix(text: &str, radix: u32) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if digits.len() > DIGITS_MAX {
            return None;
        }
        let mut total = Magnitude::default();
        let mut seen = false;
        for c in digits.chars().filter(|&c| c != '_') {
            total.multiply_add(radix, c.to_digit(radix)?);
            seen = true;
        }
        seen.then(|| total.into_int(negative))
    }

    /// Reads plain decimal text (`-12`, `+3`, `1_000`).
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_radix(text, 10)
    }

    /// Reads base-60 digits such as `190:20:30`; `None` if a part is not decimal.
    pub(crate) fn parse_sexagesimal(text: &str) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if digits.len() > DIGITS_MAX {
            return None;
        }
        let mut parts = digits.split(':');
        let mut total = Magnitude::default();
        for c in parts.next()?.chars().filter(|&c| c != '_') {
            total.multiply_add(10, c.to_digit(10)?);
        }
        for part in parts {
            total.multiply_add(60, part.replace('_', "").parse().ok()?);
        }
        Some(total.into_int(negative))
    }

    /// The value where it fits 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Small(value) => Some(value),
            Repr::Big(_) => None,
        }
    }

    /// The nearest float; infinite past its range.
    pub(crate) fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::Small(value) => *value as f64,
            Repr::Big(digits) => digits.parse().expect("decimal digits are a float"),
        }
    }

    /// How many decimal digits it has, without the sign.
    pub fn digit_count(&self) -> usize {
        self.to_string().trim_start_matches('-').len()
    }
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        Self(Repr::Small(value))
    }
}

impl From<i128> for Int {
    fn from(value: i128) -> Self {
        i64::try_from(value).map_or_else(
            |_| Self(Repr::Big(value.to_string().into_boxed_str())),
            Self::from,
        )
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small(value) => value.fmt(f),
            Repr::Big(digits) => f.write_str(digits),
        }
    }
}

impl PartialOrd for Int {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Int {
    fn cmp(&self, other: &Self) -> Ordering {
        // Longer is larger among positives; among negatives the order turns.
        fn big(a: &str, b: &str) -> Ordering {
            (a.len(), a).cmp(&(b.len(), b))
        }
        let sign = |digits: &str| if digits.starts_with('-') { -1 } else { 1 };
        match (&self.0, &other.0) {
            (Repr::Small(a), Repr::Small(b)) => a.cmp(b),
            (Repr::Small(_), Repr::Big(b)) => 0.cmp(&sign(b)),
            (Repr::Big(a), Repr::Small(_)) => sign(a).cmp(&0),
            (Repr::Big(a), Repr::Big(b)) => match (sign(a), sign(b)) {
                (-1, -1) => big(b, a),
                (1, 1) => big(a, b),
                (left, right) => left.cmp(&right),
            },
        }
    }
}

/// A growing magnitude, base 1e9, least significant limb first.
#[derive(Default)]
struct Magnitude(Vec<u32>);

const LIMB: u64 = 1_000_000_000;

impl Magnitude {
    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            let next = u64::from(*limb) * u64::from(factor) + carry;
            *limb = (next % LIMB) as u32;
            carry = next / LIMB;
        }
        while carry > 0 {
            self.0.push((carry % LIMB) as u32);
            carry /= LIMB;
        }
    }

    fn into_int(self, negative: bool) -> Int {
        let mut text = String::from(if negative { "-" } else { "" });
        match self.0.split_last() {
            None => return Int::from(0_i64),
            Some((top, rest)) => {
                text.push_str(&top.to_string());
                for limb in rest.iter().rev() {
                    write!(text, "{limb:09}").expect("writing to a string");
                }
            }
        }
        text.parse::<i64>()
            .map_or_else(|_| Int(Repr::Big(text.into_boxed_str())), Int::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_digit() {
        for text in [
            "0",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "123456789012345678901234567890",
            "-100000000000000000000000000000000000000001",
        ] {
            assert_eq!(Int::parse(text).expect("digits").to_string(), text);
        }
        assert_eq!(
            Int::parse_radix("ffffffffffffffffffff", 16)
                .expect("hex")
                .to_string(),
            "1208925819614629174706175"
        );
        assert_eq!(
            Int::parse_sexagesimal("-190:20:30"),
            Some(Int::from(-685_230_i64))
        );
        assert_eq!(Int::parse("1_0__0_"), Some(Int::from(100_i64)));
        assert_eq!(Int::parse("-"), None);
        assert_eq!(Int::parse("_"), None);
    }

    #[test]
    fn orders_across_the_machine_word() {
        let sorted = [
            "-99999999999999999999",
            "-9999999999999999999",
            "-5",
            "7",
            "9999999999999999999",
            "10000000000000000000",
        ];
        let parsed: Vec<_> = sorted.iter().filter_map(|t| Int::parse(t)).collect();
        assert!(parsed.is_sorted());
        assert_eq!(parsed.len(), sorted.len());
    }
}
