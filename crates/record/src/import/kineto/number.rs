//! Numbers of a trace, without a detour through floats.

use super::cursor::Cursor;

/// A time in microseconds with any number of decimals as whole nanoseconds, rounded to the nearest.
///
/// `3845399305397.739` has 16 digits; a 64-bit float would keep it, but its product with 1000 is off by up to a quarter
/// of a microsecond once a wall clock is added. Nothing for text that is not a number or out of range.
#[inline]
pub(super) fn parse_nanos(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut whole: i64 = 0;
    let mut position = 0;
    while let Some(digit @ b'0'..=b'9') = digits.get(position) {
        whole = whole
            .checked_mul(10)?
            .checked_add(i64::from(digit - b'0'))?;
        position += 1;
    }
    if position == 0 {
        return None;
    }
    let mut thousandths: i64 = 0;
    if digits.get(position) == Some(&b'.') {
        let fraction = &digits[position + 1..];
        let length = fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        for place in fraction[..length].iter().chain([&b'0'; 3]).take(3) {
            thousandths = thousandths * 10 + i64::from(place - b'0');
        }
        if length > 3 && fraction[3] >= b'5' {
            thousandths += 1;
        }
        position += 1 + length;
    }
    if position < digits.len() {
        return parse_scientific(text);
    }
    let nanos = whole.checked_mul(1000)?.checked_add(thousandths)?;
    Some(if negative { -nanos } else { nanos })
}

/// Steps over a time in microseconds; the inner option is what it says.
#[expect(
    clippy::option_option,
    reason = "outside: is it JSON; inside: does it say something"
)]
#[inline]
pub(super) fn take_nanos(cursor: &mut Cursor<'_>) -> Option<Option<i64>> {
    if let Some((nanos, length)) = cursor.bytes.get(cursor.at..).and_then(as_kineto_writes) {
        cursor.at += length;
        return Some(Some(nanos));
    }
    Some(parse_nanos(strip_quotes(cursor.value()?)))
}

/// Some exporters quote their numbers: Ascend's its times.
#[inline]
pub(super) fn strip_quotes(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text)
}

/// Up to 16 digits, a point and three more, and how long they are; nothing of any other text.
#[inline]
fn as_kineto_writes(text: &[u8]) -> Option<(i64, usize)> {
    let digit = |byte: u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9);
    let mut whole = 0_i64;
    let mut length = 0;
    while let Some(digit) = text.get(length).copied().and_then(digit) {
        whole = whole.wrapping_mul(10) + i64::from(digit);
        length += 1;
        if length > 16 {
            return None;
        }
    }
    if whole >= i64::MAX / 1000 {
        return None;
    }
    let &[b'.', tenth, hundredth, thousandth, end, ..] = &text[length..] else {
        return None;
    };
    let mut nanos = whole;
    for byte in [tenth, hundredth, thousandth] {
        nanos = nanos * 10 + i64::from(digit(byte)?);
    }
    let ends = length > 0 && matches!(end, b',' | b'}' | b' ' | b'\n' | b'\r');
    ends.then_some((nanos, length + 4))
}

/// `1.5e3` as nanoseconds: the point is moved in the digits, and the plain form read.
#[cold]
fn parse_scientific(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?;
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    // Outside of this no result fits an i64, or it rounds to 0.
    if !(-40..=20).contains(&exponent) {
        return None;
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = whole.len() as i32 + exponent;
    let plain = if point <= 0 {
        format!(
            "{sign}0.{}{digits}",
            "0".repeat(point.unsigned_abs() as usize)
        )
    } else if point as usize >= digits.len() {
        format!(
            "{sign}{digits}{}",
            "0".repeat(point as usize - digits.len())
        )
    } else {
        format!(
            "{sign}{}.{}",
            &digits[..point as usize],
            &digits[point as usize..]
        )
    };
    parse_nanos(plain.as_bytes())
}

#[inline]
pub(super) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(i64::from(digit - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

/// A whole number of up to 64 bits without a sign, as addresses and graph nodes are.
#[inline]
pub(super) fn parse_unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let cases: [(&str, Option<i64>); 16] = [
            ("3845399305397.739", Some(3_845_399_305_397_739)),
            ("1794702425399305.397", Some(1_794_702_425_399_305_397)),
            ("0.864", Some(864)),
            ("0.8645", Some(865)),
            ("0.9999", Some(1000)),
            ("2.2", Some(2200)),
            ("-1.5", Some(-1500)),
            ("7", Some(7000)),
            ("1.5e3", Some(1_500_000)),
            ("15E-1", Some(1500)),
            ("-2e-3", Some(-2)),
            ("1e-9", Some(0)),
            ("NaN", None),
            ("", None),
            ("9223372036854775.808", None),
            ("1.2.3", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_nanos(text.as_bytes()), expected, "{text}");
            let quoted = format!("\"{text}\"}}");
            let taken = take_nanos(&mut Cursor::new(quoted.as_bytes()));
            assert_eq!(taken, Some(expected), "{quoted}");
            for after in [",", " }", "\n"] {
                let json = format!("{text}{after}");
                let mut cursor = Cursor::new(json.as_bytes());
                let taken = take_nanos(&mut cursor);
                assert_eq!(taken, (!text.is_empty()).then_some(expected), "{json:?}");
                if taken.is_some() {
                    assert_eq!(cursor.at, text.len(), "{json:?}");
                }
            }
        }
    }

    #[test]
    fn integers_reject_what_is_not_one() {
        assert_eq!(parse_integer(b"-12"), Some(-12));
        assert_eq!(parse_integer(b"1.0"), None);
        assert_eq!(parse_integer(b"99999999999999999999"), None);
        assert_eq!(parse_unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_unsigned(b"-1"), None);
    }
}
