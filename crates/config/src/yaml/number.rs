//! The value of a number's text, as PyYAML and Python's `int()` and `float()` read it.

use crate::int::Int;
use crate::python::parse_float;

/// The integer that YAML 1.1 text stands for; `None` where PyYAML raises.
pub(crate) fn yaml_int(text: &str) -> Option<Int> {
    let text = text.replace('_', "");
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text.as_str()),
    };
    let signed = |digits: &str, radix| Int::parse_radix(&format!("{sign}{digits}"), radix);
    if let Some(binary) = digits.strip_prefix("0b") {
        signed(binary, 2)
    } else if let Some(hex) = digits.strip_prefix("0x") {
        signed(hex, 16)
    } else if digits.starts_with('0') {
        signed(digits, 8)
    } else if digits.contains(':') {
        Int::parse_sexagesimal(&format!("{sign}{digits}"))
    } else {
        // Python refuses to read more than 4300 decimal digits.
        signed(digits, 10).filter(|value| value.digit_count() <= 4300)
    }
}

/// The float that YAML 1.1 text stands for; `None` where PyYAML raises.
pub(crate) fn yaml_float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_lowercase();
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text.as_str()),
    };
    if digits == ".inf" {
        return Some(sign * f64::INFINITY);
    }
    if digits == ".nan" {
        return Some(f64::NAN);
    }
    if digits.contains(':') {
        // Summed from the right, as PyYAML does: the order decides the last bit.
        let mut total = 0.0;
        let mut base = 1.0;
        for part in digits.rsplit(':') {
            total += parse_float(part)? * base;
            base *= 60.0;
        }
        return Some(sign * total);
    }
    Some(sign * parse_float(digits)?)
}
