//! A position in YAML text that knows its line and column.

/// The line breaks of YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A space, a tab, a line break or the end of the text.
pub(super) fn is_blank_or_end(c: char) -> bool {
    matches!(c, '\0' | ' ' | '\t') || is_break(c)
}

/// A place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextMark {
    pub(super) byte: usize,
    /// Characters from the start of the text; PyYAML limits the length of a key in them.
    pub(super) index: usize,
    /// Number of the line, counted from 0.
    pub(super) line: usize,
    /// Characters from the start of the line.
    pub(super) column: usize,
}

/// Reads text character by character. The end of the text reads as NUL, which YAML does not allow.
#[derive(Debug, Clone)]
pub(super) struct TextCursor<'a> {
    text: &'a str,
    mark: TextMark,
}

impl<'a> TextCursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mark = TextMark {
            byte: 0,
            index: 0,
            line: 0,
            column: 0,
        };
        Self { text, mark }
    }

    pub(super) fn mark(&self) -> TextMark {
        self.mark
    }

    pub(super) fn column(&self) -> usize {
        self.mark.column
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.mark.byte..]
    }

    pub(super) fn peek(&self) -> char {
        match self.text.as_bytes().get(self.mark.byte) {
            None => '\0',
            Some(&byte) if byte.is_ascii() => char::from(byte),
            Some(_) => self.rest().chars().next().unwrap_or('\0'),
        }
    }

    /// The character `ahead` places on.
    pub(super) fn peek_at(&self, ahead: usize) -> char {
        self.rest().chars().nth(ahead).unwrap_or('\0')
    }

    pub(super) fn next(&mut self) -> char {
        let c = self.peek();
        if self.mark.byte == self.text.len() {
            return c;
        }
        self.mark.byte += c.len_utf8();
        self.mark.index += 1;
        if is_break(c) && !(c == '\r' && self.peek() == '\n') {
            self.mark.line += 1;
            self.mark.column = 0;
        } else if c != '\u{feff}' {
            self.mark.column += 1;
        }
        c
    }

    pub(super) fn skip_chars(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    /// Takes characters while they fit, and returns them.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.mark.byte;
        while self.mark.byte < self.text.len() && wanted(self.peek()) {
            self.next();
        }
        &self.text[start..self.mark.byte]
    }

    /// Takes one line break, normalized: every kind but U+2028 and U+2029 is a line feed.
    pub(super) fn line_break(&mut self) -> Option<char> {
        match self.peek() {
            '\r' => {
                self.next();
                if self.peek() == '\n' {
                    self.next();
                }
                Some('\n')
            }
            '\n' | '\u{85}' => {
                self.next();
                Some('\n')
            }
            c @ ('\u{2028}' | '\u{2029}') => {
                self.next();
                Some(c)
            }
            _ => None,
        }
    }

    /// Whether `---` or `...` stands here, followed by a blank.
    pub(super) fn at_document_marker(&self) -> bool {
        let rest = self.rest();
        (rest.starts_with("---") || rest.starts_with("...")) && is_blank_or_end(self.peek_at(3))
    }
}
