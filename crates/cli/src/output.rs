//! What a command prints: data on stdout, written so that a reader who has seen enough is no error.

use std::io::{self, ErrorKind, Write};

use llmprof_record::secrets::without_known;
use llmprof_report::{Document, Table, render::terminal};
use llmprof_units::{is_order, printable};
use serde::Serialize;

pub(crate) use llmprof_report::csv_field;

use crate::failure::Failure;

pub(crate) struct Output {
    stream: Box<dyn Write>,
    /// Whether what cannot be written is a failure: what is said beside the data is not worth one.
    is_data: bool,
}

impl Output {
    /// To standard output, without colour where it is no terminal.
    pub(crate) fn stdout() -> Self {
        Self {
            stream: Box::new(io::BufWriter::new(anstream::stdout())),
            is_data: true,
        }
    }

    /// To standard error, for what is said about a command whose own output is on standard output.
    pub(crate) fn stderr() -> Self {
        Self {
            stream: Box::new(anstream::stderr()),
            is_data: false,
        }
    }

    /// Prints `text`. All that a command prints comes through here, and much of it is text of others: nothing in it is an
    /// order to the terminal, or a secret that the command was given.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let written = self
            .stream
            .write_all(printable(&without_known(text)).as_bytes())
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

    /// Prints a value for a machine.
    pub(crate) fn json<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        self.line(&ascii_controls(&text))
    }

    /// Prints rows in aligned columns.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        self.text(&terminal::table(table))
    }

    /// Prints a document as plain text.
    pub(crate) fn document(&mut self, document: &Document) -> Result<(), Failure> {
        self.text(&terminal::document(document))
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
    fn json_for_a_terminal_is_still_json() {
        let text = serde_json::to_string("a\u{9b}31m\u{7f}\u{1b}").unwrap();
        let escaped = ascii_controls(&text);
        assert!(!escaped.chars().any(is_order), "{escaped}");
        let back: String = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back, "a\u{9b}31m\u{7f}\u{1b}");
    }
}
