//! Errors on public serving measurements: `cargo run --release -p llmprof-simulate --example silicon_sample [rows|md] [PROFILE]`.
//!
//! Every row is a closed loop: so many requests in flight, prompts and answers of about one length. It is simulated as such, with step times
//! predicted for the model over the row's ranks, and its means are compared (`fixtures/silicon/README.md` says why). What clients see beside the engine's
//! own time is fitted to the H100 rows, three numbers for each source; the H200 rows only grade. Beside each error stands that of aiconfigurator's own
//! estimate of the same rows. With `rows`, every row is printed as CSV.

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

const ROWS: &str = include_str!("../../../fixtures/silicon/rows.csv");
/// Requests for each one in flight, as the dashboards send them. The first ones start together, which the mean TTFT shows.
const ROUNDS: usize = 10;
/// Share of memory that the engines leave to weights and KV cache.
const MEMORY: f64 = 0.85;

/// TTFT that a client sees: a time for each request and for each token of the prompt (HTTP, tokenization, streaming), and a multiple of the simulated
/// one (kernels under load are slower than by themselves).
struct FrontEnd {
    request_ms: f64,
    token_ms: f64,
    factor: f64,
}

/// The least median error over the 129 dashboard rows on H100s (all vLLM): 15 %.
const DASHBOARD: FrontEnd = FrontEnd {
    request_ms: 20.0,
    token_ms: 0.01,
    factor: 1.1,
};
/// The same over the 666 rows of sweeps on H100s: 23 %.
const SWEEP: FrontEnd = FrontEnd {
    request_ms: 100.0,
    token_ms: 0.002,
    factor: 1.4,
};

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
        (
            "Qwen/Qwen3-32B",
            include_str!("../../../fixtures/silicon/qwen3_32b.json"),
        ),
        (
            "MiniMaxAI/MiniMax-M2.5",
            include_str!("../../../fixtures/silicon/minimax_m2_5.json"),
        ),
    ])
}

struct Row {
    line: &'static str,
    device: &'static str,
    is_dashboard: bool,
    backend: &'static str,
    model: &'static str,
    weights: Option<WeightFormat>,
    concurrency: usize,
    prompt: u64,
    output: u64,
    parallel: Parallel,
    /// Whether experts are not spread over more ranks than the engine has.
    agrees: bool,
    measured: Times,
    estimated: Option<Times>,
}

/// TTFT and TPOT in ms.
#[derive(Clone, Copy)]
struct Times {
    ttft: f64,
    tpot: f64,
}

/// TTFT and TPOT, |simulated ÷ measured − 1| and that of the estimate.
#[derive(Clone, Copy)]
struct Errors {
    own: Times,
    theirs: Option<Times>,
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
        let times = |prefix: &str| {
            let time = |name: &str| cell(&format!("{prefix}{name}")).parse::<f64>();
            Some(Times {
                ttft: time("ttft_ms").ok()?,
                tpot: time("tpot_ms").ok()?,
            })
        };
        found.push(Row {
            line,
            device: cell("device"),
            is_dashboard: cell("source") == "dashboard",
            backend: cell("backend"),
            model: cell("model_path"),
            weights: weights(
                cell("model_path"),
                cell("precision"),
                cell("gemm_quant_mode"),
            )?,
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
            agrees: ranks("moe_tp_size") * ranks("moe_ep_size")
                <= ranks("tp_size") * ranks("attention_dp_size"),
            measured: times("").ok_or("a row without times")?,
            estimated: times("estimated_"),
        });
    }
    Ok(found)
}

/// Formats of weights, where the design does not state its own.
fn weights(
    model: &str,
    precision: &str,
    gemm: &str,
) -> Result<Option<WeightFormat>, Box<dyn Error>> {
    let is_own = model.starts_with("deepseek") || model.starts_with("openai");
    let by_blocks =
        gemm == "fp8_block" || model.starts_with("Qwen/Qwen3-235B") || model.starts_with("MiniMax");
    Ok(match precision {
        _ if is_own => None,
        "fp8" if by_blocks => Some("fp8_128x128".parse()?),
        "fp8" => Some("fp8".parse()?),
        _ => None,
    })
}

/// From four fifths of a length to all of it, as the dashboards draw them: requests of one length would start and end together.
fn lengths(most: u64) -> Lengths {
    Lengths::Uniform {
        least: (most * 4 / 5).max(1),
        most,
    }
}

/// The means that the row is predicted to hold.
fn simulated(
    row: &Row,
    model: &Model,
    device: &Device,
    profile: &EfficiencyProfile,
) -> Result<Times, Box<dyn Error>> {
    let precision = Precision {
        weights: row.weights,
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
    let (Some(ttft), Some(tpot)) = (summary.ttft_ms, summary.tpot_ms) else {
        return Err("no request ended".into());
    };
    let front = if row.is_dashboard { &DASHBOARD } else { &SWEEP };
    let before = front.request_ms + front.token_ms * row.prompt as f64;
    Ok(Times {
        ttft: before + front.factor * ttft.mean,
        tpot: tpot.mean,
    })
}

/// The groups that a row is counted in.
fn groups(row: &Row) -> [String; 5] {
    let (device, model) = (row.device, row.model);
    let alone = if row.parallel.ranks() == 1 {
        "one GPU"
    } else {
        "several GPUs"
    };
    let source = if row.is_dashboard {
        "dashboards"
    } else {
        "sweeps"
    };
    [
        device.to_owned(),
        format!("{device}, {alone}"),
        format!("{device}, {source}"),
        format!("{device}, {source}, {alone}"),
        format!("{device}, {source}, {model}, {}", row.backend),
    ]
}

/// A quantile of what some rows have, in percent.
fn quantile(found: &[Errors], p: f64, of: &dyn Fn(&Errors) -> Option<f64>) -> String {
    let mut values: Vec<f64> = found.iter().filter_map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() {
        return "–".to_owned();
    }
    format!("{:.1} %", percentile(&values, p) * 100.0)
}

/// Errors of all rows; then, of those that aiconfigurator has an estimate for, ours and its own.
fn print(errors: &BTreeMap<String, Vec<Errors>>) {
    println!(
        "| rows | | TPOT median | p90 | TTFT median | p90 | estimated | TPOT, ours / aiconfigurator | TTFT, ours / aiconfigurator |\n|---|---|---|---|---|---|---|---|---|"
    );
    for (group, found) in errors {
        let (tpot, ttft) = (
            |errors: &Errors| Some(errors.own.tpot),
            |errors: &Errors| Some(errors.own.ttft),
        );
        println!(
            "| {group} | {} | {} | {} | {} | {} | {} | {} / {} | {} / {} |",
            found.len(),
            quantile(found, 0.5, &tpot),
            quantile(found, 0.9, &tpot),
            quantile(found, 0.5, &ttft),
            quantile(found, 0.9, &ttft),
            found.iter().filter(|row| row.theirs.is_some()).count(),
            quantile(found, 0.5, &|row| row.theirs.map(|_| row.own.tpot)),
            quantile(found, 0.5, &|row| Some(row.theirs?.tpot)),
            quantile(found, 0.5, &|row| row.theirs.map(|_| row.own.ttft)),
            quantile(found, 0.5, &|row| Some(row.theirs?.ttft)),
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let prints_rows = std::env::args().nth(1).is_some_and(|word| word == "rows");
    let profile = std::env::args().nth(2).unwrap_or_else(|| "vllm".to_owned());
    let profile = EfficiencyProfile::embedded(&profile)?;
    let catalog = Catalog::embedded();
    let mut models = BTreeMap::new();
    for (name, text) in designs() {
        models.insert(
            name,
            Model::from_config(&serde_json::from_str(text)?, None)?,
        );
    }
    let mut errors: BTreeMap<String, Vec<Errors>> = BTreeMap::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows()? {
        let device = catalog.by_name(row.device)?;
        let found = match models.get(row.model) {
            None => Err("no design of the model here".into()),
            Some(_) if !row.agrees => Err("experts on more ranks than there are".into()),
            Some(_) if row.parallel.data > 1 => Err("data parallel within an engine".into()),
            Some(model) => simulated(&row, model, &device, &profile),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let why = format!("{}: {error}", row.device);
                *left_out.entry(why).or_default() += 1;
                continue;
            }
        };
        if prints_rows {
            println!("{},{:.5},{:.5}", row.line, found.ttft, found.tpot);
        }
        let off = |times: Times| Times {
            ttft: (times.ttft / row.measured.ttft - 1.0).abs(),
            tpot: (times.tpot / row.measured.tpot - 1.0).abs(),
        };
        for group in groups(&row) {
            errors.entry(group).or_default().push(Errors {
                own: off(found),
                theirs: row.estimated.map(off),
            });
        }
    }
    print(&errors);
    for (why, count) in left_out {
        println!("left out: {count} rows, {why}");
    }
    Ok(())
}
