//! `!!binary` data: base64 as Python's `base64` module reads and writes it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes leniently: other characters are skipped, data after padding is ignored.
///
/// `None` for text outside ASCII, or where the padding does not fit.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0_u32;
    let mut position = 0;
    let mut pads = 0;
    for byte in text.bytes() {
        if byte == b'=' {
            if position >= 2 {
                pads += 1;
                if position + pads >= 4 {
                    return Some(out);
                }
            }
            continue;
        }
        let Some(six) = ALPHABET.iter().position(|&letter| letter == byte) else {
            continue;
        };
        pads = 0;
        bits = bits << 6 | six as u32;
        position += 1;
        match position {
            2 => out.push((bits >> 4) as u8),
            3 => out.push((bits >> 2) as u8),
            4 => {
                out.push(bits as u8);
                position = 0;
                bits = 0;
            }
            _ => {}
        }
    }
    (position == 0).then_some(out)
}

/// Encodes in lines of 76 characters, each with its line break.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 8);
    for line in bytes.chunks(57) {
        for group in line.chunks(3) {
            let word = group
                .iter()
                .fold(0_u32, |word, &byte| word << 8 | u32::from(byte))
                << (8 * (3 - group.len()));
            for i in 0..4 {
                if i <= group.len() {
                    let six = word >> (18 - 6 * i) & 63;
                    out.push(char::from(ALPHABET[six as usize]));
                } else {
                    out.push('=');
                }
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 % 256) as u8).collect();
            assert_eq!(decode_base64(&encode_base64(&bytes)), Some(bytes));
        }
        assert_eq!(decode_base64("aGk"), None);
        assert_eq!(decode_base64("a G\nk="), Some(b"hi".to_vec()));
    }
}
