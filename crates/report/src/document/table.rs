#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    /// A short row has empty cells at its end.
    pub rows: Vec<TableRow>,
    /// What the rows are (`kernels`), where a page sorts and filters them; empty for a plain table.
    pub noun: String,
    /// Rows that a text prints; a page has all.
    pub rows_in_text: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// The anchor that a page gives the row.
    pub key: Option<String>,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub header: String,
    pub align: Align,
}

/// On which side cells meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Sorted by letter.
    Text(String),
    /// What events are named: the label is printed; a page shows the whole name on hovering and leads to the first event of that
    /// name where its timeline has one.
    Name { label: String, full: String },
    /// What another place of the page, or another file, tells more of: `#key` or a relative path as a URL. The label is printed.
    Link { label: String, href: String },
    /// A phase by the name that timelines give it: the label is printed, and a page leads to its first interval.
    Phase { label: String, name: String },
    /// Sorted by value.
    Number { value: f64, text: String },
    /// Not known; sorted last both ways.
    Missing,
}

impl Column {
    pub(crate) fn all<'a>(headers: impl IntoIterator<Item = (&'a str, Align)>) -> Vec<Self> {
        let column = |(header, align): (&str, Align)| Self {
            header: header.to_owned(),
            align,
        };
        headers.into_iter().map(column).collect()
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            rows: Vec::new(),
            noun: String::new(),
            rows_in_text: usize::MAX,
        }
    }
}

impl Table {
    /// A table whose first `words` columns are text and whose others are numbers.
    pub fn new(headers: &[&str], words: usize) -> Self {
        let column = |(index, header): (usize, &&str)| Column {
            header: (*header).to_owned(),
            align: if index < words {
                Align::Left
            } else {
                Align::Right
            },
        };
        Self {
            columns: headers.iter().enumerate().map(column).collect(),
            ..Self::default()
        }
    }

    /// The table with these columns as text.
    #[must_use]
    pub fn with_words(mut self, headers: &[&str]) -> Self {
        for column in &mut self.columns {
            if headers.contains(&column.header.as_str()) {
                column.align = Align::Left;
            }
        }
        self
    }

    /// A table that a page sorts and filters; numbers keep their value beside their text.
    pub fn sortable(noun: &str, columns: Vec<Column>) -> Self {
        Self {
            columns,
            noun: noun.to_owned(),
            ..Self::default()
        }
    }

    pub fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        self.push(None, cells.into_iter().map(Into::into).collect())
    }

    /// Adds a row that links lead to.
    pub fn keyed<T: Into<Cell>>(
        &mut self,
        key: String,
        cells: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        self.push(Some(key), cells.into_iter().map(Into::into).collect())
    }

    pub fn push(&mut self, key: Option<String>, cells: Vec<Cell>) -> &mut Self {
        self.rows.push(TableRow { key, cells });
        self
    }

    pub fn is_sortable(&self) -> bool {
        !self.noun.is_empty()
    }

    /// The rows that a text prints.
    pub fn text_rows(&self) -> &[TableRow] {
        &self.rows[..self.rows.len().min(self.rows_in_text)]
    }

    /// The table without columns of which nothing is known in any row.
    #[must_use]
    pub fn without_empty_columns(self) -> Self {
        self.keeping(|cell| *cell != Cell::Missing && !cell.text().is_empty())
    }

    /// The table without columns that are zero in every row.
    #[must_use]
    pub fn without_zero_columns(self) -> Self {
        self.keeping(|cell| cell.text() != "0")
    }

    /// The columns of which a cell is worth its place.
    fn keeping(mut self, is_worth: impl Fn(&Cell) -> bool) -> Self {
        let known = |index: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(index));
            cells.any(&is_worth)
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
            row.cells.retain(|_| {
                index += 1;
                is_kept(index - 1)
            });
        }
        self
    }
}

impl Cell {
    pub fn number(value: f64, text: impl std::fmt::Display) -> Self {
        Self::Number {
            value,
            text: text.to_string(),
        }
    }

    /// A name of events that is printed as it is.
    pub(crate) fn event(name: &str) -> Self {
        Self::Name {
            label: name.to_owned(),
            full: name.to_owned(),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number { text, .. } => text,
            Self::Name { label, .. } | Self::Link { label, .. } | Self::Phase { label, .. } => {
                label
            }
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

    #[test]
    fn columns_without_a_value_go_and_the_others_keep_their_cells() {
        let columns = Column::all([("a", Align::Left), ("b", Align::Left), ("c", Align::Left)]);
        let mut table = Table::sortable("rows", columns);
        table.row([Cell::Missing, Cell::Missing, Cell::from("x")]);
        table.row([Cell::from("y"), Cell::Missing]);
        let table = table.without_empty_columns();
        let headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
        assert_eq!(headers, ["a", "c"]);
        assert_eq!(table.rows[0].cells, [Cell::Missing, Cell::from("x")]);
        assert_eq!(table.rows[1].cells, [Cell::from("y")]);
    }

    #[test]
    fn a_text_prints_the_first_rows() {
        let mut table = Table::new(&["a"], 1);
        table.row(["1"]).row(["2"]).row(["3"]);
        assert_eq!(table.text_rows().len(), 3);
        table.rows_in_text = 2;
        assert_eq!(table.text_rows().len(), 2);
    }
}
