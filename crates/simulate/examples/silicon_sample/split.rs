//! Which models calibrate and which ones only grade: `fixtures/silicon/split.json`, and which rows of the former numbers are fitted to.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use llmprof_theory::{Model, block::FeedForward};
use serde::Deserialize;

use crate::rows::{Row, Source};

const SPLIT: &str = include_str!("../../../../fixtures/silicon/split.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Split {
    pub(crate) rule: String,
    pub(crate) calibration: BTreeSet<String>,
    pub(crate) grading: BTreeSet<String>,
}

impl Split {
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        Ok(serde_json::from_str(SPLIT)?)
    }

    pub(crate) fn grades(&self, row: &Row) -> bool {
        self.grading.contains(row.model)
    }

    /// Rows of calibration models without those that run what is not simulated, each measurement once.
    pub(crate) fn calibrating<'r>(&self, rows: &'r [Row]) -> Vec<&'r Row> {
        let mut seen = BTreeSet::new();
        let of_models: Vec<&Row> = rows
            .iter()
            .filter(|row| self.calibration.contains(row.model) && !runs_otherwise(row))
            .filter(|row| {
                let times = [row.measured.ttft, row.measured.tpot].map(f64::to_bits);
                seen.insert((row.settings(), times))
            })
            .collect();
        let mut slowest: BTreeMap<String, f64> = BTreeMap::new();
        for row in &of_models {
            let most = slowest.entry(row.settings()).or_default();
            *most = most.max(row.measured.tpot);
        }
        let speculates = |row: &Row| slowest[&row.settings()] > SPECULATES * row.measured.tpot;
        of_models
            .iter()
            .filter(|row| !speculates(row))
            .copied()
            .collect()
    }
}

/// A row that decodes so many times as fast as another one of the same settings has more than one token a step, which no column says.
const SPECULATES: f64 = 1.2;

/// Launch scripts that set what is not simulated: SGLang looks for requests every tenth or thirtieth step (`--scheduler-recv-interval`), and TensorRT-LLM 1.2
/// captures prefill as CUDA graphs and holds prompts back (`enable_piecewise_cuda_graph`, `batch_wait_timeout_iters`), both for DeepSeek on B200s.
fn runs_otherwise(row: &Row) -> bool {
    let is_b200 = row.device == "b200" && row.source == Source::Dashboard;
    is_b200 && (row.backend == "sglang" || row.version.starts_with("1.2"))
}

/// DeepSeek V3 and R1 are one design, Llama 3.1 8B and its FP8 checkpoint another.
pub(crate) fn design(model: &'static str) -> &'static str {
    match model {
        "deepseek-ai/DeepSeek-V3" => "deepseek-ai/DeepSeek-R1",
        "nvidia/Llama-3.1-8B-Instruct-FP8" => "meta-llama/Llama-3.1-8B-Instruct",
        other => other,
    }
}

/// Designs that calibrate, by counting rows.
pub(crate) fn by_rule(
    rows: &[Row],
    models: &BTreeMap<&'static str, Model>,
) -> BTreeSet<&'static str> {
    let has_experts = |model: &Model| {
        let mut groups = model.decoder.iter().flat_map(|decoder| &decoder.groups);
        groups.any(|group| matches!(group.layer.feed, FeedForward::Moe(_)))
    };
    let most = |source: Source, experts: Option<bool>| {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.device != "h200") {
            let is_of_kind = |model: &&Model| experts.is_none_or(|has| has_experts(model) == has);
            if row.source == source
                && models
                    .get(row.model)
                    .is_some_and(|model| is_of_kind(&model))
            {
                *counts.entry(design(row.model)).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    };
    [
        most(Source::Dashboard, Some(false)),
        most(Source::Dashboard, Some(true)),
        most(Source::Sweep, None),
    ]
    .into_iter()
    .flatten()
    .map(|(design, _)| design)
    .collect()
}
