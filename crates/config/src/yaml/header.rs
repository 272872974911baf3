//! The `# @package …` lines at the top of a Hydra config file.

use crate::error::{Error, ErrorKind, Result};

/// How much of a file Hydra looks at, in characters.
const HEADER_CHARACTERS: usize = 512;

/// Reads the header lines (`# @key value`) before the first other line.
///
/// Returns keys without their `@`, in order; of equal keys the last one counts.
pub fn parse_header(text: &str) -> Result<Vec<(String, String)>> {
    let head = text
        .char_indices()
        .nth(HEADER_CHARACTERS)
        .map_or(text, |(end, _)| &text[..end]);
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in head.split(|c| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    }) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let is_header = line
            .strip_prefix('#')
            .is_some_and(|rest| rest.trim_start().starts_with('@'));
        if !is_header {
            break;
        }
        let line = line.trim_start_matches('#').trim();
        let parts: Vec<&str> = line.split(' ').filter(|part| !part.is_empty()).collect();
        let [key, value] = parts[..] else {
            let kind = ErrorKind::Value(format!("a header is `# @key value`, but found `{line}`"));
            return Err(kind.into());
        };
        if let Some(key) = key.trim().strip_prefix('@') {
            entries.retain(|(old, _)| old != key);
            entries.push((key.to_owned(), value.trim().to_owned()));
        }
    }
    Ok::<_, Error>(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_first_other_line() {
        let pairs =
            parse_header("\n#  @package  _global_ \n# comment\n# @package late\n").expect("valid");
        assert_eq!(pairs, [("package".to_owned(), "_global_".to_owned())]);
        assert_eq!(parse_header("a: 1\n# @package x\n").expect("valid"), []);
        assert!(parse_header("# @package\n").is_err());
        assert!(parse_header("# @package a b\n").is_err());
    }
}
