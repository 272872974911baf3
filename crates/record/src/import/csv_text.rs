//! CSV as command-line tools print it: lines of talk before the header, rows of uneven length, an end that may be cut.

use std::borrow::Cow;

/// A table inside a tool's output.
pub(super) struct CsvText<'a> {
    pub(super) preamble: Vec<Cow<'a, str>>,
    pub(super) header: Vec<String>,
    rows: csv::Reader<&'a [u8]>,
    first_line: u64,
    ends_whole: bool,
    last_byte: Option<u8>,
}

pub(super) struct Row {
    /// Its line in the file, from 1.
    pub(super) line: u64,
    /// Its cells; text that was not UTF-8 has replacement characters.
    pub(super) cells: Vec<String>,
    /// Whether some cell was not UTF-8.
    pub(super) damaged_text: bool,
    /// Whether the file ends within or right after this row without a line break, and with which byte.
    pub(super) cut_after: Option<u8>,
}

impl<'a> CsvText<'a> {
    /// Finds the first line among the first 10,000 whose cells `is_header` accepts.
    pub(super) fn find(bytes: &'a [u8], is_header: impl Fn(&[String]) -> bool) -> Option<Self> {
        const PREAMBLE_LINES_MAX: usize = 10_000;
        // The widest page known has 2,240 columns in 150 kB; a line far beyond that is no header.
        const HEADER_MAX_BYTES: usize = 16 << 20;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut preamble = Vec::new();
        let mut rest = bytes;
        for line_number in 1..=PREAMBLE_LINES_MAX as u64 {
            if rest.is_empty() {
                return None;
            }
            let end = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            let header = if line.len() <= HEADER_MAX_BYTES {
                cells(line)
            } else {
                Vec::new()
            };
            if is_header(&header) {
                let rows = csv::ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .from_reader(after);
                return Some(Self {
                    preamble,
                    header,
                    rows,
                    first_line: line_number,
                    ends_whole: after.is_empty() || after.ends_with(b"\n"),
                    last_byte: after.last().copied(),
                });
            }
            let shown = &line[..line.len().min(HEADER_MAX_BYTES)];
            preamble.push(String::from_utf8_lossy(shown.trim_ascii_end()));
            rest = after;
        }
        None
    }

    /// The place of the column `name`.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|cell| cell == name)
    }

    /// The next row; blank lines are passed over.
    pub(super) fn next_row(&mut self) -> Option<Row> {
        let mut record = csv::ByteRecord::new();
        // Reading from memory with flexible lengths has no way to fail.
        if !self.rows.read_byte_record(&mut record).unwrap_or(false) {
            return None;
        }
        let line = record.position().map_or(0, csv::Position::line) + self.first_line;
        let mut damaged_text = false;
        let cells = record
            .iter()
            .map(|cell| {
                let text = String::from_utf8_lossy(cell);
                damaged_text |= matches!(text, Cow::Owned(_));
                text.into_owned()
            })
            .collect();
        let is_last = !self.ends_whole && self.rows.is_done();
        Some(Row {
            line,
            cells,
            damaged_text,
            cut_after: self.last_byte.filter(|_| is_last),
        })
    }
}

fn cells(line: &[u8]) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(line);
    let mut record = csv::ByteRecord::new();
    if !reader.read_byte_record(&mut record).unwrap_or(false) {
        return Vec::new();
    }
    record
        .iter()
        .map(|cell| String::from_utf8_lossy(cell).into_owned())
        .collect()
}
