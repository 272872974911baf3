//! Hexadecimal text of bytes, as hashes are printed.

use std::fmt::Write;

/// Bytes as lower-case hexadecimal digits.
pub fn hex_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_two_digits() {
        assert_eq!(hex_text(&[0, 9, 255]), "0009ff");
    }
}
