//! What a run that ended has, and files of it written anew.

use llmprof_analysis::Analysis;
use llmprof_record::{
    issue::Issue,
    run::RunRecord,
    store::{LockedRun, StoredRun},
};
use llmprof_theory::device::{Catalog, Device};

use crate::{failure::Failure, outputs};

const FILE: &str = "analysis.json";

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
        let state = match version {
            Some(version) => format!("has schema version {version}"),
            None => "is not that of a run".to_owned(),
        };
        return Err(Failure::new(format!(
            "{} {state}; this llmprof reports version {}",
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
pub(crate) fn issues(run: &StoredRun) -> Vec<Issue> {
    let value: Option<serde_json::Value> = run.json(FILE).ok().flatten();
    let issues = value.and_then(|mut value| value.get_mut("issues").map(serde_json::Value::take));
    issues
        .and_then(|issues| serde_json::from_value(issues).ok())
        .unwrap_or_default()
}

/// The device that an analysis is of: the record's own, unless `analyze --device` named another.
pub(crate) fn device(record: &RunRecord, analysis: &Analysis) -> Option<Device> {
    let name = analysis.device.as_ref()?;
    let own = record.device.clone().filter(|device| device.name == *name);
    own.or_else(|| Catalog::embedded().by_name(name).ok())
}

/// Writes files anew into a run that ended.
pub(crate) fn replace(run: &LockedRun, files: &[outputs::Output]) -> Result<(), Failure> {
    for (name, contents) in files {
        run.write(name, contents)?;
    }
    Ok(())
}
