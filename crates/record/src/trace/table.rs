//! The macro that makes a table: a row type and a struct of columns with the same fields.

/// Defines a row struct and a table of columns from one list of fields.
///
/// The table can push and read rows, append another table, be put in another order, and name its columns for the
/// trace file; the field list is the only place where a column is stated.
macro_rules! table {
    (
        $(#[$table_doc:meta])* $table:ident as $name:literal,
        $(#[$row_doc:meta])* $row:ident {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $row { $( $(#[$field_doc])* pub $field: $type, )* }

        $(#[$table_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $table { $( $(#[$field_doc])* pub $field: $crate::trace::column::Column<$type>, )* }

        impl $table {
            /// The name of the table in a trace file.
            pub const NAME: &'static str = $name;

            /// How many rows it has.
            pub fn len(&self) -> usize {
                let mut lengths = [$( self.$field.len(), )*].into_iter();
                lengths.next().unwrap_or(0)
            }

            /// Whether it has no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Adds a row at the end.
            pub fn push(&mut self, row: $row) {
                $( self.$field.push(row.$field); )*
            }

            /// Row `index`, gathered from the columns. Panics past the end, as a slice does.
            pub fn row(&self, index: usize) -> $row {
                $row { $( $field: self.$field[index], )* }
            }

            /// All rows in order. Loops over a few fields are faster over the columns.
            pub fn rows(&self) -> impl ExactSizeIterator<Item = $row> {
                (0..self.len()).map(|index| self.row(index))
            }

            /// Moves the rows of `other` to the end, column by column, freeing each as it goes.
            pub fn append(&mut self, mut other: Self) {
                $( self.$field.append(&mut other.$field); )*
            }

            #[allow(dead_code, reason = "frames of stacks are never reordered")]
            pub(crate) fn permute(&mut self, order: &[u32]) {
                $( self.$field.permute(order); )*
            }

            /// The columns as they lie in a file.
            pub(crate) fn columns(&self) -> Vec<$crate::trace::column::ColumnBytes<'_>> {
                vec![$( self.$field.named(stringify!($field)), )*]
            }

            /// Takes the columns from a file, checking that they have one length.
            pub(crate) fn from_columns(
                source: &$crate::trace::sections::Sections,
            ) -> Result<Self, $crate::trace::sections::TraceFileError> {
                let table = Self {
                    $( $field: source.column($name, stringify!($field))?, )*
                };
                let rows = table.len();
                $( if table.$field.len() != rows {
                    return Err(source.uneven($name, stringify!($field)));
                } )*
                Ok(table)
            }

            /// The first column with an id that its dictionary does not have.
            pub(crate) fn dangling(&self, bounds: $crate::trace::column::Bounds) -> Option<&'static str> {
                use $crate::trace::column::Element;
                $( if <$type>::dangling(&self.$field, bounds) {
                    return Some(stringify!($field));
                } )*
                None
            }
        }
    };
}

/// Defines a one-byte code with named values: an enum as it lies in a file, where a code from a newer version is
/// still a value and not undefined behaviour.
macro_rules! codes {
    ($(#[$doc:meta])* $type:ident { $( $(#[$value_doc:meta])* $name:ident = $code:literal $text:literal, )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $type(pub u8);

        impl $type {
            $( $(#[$value_doc])* pub const $name: Self = Self($code); )*

            /// The values that are defined, in the order of their codes.
            pub const ALL: &'static [Self] = &[$( Self::$name, )*];

            /// The name that exports and reports use; `unknown` for a code that is not defined.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => $text, )*
                    _ => "unknown",
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::trace::column::Element for $type {
            const TYPE: &'static str = concat!(stringify!($type), ":u8");
        }
    };
}

pub(crate) use {codes, table};
