use std::{borrow::Cow, fmt, num::NonZeroU32, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What is meant by a share in an error.
const EXAMPLES: &str = "such as 2% or 0.02";

/// A share of the time that something may cost: above 0, at most 100 %, in whole millionths, which is how it is passed on.
/// Written as `0.02` or `2%`; serialized as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(NonZeroU32);

impl Share {
    const WHOLE: u32 = 1_000_000;

    pub fn ppm(self) -> u32 {
        self.0.get()
    }

    /// The share as a fraction; 1 is the whole.
    pub fn fraction(self) -> f64 {
        f64::from(self.ppm()) / f64::from(Self::WHOLE)
    }

    fn from_millionths(ppm: f64) -> Result<Self, ShareError> {
        // A decimal number such as 0.0001 times its unit may come out one rounding below 1.
        const ROUNDED_TO_ONE_MIN: f64 = 1.0 - 1e-9;
        if ppm.is_nan() {
            Err(ShareError::NotANumber)
        } else if ppm <= 0.0 || ppm > f64::from(Self::WHOLE) {
            Err(ShareError::OutOfRange)
        } else if ppm < ROUNDED_TO_ONE_MIN {
            Err(ShareError::TooSmall)
        } else {
            NonZeroU32::new(ppm.round() as u32)
                .map(Self)
                .ok_or(ShareError::TooSmall)
        }
    }
}

impl TryFrom<f64> for Share {
    type Error = ShareError;

    fn try_from(fraction: f64) -> Result<Self, ShareError> {
        Self::from_millionths(fraction * f64::from(Self::WHOLE))
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        // Percent go to millionths at once: through a fraction they would be rounded twice.
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent, Self::WHOLE / 100),
            None => (text, Self::WHOLE),
        };
        let number: f64 = number.trim().parse().map_err(|_| ShareError::NotANumber)?;
        Self::from_millionths(number * f64::from(unit))
    }
}

/// As it may be written: `2%`, `0.0001%`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.ppm() / 10_000, self.ppm() % 10_000);
        let text = format!("{whole}.{rest:04}");
        f.pad(&format!(
            "{}%",
            text.trim_end_matches('0').trim_end_matches('.')
        ))
    }
}

/// Reasons why a value cannot be a [`Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// The text is not a number, or is NaN.
    NotANumber,
    /// 0 or less, or above 100 %.
    OutOfRange,
    /// Above 0, but less than a millionth.
    TooSmall,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => write!(f, "expected a share, {EXAMPLES}"),
            Self::OutOfRange => write!(f, "a share is above 0 and at most 100%, {EXAMPLES}"),
            Self::TooSmall => write!(
                f,
                "too small: the smallest share is 0.0001% (0.000001), a millionth"
            ),
        }
    }
}

impl std::error::Error for ShareError {}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.fraction())
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShareVisitor;

        impl de::Visitor<'_> for ShareVisitor {
            type Value = Share;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a share, {EXAMPLES}")
            }

            fn visit_f64<E: de::Error>(self, fraction: f64) -> Result<Share, E> {
                Share::try_from(fraction).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, whole: i64) -> Result<Share, E> {
                self.visit_f64(whole as f64)
            }

            fn visit_u64<E: de::Error>(self, whole: u64) -> Result<Share, E> {
                self.visit_f64(whole as f64)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(ShareVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_fractions_or_percent() {
        let ppm = |text: &str| text.parse::<Share>().map(Share::ppm);
        for (text, expected) in [
            ("0.02", 20_000),
            ("2%", 20_000),
            (" 2.5 % ", 25_000),
            ("2e-2", 20_000),
            ("0.07%", 700),
            ("0.29", 290_000),
            ("1", 1_000_000),
            ("100%", 1_000_000),
            ("0.000001", 1),
            ("0.0001%", 1),
            ("0.0000014", 1),
        ] {
            assert_eq!(ppm(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_share_is_distinguished() {
        let why = |text: &str| text.parse::<Share>().unwrap_err();
        for text in ["", "%", "much", "NaN", "2%%", "1/50"] {
            assert_eq!(why(text), ShareError::NotANumber, "{text}");
        }
        for text in ["0", "0%", "-2%", "1.01", "100.1%", "2", "inf", "-inf"] {
            assert_eq!(why(text), ShareError::OutOfRange, "{text}");
        }
        for text in ["4e-7", "9.9e-7", "0.00004%", "1e-300"] {
            assert_eq!(why(text), ShareError::TooSmall, "{text}");
        }
        assert!(why("4e-7").to_string().contains("0.0001%"));
    }

    #[test]
    fn shares_print_as_percent() {
        let print = |text: &str| text.parse::<Share>().unwrap().to_string();
        assert_eq!(print("0.02"), "2%");
        assert_eq!(print("2.5%"), "2.5%");
        assert_eq!(print("0.000001"), "0.0001%");
        assert_eq!(print("1"), "100%");
        assert_eq!(format!("{:>6}", "1".parse::<Share>().unwrap()), "  100%");
    }

    #[test]
    fn numbers_and_text_are_read_alike() {
        let read = |json: &str| serde_json::from_str::<Share>(json).map_err(|e| e.to_string());
        assert_eq!(read("0.02"), read("\"2%\""));
        assert_eq!(read("1"), read("\"100%\""));
        for (number, text) in [("0", "\"0\""), ("-1", "\"-1\""), ("4e-7", "\"4e-7\"")] {
            let (number, text) = (read(number).unwrap_err(), read(text).unwrap_err());
            let sentence = |error: &str| error.split(" at line").next().map(str::to_owned);
            assert_eq!(sentence(&number), sentence(&text));
        }
        assert!(read("[2]").unwrap_err().contains("such as 2% or 0.02"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ppm in 1_u32..=1_000_000) {
            let share = Share::try_from(f64::from(ppm) / 1e6).unwrap();
            prop_assert_eq!(share.ppm(), ppm);
            prop_assert_eq!(share.to_string().parse(), Ok(share));
            let json = serde_json::to_string(&share).unwrap();
            prop_assert_eq!(serde_json::from_str::<Share>(&json).unwrap(), share);
        }
    }
}
