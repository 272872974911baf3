//! The files of a served load.

use llmprof_analysis::{
    Analysis,
    findings::Finding,
    serving::{ServingAnalysis, parts},
};
use llmprof_record::{issue::Issue, run::RunRecord};
use llmprof_report::{
    compose::serving::{requests_csv, steps_csv},
    vllm_bench,
};
use llmprof_traffic::arrivals::Arrivals;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Output, Results, text};
use crate::{clock, failure::Failure};

/// `bench.json`, and what `bench --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BenchFile<'a> {
    /// URL that was loaded.
    endpoint: &'a str,
    /// Name of the served model.
    model: &'a str,
    /// The load in a line.
    load: String,
    /// When requests were due.
    arrivals: &'a Arrivals,
    #[serde(flatten)]
    serving: &'a ServingAnalysis,
    /// Conclusions about the server, the largest gain first.
    findings: &'a [Finding],
    /// What was dropped or should not be trusted.
    issues: &'a [Issue],
}

impl<'a> BenchFile<'a> {
    /// `None` where the run loaded no server.
    pub(crate) fn from_record(record: &'a RunRecord, analysis: &'a Analysis) -> Option<Self> {
        let asked = &record.load.as_ref()?.asked;
        Some(Self {
            endpoint: &asked.endpoint,
            model: &analysis.model,
            load: asked.to_string(),
            arrivals: &asked.arrivals,
            serving: analysis.serving.as_ref()?,
            findings: &analysis.findings,
            issues: &analysis.issues,
        })
    }
}

pub(super) fn files(results: &Results<'_>) -> Result<Vec<Output>, Failure> {
    let (record, analysis) = (results.record, results.analysis);
    let Some((served, serving)) = record.load.as_ref().zip(analysis.serving.as_ref()) else {
        return Ok(Vec::new());
    };
    let load = &served.load;
    let each = parts::split_requests(&load.requests, load.started_unix_ns, &served.steps);
    let bench = BenchFile::from_record(record, analysis);
    let vllm = vllm_bench(
        load,
        &serving.summary,
        &served.asked.arrivals,
        &record.name,
        &clock::at_unix_ns(load.started_unix_ns),
    );
    let mut files = vec![
        ("bench.json".to_owned(), text(&bench)?),
        (
            "requests.csv".to_owned(),
            requests_csv(&load.requests, &each),
        ),
        ("vllm_bench.json".to_owned(), text(&vllm)?),
    ];
    if let Some(sweep) = &serving.sweep {
        files.push(("sweep.json".to_owned(), text(sweep)?));
    }
    if let Some(samples) = &record.samples {
        files.push(("telemetry.csv".to_owned(), samples.host_csv()));
        let nvml = samples.nvml_csv();
        files.extend(nvml.map(|text| ("nvml.csv".to_owned(), text)));
    }
    if !served.steps.is_empty() {
        let steps = steps_csv(&served.steps, load.started_unix_ns);
        files.push(("server/steps.csv".to_owned(), steps));
    }
    Ok(files)
}
