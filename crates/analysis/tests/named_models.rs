//! Published traces for which a model is named: what may be said of them, and where the trace and the names disagree.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use llmprof_analysis::assumption::Assumption;
use llmprof_analysis::findings::{Abstention, Conclusion};
use llmprof_analysis::graphs::GraphSource;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{self, Limits};
use llmprof_record::run::{RecordedModel, RunRecord};
use llmprof_theory::device::Catalog;
use llmprof_theory::{Model, Workload};
use serde_json::Value;

const PREFILL: &str = "sglang_mi300/trace.json.gz";
const DECODE: &str = "sglang_decode_qwen3_30b_mi300/trace.json.gz";
const PIECEWISE: &str = "vllm_piecewise_mi300/trace.json.gz";

const BATCH: &str = "runtime.batch_size";
const PROMPT: &str = "workload.prompt_tokens";

fn model(name: &str) -> RecordedModel {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../theory/tests/data/models")
        .join(format!("{name}.json"));
    let text = std::fs::read_to_string(file).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    RecordedModel {
        model: Some(Model::from_config(&config, None).unwrap()),
        design: config.as_object().unwrap().clone(),
    }
}

fn read(trace: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/public")
        .join(trace);
    let mut text = String::new();
    let file = std::fs::File::open(file).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What is said of a trace: a model, and keys of its workload with their values.
fn said(trace: &str, name: &str, stated: &[(&str, u64)], label: Option<&str>) -> Analysis {
    let mut trace = read(trace);
    if let Some(label) = label {
        let events = trace["traceEvents"].as_array_mut().unwrap();
        for event in events {
            let category = event["cat"].as_str().unwrap_or_default();
            if ["user_annotation", "gpu_user_annotation"].contains(&category) {
                event["name"] = label.into();
            }
        }
    }
    of_model(&trace.to_string(), name, stated)
}

fn of_model(text: &str, name: &str, stated: &[(&str, u64)]) -> Analysis {
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), text).unwrap();
    let (_, profile) = import::import(file.path(), &Limits::default()).unwrap();
    let mut workload = Workload::default();
    for &(key, value) in stated {
        match key {
            BATCH => workload.batch = value,
            _ => workload.prompt = value,
        }
    }
    let mut record = RunRecord {
        model: Some(model(name)),
        workload: Some(workload),
        workload_keys: stated.iter().map(|(key, _)| (*key).to_owned()).collect(),
        ..RunRecord::default()
    };
    record.add_profile("trace", profile).unwrap();
    let device = Catalog::embedded().by_name("mi300x").unwrap();
    analyze(&record, Some(&device)).unwrap()
}

fn codes(analysis: &Analysis) -> Vec<&str> {
    let codes = analysis.issues.iter().map(|issue| issue.code.as_str());
    codes
        .filter(|code| {
            code.starts_with("invariant.")
                || ["run.unknown_workload", "run.no_model", "run.no_context"].contains(code)
        })
        .collect()
}

/// Whether anything is compared with the model.
fn is_compared(analysis: &Analysis) -> bool {
    analysis.phases.iter().any(|phase| {
        phase.roofline.is_some()
            || phase.utilization.is_some()
            || phase.waterfall.roofline_ns.is_some()
            || phase.by_kind.iter().any(|row| row.roofline_ns.is_some())
    })
}

#[test]
fn detailed_labels_need_a_model_and_nothing_else() {
    for (trace, name) in [(PREFILL, "qwen3_8b"), (DECODE, "qwen3_30b_a3b")] {
        let analysis = said(trace, name, &[], None);
        assert_eq!(codes(&analysis), [""; 0], "{name}");
        assert!(is_compared(&analysis), "{name}");
        // Labels state many sequences, and not one prompt and one answer.
        assert_eq!(analysis.workload, None, "{name}");
        let is_moe = analysis.assumptions.contains(&Assumption::UniformRouting);
        assert_eq!(is_moe, name == "qwen3_30b_a3b");
    }
}

/// Nobody says how many tokens ran: TensorRT-LLM's label has requests, a range `decode` has nothing.
#[test]
fn a_default_workload_is_compared_with_nothing() {
    for label in [
        "[Executor] _forward_step 12: 15 ctx reqs, 0 gen reqs",
        "decode",
    ] {
        let analysis = said(PREFILL, "qwen3_8b", &[], Some(label));
        assert_eq!(codes(&analysis), ["run.unknown_workload"], "{label}");
        assert!(!is_compared(&analysis), "{label}");
        assert_eq!(analysis.workload, None, "{label}");
        // What shapes alone tell stays: GEMMs at 38.9 % of the roofline of their shapes.
        let is_of_shapes = |conclusion: &Conclusion| {
            matches!(conclusion, Conclusion::GemmShapes { roofline_fraction, .. }
                if (0.3..0.5).contains(roofline_fraction))
        };
        let mut concluded = analysis
            .findings
            .iter()
            .filter_map(|one| one.conclusion.as_ref());
        assert!(concluded.any(is_of_shapes), "{label}");
        // Nor are kernels of the model overhead.
        let waterfall = &analysis.phases[0].waterfall;
        assert!(waterfall.extra_ns.0 * 10 < waterfall.wall_ns.0, "{label}");
    }
}

/// 15 sequences of 1024 tokens: GEMMs have 15360 rows.
#[test]
fn rows_of_gemms_contradict_a_workload_and_a_label() {
    let label = Some("[Executor] _forward_step 12: 15 ctx reqs, 0 gen reqs");
    let right = said(PREFILL, "qwen3_8b", &[(BATCH, 15), (PROMPT, 1024)], label);
    assert_eq!(codes(&right), [""; 0]);
    assert!(is_compared(&right));
    let wrong = said(PREFILL, "qwen3_8b", &[(BATCH, 1), (PROMPT, 128)], label);
    assert_eq!(codes(&wrong), ["invariant.other_rows"]);
    assert!(!is_compared(&wrong));
    let label = Some("step[EXTEND bs=15 toks=15]");
    let wrong = said(PREFILL, "qwen3_8b", &[], label);
    assert_eq!(codes(&wrong), ["invariant.other_rows"]);
    assert!(!is_compared(&wrong));
}

#[test]
fn a_label_contradicts_the_batch_that_the_user_states() {
    let analysis = said(PREFILL, "qwen3_8b", &[(BATCH, 8)], None);
    assert_eq!(codes(&analysis), ["invariant.other_label"]);
    let right = said(PREFILL, "qwen3_8b", &[(BATCH, 15)], None);
    assert_eq!(codes(&right), [""; 0]);
}

#[test]
fn another_model_is_found_by_its_gemms_and_its_experts() {
    for (trace, name, code) in [
        (PREFILL, "llama3_1_8b", "invariant.other_gemm"),
        (DECODE, "qwen3_8b", "invariant.other_experts"),
        (
            "qwen_h100/trace.json.gz",
            "qwen2_5_0_5b",
            "invariant.other_gemm",
        ),
    ] {
        let analysis = said(trace, name, &[], None);
        assert_eq!(codes(&analysis), [code], "{name}");
        assert!(!is_compared(&analysis), "{name}");
        assert_eq!(analysis.model, "a trace of kineto");
        let mut reasons = analysis.findings.iter().map(|one| &one.abstains);
        assert!(
            reasons.all(|why| *why != Some(Abstention::NoModel)),
            "{name}"
        );
    }
}

/// vLLM's ordinary label has no context lengths: nothing says how many keys attention reads.
#[test]
fn without_context_lengths_attention_has_no_roofline() {
    let label = Some("execute_context_0(0)_generation_16(16)");
    let analysis = said(DECODE, "qwen3_30b_a3b", &[], label);
    assert_eq!(codes(&analysis), ["run.no_context"]);
    let [phase] = analysis.phases.as_slice() else {
        panic!("one phase");
    };
    let row = |name: &str| phase.by_kind.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row("attention").roofline_ns, None);
    assert!(row("gemm").roofline_ns.is_some());
    assert!(phase.utilization.as_ref().unwrap().without_kv_cache);
}

/// 96 GEMMs of experts take 5.706 ms of the step; the router is another kernel.
#[test]
fn kernels_of_a_graph_are_the_models_operators_or_nothing() {
    let analysis = said(DECODE, "qwen3_30b_a3b", &[], None);
    let graphs = analysis.graphs.unwrap();
    assert_eq!(graphs.source, Some(GraphSource::ModelSequence));
    let time = |operator: &str| -> i64 {
        let rows = graphs.operators.iter();
        rows.filter(|row| row.operator.as_deref() == Some(operator))
            .map(|row| row.device_ns.0 / 1000)
            .sum()
    };
    assert!(
        (5_650..5_710).contains(&time("experts")),
        "{}",
        time("experts")
    );
    assert!(time("route") < 500, "{}", time("route"));
    let shaped = graphs.operators.iter().flat_map(|row| &row.inputs);
    for shape in shaped {
        assert!(shape.starts_with("m=16 "), "{shape}");
    }
    // Pieces of graphs that a model of another size cannot be laid along.
    let mut other = said(PIECEWISE, "qwen3_30b_a3b", &[], None);
    assert_eq!(other.graphs.take().unwrap().source, None);
}

/// Pieces of one step are one pass: GEMMs of experts are theirs, whichever piece they are in.
#[test]
fn pieces_of_a_graph_are_one_step() {
    let analysis = said(PIECEWISE, "gpt_oss_20b", &[], None);
    let graphs = analysis.graphs.unwrap();
    let experts: i64 = graphs
        .operators
        .iter()
        .filter(|row| {
            row.module
                .as_deref()
                .is_some_and(|path| path.contains("q_proj"))
        })
        .map(|row| row.device_ns.0 / 1000)
        .sum();
    // The capture of the same program has 9.15 ms of query, key and value.
    assert!(experts < 12_000, "{experts}");
    for phase in &analysis.phases {
        for row in phase.by_kind.iter().chain(&phase.by_path) {
            let share = row.roofline_fraction.unwrap_or(0.0);
            assert!(share <= 1.005, "{} {share}", row.name);
        }
    }
}

/// 16 tokens choose 8 of 128 experts each: 82.4 distinct ones if they choose uniformly, in each of 48 layers. In 37 of them the
/// two expert kernels are faster than that many experts can be read at 5.3 TB/s.
#[test]
fn no_more_experts_count_than_can_have_been_read() {
    let analysis = said(DECODE, "qwen3_30b_a3b", &[], None);
    let issue = analysis
        .issues
        .iter()
        .find(|issue| issue.code.as_str() == "run.fewer_experts")
        .unwrap();
    assert_eq!(issue.values["faster"], 37);
    assert_eq!(issue.values["layers"], 48);
    assert_eq!(issue.values["expected"], 82.4);
    let [phase] = analysis.phases.as_slice() else {
        panic!("{}", analysis.phases.len());
    };
    let most = phase.experts_at_most.unwrap();
    assert!((55.0..75.0).contains(&most), "{most}");
    let mbu = phase.utilization.as_ref().unwrap().mbu.unwrap();
    assert!(mbu < 0.60, "{mbu}");
    // An upper bound makes no class, and bounds no speedup.
    assert_eq!(phase.class.class, None, "{:?}", phase.class);
    assert!(analysis.assumptions.contains(&Assumption::UniformRouting));
    let mut concluded = analysis
        .findings
        .iter()
        .filter_map(|one| one.conclusion.as_ref());
    assert!(!concluded.any(|one| {
        matches!(one, Conclusion::Inefficiency { operators, .. } if operators == "gemm")
    }));
    let dense = said(PREFILL, "qwen3_8b", &[], None);
    assert_eq!(dense.phases[0].experts_at_most, None);
}

/// The first half of the launches is missing, and with them the kernels of 17 of 36 layers are in no step.
#[test]
fn half_of_a_step_is_no_step() {
    let mut trace = read(PREFILL);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let is_call = |event: &Value| {
        let category = event["cat"].as_str().unwrap_or_default();
        ["cuda_runtime", "cuda_driver", "cpu_op"].contains(&category)
    };
    let mut calls: Vec<f64> = events
        .iter()
        .filter(|event| is_call(event))
        .map(|event| event["ts"].as_f64().unwrap())
        .collect();
    calls.sort_by(f64::total_cmp);
    let middle = calls[calls.len() / 2];
    events.retain(|event| !is_call(event) || event["ts"].as_f64().unwrap() >= middle);
    let analysis = of_model(&trace.to_string(), "qwen3_8b", &[]);
    assert_eq!(codes(&analysis), ["invariant.other_layers"]);
    assert!(!is_compared(&analysis));
}

/// Kernels of a graph have no shapes: one of two ranks may have read half of the weights.
#[test]
fn one_rank_without_shapes_is_not_the_whole_model() {
    let mut trace = read(DECODE);
    assert_eq!(trace["distributedInfo"]["world_size"], 1);
    trace["distributedInfo"]["world_size"] = 2.into();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    for event in events {
        if let Some(arguments) = event["args"].as_object_mut() {
            arguments.remove("Input Dims");
        }
    }
    let analysis = of_model(&trace.to_string(), "qwen3_30b_a3b", &[]);
    assert!(!is_compared(&analysis));
    let mut codes = analysis.issues.iter().map(|issue| issue.code.as_str());
    assert!(codes.any(|code| code == "run.one_of_ranks"));
    // Shapes of the prefill are those of the whole model, as of a replica.
    let mut trace = read(PREFILL);
    trace["distributedInfo"]["world_size"] = 2.into();
    assert!(is_compared(&of_model(&trace.to_string(), "qwen3_8b", &[])));
}

/// As SGLang serves a quantized checkpoint of the same model: the GEMMs of the trace, by the names of FP8 kernels.
#[test]
fn kernels_of_eight_bits_are_not_those_of_a_plain_model() {
    let mut trace = read(PREFILL);
    let events = trace["traceEvents"].as_array_mut().unwrap();
    for event in events {
        let name = event["name"].as_str().unwrap_or_default();
        if name.starts_with("Cijk_") {
            event["name"] = "_gemm_a8w8_blockscale_kernel".into();
        }
    }
    let analysis = of_model(&trace.to_string(), "qwen3_8b", &[]);
    assert_eq!(codes(&analysis), ["invariant.other_format"]);
    assert!(!is_compared(&analysis));
    // Experts of this model have four bits, and so have its kernels.
    let analysis = said(PIECEWISE, "gpt_oss_20b", &[], None);
    assert!(!codes(&analysis).contains(&"invariant.other_format"));
}
