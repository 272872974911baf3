//! What a command prints: data on stdout, written so that a reader who has seen enough is no error.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Write},
    path::Path,
};

use clap::builder::styling::Style;
use llmprof_record::{command_line, issue::Issue, secrets::without_known};
use llmprof_report::{
    Cell, Document, Table,
    render::{
        terminal,
        terminal_width::{self, wrap},
    },
    text::warning_lines,
};
use llmprof_units::{is_order, printable};
use serde::Serialize;

use crate::{failure::Failure, terminal_width::width_of};

const BOLD: Style = Style::new().bold();

pub(crate) struct Output {
    stream: Box<dyn Write>,
    /// Whether what cannot be written is a failure: what is said beside the data is not worth one.
    is_data: bool,
    /// The width of the terminal, where it is one.
    width: Option<usize>,
}

impl Output {
    /// To standard output, without colour where it is no terminal.
    pub(crate) fn stdout() -> Self {
        Self {
            stream: Box::new(io::BufWriter::new(anstream::stdout())),
            is_data: true,
            width: width_of(&io::stdout()),
        }
    }

    /// To standard error, for what is said about a command whose own output is on standard output.
    pub(crate) fn stderr() -> Self {
        Self {
            stream: Box::new(anstream::stderr()),
            is_data: false,
            width: width_of(&io::stderr()),
        }
    }

    /// Prints `text`. All that a command prints comes through here, and much of it is text of others: nothing in it is an
    /// order to the terminal, or a secret that the command was given.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write(&printable(&without_known(text)))
    }

    /// Writes the bytes of a file as they are: a stream that removes colours would change them.
    pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!(
                "cannot write to standard output: {error}"
            ))),
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self
            .stream
            .write_all(text.as_bytes())
            .and_then(|()| self.stream.flush());
        match written {
            // The reader closed the pipe (`| head`): it has what it wants.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(_) if !self.is_data => Ok(()),
            Err(error) => Err(Failure::new(format!(
                "cannot write to standard output: {error}"
            ))),
            Ok(()) => Ok(()),
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{line}\n"))
    }

    /// Says where the report of a run is and how its timeline is shown; the report comes last, where scripts look for it.
    pub(crate) fn report(&mut self, run: &Path) -> Result<(), Failure> {
        let shown = command_line::join_words(&[run.display().to_string()]);
        self.line(&format!("view: llmprof view {shown}"))?;
        self.line(&format!("report: {}", run.join("report.html").display()))
    }

    /// Prints a sentence: on a terminal in lines of its width.
    pub(crate) fn prose(&mut self, line: &str) -> Result<(), Failure> {
        let line = one_line(line);
        match self.width {
            Some(width) => self.line(&wrap(&line, width)),
            None => self.line(&line),
        }
    }

    /// Prints what a reader needs who reads nothing else: in bold on a terminal.
    pub(crate) fn headline(&mut self, line: &str) -> Result<(), Failure> {
        let Some(width) = self.width else {
            return self.prose(line);
        };
        let line = without_known(&one_line(line)).into_owned();
        let line = wrap(&printable(&line), width);
        self.write(&format!("{BOLD}{line}{BOLD:#}\n"))
    }

    /// Prints sentences, the first as the headline.
    pub(crate) fn summary<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), Failure> {
        let mut lines = lines.into_iter();
        if let Some(first) = lines.next() {
            self.headline(first)?;
        }
        for line in lines {
            self.prose(line)?;
        }
        Ok(())
    }

    /// Prints a value for a machine.
    pub(crate) fn json<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        self.line(&ascii_controls(&text))
    }

    /// Prints rows in aligned columns.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let table = &with_short_cells(table);
        self.text(&match self.width {
            Some(width) => terminal_width::table(table, width),
            None => terminal::table(table),
        })
    }

    /// Prints a document as plain text.
    pub(crate) fn document(&mut self, document: &Document) -> Result<(), Failure> {
        self.text(&match self.width {
            Some(width) => terminal_width::document(document, width),
            None => terminal::document(document),
        })
    }
}

/// Names of others in a line may have breaks, which would begin lines that say anything.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\t']) {
        Cow::Owned(text.replace('\n', r"\n").replace('\t', r"\t"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Characters of a cell that a terminal prints: every row is as long as the longest cell of each column.
const CELL_CHARACTERS_MAX: usize = 200;

/// A table whose cells are one line each and not too long.
fn with_short_cells(table: &Table) -> Table {
    let mut table = table.clone();
    let shorten = |cell: &mut Cell| {
        let text = one_line(cell.text());
        let short = match text.char_indices().nth(CELL_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None if matches!(text, Cow::Owned(_)) => text.into_owned(),
            None => return,
        };
        *cell = Cell::Text(short);
    };
    let cells = table.rows.iter_mut().flat_map(|row| &mut row.cells);
    cells.for_each(shorten);
    table
}

/// Says on standard error what of a result should not be trusted.
pub(crate) fn warn_of(issues: &[Issue]) {
    let mut output = Output::stderr();
    for line in warning_lines(issues) {
        // Nobody may be reading.
        let _ = output.prose(&line);
    }
}

/// A line on standard error. Nobody may be reading; that must not end what is going on.
pub(crate) fn note(line: &str) {
    let _ = Output::stderr().line(line);
}

/// JSON has the control characters below 32 escaped; others, which only stand in strings, are escaped here in its way.
fn ascii_controls(json: &str) -> String {
    if !json.chars().any(is_order) {
        return json.to_owned();
    }
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if is_order(character) {
            text += &format!("\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short_and_of_one_line() {
        let mut table = Table::new(&["NAME", "N"], 1);
        table.row(["gemm\n::error::forged".to_owned(), "1".to_owned()]);
        table.row(["é".repeat(100_000), "2".to_owned()]);
        let text = terminal::table(&with_short_cells(&table));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with(r"gemm\n::error::forged "), "{text}");
        assert!(lines[2].contains("é…") && lines[2].chars().count() < 220);
        assert_eq!(one_line("plain"), "plain");
    }

    #[test]
    fn json_for_a_terminal_is_still_json() {
        let text = serde_json::to_string("a\u{9b}31m\u{7f}\u{1b}").unwrap();
        let escaped = ascii_controls(&text);
        assert!(!escaped.chars().any(is_order), "{escaped}");
        let back: String = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back, "a\u{9b}31m\u{7f}\u{1b}");
    }
}
