//! A cursor over JSON that may be broken in the ways Kineto breaks it.
//!
//! It does not build values: it steps over them and hands out slices of the input. Kineto is known to write quotes
//! and control characters inside strings without escaping them (pytorch#113001, pytorch#130622); a string therefore
//! ends at a quote after which the text can go on as JSON, not at the first quote.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::word;

/// A position in a piece of JSON text.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// How many strings had quotes or control characters that should have been escaped.
    pub(super) repaired: u64,
}

/// The inside of a JSON string as it stands in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

/// How far a string with a stray quote is followed for its true end.
const REPAIR_REACH: usize = 8 << 10;

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            repaired: 0,
        }
    }

    /// The byte under the cursor; 0 at the end, which no valid JSON has.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Steps over `byte` and the space before it.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        (self.peek() == byte).then(|| self.at += 1)
    }

    /// Steps over a key and its colon.
    #[inline]
    pub(super) fn key(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let rest = self.bytes.get(self.at..)?;
        let (key, after) = rest.split_at(word::bytes_until(rest, [b'"', b'\\', b'\n', 0]));
        self.at += key.len();
        // As Kineto writes it.
        if let [b'"', b':', b' ', next, ..] = after
            && *next > b' '
        {
            self.at += 3;
            return Some(key);
        }
        self.take(b'"')?;
        self.take(b':')?;
        self.skip_space();
        Some(key)
    }

    /// Steps over a whole number without a sign, of no more than 18 digits; stays at anything else.
    #[inline]
    pub(super) fn digits(&mut self) -> Option<u64> {
        let rest = self.bytes.get(self.at..)?;
        let mut value = 0_u64;
        for (length, &byte) in rest.iter().enumerate().take(19) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                let ends = length > 0 && matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r');
                return ends.then(|| {
                    self.at += length;
                    value
                });
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        None
    }

    /// Steps over a string value, the cursor being at its quote.
    #[inline]
    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        if self.peek() != b'"' {
            return None;
        }
        self.at += 1;
        let begin = self.at;
        let mut escaped = false;
        loop {
            let Some(length) = self.bytes.get(self.at..).and_then(quote_or_escape) else {
                return self.break_off();
            };
            let position = self.at + length;
            if self.bytes[position] == b'\\' {
                escaped = true;
                self.at = position + 2;
                continue;
            }
            self.at = position + 1;
            if !self.may_follow_string() {
                let Some(end) = self.true_end(position) else {
                    return self.break_off_within(position + REPAIR_REACH);
                };
                self.at = end + 1;
                self.repaired += 1;
                escaped |= memchr(b'\\', &self.bytes[begin..self.at - 1]).is_some();
            }
            return Some(Text {
                raw: &self.bytes[begin..self.at - 1],
                escaped,
            });
        }
    }

    /// Goes to the end: what is there is the beginning of something longer.
    #[cold]
    fn break_off<T>(&mut self) -> Option<T> {
        self.at = self.bytes.len();
        None
    }

    /// The same where the end is nearer than `reach`.
    #[cold]
    fn break_off_within<T>(&mut self, reach: usize) -> Option<T> {
        if reach >= self.bytes.len() {
            self.at = self.bytes.len();
        }
        None
    }

    /// Whether what follows a closing quote can follow a value.
    #[inline]
    fn may_follow_string(&self) -> bool {
        let mut ahead = self.at;
        loop {
            match self.bytes.get(ahead) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => ahead += 1,
                Some(b',' | b'}' | b']') | None => return true,
                Some(_) => return false,
            }
        }
    }

    /// The quote that ends a string which has a stray quote at `stray`: the next one after which comes another key, or
    /// the end of the object.
    #[cold]
    fn true_end(&self, stray: usize) -> Option<usize> {
        let reach = self.bytes.len().min(stray + REPAIR_REACH);
        let mut from = stray + 1;
        loop {
            let position = from + memchr2(b'"', b'\\', self.bytes.get(from..reach)?)?;
            if self.bytes[position] == b'\\' {
                from = position + 2;
                continue;
            }
            let mut ahead = Self {
                at: position + 1,
                ..self.clone()
            };
            ahead.skip_space();
            let ends = match ahead.peek() {
                b',' => {
                    ahead.at += 1;
                    ahead.key().is_some()
                }
                b'}' => {
                    ahead.at += 1;
                    ahead.skip_space();
                    ahead.at_end() || matches!(ahead.peek(), b',' | b'}' | b']')
                }
                _ => false,
            };
            if ends {
                return Some(position);
            }
            from = position + 1;
        }
    }

    /// Steps over any value and returns its text.
    #[inline]
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        match self.peek() {
            b'"' => {
                self.text()?;
            }
            b'[' | b'{' => self.nested()?,
            _ => {
                self.scalar()?;
            }
        }
        Some(&self.bytes[begin..self.at])
    }

    /// Steps over a number, `true`, `false`, `null`, or what stands in their place.
    #[inline]
    pub(super) fn scalar(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        while !matches!(
            self.peek(),
            b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b'"' | b':' | 0
        ) {
            self.at += 1;
        }
        (self.at > begin).then(|| &self.bytes[begin..self.at])
    }

    /// Steps over a list or an object. Counts brackets of both kinds alike: which closes which does not matter for
    /// finding the end.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at)? {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                b'"' => {
                    self.inner_text()?;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Steps over a string inside a list or object, where a colon may follow too.
    #[inline]
    fn inner_text(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            let Some(length) = self.bytes.get(self.at..).and_then(quote_or_escape) else {
                return self.break_off();
            };
            self.at += length;
            if self.bytes[self.at] == b'\\' {
                self.at += 2;
                continue;
            }
            self.at += 1;
            // Mostly without space in between.
            if !matches!(self.peek(), b',' | b']' | b':' | b'}') {
                self.skip_space();
            }
            if matches!(self.peek(), b',' | b']' | b':' | b'}') {
                return Some(());
            }
            // A quote in the middle: the string goes on.
            self.repaired += 1;
        }
    }
}

/// Where the first quote or backslash is. Most texts are short: a call costs more than looking at them.
#[inline]
fn quote_or_escape(rest: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    if rest.len() > SHORT {
        let length = word::bytes_until(&rest[..SHORT], [b'"', b'\\']);
        if length < SHORT {
            return Some(length);
        }
        return memchr2(b'"', b'\\', &rest[SHORT..]).map(|length| SHORT + length);
    }
    memchr2(b'"', b'\\', rest)
}

impl<'a> Text<'a> {
    /// The string itself, and whether it was valid UTF-8.
    pub(super) fn decode(self) -> (Cow<'a, str>, bool) {
        let lossy = String::from_utf8_lossy(self.raw);
        let valid = matches!(lossy, Cow::Borrowed(_));
        if self.escaped {
            (Cow::Owned(unescape(&lossy)), valid)
        } else {
            (lossy, valid)
        }
    }
}

/// Resolves the escapes of JSON. One that JSON does not have stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(slash) = rest.find('\\') {
        out.push_str(&rest[..slash]);
        rest = &rest[slash + 1..];
        let mut characters = rest.chars();
        let plain = match characters.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(same @ ('"' | '\\' | '/')) => same,
            Some('u') => {
                let (decoded, after) = unicode_escape(&rest[1..]);
                out.push(decoded);
                rest = after;
                continue;
            }
            Some(other) => {
                out.push('\\');
                other
            }
            None => '\\',
        };
        out.push(plain);
        rest = characters.as_str();
    }
    out.push_str(rest);
    out
}

/// The character of `XXXX` (or of a pair of surrogates) and what follows it.
fn unicode_escape(text: &str) -> (char, &str) {
    let unit = |text: &str| {
        text.get(..4)
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let Some(first) = unit(text) else {
        return (char::REPLACEMENT_CHARACTER, text);
    };
    let after = &text[4..];
    let second = after.strip_prefix("\\u").and_then(unit);
    let pair = second.map(|second| [first, second]);
    if let Some(pair) = pair
        && let Some(Ok(decoded)) = char::decode_utf16(pair).next()
        && decoded.len_utf16() == 2
    {
        return (decoded, &after[6..]);
    }
    let single = char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER);
    (single, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Option<(String, u64, usize)> {
        let mut cursor = Cursor::new(json.as_bytes());
        let text = cursor.text()?;
        Some((text.decode().0.into_owned(), cursor.repaired, cursor.at))
    }

    #[test]
    fn strings_end_where_json_can_go_on() {
        assert_eq!(text(r#""mm", "pid": 1"#), Some(("mm".into(), 0, 4)));
        assert_eq!(
            text(r#""f("a", "b")", "pid": 1"#),
            Some((r#"f("a", "b")"#.into(), 1, 13))
        );
        assert_eq!(
            text(r#""f({"a"})"}, {"#),
            Some((r#"f({"a"})"#.into(), 1, 10))
        );
        assert_eq!(
            text("\"two\nlines\", \"pid\": 1"),
            Some(("two\nlines".into(), 0, 11))
        );
        assert_eq!(text(r#""never ends"#), None);
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(
            text(r#""a\"b\\c\u00e9\ud83d\ude00\q""#).map(|t| t.0),
            Some("a\"b\\cé😀\\q".into())
        );
        assert_eq!(text(r#""\ud83d!""#).map(|t| t.0), Some("\u{fffd}!".into()));
        assert_eq!(text(r#""\u12""#).map(|t| t.0), Some("\u{fffd}12".into()));
    }

    #[test]
    fn values_are_stepped_over_whole() {
        for value in [
            "[[1, 2], [], [[3]]]",
            r#"["a]", "b\"]", ""]"#,
            r#"["a "quoted" word", ""]"#,
            r#"{"x": [1, {"y": "}"}]}"#,
            "-1.5e9",
            "null",
        ] {
            let json = format!("{value}, \"next\": 1");
            let mut cursor = Cursor::new(json.as_bytes());
            assert_eq!(cursor.value(), Some(value.as_bytes()));
        }
    }
}
