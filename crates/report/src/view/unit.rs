use llmprof_units::{
    Bytes, BytesPerSecond, Flops, FlopsPerSecond, Hertz, Joules, Nanos, Percent, Watts,
    format_significant,
};
use serde::{Deserialize, Serialize};

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A duration or a point in time, in nanoseconds.
    Nanoseconds,
    Bytes,
    BytesPerSecond,
    Flops,
    FlopsPerSecond,
    FlopsPerByte,
    Watts,
    Joules,
    /// Cycles per second.
    Hertz,
    Celsius,
    /// A share, 1 being the whole; printed in percent.
    Fraction,
    Count,
}

impl Unit {
    /// `value` as a reader sees it, with its unit.
    pub fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        match self {
            Self::Nanoseconds => Nanos(value.round() as i64).to_string(),
            Self::Bytes => Bytes(value.max(0.0).round() as u64).to_string(),
            Self::BytesPerSecond => BytesPerSecond(value).to_string(),
            Self::Flops => Flops(value.max(0.0).round() as u64).to_string(),
            Self::FlopsPerSecond => FlopsPerSecond(value).to_string(),
            Self::FlopsPerByte => format!("{} FLOP/B", format_significant(value)),
            Self::Watts => Watts(value).to_string(),
            Self::Joules => Joules(value).to_string(),
            Self::Hertz => Hertz(value).to_string(),
            Self::Celsius => format!("{} °C", format_significant(value)),
            Self::Fraction => Percent(value).to_string(),
            Self::Count => format_significant(value),
        }
    }

    /// `value` as it stands beside a tick: round numbers need no decimals, and zero no unit.
    pub(crate) fn tick(self, value: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Self::Fraction => format!("{} %", format_significant(value * 100.0)),
            _ => self.format(value),
        }
    }

    /// Whether round numbers are powers of two.
    pub(crate) fn is_binary(self) -> bool {
        self == Self::Bytes
    }
}
