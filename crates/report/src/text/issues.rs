//! Issues: what was dropped or should not be trusted.

use llmprof_record::issue::{Issue, Severity};

/// What was found, in one sentence.
pub fn issue(issue: &Issue) -> String {
    issue.message.clone()
}

/// The issue with its severity, code, count and fix.
pub fn issue_line(found: &Issue) -> String {
    let mut line = format!("{}: {} [{}]", found.severity, issue(found), found.code);
    if found.count > 1 {
        line += &format!(" ×{}", found.count);
    }
    if let Some(fix) = &found.hint {
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
}
