//! Rows of `fixtures/silicon/rows.csv`, and the designs of the models in them.

use std::{collections::BTreeMap, error::Error};

use llmprof_theory::{Model, WeightFormat, parallel::Parallel};
use serde::{Deserialize, Serialize};

const ROWS: &str = include_str!("../../../fixtures/silicon/rows.csv");

/// Who measured a row, and so how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowSource {
    /// Public benchmark dashboards, whose launch scripts are known.
    Dashboard,
    /// Sweeps by the authors of aiconfigurator; only the tool is known.
    Sweep,
}

pub(crate) struct ServedRow {
    pub(crate) line: &'static str,
    pub(crate) device: &'static str,
    pub(crate) source: RowSource,
    pub(crate) backend: &'static str,
    /// Of the engine; empty where the row does not state it.
    pub(crate) version: &'static str,
    pub(crate) model: &'static str,
    /// Of weights, where the design does not state its own.
    pub(crate) weights: Option<WeightFormat>,
    pub(crate) concurrency: usize,
    pub(crate) prompt: u64,
    pub(crate) output: u64,
    pub(crate) parallel: Parallel,
    pub(crate) measured: ServedTimes,
    /// The estimate that aiconfigurator itself makes of the row.
    pub(crate) estimated: Option<ServedTimes>,
    /// Whether it is in the formats that the row states and that are simulated.
    pub(crate) is_alike: bool,
}

impl ServedRow {
    /// What it states beside times, the version up to its last part. DeepSeek V3 and R1 are one design.
    pub(crate) fn stated_settings(&self) -> String {
        let cells: Vec<&str> = self.line.split(',').collect();
        let stated = cells[..cells.len() - 5].join(",");
        let version = self.version.split(".post").next().unwrap_or_default();
        stated
            .replace("-V3", "-R1")
            .replace(&format!(",{},", self.version), &format!(",{version},"))
    }
}

/// TTFT and TPOT in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedTimes {
    pub(crate) ttft: f64,
    pub(crate) tpot: f64,
}

/// DeepSeek V3 and R1 are one design, Llama 3.1 8B and its FP8 checkpoint another.
pub(crate) fn design_of(model: &'static str) -> &'static str {
    match model {
        "deepseek-ai/DeepSeek-V3" => "deepseek-ai/DeepSeek-R1",
        "nvidia/Llama-3.1-8B-Instruct-FP8" => "meta-llama/Llama-3.1-8B-Instruct",
        other => other,
    }
}

/// Models by the names that rows have for them.
pub(crate) fn read_models() -> Result<BTreeMap<&'static str, Model>> {
    let llama_70b = include_str!("../../../crates/theory/tests/data/models/llama3_1_70b.json");
    let llama_8b = include_str!("../../../crates/theory/tests/data/models/llama3_1_8b.json");
    let deepseek = include_str!("../../../crates/theory/tests/data/models/deepseek_v3.json");
    let gpt_oss = include_str!("../../../crates/theory/tests/data/models/gpt_oss_120b.json");
    let designs = [
        ("meta-llama/Llama-3.1-70B", llama_70b),
        ("meta-llama/Llama-3.1-8B-Instruct", llama_8b),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", llama_8b),
        ("deepseek-ai/DeepSeek-R1", deepseek),
        ("deepseek-ai/DeepSeek-V3", deepseek),
        ("openai/gpt-oss-120b", gpt_oss),
        (
            "Qwen/Qwen3-235B-A22B-FP8",
            include_str!("../../../fixtures/silicon/qwen3_235b_a22b.json"),
        ),
        (
            "Qwen/Qwen3-32B",
            include_str!("../../../fixtures/silicon/qwen3_32b.json"),
        ),
        (
            "Qwen/Qwen3.5-397B-A17B",
            include_str!("../../../fixtures/silicon/qwen3_5_397b_a17b.json"),
        ),
        (
            "MiniMaxAI/MiniMax-M2.5",
            include_str!("../../../fixtures/silicon/minimax_m2_5.json"),
        ),
        (
            "moonshotai/Kimi-K2.5",
            include_str!("../../../fixtures/silicon/kimi_k2_5.json"),
        ),
        (
            "zhipuai/GLM-5",
            include_str!("../../../fixtures/silicon/glm_5.json"),
        ),
    ];
    let mut models = BTreeMap::new();
    for (name, text) in designs {
        let config = serde_json::from_str(text)?;
        let model = Model::from_config(&config, None);
        models.insert(name, model.or_else(|_| Model::from_common_keys(&config))?);
    }
    Ok(models)
}

pub(crate) fn read_rows() -> Result<Vec<ServedRow>> {
    read_csv(ROWS, parse_row)
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Every line of a CSV file after its header, with the header's columns.
pub(crate) fn read_csv<T>(
    text: &'static str,
    row: fn(&[&str], &'static str) -> Result<T>,
) -> Result<Vec<T>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(|line| row(&header, line)).collect()
}

fn parse_row(header: &[&str], line: &'static str) -> Result<ServedRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let cell = |name: &str| -> &'static str {
        let place = header.iter().position(|column| *column == name);
        place
            .and_then(|place| cells.get(place))
            .copied()
            .unwrap_or_default()
    };
    let ranks = |name: &str| cell(name).parse::<u64>().unwrap_or(1);
    let times = |prefix: &str| {
        let time = |name: &str| cell(&format!("{prefix}{name}")).parse::<f64>();
        Some(ServedTimes {
            ttft: time("ttft_ms").ok()?,
            tpot: time("tpot_ms").ok()?,
        })
    };
    let data = ranks("attention_dp_size");
    // Across data-parallel groups, experts divided by width cost the same as whole ones.
    let by_width = if data > 1 { ranks("moe_tp_size") } else { 1 };
    let (model, gemm) = (cell("model_path"), cell("gemm_quant_mode"));
    Ok(ServedRow {
        line,
        device: cell("device"),
        source: match cell("source") {
            "dashboard" => RowSource::Dashboard,
            _ => RowSource::Sweep,
        },
        backend: cell("backend"),
        version: cell("backend_version"),
        model,
        weights: parse_weights(model, cell("precision"), gemm)?,
        concurrency: cell("concurrency").parse()?,
        prompt: cell("isl").parse()?,
        output: cell("osl").parse()?,
        parallel: Parallel {
            tensor: ranks("tp_size"),
            pipeline: ranks("pp_size"),
            expert: ranks("moe_ep_size") * by_width,
            data,
        },
        measured: times("").ok_or("a row without times")?,
        estimated: times("estimated_"),
        is_alike: cell("estimated_formats") == "row",
    })
}

/// `precision` says how wide weights are; designs that state a format of their own keep it, checkpoints of Qwen in FP8 have tiles of 128 × 128 by their configs.
fn parse_weights(model: &str, precision: &str, gemm: &str) -> Result<Option<WeightFormat>> {
    let states_its_own = ["deepseek", "openai", "moonshotai", "zhipuai", "MiniMax"]
        .iter()
        .any(|name| model.starts_with(name));
    let by_blocks = gemm == "fp8_block"
        || ["Qwen/Qwen3-235B", "Qwen/Qwen3.5"]
            .iter()
            .any(|name| model.starts_with(name));
    Ok(match precision {
        "fp8" if states_its_own => None,
        "fp8" if by_blocks => Some("fp8_128x128".parse()?),
        "fp8" => Some("fp8".parse()?),
        _ => None,
    })
}
