//! Traced passes get the analysis of a native run: waterfalls that sum up, operators matched by module, findings.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::record;

use std::path::Path;

use llmprof_analysis::assumption::Assumption;
use llmprof_analysis::bottleneck::PhaseClass;
use llmprof_analysis::findings::Conclusion;
use llmprof_analysis::matching::UnmatchedReason;
use llmprof_analysis::{Analysis, PhaseAnalysis, analyze};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::{
    Copy, DeviceProperties, GraphNode, Host, HostKind, Kernel, Memset, Range, RangeKind, ThreadId,
    Trace, TraceBuilder,
};
use llmprof_theory::device::Catalog;
use llmprof_theory::{Kind, Model, Pass, Workload};
use llmprof_units::Nanos;
use proptest::prelude::*;
use serde_json::json;

use self::record::record;

fn fixture(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name);
    match import(&path, &Limits::default()).expect("a trace") {
        (_, Profile::Trace(trace)) => *trace,
        (format, _) => panic!("{format} is no timeline"),
    }
}

fn qwen(hidden: u64, layers: u64) -> Model {
    let config = json!({
        "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "hidden_size": hidden, "intermediate_size": 2 * hidden, "max_position_embeddings": 256,
        "num_attention_heads": 4, "num_hidden_layers": layers, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "vocab_size": 1024, "torch_dtype": "float32",
    });
    Model::from_config(&config, None).expect("a known family")
}

fn sums_up(phase: &PhaseAnalysis) {
    let waterfall = &phase.waterfall;
    let total: i64 = waterfall.parts().iter().map(|(_, time)| time.0).sum();
    assert_eq!(total, waterfall.wall_ns.0, "{}", phase.name());
    let parts = waterfall.matched_ns.0
        + waterfall.extra_ns.0
        + waterfall.copies_ns.0
        + waterfall.communication_ns.0
        + waterfall.unattributed_ns.0;
    assert_eq!(parts, waterfall.sum_ns.0, "{}", phase.name());
    let idle: i64 = waterfall.idle.iter().map(|part| part.time_ns.0).sum();
    assert_eq!(idle, waterfall.idle_ns.0, "{}", phase.name());
    if !phase.by_kind.is_empty() {
        for groups in [&phase.by_kind, &phase.by_path] {
            let matched: i64 = groups.iter().map(|group| group.measured_ns.0).sum();
            // Windows in which nothing is counted have neither rows nor rooflines.
            if waterfall.roofline_ns.is_some() {
                assert_eq!(matched, waterfall.matched_ns.0, "{}", phase.name());
            } else {
                assert!(matched <= waterfall.matched_ns.0, "{}", phase.name());
            }
        }
    }
    let unmatched: i64 = phase.unmatched.iter().map(|row| row.time_ns.0).sum();
    assert_eq!(
        unmatched,
        waterfall.extra_ns.0 + waterfall.unattributed_ns.0,
        "{}",
        phase.name()
    );
}

fn analyzed(trace: &Trace, model: &Model, workload: &Workload) -> Analysis {
    let device = Catalog::embedded().by_name("h200").unwrap();
    let mut record = record(trace, Some((model, workload)));
    "tiny".clone_into(&mut record.name);
    analyze(&record, Some(&device)).unwrap()
}

/// Of a model that is not named.
fn unasked(trace: &Trace) -> Analysis {
    analyze(&record(trace, None), None).unwrap()
}

/// torch on a CPU with a range per module: two layers, prefill of 16 tokens, four decode steps.
#[test]
fn operators_of_the_host_are_matched_by_module() {
    let trace = fixture("cpu/torch_modules.json.gz");
    let model = qwen(256, 2);
    let workload = Workload {
        prompt: 16,
        new_tokens: 5,
        ..Workload::default()
    };
    let analysis = analyzed(&trace, &model, &workload);
    for phase in &analysis.phases {
        sums_up(phase);
        let traced = phase.traced.as_ref().unwrap();
        assert!(traced.by_module);
        assert_eq!(traced.device, None);
        let waterfall = &phase.waterfall;
        assert!(
            waterfall.share(waterfall.unattributed_ns) <= 0.02,
            "{:?}",
            waterfall.unattributed
        );
        let inside = traced.in_modules_ns.unwrap().0 as f64 / waterfall.sum_ns.0 as f64;
        assert!(inside > 0.9, "{inside}");
        assert_eq!(phase.missing, [], "{}", phase.name());
        assert_eq!(waterfall.overlap_ns.0, 0);
        assert!(waterfall.roofline_ns.unwrap().0 > 0);
    }
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let calls = |name: &str| {
        let mut groups = decode.by_path.iter();
        groups.find(|group| group.name == name).unwrap().calls
    };
    assert_eq!(calls("model.layers.*.self_attn.q_proj"), 8);
    assert_eq!(calls("model.layers.*.self_attn"), 8);
    assert_eq!(calls("model.layers.*.mixer_add"), 8);
    assert_eq!(calls("lm_head"), 4);
    assert_eq!(decode.matched_calls as usize, 4 * per_step(&model));
    let steps = decode.traced.as_ref().unwrap().steps.unwrap();
    assert_eq!(steps.count, 4);
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    assert_eq!(prefill.matched_calls as usize, per_step(&model));
    // Time without an operator of a host that a profiler recorded has no cause.
    assert!(
        !analysis
            .findings
            .iter()
            .any(|finding| finding.code == "idle")
    );
    assert_ne!(decode.class.class, Some(PhaseClass::HostBound));
}

fn per_step(model: &Model) -> usize {
    let mut calls = 0;
    model.lower_in_order(
        &Workload::default(),
        &Pass::decode_steps(1, 16, 1),
        &mut |_| {
            calls += 1;
        },
    );
    calls
}

/// The fixture decodes four steps twice. Ranges of steps are not in it; where the workload says another number than launches
/// show, it is an issue, and the launches are believed.
#[test]
fn a_workload_that_launches_contradict_is_an_issue() {
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    let analyzed = |new_tokens: u64| {
        let model = qwen(896, 24);
        let workload = Workload {
            prompt: 128,
            new_tokens,
            ..Workload::default()
        };
        let record = record(&trace, Some((&model, &workload)));
        let h200 = Catalog::embedded().by_name("h200").unwrap();
        analyze(&record, Some(&h200)).unwrap()
    };
    let issue_of = |analysis: &Analysis| {
        let mut issues = analysis.issues.iter();
        issues
            .find(|issue| issue.code.as_str() == "run.other_steps")
            .cloned()
    };
    let (right, wrong) = (analyzed(5), analyzed(32));
    assert_eq!(issue_of(&right), None);
    let issue = issue_of(&wrong).unwrap();
    let of = |key: &str| issue.values[key].as_u64();
    assert_eq!((of("steps"), of("shown")), (Some(31), Some(4)));
    let roofline = |analysis: &Analysis| {
        let decode = analysis.phase(RunPhase::Decode).unwrap();
        decode.waterfall.roofline_ns
    };
    assert_eq!(roofline(&right), roofline(&wrong));
}

/// Without a model the waterfall stands, and what is missing says why.
#[test]
fn a_trace_of_an_unknown_model_has_a_waterfall_without_rooflines() {
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    let analysis = unasked(&trace);
    assert_eq!((analysis.family, analysis.workload), (None, None));
    assert!(
        analysis
            .issues
            .iter()
            .any(|issue| issue.code.as_str() == "run.no_model")
    );
    let decode = &analysis.phases[1];
    sums_up(decode);
    assert_eq!(decode.waterfall.roofline_ns, None);
    assert_eq!(decode.waterfall.matched_ns.0, 825_000 + 6_124_419);
    assert!(
        analysis
            .findings
            .iter()
            .any(|finding| finding.code == "launch_bound" && finding.gain.is_some())
    );
}

/// Names alone tell what work does, not what a model needs; and a call is one, however many others it makes.
#[test]
fn without_a_model_nothing_is_said_of_what_it_needs() {
    let trace = fixture("cpu/torch_modules.json.gz");
    let device = Catalog::embedded().by_name("xeon_8480").unwrap();
    let analysis = analyze(&record(&trace, None), Some(&device)).unwrap();
    let mut calls: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for phase in &analysis.phases {
        sums_up(phase);
        for row in &phase.unmatched {
            let of_a_model = [UnmatchedReason::NotInTheory, UnmatchedReason::NotNeeded];
            assert!(!of_a_model.contains(&row.reason), "{row:?}");
            *calls.entry(&row.path).or_default() += row.calls;
        }
    }
    let operators = &analysis.timeline.as_ref().unwrap().operators;
    for (name, calls) in calls {
        let of_trace = operators.iter().find(|row| row.name == name).unwrap();
        let most = of_trace.times.calls;
        assert!(calls <= most, "{name}: {calls} calls of {most}");
    }
    assert!(
        analysis
            .findings
            .iter()
            .all(|finding| finding.code != "extra")
    );
    let tool = Some("kineto".to_owned());
    let expected = [
        Assumption::MultiplyAdd,
        Assumption::ProfiledTimes {
            tool,
            on_host: true,
        },
    ];
    assert_eq!(analysis.assumptions, expected);
}

/// Kernels of one decode step of a model, launched inside a range per module, as an eager framework does.
struct Eager {
    builder: TraceBuilder,
    thread: ThreadId,
    now: i64,
    correlation: u32,
}

impl Eager {
    fn new() -> Self {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        Self {
            builder,
            thread,
            now: 0,
            correlation: 0,
        }
    }

    fn kernel(&mut self, name: &str) {
        self.correlation += 1;
        let call = self.builder.intern("cudaLaunchKernel");
        self.builder.hosts.push(Host {
            start: self.now,
            duration: 10,
            name: call,
            thread: self.thread,
            kind: HostKind::RUNTIME,
            correlation: self.correlation,
            ..Host::default()
        });
        let name = self.builder.intern(name);
        self.builder.kernels.push(Kernel {
            start: self.now + 30,
            duration: 50,
            name,
            correlation: self.correlation,
            grid: [1, 1, 1],
            ..Kernel::default()
        });
        self.now += 100;
    }

    fn range(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let start = self.now;
        self.now += 5;
        inside(self);
        self.now += 5;
        let name = self.builder.intern(name);
        self.builder.ranges.push(Range {
            start,
            duration: self.now - start,
            name,
            thread: self.thread,
            kind: RangeKind::NVTX,
            ..Range::default()
        });
    }

    /// One step; `prefix` stands before every path.
    fn step(&mut self, layers: u64, prefix: &str) {
        const GEMM: &str = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT";
        const MUL: &str =
            "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)";
        const CAT: &str = "void at::native::CatArrayBatchedCopy<float, 2>(float*)";
        const FLASH: &str = "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_7";
        const LOOKUP: &str = "void at::native::indexSelectSmallIndex<float>(float)";
        let at = |path: &str| format!("{prefix}{path}");
        self.range(&at("embed_tokens"), |eager| eager.kernel(LOOKUP));
        self.range(&at("rotary_emb"), |eager| eager.kernel(MUL));
        for layer in 0..layers {
            let at = |path: &str| format!("{prefix}layers.{layer}.{path}");
            self.range(&format!("{prefix}layers.{layer}"), |eager| {
                eager.range(&at("input_layernorm"), |eager| eager.kernel(MUL));
                eager.range(&at("self_attn"), |eager| {
                    for name in ["q_proj", "k_proj", "v_proj"] {
                        eager.range(&at(&format!("self_attn.{name}")), |eager| {
                            eager.kernel(GEMM);
                        });
                    }
                    eager.kernel(MUL);
                    eager.kernel(CAT);
                    eager.kernel(FLASH);
                    eager.range(&at("self_attn.o_proj"), |eager| eager.kernel(GEMM));
                });
                eager.kernel(MUL);
                eager.range(&at("post_attention_layernorm"), |eager| eager.kernel(MUL));
                eager.range(&at("mlp"), |eager| {
                    eager.range(&at("mlp.gate_proj"), |eager| eager.kernel(GEMM));
                    eager.range(&at("mlp.act_fn"), |eager| eager.kernel(MUL));
                    eager.range(&at("mlp.up_proj"), |eager| eager.kernel(GEMM));
                    eager.kernel(MUL);
                    eager.range(&at("mlp.down_proj"), |eager| eager.kernel(GEMM));
                });
                eager.kernel(MUL);
            });
        }
        self.range(&at("norm"), |eager| eager.kernel(MUL));
        self.range("lm_head", |eager| eager.kernel(GEMM));
    }
}

/// Every kernel of a decode belongs to the operator of its module, also where the framework puts other words before paths.
#[test]
fn kernels_are_matched_by_module() {
    let model = qwen(256, 3);
    let workload = Workload {
        prompt: 16,
        new_tokens: 3,
        ..Workload::default()
    };
    for prefix in ["model.", "model.language_model.", "language_model.model."] {
        let mut eager = Eager::new();
        eager.range("decode", |eager| {
            for _ in 0..2 {
                eager.range("decode_step", |eager| {
                    eager.step(3, prefix);
                    eager.kernel("void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps<float>>(float)");
                });
            }
        });
        let analysis = analyzed(&eager.builder.finish(), &model, &workload);
        let decode = analysis.phase(RunPhase::Decode).unwrap();
        sums_up(decode);
        assert_eq!(decode.missing, [], "{prefix}");
        assert_eq!(
            decode.matched_calls as usize,
            2 * per_step(&model),
            "{prefix}"
        );
        let kinds = |kind| {
            let mut groups = decode.by_kind.iter();
            groups
                .find(|group| group.kind == kind)
                .map(|group| (group.calls, group.measured_ns.0))
        };
        // Seven GEMMs a layer and the head, two steps, 50 ns each.
        assert_eq!(kinds(Kind::Linear), Some((44, 44 * 50)), "{prefix}");
        assert_eq!(kinds(Kind::Attention), Some((6, 6 * 50)), "{prefix}");
        assert_eq!(kinds(Kind::Rope), Some((6, 6 * 50)), "{prefix}");
        assert_eq!(kinds(Kind::Add), Some((12, 12 * 50)), "{prefix}");
        // The activation runs in its own range and, for the product with the gate, in the module around it.
        assert_eq!(kinds(Kind::Activation), Some((6, 12 * 50)), "{prefix}");
        let extra: Vec<_> = decode
            .unmatched
            .iter()
            .map(|row| (row.found.as_str(), row.reason, row.calls))
            .collect();
        assert_eq!(extra[0], ("cat", UnmatchedReason::NotNeeded, 6), "{prefix}");
        let traced = decode.traced.as_ref().unwrap();
        let inside = traced.in_modules_ns.unwrap().0 as f64 / decode.waterfall.sum_ns.0 as f64;
        assert!(inside > 0.96, "{inside}");
        assert_eq!(traced.steps.unwrap().count, 2);
    }
}

/// The model caps its logits itself, in no module: three kernels after the head.
#[test]
fn soft_capping_of_logits_is_matched_outside_of_modules() {
    const CAP: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::tanh_kernel_cuda<float>>(int)";
    let config = json!({
        "model_type": "gemma2", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024,
        "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, "torch_dtype": "float32",
    });
    let model = Model::from_config(&config, None).unwrap();
    let workload = Workload {
        prompt: 16,
        new_tokens: 3,
        ..Workload::default()
    };
    let mut eager = Eager::new();
    eager.range("decode", |eager| {
        for _ in 0..2 {
            eager.range("decode_step", |eager| {
                eager.step(2, "model.");
                for _ in 0..3 {
                    eager.kernel(CAP);
                }
            });
        }
    });
    let analysis = analyzed(&eager.builder.finish(), &model, &workload);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let cap = decode.by_path.iter().find(|g| g.name == "logits_softcap");
    let cap = cap.map(|group| (group.calls, group.measured_ns.0));
    assert_eq!(cap, Some((2, 6 * 50)));
    let outside = decode
        .unmatched
        .iter()
        .filter(|row| row.reason == UnmatchedReason::OutsideModules);
    assert_eq!(outside.count(), 0);
}

/// A decode of Qwen2.5-0.5B as a CUDA graph on an H200, recorded by our library: nodes know the modules that they were
/// captured in.
#[test]
fn a_graph_on_the_h200_is_attributed_by_module() {
    let config = json!({
        "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "vocab_size": 151_936, "torch_dtype": "bfloat16",
    });
    let model = Model::from_config(&config, None).unwrap();
    let trace = fixture("h200/cupti/graph_steps.wire.gz");
    let analysis = analyzed(&trace, &model, &Workload::default());
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    sums_up(decode);
    let traced = decode.traced.as_ref().unwrap();
    assert!(traced.by_module);
    let inside = traced.in_modules_ns.unwrap().0 as f64 / decode.waterfall.sum_ns.0 as f64;
    assert!(inside >= 0.98, "{inside}");
    assert!(decode.waterfall.share(decode.waterfall.unattributed_ns) <= 0.02);
    // No operator is faster than the device allows, so kernels are not at their neighbours'.
    assert_eq!(decode.waterfall.below_roofline.operators, 0);
    let gemms = |name: &str| {
        let mut groups = decode.by_path.iter();
        groups
            .find(|group| group.name.ends_with(name))
            .unwrap()
            .calls
    };
    let steps = traced.steps.unwrap().count;
    assert_eq!(gemms("mlp.gate_proj"), 24 * steps);
    assert_eq!(gemms("self_attn.q_proj"), 24 * steps);
    // The device works nearly without a pause, on kernels that are too small for it.
    assert!(decode.waterfall.share(decode.waterfall.idle_ns) < 0.25);
    assert_eq!(decode.class.class, Some(PhaseClass::LatencyBound));
}

/// A script without phases: that its device idled while Python started says nothing about what could be saved.
#[test]
fn idle_time_of_a_whole_program_promises_nothing() {
    let trace = fixture("h200/cupti/triton.wire.gz");
    let analysis = unasked(&trace);
    let [phase] = analysis.phases.as_slice() else {
        panic!("{:?}", analysis.phases.len());
    };
    assert!(phase.traced.as_ref().unwrap().is_whole_trace);
    assert!(phase.waterfall.share(phase.waterfall.idle_ns) > 0.99);
    let idle = analysis.findings.iter().find(|f| f.code == "idle").unwrap();
    assert!(idle.gain.is_none() && idle.abstains.is_some(), "{idle:?}");
}

/// The same kernels from a graph that was captured once and launched twice: nodes know the ranges of their capture.
#[test]
fn kernels_of_graphs_are_matched_by_their_capture() {
    let model = qwen(256, 3);
    let workload = Workload {
        prompt: 16,
        new_tokens: 3,
        ..Workload::default()
    };
    let mut capture = Eager::new();
    capture.step(3, "model.");
    let capture = capture.builder.finish();
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(1, 1);
    for row in 0..capture.kernels.len() {
        let start = capture.kernels.start[row] - 30;
        let ranges = &capture.ranges;
        let mut around: Vec<usize> = (0..ranges.len())
            .filter(|&range| {
                (ranges.start[range]..ranges.start[range] + ranges.duration[range]).contains(&start)
            })
            .collect();
        around.sort_by_key(|&range| ranges.start[range]);
        let names: Vec<&str> = around
            .iter()
            .map(|&range| capture.text(ranges.name[range]))
            .collect();
        let ranges = builder.intern(&names.join("/"));
        builder.graph_nodes.push(GraphNode {
            node: row as u64 + 1,
            graph: 1,
            time: -1000,
            thread,
            ranges,
        });
    }
    let launch = builder.intern("cudaGraphLaunch");
    let decode = builder.intern("decode");
    for step in 0..2_u32 {
        let begin = i64::from(step) * 10_000;
        builder.hosts.push(Host {
            start: begin + 10,
            duration: 10,
            name: launch,
            thread,
            kind: HostKind::RUNTIME,
            correlation: step + 1,
            ..Host::default()
        });
        for row in 0..capture.kernels.len() {
            let name = builder.intern(capture.text(capture.kernels.name[row]));
            builder.kernels.push(Kernel {
                start: begin + 100 + row as i64 * 50,
                duration: 50,
                name,
                correlation: step + 1,
                graph: 1,
                graph_node: row as u64 + 1,
                ..Kernel::default()
            });
        }
    }
    builder.ranges.push(Range {
        start: 0,
        duration: 20_000,
        name: decode,
        thread,
        kind: RangeKind::NVTX,
        ..Range::default()
    });
    let analysis = analyzed(&builder.finish(), &model, &workload);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    sums_up(decode);
    assert_eq!(decode.missing, []);
    assert_eq!(decode.matched_calls as usize, 2 * per_step(&model));
    let traced = decode.traced.as_ref().unwrap();
    assert_eq!(traced.in_modules_ns.unwrap(), decode.waterfall.sum_ns);
    let adds = decode.by_kind.iter().find(|group| group.kind == Kind::Add);
    assert_eq!(
        adds.map(|group| (group.calls, group.measured_ns.0)),
        Some((12, 600))
    );
}

/// Prefill by module, decode from a graph that does not tell where it was captured: decode is classified by names.
#[test]
fn a_phase_without_modules_is_matched_by_names() {
    let model = qwen(256, 3);
    let workload = Workload {
        prompt: 16,
        new_tokens: 2,
        ..Workload::default()
    };
    let mut eager = Eager::new();
    eager.range("prefill", |eager| eager.step(3, "model."));
    eager.range("decode", |eager| {
        for _ in 0..22 {
            eager.kernel(KERNELS[0]);
        }
        eager.kernel(KERNELS[2]);
        eager.kernel(KERNELS[1]);
    });
    let analysis = analyzed(&eager.builder.finish(), &model, &workload);
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    sums_up(prefill);
    sums_up(decode);
    assert!(prefill.traced.as_ref().unwrap().by_module && !prefill.by_kernels());
    assert!(decode.by_kernels());
    assert_eq!(decode.waterfall.unattributed_ns.0, 0);
    assert_eq!(decode.waterfall.matched_ns.0, 24 * 50);
    let names: Vec<_> = decode
        .by_kind
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(names, ["gemm", "attention", "elementwise"]);
    assert!(decode.waterfall.roofline_ns.unwrap().0 > 0);
}

/// A workload that asks for fewer steps than ran does not steal the operators of the steps that it knows.
#[test]
fn more_steps_than_asked_for_are_extra() {
    let model = qwen(256, 1);
    let workload = Workload {
        prompt: 16,
        new_tokens: 2,
        ..Workload::default()
    };
    let mut eager = Eager::new();
    eager.range("decode", |eager| {
        eager.step(1, "model.");
        eager.step(1, "model.");
    });
    let analysis = analyzed(&eager.builder.finish(), &model, &workload);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    sums_up(decode);
    assert_eq!(decode.matched_calls as usize, per_step(&model));
    let again = decode
        .unmatched
        .iter()
        .filter(|row| row.reason == UnmatchedReason::RanAgain)
        .map(|row| row.calls)
        .sum::<u64>();
    assert_eq!(again as usize, per_step(&model) + 1);
}

/// A decode of back-to-back kernels, each of 100 ns and one block, on a device of 132 multiprocessors.
fn busy_decode(kernels: &[&str]) -> Trace {
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(1, 1);
    builder.devices.push(DeviceProperties {
        id: 0,
        sm_count: Some(132),
        ..DeviceProperties::default()
    });
    for (index, name) in kernels.iter().enumerate() {
        let name = builder.intern(name);
        builder.kernels.push(Kernel {
            start: index as i64 * 100,
            duration: 100,
            name,
            grid: [1, 1, 1],
            ..Kernel::default()
        });
    }
    let name = builder.intern("decode_step");
    builder.ranges.push(Range {
        start: 0,
        duration: kernels.len() as i64 * 100,
        name,
        thread,
        kind: RangeKind::NVTX,
        ..Range::default()
    });
    builder.finish()
}

#[test]
fn small_grids_and_exchange_between_devices_give_their_classes() {
    let class = |kernels: &[&str]| {
        let analysis = unasked(&busy_decode(kernels));
        let decode = analysis.phase(RunPhase::Decode).unwrap();
        sums_up(decode);
        decode.class.class
    };
    let (product, attention, exchange) = (KERNELS[0], KERNELS[2], KERNELS[5]);
    // Without limits nothing says that a small grid is what limits it.
    assert_eq!(class(&[product, attention, product]), None);
    assert_eq!(
        class(&[attention, exchange, exchange]),
        Some(PhaseClass::CommunicationBound)
    );
}

/// 24 attention kernels of which two wait 58 ms: the first use of two lengths, for which CUDA graphs would be wrong advice.
#[test]
fn waits_for_new_lengths_are_separate_from_idle_time() {
    let mut eager = Eager::new();
    eager.range("decode", |eager| {
        for index in 0..24 {
            if index % 12 == 0 {
                eager.now += 58_000_000;
            }
            eager.kernel(KERNELS[2]);
        }
    });
    let trace = eager.builder.finish();
    let analysis = unasked(&trace);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let lengths = decode.traced.as_ref().unwrap().new_lengths.unwrap();
    assert_eq!(lengths.waits, 2);
    let finding = |code: &str| {
        let mut findings = analysis.findings.iter();
        findings.find(|finding| finding.code == code)
    };
    let conclusion = &finding("first_use.kv_lengths").unwrap().conclusion;
    let waits_twice = matches!(conclusion, Some(Conclusion::KvLengths { waits: 2, .. }));
    assert!(waits_twice, "{conclusion:?}");
    // What is left is a few µs of 116 ms: too little to promise anything by launching faster.
    assert_eq!(finding("launch_bound"), None);
}

/// What lies between the slices of a capture was not seen: it is no idle time and in no phase.
#[test]
fn what_was_not_recorded_is_not_idle() {
    let mut eager = Eager::new();
    eager.range("prefill", |eager| {
        eager.kernel(KERNELS[2]);
        eager.now += 1_000_000;
        eager.kernel(KERNELS[2]);
    });
    for (start, end) in [(0, 105), (1_000_105, 1_000_210)] {
        let name = eager.builder.intern("slice");
        eager.builder.ranges.push(Range {
            start,
            duration: end - start,
            name,
            kind: RangeKind::CAPTURE,
            ..Range::default()
        });
    }
    eager
        .builder
        .metadata
        .insert("slices".to_owned(), "true".to_owned());
    let trace = eager.builder.finish();
    let analysis = unasked(&trace);
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    sums_up(prefill);
    assert_eq!(prefill.waterfall.wall_ns.0, 210);
    assert_eq!(prefill.waterfall.sum_ns.0, 100);
    let device = &analysis.timeline.as_ref().unwrap().devices[0];
    assert!(
        device.total.idle_ns < Nanos(1000),
        "{}",
        device.total.idle_ns
    );
}

#[test]
fn an_empty_trace_says_so() {
    let analysis = unasked(&Trace::default());
    assert_eq!(analysis.phases, []);
    assert!(
        analysis
            .issues
            .iter()
            .any(|issue| issue.code.as_str() == "run.no_work")
    );
}

const KERNELS: [&str; 6] = [
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)",
    "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_7",
    "void at::native::CatArrayBatchedCopy<float, 2>(float*)",
    "my_kernel",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)",
];
const RANGES: [&str; 9] = [
    "prefill",
    "decode",
    "decode_step",
    "vision",
    "warmup",
    "something",
    "model.layers.0",
    "model.layers.0.self_attn",
    "model.layers.0.self_attn.q_proj",
];

prop_compose! {
    fn random_trace()(
        kernels in prop::collection::vec((0i64..2000, 0i64..200, 0usize..6, 0u32..2, 0i64..300, any::<bool>()), 0..60),
        copies in prop::collection::vec((0i64..2000, 0i64..100, any::<bool>()), 0..8),
        ranges in prop::collection::vec((0i64..2000, 1i64..900, 0usize..9), 0..14),
        devices in 1u32..3,
    ) -> Trace {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let call = builder.intern("cudaLaunchKernel");
        for (index, (start, duration, name, device, before, launched)) in kernels.into_iter().enumerate() {
            let name = builder.intern(KERNELS[name]);
            let correlation = if launched { index as u32 + 1 } else { 0 };
            builder.kernels.push(Kernel { start, duration, name, device: device % devices, correlation, ..Kernel::default() });
            if launched {
                builder.hosts.push(Host {
                    start: start - before, duration: 5, name: call, thread, kind: HostKind::RUNTIME, correlation, ..Host::default()
                });
            }
        }
        for (start, duration, fill) in copies {
            let name = builder.intern("Memcpy");
            if fill {
                builder.memsets.push(Memset { start, duration, name, ..Memset::default() });
            } else {
                builder.copies.push(Copy { start, duration, name, ..Copy::default() });
            }
        }
        for (start, duration, name) in ranges {
            let name = builder.intern(RANGES[name]);
            builder.ranges.push(Range { start, duration, name, thread, kind: RangeKind::NVTX, ..Range::default() });
        }
        builder.finish()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every event is in exactly one part, and the parts sum to the wall time, whatever the trace.
    #[test]
    fn parts_sum_to_the_whole(trace in random_trace(), with_model in any::<bool>()) {
        let model = qwen(64, 1);
        let workload = Workload { prompt: 16, new_tokens: 3, ..Workload::default() };
        let analysis = if with_model {
            analyzed(&trace, &model, &workload)
        } else {
            unasked(&trace)
        };
        for phase in &analysis.phases {
            sums_up(phase);
            // Against the trace itself: the events of the phase's device, clipped to its intervals.
            let traced = phase.traced.as_ref().unwrap();
            let mut events: Vec<(i64, i64, u32)> = Vec::new();
            let kernels = &trace.kernels;
            events.extend((0..kernels.len()).map(|row| (kernels.start[row], kernels.duration[row], kernels.device[row])));
            events.extend((0..trace.copies.len()).map(|row| (trace.copies.start[row], trace.copies.duration[row], 0)));
            events.extend((0..trace.memsets.len()).map(|row| (trace.memsets.start[row], trace.memsets.duration[row], 0)));
            let mut sum = 0;
            let mut wall = 0;
            for instance in traced.instances.iter().filter(|instance| !instance.left_out) {
                let (from, to) = (instance.start_ns.0, instance.start_ns.0 + instance.wall_ns.0);
                wall += to - from;
                for &(start, duration, device) in &events {
                    if Some(device) == traced.device {
                        sum += ((start + duration).min(to) - start.max(from)).max(0);
                    }
                }
            }
            prop_assert_eq!(phase.waterfall.sum_ns.0, sum);
            prop_assert_eq!(phase.waterfall.wall_ns.0, wall);
        }
    }

    /// Broken clocks give odd numbers and no panic.
    #[test]
    fn no_times_make_it_panic(
        kernels in prop::collection::vec((any::<i64>(), 0i64..=i64::MAX, 0usize..6, any::<i64>()), 0..8),
        ranges in prop::collection::vec((any::<i64>(), 0i64..=i64::MAX, 0usize..9), 0..6),
    ) {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let call = builder.intern("cudaLaunchKernel");
        for (index, (start, duration, name, launched)) in kernels.into_iter().enumerate() {
            let name = builder.intern(KERNELS[name]);
            let correlation = index as u32 + 1;
            builder.kernels.push(Kernel { start, duration, name, correlation, ..Kernel::default() });
            builder.hosts.push(Host {
                start: launched, duration: 5, name: call, thread, kind: HostKind::RUNTIME, correlation, ..Host::default()
            });
        }
        for (start, duration, name) in ranges {
            let name = builder.intern(RANGES[name]);
            builder.ranges.push(Range { start, duration, name, thread, kind: RangeKind::NVTX, ..Range::default() });
        }
        let (model, workload) = (qwen(64, 1), Workload { prompt: 16, new_tokens: 3, ..Workload::default() });
        let analysis = analyzed(&builder.finish(), &model, &workload);
        prop_assert!(analysis.phases.iter().all(|phase| phase.waterfall.wall_ns.0 >= 0));
    }
}
