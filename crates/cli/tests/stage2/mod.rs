//! Stage 2 of `llmprof run`, with stand-ins for nsys and ncu whose reports are those of an H200: what each worker is asked, what
//! the run leaves, and what is said where a tool fails. Needs Python, and neither torch nor a GPU.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

const SECRET: &str = "ourEnvHunter2Value";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with the stand-ins.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stage2");
        for (name, source) in [
            ("nsys", "nsys.py"),
            ("ncu", "ncu.py"),
            ("python", "worker.py"),
        ] {
            // The interpreter of a worker is a program that is the worker, whatever it is given.
            let arguments = if name == "python" { "" } else { " \"$@\"" };
            let script = format!(
                "#!/bin/sh\nexec python3 '{}'{arguments}\n",
                sources.join(source).display()
            );
            let path = machine.path(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
        command
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .env("NSYS", self.path("nsys"))
            .env("NCU", self.path("ncu"))
            .env("STANDIN_PYTHON", self.path("python"))
            .env("STANDIN_ASKED", self.path("asked.jsonl"))
            .env("STANDIN_FIXTURES", root().join("fixtures/h200"))
            .env("DATABASE_PASSWORD", SECRET)
            .args(["run", "+preset=stage2", "runtime=pytorch"])
            .arg(format!("runtime.python={}", self.path("python").display()))
            .args([
                "model=qwen2_5_0_5b",
                "model.load_format=dummy",
                "hardware.spec=h200",
            ])
            .args([
                "runtime.warmup=1",
                "runtime.repeats=2",
                "workload.prompt_tokens=8",
            ])
            .args(["infer.max_new_tokens=16", "hydra.run.dir=out"]);
        command
    }

    fn run(&self, overrides: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = self.command();
        command.args(overrides).envs(variables.iter().copied());
        command.output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        let path = self.path("out").join(name);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn issues(&self, code: &str) -> Vec<Value> {
        let manifest = self.json("run.json");
        let issues = manifest["issues"].as_array().unwrap().iter();
        issues.filter(|one| one["code"] == code).cloned().collect()
    }

    /// What the workers were asked: tool, kind, request.
    fn asked(&self, tool: Option<&str>, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path("asked.jsonl")).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["tool"].as_str() == tool && line["kind"] == kind)
            .collect()
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let words = text.split_whitespace().filter(|word| *word != "│");
    words.collect::<Vec<_>>().join(" ")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(files(&path));
        } else {
            paths.push(path);
        }
    }
    paths
}

fn holds(bytes: &[u8], text: &str) -> bool {
    let mut parts = bytes.windows(text.len());
    parts.any(|part| part == text.as_bytes())
}

/// Files that scripts look for under these names.
fn assert_files(machine: &Machine) {
    for name in [
        "nsys/run.nsys-rep",
        "nsys/run.sqlite",
        "nsys/summary_cuda_gpu_kern_sum.csv",
        "nsys/top-kernels.yaml",
        "nsys/cmd.txt",
        "ncu/decode.ncu-rep",
        "ncu/decode_raw.csv",
        "ncu/decode_details.csv",
        "ncu/command.yaml",
        "ncu/cmd.txt",
        "ncu/analysis/metrics_summary.csv",
        "ncu/analysis/classification_summary.csv",
        "static_compute.json",
        "static_compute.md",
        "report.html",
    ] {
        assert!(machine.path("out").join(name).is_file(), "{name}");
    }
    for name in ["static_compute.json", "static_compute.md"] {
        let second = format!("static_analysis/{name}");
        assert_eq!(machine.read(name), machine.read(&second), "{name}");
    }
    let left = machine.path("out/pytorch/worker");
    assert!(!left.exists(), "the unpacked worker goes with the run");
    // The plan of the same timeline on the H200 itself.
    let planned = root().join("fixtures/h200/stage2/command.yaml");
    assert_eq!(
        machine.read("ncu/command.yaml"),
        fs::read_to_string(planned).unwrap()
    );
    for file in files(&machine.path("out")) {
        let bytes = fs::read(&file).unwrap();
        let has = holds(&bytes, SECRET);
        // Beside its report the stand-in writes what it found, to show that there was something.
        let is_found = file.extension().is_some_and(|end| end == "found");
        assert_eq!(has, is_found, "{}", file.display());
    }
}

/// Warm-ups come first under each tool, no other profiler is on, and only the timeline's worker logs its GEMMs.
fn assert_workers(machine: &Machine) {
    for (tool, generated, tokens) in [(None, 2, 16), (Some("nsys"), 1, 16), (Some("ncu"), 1, 3)] {
        assert_eq!(machine.asked(tool, "load").len(), 1, "{tool:?}");
        assert_eq!(machine.asked(tool, "warm_up").len(), 1, "{tool:?}");
        let batches = machine.asked(tool, "generate");
        assert_eq!(batches.len(), generated, "{tool:?}");
        for batch in &batches {
            let request = &batch["request"];
            assert_eq!(request["requests"][0]["max_new_tokens"], tokens, "{tool:?}");
            let instruments = &request["instruments"];
            assert_eq!(
                instruments["cuda_profiler"] == true,
                tool.is_some(),
                "{tool:?}"
            );
            assert!(instruments["profile"].is_null(), "{tool:?}: {instruments}");
            assert!(request["events"].is_null(), "{tool:?}");
            assert_eq!(batch["secret"], tool.is_none(), "{tool:?}");
            let logging = batch["logging"].as_object().unwrap();
            assert_eq!(logging.len(), if tool == Some("nsys") { 4 } else { 0 });
        }
    }
    // One config for all of them.
    let loads: Vec<Value> = [None, Some("nsys"), Some("ncu")]
        .into_iter()
        .map(|tool| machine.asked(tool, "load")[0]["request"].clone())
        .collect();
    assert_eq!(loads[0], loads[1]);
    assert_eq!(loads[0], loads[2]);
    let logging = &machine.asked(Some("nsys"), "generate")[0]["logging"];
    assert_eq!(logging["CUBLASLT_LOG_LEVEL"], "2");
    let log = logging["CUBLASLT_LOG_FILE"].as_str().unwrap();
    assert!(log.ends_with("out/cublas/cublaslt.log"), "{log}");
}

#[test]
fn a_run_makes_timeline_counters_and_analysis() {
    let machine = Machine::new();
    let logs = "pipeline.cublas_log.enable=true";
    let dry = machine.run(&[logs, "--dry-run"], &[]);
    assert_eq!(dry.status.code(), Some(0), "{}", said(&dry));
    assert!(!machine.path("out").exists());
    // Without a tool the other commands are those that the run would start.
    let without = machine.run(&["pipeline.ncu.path=/no/ncu", "--dry-run"], &[]);
    assert_eq!(without.status.code(), Some(0), "{}", said(&without));
    let words = "/no/ncu does not start";
    assert!(said(&without).contains(words), "{}", said(&without));
    assert!(said(&without).contains("the run goes on without it"));
    let printed = String::from_utf8_lossy(&without.stdout);
    assert!(printed.contains(" profile ") && !printed.contains("/no/ncu"));
    let output = machine.run(&[logs], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_files(&machine);
    assert_workers(&machine);

    // What a dry run printed is what was started.
    let printed = String::from_utf8_lossy(&dry.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    for tool in ["nsys", "ncu"] {
        let started = machine.read(&format!("{tool}/cmd.txt"));
        assert!(
            lines.contains(&started.trim_end()),
            "{started}\nis not in\n{printed}"
        );
    }
    assert!(printed.contains("CUBLASLT_LOG_LEVEL=2"), "{printed}");
    assert!(printed.contains(" --import "), "{printed}");
    assert!(said(&dry).contains("chosen from the timeline"));

    let manifest = machine.json("run.json");
    let passes = manifest["passes"].as_array().unwrap().iter();
    let passes: Vec<&str> = passes.map(|pass| pass["name"].as_str().unwrap()).collect();
    assert_eq!(
        passes,
        ["static_analysis", "plain", "nsys", "ncu", "ncu counters"]
    );
    assert_eq!(machine.issues("nsight.environment_kept").len(), 2);
    let covered = machine.issues("ncu.covered");
    assert_eq!(covered[0]["values"]["launches"], 12);
    let analysis = machine.json("analysis.json");
    assert!(analysis["counters"]["launches"].as_array().unwrap().len() == 12);
    let decode = analysis["phases"].as_array().unwrap().iter();
    assert!(decode.filter(|phase| phase["phase"] == "decode").count() == 1);
    // The stand-in's logs are absent, and that is said.
    assert_eq!(machine.issues("cublas_log.unusable").len(), 2);
}

#[test]
fn a_tool_that_fails_is_quoted_and_costs_only_its_own_part() {
    let machine = Machine::new();
    let output = machine.run(&[], &[("STANDIN_NSYS", "fails")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let issues = machine.issues("nsight.failed");
    assert_eq!(issues.len(), 1);
    assert_eq!(issues[0]["values"]["tool"], "nsys");
    let what = issues[0]["values"]["what"].as_str().unwrap();
    assert!(
        what.contains("QdstrmImporter could not be started"),
        "{what}"
    );
    let hint = issues[0]["hint"].as_str().unwrap();
    assert!(hint.contains("apt-get install nsight-systems"), "{hint}");
    assert!(
        !machine.path("out/ncu").exists(),
        "nothing to choose launches from"
    );
    let metrics = machine.json("metrics.json");
    assert!(metrics["aggregates"]["tpot_ms"]["mean"].as_f64().is_some());

    let machine = Machine::new();
    let output = machine.run(&[], &[("STANDIN_NCU", "denied")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let issues = machine.issues("nsight.failed");
    let what = issues[0]["values"]["what"].as_str().unwrap();
    assert!(what.contains("ERR_NVGPUCTRPERM"), "{what}");
    let hint = issues[0]["hint"].as_str().unwrap();
    assert!(
        hint.contains("NVreg_RestrictProfilingToAdminUsers=0"),
        "{hint}"
    );
    assert!(machine.path("out/nsys/run.sqlite").is_file());
    assert!(machine.read("report.md").contains("derived"));

    // What a tool wrote before it failed is read, and its exit code is no secret.
    let machine = Machine::new();
    let output = machine.run(&[], &[("STANDIN_NCU", "exits")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let issues = machine.issues("nsight.failed");
    let what = issues[0]["values"]["what"].as_str().unwrap();
    assert_eq!(
        what,
        "==ERROR== The application returned an error code (11)."
    );
    let analysis = machine.json("analysis.json");
    assert_eq!(
        analysis["counters"]["launches"].as_array().unwrap().len(),
        12
    );

    // A report that cannot be read costs the counters, and keeps no secret either.
    let machine = Machine::new();
    let output = machine.run(&[], &[("STANDIN_NCU", "empty")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(machine.issues("nsight.failed")[0]["values"]["tool"], "ncu");
    let report = fs::read(machine.path("out/ncu/decode.ncu-rep")).unwrap();
    let seen = fs::read(machine.path("out/ncu/decode.found")).unwrap();
    assert!(holds(&seen, SECRET) && !holds(&report, SECRET));
    assert!(machine.read("report.md").contains("derived"));

    let machine = Machine::new();
    let no_library = [("LLMPROF_INJECT", "/nowhere/libllmprof_inject.so")];
    let output = machine.run(&["pipeline.nsys.path=/nowhere/nsys"], &no_library);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(machine.issues("nsight.no_tool").len(), 1);
    // Our own library would have recorded the timeline.
    assert_eq!(machine.issues("cupti.unavailable").len(), 1);
    assert_eq!(
        machine.asked(None, "generate").len(),
        2,
        "plain passes are kept"
    );

    // So it would with both tools off.
    let machine = Machine::new();
    let off = ["pipeline.nsys.enable=false", "pipeline.ncu.enable=false"];
    let output = machine.run(&off, &no_library);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(machine.issues("nsight.no_tool").is_empty());
    assert_eq!(machine.issues("cupti.unavailable").len(), 1);
}

#[test]
fn options_that_cannot_work_are_refused_by_name() {
    let machine = Machine::new();
    for (change, words) in [
        (
            "pipeline.nsys.args=['--capture-range-end=nvtx']",
            "the tool has no `--capture-range-end=nvtx`",
        ),
        (
            "pipeline.nsys.args=[--capture-range-end,nvtx]",
            "the tool has no `--capture-range-end=nvtx`",
        ),
        (
            "pipeline.nsys.args='--capture-range-end nvtx'",
            "the tool has no `--capture-range-end=nvtx`",
        ),
        (
            "pipeline.nsys.capture_range_end=nvtx",
            "nsys has no such end of a range",
        ),
        (
            "pipeline.ncu.args=['--kernels','gemm']",
            "the tool has no `--kernels`",
        ),
        ("pipeline.nsys.capture_range=hotkey", "nobody presses a key"),
        ("+pipeline.ncu.ncu_cli.launch_skip=200", "ncu_cli"),
        (
            "pipeline.cublas_log.enable=true pipeline.nsys.enable=false",
            "pass of Nsight Systems",
        ),
        (
            "pipeline.nsys.gating_nvtx=true pipeline.nsys.nvtx_capture=decode",
            "leaves out those before it",
        ),
        (
            "pipeline.ncu.replay_mode=twice",
            "`twice` is not a replay mode",
        ),
        (
            "pipeline.ncu.classify.low_pct=70",
            "margins are percentages, low_pct at most high_pct",
        ),
        (
            "pipeline.ncu.replay_mode=application",
            "starts the worker again for each pass",
        ),
    ] {
        let changes: Vec<&str> = if change.contains('\'') {
            vec![change]
        } else {
            change.split(' ').collect()
        };
        let output = machine.run(&[&changes[..], &["--dry-run"]].concat(), &[]);
        assert_eq!(output.status.code(), Some(2), "{change}");
        assert!(said(&output).contains(words), "{change}: {}", said(&output));
    }
    // Options as a text are split; those of a range are those of the tool.
    let output = machine.run(
        &[
            "pipeline.ncu.enable=false",
            "pipeline.nsys.args='--gpu-metrics-devices=0 --x'",
            "pipeline.nsys.gating_nvtx=true",
            "pipeline.nsys.nvtx_capture=model.layers.3.self_attn",
            "pipeline.nsys.sample=process-tree",
            "pipeline.nsys.trace='cuda,nvtx,osrt'",
            "pipeline.nsys.capture_range_end='repeat:3'",
            "runtime.module_ranges=true",
            "--dry-run",
        ],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let line = printed
        .lines()
        .find(|line| line.contains(" profile "))
        .unwrap();
    let expected = "profile --trace=cuda,nvtx,osrt --sample=process-tree --cuda-graph-trace=node --capture-range=nvtx \
         --nvtx-capture=model.layers.3.self_attn --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0 --capture-range-end=repeat:3 \
         --force-overwrite=true -o";
    assert!(line.contains(expected), "{line}");
    assert!(line.contains(" --gpu-metrics-devices=0 --x "), "{line}");
}

#[test]
fn every_preset_composes() {
    let machine = Machine::new();
    let mut seen = 0;
    for entry in fs::read_dir(root().join("conf/preset")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(machine.folder.path())
            .env("NO_COLOR", "1")
            .args([
                "run",
                &format!("+preset={name}"),
                "runtime=pytorch",
                "--cfg",
                "job",
            ])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        let config = String::from_utf8(output.stdout).unwrap();
        let expected: &[&str] = match name {
            "stage1" => &[
                "device: cuda:0",
                "num_samples_per_epoch: 3",
                "repeats: 3",
                "max_new_tokens: 64",
            ],
            "stage2" => &["device: cuda:0"],
            "roofline" => &["device: cuda:0", "coverage: 99%", "range: null"],
            _ => &[],
        };
        for line in expected {
            assert!(config.contains(line), "{name}: {line}\n{config}");
        }
        seen += 1;
    }
    assert!(seen >= 4);
}

/// An importer that does not start makes no report of a recording: that is known before minutes are spent on one.
#[test]
fn an_importer_that_does_not_start_is_known_beforehand() {
    let machine = Machine::new();
    let host = machine.path("host-linux-x64");
    fs::create_dir(&host).unwrap();
    let importer = host.join("QdstrmImporter");
    let script =
        "#!/bin/sh\necho 'error while loading shared libraries: libdw.so.1' >&2\nexit 127\n";
    fs::write(&importer, script).unwrap();
    fs::set_permissions(&importer, fs::Permissions::from_mode(0o755)).unwrap();
    let no_library = [("LLMPROF_INJECT", "/nowhere/libllmprof_inject.so")];
    let output = machine.run(&[], &no_library);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let issue = &machine.issues("nsight.failed")[0];
    let what = issue["values"]["what"].as_str().unwrap();
    assert!(what.contains("libdw.so.1"), "{what}");
    assert!(machine.asked(Some("nsys"), "generate").is_empty());
    let words = said(&output);
    let warned = words.find("the importer of nsys does not start");
    assert!(warned < words.find("plain 1"), "{words}");
    assert!(warned.is_some(), "{words}");

    // The timeline is then our library's, and a dry run shows its worker too.
    let library = machine.path("libllmprof_inject.so");
    fs::write(&library, "").unwrap();
    let dry = machine.run(
        &["--dry-run"],
        &[("LLMPROF_INJECT", library.to_str().unwrap())],
    );
    assert!(said(&dry).contains("with a timeline of llmprof's own library"));
    let printed = String::from_utf8_lossy(&dry.stdout);
    let injected = format!("CUDA_INJECTION64_PATH={}", library.display());
    assert!(printed.contains(&injected), "{printed}");
    assert!(printed.contains(" profile "), "{printed}");
}
