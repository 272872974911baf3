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

impl OperatorTable {
    /// The table without columns of which nothing is known in any row.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        let known = |index: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.any(|cell| *cell != Cell::Missing)
        };
        let kept: Vec<bool> = (0..self.columns.len()).map(known).collect();
        let is_kept = |index: usize| kept.get(index).copied().unwrap_or(false);
        let mut index = 0;
        self.columns.retain(|_| {
            index += 1;
            is_kept(index - 1)
        });
        for row in &mut self.rows {
            let mut index = 0;
            row.retain(|_| {
                index += 1;
                is_kept(index - 1)
            });
        }
        self
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Align;

    #[test]
    fn columns_without_a_value_go_and_the_others_keep_their_cells() {
        let table = OperatorTable {
            title: String::new(),
            columns: Column::all([("a", Align::Left), ("b", Align::Left), ("c", Align::Left)]),
            rows: vec![
                vec![Cell::Missing, Cell::Missing, Cell::from("x")],
                vec![Cell::from("y"), Cell::Missing],
            ],
        };
        let table = table.without_empty_columns();
        let headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
        assert_eq!(headers, ["a", "c"]);
        assert_eq!(table.rows[0], [Cell::Missing, Cell::from("x")]);
        assert_eq!(table.rows[1], [Cell::from("y")]);
    }
}
