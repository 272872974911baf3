//! Anchors, aliases, tags and directives.

use super::cursor::{TextMark, is_blank_or_end, is_break};
use super::scanner::{ScanResult, YamlScanner};
use super::token::{Directive, TokenKind, YamlToken};

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn is_uri(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-;/?:@&=+$,_.!~*'()[]".contains(c)
}

fn is_space_break_or_end(c: char) -> bool {
    c != '\t' && is_blank_or_end(c)
}

impl YamlScanner<'_> {
    pub(super) fn scan_anchor(&mut self) -> ScanResult<YamlToken> {
        let start = self.cursor.mark();
        let is_alias = self.cursor.next() == '*';
        let name = self.cursor.take_while(is_word).to_owned();
        let after = self.cursor.peek();
        if name.is_empty() || !(is_blank_or_end(after) || "?:,]}%@`".contains(after)) {
            return self.error_from(
                "an anchor's name has letters, digits, `-` and `_` only",
                start,
            );
        }
        let kind = if is_alias {
            TokenKind::Alias(name)
        } else {
            TokenKind::Anchor(name)
        };
        Ok(self.token_from(kind, start))
    }

    fn token_from(&self, kind: TokenKind, start: TextMark) -> YamlToken {
        YamlToken {
            kind,
            span: start.byte..self.cursor.mark().byte,
        }
    }

    pub(super) fn scan_tag(&mut self) -> ScanResult<YamlToken> {
        let start = self.cursor.mark();
        let (handle, suffix) = match self.cursor.peek_at(1) {
            '<' => {
                self.cursor.skip_chars(2);
                let uri = self.scan_uri(start)?;
                if self.cursor.next() != '>' {
                    return self.error_from("expected `>` at the end of the tag", start);
                }
                (None, uri)
            }
            c if is_blank_or_end(c) => {
                self.cursor.next();
                (None, "!".to_owned())
            }
            _ => {
                let rest = &self.cursor.rest()[1..];
                let written = rest.split(is_space_break_or_end).next().unwrap_or_default();
                let handle = if written.contains('!') {
                    self.scan_handle(start)?
                } else {
                    self.cursor.next();
                    "!".to_owned()
                };
                (Some(handle), self.scan_uri(start)?)
            }
        };
        if !is_space_break_or_end(self.cursor.peek()) {
            return self.error_from("expected a space after the tag", start);
        }
        Ok(self.token_from(TokenKind::Tag(handle, suffix), start))
    }

    /// Reads the part of a tag before its suffix: `!`, `!!` or `!name!`.
    fn scan_handle(&mut self, start: TextMark) -> ScanResult<String> {
        if self.cursor.peek() != '!' {
            return self.error_from("expected `!`", start);
        }
        self.cursor.next();
        if self.cursor.peek() == ' ' {
            return Ok("!".to_owned());
        }
        let name = self.cursor.take_while(is_word);
        if self.cursor.peek() != '!' {
            return self.error_from("expected `!` at the end of the tag's handle", start);
        }
        self.cursor.next();
        Ok(format!("!{name}!"))
    }

    fn scan_uri(&mut self, start: TextMark) -> ScanResult<String> {
        let mut uri = Vec::new();
        loop {
            uri.extend_from_slice(self.cursor.take_while(is_uri).as_bytes());
            if self.cursor.peek() != '%' {
                break;
            }
            self.cursor.next();
            let (high, low) = (self.cursor.peek(), self.cursor.peek_at(1));
            let (Some(high), Some(low)) = (high.to_digit(16), low.to_digit(16)) else {
                return self.error_from("`%` in a tag takes two hexadecimal digits", start);
            };
            self.cursor.skip_chars(2);
            uri.push((high * 16 + low) as u8);
        }
        match String::from_utf8(uri) {
            Ok(uri) if !uri.is_empty() => Ok(uri),
            _ => self.error_from("this is not a tag", start),
        }
    }

    pub(super) fn scan_directive(&mut self) -> ScanResult<YamlToken> {
        let start = self.cursor.mark();
        self.cursor.next();
        let name = self.cursor.take_while(is_word);
        if name.is_empty() || !is_space_break_or_end(self.cursor.peek()) {
            return self.error_from("this is not a directive", start);
        }
        let directive = match name {
            "YAML" => self.scan_version(start)?,
            "TAG" => {
                self.cursor.take_while(|c| c == ' ');
                let handle = self.scan_handle(start)?;
                if self.cursor.peek() != ' ' {
                    return self.error_from("expected a space after the handle", start);
                }
                self.cursor.take_while(|c| c == ' ');
                let prefix = self.scan_uri(start)?;
                if !is_space_break_or_end(self.cursor.peek()) {
                    return self.error_from("expected a space after the prefix", start);
                }
                Directive::Tag { handle, prefix }
            }
            _ => {
                self.cursor.take_while(|c| !is_break(c));
                Directive::Other
            }
        };
        let token = self.token_from(TokenKind::Directive(directive), start);
        self.skip_rest_of_line(start)?;
        Ok(token)
    }

    fn scan_version(&mut self, start: TextMark) -> ScanResult<Directive> {
        self.cursor.take_while(|c| c == ' ');
        let major = self.cursor.take_while(|c| c.is_ascii_digit());
        let dot = self.cursor.next();
        let minor = self.cursor.take_while(|c| c.is_ascii_digit());
        if major.is_empty()
            || dot != '.'
            || minor.is_empty()
            || !is_space_break_or_end(self.cursor.peek())
        {
            return self.error_from("a version is two numbers, as in `%YAML 1.1`", start);
        }
        Ok(Directive::Yaml {
            major_is_one: major.trim_start_matches('0') == "1",
        })
    }

    /// Passes spaces, a comment and the line break; anything else is a mistake.
    pub(super) fn skip_rest_of_line(&mut self, start: TextMark) -> ScanResult<()> {
        self.cursor.take_while(|c| c == ' ');
        if self.cursor.peek() == '#' {
            self.cursor.take_while(|c| !is_break(c));
        }
        match self.cursor.peek() {
            '\0' => Ok(()),
            c if is_break(c) => {
                self.cursor.line_break();
                Ok(())
            }
            _ => self.error_from("expected a comment or the end of the line", start),
        }
    }
}
