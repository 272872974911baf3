//! Errors on public serving measurements that nothing was fitted to: `cargo run --release -p llmprof-simulate --example silicon_sample [all|sums] [PROFILE]`.
//!
//! Every row is a closed loop: so many requests in flight, prompts and answers of about one length. It is simulated as such, with step times
//! predicted for the model over the row's ranks; the median TPOT and both the
//! median and the mean TTFT are compared with the row's, which does not say which it is. With `all`, every row is printed.

#![expect(clippy::print_stdout, reason = "a report prints")]

use std::{collections::BTreeMap, error::Error};

use llmprof_simulate::{Load, Settings, Summary, predicted::Predicted, simulate};
use llmprof_theory::{
    Model, Precision, WeightFormat, Workload,
    device::{Catalog, Device},
    parallel::{Parallel, Spread},
    predict::EfficiencyProfile,
};
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths, statistics::percentile};
use llmprof_units::{DType, Nanos};

const ROWS: &str = include_str!("../../../fixtures/silicon/h200.csv");
/// Requests for each one in flight, as the dashboards send them. The first ones start together, which the mean TTFT shows.
const ROUNDS: usize = 10;
/// Share of memory that the engines leave to weights and KV cache.
const MEMORY: f64 = 0.85;

fn designs() -> BTreeMap<&'static str, &'static str> {
    let llama_70b = include_str!("../../theory/tests/data/models/llama3_1_70b.json");
    let llama_8b = include_str!("../../theory/tests/data/models/llama3_1_8b.json");
    let deepseek = include_str!("../../theory/tests/data/models/deepseek_v3.json");
    BTreeMap::from([
        ("meta-llama/Llama-3.1-70B", llama_70b),
        ("meta-llama/Llama-3.1-8B-Instruct", llama_8b),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", llama_8b),
        ("deepseek-ai/DeepSeek-R1", deepseek),
        ("deepseek-ai/DeepSeek-V3", deepseek),
        (
            "openai/gpt-oss-120b",
            include_str!("../../theory/tests/data/models/gpt_oss_120b.json"),
        ),
        (
            "Qwen/Qwen3-235B-A22B-FP8",
            include_str!("../../../fixtures/silicon/qwen3_235b_a22b.json"),
        ),
    ])
}

struct Row {
    backend: String,
    model: String,
    precision: String,
    concurrency: usize,
    prompt: u64,
    output: u64,
    parallel: Parallel,
    ttft_ms: f64,
    tpot_ms: f64,
}

fn rows() -> Result<Vec<Row>, Box<dyn Error>> {
    let mut lines = ROWS.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut found = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |name: &str| {
            let place = header.iter().position(|column| *column == name);
            place
                .and_then(|place| cells.get(place))
                .copied()
                .unwrap_or_default()
        };
        let ranks = |name: &str| cell(name).parse::<u64>().unwrap_or(1);
        found.push(Row {
            backend: cell("backend").to_owned(),
            model: cell("model_path").to_owned(),
            precision: cell("precision").to_owned(),
            concurrency: cell("concurrency").parse()?,
            prompt: cell("isl").parse()?,
            output: cell("osl").parse()?,
            parallel: Parallel {
                tensor: ranks("tp_size"),
                pipeline: ranks("pp_size"),
                // Experts shared within the ranks of a layer cost the same whichever way.
                expert: 1,
                data: ranks("attention_dp_size"),
            },
            ttft_ms: cell("ttft_ms").parse()?,
            tpot_ms: cell("tpot_ms").parse()?,
        });
    }
    Ok(found)
}

/// From four fifths of a length to all of it, as the dashboards draw them: requests of one length would start and end together.
fn lengths(most: u64) -> Lengths {
    Lengths::Uniform {
        least: (most * 4 / 5).max(1),
        most,
    }
}

/// Median and mean TTFT, and median TPOT, in ms.
fn simulated(
    row: &Row,
    model: &Model,
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<[f64; 3], Box<dyn Error>> {
    let precision = Precision {
        weights: (row.precision == "fp8").then_some("fp8".parse::<WeightFormat>()?),
        kv: (row.backend == "trtllm" || row.model.starts_with("nvidia/"))
            .then_some("fp8".parse::<DType>()?),
        ..Precision::default()
    };
    let workload = Workload {
        precision,
        parallel: row.parallel,
        ..Workload::default()
    };
    let spread = Spread::new(model, device, row.parallel)?;
    let predictor = spread.predictor(device, profile);
    let predict = |workload: &Workload| Ok(spread.predict(&predictor, workload)?.prediction);
    let fit = |prompt| {
        let asked = Workload {
            prompt,
            new_tokens: 1,
            ..workload
        };
        spread
            .predict(&predictor, &asked)
            .map(|found| found.prediction.memory)
    };
    let (short, long) = (fit(1024)?, fit(2048)?);
    let per_token = (long.kv_bytes.0 - short.kv_bytes.0) as f64 / 1024.0;
    let capacity = long.capacity_bytes.ok_or("no capacity")?.0 as f64;
    let blocks = (capacity * MEMORY - long.weights_bytes.0 as f64) / (per_token * 16.0);
    if blocks < 1.0 {
        return Err("does not fit".into());
    }
    let time = Predicted::new(&predict, &workload, Nanos(0))?;
    let settings = Settings {
        kv_blocks: (blocks as u64).min(1 << 24),
        max_num_seqs: 1024,
        ..Settings::default()
    };
    let load = Load::synthetic(
        &Arrivals::Closed {
            concurrency: row.concurrency,
        },
        &lengths(row.prompt),
        &lengths(row.output),
        0,
        row.concurrency * ROUNDS,
        1,
    );
    let outcome = simulate(&load, &settings, &time)?;
    let summary = Summary::of(&[outcome], settings.kv_blocks, &[]);
    match (summary.ttft_ms, summary.tpot_ms) {
        (Some(ttft), Some(tpot)) => Ok([ttft.p50, ttft.mean, tpot.p50]),
        _ => Err("no request ended".into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let prints_all = std::env::args().nth(1).is_some_and(|word| word == "all");
    let device = Catalog::embedded().by_name("h200")?;
    let profile = std::env::args().nth(2).unwrap_or_else(|| "vllm".to_owned());
    let profile = EfficiencyProfile::embedded(&profile)?;
    let mut models = BTreeMap::new();
    for (name, text) in designs() {
        models.insert(
            name,
            Model::from_config(&serde_json::from_str(text)?, None)?,
        );
    }
    let mut errors: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows()? {
        let found = match models.get(row.model.as_str()) {
            None => Err("no design of the model here".into()),
            Some(_) if row.parallel.data > 1 => Err("data parallel within an engine".into()),
            Some(model) => simulated(&row, model, &device, &profile),
        };
        let [ttft, mean_ttft, tpot] = match found {
            Ok(found) => found,
            Err(error) => {
                *left_out.entry(error.to_string()).or_default() += 1;
                continue;
            }
        };
        let off = [
            ttft / row.ttft_ms,
            mean_ttft / row.ttft_ms,
            tpot / row.tpot_ms,
        ]
        .map(|ratio| ratio - 1.0);
        if prints_all {
            println!(
                "{} {} {} TP{} {}→{} ×{}: TTFT {ttft:.1} of {:.1} ms ({:+.0} %), TPOT {tpot:.2} of {:.2} ms ({:+.0} %)",
                row.model,
                row.backend,
                row.precision,
                row.parallel.tensor,
                row.prompt,
                row.output,
                row.concurrency,
                row.ttft_ms,
                off[0] * 100.0,
                row.tpot_ms,
                off[2] * 100.0
            );
        }
        let alone = if row.parallel.ranks() == 1 {
            "one GPU"
        } else {
            "several GPUs"
        };
        for group in [
            "all".to_owned(),
            alone.to_owned(),
            format!("{} {}", row.model, row.backend),
        ] {
            errors.entry(group).or_default().push(off);
        }
    }
    for (group, off) in errors {
        let quantile = |place: usize, p: f64| {
            let mut values: Vec<f64> = off.iter().map(|errors| errors[place].abs()).collect();
            values.sort_unstable_by(f64::total_cmp);
            percentile(&values, p) * 100.0
        };
        println!(
            "{group}: {} rows, |error| TPOT median {:.1} %, p90 {:.1} %; median TTFT {:.1} %, p90 {:.1} %; mean TTFT {:.1} %, p90 {:.1} %",
            off.len(),
            quantile(2, 0.5),
            quantile(2, 0.9),
            quantile(0, 0.5),
            quantile(0, 0.9),
            quantile(1, 0.5),
            quantile(1, 0.9)
        );
    }
    for (why, count) in left_out {
        println!("left out: {count} rows, {why}");
    }
    Ok(())
}
