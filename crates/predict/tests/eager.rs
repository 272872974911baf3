//! The kernels of eager transformers, as torch's dispatcher counted them on the meta device, beside those that are predicted.

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, Predictor};
use llmprof_theory::{
    Model, Pass, Step, Workload,
    kernels::{Access, Kernel},
};
use serde::Deserialize;
use serde_json::Value;

use crate::support::embedded_device;

#[derive(Deserialize)]
struct Traced {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    model: String,
    batch: u64,
    prompt: u64,
    prefill: BTreeMap<String, Sum>,
    decode: BTreeMap<String, Sum>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Sum {
    kernels: f64,
    flops: f64,
    bytes: f64,
}

fn model(name: &str) -> Model {
    let times: Value =
        serde_json::from_str(include_str!("../../../fixtures/h200/kernels/times.json"))
            .expect("valid JSON");
    let models = times["models"].as_array().expect("a list");
    let entry = models
        .iter()
        .find(|model| model["model"] == name)
        .expect("a measured model");
    let mut config = entry["config"].clone();
    config["model_type"] = entry["model_type"].clone();
    config["dtype"] = "bfloat16".into();
    Model::from_config(&config, None).expect("a known family")
}

/// The names that the recipe uses.
fn class(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Gemm { .. } => "gemm",
        Kernel::Grouped { .. } => "grouped_gemm",
        Kernel::Attention { .. } => "attention",
        Kernel::CausalConv { .. } | Kernel::DeltaRule { .. } => {
            unreachable!("no model of these rows has gated delta layers")
        }
        Kernel::Stream { access, .. } => match access {
            // Tracing sees strides, not which kernel they lead to.
            Access::Pointwise
            | Access::Broadcast
            | Access::Cast
            | Access::Transposed
            | Access::Depthwise
            | Access::Solve => "elementwise",
            Access::Transcendental => "transcendental",
            Access::Widen => "widen",
            Access::Append | Access::AppendSliced | Access::Concat => "concat",
            Access::Copy => "copy",
            Access::Fill => "fill",
            Access::Gather => "gather",
            Access::Reduce => "reduce",
            Access::Norm => "norm",
            Access::Softmax | Access::SoftmaxLong => "softmax",
            Access::Sort => "sort",
            Access::TopK => "top_k",
            Access::Scan => "scan",
            Access::Histogram => "histogram",
        },
    }
}

fn predicted(predictor: &Predictor<'_>, workload: &Workload, pass: &Pass) -> BTreeMap<String, Sum> {
    let mut sums = BTreeMap::<String, Sum>::new();
    for (kernel, launches, _) in predictor.list_kernels(workload, &Step::first_of(pass)) {
        let sum = sums.entry(class(&kernel).to_owned()).or_default();
        sum.kernels += launches;
        sum.flops += kernel.matrix_flops() * launches;
        sum.bytes += kernel.min_traffic_bytes() * launches;
    }
    sums
}

/// Appends and other concatenations as one.
fn joined(traced: &BTreeMap<String, Sum>) -> BTreeMap<String, Sum> {
    let mut sums = BTreeMap::<String, Sum>::new();
    for (name, sum) in traced {
        let name = if name == "append" { "concat" } else { name };
        let total = sums.entry(name.to_owned()).or_default();
        total.kernels += sum.kernels;
        total.flops += sum.flops;
        total.bytes += sum.bytes;
    }
    sums
}

#[test]
fn kernels_are_those_that_transformers_launches() {
    let traced: Traced = serde_json::from_str(include_str!("data/eager_kernels.json")).unwrap();
    let device = embedded_device("h200");
    let profile = EfficiencyProfile::embedded("hf_eager").unwrap();
    let mut off = Vec::new();
    for row in &traced.rows {
        let model = model(&row.model);
        let predictor = Predictor::new(&model, &device, &profile);
        let workload = Workload {
            batch: row.batch,
            prompt: row.prompt,
            ..Workload::default()
        };
        let prefill = model.prefill_passes(&workload).next().unwrap();
        let decode = model.decode_step(&workload);
        for (phase, pass, traced) in [
            ("prefill", &prefill, &row.prefill),
            ("decode", &decode, &row.decode),
        ] {
            let at = format!("{} {phase} {}x{}", row.model, row.batch, row.prompt);
            let traced = joined(traced);
            let predicted = predicted(&predictor, &workload, pass);
            let total =
                |sums: &BTreeMap<String, Sum>| sums.values().map(|sum| sum.kernels).sum::<f64>();
            let unexplained: f64 = traced
                .keys()
                .chain(predicted.keys())
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .map(|name| {
                    let [a, b] = [&traced, &predicted]
                        .map(|sums| sums.get(name).map_or(0.0, |sum| sum.kernels));
                    (a - b).abs()
                })
                .sum();
            if unexplained > 0.09 * total(&traced) {
                off.push(format!(
                    "{at}: {unexplained} of {} kernels: {traced:?} {predicted:?}",
                    total(&traced)
                ));
            }
            // Matrix work is exact.
            for name in ["gemm", "attention", "grouped_gemm"] {
                let [a, b] =
                    [&traced, &predicted].map(|sums| sums.get(name).map_or(0.0, |sum| sum.flops));
                if (a - b).abs() > 1e-6 * a.max(1.0) {
                    off.push(format!("{at}: {name} FLOPs {a} traced, {b} predicted"));
                }
            }
            let [a, b] = [&traced, &predicted].map(|sums| {
                let moved = sums
                    .iter()
                    .filter(|(name, _)| *name != "grouped_gemm" && *name != "attention");
                moved.map(|(_, sum)| sum.bytes).sum::<f64>()
            });
            if (a / b - 1.0).abs() > 0.08 {
                off.push(format!("{at}: {a} bytes traced, {b} predicted"));
            }
        }
    }
    assert!(traced.rows.len() >= 3 * 16, "{}", traced.rows.len());
    assert!(off.is_empty(), "{}\n{off:#?}", off.len());
}
