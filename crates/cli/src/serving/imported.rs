//! Results of other load generators, in our words.

use std::{path::PathBuf, process::ExitCode};

use llmprof_load::results::{self, ForeignResult};
use llmprof_report::Table;
use llmprof_units::format_significant;

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
        let found = results::load(file)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        all.extend(found.into_iter().map(|result| (name.clone(), result)));
    }
    if json {
        let values: Vec<&ForeignResult> = all.iter().map(|(_, result)| result).collect();
        output.json(&values)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(
        &[
            "File",
            "Tool",
            "Model",
            "Completed",
            "Failed",
            "Requests/s",
            "Tokens/s",
            "TTFT p50, ms",
            "TTFT p99, ms",
            "TPOT p50, ms",
            "TPOT p99, ms",
        ],
        3,
    );
    for (name, result) in &all {
        let cell = |value: Option<f64>| value.map_or("–".to_owned(), format_significant);
        let count = |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
        let of = |statistics: &results::Statistics, name: &str| cell(statistics.get(name).copied());
        table.row([
            name.clone(),
            result.tool.clone(),
            result.model.clone().unwrap_or_default(),
            count(result.completed),
            count(result.failed),
            cell(result.request_throughput),
            cell(result.output_throughput),
            of(&result.ttft_ms, "p50"),
            of(&result.ttft_ms, "p99"),
            of(&result.tpot_ms, "p50"),
            of(&result.tpot_ms, "p99"),
        ]);
    }
    output.table(&table)?;
    Ok(ExitCode::SUCCESS)
}
