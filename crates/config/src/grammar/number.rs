//! Numbers read from text as Python's `int()` and `float()` read it.

use super::{GrammarError, TextSpan};
use crate::int::Int;

/// Python refuses to convert longer integers, since the time grows with the square of the length.
pub(super) const MAX_INT_DIGITS: usize = 4300;

/// The value of a token that the lexer took for an integer.
pub(super) fn int_of_token(text: &str, span: TextSpan) -> Result<Int, GrammarError> {
    int_from_text(text).ok_or_else(|| GrammarError::IntegerTooLong {
        digits: text.bytes().filter(u8::is_ascii_digit).count(),
        span,
    })
}

/// The value of a token that the lexer took for a float.
pub(super) fn float_of_token(text: &str) -> f64 {
    float_from_text(text).expect("the lexer accepts only what Python reads")
}

/// `int(text)`: blanks around, a sign, ASCII digits with single underscores between.
pub(super) fn int_from_text(text: &str) -> Option<Int> {
    let text = strip_whitespace(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = without_underscores(digits)?;
    let fits = (1..=MAX_INT_DIGITS).contains(&plain.len());
    if !fits || !plain.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Int::parse(text)
}

/// `float(text)`: also `inf`, `infinity` and `nan`, in any case.
pub(super) fn float_from_text(text: &str) -> Option<f64> {
    without_underscores(strip_whitespace(text))?.parse().ok()
}

/// `int(value)`: towards zero; nothing for `inf` and `nan`.
pub(super) fn int_from_float(value: f64) -> Option<Int> {
    if value.is_finite() {
        Int::parse(&format!("{:.0}", value.trunc()))
    } else {
        None
    }
}

/// Underscores only count as separators between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let separates = |at: usize| {
        at > 0
            && bytes[at - 1].is_ascii_digit()
            && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
    };
    text.char_indices()
        .all(|(at, c)| c != '_' || separates(at))
        .then(|| text.replace('_', ""))
}

/// `str.strip()`, which also takes the four ASCII separators.
fn strip_whitespace(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_reads_them() {
        assert_eq!(int_from_text(" +0_07 "), Some(Int::from(7_i64)));
        for bad in ["", "-", "1__0", "_1", "1_", "0x1", "1.0", "+-1"] {
            assert_eq!(int_from_text(bad), None, "{bad}");
        }
        assert_eq!(float_from_text("1_0.5e1_0"), Some(10.5e10));
        assert_eq!(float_from_text("-Infinity"), Some(f64::NEG_INFINITY));
        for bad in ["", ".", "e5", "1_.5", "0x1p3"] {
            assert_eq!(float_from_text(bad), None, "{bad}");
        }
        assert_eq!(int_from_float(-2.9), Some(Int::from(-2_i64)));
        assert_eq!(int_from_float(f64::NAN), None);
    }
}
