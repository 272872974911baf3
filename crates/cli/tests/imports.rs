//! Imports that go wrong, and files that an import leaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{json, refused, works};
use serde_json::Value;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

fn slice(category: &str, name: &str, place: &str, start: u32, more: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", {place}, "ts": {start}.000, "dur": 5.000, "args": {{{more}}}}}"#
    )
}

#[test]
fn an_import_needs_a_file() {
    let folder = folder();
    let said = refused(folder.path(), &["import", "model=gpt2"]);
    assert!(said.contains("no profile to import"), "{said}");
    assert!(said.contains("llmprof import FILE model=gpt2"), "{said}");
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn a_trace_that_is_cut_before_its_kernels_is_refused() {
    let folder = folder();
    let host = "\"pid\": 1, \"tid\": 1";
    let operator = slice("cpu_op", "aten::mm", host, 10, "");
    let launch = slice(
        "cuda_runtime",
        "cudaLaunchKernel",
        host,
        12,
        "\"correlation\": 7",
    );
    let stream = "\"pid\": 0, \"tid\": 7";
    let kernel = slice(
        "kernel",
        "gemm",
        stream,
        20,
        "\"correlation\": 7, \"device\": 0, \"stream\": 7",
    );
    let devices = r#""deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "#;
    let write = |name: &str, devices: &str, events: &[&String], end: &str| {
        let events: Vec<&str> = events.iter().map(|event| event.as_str()).collect();
        let text = format!(
            "{{\"schemaVersion\": 1, {devices}\"traceEvents\": [\n  {}{end}",
            events.join(",\n  ")
        );
        fs::write(folder.path().join(name), text).unwrap();
    };
    let cut = ",\n  {\"ph\": \"X\", \"ca";
    // Either the header or a launch tells that there was a GPU.
    write("calls", "", &[&operator, &launch], cut);
    write("header", devices, &[&operator], cut);
    for name in ["calls", "header"] {
        let said = refused(folder.path(), &["import", name, "-o", "out"]);
        assert!(
            said.contains("is cut off before its first kernel"),
            "{said}"
        );
        assert!(!folder.path().join("out").exists());
    }
    // With a kernel, without a GPU, or whole, it is what there is.
    write("kernel", devices, &[&operator, &launch, &kernel], cut);
    write("host", "", &[&operator], cut);
    write("whole", devices, &[&operator], "\n]}");
    for name in ["kernel", "host", "whole"] {
        works(
            folder.path(),
            &["import", name, "-o", &format!("of_{name}")],
        );
    }
}

#[test]
fn reports_of_nsight_compute_without_launches_are_refused() {
    let folder = folder();
    fs::write(folder.path().join("decode.ncu-rep"), b"NVR\0\x0a\0\0\0rest").unwrap();
    let said = refused(folder.path(), &["import", "decode.ncu-rep"]);
    assert!(said.contains("no profiled launch is in it"), "{said}");
    fs::write(folder.path().join("noise"), b"\x01\x02\x03").unwrap();
    let said = refused(folder.path(), &["import", "noise"]);
    assert!(
        said.contains("unrecognized format") && said.contains("supported: Kineto or Chrome JSON"),
        "{said}"
    );
}

#[test]
fn ranges_with_long_names_have_files() {
    let folder = folder();
    let long = "layer".repeat(60);
    let host = "\"pid\": 1, \"tid\": 1";
    let mut events = Vec::new();
    for (number, suffix) in ["a", "b"].iter().enumerate() {
        let start = 100 * number as u32;
        let name = format!("{long}{suffix}");
        events.push(slice("user_annotation", &name, host, start, ""));
        let correlation = format!("\"correlation\": {}", number + 1);
        let call = slice(
            "cuda_runtime",
            "cudaLaunchKernel",
            host,
            start + 1,
            &correlation,
        );
        events.push(call.replace("5.000", "1.000"));
        let kernel = format!("{correlation}, \"device\": 0, \"stream\": 7");
        events.push(slice(
            "kernel",
            "gemm",
            "\"pid\": 0, \"tid\": 7",
            start + 3,
            &kernel,
        ));
    }
    let text = format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n]}}",
        events.join(",\n")
    );
    fs::write(folder.path().join("trace"), text).unwrap();
    works(folder.path(), &["import", "trace", "-o", "run"]);
    let plots = fs::read_dir(folder.path().join("run/plots")).unwrap();
    let names: Vec<String> = plots
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let of_ranges = names.iter().filter(|name| name.contains("layerlayer"));
    assert!(of_ranges.count() >= 2, "one plot for each range: {names:?}");
    assert!(names.iter().all(|name| name.len() < 128), "{names:?}");
}

/// `ops.csv` is `key_averages()` again: one row per key, the times and memory that torch has.
#[test]
fn operators_have_a_row_per_key_and_one_per_shape() {
    let folder = folder();
    let trace = fixture("cpu/torch_memory.json.gz");
    works(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "run"],
    );
    let table = |name: &str| {
        let text = fs::read_to_string(folder.path().join("run").join(name)).unwrap();
        let rows: Vec<Vec<String>> = text.lines().map(cells).collect();
        rows
    };
    let (by_key, by_shape) = (table("ops.csv"), table("ops_by_shape.csv"));
    assert_eq!(by_key[0], by_shape[0]);
    let header = &by_key[0];
    let column = |name: &str| header.iter().position(|cell| cell == name).unwrap();
    let [key, calls, time, memory] = [
        "key",
        "calls",
        "cpu_time_total_us",
        "self_cpu_memory_usage_bytes",
    ]
    .map(column);
    let truth = json(&fixture("cpu/torch_memory.key_averages.json"));
    let mut seen = 0;
    for row in truth.as_array().unwrap() {
        let name = row["key"].as_str().unwrap();
        let own: Vec<_> = by_key.iter().filter(|cells| cells[key] == name).collect();
        if ["step", "[memory]"].contains(&name) {
            assert!(own.is_empty(), "{name} is no operator");
            continue;
        }
        assert_eq!(own.len(), 1, "{name}");
        let own = own[0];
        assert_eq!(own[calls], row["count"].to_string(), "{name}");
        assert_eq!(
            own[memory],
            row["self_cpu_memory_bytes"].to_string(),
            "{name}"
        );
        let micros: f64 = own[time].parse().unwrap();
        assert!(
            (micros - row["cpu_us"].as_f64().unwrap()).abs() < 0.001,
            "{name}"
        );
        let split: u64 = by_shape
            .iter()
            .filter(|cells| cells[key] == name)
            .map(|cells| cells[calls].parse::<u64>().unwrap())
            .sum();
        assert_eq!(split.to_string(), own[calls], "{name}");
        seen += 1;
    }
    assert_eq!(seen, by_key.len() - 1);
    assert!(by_shape.len() > by_key.len());
}

/// The cells of a line, some of which are quoted.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

#[test]
fn an_exported_timeline_names_gpus_and_streams() {
    let folder = folder();
    let trace = fixture("h200/torch_shapes.json.gz");
    works(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "run"],
    );
    works(folder.path(), &["export", "run", "--to", "chrome"]);
    let exported = json(&folder.path().join("run/trace.json"));
    let named = |kind: &str, name: &str| {
        let events = exported["traceEvents"].as_array().unwrap().iter();
        let mut named = events.filter(|event| event["name"] == kind && event["pid"] == 0);
        named.any(|event| event["args"]["name"] == name)
    };
    assert!(named("process_name", "GPU 0: NVIDIA H200"));
    assert!(named("thread_name", "stream 7"));
}

/// Peaks of the CPU that reads a trace say nothing about the GPU that made it.
#[test]
fn a_disturbed_calibration_of_this_machine_does_not_matter() {
    let folder = folder();
    let cache = folder.path().join("cache");
    fs::create_dir_all(cache.join("llmprof")).unwrap();
    let calibration = r#"
name: this_cpu
title: A busy CPU
vendor: unknown
kind: cpu
basis: measured
measured_at: "2026-01-01T00:00:00Z"
calibration: {method: 1, threads: 2, other_programs: 0.5}
sources: {llmprof: "here: \"measured\""}
peaks:
  - {dtype: f32, engine: vector, tflops: 0.1, not_recounted: measured, source: llmprof}
memory:
  bandwidth_gb_s: {value: 10, source: llmprof}
"#;
    fs::write(cache.join("llmprof/cpu.yaml"), calibration).unwrap();
    let trace = r#"{"schemaVersion": 1, "traceEvents": [
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10.000, "dur": 2.000, "args": {"correlation": 7}},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20.000, "dur": 5.000, "args": {"correlation": 7, "device": 0, "stream": 7}}
]}"#;
    fs::write(folder.path().join("trace"), trace).unwrap();
    let said = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .env("XDG_CACHE_HOME", &cache)
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        said + &String::from_utf8_lossy(&output.stdout)
    };
    let shown = said(&["hardware", "show", "auto"]);
    assert!(shown.contains("the peaks are too low"), "{shown}");
    let imported = said(&["import", "trace", "-o", "run", "model=qwen2_5_0_5b"]);
    assert!(!imported.contains("hardware.disturbed"), "{imported}");
    let run = fs::read_to_string(folder.path().join("run/run.json")).unwrap();
    assert!(!run.contains("hardware.disturbed"), "{run}");
}

/// A column that is named for a unit holds numbers in it, not words for people.
#[test]
fn columns_with_a_unit_hold_plain_numbers() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folder = folder();
    let mut checked = 0;
    for (number, file) in COLUMNS_OF.iter().enumerate() {
        let (file, run) = (fixtures.join(file), format!("run{number}"));
        let args = ["import", file.to_str().unwrap(), "-o", &run];
        works(folder.path(), &args);
        for entry in fs::read_dir(folder.path().join(&run)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "csv") {
                continue;
            }
            let mut reader = csv::Reader::from_path(&path).unwrap();
            let headers = reader.headers().unwrap().clone();
            for row in reader.records() {
                let row = row.unwrap();
                for (header, cell) in headers.iter().zip(&row) {
                    let last = header.rsplit('_').next().unwrap();
                    if UNITS.contains(&last) && !cell.is_empty() {
                        let path = path.display();
                        assert!(cell.parse::<f64>().is_ok(), "{path}: {header} is {cell}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "pct", "bytes", "flops", "calls"];
const COLUMNS_OF: [&str; 2] = [
    "h200/runs/graph05/cupti.wire.gz",
    "h200/torch_shapes.json.gz",
];

/// A trace with one kernel.
fn small_trace() -> String {
    let host = "\"pid\": 1, \"tid\": 1";
    let launch = slice(
        "cuda_runtime",
        "cudaLaunchKernel",
        host,
        12,
        "\"correlation\": 7",
    );
    let kernel = slice(
        "kernel",
        "gemm",
        "\"pid\": 0, \"tid\": 7",
        20,
        "\"correlation\": 7, \"device\": 0, \"stream\": 7",
    );
    format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "NVIDIA H200"}}], "traceEvents": [{launch}, {kernel}]}}"#
    )
}

#[test]
fn runs_are_named_after_file_folder_or_model() {
    let folder = folder();
    let write = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, small_trace()).unwrap();
    };
    write("tp4/traces/rank0.json");
    write("decode_slow.json");
    let tables = ["api", "gpu_kern"].map(|table| {
        let table = fixture(&format!("h200/nsys/stats_cuda_{table}_sum.csv"));
        table.to_str().unwrap().to_owned()
    });
    for (args, name) in [
        (&["tp4/traces/rank0.json"][..], "tp4"),
        (&["decode_slow.json"], "decode_slow"),
        (
            &["decode_slow.json", "--model", "qwen/qwen3-8b"],
            "qwen3_8b",
        ),
        (&["decode_slow.json", "model=gpt2"], "gpt2"),
        (&[tables[0].as_str(), tables[1].as_str()], "h200"),
    ] {
        let said = works(folder.path(), &[&["import"], args].concat());
        let report = format!("report: runs/import/{name}/");
        assert!(said.contains(&report), "{args:?}: {said}");
    }
}

#[test]
fn a_trace_that_does_not_exist_is_answered_with_those_that_do() {
    let folder = folder();
    for number in 0..7 {
        fs::write(
            folder.path().join(format!("other{number}.json")),
            small_trace(),
        )
        .unwrap();
    }
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    fs::write(folder.path().join("notes.json"), "{}").unwrap();
    let said = refused(folder.path(), &["import", "decod.json"]);
    assert!(said.contains("decod.json does not exist"), "{said}");
    let listed =
        "profiles here: decode.json, other0.json, other1.json, other2.json, other3.json and 3 more";
    assert!(said.contains(listed), "{said}");
    assert!(!said.contains("notes"), "{said}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    let said = refused(folder.path(), &["import", "empty/nope.json"]);
    assert!(said.contains("empty holds no profile"), "{said}");
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn runs_and_tables_that_do_not_exist_are_answered_with_those_that_do() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    works(folder.path(), &["import", "decode.json", "-o", "runs/a"]);
    for command in ["query", "view"] {
        let said = refused(folder.path(), &[command, "runs/b"]);
        let hint = "runs/b does not exist";
        assert!(said.contains(hint) && said.contains("runs/a"), "{said}");
    }
    let said = refused(folder.path(), &["query", "nothing"]);
    assert!(said.contains("nothing does not exist"), "{said}");
    let said = refused(folder.path(), &["query", "runs/a", "select * from kernels"]);
    assert!(said.contains("did you mean `kernel`?"), "{said}");
    // Whole columns, also where they are many.
    let tables = works(folder.path(), &["query", "runs/a"]);
    let kernel = tables.lines().find(|line| line.starts_with("kernel: "));
    assert!(kernel.unwrap().ends_with(", module"), "{tables}");
}

#[test]
fn gains_of_findings_are_numbers() {
    let folder = folder();
    let trace = fixture("faults/gc_each_step.json.gz");
    let sql = "select id, title, typeof(gain_ms) as type, gain, gain_ms from finding where gain_ms is not null";
    let trace = trace.to_str().unwrap();
    let words = ["query", trace, sql, "--json"];
    let rows: Value = serde_json::from_str(&works(folder.path(), &words)).unwrap();
    let first = &rows[0];
    assert_eq!(first["type"], "real", "{rows}");
    // The id is the number by which other commands name the finding.
    assert_eq!(first["id"], 1, "{rows}");
    let explained = works(folder.path(), &["explain", trace, "finding=1"]);
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let saved = explained["gain"][0]["saved_ms"].as_f64().unwrap();
    assert!(
        (saved - first["gain_ms"].as_f64().unwrap()).abs() < 1e-3,
        "{explained}"
    );
    let saved = first["gain_ms"].as_f64().unwrap();
    assert!(saved > 0.0, "{rows}");
}

#[test]
fn what_an_import_is_given_twice_or_misspelt_is_named() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    let import = |more: &[&'static str]| [&["import", "decode.json"], more].concat();
    for (words, parts) in [
        (
            &["workload.promt_tokens=5"][..],
            ["promt_tokens", "prompt_tokens"],
        ),
        (
            &["model=gpt2", "--model", "qwen3_8b"],
            ["model=gpt2 and --model qwen3_8b", "give one"],
        ),
        (
            &["hydra.run.dir=a", "-o", "b"],
            ["-o and hydra.run.dir=a", "give one"],
        ),
        (
            &["workload.prompt_tokens=5"],
            ["name no model", "model=NAME"],
        ),
    ] {
        let said = refused(folder.path(), &import(words));
        for part in parts {
            assert!(said.contains(part), "{words:?}: {said}");
        }
        assert!(!folder.path().join("runs").exists());
    }
    works(folder.path(), &import(&["hydra.run.dir=named"]));
    assert!(folder.path().join("named/report.html").is_file());
}

#[test]
fn a_model_of_an_unknown_family_is_left_out() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    let config = r#"{"model_type": "mamba9", "hidden_size": 64}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let args = [
        "import",
        "decode.json",
        "--config",
        "config.json",
        "-o",
        "run",
    ];
    let output = common::llmprof(folder.path(), &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("model type `mamba9` is not supported"),
        "{said}"
    );
    let analysis = json(&folder.path().join("run/analysis.json"));
    assert!(analysis["timeline"].is_object());
}

#[test]
fn an_import_opens_its_report() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    let import = |path: &Path, run: &str| {
        Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(folder.path())
            .env("PATH", path)
            .args(["import", "decode.json", "--open", "-o", run])
            .output()
            .unwrap()
    };
    let nothing = folder.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let output = import(&nothing, "first");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("open first/report.html yourself"), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("report: first/report.html"), "{printed}");
    // A stand-in for the browser creates the file that it is asked to open, with another ending.
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let script = "#!/bin/sh\n: > \"$1.opened\"\n";
    let opener = programs.join("xdg-open");
    fs::write(&opener, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&opener, mode).unwrap();
    assert_eq!(import(&programs, "second").status.code(), Some(0));
    let opened = folder.path().join("second/report.html.opened");
    // The browser is not waited for.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !opened.exists() {
        assert!(std::time::Instant::now() < deadline, "nothing was opened");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn exports_have_a_default_and_are_compressed_by_name() {
    use std::io::Read as _;
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    works(folder.path(), &["import", "decode.json", "-o", "run"]);
    let perfetto = works(folder.path(), &["export", "run", "--to", "perfetto"]);
    assert_eq!(perfetto, "run/trace.pftrace\n");
    assert_eq!(works(folder.path(), &["export", "run"]), perfetto);
    for format in ["chrome", "flat-json"] {
        let export = |name: &str| {
            works(
                folder.path(),
                &["export", "run", "--to", format, "-o", name],
            );
            fs::read(folder.path().join(name)).unwrap()
        };
        let plain = export("plain.json");
        let packed = export("packed.json.gz");
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
        decoder.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{format}");
    }
    let sqlite = ["export", "run", "--to", "sqlite", "-o", "t.sqlite.gz"];
    let said = refused(folder.path(), &sqlite);
    assert!(said.contains("-o t.sqlite"), "{said}");
    assert!(!folder.path().join("t.sqlite.gz").exists());
}

/// What a command prints on a terminal so many columns wide.
fn on_terminal(folder: &Path, columns: u32, line: &str) -> String {
    let program = env!("CARGO_BIN_EXE_llmprof");
    let output = Command::new("script")
        .args([
            "-qefc",
            &format!("stty cols {columns}; exec {program} {line}"),
            "/dev/null",
        ])
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    said
}

#[test]
fn a_terminal_gets_lines_of_its_width_and_a_bold_headline() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    let piped = works(folder.path(), &["import", "decode.json", "-o", "piped"]);
    let headline = piped.lines().next().unwrap();
    for columns in [40, 80] {
        let said = on_terminal(
            folder.path(),
            columns,
            &format!("import decode.json -o run{columns}"),
        );
        let (before, rest) = said.split_once("\u{1b}[1m").unwrap();
        let (bold, rest) = rest.split_once("\u{1b}[0m").unwrap();
        assert_eq!(bold.replace('\n', " "), headline);
        for line in before.lines().chain(bold.lines()).chain(rest.lines()) {
            assert!(
                line.chars().count() <= columns as usize,
                "{columns}: {line}"
            );
        }
    }
    let narrow = on_terminal(folder.path(), 40, "hardware list");
    let table = works(folder.path(), &["hardware", "list"]);
    let headers = table.lines().next().unwrap().split("  ");
    for header in headers.map(str::trim).filter(|header| !header.is_empty()) {
        assert!(
            narrow.contains(&format!("{header}: ")),
            "{header}: {narrow}"
        );
    }
    for line in narrow.lines() {
        assert!(line.trim_end().chars().count() <= 40, "{line}");
    }
}

#[test]
fn a_timeline_is_exported_to_a_stream() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    works(folder.path(), &["import", "decode.json", "-o", "run"]);
    for (kind, name) in [("chrome", "trace.json"), ("pftrace", "trace.pftrace")] {
        let export = ["export", "run", "--to", kind, "-o"];
        let to = |target| common::llmprof(folder.path(), &[&export[..], &[target]].concat());
        let stream = to("-");
        assert_eq!(stream.status.code(), Some(0), "{kind}");
        to(name);
        let file = fs::read(folder.path().join(name)).unwrap();
        assert!(stream.stdout == file, "{kind}");
    }
    for kind in ["sqlite", "parquet"] {
        let said = common::refused(folder.path(), &["export", "run", "--to", kind, "-o", "-"]);
        assert!(said.contains("cannot be written to a stream"), "{said}");
    }
    assert!(!folder.path().join("-").exists());
}

#[test]
fn files_that_are_no_profiles_name_the_command_that_reads_them() {
    let folder = folder();
    fs::write(folder.path().join("decode.json"), small_trace()).unwrap();
    let said = refused(folder.path(), &["import", "decode.json", "./decode.json"]);
    assert!(said.contains("decode.json is given twice"), "{said}");
    fs::write(folder.path().join("top-kernels.yaml"), "kernels: []\n").unwrap();
    let said = refused(folder.path(), &["import", "top-kernels.yaml"]);
    assert!(said.contains("llmprof kernels profile"), "{said}");
}
