/// A text with headings, tables and lists, in the order a person reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// Its parts.
    pub blocks: Vec<Block>,
}

/// A part of a [`Document`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A heading below the title; level 1 is the highest.
    Heading(u8, String),
    /// Running text.
    Paragraph(String),
    /// Items without an order.
    List(Vec<String>),
    /// Rows under columns.
    Table(Table),
}

/// Rows under columns, all as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; a short row has empty cells at its end.
    pub rows: Vec<Vec<String>>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub header: String,
    /// On which side its cells meet.
    pub align: Align,
}

impl Column {
    /// Columns with these headers.
    pub(crate) fn all<const N: usize>(headers: [(&str, Align); N]) -> Vec<Self> {
        let column = |(header, align): (&str, Align)| Self {
            header: header.to_owned(),
            align,
        };
        headers.map(column).into()
    }
}

/// On which side cells meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

impl Document {
    /// An empty document.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    /// Adds a heading of the first level.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Heading(1, text.into()))
    }

    /// Adds running text.
    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Paragraph(text.into()))
    }

    /// Adds a list; nothing if it is empty.
    pub fn list(&mut self, items: Vec<String>) -> &mut Self {
        if items.is_empty() {
            return self;
        }
        self.push(Block::List(items))
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.push(Block::Table(table))
    }

    /// Adds a part.
    pub fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
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
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}
