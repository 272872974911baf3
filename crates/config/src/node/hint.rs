//! Types that a node may be bound to. Only Hydra's own `hydra.*` tree is typed; user files are not.

use std::sync::Arc;

use crate::node::Node;

/// What a node may hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hint {
    /// The type of the value.
    pub kind: HintKind,
    pub optional: bool,
}

/// The type part of a [`Hint`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HintKind {
    /// Anything; the type of every node in a user's file.
    Any,
    /// An integer; strings with digits are converted.
    Int,
    /// A boolean; `on`, `yes`, `1` and the like are converted.
    Bool,
    /// A string; other scalars are converted.
    Str,
    /// One of the names of an enumeration.
    Enum(&'static EnumType),
    /// A list whose elements have one type.
    List(Arc<Hint>),
    /// A mapping with string keys whose values have one type.
    Dict(Arc<Hint>),
    /// A mapping with declared fields.
    Struct(Arc<StructType>),
}

/// An enumeration of a typed config, such as Hydra's `RunMode`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EnumType {
    /// The class name, as `str()` of a member shows it (`RunMode.RUN`).
    pub name: &'static str,
    /// Member names with their integer values.
    pub members: &'static [(&'static str, i64)],
}

/// A mapping with declared fields, such as Hydra's `JobConf`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructType {
    /// The class name shown in errors.
    pub name: &'static str,
    /// Fields with their defaults; each default carries its own hint.
    pub fields: Vec<(&'static str, Node)>,
}

impl Hint {
    /// A type that does not allow null.
    pub(crate) fn required(kind: HintKind) -> Self {
        Self {
            kind,
            optional: false,
        }
    }

    /// A type that allows null.
    pub(crate) fn optional(kind: HintKind) -> Self {
        Self {
            kind,
            optional: true,
        }
    }

    /// The type of an untyped node.
    pub(crate) fn any() -> Self {
        Self::optional(HintKind::Any)
    }

    /// Whether a node of this type is a mapping even while null, missing or an interpolation.
    pub(crate) fn is_dict(&self) -> bool {
        matches!(self.kind, HintKind::Dict(_) | HintKind::Struct(_))
    }

    /// Whether a node of this type is a list even while null, missing or an interpolation.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, HintKind::List(_))
    }

    /// The type as OmegaConf writes it in messages (`Optional[int]`, `Dict[str, Any]`).
    pub(crate) fn describe(&self) -> String {
        let inner = match &self.kind {
            HintKind::Any => return "Any".to_owned(),
            HintKind::Int => "int".to_owned(),
            HintKind::Bool => "bool".to_owned(),
            HintKind::Str => "str".to_owned(),
            HintKind::Enum(kind) => kind.name.to_owned(),
            HintKind::List(element) => format!("List[{}]", element.describe()),
            HintKind::Dict(element) => format!("Dict[str, {}]", element.describe()),
            HintKind::Struct(kind) => kind.name.to_owned(),
        };
        if self.optional {
            format!("Optional[{inner}]")
        } else {
            inner
        }
    }
}
