//! Values that look like credentials. They are taken out of every text that is written into a run directory, wherever
//! they came from: a command line, an override, a config, the environment, the log of a worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, OnceLock};

use memchr::memmem;

/// What stands in the place of a secret. Valid inside a string of JSON or YAML, in HTML and in a CSV cell.
pub const REDACTED: &str = "(redacted)";

/// How tokens of well-known services begin, and the fewest characters that follow.
const PREFIXES: [(&str, usize); 17] = [
    ("hf_", 30),
    ("sk-", 16),
    ("sk_live_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("ghu_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("nvapi-", 20),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 30),
];

/// Parts of names whose values are secrets.
const NAMES: [&str; 14] = [
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "private_key",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "_pwd",
    "credential",
    "token",
    "authorization",
];

/// Ends of names that hold no value but say where it is, or what it is called.
const NOT_A_VALUE: [&str; 7] = ["_env", "-env", "_file", "_path", "_id", "_name", "-name"];

/// A value shorter than this is not looked for by itself: it would be found in words.
const SECRET_MIN_BYTES: usize = 8;

/// Characters that have a backslash before them in tables of Markdown.
const MARKDOWN: &str = "|*_`<[\\";

/// How the first line of a private key ends, and the most that stands in it before: `BEGIN ENCRYPTED `, `BEGIN OPENSSH `.
const PEM: &str = "PRIVATE KEY-----";
const PEM_LABEL: usize = 16;

/// Bytes of a value that are looked at to tell it from a word.
const LOOKED_AT: usize = 4096;

/// Bytes of a file that are searched at a time.
const WINDOW: usize = 1 << 20;

/// Each in every form that a file of a run may have it in.
static KNOWN: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

/// The values of our own environment whose names say that they are secret, and those that [`remember_variables`] added.
fn known_values() -> &'static Mutex<Vec<String>> {
    KNOWN.get_or_init(|| {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| is_secret(name, value));
        Mutex::new(
            variables
                .flat_map(|(_, value)| escaped_forms(&value))
                .collect(),
        )
    })
}

/// A value as it is, and as JSON, HTML and tables of Markdown have it where they must escape some of it.
fn escaped_forms(value: &str) -> Vec<String> {
    let html = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('"', "&quot;"),
        ('\'', "&#39;"),
    ];
    let escaped = |escape: &dyn Fn(char) -> Option<String>| -> String {
        let characters = value.chars();
        characters
            .map(|c| escape(c).unwrap_or_else(|| c.to_string()))
            .collect()
    };
    let mut forms = vec![
        value.to_owned(),
        escaped(&|c| match c {
            '"' | '\\' => Some(format!("\\{c}")),
            '\n' => Some("\\n".to_owned()),
            '\r' => Some("\\r".to_owned()),
            '\t' => Some("\\t".to_owned()),
            _ => None,
        }),
        escaped(&|c| {
            html.iter()
                .find(|(plain, _)| *plain == c)
                .map(|(_, name)| (*name).to_owned())
        }),
        escaped(&|c| MARKDOWN.contains(c).then(|| format!("\\{c}"))),
    ];
    forms.dedup();
    forms
}

/// A key as a server may repeat it in another encoding: reversed, in hexadecimal digits, in base64 at any offset of a longer text, or
/// with every character as `\u00xx` (with one backslash or with two), `%xx` or a number of HTML.
fn encoded_forms(value: &str) -> Vec<String> {
    let each = |encode: &dyn Fn(u8) -> String| value.bytes().map(encode).collect::<String>();
    let mut forms = vec![
        value.chars().rev().collect(),
        each(&|byte| format!("{byte:02x}")),
        each(&|byte| format!("{byte:02X}")),
        each(&|byte| format!("\\u{byte:04x}")),
        each(&|byte| format!("\\u{byte:04X}")),
        each(&|byte| format!("\\\\u{byte:04x}")),
        each(&|byte| format!("\\\\u{byte:04X}")),
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("&#{byte};")),
        each(&|byte| format!("&#x{byte:02x};")),
        each(&|byte| format!("&#x{byte:02X};")),
    ];
    for offset in 0..3 {
        let standard = base64_of_inner(value.as_bytes(), offset);
        forms.push(standard.replace('+', "-").replace('/', "_"));
        forms.push(standard);
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The base64 characters that depend on `bytes` alone, whatever stands before and after them, where `offset` bytes of another text
/// share their first group of three.
fn base64_of_inner(bytes: &[u8], offset: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| usize::from(bytes[at / 8] >> (7 - at % 8) & 1);
    let bits = 8 * bytes.len();
    // The first whole character begins at the next multiple of six bits of the longer text.
    let first = (6 - 8 * offset % 6) % 6;
    (first..)
        .step_by(6)
        .take_while(|start| start + 6 <= bits)
        .map(|start| {
            let value = (start..start + 6).fold(0, |value, at| 2 * value + bit(at));
            char::from(ALPHABET[value])
        })
        .collect()
}

/// Keeps the values of variables in mind whose names say that they are secret, such as those that a worker is given.
pub fn remember_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, value) in variables {
        if is_secret(name, value) {
            add_known(value);
        }
    }
}

/// Keeps a value in mind that the user said is a secret, such as the key of an endpoint, in every encoding of [`encoded_forms`].
/// Values shorter than [`SECRET_MIN_BYTES`] are not treated as secrets.
pub fn remember_value(value: &str) {
    if value.len() >= SECRET_MIN_BYTES {
        add_known(value);
        if let Ok(mut known) = known_values().lock() {
            known.extend(encoded_forms(value));
        }
    }
}

fn add_known(value: &str) {
    if let Ok(mut known) = known_values().lock()
        && !known.iter().any(|other| other == value)
    {
        known.extend(escaped_forms(value));
    }
}

/// `text` without the values that are kept in mind.
pub fn without_known(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    if let Ok(known) = known_values().lock() {
        for value in known.iter().filter(|value| text.contains(value.as_str())) {
            clean = Cow::Owned(clean.replace(value, REDACTED));
        }
    }
    clean
}

/// Whether a variable should not be given to a program that keeps its environment: its name or its value says so.
pub fn is_credential(name: &str, value: &str) -> bool {
    is_secret(name, value) || matches!(redact(value), Cow::Owned(_))
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let names = NAMES.iter().any(|part| match *part {
        "token" => name == "token" || name.ends_with("_token"),
        part => name.contains(part),
    });
    let says_where = NOT_A_VALUE.iter().any(|end| name.ends_with(end));
    names
        && !says_where
        && value.len() >= SECRET_MIN_BYTES
        && !value.bytes().all(|b| b.is_ascii_digit())
}

/// Where values stand in `text` that look like credentials: ends by starts, which may overlap.
fn credential_ranges(text: &str) -> BTreeMap<usize, usize> {
    let lower = text.to_ascii_lowercase();
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    let mut add = |range: Range<usize>| {
        let end = ends.entry(range.start).or_default();
        *end = (*end).max(range.end);
    };
    find_prefixed(text, &mut add);
    find_bearers(text, &lower, &mut add);
    find_in_urls(text, &mut add);
    find_named(text, &lower, &mut add);
    if let Ok(known) = known_values().lock() {
        for value in known.iter() {
            for start in memmem::find_iter(text.as_bytes(), value) {
                add(start..start + value.len());
            }
        }
    }
    ends
}

/// `text` without values that look like credentials.
pub fn redact(text: &str) -> Cow<'_, str> {
    let ranges = credential_ranges(text);
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in ranges {
        if start >= at {
            clean.push_str(&text[at..start]);
            clean.push_str(REDACTED);
        }
        at = at.max(end);
    }
    clean.push_str(&text[at..]);
    Cow::Owned(clean)
}

/// `text` with values that look like credentials overwritten byte for byte; `None` where it has none.
pub(crate) fn overwrite_with_stars(text: &str) -> Option<Vec<u8>> {
    let ranges = credential_ranges(text);
    if ranges.is_empty() {
        return None;
    }
    let mut clean = text.as_bytes().to_vec();
    for (start, end) in ranges {
        clean[start..end].fill(b'*');
    }
    Some(clean)
}

/// Overwrites the values of secret variables in a file of another tool's format, byte for byte, so that every length and
/// offset in it stays. The number of places.
pub fn blank_file(file: &File) -> io::Result<u64> {
    let values = match known_values().lock() {
        Ok(known) => known.clone(),
        Err(_) => Vec::new(),
    };
    blank_values(file, &values)
}

fn blank_values(file: &File, values: &[String]) -> io::Result<u64> {
    let Some(longest) = values.iter().map(String::len).max() else {
        return Ok(0);
    };
    let mut window = vec![0; WINDOW.max(2 * longest)];
    let (mut at, mut places) = (0, 0);
    loop {
        let length = file.read_at(&mut window, at)?;
        for value in values {
            for start in memmem::find_iter(&window[..length], value) {
                file.write_all_at(&vec![b'*'; value.len()], at + start as u64)?;
                places += 1;
            }
        }
        // The next window begins before the end of this one: a value may lie across it.
        match (length + 1).checked_sub(longest) {
            Some(step) if step > 0 => at += step as u64,
            _ => return Ok(places),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// How many bytes from `at` on satisfy `is_part`.
fn run_length(text: &[u8], at: usize, is_part: impl Fn(u8) -> bool) -> usize {
    text[at..].iter().take_while(|&&byte| is_part(byte)).count()
}

fn find_prefixed(text: &str, add: &mut impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    // Tables of Markdown have a backslash before each underscore.
    let escaped = PREFIXES.map(|(prefix, fewest)| (prefix.replace('_', "\\_"), fewest));
    let escaped = escaped.iter().filter(|(prefix, _)| prefix.contains('\\'));
    let plain = PREFIXES.iter().copied();
    for (prefix, fewest) in plain.chain(escaped.map(|(prefix, fewest)| (prefix.as_str(), *fewest)))
    {
        // What follows a prefix further on is a part of this: it is as long and as varied at most.
        let mut looked_at = 0;
        for start in memmem::find_iter(bytes, prefix) {
            let begins = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
            let after = start + prefix.len();
            if !begins || start < looked_at {
                continue;
            }
            // Tokens of Hugging Face have no underscore, names of functions that begin alike do.
            let length = match prefix {
                "hf_" | "hf\\_" => run_length(bytes, after, |byte| byte.is_ascii_alphanumeric()),
                "AKIA" | "ASIA" => run_length(bytes, after, |byte| {
                    byte.is_ascii_uppercase() || byte.is_ascii_digit()
                }),
                prefix if prefix.contains('\\') => {
                    run_length(bytes, after, |byte| is_word(byte) || byte == b'\\')
                }
                _ => run_length(bytes, after, is_word),
            };
            let value = &bytes[after..after + length];
            let varied =
                value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic);
            if length >= fewest && varied {
                add(start..after + length);
            }
            looked_at = after + length;
        }
    }
    web_tokens(bytes, add);
    private_keys(bytes, add);
}

/// JSON Web Tokens: three parts in base64, the first of which begins with `{"`.
fn web_tokens(bytes: &[u8], add: &mut impl FnMut(Range<usize>)) {
    // The run of parts that `start` is in, and its last three dots from the end.
    let mut end = 0;
    let mut dots = [None; 3];
    for start in memmem::find_iter(bytes, "eyJ") {
        if start >= end {
            end = start + run_length(bytes, start, |byte| is_word(byte) || byte == b'.');
            let mut dots_from_end =
                memchr::memrchr_iter(b'.', &bytes[start..end]).map(|at| start + at);
            dots = [
                dots_from_end.next(),
                dots_from_end.next(),
                dots_from_end.next(),
            ];
        }
        let has_two =
            dots[1].is_some_and(|dot| start < dot) && dots[2].is_none_or(|dot| start > dot);
        if end - start >= 40 && has_two {
            add(start..end);
        }
    }
}

/// What stands between the first and the last line of a private key in PEM; in JSON its lines are joined by `\n`, or are the
/// texts of a list.
fn private_keys(bytes: &[u8], add: &mut impl FnMut(Range<usize>)) {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\\ \t\r\n".contains(&byte);
    for mark in memmem::find_iter(bytes, PEM) {
        let label = &bytes[mark.saturating_sub(PEM_LABEL)..mark];
        if memmem::rfind(label, b"BEGIN ").is_none() {
            continue;
        }
        let start = mark + PEM.len();
        let listed = run_length(bytes, start, |byte| is_part(byte) || b"\",".contains(&byte));
        let is_closed = bytes[start + listed..].starts_with(b"-----END ");
        let length = if is_closed {
            listed
        } else {
            run_length(bytes, start, is_part)
        };
        let mut at = start;
        for text in bytes[start..start + length].split(|byte| b"\",".contains(byte)) {
            // The quote that may follow keeps its backslash.
            let key = text.strip_suffix(b"\\").unwrap_or(text);
            if key.len() >= SECRET_MIN_BYTES {
                add(at..at + key.len());
            }
            at += text.len() + 1;
        }
    }
}

fn find_bearers(text: &str, lower: &str, add: &mut impl FnMut(Range<usize>)) {
    for scheme in ["bearer ", "basic "] {
        for start in memmem::find_iter(lower.as_bytes(), scheme) {
            let after = start + scheme.len();
            let is_part = |byte: u8| is_word(byte) || b".~+/=".contains(&byte);
            let length = run_length(text.as_bytes(), after, is_part);
            let has_digit = text.as_bytes()[after..after + length]
                .iter()
                .any(u8::is_ascii_digit);
            if length >= SECRET_MIN_BYTES && has_digit {
                add(after..after + length);
            }
        }
    }
}

/// Passes the range of each password in `https://user:password@host` to `add`.
fn find_in_urls(text: &str, add: &mut impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    for start in memmem::find_iter(bytes, "://") {
        let after = start + 3;
        let length = run_length(bytes, after, |byte| {
            !byte.is_ascii_whitespace() && !b"/\"'<>?#".contains(&byte)
        });
        let authority = &bytes[after..after + length];
        let at = authority.iter().rposition(|&byte| byte == b'@');
        let colon = authority.iter().position(|&byte| byte == b':');
        if let (Some(at), Some(colon)) = (at, colon)
            && colon + 1 < at
        {
            add(after + colon + 1..after + at);
        }
    }
}

/// `API_KEY=value`, `"api_key": "value"`, `--api-key value`, `["--api-key", "value"]`.
fn find_named(text: &str, lower: &str, add: &mut impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    for name in NAMES {
        // A word that repeats a name, and a value that has others in it, are looked at once: texts may be made of nothing else.
        let (mut word_end, mut value) = (0, 0..0);
        for position in memmem::find_iter(lower.as_bytes(), name) {
            if position < word_end {
                continue;
            }
            let before = bytes[..position].iter().rev().take_while(|b| is_word(**b));
            let start = position - before.count();
            word_end = position + run_length(bytes, position, is_word);
            let key = lower[start..word_end].trim_start_matches('-');
            let Some(at) = value_after(bytes, start, word_end) else {
                continue;
            };
            value = if at < value.end {
                at..value.end
            } else {
                at..at + run_length(bytes, at, is_part_of_value)
            };
            if is_secret(&key.replace('-', "_"), &text[value.clone()])
                && looks_like_a_value(name, &text[value.clone()])
            {
                add(value.clone());
            }
        }
    }
}

fn is_part_of_value(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"'\\,;{}[]()<>&".contains(&byte)
}

/// Where the value of a name begins, if one follows.
fn value_after(text: &[u8], start: usize, end: usize) -> Option<usize> {
    let skip = |at: usize, set: &[u8]| at + run_length(text, at, |byte| set.contains(&byte));
    let is_flag = text[start] == b'-';
    // Quotes may be escaped, where JSON stands in a string of JSON.
    let mut at = skip(end, b"\\\"'");
    let spaces = skip(at, b" \t");
    at = match text.get(spaces) {
        Some(b'=' | b':') => skip(spaces + 1, b" \t"),
        // Words of a command: in a line, in a list of JSON, in a list of YAML.
        Some(b',') if is_flag => skip(spaces + 1, b" \t\n"),
        Some(b'\n') if is_flag => {
            let item = skip(spaces, b" \t\n");
            text[item..].starts_with(b"- ").then_some(item + 2)?
        }
        Some(_) if is_flag && spaces > at => spaces,
        _ => return None,
    };
    Some(skip(at, b"\\\"'"))
}

fn looks_like_a_value(name: &str, value: &str) -> bool {
    if value.starts_with(['$', '-']) || matches!(value, "Bearer" | "Basic" | "environment") {
        return false;
    }
    // Models have tokens of another kind.
    let mut head = value.bytes().take(LOOKED_AT);
    name != "token"
        || (value.len() >= 12
            && head.clone().any(|byte| byte.is_ascii_digit())
            && head.any(|byte| byte.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HF: &str = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678";

    #[test]
    fn values_in_files_of_other_tools_are_overwritten_in_place() {
        let values = ["correct-horse".to_owned(), "hf_0123456789".to_owned()];
        let mut bytes = vec![7; 2 * WINDOW + 100];
        // At the start, across the border of two windows, and at the end.
        let places = [0, WINDOW - 5, bytes.len() - values[1].len()];
        for (place, value) in places.into_iter().zip([0, 0, 1]) {
            bytes[place..place + values[value].len()].copy_from_slice(values[value].as_bytes());
        }
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        assert_eq!(blank_values(&file, &values).unwrap(), 3);
        for place in places {
            bytes[place..place + 13].fill(b'*');
        }
        let mut now = vec![0; bytes.len()];
        file.read_exact_at(&mut now, 0).unwrap();
        assert!(now == bytes);
        assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        assert_eq!(blank_values(&file, &[]).unwrap(), 0);
    }

    #[test]
    fn credentials_go_wherever_they_stand() {
        let cases = [
            (format!("HF_TOKEN={HF} python serve.py"), HF),
            (format!("{{\"x\": \"{HF}\"}}"), HF),
            (format!("{{\\\"x\\\": \\\"{HF}\\\"}}"), HF),
            (
                "vllm serve --api-key hunter2hunter".to_owned(),
                "hunter2hunter",
            ),
            (
                "[\"--api-key\", \"hunter2hunter\"]".to_owned(),
                "hunter2hunter",
            ),
            ("- --api-key\n- hunter2hunter\n".to_owned(), "hunter2hunter"),
            ("OPENAI_API_KEY='abcdefgh1'".to_owned(), "abcdefgh1"),
            (
                "\"db_password\": \"correct-horse\"".to_owned(),
                "correct-horse",
            ),
            ("password: correct-horse".to_owned(), "correct-horse"),
            ("MYSQL_PWD=correct-horse".to_owned(), "correct-horse"),
            (
                "--key-passphrase correct-horse".to_owned(),
                "correct-horse",
            ),
            (
                "retries: 3 eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P x"
                    .to_owned(),
                "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
            ),
            (
                "Authorization: Bearer abc123def456".to_owned(),
                "abc123def456",
            ),
            ("https://me:s3cretpass@host/x".to_owned(), "s3cretpass"),
            (
                "key sk-proj-abcdef0123456789 end".to_owned(),
                "sk-proj-abcdef0123456789",
            ),
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), "AKIAIOSFODNN7EXAMPLE"),
        ];
        for (text, secret) in cases {
            let clean = redact(&text);
            assert!(!clean.contains(secret), "{text} became {clean}");
            assert!(clean.contains(REDACTED), "{text} became {clean}");
            assert_eq!(redact(&clean), clean, "redacting twice changes nothing");
        }
    }

    /// Names inside of a word, a value or a token were each followed to the end of it: a trace of 400 KB took minutes.
    #[test]
    fn texts_that_are_nothing_but_names_take_no_longer() {
        let started = std::time::Instant::now();
        for word in [
            "password",
            "password=",
            "--api-key",
            "my_token=",
            "sk-a1-",
            "sk-",
            "eyJ",
            "eyJ.",
            "hf_",
            "AKIA",
            "bearer ",
            "://",
            "://a:b@",
            "BEGIN PRIVATE KEY-----",
            "secret=\"",
            "ghp_1",
        ] {
            let text = word.repeat((1 << 18) / word.len());
            let clean = redact(&text);
            assert!(clean.len() <= text.len() * 4, "{word}");
        }
        // Each of them took minutes in a build without optimization.
        assert!(started.elapsed() < std::time::Duration::from_mins(1));
    }

    #[test]
    fn private_keys_go_in_files_and_in_json() {
        let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
        for label in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let text = format!(
                "key:\n-----BEGIN {label}PRIVATE KEY-----\n{lines}-----END {label}PRIVATE KEY-----\nafter \\\" it"
            );
            let json = serde_json::to_string(&text).unwrap();
            let clean = redact(&text);
            assert!(
                !clean.contains("MIIE") && !clean.contains("ggSj"),
                "{clean}"
            );
            assert!(clean.ends_with("-----\nafter \\\" it"), "{clean}");
            let clean: String = serde_json::from_str(&redact(&json)).expect("still JSON");
            assert!(
                !clean.contains("MIIE") && clean.contains(REDACTED),
                "{clean}"
            );
        }
        let public = format!("-----BEGIN PUBLIC KEY-----\n{lines}-----END PUBLIC KEY-----");
        assert_eq!(redact(&public), public);
        let list: Vec<&str> = ["-----BEGIN PRIVATE KEY-----"]
            .into_iter()
            .chain(lines.lines())
            .chain(["-----END PRIVATE KEY-----", "unchanged"])
            .collect();
        let compact = serde_json::to_string(&list).unwrap();
        for json in [compact, serde_json::to_string_pretty(&list).unwrap()] {
            let clean: Vec<String> = serde_json::from_str(&redact(&json)).expect("still JSON");
            assert_eq!(clean[1..3], [REDACTED, REDACTED]);
            assert_eq!(clean[4], "unchanged");
        }
        let cut = r#"{"log": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\""}"#;
        assert!(serde_json::from_str::<serde_json::Value>(&redact(cut)).is_ok());
    }

    #[test]
    fn words_of_inference_stay() {
        for text in [
            r#"{"prompt_tokens": 512, "eos_token_id": 2, "bos_token": "<|begin_of_text|>"}"#,
            "infer.max_new_tokens=16 workload.prompt_tokens=128",
            "eos_token: </s>",
            "api_key_env: OPENAI_API_KEY",
            "serving.api_key_env=SECRET_VARIABLE_NAME1",
            "hf_quantizer_forward_pass_with_a_very_long_name",
            "sk-learn",
            "task-0123456789abcdefgh",
            "--token-limit 12345678901234",
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>",
            "http://localhost:8000/v1/completions",
            "api_key: ${oc.env:API_KEY}",
            "tokens: 12345678",
            "\"sha256\": \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn values_of_variables_go_from_every_text() {
        remember_variables([("WORKER_SECRET", "xyzzy-plugh"), ("HOME", "/home/someone")]);
        assert_eq!(redact("it said xyzzy-plugh!"), "it said (redacted)!");
        assert_eq!(redact("/home/someone"), "/home/someone");
        remember_value("first line\nsecond \"line\"");
        let json = serde_json::to_string("x first line\nsecond \"line\" y").unwrap();
        assert_eq!(redact(&json), "\"x (redacted) y\"");
    }

    /// RFC 4648 has `Zm9vYmFy` for `foobar`.
    #[test]
    fn a_key_goes_in_other_encodings() {
        assert_eq!(base64_of_inner(b"foobar", 0), "Zm9vYmFy");
        // base64("xfoobar") = "eGZvb2Jhcg==", base64("xyfoobar") = "eHlmb29iYXI=": from the first character that is the key's alone.
        assert_eq!(base64_of_inner(b"foobar", 1), "Zvb2Jhc");
        assert_eq!(base64_of_inner(b"foobar", 2), "mb29iYX");
        remember_value("q9_Lk-Wz.77Tn");
        for text in [
            "nT77.zW-kL_9q",
            "71395f4c6b2d577a2e3737546e",
            "71395F4C6B2D577A2E3737546E",
            r"\u0071\u0039\u005f\u004c\u006b\u002d\u0057\u007a\u002e\u0037\u0037\u0054\u006e",
            r"\\u0071\\u0039\\u005F\\u004C\\u006B\\u002D\\u0057\\u007A\\u002E\\u0037\\u0037\\u0054\\u006E",
            "%71%39%5f%4c%6b%2d%57%7a%2e%37%37%54%6e",
            "&#113;&#57;&#95;&#76;&#107;&#45;&#87;&#122;&#46;&#55;&#55;&#84;&#110;",
            "&#x71;&#x39;&#x5F;&#x4C;&#x6B;&#x2D;&#x57;&#x7A;&#x2E;&#x37;&#x37;&#x54;&#x6E;",
            // base64 of the key, and of "Bearer " before it and " x" after it.
            "cTlfTGstV3ouNzdUbg==",
            "QmVhcmVyIHE5X0xrLVd6Ljc3VG4geA==",
        ] {
            let clean = without_known(text).into_owned();
            assert!(clean.contains(REDACTED), "{text} became {clean}");
            assert!(clean.len() < REDACTED.len() + 20, "{text} became {clean}");
            assert_eq!(redact(text), clean);
        }
    }

    /// Keys have underscores, which tables of Markdown escape, and may have any character that a header can hold.
    #[test]
    fn values_go_from_texts_that_escape_some_of_their_characters() {
        let key = "pa_ss|w\"or\\d<1>&'2";
        remember_value(key);
        let json = serde_json::to_string(key).unwrap();
        let forms = [
            key.to_owned(),
            json[1..json.len() - 1].to_owned(),
            "pa_ss|w&quot;or\\d&lt;1&gt;&amp;&#39;2".to_owned(),
            "pa\\_ss\\|w\"or\\\\d\\<1>&'2".to_owned(),
        ];
        for form in forms {
            let text = format!("a {form} b");
            assert_eq!(redact(&text), "a (redacted) b", "{form}");
            assert_eq!(without_known(&text), "a (redacted) b", "{form}");
        }
        let table = format!("| {} |", HF.replace('_', "\\_"));
        assert_eq!(redact(&table), "| (redacted) |");
        let table = "| ghp\\_Ab1\\_Ab1Ab1Ab1Ab1Ab1Ab1 |";
        assert_eq!(redact(table), "| (redacted) |");
        remember_value("EMPTY");
        assert_eq!(without_known("EMPTY"), "EMPTY");
    }
}
