//! Results of other load generators, in our words.

use std::{path::PathBuf, process::ExitCode};

use llmprof_load::results::{self, ForeignResult};
use llmprof_report::compose::listings;

use crate::{failure::Failure, output::Output};

pub(super) fn show(
    files: &[PathBuf],
    json: bool,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let mut all: Vec<(String, ForeignResult)> = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let loaded = results::load(file)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        all.extend(loaded.into_iter().map(|result| (name.clone(), result)));
    }
    if json {
        let values: Vec<&ForeignResult> = all.iter().map(|(_, result)| result).collect();
        output.json(&values)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = all.into_iter().map(|(name, result)| {
        let count = |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
        let (completed, failed) = (count(result.completed), count(result.failed));
        let at = |statistics: &results::Statistics, name: &str| statistics.get(name).copied();
        let numbers = [
            result.request_throughput,
            result.output_throughput,
            at(&result.ttft_ms, "p50"),
            at(&result.ttft_ms, "p99"),
            at(&result.tpot_ms, "p50"),
            at(&result.tpot_ms, "p99"),
        ];
        let model = result.model.unwrap_or_default();
        ([name, result.tool, model, completed, failed], numbers)
    });
    output.table(&listings::loads(rows))?;
    Ok(ExitCode::SUCCESS)
}
