//! `docs/issues.md` has a row for every code of an issue. `LLMPROF_UPDATE_DOCS=1` writes it anew.

use std::{fs, path::Path};

use llmprof_record::issue::IssueCode;

use super::issue_table::{IssueRow, rows_of};

const HEAD: &str = "\
# Issues

An issue says what was dropped or should not be trusted. It stands at the top of every report, in `run.json` and in `analysis.json`, with a `severity`: `info` (no number is affected), `warning` (some numbers are incomplete or less certain) or `error` (something asked for is missing or wrong). \
Codes are stable; a script may match them. A name in braces is a key of the issue's `values`; `{count}` is its `count`.

| code | says | what avoids it |
|---|---|---|
";

/// A template with the names of its values, without their units.
fn shown(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}').unwrap_or((after, ""));
        let key = place.split(':').next().unwrap_or(place);
        text += &format!("{before}`{{{key}}}`");
        rest = after;
    }
    (text + rest).replace('|', "\\|").replace('<', "&lt;")
}

fn row(code: &IssueCode, row: &IssueRow) -> String {
    let case = match row.when {
        ("", _) => String::new(),
        (key, value) => format!(" (`{key}` is `{value}`)"),
    };
    let hint = row.hint.map(shown).unwrap_or_default();
    format!("| `{code}`{case} | {} | {hint} |\n", shown(row.text))
}

#[test]
fn every_code_is_on_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/issues.md");
    let mut page = HEAD.to_owned();
    for code in IssueCode::ALL {
        let rows = rows_of(code);
        assert!(!rows.is_empty(), "{code} has no sentence");
        page.extend(rows.iter().map(|of_code| row(code, of_code)));
    }
    if std::env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/issues.md is not what the table has: run this test with LLMPROF_UPDATE_DOCS=1"
    );
}

#[test]
fn places_are_shown_by_their_keys() {
    let text = shown("{kernels:kernel} of {name} | in {time_ns:ns}");
    assert_eq!(text, "`{kernels}` of `{name}` \\| in `{time_ns}`");
}
