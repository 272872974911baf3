//! Reports from an analysis that a run has: what `report` needs.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use llmprof_analysis::Analysis;
use llmprof_record::{issue::Issue, run::RunRecord};
use llmprof_theory::device::{Catalog, Device};

use crate::failure::Failure;

/// Programs that open a file with what the user reads such files with, the first that exists.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "x-www-browser"];

/// The analysis of a run.
pub(super) fn analysis(run: &Path) -> Result<Analysis, Failure> {
    let file = run.join("analysis.json");
    let advice = format!("`llmprof analyze {}` makes it anew", run.display());
    let value: serde_json::Value = json(&file)?.ok_or_else(|| {
        Failure::new(format!("{} has no analysis to report", run.display())).hint(advice.clone())
    })?;
    let version = value
        .get("schema_version")
        .and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(Analysis::SCHEMA_VERSION)) {
        let found = match version {
            Some(version) => format!("has schema version {version}"),
            None => "is not that of a run".to_owned(),
        };
        return Err(Failure::new(format!(
            "{} {found}; this llmprof reports version {}",
            file.display(),
            Analysis::SCHEMA_VERSION
        ))
        .hint(advice));
    }
    serde_json::from_value(value).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", file.display())).hint(advice)
    })
}

/// What the analysis of a run complained of: nothing where there is none that can be read.
pub(super) fn issues(run: &Path) -> Vec<Issue> {
    let value: Option<serde_json::Value> = json(&run.join("analysis.json")).ok().flatten();
    let issues = value.and_then(|mut value| value.get_mut("issues").map(serde_json::Value::take));
    issues
        .and_then(|issues| serde_json::from_value(issues).ok())
        .unwrap_or_default()
}

/// Opens a page, or says that nothing here can.
pub(super) fn open(page: &Path) -> Result<(), Failure> {
    for opener in OPENERS {
        let started = Command::new(opener)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(format!("cannot start {opener}: {error}")));
            }
        }
    }
    Failure::new(format!(
        "nothing here opens pages ({}): open {} yourself",
        OPENERS.join(", "),
        page.display()
    ))
    .warn();
    Ok(())
}

/// The device that an analysis is of: the record's own, unless `analyze --device` named another.
pub(super) fn device(record: &RunRecord, analysis: &Analysis) -> Option<Device> {
    let name = analysis.device.as_ref()?;
    let own = record.device.clone().filter(|device| device.name == *name);
    own.or_else(|| Catalog::embedded().by_name(name).ok())
}

/// The contents of a JSON file of a run; `None` where there is no such file.
fn json(path: &Path) -> Result<Option<serde_json::Value>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}
