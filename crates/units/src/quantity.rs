use std::{
    borrow::Cow,
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign},
    sync::atomic::{AtomicBool, Ordering},
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{
    format::{format_binary, format_decimal, format_duration},
    schema::UNIT_KEYWORD,
};

static SATURATED: AtomicBool = AtomicBool::new(false);

/// Whether some quantity of this process did not fit its range since the last call, so that it stopped at the end of it: a sum of
/// damaged or hostile numbers. What is made of it should not be trusted.
pub fn take_saturated() -> bool {
    SATURATED.swap(false, Ordering::Relaxed)
}

/// Arithmetic that stops at the ends of the range of integers, and says so; floats have infinities for that.
trait Arithmetic: Copy {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! saturating {
    ($type:ty) => {
        impl Arithmetic for $type {
            fn plus(self, other: Self) -> Self {
                self.checked_add(other)
                    .unwrap_or_else(|| mark_saturated(self.saturating_add(other)))
            }

            fn minus(self, other: Self) -> Self {
                self.checked_sub(other)
                    .unwrap_or_else(|| mark_saturated(self.saturating_sub(other)))
            }

            fn times(self, other: Self) -> Self {
                self.checked_mul(other)
                    .unwrap_or_else(|| mark_saturated(self.saturating_mul(other)))
            }
        }
    };
}
saturating!(i64);
saturating!(u64);

impl Arithmetic for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn minus(self, other: Self) -> Self {
        self - other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }
}

#[cold]
fn mark_saturated<T>(value: T) -> T {
    SATURATED.store(true, Ordering::Relaxed);
    value
}

macro_rules! quantity {
    ($(#[$attribute:meta])* $name:ident($inner:ty), $unit:literal, $format:expr) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(
            /// The value in the unit that the type names.
            pub $inner,
        );

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut schema = <$inner>::json_schema(generator);
                schema.insert(UNIT_KEYWORD.to_owned(), $unit.into());
                schema
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.plus(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 = self.0.plus(other.0);
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.minus(other.0))
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 = self.0.minus(other.0);
            }
        }

        impl Mul<$inner> for $name {
            type Output = Self;
            fn mul(self, factor: $inner) -> Self {
                Self(self.0.times(factor))
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::default(), Add::add)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let render: fn($inner) -> String = $format;
                f.pad(&render(self.0))
            }
        }
    };
}

quantity!(
    /// Nanoseconds: a duration, or a point on a run's one clock. Signed, since differences may be negative.
    #[derive(Eq, Ord, Hash)]
    Nanos(i64),
    "ns",
    |n: i64| format_duration(n as f64)
);
quantity!(
    /// Bytes; printed with binary prefixes.
    #[derive(Eq, Ord, Hash)]
    Bytes(u64),
    "B",
    |n: u64| format_binary(n as f64, "B")
);
quantity!(
    /// Floating-point operations; a multiply-add is two.
    #[derive(Eq, Ord, Hash)]
    Flops(u64),
    "FLOP",
    |n: u64| format_decimal(n as f64, "FLOP")
);
quantity!(FlopsPerSecond(f64), "FLOP/s", |n: f64| format_decimal(
    n, "FLOP/s"
));
quantity!(
    /// Bytes per second; printed with decimal prefixes, as memory makers do.
    BytesPerSecond(f64),
    "B/s",
    |n: f64| format_decimal(n, "B/s")
);
quantity!(Hertz(f64), "Hz", |n: f64| format_decimal(n, "Hz"));
quantity!(Watts(f64), "W", |n: f64| format_decimal(n, "W"));
quantity!(Joules(f64), "J", |n: f64| format_decimal(n, "J"));

impl Neg for Nanos {
    type Output = Self;
    fn neg(self) -> Self {
        Self(0_i64.minus(self.0))
    }
}

impl Nanos {
    /// The nearest whole nanosecond to `seconds`; saturates at the ends of the range, NaN gives zero.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as i64)
    }

    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl Bytes {
    /// The rate at which these bytes move in `time`; `None` unless the time is positive.
    pub fn per(self, time: Nanos) -> Option<BytesPerSecond> {
        (time.0 > 0).then(|| BytesPerSecond(self.0 as f64 / time.seconds()))
    }
}

impl Flops {
    /// The rate at which this work is done in `time`; `None` unless the time is positive.
    pub fn per(self, time: Nanos) -> Option<FlopsPerSecond> {
        (time.0 > 0).then(|| FlopsPerSecond(self.0 as f64 / time.seconds()))
    }
}

impl Div<BytesPerSecond> for Bytes {
    /// Seconds, kept as a float so that sums of tiny times do not round.
    type Output = f64;
    fn div(self, rate: BytesPerSecond) -> f64 {
        self.0 as f64 / rate.0
    }
}

impl Div<FlopsPerSecond> for Flops {
    /// Seconds, kept as a float so that sums of tiny times do not round.
    type Output = f64;
    fn div(self, rate: FlopsPerSecond) -> f64 {
        self.0 as f64 / rate.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_invert_times() {
        let bytes = Bytes(4_800);
        let rate = bytes.per(Nanos(1_000)).unwrap();
        assert_eq!(rate.0, 4.8e9);
        assert!((bytes / rate - 1e-6).abs() < 1e-18);
        assert_eq!(bytes.per(Nanos(0)), None);
        assert_eq!(Flops(1).per(Nanos(-5)), None);
    }

    #[test]
    fn quantities_serialize_as_bare_numbers() {
        assert_eq!(serde_json::to_string(&Nanos(-3)).unwrap(), "-3");
        assert_eq!(serde_json::to_string(&Watts(1.5)).unwrap(), "1.5");
    }

    /// They wrapped in release builds, and a sum of huge times was a negative one.
    #[test]
    fn sums_stop_at_the_ends_of_their_range() {
        assert_eq!(Nanos(i64::MAX) + Nanos(1), Nanos(i64::MAX));
        assert_eq!(Bytes(1) - Bytes(2), Bytes(0));
        assert_eq!(Flops(u64::MAX) * 2, Flops(u64::MAX));
        assert_eq!(-Nanos(i64::MIN), Nanos(i64::MAX));
        let sum: Bytes = [Bytes(u64::MAX), Bytes(7)].into_iter().sum();
        assert_eq!(sum, Bytes(u64::MAX));
        assert!(take_saturated());
        assert!(!take_saturated(), "it is told once");
    }

    #[test]
    fn printing_honours_width() {
        assert_eq!(format!("{:>12}", Bytes(1536)), "     1.5 KiB");
    }
}
