use crate::Column;

/// Rows that a reader sorts and filters: numbers keep their value beside their text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorTable {
    /// What the rows are, in a few words: `operators`.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; a short row has empty cells at its end.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of an [`OperatorTable`].
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words, sorted by letter.
    Text(String),
    /// A number, sorted by value.
    Number {
        /// What it is sorted by.
        value: f64,
        /// What is printed.
        text: String,
    },
    /// Not known; sorted last both ways.
    Missing,
}

impl Cell {
    /// A number as `text`.
    pub fn number(value: f64, text: impl std::fmt::Display) -> Self {
        Self::Number {
            value,
            text: text.to_string(),
        }
    }

    /// What is printed.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number { text, .. } => text,
            Self::Missing => "–",
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
