//! The waterfall of a decode on an H200, from what Nsight Systems recorded.

use crate::record;

use std::path::Path;

use llmprof_analysis::bottleneck::PhaseClass;
use llmprof_analysis::findings::Conclusion;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::device::Catalog;
use llmprof_theory::roofline::{MemoryLevel, PhaseRoofline, Roof};
use llmprof_theory::{Model, Pass, Workload};
use llmprof_units::Nanos;
use serde_json::json;

use self::record::record;

fn fixture(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200")
        .join(name);
    match import(&path, &Limits::default()).expect("a trace") {
        (_, Profile::Trace(trace)) => *trace,
        (format, _) => panic!("{format} is no timeline"),
    }
}

/// The model that the fixture ran, as its config describes it.
fn qwen() -> Model {
    let config = json!({
        "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "vocab_size": 151_936, "torch_dtype": "bfloat16",
    });
    Model::from_config(&config, None).expect("a known family")
}

/// On an H200, after 128 tokens of prompt.
fn analyzed(trace: &Trace, model: &Model, new_tokens: u64) -> Analysis {
    let workload = Workload {
        prompt: 128,
        new_tokens,
        ..Workload::default()
    };
    let device = Catalog::embedded()
        .by_name("h200")
        .expect("a device of the catalog");
    analyze(&record(trace, Some((model, &workload))), Some(&device))
        .expect("a workload that suits the model")
}

/// Four decode steps after 128 tokens of prompt; the first of two such decodes is first use, which is separate. W and the
/// sum of device events are as in the file itself: 4,024 kernels of 8,208,738 ns and memory fills of 6,528 ns.
#[test]
fn the_second_decode_of_the_h200() {
    let trace = fixture("nsys/qwen05.sqlite.gz");
    let model = qwen();
    let analysis = analyzed(&trace, &model, 5);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let waterfall = &decode.waterfall;
    assert_eq!(waterfall.wall_ns, Nanos(129_277_747));
    assert_eq!(waterfall.sum_ns, Nanos(8_215_266));
    assert_eq!(waterfall.copies_ns, Nanos(6_528));
    let total: i64 = waterfall.parts().iter().map(|(_, time)| time.0).sum();
    assert_eq!(total, waterfall.wall_ns.0);
    // Every group's roofline is below the time of its kernels, and together they are the roofline of the phase.
    let device = Catalog::embedded().by_name("h200").unwrap();
    let (roof, steps) = (Roof::new(&device), Pass::decode_steps(1, 128, 4));
    let phase = PhaseRoofline::of_pass(&roof, &model, &Workload::default(), &steps).unwrap();
    assert_eq!(phase.memory_level, MemoryLevel::Main);
    assert_eq!(waterfall.below_roofline.operators, 0);
    assert!((waterfall.roofline_ns.unwrap().0 - phase.roofline_ns.0).abs() <= 1);
    assert!(waterfall.share(waterfall.unattributed_ns) <= 0.02);
    assert!(waterfall.issues("decode").is_empty());
    let parts: Vec<String> = waterfall
        .parts()
        .iter()
        .map(|(name, time)| format!("{name} {}", time.0))
        .collect();
    assert_eq!(
        parts,
        [
            "roofline 825000",
            "kernel inefficiency 6124419",
            "overhead ops 1259319",
            "copies 6528",
            "communication 0",
            "unattributed 0",
            "idle 121062481",
            "− overlap 0"
        ]
    );
    let matched: i64 = decode.by_kind.iter().map(|group| group.measured_ns.0).sum();
    assert_eq!(matched, waterfall.matched_ns.0);

    // The breakdown of the same interval, made another way, agrees and says why the device waited.
    let timeline = analysis.timeline.as_ref().unwrap();
    let mut rows = timeline.phases.iter();
    let row = rows.find(|phase| phase.name == "decode").unwrap();
    let same = &row.devices[0].instances[1];
    assert_eq!(
        (same.span_ns, same.sum_ns, same.busy_ns, same.idle_ns),
        (
            waterfall.wall_ns,
            waterfall.sum_ns,
            waterfall.busy_ns,
            waterfall.idle_ns
        )
    );
    let causes: i64 = waterfall.idle.iter().map(|part| part.time_ns.0).sum();
    assert_eq!(causes, waterfall.idle_ns.0);
    assert_eq!(waterfall.idle[0].name, "host_busy");
}

#[test]
fn first_use_is_separate_from_host_cost() {
    let analysis = analyzed(&fixture("nsys/qwen05.sqlite.gz"), &qwen(), 5);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!(decode.class.class, Some(PhaseClass::HostBound));
    assert!(decode.waterfall.share(decode.waterfall.idle_ns) > 0.75);

    // Four lengths of the cache had not run before: 510, 59, 58 and 59 ms.
    let traced = decode.traced.as_ref().unwrap();
    let first = traced.first_use.unwrap();
    assert_eq!(first.wall_ns, Nanos(932_039_852));
    let lengths = first.new_lengths.unwrap();
    assert_eq!(lengths.waits, 4);
    assert!((680..690).contains(&(lengths.time_ns.0 / 1_000_000)));
    assert_eq!(traced.new_lengths, None);
    let finding = |code: &str| {
        let mut findings = analysis.findings.iter();
        findings.find(|finding| finding.code == code && finding.phase == Some(RunPhase::Decode))
    };
    assert!(finding("launch_bound").is_some_and(|finding| finding.gain.is_some()));
    let once = finding("first_use").unwrap();
    let four = matches!(
        once.conclusion,
        Some(Conclusion::FirstRange { lengths: 4, .. })
    );
    assert!(four, "{once:?}");
}

/// Every kernel of every trace of that model has a part, and no group of operators is faster than its roofline.
#[test]
fn little_is_unattributed_in_any_trace() {
    for (name, steps) in [("torch_shapes.json.gz", 8), ("torch_full.json.gz", 2)] {
        let trace = fixture(name);
        let analysis = analyzed(&trace, &qwen(), steps + 1);
        let mut events = 0;
        for phase in &analysis.phases {
            let waterfall = &phase.waterfall;
            let of_busy = waterfall.unattributed_ns.0 as f64 / waterfall.sum_ns.0 as f64;
            assert!(of_busy <= 0.02, "{name}: {:?}", waterfall.unattributed);
            assert_eq!(waterfall.below_roofline.operators, 0, "{name}");
            assert!(waterfall.inefficiency_ns.unwrap() > Nanos(0), "{name}");
            events += waterfall.events;
        }
        let rows = trace.kernels.len() + trace.copies.len() + trace.memsets.len();
        assert_eq!(events as usize, rows, "{name}");
    }
}
