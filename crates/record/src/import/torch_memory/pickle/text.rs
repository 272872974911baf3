//! The two ways in which old protocols write text as a line.

use std::borrow::Cow;

/// Text as Python's `raw-unicode-escape` writes it: Latin-1, with `\uXXXX` and `\UXXXXXXXX` for the rest; `None` where
/// an escape is none.
pub(super) fn raw_unicode_escape(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut position = 0;
    while position < line.len() {
        let digits = match line[position..] {
            [b'\\', b'u', ..] => 4,
            [b'\\', b'U', ..] => 8,
            _ => {
                text.push(char::from(line[position]));
                position += 1;
                continue;
            }
        };
        let hex = line.get(position + 2..position + 2 + digits)?;
        let hex = std::str::from_utf8(hex)
            .ok()
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let code = u32::from_str_radix(hex, 16).ok()?;
        // Half of a surrogate pair is no character; Python would keep it.
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        position += 2 + digits;
    }
    Some(text)
}

/// A quoted string with backslash escapes, as Python 2 printed it; `None` where it is not, or not ASCII.
pub(super) fn quoted(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii_end();
    let ([b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"']) = line else {
        return None;
    };
    let mut bytes = inner.iter().copied();
    let mut text = String::new();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?].map(char::from);
                    let digit = |digit: char| digit.to_digit(16).map(|digit| digit as u8);
                    digit(digits[0])? * 16 + digit(digits[1])?
                }
                escaped @ (b'\\' | b'\'' | b'"') => escaped,
                _ => return None,
            },
            byte => byte,
        };
        text.push(char::from(byte).is_ascii().then_some(char::from(byte))?);
    }
    Some(text)
}

/// Text of newer protocols: UTF-8, in which Python may write halves of surrogate pairs, which are no characters.
pub(super) fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            raw_unicode_escape(b"a\\u00e9\\U0001f600\xe9\\n").unwrap(),
            "aé😀é\\n"
        );
        assert_eq!(raw_unicode_escape(b"\\ud800").unwrap(), "\u{fffd}");
        assert_eq!(raw_unicode_escape(b"\\u12"), None);
        assert_eq!(raw_unicode_escape(b"\\u+123"), None);
        assert_eq!(quoted(b"'a\\'\\x41\\n'").unwrap(), "a'A\n");
        for wrong in [
            &b"'a"[..],
            b"'",
            b"a",
            b"'\\q'",
            b"'\\x4'",
            b"'\xe9'",
            b"'\\xe9'",
        ] {
            assert_eq!(quoted(wrong), None, "{wrong:?}");
        }
    }
}
