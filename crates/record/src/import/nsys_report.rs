//! Nsight Systems' own report files (`.nsys-rep`, `.qdrep`), through `nsys export`.
//!
//! Their format is not published and has no known beginning, so here alone the file's name is the reason to ask, and
//! the tool decides whether the content is a report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{ImportError, Limits, Profile, Source, nsys_sqlite};

const FORMAT: &str = "an Nsight Systems report";

/// Whether a file may be a report.
pub fn may_be(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "nsys-rep" || extension == "qdrep")
}

/// The tool: what the variable `NSYS` names, else `nsys` on the search path.
pub(crate) fn find_tool() -> Option<PathBuf> {
    tool_in(std::env::var_os("NSYS"), std::env::var_os("PATH"))
}

fn tool_in(named: Option<OsString>, search: Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    std::env::split_paths(&search?)
        .map(|folder| folder.join("nsys"))
        .find(|path| path.is_file())
}

/// Exports a report with `tool` into a temporary directory and reads the export.
pub fn read(report: &Path, tool: Option<&Path>, limits: &Limits) -> Result<Profile, ImportError> {
    let unusable = |what: String| ImportError::Unusable {
        path: report.to_owned(),
        format: FORMAT,
        what,
    };
    let tool = tool.ok_or_else(|| {
        unusable(
            "nsys, which alone can read it, is not installed here; set NSYS to its path, or run \
             `nsys export --type sqlite REPORT` where it is and import the .sqlite file"
                .to_owned(),
        )
    })?;
    let folder = tempfile::tempdir().map_err(|source| ImportError::Io {
        path: std::env::temp_dir(),
        source,
    })?;
    let exported = folder.path().join("export.sqlite");
    let run = Command::new(tool)
        .args([
            "export",
            "--type",
            "sqlite",
            "--force-overwrite",
            "true",
            "--output",
        ])
        .arg(&exported)
        .arg(report)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unusable(format!("{} could not be started: {error}", tool.display())))?;
    if !run.status.success() || !exported.is_file() {
        let said = last_words(&[run.stdout, run.stderr].concat());
        return Err(unusable(format!(
            "nsys export failed ({}): {said}",
            run.status
        )));
    }
    let source = Source::open(&exported, limits)?;
    let trace = nsys_sqlite::read(&source).map_err(|error| match error {
        ImportError::Unusable { what, .. } => unusable(what),
        other => other,
    })?;
    Ok(Profile::Trace(Box::new(trace)))
}

/// The end of what a tool printed, on one line.
fn last_words(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    if last.is_empty() {
        "it printed nothing".to_owned()
    } else {
        last.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::tool_in;

    #[test]
    fn a_named_tool_comes_before_the_search_path() {
        let folder = tempfile::tempdir().expect("folder");
        let tool = folder.path().join("nsys");
        let search = Some(folder.path().as_os_str().to_owned());
        assert_eq!(tool_in(None, search.clone()), None);
        std::fs::write(&tool, "").expect("written");
        assert_eq!(tool_in(None, search.clone()), Some(tool.clone()));
        assert_eq!(tool_in(Some("".into()), search.clone()), Some(tool));
        assert_eq!(
            tool_in(Some("/x/nsys".into()), search),
            Some("/x/nsys".into())
        );
        assert_eq!(tool_in(None, None), None);
    }
}
