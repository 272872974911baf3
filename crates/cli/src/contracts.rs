//! JSON Schemas of every file that llmprof writes and of what its commands print.

use std::collections::BTreeMap;

use llmprof_analysis::{
    Analysis, CaptureCost, compare::Comparison, run_metrics::RunMetrics, statics::Statics,
    trace::scaled::ScaledTrace, trtexec::EngineLayers,
};
use llmprof_assets::{
    dataset::{SampleRow, Statistics},
    externals::HubSnapshot,
};
use llmprof_grounding::Info;
use llmprof_load::{offline::OfflineLine, results::ForeignResult, server::window::Window};
use llmprof_predict::KernelCurves;
use llmprof_record::{
    communication::Communication,
    counters::Counters,
    memory::MemoryHistory,
    predictions::{DirectRequest, Prediction, Skipped},
    rank_summary::RankSummary,
    run::{HostFacts, RunRecord, Summary},
    samples::Samples,
    serving::{RequestRecord, ServedLoad},
    store::{self, Manifest},
};
use llmprof_theory::device::schema::DeviceFile;
use llmprof_traffic::{figures::LoadSummary, sweep::Sweep};
use llmprof_view::agent::answer_schemas;
use schemars::JsonSchema;
use serde_json::Value;

use crate::commands;
use crate::comparing::{CompareFile, baseline};
use crate::job_ranks::SummariesMade;
use crate::jobs::{CodeRevision, JobsFile};
use crate::named_schema::{NamedSchema, contract, titled};
use crate::outputs::{AllocatorFile, SampleTotals, serving::BenchFile};
use crate::serving::{OfflineJob, PrintedBench};

/// All schemas: files of a run, other files, what commands print, answers for agents.
pub(crate) fn all_schemas() -> Vec<NamedSchema> {
    let mut all = run_files();
    all.extend(other_files());
    all.extend(commands::schemas());
    all.extend(answer_schemas());
    all
}

fn run_files() -> Vec<NamedSchema> {
    vec![
        contract::<Manifest>("run", store::SCHEMA_VERSION, "run.json"),
        titled(
            "record",
            RunRecord::SCHEMA_VERSION,
            "record.json",
            RunRecord::schema,
        ),
        contract::<Analysis>("analysis", Analysis::SCHEMA_VERSION, "analysis.json"),
        contract::<RunMetrics<'_, SampleTotals>>("metrics", 1, "metrics.json"),
        contract::<Statics>("static_compute", 1, "static_compute.json"),
        contract::<BenchFile<'_>>("bench", 1, "bench.json"),
        contract::<PrintedBench<'_>>("bench_printed", 1, "llmprof bench --json"),
        contract::<Sweep<LoadSummary>>("sweep", 1, "sweep.json"),
        contract::<ServedLoad>("load", 1, "load.json"),
        contract::<RequestRecord>("requests", 1, "a line of requests.jsonl"),
        contract::<OfflineJob>("offline_job", 1, "server/job.json"),
        contract::<OfflineLine>("offline_result", 1, "a line of server/result.jsonl"),
        contract::<Window>("metrics_window", 1, "server/metrics_window.json"),
        contract::<HostFacts>("env", 1, "env.json"),
        contract::<Vec<CodeRevision>>("sources", 1, "sources.json"),
        contract::<Samples>("samples", 1, "samples.json"),
        contract::<Counters>("counters", 1, "counters.json"),
        contract::<MemoryHistory>("memory", 1, "memory.json"),
        contract::<AllocatorFile<'_>>("allocator", 1, "allocator.json"),
        contract::<Communication>("communication", 1, "communication.json"),
        contract::<Vec<Summary>>("summaries", 1, "summaries.json"),
        contract::<ScaledTrace>("slices", 1, "slices.json"),
        contract::<BTreeMap<String, CaptureCost>>("overhead", 1, "torch_profiler/overhead.json"),
        contract::<RankSummary>("rank", 1, "the JSON of a file in ranks/"),
        contract::<Prediction>("prediction", 1, "a line of predictions/predictions.jsonl"),
        contract::<DirectRequest>("direct_inference", 1, "direct_inference.json"),
        contract::<Skipped>("skipped", 1, "a line of predictions/skipped.jsonl"),
        contract::<Info>("visualization", 1, "visualizations/SAMPLE/info.json"),
        contract::<EngineLayers>("layers", 1, "layers.json"),
    ]
}

fn other_files() -> Vec<NamedSchema> {
    vec![
        contract::<CompareFile<'_>>("compare", Comparison::SCHEMA_VERSION, "compare.json"),
        contract::<baseline::Baseline>("baseline", baseline::SCHEMA_VERSION, "baselines/NAME.json"),
        contract::<BTreeMap<String, Value>>("flat", 1, "flat.json"),
        contract::<JobsFile>(
            "jobs",
            JobsFile::SCHEMA_VERSION,
            "jobs.json of a sweep, jobs_*.json of one on a cluster",
        ),
        contract::<SummariesMade>(
            "import_summary_only",
            1,
            "llmprof import --summary-only --json",
        ),
        contract::<BTreeMap<String, Statistics>>(
            "statistics",
            1,
            "analysis/statistics.json of a dataset",
        ),
        contract::<SampleRow>(
            "samples_row",
            1,
            "a line of data/samples.jsonl of a variant",
        ),
        contract::<HubSnapshot>("hub_snapshot", 1, ".llmprof-snapshot.json"),
        contract::<DeviceFile>("device", 1, "the file that llmprof hardware measure writes"),
        contract::<KernelCurves>(
            "curves",
            1,
            "NAME.curves.json of llmprof hardware measure --gpu",
        ),
        contract::<PytestBaselines>("pytest_baselines", 1, "llmprof-baselines.json"),
        contract::<Vec<ForeignResult>>("bench_import", 1, "llmprof bench --import FILE --json"),
    ]
}

/// Values that tests of pytest are compared with.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "python/llmprof_harness/regression.py writes the file"
)]
struct PytestBaselines {
    /// Version of this layout.
    schema_version: u32,
    /// By machine, then by name of the value.
    machines: BTreeMap<String, BTreeMap<String, PytestBaseline>>,
}

/// One value that a test measured.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "python/llmprof_harness/regression.py writes the file"
)]
struct PytestBaseline {
    /// What was measured, one number for each repetition.
    values: Vec<f64>,
    /// Unit of the values; empty for counts.
    unit: String,
    /// When it was measured (RFC 3339).
    kept: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A reader finds a type by its name; a second type of the same name would get a number behind it.
    #[test]
    fn one_name_is_one_type_in_all_schemas() {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for (id, schema) in all_schemas() {
            assert!(ids.insert(id.clone()), "{id} is there twice");
            assert_eq!(schema.get("$id").and_then(Value::as_str), Some(&*id));
            let types = schema.get("$defs").and_then(Value::as_object);
            for (name, of_type) in types.into_iter().flatten() {
                let text = of_type.to_string();
                let first = known.entry(name.clone()).or_insert_with(|| text.clone());
                assert_eq!(*first, text, "{name} is two types; the second is in {id}");
            }
        }
    }
}
