//! Which type a plain scalar has under YAML 1.1, as PyYAML resolves it and as OmegaConf changed that.
//!
//! The matchers are written by hand: compiling the equivalent regular expressions would cost more
//! than reading a whole config tree.

/// A type that the text of a scalar alone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Implicit {
    Null,
    Bool,
    Int,
    Float,
    Merge,
    Value,
    Timestamp,
    Str,
}

/// The type under OmegaConf's loader: more floats than PyYAML, no timestamps.
pub(crate) fn loader_type(text: &str) -> Implicit {
    match dumper_type(text) {
        Implicit::Timestamp => Implicit::Str,
        Implicit::Str if is_omegaconf_float(text) => Implicit::Float,
        other => other,
    }
}

/// The type under PyYAML's own resolver, which decides what the dumper must quote.
pub(crate) fn dumper_type(text: &str) -> Implicit {
    let Some(&first) = text.as_bytes().first() else {
        return Implicit::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' if is_bool(text) => {
            Implicit::Bool
        }
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => Implicit::Null,
        b'~' if text == "~" => Implicit::Null,
        b'<' if text == "<<" => Implicit::Merge,
        b'=' if text == "=" => Implicit::Value,
        b'-' | b'+' | b'.' | b'0'..=b'9' => {
            if is_pyyaml_float(text) {
                Implicit::Float
            } else if is_int(text) {
                Implicit::Int
            } else if is_timestamp(text) {
                Implicit::Timestamp
            } else {
                Implicit::Str
            }
        }
        _ => Implicit::Str,
    }
}

pub(crate) fn is_bool(text: &str) -> bool {
    matches!(
        text,
        "yes"
            | "Yes"
            | "YES"
            | "no"
            | "No"
            | "NO"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
            | "on"
            | "On"
            | "ON"
            | "off"
            | "Off"
            | "OFF"
    )
}

/// Consumes the bytes of a text from the left.
#[derive(Clone, Copy)]
struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    fn eat_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        match self.0.split_first() {
            Some((&byte, rest)) if wanted(byte) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn eat_while(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let count = self.0.iter().take_while(|&&byte| wanted(byte)).count();
        self.0 = &self.0[count..];
        count
    }

    fn eat_sign(&mut self) -> bool {
        self.eat_if(|byte| matches!(byte, b'-' | b'+'))
    }

    /// `[eE][-+]?[0-9]+`, or with a sign demanded, `[eE][-+][0-9]+`; nothing is consumed on failure.
    fn eat_exponent(&mut self, sign_needed: bool) -> bool {
        let start = *self;
        if self.eat_if(|byte| matches!(byte, b'e' | b'E')) {
            let signed = self.eat_sign();
            if (signed || !sign_needed) && self.eat_while(|b| b.is_ascii_digit()) > 0 {
                return true;
            }
        }
        *self = start;
        false
    }

    /// `(?::[0-5]?[0-9])+`, greedily; false when there is none.
    fn eat_base60(&mut self) -> bool {
        let mut any = false;
        while self.0.first() == Some(&b':') {
            let digits = self.0[1..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
            let taken = match (digits, self.0.get(1)) {
                (0, _) => break,
                (1, _) | (_, Some(b'6'..=b'9')) => 1,
                _ => 2,
            };
            self.0 = &self.0[1 + taken..];
            any = true;
        }
        any
    }

    /// Digits with single underscores between them: `[0-9]+(?:_[0-9]+)*`.
    fn eat_grouped_digits(&mut self) -> bool {
        if self.eat_while(|b| b.is_ascii_digit()) == 0 {
            return false;
        }
        while self.0.first() == Some(&b'_') && self.0.get(1).is_some_and(u8::is_ascii_digit) {
            self.0 = &self.0[1..];
            self.eat_while(|b| b.is_ascii_digit());
        }
        true
    }
}

fn digit_or_underscore(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

fn is_special_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// PyYAML's float: a dot is needed, and so is the sign of an exponent.
fn is_pyyaml_float(text: &str) -> bool {
    if is_special_float(text) {
        return true;
    }
    let mut cursor = ByteCursor::new(text);
    if text.starts_with('.') {
        cursor.eat_if(|_| true);
        if !cursor.eat_if(|b| b.is_ascii_digit()) {
            return false;
        }
        cursor.eat_while(digit_or_underscore);
        cursor.eat_exponent(true);
        return cursor.is_empty();
    }
    cursor.eat_sign();
    if !cursor.eat_if(|b| b.is_ascii_digit()) {
        return false;
    }
    cursor.eat_while(digit_or_underscore);
    let base60 = cursor.eat_base60();
    if !cursor.eat_if(|b| b == b'.') {
        return false;
    }
    cursor.eat_while(digit_or_underscore);
    if !base60 {
        cursor.eat_exponent(true);
    }
    cursor.is_empty()
}

/// OmegaConf's float: the dot or the exponent's sign may be left out, underscores only group digits.
fn is_omegaconf_float(text: &str) -> bool {
    if !matches!(
        text.as_bytes().first(),
        Some(b'-' | b'+' | b'.' | b'0'..=b'9')
    ) {
        return false;
    }
    if is_special_float(text) {
        return true;
    }
    let mut cursor = ByteCursor::new(text);
    if text.starts_with('.') {
        cursor.eat_if(|_| true);
        if !cursor.eat_grouped_digits() {
            return false;
        }
        cursor.eat_exponent(true);
        return cursor.is_empty();
    }
    cursor.eat_sign();
    if !cursor.eat_grouped_digits() {
        return false;
    }
    if cursor.eat_exponent(false) {
        return cursor.is_empty();
    }
    let base60 = cursor.eat_base60();
    if !cursor.eat_if(|b| b == b'.') {
        return false;
    }
    cursor.eat_while(digit_or_underscore);
    if !base60 {
        cursor.eat_exponent(false);
    }
    cursor.is_empty()
}

fn is_int(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all = |digits: &str, wanted: fn(u8) -> bool| {
        !digits.is_empty() && digits.bytes().all(|byte| byte == b'_' || wanted(byte))
    };
    match unsigned.as_bytes() {
        [b'0'] => true,
        [b'0', b'b', ..] => all(&unsigned[2..], |b| matches!(b, b'0' | b'1')),
        [b'0', b'x', ..] => all(&unsigned[2..], |b| b.is_ascii_hexdigit()),
        [b'0', ..] => all(&unsigned[1..], |b| (b'0'..=b'7').contains(&b)),
        [b'1'..=b'9', ..] => {
            let mut cursor = ByteCursor::new(unsigned);
            cursor.eat_while(digit_or_underscore);
            cursor.eat_base60();
            cursor.is_empty()
        }
        _ => false,
    }
}

/// `YYYY-MM-DD`, or a date with a time of day.
fn is_timestamp(text: &str) -> bool {
    let mut cursor = ByteCursor::new(text);
    let digits = |cursor: &mut ByteCursor<'_>, least: usize, most: usize| {
        let count = cursor
            .0
            .iter()
            .take(most)
            .take_while(|b| b.is_ascii_digit())
            .count();
        cursor.0 = &cursor.0[count..];
        count >= least
    };
    let literal = |cursor: &mut ByteCursor<'_>, wanted: u8| cursor.eat_if(|b| b == wanted);
    if !digits(&mut cursor, 4, 4) || !literal(&mut cursor, b'-') {
        return false;
    }
    let date_only = {
        let mut date = cursor;
        digits(&mut date, 2, 2)
            && literal(&mut date, b'-')
            && digits(&mut date, 2, 2)
            && date.is_empty()
    };
    if date_only {
        return true;
    }
    if !(digits(&mut cursor, 1, 2) && literal(&mut cursor, b'-') && digits(&mut cursor, 1, 2)) {
        return false;
    }
    let separated = cursor.eat_if(|b| matches!(b, b'T' | b't'))
        || cursor.eat_while(|b| matches!(b, b' ' | b'\t')) > 0;
    if !(separated
        && digits(&mut cursor, 1, 2)
        && literal(&mut cursor, b':')
        && digits(&mut cursor, 2, 2)
        && literal(&mut cursor, b':')
        && digits(&mut cursor, 2, 2))
    {
        return false;
    }
    if literal(&mut cursor, b'.') {
        cursor.eat_while(|b| b.is_ascii_digit());
    }
    if cursor.is_empty() {
        return true;
    }
    cursor.eat_while(|b| matches!(b, b' ' | b'\t'));
    if literal(&mut cursor, b'Z') {
        return cursor.is_empty();
    }
    if !cursor.eat_sign() || !digits(&mut cursor, 1, 2) {
        return false;
    }
    if literal(&mut cursor, b':') && !digits(&mut cursor, 2, 2) {
        return false;
    }
    cursor.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dumper_knows_dates_and_the_loader_does_not() {
        for date in [
            "2001-12-14",
            "2001-12-14t21:59:43.10-05:00",
            "2001-1-1 1:00:00 Z",
        ] {
            assert_eq!(dumper_type(date), Implicit::Timestamp, "{date}");
            assert_eq!(loader_type(date), Implicit::Str, "{date}");
        }
        assert_eq!(dumper_type("2001-1-1"), Implicit::Str);
    }

    #[test]
    fn base_60_takes_at_most_two_digits() {
        assert_eq!(loader_type("1:30"), Implicit::Int);
        assert_eq!(loader_type("1:60"), Implicit::Str);
        assert_eq!(loader_type("1:6"), Implicit::Int);
        assert_eq!(loader_type("1:30.5"), Implicit::Float);
    }
}
