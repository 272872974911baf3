//! A pass under torch's profiler: its trace is read by the importer and has the phases and modules.

use std::collections::BTreeMap;

use llmprof_capture::{
    pytorch::trace_name,
    runner::protocol::{Instruments, Profile},
};
use llmprof_record::{
    import::{self, Limits, Profile as Imported},
    plan::Activity,
    trace::{HostKind, RangeKind},
};
use llmprof_units::DType;

use super::support::{Worker, batch, dummy, phases, tiny_qwen2};

#[test]
#[ignore = "live: needs torch and transformers"]
fn a_captured_pass_leaves_a_trace_with_phases_and_modules() {
    let mut worker = Worker::start();
    let mut load = dummy(&tiny_qwen2());
    load.dtype = Some(DType::Bf16);
    let loaded = worker.load(&load).unwrap();
    // Embedding 256 × 64; a layer: q and o 64 × 64, k and v 64 × 32, their biases, three of 64 × 128, two norms; a norm.
    let layer = 2 * 64 * 64 + 2 * 64 * 32 + (64 + 32 + 32) + 3 * 64 * 128 + 2 * 64;
    assert_eq!(loaded.parameters, 256 * 64 + 2 * layer + 64);
    assert_eq!(loaded.weight_bytes.0, 2 * loaded.parameters);
    assert_eq!(loaded.dtype, DType::Bf16);
    assert_eq!(loaded.facts["precision.kv"], "bf16");

    let mut asked = batch(&[&[1, 2, 3, 4, 5], &[9, 8, 7, 6, 5]], 4);
    let first = worker.warm_up(&asked).unwrap();
    let plain = worker.generate(&asked).unwrap();
    assert!(plain.host.is_empty() && plain.events.is_none() && plain.device_token_ns.is_empty());
    assert_eq!(
        first.requests[0].output_tokens,
        plain.requests[0].output_tokens
    );

    let path = worker.folder.path().join(trace_name(0, 77));
    asked.events = Some(path.clone());
    asked.instruments = Instruments {
        module_ranges: true,
        profile: Some(Profile {
            activities: vec![Activity::Cpu],
            shapes: true,
            memory: false,
            stacks: false,
            flops: false,
        }),
        memory_snapshot: None,
        cuda_profiler: false,
    };
    let captured = worker.generate(&asked).unwrap();
    assert_eq!(phases(&captured), ["prefill", "decode"]);
    assert_eq!(
        captured.requests[0].output_tokens,
        plain.requests[0].output_tokens
    );
    assert_eq!(captured.host.len(), 4);
    let events = captured.events.unwrap();
    assert_eq!(
        (events.format.as_str(), &events.path),
        ("kineto_json", &path)
    );

    let (format, Imported::Trace(trace)) = import::import(&path, &Limits::default()).unwrap()
    else {
        panic!("no trace");
    };
    assert_eq!(format, "kineto");
    let mut ranges: BTreeMap<&str, u32> = BTreeMap::new();
    for range in trace.ranges.rows() {
        if range.kind == RangeKind::ANNOTATION {
            *ranges.entry(trace.text(range.name)).or_default() += 1;
        }
    }
    for (name, times) in [
        ("prefill", 1),
        ("decode", 1),
        ("decode_step", 3),
        ("sampling", 4),
        ("model.embed_tokens", 4),
        ("model.layers.1.self_attn.q_proj", 4),
        ("model.layers.0.mlp.down_proj", 4),
        ("lm_head", 4),
    ] {
        assert_eq!(ranges.get(name), Some(&times), "{name} in {ranges:?}");
    }
    assert!(trace.hosts.kind.contains(&HostKind::OPERATOR));
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let complete = file["traceEvents"].as_array().unwrap().iter();
    let complete = complete.filter(|event| event["ph"] == "X").count();
    assert_eq!(events.events, complete as u64);

    // A warm-up of the profiler leaves nothing behind.
    asked.events = None;
    assert!(worker.warm_up(&asked).unwrap().events.is_none());
    worker.finish();
}
