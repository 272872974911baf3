//! Integers of any size, since Python's have no bound and a config must not lose digits.

use std::fmt;

use num_bigint::BigInt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int(BigInt);

/// Converting takes time that grows faster than the number of digits. Python reads 4300 decimal digits; of bits as many take 14,285.
const DIGITS_MAX: usize = 20_000;

impl Int {
    /// Reads digits of a radix from 2 to 16, with an optional sign and underscores anywhere.
    ///
    /// `None` when there is no digit or a character is not one of the radix.
    pub(crate) fn parse_radix(text: &str, radix: u32) -> Option<Self> {
        let (is_negative, digits) = split_sign(text);
        let digits = digits.replace('_', "");
        let is_number = (1..=DIGITS_MAX).contains(&digits.len())
            && digits.chars().all(|digit| digit.is_digit(radix));
        let magnitude = is_number.then(|| BigInt::parse_bytes(digits.as_bytes(), radix))??;
        Some(Self(if is_negative { -magnitude } else { magnitude }))
    }

    /// Reads plain decimal text (`-12`, `+3`, `1_000`).
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_radix(text, 10)
    }

    /// Reads base-60 digits such as `190:20:30`; `None` if a part is not decimal.
    pub(crate) fn parse_sexagesimal(text: &str) -> Option<Self> {
        let (is_negative, digits) = split_sign(text);
        if digits.len() > DIGITS_MAX {
            return None;
        }
        let magnitude = digits.split(':').try_fold(BigInt::ZERO, |total, part| {
            Some(total * 60 + Self::parse(part)?.0)
        })?;
        Some(Self(if is_negative { -magnitude } else { magnitude }))
    }

    /// The value where it fits 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        i64::try_from(&self.0).ok()
    }

    /// The nearest float; infinite past its range.
    pub(crate) fn to_f64(&self) -> f64 {
        let digits = self.0.to_string();
        digits.parse().expect("decimal digits are a float")
    }

    /// How many decimal digits it has, without the sign.
    pub fn digit_count(&self) -> usize {
        self.0.magnitude().to_string().len()
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl From<i128> for Int {
    fn from(value: i128) -> Self {
        Self(value.into())
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        assert_eq!(Int::parse("-+1"), None);
        assert_eq!(Int::parse_sexagesimal("1:"), None);
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
