use super::spelling::is_word;

/// The smallest parts of a C++ name; white space is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameToken<'a> {
    Name(&'a str),
    /// A literal that begins with a digit, suffix included.
    Number(&'a str),
    Scope,
    Mark(char),
}

pub(super) fn split_tokens(text: &str) -> Vec<NameToken<'_>> {
    let mut out = Vec::with_capacity(text.len() / 4);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if first.is_whitespace() {
            first.len_utf8()
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            out.push(if first.is_ascii_digit() {
                NameToken::Number(word)
            } else {
                NameToken::Name(word)
            });
            end
        } else if rest.starts_with("::") {
            out.push(NameToken::Scope);
            2
        } else {
            out.push(NameToken::Mark(first));
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}
