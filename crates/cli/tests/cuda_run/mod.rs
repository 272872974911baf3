//! The CUPTI stage of `llmprof run` on a stand-in for a CUDA device: what is recorded is what the device was given, and what
//! goes wrong is reported. The worker is the real one; `stand_in_cuda` says what is not.
//!
//! Needs torch built for CUDA and transformers (`LLMPROF_PYTHON`, default `.venv`), but no GPU.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;
mod stand_in_cuda;
mod telemetry;

use std::{collections::BTreeMap, path::PathBuf};

use llmprof_record::{
    import::{Limits, wire},
    trace::{HostKind, Trace},
};
use llmprof_units::{Nanos, Times};
use serde_json::Value;

use stand_in_cuda::{Ended, Machine, NEW_TOKENS};

/// Torch's own profiler is another stage.
const NO_PROFILER: &str = "pipeline.torch_profiler.enable=false";

/// Parts of the waterfalls add up to the wall time, to the nanosecond.
fn assert_waterfalls_add_up(ended: &Ended) {
    for name in ["prefill", "decode"] {
        let phase = ended.phase(name);
        let part = |name: &str| phase["waterfall"][name].as_i64().unwrap();
        let work =
            part("roofline_ns") + part("inefficiency_ns") + part("extra_ns") + part("copies_ns");
        let rest = part("unattributed_ns") + part("idle_ns") - part("overlap_ns");
        assert_eq!(work + rest, part("wall_ns"), "{name}");
        assert!(part("wall_ns") > 0 && part("roofline_ns") > 0, "{name}");
    }
}

/// What was recorded is what the device was given in the one batch that was recorded.
fn assert_trace_is_whole(ended: &Ended) -> Trace {
    let workers = ended.workers();
    let injected: Vec<bool> = workers.iter().map(|worker| worker.is_injected).collect();
    assert_eq!(
        injected,
        [false, true],
        "plain passes run in a process of their own"
    );
    let files = ended.wire_files();
    // What the host's threads did is in a file beside it.
    let is_of_host = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("host-")
    };
    let recorded: Vec<&PathBuf> = files.iter().filter(|file| !is_of_host(file)).collect();
    let [file] = recorded.as_slice() else {
        panic!("{files:?}");
    };
    let process = file.file_name().unwrap().to_str().unwrap();
    assert!(process.starts_with(&format!("{}-", workers[1].process)));

    let trace = wire::read_files(&files, &Limits::default()).unwrap();
    let given = *workers[1].batches.last().unwrap();
    assert_eq!(trace.kernels.len(), given.kernels);
    assert_eq!(trace.copies.len(), given.copies);
    assert_eq!(given.steps, NEW_TOKENS - 1);
    let calls: BTreeMap<u32, &str> = (0..trace.hosts.len())
        .filter(|&row| trace.hosts.kind[row] == HostKind::RUNTIME)
        .map(|row| {
            (
                trace.hosts.correlation[row],
                trace.text(trace.hosts.name[row]),
            )
        })
        .collect();
    let launched = |row: &usize| {
        let call = calls.get(&trace.kernels.correlation[*row]);
        call.is_some_and(|call| call.contains("Launch"))
    };
    let kernels = 0..trace.kernels.len();
    assert_eq!(kernels.filter(launched).count(), given.kernels);
    assert_eq!(trace, Trace::load(&ended.path("trace.llmprof")).unwrap());
    trace
}

/// Nearly all device time of decode lies in ranges of modules, and every operator that theory counts was found.
fn assert_decode_is_attributed_by_module(ended: &Ended) {
    let decode = ended.phase("decode");
    let traced = &decode["traced"];
    assert_eq!(traced["by_module"], true);
    assert_eq!(traced["step_ns"].as_array().unwrap().len(), NEW_TOKENS - 1);
    let busy: i64 = traced["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sum_ns"].as_i64().unwrap())
        .sum();
    let in_modules = traced["in_modules_ns"].as_i64().unwrap();
    assert!(
        in_modules as f64 >= 0.98 * busy as f64,
        "{in_modules} of {busy} ns"
    );
    assert!(
        decode["missing"].as_array().unwrap().is_empty(),
        "{}",
        decode["missing"]
    );
    // A product of each layer runs once a step.
    let operators = ended.read("operators.csv");
    let calls = |operator: &str| {
        let row = operators.lines().find(|line| line.starts_with(operator));
        let row = row.unwrap_or_else(|| panic!("no {operator} in\n{operators}"));
        row.split(',').nth(4).unwrap().parse::<usize>().unwrap()
    };
    let steps = NEW_TOKENS - 1;
    assert_eq!(
        calls("decode,model.layers.*.self_attn.q_proj,linear,f32,"),
        2 * steps
    );
    assert_eq!(calls("decode,lm_head,linear,f32,"), steps);
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_run_records_one_batch_whole_and_explains_it() {
    let machine = Machine::new();
    let ended = machine.run(&[
        "runtime.repeats=2",
        "pipeline.torch_profiler.memory_snapshot=true",
    ]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    assert_trace_is_whole(&ended);
    assert_waterfalls_add_up(&ended);
    assert_decode_is_attributed_by_module(&ended);
    assert_files_agree(&ended);
    // The worker ends when recording does: CUPTI need not leave it.
    assert!(ended.issues("cupti.kept").is_empty());

    for name in [
        ".hydra/config.yaml",
        ".hydra/hydra.yaml",
        ".hydra/overrides.yaml",
        "env.json",
        "inputs.yaml",
        "assumptions.md",
        "stakeholder_summary.md",
        "operators.md",
        "kernels.md",
        "static_compute.md",
        "static_compute.json",
        "kernels.csv",
        "ops.csv",
        "plots/waterfall_decode.svg",
        "plots/roofline.svg",
        "plots/timeline.svg",
        "torch_profiler/command.yaml",
        "torch_profiler/overhead.json",
        "cupti/cmd.txt",
        "token_times.csv",
        "allocator.json",
        "memory.csv",
    ] {
        assert!(ended.path(name).is_file(), "{name}");
    }
    let manifest = ended.json("run.json");
    let passes = manifest["passes"].as_array().unwrap();
    let passes: Vec<_> = passes
        .iter()
        .map(|pass| pass["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        passes,
        ["static_analysis", "plain", "torch_profiler", "cupti"]
    );
    // One warm-up, two plain batches, one under torch's profiler; the other worker warms up and is recorded.
    let workers = ended.workers();
    assert_eq!(workers[1].batches.len(), 2);
    let times = ended.read("token_times.csv");
    let plain: Vec<&str> = times
        .lines()
        .filter(|line| line.contains(",plain,"))
        .collect();
    assert_eq!(plain.len(), 2 * NEW_TOKENS);
    assert!(
        plain.iter().all(|line| !line.ends_with(',')),
        "the device reported its times"
    );
    let captured = times.lines().filter(|line| line.contains(",captured,"));
    assert_eq!(
        captured.count(),
        2 * NEW_TOKENS,
        "torch's profiler and CUPTI"
    );
    // What was recorded gives the same again.
    let before = ended.read("analysis.json");
    for command in ["analyze", "report"] {
        let output = ended.llmprof(&[command, "out"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
    }
    assert_eq!(ended.read("analysis.json"), before);
}

/// The same figures stand in every file.
fn assert_files_agree(ended: &Ended) {
    let (metrics, report, page) = (
        ended.json("metrics.json"),
        ended.read("report.md"),
        ended.read("report.html"),
    );
    for name in ["prefill", "decode"] {
        let phase = ended.phase(name);
        let reported = metrics["phases"].as_array().unwrap().iter();
        let reported: Vec<&Value> = reported
            .filter(|reported| reported["phase"] == name)
            .collect();
        assert_eq!(reported.len(), 1);
        for key in ["waterfall", "capture_ratio"] {
            assert_eq!(reported[0][key], phase[key], "{name}");
        }
        let nanos = |value: &Value| Nanos(value.as_i64().unwrap()).to_string();
        let ratio = phase["capture_ratio"].as_f64().unwrap();
        for figure in [
            nanos(&phase["waterfall"]["wall_ns"]),
            nanos(&reported[0]["plain_wall_ns"]),
            Times(ratio).to_string(),
        ] {
            assert!(report.contains(&figure), "{name}: {figure} in report.md");
            assert!(page.contains(&figure), "{name}: {figure} in report.html");
        }
    }
}

/// When the tokens of the first plain request were there, ns since it began.
fn first_plain_request(ended: &Ended) -> Vec<i64> {
    let times = ended.read("token_times.csv");
    let rows = times
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let plain: Vec<Vec<&str>> = rows.filter(|row| row[1] == "plain").collect();
    let first = plain.iter().filter(|row| row[2] == plain[0][2]);
    first.map(|row| row[4].parse().unwrap()).collect()
}

/// What the passes without capture are said to have taken for what was captured.
fn plain_wall(ended: &Ended, name: &str) -> i64 {
    let metrics = ended.json("metrics.json");
    let mut phases = metrics["phases"].as_array().unwrap().iter();
    let phase = phases.find(|phase| phase["phase"] == name).unwrap();
    phase["plain_wall_ns"].as_i64().unwrap()
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn without_torchs_profiler_cupti_alone_explains_the_first_batch() {
    let machine = Machine::new();
    let ended = machine.run(&[
        NO_PROFILER,
        "runtime.repeats=1",
        "dataset.sampling.num_samples_per_epoch=3",
    ]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    assert_trace_is_whole(&ended);
    assert_waterfalls_add_up(&ended);
    assert_decode_is_attributed_by_module(&ended);
    assert_files_agree(&ended);
    assert!(!ended.path("torch_profiler").exists());
    // One of three batches was recorded: it is compared with itself.
    assert_eq!(ended.issues("cupti.first_batch").len(), 1);
    let times = first_plain_request(&ended);
    let (first, last) = (times[0], times[NEW_TOKENS - 1]);
    assert!((plain_wall(&ended, "prefill") - first).abs() <= 1);
    assert!((plain_wall(&ended, "decode") - (last - first)).abs() <= 1);
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn graphs_are_attributed_by_the_modules_that_they_were_captured_in() {
    let machine = Machine::new();
    let ended = machine.run(&[NO_PROFILER, "runtime.repeats=1", "runtime.cuda_graph=true"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let trace = assert_trace_is_whole(&ended);
    let in_graphs = trace.kernels.graph_node.iter().filter(|&&node| node != 0);
    assert!(in_graphs.count() > 0);
    assert_waterfalls_add_up(&ended);
    assert_decode_is_attributed_by_module(&ended);
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_refusal_of_cupti_leaves_the_plain_measurements() {
    let machine = Machine::new();
    let ended = machine
        .env("STANDIN_REFUSE", "39")
        .run(&[NO_PROFILER, "runtime.repeats=1"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let issues = ended.issues("cupti.unavailable");
    assert_eq!(issues.len(), 1);
    let message = issues[0]["values"]["why"].as_str().unwrap();
    assert!(
        message.contains("another tool uses CUPTI in this process"),
        "{message}"
    );
    assert!(
        ended.stderr().contains("[cupti.unavailable]"),
        "{}",
        ended.stderr()
    );
    let metrics = ended.json("metrics.json");
    assert!(metrics["aggregates"]["tpot_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(ended.read("report.md").contains("another tool uses CUPTI"));
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_library_that_is_missing_is_named() {
    let machine = Machine::new();
    let ended = machine
        .env("LLMPROF_INJECT", "/nowhere/library.so")
        .run(&[NO_PROFILER, "runtime.repeats=1"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let issues = ended.issues("cupti.unavailable");
    let message = issues[0]["values"]["why"].as_str().unwrap();
    assert!(
        message.contains("LLMPROF_INJECT names /nowhere/library.so"),
        "{message}"
    );
    assert_eq!(issues[0]["values"]["missing"], "library");
    assert_eq!(ended.workers().len(), 1, "nothing was started in vain");
    assert!(ended.path("report.html").is_file());
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_worker_that_is_killed_leaves_what_it_had_recorded() {
    let machine = Machine::new();
    // In the second batch, the one that is recorded, in the third step of decode.
    let ended = machine
        .env("STANDIN_KILL", "2,3")
        .run(&[NO_PROFILER, "runtime.repeats=1"]);
    assert_eq!(ended.code(), Some(2), "{}", ended.stdout());
    let said = ended.stderr();
    assert!(
        said.contains("signal 9") && said.contains("the stand-in ends this process"),
        "{said}"
    );
    let manifest = ended.json("run.json");
    assert_eq!(manifest["status"], "failed");
    let mut passes = manifest["passes"].as_array().unwrap().iter();
    let pass = passes.find(|pass| pass["name"] == "cupti").unwrap();
    assert_eq!(pass["status"], "failed");
    let trace = wire::read_files(&ended.wire_files(), &Limits::default()).unwrap();
    assert!(!trace.kernels.is_empty());
    let ranges = &trace.ranges;
    let steps = (0..ranges.len()).filter(|&row| trace.text(ranges.name[row]) == "decode_step");
    assert_eq!(steps.count(), 3, "the last of them open");
    assert_eq!(
        trace
            .issues
            .iter()
            .filter(|one| one.code.as_str() == "wire.not_ended")
            .count(),
        1
    );
    // What was measured before is reported as in a run without CUPTI.
    assert_eq!(ended.issues("cupti.broken_off").len(), 1);
    let metrics = ended.json("metrics.json");
    assert!(metrics["aggregates"]["tpot_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(ended.read("report.md").contains("[cupti.broken_off]"));
    let again = ended.llmprof(&["import", "out/cupti", "-o", "again"]);
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn ctrl_c_while_cuda_is_recorded_keeps_the_plain_measurements() {
    let machine = Machine::new();
    let ended = machine
        .env("STANDIN_INTERRUPT", "2,1")
        .run(&[NO_PROFILER, "runtime.repeats=1"]);
    assert_eq!(ended.code(), Some(128 + 2), "{}", ended.stderr());
    let manifest = ended.json("run.json");
    assert_eq!(manifest["status"], "interrupted");
    assert_eq!(ended.issues("cupti.broken_off").len(), 1);
    let metrics = ended.json("metrics.json");
    assert!(metrics["aggregates"]["ttft_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(ended.path("report.html").is_file());
}

/// Sums of `nsys/summary_cuda_gpu_kern_sum.csv`: launches of all kernels.
fn listed_launches(ended: &Ended) -> usize {
    let table = ended.read("nsys/summary_cuda_gpu_kern_sum.csv");
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows = reader
        .records()
        .map(|row| row.unwrap()[2].parse::<usize>().unwrap());
    rows.sum()
}

/// Stage 2 needs no nsys: the timeline is our own, with the table of kernels and the range that it is gated to.
#[test]
#[ignore = "live: needs torch built for CUDA"]
fn without_nsys_the_timeline_of_stage_two_is_our_own() {
    let stage = [
        "+preset=stage2",
        "pipeline.nsys.path=/nowhere/nsys",
        "pipeline.ncu.path=/nowhere/ncu",
    ];
    for (more, is_gated) in [
        (
            &["pipeline.nsys.enable=true", "pipeline.ncu.enable=true"][..],
            false,
        ),
        (
            &["pipeline.nsys.enable=false", "pipeline.ncu.enable=true"],
            false,
        ),
        (
            &["pipeline.nsys.enable=false", "pipeline.ncu.enable=false"],
            false,
        ),
        (
            &[
                "pipeline.nsys.enable=true",
                "pipeline.ncu.enable=false",
                "pipeline.nsys.gating_nvtx=true",
                "pipeline.nsys.nvtx_capture=decode",
            ],
            true,
        ),
    ] {
        let machine = Machine::new();
        let ended = machine.run(&[&stage[..], more].concat());
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
        let workers = ended.workers();
        let given = *workers.last().unwrap().batches.last().unwrap();
        let listed = listed_launches(&ended);
        if is_gated {
            assert!(
                listed >= given.step_kernels && listed < given.kernels,
                "{listed} of {given:?}"
            );
        } else {
            assert_eq!(listed, given.kernels, "{given:?}");
        }
        assert!(ended.read("nsys/top-kernels.yaml").contains("regex:"));
        assert_waterfalls_add_up(&ended);
    }
}
