use super::Unit;

/// Two bars per row: the same thing on both sides of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedBars {
    pub title: String,
    pub unit: Unit,
    /// What the first and the second bar of each row are.
    pub sides: [String; 2],
    pub rows: Vec<PairedBar>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PairedBar {
    pub label: String,
    /// Drawn from zero; a part that takes away is negative.
    pub values: [f64; 2],
}
