use super::Unit;

/// Nested parts of a whole: each below the one that holds it, as wide as its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Icicle {
    pub title: String,
    pub unit: Unit,
    /// Outer before inner; parts of one holder in the order in which they are drawn.
    pub parts: Vec<IciclePart>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IciclePart {
    pub name: String,
    /// What a pointer shows: the whole path.
    pub path: String,
    /// How many parts hold it.
    pub depth: usize,
    /// Where it begins, in the unit of the values.
    pub start: f64,
    pub value: f64,
}
