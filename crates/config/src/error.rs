//! What can go wrong with a config value, and where.

use std::fmt;

use crate::near_names::nearest_name;
use crate::source::SourceSpan;

/// The result of every operation on config values.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A mistake in a config: its kind, the key it concerns and the place it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    key: Option<String>,
    origin: Option<SourceSpan>,
    hint: Option<String>,
}

/// The kinds of mistake. Each stands for an exception of OmegaConf or PyYAML; see
/// [`python_name`](Self::python_name).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not YAML.
    #[error("{0}")]
    Yaml(String),
    /// A mapping has the same key twice.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// The file holds more than one document.
    #[error("expected a single document, but found another one")]
    MultipleDocuments,
    /// The file holds a scalar where a mapping or a list is expected.
    #[error("expected a mapping or a list, but found {0}")]
    InvalidRoot(String),
    /// An interpolation does not follow the grammar.
    #[error("{0}")]
    Grammar(String),
    /// A key has a type that a config cannot hold.
    #[error("a config key cannot be {0}")]
    KeyType(String),
    /// A value has a type that a config cannot hold.
    #[error("a config value cannot be {0}")]
    UnsupportedValue(String),
    /// A value does not fit the type its place is declared with.
    #[error("{0}")]
    Validation(String),
    /// An interpolation names a key that does not exist.
    #[error("interpolation key `{0}` not found")]
    InterpolationKey(String),
    /// An interpolation reaches a value that was never given.
    #[error("interpolation to `{0}`, which is missing (`???`)")]
    InterpolationToMissing(String),
    /// An interpolation calls a resolver that does not exist.
    #[error("unknown resolver `{0}`")]
    UnsupportedInterpolation(String),
    /// Interpolations refer to each other in a circle.
    #[error("interpolations form a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// The result of an interpolation does not fit the type its place is declared with.
    #[error("{0}")]
    InterpolationValidation(String),
    /// An interpolation fails for another reason.
    #[error("{0}")]
    InterpolationResolution(String),
    /// A mandatory value was asked for and never given.
    #[error("missing mandatory value: `{0}`")]
    MissingMandatory(String),
    /// A key does not exist where it is looked up.
    #[error("key `{0}` not found")]
    Key(String),
    /// A key may not be added, since the mapping takes only the keys it has.
    #[error("key `{key}` is not in {place}")]
    Struct {
        key: String,
        /// The struct that refuses it, such as `struct` or `JobConf`.
        place: String,
    },
    /// A key leads on through a value that holds no keys.
    #[error("`{key}` is {found}, so it cannot contain `{child}`")]
    NotContainer {
        /// The key of the value in the way.
        key: String,
        found: String,
        /// What was looked for inside.
        child: String,
    },
    /// An operation does not fit the kind of node it is applied to.
    #[error("{0}")]
    Type(String),
    /// An argument is out of its domain.
    #[error("{0}")]
    Value(String),
    /// A list index does not exist.
    #[error("list index {0} is out of range")]
    Index(String),
    #[error("cannot change a read-only config")]
    Readonly,
    /// The config is nested deeper, or its aliases grow larger, than is reasonable.
    #[error("{0}")]
    Limit(String),
}

impl ErrorKind {
    /// The exception that OmegaConf 2.3 (or PyYAML under it) raises for this kind.
    pub fn python_name(&self) -> &'static str {
        match self {
            Self::Yaml(_) => "YAMLError",
            Self::DuplicateKey(_) => "ConstructorError",
            Self::MultipleDocuments => "ComposerError",
            Self::InvalidRoot(_) => "OSError",
            Self::Grammar(_) => "GrammarParseError",
            Self::KeyType(_) => "KeyValidationError",
            Self::UnsupportedValue(_) => "UnsupportedValueType",
            Self::Validation(_) => "ValidationError",
            Self::InterpolationKey(_) => "InterpolationKeyError",
            Self::InterpolationToMissing(_) => "InterpolationToMissingValueError",
            Self::UnsupportedInterpolation(_) => "UnsupportedInterpolationType",
            Self::Cycle(_) | Self::InterpolationResolution(_) => "InterpolationResolutionError",
            Self::InterpolationValidation(_) => "InterpolationValidationError",
            Self::MissingMandatory(_) => "MissingMandatoryValue",
            Self::Key(_) => "ConfigKeyError",
            Self::Struct { .. } => "ConfigAttributeError",
            Self::NotContainer { .. } | Self::Type(_) => "ConfigTypeError",
            Self::Value(_) => "ValueError",
            Self::Index(_) => "ConfigIndexError",
            Self::Readonly => "ReadonlyConfigError",
            Self::Limit(_) => "RecursionError",
        }
    }

    /// Whether this is one of the kinds OmegaConf derives from `InterpolationResolutionError`.
    pub(crate) fn is_interpolation(&self) -> bool {
        matches!(
            self,
            Self::InterpolationKey(_)
                | Self::InterpolationToMissing(_)
                | Self::UnsupportedInterpolation(_)
                | Self::Cycle(_)
                | Self::InterpolationValidation(_)
                | Self::InterpolationResolution(_)
        )
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Details {
            kind,
            key: None,
            origin: None,
            hint: None,
        }))
    }
}

impl Error {
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The full key of the node concerned, when there is one.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Where the mistake was written, when that is known.
    pub fn origin(&self) -> Option<&SourceSpan> {
        self.0.origin.as_ref()
    }

    /// What would fix it, when that is known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The same error for a key, unless it already names one.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        if self.0.key.is_none() && !key.is_empty() {
            self.0.key = Some(key);
        }
        self
    }

    /// The same error at a place, unless it already has one.
    #[must_use]
    pub(crate) fn with_origin(mut self, origin: Option<&SourceSpan>) -> Self {
        if self.0.origin.is_none() {
            self.0.origin = origin.cloned();
        }
        self
    }

    /// The same error with a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error with the remedy "did you mean", when a candidate is near enough.
    #[must_use]
    pub(crate) fn suggesting<'a>(
        self,
        wanted: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Self {
        match nearest_name(wanted, candidates) {
            Some(near) => self.with_hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)?;
        if let Some(key) = &self.0.key {
            write!(f, " (at `{key}`)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
