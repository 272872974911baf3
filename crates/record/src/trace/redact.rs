//! Names of users inside paths.

use std::borrow::Cow;

/// Where a home directory begins, up to the user's name.
const HOMES: [&str; 4] = ["/home/", "/Users/", "\\Users\\", "/root/"];

/// `text` with every home directory written `~`: profilers put whole source paths into the names of Python functions,
/// and whose they are is nobody's business.
pub(super) fn without_user(text: &str) -> Cow<'_, str> {
    if !HOMES.iter().any(|home| text.contains(home)) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    'text: while !rest.is_empty() {
        for home in HOMES {
            let Some(after) = rest.strip_prefix(home) else {
                continue;
            };
            if home == "/root/" {
                clean.push_str("~/");
                rest = after;
                continue 'text;
            }
            // The name ends at the next separator; without one this is not a path into a home directory.
            if let Some(end) = after.find(['/', '\\']) {
                if home.starts_with('\\') {
                    // `C:\Users\name\…`: the drive goes too.
                    let drive = clean
                        .trim_end_matches(|c: char| c == ':' || c.is_ascii_alphabetic())
                        .len();
                    clean.truncate(drive.max(clean.len().saturating_sub(2)));
                }
                clean.push('~');
                rest = &after[end..];
                continue 'text;
            }
        }
        let mut characters = rest.chars();
        clean.extend(characters.next());
        rest = characters.as_str();
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_directories_lose_their_owner() {
        assert_eq!(
            without_user("/home/someone/run.py(3): main"),
            "~/run.py(3): main"
        );
        assert_eq!(
            without_user("/Users/someone/a b/run.py(3): main"),
            "~/a b/run.py(3): main"
        );
        assert_eq!(
            without_user(r"C:\Users\someone\run.py(3): main"),
            r"~\run.py(3): main"
        );
        assert_eq!(without_user("/root/run.py(3): main"), "~/run.py(3): main");
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "aten::mm",
            "/usr/lib/python3/x.py(1): f",
            "/home/",
            "see /home/someone",
            "größe",
        ] {
            assert_eq!(without_user(text), text);
        }
    }
}
