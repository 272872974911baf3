//! What a command prints: data on stdout, written so that a reader who has seen enough is no error.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Where data goes.
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

    /// Prints one line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{line}\n"))
    }

    /// Prints a value for a machine.
    pub(crate) fn json<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        self.line(&text)
    }

    /// Prints rows under headers in aligned columns; those after the first `text_columns` hold numbers and end together.
    pub(crate) fn table(
        &mut self,
        headers: &[&str],
        text_columns: usize,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Result<(), Failure> {
        let headers = headers.iter().map(|&header| header.to_owned()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(headers).chain(rows).collect();
        let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells = line
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if column < text_columns {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        self.text(&text)
    }
}
