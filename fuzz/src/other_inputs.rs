//! What is read beside profiles, configs and servers: requests of a browser, SQL, summaries of ranks, models, devices, kernel curves, prices, samples of datasets, and
//! expressions of the command line.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use llmprof_analysis::{analyze, compare::Gate};
use llmprof_assets::dataset::samples::DatasetSamples;
use llmprof_grounding::{is_grounded, parse};
use llmprof_predict::{KernelClock, KernelCurves};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::rank_summary::RankSummary;
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_simulate::plan::read_prices;
use llmprof_theory::kernels::{Access, Kernel, Stored};
use llmprof_theory::{Model, Span, Workload, device::Catalog, parse_config};
use llmprof_traffic::{lengths::Lengths, slo::Slo};
use llmprof_view::agent::{AgentQuestion, Asked, Caller, PlaceId};
use llmprof_view::query::{QueryLimits, query};
use llmprof_view::{OpenedRun, Site, answer_next};

/// Every format; each has a folder of seeds in `fuzz/corpus` and a target in `fuzz/fuzz_targets`.
pub const FORMATS: [&str; 10] = [
    "view_request",
    "query_sql",
    "rank_summary",
    "model_config",
    "device_file",
    "kernel_curves",
    "prices",
    "dataset_lines",
    "grounded_text",
    "expressions",
];

const TOKEN: &str = "0123456789abcdef";
/// Requests of one connection that are answered.
const REQUESTS_MAX: usize = 8;
/// Ranks that a summary is joined as.
const RANKS: u32 = 3;
/// SQL may ask for work without end; the limit of time ends it.
const SQL_LIMITS: QueryLimits = QueryLimits {
    time: std::time::Duration::from_millis(200),
    rows: 100,
};

/// The run that is asked: the profile of a seed.
static SITE: OnceLock<Site> = OnceLock::new();

fn open_seed(fuzz: &Path) -> Site {
    let seed = fuzz.join("corpus/kineto/small.json");
    let (_, profile) = import(&seed, &Limits::default()).expect("a seed is a profile");
    let Profile::Trace(trace) = profile else {
        unreachable!("the seed is a trace");
    };
    let record = RunRecord {
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    let analysis = analyze(&record, None).ok();
    let run = OpenedRun::new("seed".to_owned(), record, analysis, None);
    Site {
        runs: vec![Arc::new(run.expect("a seed has few events"))],
    }
}

/// Reads bytes as a format, and makes of them what a command makes; true where something could be read. `fuzz` is the folder of the seeds.
pub fn read(fuzz: &Path, format: &str, bytes: &[u8]) -> bool {
    let site = SITE.get_or_init(|| open_seed(fuzz));
    let text = String::from_utf8_lossy(bytes);
    match format {
        "view_request" => answer_requests(site, bytes),
        "query_sql" => query(&site.runs[0], &text, SQL_LIMITS).is_ok(),
        "rank_summary" => join_ranks(bytes),
        "model_config" => count_costs(&text),
        "device_file" => Catalog::embedded().add_file("input", &text).is_ok(),
        "kernel_curves" => time_kernels(&text),
        "dataset_lines" => read_lines(bytes),
        "prices" => read_prices(&text).is_ok(),
        "grounded_text" => {
            parse(&text);
            is_grounded(&text)
        }
        "expressions" => read_expressions(site, &text),
        _ => unreachable!("a format that is listed"),
    }
}

/// The requests of one connection; an answer that was a panic is a failure.
fn answer_requests(site: &Site, bytes: &[u8]) -> bool {
    let mut reader = bytes;
    let mut answers = Vec::new();
    for _ in 0..REQUESTS_MAX {
        if !answer_next(&mut reader, &mut answers, site, TOKEN).unwrap_or(false) {
            break;
        }
    }
    let has = |status: &[u8]| answers.windows(status.len()).any(|part| part == status);
    assert!(!has(b"HTTP/1.1 500"), "a request broke the server");
    has(b"HTTP/1.1 200")
}

/// What curves say of a kernel of each kind.
fn time_kernels(text: &str) -> bool {
    let Ok(curves) = KernelCurves::parse_text(text, "input") else {
        return false;
    };
    let clock = KernelClock::new(&curves, 1e15, 4e12);
    for size in [1.0, 3.0, 4096.0] {
        let gemm = Kernel::Gemm {
            groups: 1.0,
            m: size,
            n: size,
            k: size,
            size: 2.0,
            aligned: size > 3.0,
            stored: Stored::Plain,
        };
        let attention = Kernel::Attention {
            batch: size,
            heads: 8.0,
            kv_heads: 2.0,
            queries: size,
            keys: size,
            key_dim: 64.0,
            value_dim: 64.0,
            causal: true,
            masked: false,
            cached: 2.0,
        };
        clock.time_kernel(&gemm);
        clock.time_kernel(&attention);
        for access in Access::ALL {
            clock.time_kernel(&Kernel::Stream {
                access,
                bytes: size,
                elements: size,
                width: size,
            });
        }
    }
    true
}

/// The samples of a file of JSON lines.
fn read_lines(bytes: &[u8]) -> bool {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile();
    let file = file.expect("the temporary folder can be written");
    std::fs::write(file.path(), bytes).expect("the temporary folder can be written");
    DatasetSamples::find_below(file.path()).is_ok_and(|samples| {
        let read = (0..samples.len()).filter(|index| samples.sample(*index).is_ok());
        read.count() > 0
    })
}

/// Each line in each form that it may have.
fn read_expressions(site: &Site, text: &str) -> bool {
    let mut any = false;
    for line in text.lines() {
        any |= line.parse::<Gate>().is_ok();
        any |= line.parse::<Slo>().is_ok();
        any |= line.parse::<Lengths>().is_ok();
        if let Ok(place) = line.parse::<PlaceId>() {
            let asked = Asked {
                caller: Caller::Tools,
                run: line.to_owned(),
            };
            let _ = site.runs[0].ask(&asked, &AgentQuestion::Explain(place));
            any = true;
        }
    }
    any
}

/// The text of a summary, as that of several ranks.
fn join_ranks(json: &[u8]) -> bool {
    let Ok(summary) = RankSummary::from_bytes(&RankSummary::pack(json)) else {
        return false;
    };
    let ranks = (0..RANKS).map(|rank| RankSummary {
        rank,
        ..summary.clone()
    });
    let record = RunRecord {
        rank_summaries: ranks.collect(),
        ..RunRecord::default()
    };
    analyze(&record, None).is_ok()
}

/// What a model of a config costs.
fn count_costs(text: &str) -> bool {
    let model = parse_config(text)
        .ok()
        .and_then(|config| Model::from_config(&config, None).ok());
    let Some(model) = model else {
        return false;
    };
    let workload = Workload::default();
    model.cost_span(&workload, Span::Prefill);
    model.cost_span(&workload, Span::DecodeStep);
    model.parameter_count();
    model.checkpoint_tensors();
    true
}
