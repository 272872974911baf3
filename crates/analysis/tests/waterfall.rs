//! The waterfall of a decode on an H200, from what Nsight Systems recorded.

use std::path::Path;

use llmprof_analysis::analyze;
use llmprof_analysis::device_events::DeviceEvents;
use llmprof_analysis::launches::Launches;
use llmprof_analysis::run::kernel_table::{WorkGroup, device_events, group_floors};
use llmprof_analysis::run::waterfall::{Floor, Input, Waterfall};
use llmprof_analysis::run::{PhaseClass, RunPhase, TracedPass, analyze_trace};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Catalog;
use llmprof_theory::floor::{MemoryLevel, PhaseFloor, Roof};
use llmprof_theory::{Logits, Model, Pass, Workload};
use llmprof_units::Nanos;
use serde_json::json;

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

fn ranges(trace: &Trace, name: &str) -> Vec<(i64, i64)> {
    let ranges = &trace.ranges;
    let mut found: Vec<(i64, i64)> = (0..ranges.len())
        .filter(|&row| trace.text(ranges.name[row]) == name)
        .map(|row| (ranges.start[row], ranges.start[row] + ranges.duration[row]))
        .collect();
    found.sort_unstable();
    found
}

/// Four decode steps after 128 tokens of prompt. W and the sum of device events are as in the file itself:
/// 4,024 kernels of 8,208,738 ns and memory fills of 6,528 ns.
#[test]
fn the_second_decode_of_the_h200() {
    let trace = fixture("nsys/qwen05.sqlite.gz");
    let (model, workload) = (qwen(), Workload::default());
    let device = Catalog::embedded().by_name("h200").unwrap();
    let roof = Roof::new(&device);
    let steps = [Pass::decode(1, 128, 4)];
    let phase = PhaseFloor::of_pass(&roof, &model, &workload, &steps[0]).unwrap();
    assert_eq!(phase.memory_level, MemoryLevel::Main);
    let floors = group_floors(&model, &workload, &steps, &roof, phase.memory_level);

    let all = DeviceEvents::of(&trace);
    let launches = Launches::of(&trace);
    let present = |group: WorkGroup| floors[group as usize].is_some();
    let on_device = all.devices().next().unwrap();
    let events = device_events(&trace, &all, on_device, &launches, present);
    let known: Vec<Floor> = floors
        .iter()
        .map(|floor| floor.unwrap_or_default())
        .collect();
    let window = ranges(&trace, "decode")[1];
    let waterfall = Waterfall::of(&Input {
        window,
        events: &events,
        floors: Some(&known),
        host: &[],
    });

    assert_eq!(waterfall.wall_ns, Nanos(129_277_747));
    assert_eq!(waterfall.sum_ns, Nanos(8_215_266));
    assert_eq!(waterfall.copies_ns, Nanos(6_528));
    let total: i64 = waterfall.parts().iter().map(|(_, time)| time.0).sum();
    assert_eq!(total, waterfall.wall_ns.0);
    // Every group's floor is below the time of its kernels, and together they are the floor of the phase.
    assert_eq!(waterfall.below_floor.operators, 0);
    assert!((waterfall.floor_ns.unwrap().0 - phase.floor_ns.0).abs() <= 1);
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
            "floor 825000",
            "matched − floor 6124419",
            "extra 1259319",
            "copies 6528",
            "unattributed 0",
            "idle 121062481",
            "− overlap 0"
        ]
    );

    // The breakdown of the same stretch, made another way, agrees and says why the device waited.
    let analysis = analyze(&trace, None);
    let decode = analysis
        .phases
        .iter()
        .find(|phase| phase.name == "decode")
        .unwrap();
    let same = &decode.devices[0].instances[1];
    assert_eq!(
        (same.span_ns, same.sum_ns, same.busy_ns, same.idle_ns),
        (
            waterfall.wall_ns.0,
            waterfall.sum_ns.0,
            waterfall.busy_ns.0,
            waterfall.idle_ns.0
        )
    );
    let waterfall = waterfall.with_idle_causes(&same.idle);
    let causes: i64 = waterfall.idle.iter().map(|part| part.time_ns.0).sum();
    assert_eq!(causes, waterfall.idle_ns.0);
    assert_eq!(waterfall.idle[0].name, "host busy before the next launch");
}

/// The same waterfall from the whole analysis: the first of two decodes is first use, which is told apart.
#[test]
fn the_same_from_the_analysis_of_the_trace() {
    let trace = fixture("nsys/qwen05.sqlite.gz");
    let model = qwen();
    let workload = Workload {
        prompt: 128,
        new_tokens: 5,
        ..Workload::default()
    };
    let device = Catalog::embedded().by_name("h200").unwrap();
    let analysis = analyze_trace(
        &trace,
        &TracedPass {
            subject: Some((&model, &workload)),
            device: Some(&device),
            ..TracedPass::default()
        },
    )
    .unwrap();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let parts: Vec<String> = decode
        .waterfall
        .parts()
        .iter()
        .map(|(name, time)| format!("{name} {}", time.0))
        .collect();
    assert_eq!(
        parts,
        [
            "floor 825000",
            "matched − floor 6124419",
            "extra 1259319",
            "copies 6528",
            "unattributed 0",
            "idle 121062481",
            "− overlap 0"
        ]
    );
    assert_eq!(decode.waterfall.wall_ns, Nanos(129_277_747));
    assert_eq!(decode.waterfall.sum_ns, Nanos(8_215_266));
    assert_eq!(
        decode.waterfall.idle[0].name,
        "host busy before the next launch"
    );
    assert_eq!(decode.class.class, Some(PhaseClass::HostBound));
    assert!(decode.waterfall.share(decode.waterfall.idle_ns) > 0.75);
    let matched: i64 = decode.by_kind.iter().map(|group| group.measured_ns.0).sum();
    assert_eq!(matched, decode.waterfall.matched_ns.0);

    // Four lengths of the cache had not run before: 510, 59, 58 and 59 ms.
    let traced = decode.traced.as_ref().unwrap();
    let first = traced.first_use.unwrap();
    assert_eq!(first.wall_ns, Nanos(932_039_852));
    let lengths = first.new_lengths.unwrap();
    assert_eq!(lengths.waits, 4);
    assert!((680..690).contains(&(lengths.time_ns.0 / 1_000_000)));
    assert_eq!(traced.new_lengths, None);
    let finding = |code: &str| {
        let mut found = analysis.findings.iter();
        found.find(|finding| finding.code == code && finding.phase == Some(RunPhase::Decode))
    };
    let idle = finding("idle").unwrap();
    assert!(idle.title.contains("host-bound"), "{}", idle.title);
    assert!(idle.title.contains("CUDA graphs"), "{}", idle.title);
    let once = finding("first_use").unwrap();
    assert!(once.title.contains("4 lengths"), "{}", once.title);
}

/// Every kernel of every trace of that model has a part, and no group of operators is faster than its floor.
#[test]
fn little_is_unattributed_in_any_trace() {
    let (model, workload) = (qwen(), Workload::default());
    let device = Catalog::embedded().by_name("h200").unwrap();
    let roof = Roof::new(&device);
    for (name, steps) in [("torch_shapes.json.gz", 8), ("torch_full.json.gz", 2)] {
        let trace = fixture(name);
        let passes: Vec<Pass> = Pass::prefill(1, 128, 0, None, Logits::Last)
            .chain([Pass::decode(1, 128, steps)])
            .collect();
        let floors = group_floors(&model, &workload, &passes, &roof, MemoryLevel::Main);
        let known: Vec<Floor> = floors
            .iter()
            .map(|floor| floor.unwrap_or_default())
            .collect();
        let all = DeviceEvents::of(&trace);
        let events = device_events(
            &trace,
            &all,
            all.devices().next().unwrap(),
            &Launches::of(&trace),
            |group| floors[group as usize].is_some(),
        );
        let waterfall = Waterfall::of(&Input {
            window: all.span().unwrap(),
            events: &events,
            floors: Some(&known),
            host: &[],
        });
        assert_eq!(waterfall.events as usize, all.all().len(), "{name}");
        let of_busy = waterfall.unattributed_ns.0 as f64 / waterfall.sum_ns.0 as f64;
        assert!(of_busy <= 0.02, "{name}: {:?}", waterfall.unattributed);
        assert_eq!(waterfall.below_floor.operators, 0, "{name}");
        assert!(waterfall.inefficiency_ns.unwrap() > Nanos(0), "{name}");
    }
}
