//! Characters onto lines: indentation, line folding at 80 columns, quoting.

use std::fmt::Write as _;

use super::analysis::is_break;

/// Past this column a space becomes a line break, where the notation allows it.
const LINE_WIDTH: usize = 80;

/// The text so far and where the pen stands. Columns count characters.
#[derive(Debug)]
pub(super) struct YamlWriter {
    out: String,
    column: usize,
    /// The last thing written was white space.
    whitespace: bool,
    /// Only indentation and indicators stand on the line so far.
    pub(super) indention: bool,
}

impl YamlWriter {
    pub(super) fn new() -> Self {
        Self {
            out: String::new(),
            column: 0,
            whitespace: true,
            indention: true,
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    fn put_text(&mut self, text: &str) {
        self.column += text.chars().count();
        self.out.push_str(text);
    }

    pub(super) fn write_indicator(&mut self, text: &str, need_space: bool, indention: bool) {
        if need_space && !self.whitespace {
            self.put_text(" ");
        }
        self.put_text(text);
        self.whitespace = false;
        self.indention &= indention;
    }

    pub(super) fn write_indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line_break('\n');
        }
        if self.column < indent {
            self.whitespace = true;
            self.put_text(&" ".repeat(indent - self.column));
        }
    }

    fn line_break(&mut self, c: char) {
        self.out.push(c);
        self.whitespace = true;
        self.indention = true;
        self.column = 0;
    }

    /// Text without quotes; a single space past the width becomes a line break.
    pub(super) fn write_plain(&mut self, text: &str, indent: usize, split: bool) {
        if text.is_empty() {
            return;
        }
        if !self.whitespace {
            self.put_text(" ");
        }
        self.whitespace = false;
        self.indention = false;
        for run in split_runs(text) {
            if run == " " && self.column > LINE_WIDTH && split {
                self.write_indent(indent);
                self.whitespace = false;
                self.indention = false;
            } else {
                self.put_text(run);
            }
        }
    }

    /// Text in single quotes: a line break is written twice, a quote too.
    pub(super) fn single_quoted(&mut self, text: &str, indent: usize, split: bool) {
        self.write_indicator("'", true, false);
        let mut at = 0;
        for run in split_runs(text) {
            let end = at + run.len();
            if run.starts_with(is_break) {
                if run.starts_with('\n') {
                    self.line_break('\n');
                }
                for c in run.chars() {
                    self.line_break(c);
                }
                self.write_indent(indent);
            } else if run == " "
                && self.column > LINE_WIDTH
                && split
                && at != 0
                && end != text.len()
            {
                self.write_indent(indent);
            } else {
                self.put_text(&run.replace('\'', "''"));
            }
            at = end;
        }
        self.write_indicator("'", false, false);
    }

    /// Text in double quotes, with escapes; long lines end in a backslash.
    pub(super) fn double_quoted(&mut self, text: &str, indent: usize, split: bool) {
        self.write_indicator("\"", true, false);
        let chars: Vec<char> = text.chars().collect();
        // Characters from `start` on are not written yet.
        let mut start = 0;
        for end in 0..=chars.len() {
            let c = chars.get(end).copied();
            if c.is_none_or(needs_escape) {
                if start < end {
                    self.put_text(&chars[start..end].iter().collect::<String>());
                    start = end;
                }
                if let Some(c) = c {
                    self.put_text(&escape_char(c));
                    start = end + 1;
                }
            }
            let foldable = 0 < end && end + 1 < chars.len() && (c == Some(' ') || start >= end);
            // An escape just written leaves `start` one past `end`, and the column one too far.
            if foldable && self.column + end > LINE_WIDTH + start && split {
                let mut pending: String = chars[start.min(end)..end].iter().collect();
                pending.push('\\');
                start = start.max(end);
                self.put_text(&pending);
                self.write_indent(indent);
                self.whitespace = false;
                self.indention = false;
                if chars.get(start) == Some(&' ') {
                    self.put_text("\\");
                }
            }
        }
        self.write_indicator("\"", false, false);
    }

    /// Text as a block after `|`.
    pub(super) fn write_literal(&mut self, text: &str, indent: usize) {
        let mut header = String::from("|");
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            header.push('2');
        }
        let mut from_end = text.chars().rev();
        if !from_end.next().is_some_and(is_break) {
            header.push('-');
        } else if from_end.next().is_none_or(is_break) {
            header.push('+');
        }
        self.write_indicator(&header, true, false);
        self.line_break('\n');
        let mut rest = text;
        while !rest.is_empty() {
            let line = rest.find(is_break).unwrap_or(rest.len());
            if line > 0 {
                self.write_indent(indent);
                self.out.push_str(&rest[..line]);
                rest = &rest[line..];
                if rest.is_empty() {
                    self.line_break('\n');
                }
            } else if let Some(c) = rest.chars().next() {
                self.line_break(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
}

fn needs_escape(c: char) -> bool {
    matches!(
        c,
        '"' | '\\' | '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
    ) || !matches!(c, '\x20'..='\x7e' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
}

fn escape_char(c: char) -> String {
    let letter = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            let mut out = String::new();
            let written = match code {
                0..=0xff => write!(out, "\\x{code:02X}"),
                0x100..=0xffff => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
            written.expect("writing to a string");
            return out;
        }
    };
    format!("\\{letter}")
}

/// Cuts text into runs of spaces, of line breaks and of anything else.
fn split_runs(text: &str) -> impl Iterator<Item = &str> {
    fn char_class(c: char) -> u8 {
        match c {
            ' ' => 0,
            c if is_break(c) => 1,
            _ => 2,
        }
    }
    let mut rest = text;
    std::iter::from_fn(move || {
        let kind = char_class(rest.chars().next()?);
        let end = rest.find(|c| char_class(c) != kind).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        rest = tail;
        Some(run)
    })
}
