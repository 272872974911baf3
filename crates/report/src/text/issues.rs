//! Issues: what was dropped or should not be trusted. Their sentences are in [`issue_table`](super::issue_table).

use llmprof_record::issue::{Issue, Severity};
use llmprof_units::{Bytes, Count, Percent};
use serde_json::Value;

use super::issue_table::{ROWS, Row};

/// What was found, in one sentence: that of its code, else the one stored with it.
pub fn issue(issue: &Issue) -> String {
    row(issue)
        .and_then(|row| filled(row.text, issue))
        .unwrap_or_else(|| issue.message_or_values())
}

/// What would avoid it: the stored hint, else that of its code.
pub fn hint(issue: &Issue) -> Option<String> {
    let stored = issue.hint.clone();
    stored.or_else(|| filled(row(issue)?.hint?, issue))
}

/// The first row of its code that its values fit.
fn row(issue: &Issue) -> Option<&'static Row> {
    let fits = |row: &&Row| {
        let (key, value) = row.when;
        key.is_empty()
            || issue
                .values
                .get(key)
                .is_some_and(|found| plain(found) == value)
    };
    let mut rows = ROWS.iter().filter(|row| row.code == issue.code);
    rows.find(|row| fits(row) && filled(row.text, issue).is_some())
}

/// The template with its places filled; nothing where a value is missing. A place is `{key}`, or `{key:unit}` for a size
/// (`bytes`), a share (`percent`), or a number of things by their name in the singular. `{count}` is the issue's own.
fn filled(template: &str, issue: &Issue) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}')?;
        let (key, unit) = place.split_once(':').unwrap_or((place, ""));
        let count = Value::from(issue.count);
        let value = if key == "count" {
            &count
        } else {
            issue.values.get(key)?
        };
        text += before;
        text += &match unit {
            "" => plain(value),
            "bytes" => Bytes(value.as_u64()?).to_string(),
            "percent" => Percent(value.as_f64()?).to_string(),
            noun => Count(value.as_u64()?, noun).to_string(),
        };
        rest = after;
    }
    Some(text + rest)
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The issue with its severity, code, count and fix.
pub fn issue_line(found: &Issue) -> String {
    let mut line = format!("{}: {} [{}]", found.severity, issue(found), found.code);
    if found.count > 1 {
        line += &format!(" ×{}", found.count);
    }
    if let Some(fix) = hint(found) {
        line += &format!(" ({fix})");
    }
    line
}

/// Issues that affect a number, for a terminal: one line per code, the worst first. Several of one code are the first of them
/// and how many more there are.
pub fn warning_lines(issues: &[Issue]) -> Vec<String> {
    let mut found: Vec<(&Issue, usize)> = Vec::new();
    for issue in issues
        .iter()
        .filter(|issue| issue.severity > Severity::Info)
    {
        match found.iter_mut().find(|(known, _)| known.code == issue.code) {
            Some((_, more)) => *more += 1,
            None => found.push((issue, 0)),
        }
    }
    found.sort_by_key(|(issue, _)| std::cmp::Reverse(issue.severity));
    found
        .into_iter()
        .map(|(issue, more)| match more {
            0 => issue_line(issue),
            more => format!("{}, and {more} more like it", issue_line(issue)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn one_line_per_code_with_a_count() {
        let issue = |severity, code: &str, what: &str| Issue::new(severity, code, what);
        let lines = warning_lines(&[
            issue(Severity::Info, "c", "quiet"),
            issue(Severity::Warning, "a", "first").with_hint("do this"),
            issue(Severity::Warning, "a", "second"),
            issue(Severity::Error, "b", "worst").counting(3),
        ]);
        assert_eq!(
            lines,
            [
                "error: worst [b] ×3",
                "warning: first [a] (do this), and 1 more like it"
            ]
        );
    }

    #[test]
    fn a_code_has_its_sentence_and_values_choose_among_several() {
        let damaged = Issue::error("kineto.truncated").with("byte", 4096);
        assert_eq!(
            issue_line(&damaged),
            "error: the file ends inside an event or before the event list is closed, at byte 4096 [kineto.truncated] (copy the \
             file again, or wait until the profiler has finished writing it)"
        );
        let broken = Issue::error("run.broken_off").with("passes", 1);
        assert_eq!(
            issue(&broken),
            "the run was interrupted; results are from 1 plain pass before that"
        );
        let broken = broken.with("why", "killed").with("passes", 3);
        assert_eq!(
            issue(&broken),
            "the run failed (killed); results are from 3 plain passes before that"
        );
        let busy = Issue::warning("hardware.disturbed").with("share", 0.48);
        assert!(issue(&busy).contains("took 48.0 % as much"), "{busy:?}");
    }

    #[test]
    fn without_its_values_a_stored_sentence_is_shown() {
        let old = Issue::new(
            Severity::Error,
            "kineto.truncated",
            "as an older version said",
        );
        assert_eq!(issue(&old), "as an older version said");
        let unknown = Issue::info("worker.other").with("what", 3);
        assert_eq!(issue(&unknown), r#"{"what":3}"#);
    }

    /// Codes that the sources raise without a sentence of their own.
    fn raised(folder: &Path, codes: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                raised(&path, codes);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            for call in ["Issue::info(", "Issue::warning(", "Issue::error("] {
                for (at, _) in source.match_indices(call) {
                    let argument = source[at + call.len()..].trim_start();
                    let literal = argument
                        .strip_prefix('"')
                        .and_then(|text| text.split_once('"'));
                    codes.extend(literal.map(|(code, _)| code.to_owned()));
                }
            }
        }
    }

    #[test]
    fn every_code_that_is_raised_without_a_sentence_has_one() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut codes = Vec::new();
        for name in ["record", "capture", "cli", "analysis"] {
            raised(&crates.join(name).join("src"), &mut codes);
        }
        assert!(codes.len() > 40, "{codes:?}");
        for code in codes {
            assert!(
                ROWS.iter().any(|row| row.code == code),
                "no text for `{code}`"
            );
        }
    }

    #[test]
    fn places_of_the_table_are_closed() {
        for row in ROWS {
            for text in [Some(row.text), row.hint].into_iter().flatten() {
                assert_eq!(
                    text.matches('{').count(),
                    text.matches('}').count(),
                    "{text}"
                );
                assert!(!text.ends_with('.'), "{text}");
            }
        }
    }
}
