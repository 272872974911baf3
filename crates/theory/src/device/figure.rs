use llmprof_units::Basis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number with where it comes from: what [`crate::device::Device`] is made of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Figure<T> {
    /// The number, in the unit of its type.
    pub value: T,
    /// How the number is known.
    pub basis: Basis,
    /// The document, with the place in it, that states the number.
    pub source: String,
}

impl<T> Figure<T> {
    /// The same figure in another unit.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Figure<U> {
        Figure {
            value: convert(self.value),
            basis: self.basis,
            source: self.source,
        }
    }
}
