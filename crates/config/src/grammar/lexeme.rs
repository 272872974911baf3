//! The lexemes that both grammars share: numbers, words, escapes and blanks.
//!
//! Each function takes the rest of the input and returns how many bytes its lexeme takes, 0 for none. Lexing is by
//! longest match, and among equal lengths the first kind in [`Plain`]'s order wins; that is what makes `inf` a float
//! and `infx` a word.

/// A lexeme that may be part of an unquoted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// `1.5`, `.5`, `1e3`, `inf`, `nan`.
    Float,
    /// Digits with a sign and underscores: `10`, `-1_000`; not `010`.
    Int,
    Bool,
    Null,
    /// One of `/ - \ + . $ % * @ ? |`.
    Symbol,
    /// A word of letters, digits, `_` and `-` that does not start with a digit or `-`.
    Id,
    /// One or more backslash escapes.
    Escape,
    Blank,
}

/// The lexeme at the start of `rest` and its length.
pub(super) fn plain_lexeme(rest: &str) -> Option<(Plain, usize)> {
    let bytes = rest.as_bytes();
    let candidates = [
        (Plain::Float, float_len(bytes)),
        (Plain::Int, int_len(bytes)),
        (
            Plain::Bool,
            word_len(bytes, b"true").max(word_len(bytes, b"false")),
        ),
        (Plain::Null, word_len(bytes, b"null")),
        (Plain::Symbol, symbol_len(bytes)),
        (Plain::Id, id_len(bytes)),
        (Plain::Escape, escapes_len(bytes)),
        (Plain::Blank, blanks_len(bytes)),
    ];
    let mut best = None;
    for (kind, length) in candidates {
        if length > best.map_or(0, |(_, longest)| longest) {
            best = Some((kind, length));
        }
    }
    best
}

pub(super) fn blanks_len(rest: &[u8]) -> usize {
    leading_count(rest, |b| matches!(b, b' ' | b'\t'))
}

/// A word: a letter or `_`, then letters, digits, `_` and `-`.
pub(super) fn id_len(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b) if b.is_ascii_alphabetic() || *b == b'_' => leading_count(rest, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')
        }),
        _ => 0,
    }
}

/// `0`, or digits that do not start with 0, with single underscores between them.
pub(super) fn unsigned_len(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'0') => 1,
        _ => digits_len(rest),
    }
}

/// How many bytes from the start satisfy `accept`.
pub(super) fn leading_count(rest: &[u8], accept: impl Fn(u8) -> bool) -> usize {
    rest.iter().take_while(|&&b| accept(b)).count()
}

/// The text of an [`Plain::Escape`] lexeme, or of any run of pairs, without the escaping backslashes.
pub(super) fn unescape_pairs(text: &str) -> String {
    text.chars().skip(1).step_by(2).collect()
}

fn digits_len(rest: &[u8]) -> usize {
    let mut end = 0;
    while let Some(b) = rest.get(end) {
        if b.is_ascii_digit() {
            end += 1;
        } else if *b == b'_' && end > 0 && rest.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end += 2;
        } else {
            break;
        }
    }
    end
}

fn sign_len(rest: &[u8]) -> usize {
    usize::from(matches!(rest.first(), Some(b'+' | b'-')))
}

fn int_len(rest: &[u8]) -> usize {
    let sign = sign_len(rest);
    match unsigned_len(&rest[sign..]) {
        0 => 0,
        length => sign + length,
    }
}

fn float_len(rest: &[u8]) -> usize {
    let sign = sign_len(rest);
    let rest = &rest[sign..];
    let special = word_len(rest, b"inf").max(word_len(rest, b"nan"));
    match special.max(decimal_len(rest)) {
        0 => 0,
        length => sign + length,
    }
}

/// A float without sign: it has a point, an exponent, or both.
fn decimal_len(rest: &[u8]) -> usize {
    let whole = unsigned_len(rest);
    let mantissa = if rest.get(whole) == Some(&b'.') {
        match (whole, digits_len(&rest[whole + 1..])) {
            (0, 0) => return 0,
            (_, fraction) => whole + 1 + fraction,
        }
    } else {
        whole
    };
    let exponent = match rest.get(mantissa) {
        Some(b'e' | b'E') if mantissa > 0 => {
            let sign = sign_len(&rest[mantissa + 1..]);
            match digits_len(&rest[mantissa + 1 + sign..]) {
                0 => 0,
                length => 1 + sign + length,
            }
        }
        _ => 0,
    };
    if mantissa == whole && exponent == 0 {
        0
    } else {
        mantissa + exponent
    }
}

fn word_len(rest: &[u8], word: &[u8]) -> usize {
    match rest.get(..word.len()) {
        Some(start) if start.eq_ignore_ascii_case(word) => word.len(),
        _ => 0,
    }
}

fn symbol_len(rest: &[u8]) -> usize {
    usize::from(rest.first().is_some_and(|b| b"/-\\+.$%*@?|".contains(b)))
}

fn escapes_len(rest: &[u8]) -> usize {
    let pair =
        |pair: &&[u8]| matches!(pair, [b'\\', escaped] if b"\\()[]{}:=, \t".contains(escaped));
    2 * rest.chunks(2).take_while(pair).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_match_then_order() {
        for (text, kind, length) in [
            ("inf", Plain::Float, 3),
            ("infx", Plain::Id, 4),
            ("nan-1", Plain::Id, 5),
            ("-inf", Plain::Float, 4),
            ("-a", Plain::Symbol, 1),
            ("010", Plain::Int, 1),
            ("1_000_", Plain::Int, 5),
            ("1.", Plain::Float, 2),
            ("1.e5", Plain::Float, 4),
            (".5.3", Plain::Float, 2),
            ("1e", Plain::Int, 1),
            ("1e+", Plain::Int, 1),
            ("..", Plain::Symbol, 1),
            ("1e1_0x", Plain::Float, 5),
            ("nullable", Plain::Id, 8),
            ("\\\\\\,x", Plain::Escape, 4),
            ("\\x", Plain::Symbol, 1),
        ] {
            assert_eq!(plain_lexeme(text), Some((kind, length)), "{text}");
        }
        assert_eq!(plain_lexeme("é"), None);
    }
}
