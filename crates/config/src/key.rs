//! Keys of a config mapping: YAML allows more than strings, and so does OmegaConf.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::int::Int;
use crate::python;

/// A mapping key. Keys are equal as Python's are: `1`, `1.0` and `True` are one key.
#[derive(Debug, Clone)]
pub enum Key {
    /// A string, by far the usual case.
    Str(String),
    Int(Int),
    Float(f64),
    /// A boolean; YAML 1.1 reads `on`, `off`, `yes` and `no` as such too.
    Bool(bool),
    Bytes(Vec<u8>),
}

impl Key {
    /// The string, when the key is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The integer this key is equal to, when it is a number with no fraction.
    fn as_integral(&self) -> Option<Int> {
        match self {
            Self::Int(value) => Some(value.clone()),
            Self::Bool(value) => Some(Int::from(i64::from(*value))),
            // Past 2^63 no two config keys of different kinds meet in practice.
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => {
                Some(Int::from(*value as i64))
            }
            _ => None,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Str(_) | Self::Bytes(_), _) | (_, Self::Str(_) | Self::Bytes(_)) => false,
            (a, b) => match (a.as_integral(), b.as_integral()) {
                (Some(a), Some(b)) => a == b,
                (None, None) => {
                    matches!((a, b), (Self::Float(a), Self::Float(b)) if a.to_bits() == b.to_bits())
                }
                _ => false,
            },
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (self, self.as_integral()) {
            (Self::Str(text), _) => text.hash(state),
            (Self::Bytes(bytes), _) => bytes.hash(state),
            (_, Some(value)) => value.hash(state),
            (Self::Float(value), None) => value.to_bits().hash(state),
            (Self::Int(_) | Self::Bool(_), None) => {}
        }
    }
}

/// As Python's `str()` shows the key, which is how full keys in messages are written.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => f.write_str(text),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => f.write_str(&python::float_repr(*value)),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Bytes(bytes) => f.write_str(&python::bytes_repr(bytes)),
        }
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<i64> for Key {
    fn from(value: i64) -> Self {
        Self::Int(Int::from(value))
    }
}

impl From<bool> for Key {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Key {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_meet_as_in_python() {
        assert_eq!(Key::from(1), Key::from(true));
        assert_eq!(Key::from(1.0), Key::from(true));
        assert_eq!(Key::from(0.0), Key::from(-0.0));
        assert_ne!(Key::from(1.5), Key::from(1));
        assert_ne!(Key::from("1"), Key::from(1));
    }
}
