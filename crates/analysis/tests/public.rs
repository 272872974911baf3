//! Traces that others published, against sums that Python made of them and against what their publishers say.

use std::fs;
use std::path::{Path, PathBuf};

use llmprof_analysis::bottleneck::ClassReason;
use llmprof_analysis::program::ProgramKind;
use llmprof_analysis::{Analysis, PhaseAnalysis, analyze};
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::{RecordedModel, RecordedTrace, RunRecord};
use llmprof_theory::{Model, Workload, device::Catalog};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public")
}

fn analyzed(name: &str) -> Analysis {
    let file = fixtures().join(name);
    let (_, profile) =
        import::import(&file, &Limits::default()).expect("a profile that can be read");
    let Profile::Trace(trace) = profile else {
        panic!("{name} is a trace");
    };
    let record = RunRecord {
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    analyze(&record, None).expect("without a workload nothing is refused")
}

/// The only phase of a trace of one step.
fn step(analysis: &Analysis) -> &PhaseAnalysis {
    let [phase] = analysis.phases.as_slice() else {
        let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
        panic!("one phase is expected, not {names:?}");
    };
    phase
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn close(measured: f64, expected: f64) {
    let error = (measured / expected - 1.0).abs();
    assert!(error < 0.001, "{measured} where {expected} is expected");
}

#[test]
fn kernels_and_busy_times_are_those_that_python_counts() {
    let text = fs::read_to_string(fixtures().join("truth.json")).unwrap();
    let truth: Value = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for (name, expected) in truth.as_object().unwrap() {
        // One trace is not kept here.
        if !fixtures().join(name).is_file() {
            continue;
        }
        let analysis = analyzed(name);
        let timeline = analysis.timeline.unwrap();
        assert_eq!(
            timeline.totals.kernels,
            expected["kernels"].as_u64().unwrap(),
            "{name}"
        );
        for device in &timeline.devices {
            let expected = &expected["devices"][device.device.to_string()];
            let busy = expected["busy_ns"].as_f64().unwrap();
            close(
                serde_json::to_value(&device.total).unwrap()["busy_ns"]
                    .as_f64()
                    .unwrap(),
                busy,
            );
        }
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}

/// The publisher's own figures: a step of 34.892 ms of which the device is busy 31.905 ms; 509 events are of the step before.
#[test]
fn a_step_is_what_it_launched_and_not_what_ran_meanwhile() {
    for (name, wall, busy) in [
        ("qwen_h100/trace.json.gz", 34.892_419, 31.905_483),
        ("qwen_mi300/trace.json.gz", 33.131_336, 29.7),
    ] {
        let analysis = analyzed(name);
        let waterfall = &step(&analysis).waterfall;
        close(ms(waterfall.wall_ns.0), wall);
        let error = (ms(waterfall.busy_ns.0) / busy - 1.0).abs();
        assert!(error < 0.005, "{name}: {} busy", waterfall.busy_ns);
    }
}

/// The host leaves the range of a step long before the device is done with it.
#[test]
fn steps_of_servers_last_as_long_as_the_device_works() {
    for (name, wall, busy) in [
        (
            "sglang_decode_qwen3_30b_mi300/trace.json.gz",
            11.471_99,
            10.55,
        ),
        ("sglang_mi300/trace.json.gz", 493.5, 492.8),
    ] {
        let analysis = analyzed(name);
        let waterfall = &step(&analysis).waterfall;
        let near = |measured: f64, expected: f64| {
            assert!(
                (measured / expected - 1.0).abs() < 0.005,
                "{name}: {measured} where {expected} is expected"
            );
        };
        near(ms(waterfall.wall_ns.0), wall);
        near(ms(waterfall.busy_ns.0), busy);
    }
}

#[test]
fn names_that_look_like_phases_are_none() {
    let analysis = analyzed("training_hta/trace.json.gz");
    let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
    assert!(
        !names.iter().any(|name| name.contains("decode")),
        "{names:?}"
    );
}

#[test]
fn no_share_of_a_peak_is_above_one() {
    for name in [
        "qwen_h100/trace.json.gz",
        "sglang_mi300/trace.json.gz",
        "sglang_decode_qwen3_30b_mi300/trace.json.gz",
        "vllm_piecewise_mi300/trace.json.gz",
        "nsys_2gpu/report.sqlite.gz",
    ] {
        for phase in analyzed(name).phases {
            let waterfall = &phase.waterfall;
            assert!(waterfall.busy_ns <= waterfall.wall_ns, "{name}");
            assert!(
                waterfall.idle_ns.0 >= 0 && waterfall.overlap_ns.0 >= 0,
                "{name}"
            );
        }
    }
}

/// Fifteen prompts of 1,024 tokens through Qwen3-8B in one step, as the label states: the user names the model and nothing else.
///
/// By hand: 36 layers of q and o (4096 × 4096 each), k and v (4096 × 1024 each), gate, up and down (4096 × 12288 each) are
/// 6,945,767,424 weights; × 2 × 15,360 tokens = 213.4 TFLOP; attention 4 × 32 heads × 128 × 36 layers × 15 × 1024 × 1025 ÷ 2 =
/// 4.64 TFLOP; together 218.0 TFLOP in 493.5 ms at 1,307.4 TFLOP/s is an MFU of 33.8 %.
#[test]
fn the_label_of_an_engine_states_the_work() {
    let config = serde_json::json!({
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 40960, "tie_word_embeddings": false,
        "hidden_act": "silu", "rope_theta": 1e6, "torch_dtype": "bfloat16",
    });
    let file = fixtures().join("sglang_mi300/trace.json.gz");
    let (_, profile) = import::import(&file, &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("a trace");
    };
    let record = RunRecord {
        model: Some(RecordedModel {
            model: Model::from_config(&config, None).ok(),
            design: config.as_object().unwrap().clone(),
        }),
        workload: Some(Workload::default()),
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    let device = Catalog::embedded().by_name("mi300x").unwrap();
    let analysis = analyze(&record, Some(&device)).unwrap();
    let phase = step(&analysis);
    assert_eq!(phase.name(), "prefill");
    let mfu = phase.utilization.as_ref().unwrap().mfu.unwrap();
    assert!((mfu / 0.338 - 1.0).abs() < 0.01, "{mfu}");
}

/// Shapes show batch, prompt and steps; what the user says otherwise is contradicted and not used.
#[test]
fn shapes_contradict_what_the_user_says() {
    let file = fixtures().join("../h200/torch_shapes.json.gz");
    let (_, profile) = import::import(&file, &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("a trace");
    };
    let design = serde_json::json!({
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16",
    });
    let record = |design: &Value, batch: u64, keys: &[&str]| RunRecord {
        model: Some(RecordedModel {
            model: Model::from_config(design, None).ok(),
            design: design.as_object().unwrap().clone(),
        }),
        workload: Some(Workload {
            batch,
            prompt: 512,
            ..Workload::default()
        }),
        workload_keys: keys.iter().map(|&key| key.to_owned()).collect(),
        traces: vec![RecordedTrace {
            pass: None,
            trace: (*trace).clone(),
        }],
        ..RunRecord::default()
    };
    let codes = |analysis: &Analysis| -> Vec<String> {
        let issues = analysis.issues.iter();
        issues
            .filter(|issue| issue.code.as_str().starts_with("invariant."))
            .map(|issue| {
                format!(
                    "{} {}",
                    issue.code,
                    serde_json::to_string(&issue.values).unwrap()
                )
            })
            .collect()
    };
    let h200 = Catalog::embedded().by_name("h200").unwrap();
    let silent = analyze(&record(&design, 8, &[]), Some(&h200)).unwrap();
    assert_eq!(codes(&silent), [""; 0]);
    let phases: Vec<&str> = silent.phases.iter().map(PhaseAnalysis::name).collect();
    assert_eq!(phases, ["prefill", "decode"]);
    // Eight steps of a batch of one read the weights eight times: 494 M parameters in bf16 (tied), at 4.8 TB/s.
    let least = silent.phases[1].roofline.as_ref().unwrap().roofline_ns.0 as f64 / 8.0;
    assert!(
        (least / (494_032_768.0 * 2.0 / 4.8e12 * 1e9) - 1.0).abs() < 0.02,
        "{least}"
    );
    let keys = ["runtime.batch_size", "workload.prompt_tokens"];
    let said = analyze(&record(&design, 8, &keys), Some(&h200)).unwrap();
    assert_eq!(
        codes(&said),
        [
            r#"invariant.other_shape {"key":"runtime.batch_size","said":8,"shown":1}"#,
            r#"invariant.other_shape {"key":"workload.prompt_tokens","said":512,"shown":128}"#,
        ]
    );
    assert_eq!(said.phases[1].roofline, silent.phases[1].roofline);
    // Another model has nothing to do with this trace.
    for (key, value) in [("num_hidden_layers", 12), ("hidden_size", 1792)] {
        let mut other = design.clone();
        other[key] = value.into();
        let analysis = analyze(&record(&other, 1, &[]), Some(&h200)).unwrap();
        assert_eq!(codes(&analysis).len(), 1, "{key}");
        assert!(
            analysis.phases.iter().all(|phase| phase.roofline.is_none()),
            "{key}"
        );
    }
}

/// Phases of every trace, how often each ran, and their wall and busy times in ms: as `truth.json` has them from the first start to
/// the last end of what each step launched, or from the first to the last device event of the trace.
#[test]
fn phases_and_their_windows_are_those_of_the_device() {
    let text = fs::read_to_string(fixtures().join("truth.json")).unwrap();
    let truth: Value = serde_json::from_str(&text).unwrap();
    let mut expected = vec![
        (
            "old_kineto_v100/trace.json.gz".to_owned(),
            "training step",
            6,
            996.477,
            603.558,
        ),
        (
            "qwen_h100/trace.json.gz".to_owned(),
            "ProfilerStep",
            1,
            34.892,
            31.905,
        ),
        (
            "qwen_mi300/trace.json.gz".to_owned(),
            "ProfilerStep",
            1,
            33.131,
            29.744,
        ),
        (
            "sglang_decode_qwen3_30b_mi300/trace.json.gz".to_owned(),
            "decode",
            1,
            11.472,
            10.547,
        ),
        (
            "sglang_mi300/trace.json.gz".to_owned(),
            "prefill",
            1,
            493.529,
            492.688,
        ),
        (
            "training_hta/trace.json.gz".to_owned(),
            "training step",
            2,
            1230.24,
            547.656,
        ),
        (
            "vllm_piecewise_mi300/trace.json.gz".to_owned(),
            "mixed",
            1,
            156.466,
            156.086,
        ),
    ];
    for rank in 0..8 {
        let name = format!("ranks_dlrm/rank{rank}.json.gz");
        let own = &truth[&name];
        let of = |value: &Value| value.as_f64().unwrap() / 1e6;
        // Ranks 1 and 3 have 64 events of the step before: what of them runs in this one keeps the device busy.
        if of(&own["without_launch"]["device_ns"]) > 0.0 {
            continue;
        }
        let busy = of(&own["devices"][rank.to_string()]["busy_ns"]);
        let mut steps = own["annotations"].as_array().unwrap().iter();
        let step = steps
            .find(|step| step["name"] == "ProfilerStep#10")
            .unwrap();
        // Most of its work ends before the host leaves the step: it is as long as it was recorded.
        let wall = of(&step["host_ns"]);
        expected.push((name, "training step", 1, wall, busy));
    }
    for (name, phase, count, wall, busy) in expected {
        let analysis = analyzed(&name);
        let step_phase = step(&analysis);
        let instances = step_phase.traced.as_ref().unwrap().instances.len();
        assert_eq!((step_phase.name(), instances), (phase, count), "{name}");
        close(ms(step_phase.waterfall.wall_ns.0), wall);
        close(ms(step_phase.waterfall.busy_ns.0), busy);
    }
    let analysis = analyzed("nsys_2gpu/report.sqlite.gz");
    let phases = analysis.phases.iter().map(|phase| {
        let waterfall = &phase.waterfall;
        (phase.name(), waterfall.wall_ns.0, waterfall.busy_ns.0)
    });
    assert_eq!(
        phases.collect::<Vec<_>>(),
        [
            ("whole trace (device 0)", 299_848_812, 273_817_787),
            ("whole trace (device 1)", 298_661_551, 267_275_916),
        ]
    );
}

/// What waits for half a second after its launch returned waits for something that the trace does not have, here the batch before.
#[test]
fn a_kernel_that_was_queued_for_long_is_no_launch_latency() {
    let analysis = analyzed("sglang_mi300/trace.json.gz");
    let timeline = analysis.timeline.as_ref().unwrap();
    let gap = &timeline.outside.as_ref().unwrap().longest;
    close(ms(gap.idle.not_started_ns.0), 493.239);
    assert!(gap.idle.launch_latency_ns.0 < 100_000, "{:?}", gap.idle);
    assert!(gap.first_of_stream);
    // Inside of the step nothing waits so.
    assert_eq!(timeline.phases[0].devices[0].total.idle.not_started_ns.0, 0);
    // Calls of 172, 163, 161, 160 and 151 µs stage copies from pageable memory; of these the last is in no whole step.
    let staged = analyzed("old_kineto_v100/trace.json.gz");
    let idle = staged.timeline.unwrap().devices[0].total.idle;
    close(idle.launch_call_ns.0 as f64, 807_000.0);
    // A kernel waits for its turn for 413 µs and more: a step whose GPU idles so is not host-bound.
    let queued = analyzed("training_hta/trace.json.gz");
    assert_eq!(step(&queued).class.class, None);
    let ClassReason::QueuedIdle { queued_share, .. } = step(&queued).class.why else {
        panic!("{:?}", step(&queued).class);
    };
    assert!(queued_share > 0.2, "{queued_share:?}");
}

/// Every kernel has a purpose, but for a fiftieth of the time; exchange between devices is a part of its own.
#[test]
fn kernels_have_a_category() {
    let text = fs::read_to_string(fixtures().join("truth.json")).unwrap();
    let truth: Value = serde_json::from_str(&text).unwrap();
    for name in truth.as_object().unwrap().keys() {
        if !fixtures().join(name).is_file() {
            continue;
        }
        let analysis = analyzed(name);
        let kernels = &analysis.timeline.as_ref().unwrap().kernels;
        let time = |of: &dyn Fn(Category) -> bool| -> f64 {
            let rows = kernels.iter().filter(|row| of(row.category));
            rows.map(|row| row.total_ns.0 as f64).sum()
        };
        let (all, other) = (
            time(&|_| true),
            time(&|category| category == Category::Other),
        );
        assert!(
            other <= 0.02 * all,
            "{name}: {other} of {all} has no category"
        );
        let exchanged = time(&|category| category == Category::Communication);
        let parts: f64 = analysis
            .phases
            .iter()
            .map(|phase| phase.waterfall.communication_ns.0 as f64)
            .sum();
        assert!(parts <= exchanged, "{name}: {parts} of {exchanged}");
        assert!(parts >= 0.9 * exchanged, "{name}: {parts} of {exchanged}");
        for phase in &analysis.phases {
            let waterfall = &phase.waterfall;
            assert!(
                waterfall.exposed_communication_ns <= waterfall.communication_ns,
                "{name}"
            );
            let total: i64 = waterfall.parts().iter().map(|(_, time)| time.0).sum();
            assert_eq!(total, waterfall.wall_ns.0, "{name}");
        }
    }
}

#[test]
fn training_is_called_training() {
    for (name, steps) in [
        ("training_hta/trace.json.gz", 2),
        ("ranks_dlrm/rank0.json.gz", 1),
        ("old_kineto_v100/trace.json.gz", 6),
    ] {
        let analysis = analyzed(name);
        let phases: Vec<(&str, usize)> = analysis
            .phases
            .iter()
            .map(|phase| (phase.name(), phase.traced.as_ref().unwrap().instances.len()))
            .collect();
        assert_eq!(phases, [("training step", steps)], "{name}");
        assert_eq!(analysis.program.kind, ProgramKind::Training, "{name}");
    }
}
