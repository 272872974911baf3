//! Reports from an analysis that a run has: what `report` needs.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use llmprof_analysis::Analysis;
use llmprof_record::{issue::Issue, run::RunRecord, store::StoredRun};
use llmprof_theory::device::{Catalog, Device};

use crate::failure::Failure;

const FILE: &str = "analysis.json";

/// Programs that open a file with what the user reads such files with, the first that exists.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "x-www-browser"];

/// The analysis of a run.
pub(crate) fn analysis(run: &StoredRun) -> Result<Analysis, Failure> {
    let file = run.path.join(FILE);
    let shown = run.path.display();
    let advice = format!("`llmprof analyze {shown}` makes it anew");
    let value: serde_json::Value = run.json(FILE)?.ok_or_else(|| {
        Failure::new(format!("{shown} has no analysis to report")).hint(advice.clone())
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
pub(super) fn issues(run: &StoredRun) -> Vec<Issue> {
    let value: Option<serde_json::Value> = run.json(FILE).ok().flatten();
    let issues = value.and_then(|mut value| value.get_mut("issues").map(serde_json::Value::take));
    issues
        .and_then(|issues| serde_json::from_value(issues).ok())
        .unwrap_or_default()
}

/// Opens a page, or says that nothing here can.
pub(crate) fn open(page: &Path) -> Result<(), Failure> {
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
