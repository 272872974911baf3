//! What a command prints: data on stdout, written so that a reader who has seen enough is no error.

use std::io::{self, ErrorKind, Write};

use llmprof_report::{Document, Table, render::terminal};
use serde::Serialize;

use crate::failure::Failure;

pub(crate) struct Output {
    stream: Box<dyn Write>,
}

impl Output {
    /// To standard output, without colour where it is no terminal.
    pub(crate) fn stdout() -> Self {
        Self {
            stream: Box::new(io::BufWriter::new(anstream::stdout())),
        }
    }

    /// To standard error, for what is said about a command whose own output is on standard output.
    pub(crate) fn stderr() -> Self {
        Self {
            stream: Box::new(anstream::stderr()),
        }
    }

    /// Prints `text` as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let written = self
            .stream
            .write_all(text.as_bytes())
            .and_then(|()| self.stream.flush());
        match written {
            // The reader closed the pipe (`| head`): it has what it wants.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
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
        self.line(&text)
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

/// A field of a CSV file, quoted where it must be.
pub(crate) fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
