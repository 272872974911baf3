//! The text of a `config.json` as Python writes it.

use serde_json::Value;

/// Numbers that Python writes bare and JSON does not have; `time_step_limit` of Mamba2 and its hybrids is one.
const BARE_NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Parses a config. Infinite numbers become `{"__float__": "Infinity"}`, as transformers 5 writes them.
pub fn parse_config(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let tagged = tag_bare_numbers(text);
        if tagged == text {
            return Err(error);
        }
        serde_json::from_str(&tagged)
    })
}

/// The text with every bare number that JSON does not have as a tagged one.
fn tag_bare_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(next) = rest.chars().next() {
        let bare = BARE_NUMBERS
            .iter()
            .find(|name| !in_string && rest.starts_with(**name));
        if let Some(name) = bare {
            out.push_str(&format!("{{\"__float__\": \"{name}\"}}"));
            rest = &rest[name.len()..];
            continue;
        }
        // What is escaped neither ends nor begins a string.
        let taken = if in_string && next == '\\' {
            rest.chars().take(2).map(char::len_utf8).sum()
        } else {
            in_string ^= next == '"';
            next.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_python_are_read_as_transformers_writes_them() {
        let text = r#"{"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "Infinity \"NaN": "x, Infinity", "d": 1}"#;
        let tag = |name: &str| json!({"__float__": name});
        let expected = json!({
            "a": [0.0, tag("Infinity")], "b": tag("-Infinity"), "c": tag("NaN"), "Infinity \"NaN": "x, Infinity", "d": 1
        });
        assert_eq!(parse_config(text).unwrap(), expected);
        assert_eq!(parse_config(r#"{"é\\": 2}"#).unwrap(), json!({"é\\": 2}));
        // A mistake stays one, with the place of the text that was given.
        let error = parse_config("{\"a\": Inf}").unwrap_err();
        assert_eq!((error.line(), error.column()), (1, 7));
        assert!(parse_config("{\"a\": \\").is_err());
    }
}
