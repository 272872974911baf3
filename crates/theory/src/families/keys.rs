//! Reading a config: every mistake is an error that names its key.

use llmprof_units::DType;
use serde_json::{Map, Value};

use crate::{block::ActivationKind, error::ModelError};

/// Limits above which a size is a mistake rather than a model.
const LAYERS_MAX: u64 = 4096;
const WIDTH_MAX: u64 = 1 << 20;
const VOCABULARY_MAX: u64 = 1 << 26;
const POSITIONS_MAX: u64 = 1 << 40;

/// A config, or a part of one, with the family that reads it.
pub(crate) struct Keys<'a> {
    pub(crate) family: &'static str,
    object: &'a Map<String, Value>,
    /// Path of this part inside the config, with its dot.
    path: String,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(family: &'static str, config: &'a Value) -> Result<Self, ModelError> {
        Ok(Self {
            family,
            object: config.as_object().ok_or(ModelError::NotAnObject)?,
            path: String::new(),
        })
    }

    /// The part under `name`; `None` where it is absent or null.
    pub(crate) fn part(&self, name: &str) -> Result<Option<Keys<'a>>, ModelError> {
        match self.get(&[name]) {
            None => Ok(None),
            Some((_, Value::Object(object))) => Ok(Some(Keys {
                family: self.family,
                object,
                path: format!("{}{name}.", self.path),
            })),
            Some((_, other)) => Err(self.invalid(name, other, "an object")),
        }
    }

    /// The first of `names` that has a value other than null.
    pub(crate) fn get<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.object.get(*name)?;
            (!value.is_null()).then_some((*name, value))
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(&[name]).is_some()
    }

    /// True where the key is written, even as null.
    pub(crate) fn states(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    pub(crate) fn field(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    pub(crate) fn invalid(&self, name: &str, found: &Value, expected: &str) -> ModelError {
        ModelError::Invalid {
            field: self.field(name),
            found: shorten_value(&found.to_string()),
            expected: expected.to_owned(),
        }
    }

    /// A value that some model has, and that is not counted.
    pub(crate) fn unsupported(&self, name: &str, found: &Value, known: &str) -> ModelError {
        ModelError::Unsupported {
            field: self.field(name),
            found: shorten_value(&found.to_string()),
            known: known.to_owned(),
        }
    }

    pub(crate) fn contradiction(
        &self,
        name: &str,
        found: impl std::fmt::Display,
        other: impl Into<String>,
    ) -> ModelError {
        ModelError::Contradiction {
            field: self.field(name),
            found: found.to_string(),
            other: other.into(),
        }
    }

    pub(crate) fn missing(&self, name: &str) -> ModelError {
        ModelError::Missing {
            field: self.field(name),
            family: self.family,
        }
    }

    /// An integer between `low` and `high`; floats are taken where they are whole.
    fn read_integer(&self, names: &[&str], low: u64, high: u64) -> Result<Option<u64>, ModelError> {
        let Some((name, value)) = self.get(names) else {
            return Ok(None);
        };
        let whole = value.as_u64().or_else(|| {
            let float = value.as_f64()?;
            (float.fract() == 0.0 && (0.0..1e18).contains(&float)).then_some(float as u64)
        });
        match whole {
            Some(number) if (low..=high).contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("a whole number between {low} and {high}");
                Err(self.invalid(name, value, &expected))
            }
        }
    }

    /// A width, a number of heads or experts.
    pub(crate) fn size(&self, names: &[&str], default: Option<u64>) -> Result<u64, ModelError> {
        self.optional_size(names)?
            .or(default)
            .ok_or_else(|| self.missing(names[0]))
    }

    pub(crate) fn optional_size(&self, names: &[&str]) -> Result<Option<u64>, ModelError> {
        self.read_integer(names, 1, WIDTH_MAX)
    }

    /// A number that may be zero, unlike a [`size`](Self::size).
    pub(crate) fn count(&self, names: &[&str], default: u64) -> Result<u64, ModelError> {
        Ok(self.read_integer(names, 0, WIDTH_MAX)?.unwrap_or(default))
    }

    pub(crate) fn layers(&self, names: &[&str], default: Option<u64>) -> Result<u32, ModelError> {
        self.read_integer(names, 1, LAYERS_MAX)?
            .or(default)
            .map(|layers| layers as u32)
            .ok_or_else(|| self.missing(names[0]))
    }

    pub(crate) fn vocabulary(&self, default: Option<u64>) -> Result<u64, ModelError> {
        self.read_integer(&["vocab_size"], 1, VOCABULARY_MAX)?
            .or(default)
            .ok_or_else(|| self.missing("vocab_size"))
    }

    /// A number of positions or a window; zero is allowed for windows that are off.
    pub(crate) fn positions(&self, names: &[&str]) -> Result<Option<u64>, ModelError> {
        self.read_integer(names, 0, POSITIONS_MAX)
    }

    pub(crate) fn optional_float(&self, names: &[&str]) -> Result<Option<f64>, ModelError> {
        let Some((name, value)) = self.get(names) else {
            return Ok(None);
        };
        match value.as_f64().filter(|float| float.is_finite()) {
            Some(float) => Ok(Some(float)),
            None => Err(self.invalid(name, value, "a number")),
        }
    }

    /// A number above zero: a base, a factor, a scale.
    pub(crate) fn positive(&self, names: &[&str], default: f64) -> Result<f64, ModelError> {
        match self.optional_float(names)? {
            None => Ok(default),
            Some(float) if float > 0.0 => Ok(float),
            Some(_) => {
                let (name, value) = self.get(names).expect("it was read just above");
                Err(self.invalid(name, value, "a number above zero"))
            }
        }
    }

    /// A soft cap: positive, or absent.
    pub(crate) fn cap(&self, name: &str, default: Option<f64>) -> Result<Option<f64>, ModelError> {
        if !self.states(name) {
            return Ok(default);
        }
        match self.optional_float(&[name])? {
            None => Ok(None),
            Some(_) => self.positive(&[name], 1.0).map(Some),
        }
    }

    pub(crate) fn flag(&self, names: &[&str], default: bool) -> Result<bool, ModelError> {
        match self.get(names) {
            None => Ok(default),
            Some((_, Value::Bool(flag))) => Ok(*flag),
            Some((name, other)) => Err(self.invalid(name, other, "true or false")),
        }
    }

    pub(crate) fn text(&self, names: &[&str]) -> Result<Option<&'a str>, ModelError> {
        match self.get(names) {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text)),
            Some((name, other)) => Err(self.invalid(name, other, "text")),
        }
    }

    /// A list of whole numbers.
    pub(crate) fn integers(&self, name: &str) -> Result<Option<Vec<u64>>, ModelError> {
        let Some((_, value)) = self.get(&[name]) else {
            return Ok(None);
        };
        let list = value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_u64).collect());
        list.map(Some)
            .ok_or_else(|| self.invalid(name, value, "a list of whole numbers"))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f64>, ModelError> {
        let (_, value) = self.get(&[name]).ok_or_else(|| self.missing(name))?;
        value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_f64).collect())
            .ok_or_else(|| self.invalid(name, value, "a list of numbers"))
    }

    /// A side in pixels, given as one number or as a pair of equal ones.
    pub(crate) fn side(&self, name: &str, default: u64) -> Result<u64, ModelError> {
        let Some((_, Value::Array(pair))) = self.get(&[name]) else {
            return self.size(&[name], Some(default));
        };
        match pair.as_slice() {
            [height, width] if height == width => height
                .as_u64()
                .filter(|side| (1..=WIDTH_MAX).contains(side))
                .ok_or_else(|| self.invalid(name, height, "a number of pixels")),
            _ => Err(self.unsupported(
                name,
                &Value::Array(pair.clone()),
                "one side, or two equal ones,",
            )),
        }
    }

    pub(crate) fn activation(
        &self,
        names: &[&str],
        default: ActivationKind,
    ) -> Result<ActivationKind, ModelError> {
        let Some(name) = self.text(names)? else {
            return Ok(default);
        };
        ActivationKind::from_name(name).ok_or_else(|| {
            let stated_name = Value::String(name.to_owned());
            self.unsupported(
                names[0],
                &stated_name,
                "silu, gelu, gelu_pytorch_tanh, quick_gelu and relu",
            )
        })
    }

    /// The dtype under `dtype` (transformers 5) or `torch_dtype` (4); torch's default where neither is there.
    pub(crate) fn dtype(&self) -> Result<DType, ModelError> {
        let names = ["dtype", "torch_dtype"];
        let Some(name) = self.text(&names)? else {
            return Ok(DType::F32);
        };
        match name.parse::<DType>() {
            Ok(dtype) if dtype.is_float() => Ok(dtype),
            _ => {
                let (key, value) = self.get(&names).expect("it was read just above");
                Err(self.invalid(key, value, "a floating-point dtype such as bfloat16"))
            }
        }
    }
}

/// A value short enough for an error message.
fn shorten_value(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    let start: String = text.chars().take(57).collect();
    format!("{start}…")
}
