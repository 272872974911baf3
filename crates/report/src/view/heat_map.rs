use super::Unit;

/// A metric over two swept keys.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    pub title: String,
    pub unit: Unit,
    /// The key of the columns and of the rows.
    pub keys: [String; 2],
    pub columns: Vec<String>,
    pub rows: Vec<String>,
    /// By row, then by column; absent where a job has no such value.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// A metric against one swept number, one line per value of the other keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    pub title: String,
    pub unit: Unit,
    /// The key along the axis.
    pub key: String,
    pub lines: Vec<PlottedCurve>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlottedCurve {
    /// Empty where there is one line.
    pub label: String,
    /// In the order of the key.
    pub points: Vec<(f64, f64)>,
}

impl Curves {
    /// Whether the key spans so much that equal ratios should be equal distances.
    pub fn is_logarithmic(&self) -> bool {
        let keys = || {
            self.lines
                .iter()
                .flat_map(|line| &line.points)
                .map(|point| point.0)
        };
        let (low, high) = (
            keys().fold(f64::INFINITY, f64::min),
            keys().fold(0.0, f64::max),
        );
        low > 0.0 && high / low >= 8.0
    }
}
