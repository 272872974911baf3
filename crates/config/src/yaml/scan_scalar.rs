//! Scalars: plain, quoted and block.

use super::cursor::{TextMark, is_blank_or_end, is_break};
use super::scanner::{ScanResult, YamlScanner};
use super::token::{TokenKind, YamlToken};

/// What becomes of the line breaks at the end of a block scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl YamlScanner<'_> {
    // Plain

    pub(super) fn scan_plain(&mut self) -> YamlToken {
        let start = self.cursor.mark().byte;
        let mut end = start;
        let mut text = String::new();
        let mut spaces = String::new();
        let indent = self.indent + 1;
        while self.cursor.peek() != '#' {
            let word = self.plain_word_length();
            if word == 0 {
                break;
            }
            self.key_allowed = false;
            text.push_str(&spaces);
            text.push_str(&self.cursor.rest()[..word]);
            let chars = self.cursor.rest()[..word].chars().count();
            self.cursor.skip_chars(chars);
            end = self.cursor.mark().byte;
            spaces = self.plain_spaces();
            if spaces.is_empty()
                || self.cursor.peek() == '#'
                || (!self.in_flow() && (self.cursor.column() as isize) < indent)
            {
                break;
            }
        }
        YamlToken {
            kind: TokenKind::Scalar { text, plain: true },
            span: start..end,
        }
    }

    /// How many bytes of plain text follow without a blank.
    fn plain_word_length(&self) -> usize {
        let in_flow = self.in_flow();
        let is_flow_indicator = |c| in_flow && matches!(c, ',' | '[' | ']' | '{' | '}');
        let rest = self.cursor.rest();
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map_or('\0', |&(_, next)| next);
            if is_blank_or_end(c)
                || (c == ':' && (is_blank_or_end(next) || is_flow_indicator(next)))
                || is_flow_indicator(c)
                || (in_flow && c == '?')
            {
                return at;
            }
        }
        rest.len()
    }

    /// Blanks inside plain text, folded; empty where the text must end.
    fn plain_spaces(&mut self) -> String {
        let blanks = self.cursor.take_while(|c| c == ' ');
        let Some(first) = self.cursor.line_break() else {
            return blanks.to_owned();
        };
        self.key_allowed = true;
        if self.cursor.at_document_marker() {
            return String::new();
        }
        let mut breaks = String::new();
        loop {
            if self.cursor.peek() == ' ' {
                self.cursor.next();
            } else if let Some(c) = self.cursor.line_break() {
                breaks.push(c);
                if self.cursor.at_document_marker() {
                    return String::new();
                }
            } else {
                break;
            }
        }
        fold_breaks(first, &breaks)
    }

    // Quoted

    pub(super) fn scan_quoted(&mut self) -> ScanResult<YamlToken> {
        let start = self.cursor.mark();
        let quote = self.cursor.next();
        let mut text = String::new();
        self.quoted_text(quote, start, &mut text)?;
        while self.cursor.peek() != quote {
            self.quoted_spaces(start, &mut text)?;
            self.quoted_text(quote, start, &mut text)?;
        }
        self.cursor.next();
        Ok(YamlToken {
            kind: TokenKind::Scalar { text, plain: false },
            span: start.byte..self.cursor.mark().byte,
        })
    }

    fn quoted_text(&mut self, quote: char, start: TextMark, text: &mut String) -> ScanResult<()> {
        loop {
            let run = self
                .cursor
                .take_while(|c| !matches!(c, '\'' | '"' | '\\') && !is_blank_or_end(c));
            text.push_str(run);
            match self.cursor.peek() {
                '\'' if quote == '\'' && self.cursor.peek_at(1) == '\'' => {
                    self.cursor.skip_chars(2);
                    text.push('\'');
                }
                '\\' if quote == '"' => self.scan_escape(start, text)?,
                c @ ('\'' | '"' | '\\') if c != quote => {
                    self.cursor.next();
                    text.push(c);
                }
                _ => return Ok(()),
            }
        }
    }

    fn scan_escape(&mut self, start: TextMark, text: &mut String) -> ScanResult<()> {
        let at = self.cursor.mark();
        self.cursor.next();
        let c = self.cursor.peek();
        if is_break(c) {
            self.cursor.line_break();
            let breaks = self.quoted_breaks(start)?;
            text.push_str(&breaks);
            return Ok(());
        }
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => {
                let Some(plain) = simple_escape(c) else {
                    return self.error_from("this escape is not known in YAML", at);
                };
                text.push(plain);
                self.cursor.next();
                return Ok(());
            }
        };
        self.cursor.next();
        let hex = self.cursor.rest().get(..digits).unwrap_or_default();
        let code = if hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)
        } else {
            None
        };
        let Some(decoded) = code else {
            return self.error_from(
                format!("expected a character's code in {digits} hexadecimal digits"),
                at,
            );
        };
        text.push(decoded);
        self.cursor.skip_chars(digits);
        Ok(())
    }

    fn quoted_spaces(&mut self, start: TextMark, text: &mut String) -> ScanResult<()> {
        let blanks = self.cursor.take_while(|c| matches!(c, ' ' | '\t'));
        if self.cursor.peek() == '\0' {
            return self.error_from("this quoted string is not closed", start);
        }
        match self.cursor.line_break() {
            None => text.push_str(blanks),
            Some(first) => {
                let breaks = self.quoted_breaks(start)?;
                text.push_str(&fold_breaks(first, &breaks));
            }
        }
        Ok(())
    }

    fn quoted_breaks(&mut self, start: TextMark) -> ScanResult<String> {
        let mut breaks = String::new();
        loop {
            if self.cursor.at_document_marker() {
                return self
                    .error_from("a document marker stands inside this quoted string", start);
            }
            self.cursor.take_while(|c| matches!(c, ' ' | '\t'));
            match self.cursor.line_break() {
                Some(c) => breaks.push(c),
                None => return Ok(breaks),
            }
        }
    }

    // Block

    pub(super) fn scan_block_scalar(&mut self) -> ScanResult<YamlToken> {
        let start = self.cursor.mark();
        let folded = self.cursor.next() == '>';
        let (chomp, increment) = self.block_header(start)?;
        self.skip_rest_of_line(start)?;

        let least = usize::try_from(self.indent + 1).unwrap_or(0).max(1);
        let (indent, mut breaks) = match increment {
            None => {
                let (deepest, breaks) = self.block_leading_lines();
                (least.max(deepest), breaks)
            }
            Some(increment) => {
                let indent = least + increment - 1;
                (indent, self.block_breaks(indent))
            }
        };
        let mut text = String::new();
        let mut line_break = None;
        let mut end = self.cursor.mark().byte;
        while self.cursor.column() == indent && self.cursor.peek() != '\0' {
            text.push_str(&breaks);
            let starts_blank = matches!(self.cursor.peek(), ' ' | '\t');
            text.push_str(self.cursor.take_while(|c| !is_break(c)));
            end = self.cursor.mark().byte;
            line_break = self.cursor.line_break();
            breaks = self.block_breaks(indent);
            if self.cursor.column() != indent || self.cursor.peek() == '\0' {
                break;
            }
            let goes_on = !starts_blank && !matches!(self.cursor.peek(), ' ' | '\t');
            if folded && line_break == Some('\n') && goes_on {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.extend(line_break);
            }
        }
        if chomp != Chomp::Strip {
            text.extend(line_break);
        }
        if chomp == Chomp::Keep {
            text.push_str(&breaks);
        }
        Ok(YamlToken {
            kind: TokenKind::Scalar { text, plain: false },
            span: start.byte..end,
        })
    }

    fn block_header(&mut self, start: TextMark) -> ScanResult<(Chomp, Option<usize>)> {
        let mut chomp = None;
        let mut increment = None;
        loop {
            match self.cursor.peek() {
                '+' if chomp.is_none() => chomp = Some(Chomp::Keep),
                '-' if chomp.is_none() => chomp = Some(Chomp::Strip),
                c @ '1'..='9' if increment.is_none() => {
                    increment = c.to_digit(10).map(|digit| digit as usize);
                }
                '\0' | ' ' => break,
                c if is_break(c) => break,
                _ => {
                    return self
                        .error_from("expected `+`, `-` or an indentation from 1 to 9", start);
                }
            }
            self.cursor.next();
        }
        Ok((chomp.unwrap_or(Chomp::Clip), increment))
    }

    /// Passes empty lines; returns the deepest indentation seen.
    fn block_leading_lines(&mut self) -> (usize, String) {
        let mut breaks = String::new();
        let mut deepest = 0;
        loop {
            if self.cursor.peek() == ' ' {
                self.cursor.next();
                deepest = deepest.max(self.cursor.column());
            } else if let Some(c) = self.cursor.line_break() {
                breaks.push(c);
            } else {
                return (deepest, breaks);
            }
        }
    }

    fn block_breaks(&mut self, indent: usize) -> String {
        let mut breaks = String::new();
        loop {
            while self.cursor.column() < indent && self.cursor.peek() == ' ' {
                self.cursor.next();
            }
            match self.cursor.line_break() {
                Some(c) => breaks.push(c),
                None => return breaks,
            }
        }
    }
}

/// Line folding: a single line feed is a space, further breaks stand for themselves.
fn fold_breaks(first: char, breaks: &str) -> String {
    match first {
        '\n' if breaks.is_empty() => " ".to_owned(),
        '\n' => breaks.to_owned(),
        other => format!("{other}{breaks}"),
    }
}

fn simple_escape(c: char) -> Option<char> {
    Some(match c {
        '0' => '\0',
        'a' => '\x07',
        'b' => '\x08',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\x0b',
        'f' => '\x0c',
        'r' => '\r',
        'e' => '\x1b',
        ' ' | '"' | '\\' | '/' => c,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}
