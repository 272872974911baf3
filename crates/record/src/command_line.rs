//! A command line as a text, split into words as a POSIX shell splits it: quotes and backslashes, no expansion.
//!
//! The crate `shlex` (2.0.1) makes an empty word of a continued line (`serve \\` and `  --port 1` below it), which is how people write long commands.

use std::str::Chars;

/// Why a text is no command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("a {0} is not closed")]
    OpenQuote(char),
    #[error("a backslash at the end escapes nothing")]
    LastBackslash,
}

/// The words of a text (POSIX.1-2024, Shell Command Language, 2.2). Within `"`, a backslash is kept except before `"`, `\`, `$`, a
/// backquote and the end of a line.
pub fn split_words(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => read_single_quoted(&mut characters, word.get_or_insert_default())?,
            '"' => read_double_quoted(&mut characters, word.get_or_insert_default())?,
            '\\' => match characters.next().ok_or(SplitError::LastBackslash)? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn read_single_quoted(characters: &mut Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    loop {
        match characters.next().ok_or(SplitError::OpenQuote('\''))? {
            '\'' => return Ok(()),
            other => word.push(other),
        }
    }
}

fn read_double_quoted(characters: &mut Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    let mut next = || characters.next().ok_or(SplitError::OpenQuote('"'));
    loop {
        match next()? {
            '"' => return Ok(()),
            '\\' => match next()? {
                '\n' => {}
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            other => word.push(other),
        }
    }
}

/// One text that [`words`] splits into the same words.
pub fn join_words(words: &[String]) -> String {
    let quoted = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\"'\"'")));
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `sh -c "printf '<%s>' …"` prints them.
    #[test]
    fn words_are_those_of_a_shell() {
        let cases: [(&str, &[&str]); 10] = [
            ("", &[]),
            (" a=1 \t b=2\n", &["a=1", "b=2"]),
            ("x='' \"\" ''", &["x=", "", ""]),
            ("'[sleep, 1]'x", &["[sleep, 1]x"]),
            (r#"--opt="{\"a\": 1}""#, &[r#"--opt={"a": 1}"#]),
            (r#""a\b\\c\$" 'a\b'"#, &[r"a\b\c$", r"a\b"]),
            (r"a\ b \\ \'", &["a b", r"\", "'"]),
            ("a\\\nb \"c\\\nd\"", &["ab", "cd"]),
            ("it\"'\"s", &["it's"]),
            ("serve \\\n  --port 1", &["serve", "--port", "1"]),
        ];
        for (text, expected) in cases {
            assert_eq!(split_words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_a_shell_waits_for_is_an_error() {
        for (text, expected) in [
            ("a 'b", SplitError::OpenQuote('\'')),
            ("a \"b'", SplitError::OpenQuote('"')),
            ("\"a\\", SplitError::OpenQuote('"')),
            ("a \\", SplitError::LastBackslash),
        ] {
            assert_eq!(split_words(text), Err(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn joined_words_are_split_again(given in prop::collection::vec("[a '\"\\\\\n=$]*", 0..5)) {
            prop_assert_eq!(split_words(&join_words(&given)).unwrap(), given);
        }
    }
}
