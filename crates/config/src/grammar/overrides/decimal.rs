//! Just enough of Python's `decimal` for ranges of floats: exact conversion, comparison, and addition to 28 digits.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// The precision of Python's default context.
const PRECISION_DIGITS: usize = 28;

/// A finite decimal number: `coefficient` × 10^`exponent`. Zero has no sign, unlike Python's.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    coefficient: BigInt,
    exponent: i32,
}

impl Decimal {
    pub(super) fn from_int(value: i128) -> Self {
        Self {
            coefficient: value.into(),
            exponent: 0,
        }
    }

    /// The exact value of a finite float: 1074 digits after the point always suffice.
    pub(super) fn from_float(value: f64) -> Self {
        let text = format!("{value:.1074}");
        let (whole, fraction) = text.split_once('.').expect("digits were asked for");
        let fraction = fraction.trim_end_matches('0');
        Self {
            coefficient: format!("{whole}{fraction}").parse().expect("digits"),
            exponent: -(fraction.len() as i32),
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        format!("{}e{}", self.coefficient, self.exponent)
            .parse()
            .expect("digits and an exponent are a float")
    }

    /// The sum, rounded half to even.
    pub(super) fn add_rounded(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let coefficient = self.coefficient_at(exponent) + other.coefficient_at(exponent);
        let digits = coefficient.magnitude().to_string().len();
        let dropped = digits.saturating_sub(PRECISION_DIGITS) as u32;
        let unit = BigInt::from(10).pow(dropped);
        let (kept, rest) = (&coefficient / &unit, &coefficient % &unit);
        let away = match (rest.magnitude() * 2_u32).cmp(unit.magnitude()) {
            Ordering::Less => false,
            Ordering::Equal => kept.bit(0),
            Ordering::Greater => true,
        };
        let step = BigInt::from_biguint(coefficient.sign(), u8::from(away).into());
        Self {
            coefficient: kept + step,
            exponent: exponent + dropped as i32,
        }
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        self.coefficient_at(exponent)
            .cmp(&other.coefficient_at(exponent))
    }

    /// The coefficient for an `exponent` that is not above ours.
    fn coefficient_at(&self, exponent: i32) -> BigInt {
        &self.coefficient * BigInt::from(10).pow((self.exponent - exponent) as u32)
    }
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
