//! Which notations a string may be written in, by PyYAML's rules.

/// What an inspection of the text found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent findings about one text"
)]
pub(super) struct TextAnalysis {
    pub(super) multiline: bool,
    /// It may stand without quotes.
    pub(super) plain: bool,
    /// It may stand in single quotes.
    pub(super) single_quoted: bool,
    /// It may stand as a block (`|`).
    pub(super) block: bool,
}

/// The characters YAML 1.1 breaks lines at; a carriage return is special instead.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank_or_break(c: char) -> bool {
    matches!(c, '\0' | ' ' | '\t' | '\r') || is_break(c)
}

/// Whether the character can be written outside double quotes.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | '\x20'..='\x7e' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..='\u{10fffe}')
        && c != '\u{feff}'
}

pub(super) fn analyze_text(text: &str) -> TextAnalysis {
    if text.is_empty() {
        return TextAnalysis {
            multiline: false,
            plain: true,
            single_quoted: true,
            block: false,
        };
    }
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let mut breaks = false;
    let mut special = false;
    let mut break_then_space = false;
    let mut space_then_break = false;
    let mut previous: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let blank_follows = chars.peek().is_none_or(|&next| is_blank_or_break(next));
        indicators |= match (previous, c) {
            (
                None,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`',
            ) => true,
            (None, '?' | ':' | '-') | (Some(_), ':') => blank_follows,
            (Some(before), '#') => is_blank_or_break(before),
            _ => false,
        };
        breaks |= is_break(c);
        special |= !is_printable(c);
        break_then_space |= c == ' ' && previous.is_some_and(is_break);
        space_then_break |= is_break(c) && previous == Some(' ');
        previous = Some(c);
    }
    let is_edge = |c: char| c == ' ' || is_break(c);
    let edges = text.starts_with(is_edge) || text.ends_with(is_edge);
    let quotes_needed = space_then_break || special;
    TextAnalysis {
        multiline: breaks,
        plain: !(edges || indicators || breaks || break_then_space || quotes_needed),
        single_quoted: !(break_then_space || quotes_needed),
        block: !(text.ends_with(' ') || quotes_needed),
    }
}
