//! One file per command.

pub(crate) mod analyze;
pub(crate) mod bootstrap;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dataset;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod externals;
pub(crate) mod hardware;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod kernels;
pub(crate) mod man;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod simulate;
pub(crate) mod worker;

use std::collections::BTreeMap;

pub(crate) use predict::prediction;
pub(crate) use record::OWN_FAILURE as RECORD_FAILED;

use llmprof_assets::{
    bootstrap::Asset,
    dataset::{DatasetFacts, Fault},
    externals::ExternalState,
};
use llmprof_capture::doctor::Check;
use llmprof_report::compose::{
    advise::Advised, listings::ListedRun, plan::Planned, predict::PredictedGrid,
    simulate::Simulated,
};
use llmprof_theory::device::{CatalogEntry, Device};
use serde_json::Value;

use crate::named_schema::{NamedSchema, contract, titled};

/// The JSON Schemas of what commands print with `--json`, where no file has the same.
pub(crate) fn schemas() -> Vec<NamedSchema> {
    vec![
        contract::<PredictedGrid<'_>>("predict", 1, "llmprof predict --format json"),
        contract::<Advised>("advise", 1, "llmprof predict --advise --format json"),
        contract::<Simulated>("simulate", 1, "llmprof simulate --json"),
        contract::<Planned>("plan", 1, "llmprof plan --json"),
        titled(
            "kernels",
            1,
            "llmprof kernels analyze --json",
            kernels::analyze::schema,
        ),
        contract::<Vec<ListedRun<'_>>>("runs", 1, "llmprof runs list --json"),
        contract::<ListedRun<'_>>("runs_show", 1, "llmprof runs show --json"),
        contract::<Vec<CatalogEntry>>("hardware", 1, "llmprof hardware list --json"),
        contract::<Device>("hardware_show", 1, "llmprof hardware show --json"),
        contract::<Vec<Check>>("doctor", 1, "llmprof doctor --json"),
        contract::<Vec<model::ListedModel>>("models", 1, "llmprof model list --json"),
        contract::<Vec<BTreeMap<String, Value>>>("query", 1, "llmprof query --format json"),
        contract::<Vec<DatasetFacts>>("datasets", 1, "llmprof dataset list --json"),
        contract::<DatasetFacts>("dataset", 1, "llmprof dataset show --json"),
        contract::<Vec<Fault>>("dataset_verify", 1, "llmprof dataset verify --json"),
        contract::<Vec<ExternalState>>("externals", 1, "llmprof externals status --json"),
        contract::<Vec<Asset>>("bootstrap", 1, "llmprof bootstrap --json"),
    ]
}
