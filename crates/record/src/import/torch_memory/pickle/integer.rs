//! Integers of any size.

/// A whole number in as few bytes of two's complement as hold it, the lowest first; zero has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Integer(Box<[u8]>);

/// The most digits of a decimal number, as in Python (`sys.int_info.default_max_str_digits`): converting more takes
/// time that grows with their square.
const MAX_DIGITS: usize = 4300;

impl Integer {
    /// From two's complement, the lowest byte first; any number of bytes that repeat the sign may follow.
    pub(super) fn from_le_bytes(bytes: &[u8]) -> Self {
        let mut length = bytes.len();
        while length > 0 {
            let sign_below = length > 1 && bytes[length - 2] & 0x80 != 0;
            match (bytes[length - 1], sign_below) {
                (0x00, false) | (0xff, true) => length -= 1,
                _ => break,
            }
        }
        Self(bytes[..length].into())
    }

    /// From decimal digits with an optional sign; `None` where they are none or too many.
    pub(super) fn from_decimal(text: &[u8]) -> Option<Self> {
        let negative = text.first() == Some(&b'-');
        let digits = text
            .strip_prefix(b"-")
            .or(text.strip_prefix(b"+"))
            .unwrap_or(text);
        if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit)
        {
            return None;
        }
        let mut magnitude: Vec<u8> = Vec::new();
        for digit in digits {
            let mut carry = u16::from(digit - b'0');
            for byte in &mut magnitude {
                let value = u16::from(*byte) * 10 + carry;
                *byte = value as u8;
                carry = value >> 8;
            }
            if carry > 0 {
                magnitude.push(carry as u8);
            }
        }
        magnitude.push(0);
        if negative {
            // −m is the complement of m, plus one.
            let mut carry = true;
            for byte in &mut magnitude {
                let (value, overflow) = (!*byte).overflowing_add(u8::from(carry));
                *byte = value;
                carry = overflow;
            }
        }
        Some(Self::from_le_bytes(&magnitude))
    }

    pub fn as_le_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a machine's integer, where it is small enough.
    pub(super) fn to_i64(&self) -> Option<i64> {
        if self.0.len() > 8 {
            return None;
        }
        let negative = self.0.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut bytes = [if negative { 0xff } else { 0 }; 8];
        bytes[..self.0.len()].copy_from_slice(&self.0);
        Some(i64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_fewest() {
        let of = |bytes: &[u8]| Integer::from_le_bytes(bytes).as_le_bytes().to_vec();
        assert_eq!(of(&[0, 0]), [] as [u8; 0]);
        assert_eq!(of(&[0xff, 0xff]), [0xff]);
        assert_eq!(of(&[0x80, 0x00, 0x00]), [0x80, 0x00]);
        assert_eq!(of(&[0x7f, 0x00]), [0x7f]);
        assert_eq!(of(&[0x7f, 0xff]), [0x7f, 0xff]);
    }

    #[test]
    fn decimals_are_read() {
        let of = |text: &str| Integer::from_decimal(text.as_bytes());
        for number in [0i64, 1, -1, 127, 128, -128, -129, 255, i64::MAX, i64::MIN] {
            assert_eq!(of(&number.to_string()).unwrap().to_i64(), Some(number));
        }
        // 2^64 = 18446744073709551616.
        let large = of("18446744073709551616").unwrap();
        assert_eq!(large.as_le_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(large.to_i64(), None);
        assert_eq!(
            of("-18446744073709551616").unwrap().as_le_bytes(),
            [0, 0, 0, 0, 0, 0, 0, 0, 0xff]
        );
        for wrong in ["", "-", "1 ", "1_0", "0x1", "--1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(of(&"9".repeat(5000)), None);
    }
}
