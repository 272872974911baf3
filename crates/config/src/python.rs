//! How Python writes values as text (`str`, `repr`), where that text is visible in a config.

use std::fmt::Write as _;

use crate::int::Int;

/// `repr(float)`: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (mantissa, _) = split_exponent(&shortest);
    let decimals = mantissa
        .split_once('.')
        .map_or(0, |(_, digits)| digits.len());
    // Of two shortest forms that are equally near, Python takes the even one and Rust the larger.
    let even = format!("{value:.decimals$e}");
    let scientific = if even.parse() == Ok(value) {
        even
    } else {
        shortest
    };
    let (mantissa, exponent) = split_exponent(&scientific);
    if (-4..16).contains(&exponent) {
        let decimals = (decimals as i32 - exponent).max(1) as usize;
        format!("{value:.decimals$}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

/// The mantissa and the exponent of what `{:e}` writes.
fn split_exponent(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("`{:e}` writes an exponent");
    (mantissa, exponent.parse().expect("the exponent is decimal"))
}

/// Python's `repr` of a bytes object, such as `b'a\x00'`.
pub(crate) fn bytes_repr(bytes: &[u8]) -> String {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') {
        '"'
    } else {
        '\''
    };
    let mut out = format!("b{quote}");
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ if char::from(byte) == quote => {
                out.push('\\');
                out.push(quote);
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => write!(out, "\\x{byte:02x}").expect("writing to a string"),
        }
    }
    out.push(quote);
    out
}

/// `repr(str)`: single quotes unless only those occur inside, escapes for what does not print.
pub(crate) fn str_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let written = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
                written.expect("writing to a string");
            }
        }
    }
    out.push(quote);
    out
}

/// Whether `repr` shows the character as it is. Unassigned code points, which Python also
/// escapes, are shown: that table changes with each Unicode version.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    !(c.is_control()
        || (c.is_whitespace())
        || matches!(
            u32::from(c),
            0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e
                | 0x2060..=0x206f | 0xd800..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0x0010_ffff
        ))
}

/// Zero of every run of decimal digits outside ASCII (Unicode 14, Python 3.11); ten follow each other.
const UNICODE_ZEROS: [u32; 65] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
    0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50,
    0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50,
    0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// The text as `int()` and `float()` see it: no outer whitespace, any script's digits as ASCII,
/// and underscores only between digits, which are then dropped. `None` where they do not fit.
fn normalized_number(text: &str) -> Option<String> {
    let is_space = |c: char| c.is_whitespace() || matches!(c, '\x1c'..='\x1f');
    let mut out = String::with_capacity(text.len());
    let mut previous = ' ';
    let mut chars = text.trim_matches(is_space).chars().peekable();
    while let Some(c) = chars.next() {
        let c = ascii_digit(c);
        if c == '_' {
            let next = chars.peek().copied().map_or(' ', ascii_digit);
            if !previous.is_ascii_digit() || !next.is_ascii_digit() {
                return None;
            }
        } else {
            out.push(c);
        }
        previous = c;
    }
    Some(out)
}

fn ascii_digit(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let code = u32::from(c);
    let index = UNICODE_ZEROS.partition_point(|&zero| zero <= code);
    match index.checked_sub(1).map(|i| code - UNICODE_ZEROS[i]) {
        Some(digit @ 0..=9) => char::from_digit(digit, 10).expect("a digit below ten"),
        _ => c,
    }
}

/// `int(text)`; `None` where Python raises `ValueError`.
pub(crate) fn parse_int(text: &str) -> Option<Int> {
    let text = normalized_number(text)?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
    (!digits.is_empty() && digits.len() <= 4300 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| Int::parse(&text))
        .flatten()
}

/// `float(text)`; `None` where Python raises `ValueError`.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    // Rust reads the same forms as Python (`inf`, `infinity`, `nan`, `1.`, `.5`, `1e5`), in any case.
    normalized_number(text)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_shows_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (5e-324, "5e-324"),
            (123_456_789.123, "123456789.123"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }

    #[test]
    fn strings_as_python_shows_them() {
        assert_eq!(str_repr("a'b"), "\"a'b\"");
        assert_eq!(str_repr("a'\"b"), "'a\\'\"b'");
        assert_eq!(str_repr("é\u{7f}\n"), "'é\\x7f\\n'");
        assert_eq!(bytes_repr(b"a\x00'"), "b\"a\\x00'\"");
    }
}
