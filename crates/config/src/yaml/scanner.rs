//! Text to tokens, by the rules of PyYAML's scanner: YAML 1.1 and PyYAML's own choices, such as
//! refusing tabs between tokens and limiting a key to one line of 1024 characters.

use std::ops::Range;

use super::cursor::{TextCursor, TextMark, is_blank_or_end, is_break};
use super::token::{TokenKind, YamlToken};

/// How deep collections may nest. Python gives up near 95 levels when it makes a config of them.
pub(super) const MAX_DEPTH: usize = 128;

/// How far a `:` may be from the start of its key.
const KEY_LENGTH: usize = 1024;

/// Why scanning stopped, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScanError {
    pub(super) message: String,
    pub(super) span: Range<usize>,
}

pub(super) type ScanResult<T> = Result<T, ScanError>;

/// Scans the whole text. After a mistake, the tokens before it are still returned.
pub(super) fn scan_text(text: &str) -> (Vec<YamlToken>, Option<ScanError>) {
    let mut scanner = YamlScanner {
        cursor: TextCursor::new(text),
        tokens: Vec::new(),
        indent: -1,
        indents: Vec::new(),
        keys: vec![None],
        key_allowed: true,
    };
    let failure = scanner.scan_stream().err();
    (scanner.tokens, failure)
}

/// A token that turns out to be a key if a `:` follows.
#[derive(Debug, Clone, Copy)]
struct PossibleKey {
    token: usize,
    /// Its column is that of its mapping, so nothing but a key can stand there.
    required: bool,
    mark: TextMark,
}

pub(super) struct YamlScanner<'a> {
    pub(super) cursor: TextCursor<'a>,
    tokens: Vec<YamlToken>,
    /// The column of the innermost block collection, -1 outside any.
    pub(super) indent: isize,
    indents: Vec<isize>,
    /// The possible key of each flow level; level 0 is the block context.
    keys: Vec<Option<PossibleKey>>,
    /// Whether a key, and in the block context a collection, may start here.
    pub(super) key_allowed: bool,
}

impl YamlScanner<'_> {
    pub(super) fn error_from<T>(
        &self,
        message: impl Into<String>,
        start: TextMark,
    ) -> ScanResult<T> {
        let here = self.cursor.mark().byte;
        let width = match self.cursor.peek() {
            '\0' => 0,
            c => c.len_utf8(),
        };
        Err(ScanError {
            message: message.into(),
            span: start.byte..(here + width).max(start.byte),
        })
    }

    fn error_here<T>(&self, message: impl Into<String>) -> ScanResult<T> {
        self.error_from(message, self.cursor.mark())
    }

    pub(super) fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    fn scan_stream(&mut self) -> ScanResult<()> {
        loop {
            self.skip_to_token();
            self.drop_stale_keys()?;
            if !self.in_flow() {
                self.unwind_indents(self.cursor.column() as isize);
            }
            let c = self.cursor.peek();
            let next = self.cursor.peek_at(1);
            match c {
                '\0' => return self.stream_end(),
                '%' if self.cursor.column() == 0 => self.directive_line()?,
                '-' | '.' if self.cursor.column() == 0 && self.cursor.at_document_marker() => {
                    self.document_marker(c)?;
                }
                '[' => self.flow_start(TokenKind::FlowSequenceStart)?,
                '{' => self.flow_start(TokenKind::FlowMappingStart)?,
                ']' => self.flow_end(TokenKind::FlowSequenceEnd)?,
                '}' => self.flow_end(TokenKind::FlowMappingEnd)?,
                ',' => {
                    self.key_allowed = true;
                    self.forget_key()?;
                    self.push_single(TokenKind::FlowEntry);
                }
                '-' if is_blank_or_end(next) => self.block_entry()?,
                '?' if self.in_flow() || is_blank_or_end(next) => self.explicit_key()?,
                ':' if self.in_flow() || is_blank_or_end(next) => self.scan_value()?,
                '*' | '&' => {
                    self.remember_key()?;
                    self.key_allowed = false;
                    let token = self.scan_anchor()?;
                    self.tokens.push(token);
                }
                '!' => {
                    self.remember_key()?;
                    self.key_allowed = false;
                    let token = self.scan_tag()?;
                    self.tokens.push(token);
                }
                '|' | '>' if !self.in_flow() => {
                    self.key_allowed = true;
                    self.forget_key()?;
                    let token = self.scan_block_scalar()?;
                    self.tokens.push(token);
                }
                '\'' | '"' => {
                    self.remember_key()?;
                    self.key_allowed = false;
                    let token = self.scan_quoted()?;
                    self.tokens.push(token);
                }
                _ if self.starts_plain(c, next) => {
                    self.remember_key()?;
                    self.key_allowed = false;
                    let token = self.scan_plain();
                    self.tokens.push(token);
                }
                '\t' => return self.error_here("a tab cannot stand between tokens; use spaces"),
                _ => return self.error_here(format!("{c:?} cannot start a value; quote it")),
            }
        }
    }

    fn starts_plain(&self, c: char, next: char) -> bool {
        match c {
            '-' => !is_blank_or_end(next),
            '?' | ':' => !self.in_flow() && !is_blank_or_end(next),
            ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`' => false,
            _ => !is_blank_or_end(c),
        }
    }

    fn skip_to_token(&mut self) {
        if self.cursor.mark().index == 0 && self.cursor.peek() == '\u{feff}' {
            self.cursor.next();
        }
        loop {
            self.cursor.take_while(|c| c == ' ');
            if self.cursor.peek() == '#' {
                self.cursor.take_while(|c| !is_break(c));
            }
            if self.cursor.line_break().is_none() {
                return;
            }
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    // Keys without `?`

    fn drop_stale_keys(&mut self) -> ScanResult<()> {
        let here = self.cursor.mark();
        for level in 0..self.keys.len() {
            if let Some(key) = self.keys[level]
                && (key.mark.line != here.line || here.index - key.mark.index > KEY_LENGTH)
            {
                if key.required {
                    return self.missing_colon(key);
                }
                self.keys[level] = None;
            }
        }
        Ok(())
    }

    fn missing_colon<T>(&self, key: PossibleKey) -> ScanResult<T> {
        let end = self
            .tokens
            .get(key.token)
            .map_or(key.mark.byte, |token| token.span.end);
        Err(ScanError {
            message: "expected `:` after this key".to_owned(),
            span: key.mark.byte..end,
        })
    }

    fn remember_key(&mut self) -> ScanResult<()> {
        if !self.key_allowed {
            return Ok(());
        }
        self.forget_key()?;
        let required = !self.in_flow() && self.indent == self.cursor.column() as isize;
        let key = PossibleKey {
            token: self.tokens.len(),
            required,
            mark: self.cursor.mark(),
        };
        if let Some(slot) = self.keys.last_mut() {
            *slot = Some(key);
        }
        Ok(())
    }

    fn forget_key(&mut self) -> ScanResult<()> {
        match self.keys.last_mut().and_then(Option::take) {
            Some(key) if key.required => self.missing_colon(key),
            _ => Ok(()),
        }
    }

    // Indentation

    fn unwind_indents(&mut self, column: isize) {
        let here = self.cursor.mark().byte;
        while self.indent > column {
            self.indent = self.indents.pop().unwrap_or(-1);
            self.tokens.push(YamlToken {
                kind: TokenKind::BlockEnd,
                span: here..here,
            });
        }
    }

    /// Opens a block collection at the column, unless one is open there.
    fn deepen_indent(&mut self, column: usize) -> bool {
        let column = column as isize;
        let deeper = self.indent < column;
        if deeper {
            self.indents.push(self.indent);
            self.indent = column;
        }
        deeper
    }

    fn open_block(&mut self, kind: TokenKind) {
        let mark = self.cursor.mark();
        if self.deepen_indent(mark.column) {
            self.tokens.push(YamlToken {
                kind,
                span: mark.byte..mark.byte,
            });
        }
    }

    // Tokens

    fn push_single(&mut self, kind: TokenKind) {
        let start = self.cursor.mark().byte;
        self.cursor.next();
        self.tokens.push(YamlToken {
            kind,
            span: start..start + 1,
        });
    }

    fn stream_end(&mut self) -> ScanResult<()> {
        self.unwind_indents(-1);
        self.forget_key()?;
        let end = self.cursor.mark().byte;
        self.tokens.push(YamlToken {
            kind: TokenKind::StreamEnd,
            span: end..end,
        });
        Ok(())
    }

    fn directive_line(&mut self) -> ScanResult<()> {
        self.unwind_for_document()?;
        let token = self.scan_directive()?;
        self.tokens.push(token);
        Ok(())
    }

    fn document_marker(&mut self, c: char) -> ScanResult<()> {
        self.unwind_for_document()?;
        let start = self.cursor.mark().byte;
        self.cursor.skip_chars(3);
        let kind = if c == '-' {
            TokenKind::DocumentStart
        } else {
            TokenKind::DocumentEnd
        };
        self.tokens.push(YamlToken {
            kind,
            span: start..start + 3,
        });
        Ok(())
    }

    fn unwind_for_document(&mut self) -> ScanResult<()> {
        if !self.in_flow() {
            self.unwind_indents(-1);
        }
        self.forget_key()?;
        self.key_allowed = false;
        Ok(())
    }

    fn flow_start(&mut self, kind: TokenKind) -> ScanResult<()> {
        self.remember_key()?;
        // Every token looks at the possible keys of all levels, so their number is bounded here
        // already; the parser refuses the same depth.
        if self.keys.len() > MAX_DEPTH {
            return self.error_here(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.keys.push(None);
        self.key_allowed = true;
        self.push_single(kind);
        Ok(())
    }

    fn flow_end(&mut self, kind: TokenKind) -> ScanResult<()> {
        self.forget_key()?;
        if !self.in_flow() {
            return self.error_here(format!("{} without its opening", kind.describe()));
        }
        self.keys.pop();
        self.key_allowed = false;
        self.push_single(kind);
        Ok(())
    }

    fn block_entry(&mut self) -> ScanResult<()> {
        if !self.in_flow() {
            if !self.key_allowed {
                return self.error_here("a list item cannot start here");
            }
            self.open_block(TokenKind::BlockSequenceStart);
        }
        self.key_allowed = true;
        self.forget_key()?;
        self.push_single(TokenKind::BlockEntry);
        Ok(())
    }

    fn explicit_key(&mut self) -> ScanResult<()> {
        if !self.in_flow() {
            if !self.key_allowed {
                return self.error_here("a key cannot start here");
            }
            self.open_block(TokenKind::BlockMappingStart);
        }
        self.key_allowed = !self.in_flow();
        self.forget_key()?;
        self.push_single(TokenKind::Key);
        Ok(())
    }

    fn scan_value(&mut self) -> ScanResult<()> {
        if let Some(key) = self.keys.last_mut().and_then(Option::take) {
            let span = key.mark.byte..key.mark.byte;
            let kind = TokenKind::Key;
            self.tokens.insert(
                key.token,
                YamlToken {
                    kind,
                    span: span.clone(),
                },
            );
            if !self.in_flow() && self.deepen_indent(key.mark.column) {
                let kind = TokenKind::BlockMappingStart;
                self.tokens.insert(key.token, YamlToken { kind, span });
            }
            self.key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.key_allowed {
                    return self
                        .error_here("`:` cannot stand here; quote the text if it is not a key");
                }
                self.open_block(TokenKind::BlockMappingStart);
            }
            self.key_allowed = !self.in_flow();
        }
        self.push_single(TokenKind::Value);
        Ok(())
    }
}
