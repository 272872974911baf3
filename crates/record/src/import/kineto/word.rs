//! Search for bytes, eight at a time.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// How many bytes come before the first that is one of `ends`; all where none is.
#[inline]
pub(super) fn bytes_until<const N: usize>(bytes: &[u8], ends: [u8; N]) -> usize {
    let mut from = 0;
    while let Some(word) = bytes[from..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        // A byte that is wrongly marked comes after one that is rightly marked, so the first is right.
        let marked = ends
            .iter()
            .fold(0, |all, &end| all | equal_bytes(word, end));
        if marked != 0 {
            return from + marked.trailing_zeros() as usize / 8;
        }
        from += 8;
    }
    let rest = bytes[from..].iter();
    from + rest.take_while(|byte| !ends.contains(byte)).count()
}

/// The highest bit of each byte that equals `byte`, and perhaps of bytes after such a one (Hacker's Delight, 2nd edition, 6-1).
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let zero_where_equal = word ^ (ONES * u64::from(byte));
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & HIGHS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_of_what_is_looked_for_are_not_taken_for_it() {
        // A borrow runs from a match into the byte behind it.
        assert_eq!(bytes_until(b"ab!\"#######", [b'"']), 3);
        assert_eq!(bytes_until(b"\"###############", [b'"']), 0);
        assert_eq!(bytes_until(b"########", [b'"']), 8);
        assert_eq!(bytes_until(b"", [b'"']), 0);
    }

    proptest! {
        #[test]
        fn it_is_the_first(bytes in prop::collection::vec(prop_oneof![0_u8..=0xff, 0x20_u8..0x25], 0..40)) {
            let ends = [b'"', b'\\', b'\n', 0];
            let first = bytes.iter().position(|byte| ends.contains(byte));
            prop_assert_eq!(bytes_until(&bytes, ends), first.unwrap_or(bytes.len()));
        }
    }
}
