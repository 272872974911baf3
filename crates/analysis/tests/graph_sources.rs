//! One timeline whose graphs are attributed by three sources: each launch by what it has, and no event twice.

use crate::record;

use llmprof_analysis::analyze;
use llmprof_analysis::graphs::{GraphAnalysis, GraphOperatorRow, GraphSource};
use llmprof_record::trace::{
    GraphNode, Host, HostKind, Kernel, LaunchedKernel, Trace, TraceBuilder,
};
use llmprof_theory::{Model, Workload};
use serde_json::json;

use self::record::record;

const CAPTURED: [&str; 2] = ["cutlass_80_tensorop_gemm", "rms_norm_kernel"];

/// Kernels of one layer as engines run it: query, key and value in one GEMM, gate and up in another.
const LAYER: [&str; 9] = [
    "rms_norm_kernel",
    "nvjet_tst_qkv",
    "rotary_embedding_kernel",
    "flash_fwd_splitkv_kernel",
    "nvjet_tst_o",
    "rms_norm_kernel",
    "nvjet_tst_gate_up",
    "act_and_mul_kernel",
    "nvjet_tst_down",
];

#[derive(Default)]
struct Scene {
    builder: TraceBuilder,
    now: i64,
    correlation: u32,
}

impl Scene {
    fn host(&mut self, kind: HostKind, name: &str, length: i64, correlation: u32) {
        let row = Host {
            start: self.now,
            duration: length,
            name: self.builder.intern(name),
            thread: self.builder.thread(1, 1),
            kind,
            correlation,
            ..Host::default()
        };
        self.builder.hosts.push(row);
    }

    fn call(&mut self, name: &str) {
        self.host(HostKind::RUNTIME, name, 5, 0);
        self.now += 10;
    }

    /// A capture of two operators, each with one launch that says which kernel it launches.
    fn capture(&mut self) {
        self.call("cudaStreamBeginCapture");
        for (operator, kernel) in ["aten::mm", "vllm::rms_norm"].into_iter().zip(CAPTURED) {
            self.host(HostKind::OPERATOR, operator, 40, 0);
            self.now += 10;
            self.correlation += 1;
            self.host(HostKind::RUNTIME, "cudaLaunchKernel", 5, self.correlation);
            let kernel = self.builder.intern(kernel);
            self.builder.launched_kernels.push(LaunchedKernel {
                correlation: self.correlation,
                kernel,
            });
            self.now += 40;
        }
        self.call("cudaStreamEndCapture");
    }

    /// A launch of a graph whose nodes have these ids (0: not recorded) and run for 10 ns each.
    fn launch<'a>(&mut self, kernels: impl IntoIterator<Item = (&'a str, u64)>) {
        self.correlation += 1;
        self.host(HostKind::RUNTIME, "cudaGraphLaunch", 5, self.correlation);
        self.now += 10;
        for (name, node) in kernels {
            let row = Kernel {
                start: self.now,
                duration: 10,
                name: self.builder.intern(name),
                correlation: self.correlation,
                graph: 1,
                graph_node: node,
                ..Kernel::default()
            };
            self.builder.kernels.push(row);
            self.now += 12;
        }
        self.now += 100;
    }

    fn node(&mut self, node: u64, ranges: &str) {
        let thread = self.builder.thread(1, 1);
        let ranges = self.builder.intern(ranges);
        self.builder.graph_nodes.push(GraphNode {
            node,
            graph: 1,
            time: 0,
            thread,
            ranges,
        });
    }
}

fn layers(count: usize) -> impl Iterator<Item = (&'static str, u64)> {
    LAYER
        .iter()
        .cycle()
        .take(count * LAYER.len())
        .map(|&name| (name, 0))
}

/// A replay of a capture twice, three nodes of which two have ids, and two layers of which nothing but the kernels is known.
fn timeline() -> Trace {
    let mut scene = Scene::default();
    scene.capture();
    let replay = CAPTURED.map(|name| (name, 0));
    scene.launch(replay);
    scene.node(7, "decode/model.layers.0.mlp.down_proj");
    scene.node(8, "decode/model.norm");
    scene.launch([("splitKreduce", 7), ("rms_norm_kernel", 8), ("other", 9)]);
    scene.launch(layers(2));
    scene.launch(replay);
    scene.builder.finish()
}

fn graphs(with_model: bool) -> GraphAnalysis {
    let config = json!({
        "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 256,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "vocab_size": 1024, "torch_dtype": "float32",
    });
    let model = Model::from_config(&config, None).expect("a known family");
    let workload = Workload::default();
    let subject = with_model.then_some((&model, &workload));
    let analysis = analyze(&record(&timeline(), subject), None).expect("analysis");
    analysis.graphs.expect("graphs")
}

fn sources(graphs: &GraphAnalysis) -> Vec<(GraphSource, u64, i64)> {
    let sources = graphs.attributed_by.iter();
    sources
        .map(|one| (one.source, one.events, one.covered_ns.0))
        .collect()
}

#[test]
fn each_launch_leads_back_by_what_is_recorded_of_it() {
    let found = graphs(true);
    assert_eq!((found.launches, found.events, found.captures), (4, 25, 1));
    assert_eq!(found.device_ns.0, 250);
    assert_eq!(
        sources(&found),
        [
            (GraphSource::CaptureTrace, 4, 40),
            (GraphSource::NodeIds, 2, 20),
            (GraphSource::ModelSequence, 18, 180),
        ]
    );
    // One node has an id that no capture names, and the model is not laid along the rest of a launch.
    assert_eq!(found.covered_ns.0, 240);
    assert_eq!(found.source, Some(GraphSource::ModelSequence));
    let events: u64 = found.operators.iter().map(|row| row.events).sum();
    assert_eq!(events, 24);

    let of = |source| -> Vec<&GraphOperatorRow> {
        let rows = found.operators.iter();
        rows.filter(|row| row.source == source).collect()
    };
    let captured: Vec<_> = of(GraphSource::CaptureTrace)
        .iter()
        .map(|row| (row.operator.as_deref(), row.calls, row.device_ns.0))
        .collect();
    assert_eq!(
        captured,
        [(Some("aten::mm"), 2, 20), (Some("vllm::rms_norm"), 2, 20)]
    );
    let nodes: Vec<_> = of(GraphSource::NodeIds)
        .iter()
        .map(|row| row.module.as_deref())
        .collect();
    assert_eq!(
        nodes,
        [
            Some("decode/model.layers.0.mlp.down_proj"),
            Some("decode/model.norm")
        ]
    );
    let merged = "model.layers.1.self_attn.q_proj + k_proj + v_proj";
    let merged = of(GraphSource::ModelSequence)
        .into_iter()
        .find(|row| row.module.as_deref() == Some(merged));
    // 64 features in; 64 + 2 × 32 out.
    assert_eq!(merged.expect("a GEMM").inputs, ["m=1 n=128 k=64"]);
}

#[test]
fn without_a_model_the_rest_stays_without_origin() {
    let found = graphs(false);
    assert_eq!(
        sources(&found),
        [
            (GraphSource::CaptureTrace, 4, 40),
            (GraphSource::NodeIds, 2, 20),
        ]
    );
    assert_eq!(found.source, Some(GraphSource::CaptureTrace));
    assert!((found.covered() - 0.24).abs() < 1e-9);
}
