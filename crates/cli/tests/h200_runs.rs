//! Whole runs of PyTorch models on an H200 (`fixtures/h200/runs.sh`), analyzed again from what they recorded. Sums are compared
//! with those that Python counts in the same files (`fixtures/wire_counts.py`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

const ALL: [&str; 5] = ["eager05", "graph05", "compile05", "eager7", "graph7"];
/// A run within a budget.
const SLICES: &str = "slices05";
const PHASES: [&str; 2] = ["prefill", "decode"];
/// Steps of decode in each of the runs: 16 tokens, of which prefill gives the first.
const STEPS: u64 = 15;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/runs")
}

fn llmprof(args: &[&Path]) {
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// What people read of a run.
const FILES: [&str; 4] = [
    "analysis.json",
    "report.md",
    "stakeholder_summary.md",
    "kernels.csv",
];

/// A run that was analyzed again.
struct Again {
    files: [String; FILES.len()],
    analysis: Value,
}

impl Again {
    /// The run with this name, analyzed once for all tests.
    fn of(name: &str) -> &'static Self {
        static RUNS: [OnceLock<Again>; ALL.len() + 1] = [const { OnceLock::new() }; ALL.len() + 1];
        let place = ALL.iter().position(|known| *known == name);
        assert!(place.is_some() || name == SLICES);
        RUNS[place.unwrap_or(ALL.len())].get_or_init(|| Self::analyzed(name))
    }

    fn analyzed(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let run = folder.path().join("run");
        let recorded = fixtures().join(name);
        llmprof(&[
            Path::new("import"),
            &recorded.join("cupti.wire.gz"),
            Path::new("-o"),
            &run,
        ]);
        fs::copy(recorded.join("record.json"), run.join("record.json")).unwrap();
        llmprof(&[Path::new("analyze"), &run]);
        // By now the model is known.
        let manifest = fs::read_to_string(run.join("run.json")).unwrap();
        assert!(!manifest.contains("run.no_model"), "{manifest}");
        let files = FILES.map(|file| fs::read_to_string(run.join(file)).unwrap());
        Self {
            analysis: serde_json::from_str(&files[0]).unwrap(),
            files,
        }
    }

    fn read(&self, file: &str) -> &str {
        let place = FILES.iter().position(|known| *known == file);
        &self.files[place.unwrap()]
    }

    fn phase(&self, name: &str) -> &Value {
        let mut phases = self.analysis["phases"].as_array().unwrap().iter();
        phases.find(|phase| phase["phase"] == name).unwrap()
    }

    fn part(&self, phase: &str, name: &str) -> i64 {
        self.phase(phase)["waterfall"][name].as_i64().unwrap()
    }

    /// The part of decode's wall time without capture in which the device had nothing to do.
    fn plain_idle(&self) -> f64 {
        let evidence = self.phase("decode")["class"]["evidence"].as_array();
        let mut evidence = evidence.unwrap().iter();
        let idle = evidence.find(|one| one["what"] == "plain_idle_share");
        idle.unwrap()["value"].as_f64().unwrap()
    }

    fn class(&self, phase: &str) -> &str {
        self.phase(phase)["class"]["class"].as_str().unwrap()
    }

    fn finding(&self, code: &str, phase: Option<&str>) -> Option<&Value> {
        let mut findings = self.analysis["findings"].as_array().unwrap().iter();
        findings.find(|finding| finding["code"] == code && finding["phase"].as_str() == phase)
    }

    fn conclusion(&self, code: &str, phase: Option<&str>) -> &Value {
        let finding = self.finding(code, phase);
        let finding = finding.unwrap_or_else(|| panic!("no {code} of {phase:?}"));
        &finding["conclusion"]
    }

    /// Mean time of a token after the first, in passes without capture.
    fn tpot(&self) -> f64 {
        self.analysis["latency"]["tpot_ns"]["mean"]
            .as_f64()
            .unwrap()
    }
}

#[test]
fn waterfalls_are_what_the_records_add_up_to() {
    let counts: Value =
        serde_json::from_slice(&fs::read(fixtures().join("counts.json")).unwrap()).unwrap();
    for name in ALL {
        let again = Again::of(name);
        for phase in PHASES {
            let counted = |what: &str| counts[name][phase][what].as_i64().unwrap();
            let part = |what: &str| again.part(phase, what);
            for what in ["wall_ns", "sum_ns", "busy_ns"] {
                assert_eq!(part(what), counted(what), "{name} {phase} {what}");
            }
            let traced = &again.phase(phase)["traced"];
            assert_eq!(traced["kernels"], counts[name][phase]["kernels"]);
            let steps = traced["step_ns"].as_array().unwrap();
            assert_eq!(steps.len() as i64, counted("steps"));
            let steps = steps.iter().map(|step| step.as_i64().unwrap());
            assert_eq!(steps.sum::<i64>(), counted("step_ns"));
            let in_modules = traced["in_modules_ns"].as_i64().unwrap_or(0);
            assert_eq!(in_modules, counted("in_modules_ns"), "{name} {phase}");

            let work = part("roofline_ns")
                + part("inefficiency_ns")
                + part("extra_ns")
                + part("copies_ns");
            let rest = part("unattributed_ns") + part("idle_ns") - part("overlap_ns");
            assert_eq!(work + rest, part("wall_ns"), "{name} {phase}");
            assert_eq!(part("idle_ns"), part("wall_ns") - part("busy_ns"));
            let causes = again.phase(phase)["waterfall"]["idle"].as_array().unwrap();
            let causes = causes
                .iter()
                .map(|cause| cause["time_ns"].as_i64().unwrap());
            assert_eq!(causes.sum::<i64>(), part("idle_ns"), "{name} {phase}");
        }
    }
}

#[test]
fn eager_decode_waits_for_the_host_and_new_lengths_cost_once() {
    // Idle in the recorded pass, which recording makes longer, and without capture. Kernels of 7B are long enough that the second
    // is less than three quarters.
    for (name, recorded, plain) in [("eager05", 0.941, 0.918), ("eager7", 0.892, 0.702)] {
        let again = Again::of(name);
        assert_eq!(again.class("decode"), "host_bound", "{name}");
        let idle = again.part("decode", "idle_ns") as f64 / again.part("decode", "wall_ns") as f64;
        assert!((idle - recorded).abs() < 0.001, "{name}: {idle}");
        let idle = again.plain_idle();
        assert!((idle - plain).abs() < 0.001, "{name}: {idle}");
        let first = &again.analysis["findings"][0];
        assert_eq!(
            (&first["code"], &first["phase"]),
            (&"launch_bound".into(), &"decode".into())
        );
        // A faster device would only wait longer.
        let findings = again.analysis["findings"].as_array().unwrap().iter();
        let of_device = |finding: &&Value| {
            let code = finding["code"].as_str().unwrap();
            code.starts_with("inefficiency") || ["extra", "copies", "fusion"].contains(&code)
        };
        assert_eq!(findings.filter(of_device).count(), 0, "{name}");

        let first = again.conclusion("first_use", None);
        assert!(first["extra_step_ns"].is_i64(), "{first}");
        assert_eq!(first["has_kv_cache"], true);
        let report = again.read("report.md");
        let (_, waterfall) = report.split_once("## Where the time went").unwrap();
        let (waterfall, _) = waterfall.split_once("\n## ").unwrap();
        assert!(
            waterfall.contains("each new KV cache length costs"),
            "{waterfall}"
        );
    }
}

#[test]
fn graphs_take_the_idle_time_away() {
    let most = [("graph05", 0.15), ("compile05", 0.2), ("graph7", 0.1)];
    for (name, most) in most {
        let again = Again::of(name);
        let idle = again.plain_idle();
        assert!(idle < most, "{name}: {idle}");
        assert_ne!(again.class("decode"), "host_bound", "{name}");
        // What was done already is not advised, and a graph has one length.
        assert!(
            again.finding("launch_bound", Some("decode")).is_none(),
            "{name}"
        );
        let first = again.conclusion("first_use", None);
        assert!(first["extra_step_ns"].is_null(), "{name}");
        let traced = &again.phase("decode")["traced"];
        let in_graphs = traced["graph_kernels"].as_u64().unwrap();
        assert!(
            2 * in_graphs > traced["kernels"].as_u64().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn large_weights_bind_memory_and_small_kernels_bind_a_small_model() {
    let large = Again::of("graph7");
    assert_eq!(large.class("decode"), "memory_bound");
    assert!(large.finding("quantize_weights", Some("decode")).is_some());
    let small = Again::of("graph05");
    assert_eq!(small.class("decode"), "latency_bound");
    let why = &small.phase("decode")["class"]["why"];
    assert_eq!(why["rule"], "small_kernels");
    let report = small.read("report.md");
    assert!(report.contains("kernels with fewer blocks than the GPU has SMs take"));
}

/// The same model ran both ways: a compiler that fuses more than runs of elementwise kernels gains more than is stated for these.
#[test]
fn a_compiler_gains_what_fusion_is_said_to_give() {
    let (graph, compiled) = (Again::of("graph05"), Again::of("compile05"));
    let finding = graph
        .finding("unfused_elementwise", Some("decode"))
        .unwrap();
    let stated = finding["gain"]["phase_factor"].as_f64().unwrap();
    let reached = graph.tpot() / compiled.tpot();
    assert!(
        stated > 1.1 && stated < reached,
        "{stated} stated, {reached} reached"
    );
    let left = compiled.finding("unfused_elementwise", Some("decode"));
    let left = left.map_or(1.0, |left| left["gain"]["phase_factor"].as_f64().unwrap());
    assert!(left < stated, "{left}");
    // Rotations that are fused with a concatenation are still rotations, of Triton and not of cuDNN.
    let kernels = compiled.read("kernels.csv");
    let fused = kernels.lines().filter(|line| line.contains("triton_"));
    assert!(fused.clone().count() > 10);
    assert!(
        fused
            .clone()
            .all(|line| !line.contains("cuDNN") && !line.contains(",cat,"))
    );
}

#[test]
fn nearly_all_device_time_has_a_module() {
    for name in ["eager05", "graph05", "eager7", "graph7"] {
        let again = Again::of(name);
        for phase in PHASES {
            let inside = again.phase(phase)["traced"]["in_modules_ns"]
                .as_i64()
                .unwrap();
            let sum = again.part(phase, "sum_ns");
            assert!(
                inside as f64 >= 0.98 * sum as f64,
                "{name} {phase}: {inside} of {sum}"
            );
        }
        assert!(
            again.phase("decode")["missing"]
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
}

/// Of Qwen2.5-0.5B a token reads all 494,032,768 parameters in 2 bytes, the embedding as the head, and one row of it more. Of
/// Qwen2.5-7B it reads 7,615,616,512 less the embedding's 152,064 rows of 3,584, and one row.
#[test]
fn the_roofline_time_reads_each_weight_once_a_token() {
    let small = 2 * (494_032_768 + 896);
    let large = 2 * (7_615_616_512 - 152_064 * 3_584 + 3_584);
    assert_eq!(small, 988_067_328);
    for (name, bytes) in [
        ("eager05", small),
        ("graph05", small),
        ("compile05", small),
        ("eager7", large),
        ("graph7", large),
    ] {
        let again = Again::of(name);
        let decode = again.phase("decode");
        let read = decode["plain_utilization"]["weight_bytes"].as_u64();
        assert_eq!(read, Some(STEPS * bytes), "{name}");
        // At the 4.8 TB/s of the datasheet they are nearly all of the roofline time.
        let roofline = again.part("decode", "roofline_ns") as f64;
        let weights = (STEPS * bytes) as f64 / 4.8e12 * 1e9;
        assert!(
            roofline > weights && roofline < 1.01 * weights,
            "{name}: {roofline} of {weights}"
        );
    }
}

/// From a worker with its packages imported to weights on the device, which was waited for.
#[test]
fn seven_billion_dummy_weights_are_there_within_a_second() {
    for name in ["eager7", "graph7"] {
        let recorded = fs::read(fixtures().join(name).join("record.json")).unwrap();
        let recorded: Value = serde_json::from_slice(&recorded).unwrap();
        let passes = recorded["passes"].as_array().unwrap();
        let phases = passes
            .iter()
            .flat_map(|pass| pass["phases"].as_array().unwrap());
        let loads = phases.filter(|phase| phase["phase"] == "load");
        let times: Vec<i64> = loads
            .map(|load| load["end_ns"].as_i64().unwrap() - load["start_ns"].as_i64().unwrap())
            .collect();
        let [time] = times[..] else {
            panic!("{name}: {times:?}");
        };
        assert!((0..1_000_000_000).contains(&time), "{name}: {time} ns");
    }
}

/// Figures of a phase have one basis, the passes without capture, wherever people read them.
#[test]
fn the_same_figures_stand_in_all_files() {
    for name in ALL {
        let again = Again::of(name);
        let (report, summary) = (
            again.read("report.md"),
            again.read("stakeholder_summary.md"),
        );
        for phase in PHASES {
            let line = format!("- {phase} ");
            let line = report
                .lines()
                .find(|printed| printed.starts_with(&line))
                .unwrap();
            let (_, roofline) = line.split_once("· at ").unwrap();
            let (roofline, _) = roofline.split_once(" of roofline").unwrap();
            let reported =
                format!("At the peak rates of the hardware it would take {roofline} of the time.");
            let line = format!("- The {phase} phase ");
            let line = summary
                .lines()
                .find(|printed| printed.starts_with(&line))
                .unwrap();
            assert!(line.ends_with(&reported), "{name}: {line} and {reported}");
        }
        assert!(!summary.contains("While it was watched"));
    }
}

#[test]
fn slices_of_a_run_are_whole_steps_and_scale_to_all_of_them() {
    let again = Again::of(SLICES);
    assert_eq!(again.class("decode"), "host_bound");
    let counts: Value =
        serde_json::from_slice(&fs::read(fixtures().join("counts.json")).unwrap()).unwrap();
    let scaled = &again.analysis["timeline"]["scaled"];
    assert_eq!(scaled["step"], "decode_step");
    assert_eq!(scaled["units"], counts[SLICES]["decode"]["steps"]);
    let sampled = scaled["sampled"].as_i64().unwrap();
    assert_eq!(sampled, 16);
    // All that was recorded lies in these steps, and every step runs the kernels that each does where all are recorded.
    let sum = |what: &str| counts[SLICES]["decode"][what].as_i64().unwrap();
    let whole = &counts["eager05"]["decode"];
    let a_step = whole["kernels"].as_i64().unwrap() / whole["steps"].as_i64().unwrap();
    assert_eq!(sum("kernels"), sampled * a_step);
    let kernels = scaled["kernels"]["value"].as_f64().unwrap();
    assert!((kernels - (sum("steps") * a_step) as f64).abs() < 0.5);
    let time = scaled["kernel_time_ns"]["value"].as_f64().unwrap() / sum("steps") as f64;
    let of_work = sum("sum_ns") as f64 / sampled as f64;
    assert!(
        (time / of_work - 1.0).abs() < 0.01,
        "{time} of {of_work} ns"
    );
    // The cache is longer than where all steps are recorded, by 150 tokens on average, and takes the device 1.8 % longer.
    let full = whole["sum_ns"].as_f64().unwrap() / whole["steps"].as_f64().unwrap();
    assert!((0.99..1.04).contains(&(of_work / full)), "{of_work} {full}");

    assert_eq!(again.part("decode", "sum_ns"), sum("sum_ns"));
    let report = again.read("report.md");
    for words in [
        "sampled 16 of 299 steps",
        "16 of 299 ranges `decode_step` recorded whole",
        "no figures for prefill: it lies between slices",
        // The plain passes took that long; the recorded steps are no part of them.
        "\n- decode 9.154 s: host-bound",
        "Sampled 6.6 % of the recording (562.8 ms of 8.528 s)",
        "300794 kernels, kernel time",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let longest = report.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(550), "{longest:?}");
}

#[test]
fn a_worker_that_was_killed_leaves_what_it_had_recorded() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    llmprof(&[
        Path::new("import"),
        &fixtures().join("killed/cupti.wire.gz"),
        Path::new("-o"),
        &run,
    ]);
    let manifest = fs::read_to_string(run.join("run.json")).unwrap();
    assert!(manifest.contains("wire.not_ended"), "{manifest}");
    let analysis: Value =
        serde_json::from_slice(&fs::read(run.join("analysis.json")).unwrap()).unwrap();
    let phases = analysis["phases"].as_array().unwrap();
    let kernels = phases
        .iter()
        .map(|phase| phase["traced"]["kernels"].as_i64().unwrap());
    // Counted with Python in the file: 1006 of prefill and of each step; the last one was under way.
    assert_eq!(kernels.sum::<i64>(), 14_045);
}
