//! Issues: what was dropped or should not be trusted. Their sentences are in [`issue_table`](super::issue_table).

use llmprof_record::issue::{Issue, Severity};
use llmprof_units::{Bytes, Count, Percent, Times, Watts};
use serde_json::Value;

use super::issue_table::{IssueRow, rows_of};
use super::{time, unmatched};

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
fn row(issue: &Issue) -> Option<&'static IssueRow> {
    let fits = |row: &&IssueRow| {
        let (key, value) = row.when;
        key.is_empty()
            || issue
                .values
                .get(key)
                .is_some_and(|actual| plain(actual) == value)
    };
    let mut rows = rows_of(&issue.code).iter();
    rows.find(|row| fits(row) && filled(row.text, issue).is_some())
}

/// The template with its places filled; nothing where a value is missing. A place is `{key}`, or `{key:unit}`: a size
/// (`bytes`), a share (`percent`), a time (`ns`), a ratio (`times`), two decimals (`number`), why something is not matched
/// (`unmatched`), or a number of things by their name in the singular. `{count}` is the issue's own.
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
            "ns" => time(value.as_f64()?),
            "times" => Times(value.as_f64()?).to_string(),
            "watts" => Watts(value.as_f64()?).to_string(),
            "number" => format!("{:.2}", value.as_f64()?),
            "unmatched" => unmatched::of_code(value.as_str()?)?.to_owned(),
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
pub fn issue_line(issue: &Issue) -> String {
    let mut line = format!(
        "{}: {} [{}]",
        issue.severity,
        self::issue(issue),
        issue.code
    );
    if issue.count > 1 {
        line += &format!(" ×{}", issue.count);
    }
    if let Some(fix) = hint(issue) {
        line += &format!(" ({fix})");
    }
    line
}

/// Issues that affect a number, for a terminal: one line per code, the worst first. Several of one code are the first of them
/// and how many more there are.
pub fn warning_lines(issues: &[Issue]) -> Vec<String> {
    let mut warnings: Vec<(&Issue, usize)> = Vec::new();
    for issue in issues
        .iter()
        .filter(|issue| issue.severity > Severity::Info)
    {
        match warnings
            .iter_mut()
            .find(|(known, _)| known.code == issue.code)
        {
            Some((_, more)) => *more += 1,
            None => warnings.push((issue, 0)),
        }
    }
    warnings.sort_by_key(|(issue, _)| std::cmp::Reverse(issue.severity));
    warnings
        .into_iter()
        .map(|(issue, more)| match more {
            0 => issue_line(issue),
            more => format!("{}, and {more} more like it", issue_line(issue)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use llmprof_record::issue::IssueCode;

    use super::*;

    /// A sweep said that a rate meets the objectives, and the line below that nothing is concluded.
    #[test]
    fn a_late_client_does_not_contradict_objectives_that_are_met() {
        let late = |meets_objectives: bool| {
            let late = Issue::warning(IssueCode::BenchClientLate)
                .with("cpu_share", 0.5)
                .with("late_p99_ns", 20e6)
                .with("waits_for_cpu", true)
                .with("meets_objectives", meets_objectives);
            issue_line(&late)
        };
        assert!(late(true).contains("objectives that are met are met by the server too"));
        assert!(!late(true).contains("not known"));
        assert!(late(false).contains("an objective that is not met is not known"));
    }

    #[test]
    fn one_line_per_code_with_a_count() {
        let issue = |severity, code: &str, what: &str| Issue::new(severity, code.into(), what);
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
        let damaged = Issue::error(IssueCode::KinetoTruncated).with("byte", 4096);
        assert_eq!(
            issue_line(&damaged),
            "error: the file ends inside an event or before the event list is closed, at byte 4096 [kineto.truncated] (copy the \
             file again, or wait until the profiler has finished writing it)"
        );
        let broken = Issue::error(IssueCode::RunBrokenOff).with("passes", 1);
        assert_eq!(
            issue(&broken),
            "the run was interrupted; results are from 1 plain pass before that"
        );
        let broken = broken.with("why", "killed").with("passes", 3);
        assert_eq!(
            issue(&broken),
            "the run failed (killed); results are from 3 plain passes before that"
        );
        let busy = Issue::warning(IssueCode::HardwareDisturbed).with("share", 0.48);
        assert!(issue(&busy).contains("took 48.0 % as much"), "{busy:?}");
    }

    #[test]
    fn without_its_values_a_stored_sentence_is_shown() {
        let old = Issue::new(
            Severity::Error,
            IssueCode::KinetoTruncated,
            "as an older version said",
        );
        assert_eq!(issue(&old), "as an older version said");
        let unknown = Issue::info("worker.other".into()).with("what", 3);
        assert_eq!(issue(&unknown), r#"{"what":3}"#);
    }

    /// The sources of a crate without their tests.
    fn sources(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, files);
            } else if path.file_name().is_some_and(|name| name != "tests.rs") {
                let source = fs::read_to_string(&path).unwrap();
                let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
                files.push((path, code.to_owned()));
            }
        }
    }

    fn sources_of(crates: &[&str]) -> Vec<(PathBuf, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for name in crates {
            sources(&folder.join(name).join("src"), &mut files);
        }
        files
    }

    #[test]
    fn no_sentence_is_stored_in_an_issue() {
        let crates = [
            "record", "capture", "cli", "load", "analysis", "theory", "report",
        ];
        for (path, source) in sources_of(&crates) {
            let makes = source.contains("Issue::new(");
            let declares = path.ends_with("record/src/issue/mod.rs");
            assert!(!makes || declares, "{}", path.display());
        }
    }

    #[test]
    fn what_analyses_raise_is_worded() {
        let shared = Issue::warning(IssueCode::RunProcessorsShared)
            .with("cpus", 2)
            .with("others", 0.8)
            .with("contended_share", 1.0);
        assert_eq!(
            issue(&shared),
            "latencies may be longer than on a quiet machine: other programs kept 0.80 of 2 CPUs busy during the plain passes, and \
             no CPU was free 100.0 % of the time"
        );
        let waiting = issue(&shared.with("waiting", 0.75));
        assert!(
            waiting.contains("waited 0.75 s per second for a CPU"),
            "{waiting}"
        );
        let unmatched = Issue::warning(IssueCode::RunUnmatchedOperators)
            .with("phase", "decode")
            .with("path", "a.b")
            .with("reason", "ran_again");
        assert_eq!(
            issue(&unmatched),
            "decode: operator calls not matched to the model, first `a.b`: ran more often than the model needs"
        );
        let steps = Issue::warning(IssueCode::RunOtherSteps)
            .with("steps", 31)
            .with("shown", 4);
        assert_eq!(
            issue(&steps),
            "decode: launch patterns show 4 steps, the workload states 31; the analysis uses 4"
        );
        let refused = Issue::error(IssueCode::CuptiRefused)
            .with("process", 7)
            .with("why", "busy");
        assert!(hint(&refused.clone().with("status", 39)).is_some());
        assert_eq!(hint(&refused.with("status", 1)), None);
    }

    #[test]
    fn places_of_the_table_are_closed() {
        for row in IssueCode::ALL.iter().flat_map(rows_of) {
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
