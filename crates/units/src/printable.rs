//! Text of others on a terminal.

use std::borrow::Cow;

/// `text` in which no character is an order to a terminal: names of kernels, devices, models and files come from others,
/// and an escape sequence in one may set the clipboard, the title or what the line above says. Line breaks and tabs stay;
/// every other control character, and those that turn the direction of text, is written as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_order) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_order(character) {
            clean.extend(character.escape_unicode());
        } else {
            clean.push(character);
        }
    }
    Cow::Owned(clean)
}

/// The same without a change of length in bytes, for a text that positions refer to.
pub fn printable_in_place(text: &str) -> String {
    let same_length = |character: char| match character {
        other if !is_order(other) => other,
        // One of as many bytes.
        other => ['?', '¿', '\u{fffd}'][other.len_utf8() - 1],
    };
    text.chars().map(same_length).collect()
}

/// C0 (but line break and tab), DEL, C1, and the marks that turn the direction of text.
pub fn is_order(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
        || (character.is_control() && character != '\n' && character != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_shown_and_not_obeyed() {
        assert_eq!(
            printable("gemm\u{1b}]52;c;aGk=\u{7}\r"),
            r"gemm\u{1b}]52;c;aGk=\u{7}\u{d}"
        );
        assert_eq!(printable("\u{9b}31m"), r"\u{9b}31m");
        assert_eq!(printable("a\u{202e}b"), r"a\u{202e}b");
        assert!(matches!(printable("µs: ünïcode\n\t✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn places_stay_where_they_were() {
        let text = "a\u{1b}b\u{9b}c\u{202e}d";
        let clean = printable_in_place(text);
        assert_eq!(clean, "a?b¿c\u{fffd}d");
        assert_eq!(clean.len(), text.len());
    }
}
