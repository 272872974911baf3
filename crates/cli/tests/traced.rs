//! Imported traces and runs that are reported again: the same files, the same numbers, clear refusals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{json, refused, works};

use llmprof_record::import::{Limits, Source};
use llmprof_units::{Nanos, Percent};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// Every file that `report` writes, with its contents.
fn rendered(run: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in [run.to_path_buf(), run.join("plots")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let written = path
                .extension()
                .is_some_and(|kind| ["md", "html", "csv", "svg"].iter().any(|one| kind == *one));
            if written {
                files.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// The parts of every waterfall are the same in `analysis.json`, `metrics.json`, `report.md` and `report.html`.
fn agree(run: &Path) {
    let (analysis, metrics) = (
        json(&run.join("analysis.json")),
        json(&run.join("metrics.json")),
    );
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    let phases = analysis["phases"].as_array().unwrap();
    assert!(!phases.is_empty());
    for (phase, same) in phases.iter().zip(metrics["phases"].as_array().unwrap()) {
        let waterfall = &phase["waterfall"];
        assert_eq!(waterfall, &same["waterfall"]);
        // Without a roofline time, which a run beside other load may not have, matched ops are one part.
        let is_bounded = !waterfall["roofline_ns"].is_null();
        let mut sum = if is_bounded {
            0
        } else {
            waterfall["matched_ns"].as_i64().unwrap()
        };
        for part in [
            "roofline_ns",
            "inefficiency_ns",
            "extra_ns",
            "copies_ns",
            "communication_ns",
            "unattributed_ns",
            "idle_ns",
            "overlap_ns",
        ] {
            if !is_bounded && ["roofline_ns", "inefficiency_ns"].contains(&part) {
                continue;
            }
            let time = waterfall[part].as_i64().unwrap();
            sum += if part == "overlap_ns" { -time } else { time };
            if time != 0 {
                let text = Nanos(time).to_string();
                assert!(report.contains(&text), "{part} {text} in report.md");
                assert!(page.contains(&text), "{part} {text} in report.html");
            }
        }
        let wall = waterfall["wall_ns"].as_i64().unwrap();
        assert_eq!(sum, wall);
        let text = Nanos(wall).to_string();
        assert!(report.contains(&text) && page.contains(&text), "{text}");
    }
}

/// Two runs that begin in one second do not meet in one directory.
/// Spreadsheets and pandas read a column whose name has a unit as numbers: no cell holds text such as `1.5 ms`.
fn columns_with_units_are_numbers(run: &Path) -> usize {
    const UNITS: [&str; 8] = [
        "_ns", "_us", "_ms", "_bytes", "_pct", "_per_s", "calls", "flops",
    ];
    let mut cells = 0;
    for entry in fs::read_dir(run).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "csv") {
            continue;
        }
        let mut table = csv::Reader::from_path(&path).unwrap();
        let headers = table.headers().unwrap().clone();
        for record in table.records() {
            for (name, cell) in headers.iter().zip(&record.unwrap()) {
                let is_quantity = UNITS.iter().any(|unit| name.ends_with(unit));
                if is_quantity && !cell.is_empty() {
                    assert!(
                        cell.parse::<f64>().is_ok(),
                        "{}: {name} is `{cell}`",
                        path.display()
                    );
                    cells += 1;
                }
            }
        }
    }
    cells
}

#[test]
fn tables_of_an_import_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/torch_shapes.json.gz");
    let trace = trace.to_str().unwrap();
    works(
        folder.path(),
        &["import", trace, "model=qwen2_5_0_5b", "-o", "run"],
    );
    assert!(columns_with_units_are_numbers(&folder.path().join("run")) > 1000);
}

#[test]
fn imports_without_a_directory_have_one_each() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("cpu/torch_modules.json.gz");
    for count in 1..4 {
        works(folder.path(), &["import", trace.to_str().unwrap()]);
        let runs = fs::read_dir(folder.path().join("runs/import/torch_modules"));
        assert_eq!(runs.unwrap().count(), count);
    }
}

/// Nobody saw what was asked of a program that a trace is of: the default workload is no fact about it.
#[test]
fn a_trace_does_not_say_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/torch_full.json.gz");
    let trace = trace.to_str().unwrap();
    let args = ["import", trace, "-o", "out", "model=qwen2_5_0_5b"];
    works(folder.path(), &args);
    let report = fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(report.contains("Roofline times from the operator shapes of 3 forward passes.\n"));
    assert!(!report.contains("new token"), "{report}");
}

/// What affects numbers stands above what does not.
#[test]
fn issues_of_a_report_begin_with_the_worst() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("cpu/torch_modules.json.gz");
    works(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "out"],
    );
    let report = fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    let issues: Vec<&str> = report
        .lines()
        .filter_map(|line| line.strip_prefix("- ")?.split_once(": "))
        .map(|(severity, _)| severity)
        .filter(|severity| ["info", "warning"].contains(severity))
        .collect();
    assert_eq!(issues, ["warning", "info"]);
}

/// A device trace with its model: the golden waterfall, and every file that a native run has.
#[test]
fn a_device_trace_has_the_files_of_a_run_and_their_numbers_agree() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    let text = works(
        folder.path(),
        &[
            "import",
            trace.to_str().unwrap(),
            "-o",
            "run",
            "model=qwen2_5_0_5b",
            "workload.prompt_tokens=128",
            "infer.max_new_tokens=5",
        ],
    );
    assert!(
        text.contains("decode 129.3 ms (4 × 32.32 ms): host-bound"),
        "{text}"
    );
    let run = folder.path().join("run");
    for name in [
        "report.md",
        "report.html",
        "stakeholder_summary.md",
        "operators.md",
        "operators.csv",
        "kernels.md",
        "kernels.csv",
        "metrics.json",
        "trace.llmprof",
        "plots/roofline.svg",
        "plots/timeline.svg",
        "plots/waterfall_decode.svg",
    ] {
        assert!(run.join(name).is_file(), "{name}");
    }
    agree(&run);
    let analysis = json(&run.join("analysis.json"));
    let decode = &analysis["phases"][1];
    assert_eq!(decode["waterfall"]["wall_ns"], 129_277_747);
    assert_eq!(decode["waterfall"]["roofline_ns"], 825_000);
    assert_eq!(analysis["device"], "h200", "the driver's name tells");
    // Each limit stands with its own share of the wall.
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    let wall = decode["waterfall"]["wall_ns"].as_i64().unwrap();
    for limit in ["roofline_ns", "whole_ns"] {
        let time = decode["roofline"][limit].as_i64().unwrap();
        let share = Percent(time as f64 / wall as f64);
        let cell = format!("| {} ({share}) |", Nanos(time));
        assert!(report.contains(&cell), "{limit}: {cell}");
    }

    // Once more from the analysis, and once more from the trace: nothing changes.
    let before = rendered(&run);
    let page = works(folder.path(), &["report", "run"]);
    assert!(page.trim().ends_with("report.html"), "{page}");
    assert!(before == rendered(&run), "report wrote something else");
    let analysis = fs::read(run.join("analysis.json")).unwrap();
    works(folder.path(), &["analyze", "run"]);
    assert!(
        analysis == fs::read(run.join("analysis.json")).unwrap(),
        "analyze found something else"
    );
    assert!(before == rendered(&run), "analyze wrote something else");
}

/// A trace without ranges: its steps by the pattern of launches are the same wherever they are reported.
/// Prefills of 7B that only the pattern of launches shows, recorded in slices: inside of one range that holds all of them, and
/// inside of none. FLOPs of a prefill are 2 × 6.53 × 10⁹ parameters of layers × tokens, and up to a sixth of that for
/// attention.
#[test]
fn prefills_that_only_their_launches_show_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tokens, step_s) in [
        ("prefill_slices", 8192_u32, 0.244),
        ("streams_slices", 4096, 0.119),
    ] {
        let trace = fixture(&format!("h200/cupti/{name}.wire.gz"));
        let tokens_asked = format!("workload.prompt_tokens={tokens}");
        let args = [
            "import",
            trace.to_str().unwrap(),
            "--device",
            "h200",
            "model=qwen2_5_7b",
            &tokens_asked,
            "infer.max_new_tokens=1",
            "-o",
            name,
        ];
        let said = works(folder.path(), &args);
        let analysis = json(&folder.path().join(name).join("analysis.json"));
        let phases = analysis["phases"].as_array().unwrap();
        assert_eq!(phases.len(), 1, "{said}");
        assert_eq!(phases[0]["phase"], "prefill");
        let mfu = phases[0]["utilization"]["mfu"].as_f64().unwrap();
        let least = 2.0 * 6.53e9 * f64::from(tokens) / step_s / 989.4e12;
        assert!(
            (0.97..1.17).contains(&(mfu / least)),
            "{name}: {mfu}, by hand {least}"
        );
        let part = |name: &str| phases[0]["waterfall"][name].as_f64().unwrap();
        let (extra, wall) = (part("extra_ns"), part("wall_ns"));
        assert!(extra < 0.2 * wall, "{name}: {extra} of {wall}");
    }
}

#[test]
fn steps_by_the_pattern_of_launches_are_reported_alike_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    // Shapes would show the steps: without them, launches do.
    let source = Source::open(&fixture("h200/torch_shapes.json.gz"), &Limits::default()).unwrap();
    let trace = String::from_utf8(source.bytes().to_vec()).unwrap();
    let trace = trace.replace("\"Input Dims\"", "\"Other Dims\"");
    fs::write(folder.path().join("trace.json"), trace).unwrap();
    let arguments = ["import", "trace.json", "-o", "run"];
    let text = works(folder.path(), &arguments);
    let run = folder.path().join("run");
    let (analysis, metrics) = (
        json(&run.join("analysis.json")),
        json(&run.join("metrics.json")),
    );
    let steps = &analysis["timeline"]["steps"];
    assert_eq!(steps["unlike"], metrics["steps"]["unlike"]);
    let [pattern] = &steps["patterns"].as_array().unwrap()[..] else {
        panic!("{steps}");
    };
    let same = &metrics["steps"]["patterns"][0];
    for (name, value) in same.as_object().unwrap() {
        assert_eq!(&pattern[name], value, "{name}");
    }
    assert_eq!(
        (&pattern["steps"], &pattern["kernels"]),
        (&8.into(), &1006.into())
    );
    let time =
        |value: &serde_json::Value| Nanos(value.as_f64().unwrap().round() as i64).to_string();
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains("\n## Repetitions\n"), "{report}");
    for value in [
        &pattern["wall_ns"]["p50"],
        &pattern["kernel_time_ns"]["mean"],
    ] {
        let reported = time(value);
        for (place, contents) in [
            ("stdout", &text),
            ("report.md", &report),
            ("report.html", &page),
        ] {
            assert!(contents.contains(&reported), "{reported} in {place}");
        }
    }
    assert!(text.contains("8 × 1006 kernels"), "{text}");
    assert!(
        run.join("plots/steps_of_pattern_1_1006_kernels.svg")
            .is_file()
    );
}

/// torch on a CPU, by module; the model is described by a config file.
#[test]
fn a_trace_of_torch_on_a_cpu_is_as_complete_as_a_native_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "hidden_size": 256, "intermediate_size": 512, "max_position_embeddings": 256, "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "tie_word_embeddings": true, "vocab_size": 1024,
        "torch_dtype": "float32"}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let trace = fixture("cpu/torch_modules.json.gz");
    works(
        folder.path(),
        &[
            "import",
            trace.to_str().unwrap(),
            "-o",
            "run",
            "--config",
            "config.json",
            "--device",
            "xeon_8480",
            "workload.prompt_tokens=16",
            "infer.max_new_tokens=5",
        ],
    );
    let run = folder.path().join("run");
    agree(&run);
    let ops = fs::read_to_string(run.join("ops.csv")).unwrap();
    assert!(ops.starts_with("key,cuda_time_total_us,"), "{ops}");
    assert!(ops.contains("aten::addmm,"), "{ops}");
    assert!(run.join("plots/steps_of_decode.svg").is_file());
    let analysis = json(&run.join("analysis.json"));
    for phase in analysis["phases"].as_array().unwrap() {
        assert!(phase["missing"].as_array().unwrap().is_empty());
        assert!(phase["utilization"]["mfu"].as_f64().unwrap() > 0.0);
        let paths = phase["by_path"].to_string();
        assert!(paths.contains("model.layers.*.self_attn.q_proj"), "{paths}");
    }
}

/// A run of the native engine is analyzed, reported and exported again like any other.
#[test]
fn a_native_run_can_be_analyzed_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false}"#;
    fs::write(folder.path().join("tiny.json"), config).unwrap();
    works(
        folder.path(),
        &[
            "run",
            "model=local",
            "model.config=tiny.json",
            "model.dtype=f32",
            "workload.prompt_tokens=8",
            "infer.max_new_tokens=4",
            "runtime.repeats=2",
            "hardware.spec=xeon_8480",
            "hydra.run.dir=run",
        ],
    );
    let run = folder.path().join("run");
    agree(&run);
    let analysis = fs::read(run.join("analysis.json")).unwrap();
    let before = rendered(&run);
    works(folder.path(), &["analyze", "run"]);
    assert_eq!(
        String::from_utf8(analysis).unwrap(),
        fs::read_to_string(run.join("analysis.json")).unwrap()
    );
    works(folder.path(), &["report", "run"]);
    for ((path, old), (_, new)) in before.iter().zip(&rendered(&run)) {
        assert!(old == new, "{} differs", path.display());
    }

    works(
        folder.path(),
        &["export", "run", "--to", "chrome", "-o", "t.json"],
    );
    let trace = json(&folder.path().join("t.json"));
    let names = trace["traceEvents"].to_string();
    assert!(names.contains("model.layers.1.mlp.down_proj"));
    works(
        folder.path(),
        &["export", "run", "--to", "sqlite", "-o", "t.sqlite"],
    );
    assert!(folder.path().join("t.sqlite").is_file());

    // Another device changes rooflines, nothing that was measured.
    works(folder.path(), &["analyze", "run", "--device", "h200"]);
    let other = json(&run.join("analysis.json"));
    assert_eq!(other["device"], "h200");
    agree(&run);
}

#[test]
fn without_a_model_an_import_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    let trace = trace.to_str().unwrap();
    let output = common::llmprof(folder.path(), &["import", trace, "-o", "run"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("[run.no_model] (`llmprof import FILE model=NAME"),
        "{text}"
    );
    let report = fs::read_to_string(folder.path().join("run/report.md")).unwrap();
    assert!(report.contains("no model named"), "{report}");
    assert!(report.contains("129.3 ms"), "{report}");

    let message = refused(
        folder.path(),
        &["import", trace, "-o", "other", "workload.prompt_tokens=128"],
    );
    assert!(message.contains("name no model"), "{message}");
    assert!(!folder.path().join("other").exists());
    let message = refused(
        folder.path(),
        &["import", trace, "-o", "other", "model=nothing_like_it"],
    );
    assert!(message.contains("nothing_like_it"), "{message}");
}

#[test]
fn runs_without_an_analysis_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = refused(folder.path(), &["report", "nowhere"]);
    assert!(message.contains("nowhere"), "{message}");

    let trace = fixture("cpu/torch_modules.json.gz");
    works(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "run"],
    );
    let file = folder.path().join("run/analysis.json");
    fs::write(&file, "{\"schema_version\": 99}").unwrap();
    let message = refused(folder.path(), &["report", "run"]);
    assert!(
        message.contains("schema version 99") && message.contains("llmprof analyze run"),
        "{message}"
    );
    fs::write(&file, "{\"totals\": {}}").unwrap();
    let message = refused(folder.path(), &["report", "run"]);
    assert!(message.contains("not that of a run"), "{message}");
    fs::write(&file, "{").unwrap();
    let message = refused(folder.path(), &["report", "run"]);
    assert!(message.contains("cannot be understood"), "{message}");
    fs::remove_file(&file).unwrap();
    let message = refused(folder.path(), &["report", "run"]);
    assert!(message.contains("no analysis to report"), "{message}");

    // The trace is all that is needed to make it anew; broken, it is named.
    works(folder.path(), &["analyze", "run"]);
    works(folder.path(), &["report", "run"]);
    fs::write(folder.path().join("run/trace.llmprof"), "not a trace").unwrap();
    let message = refused(folder.path(), &["analyze", "run"]);
    assert!(message.contains("trace.llmprof"), "{message}");
}

#[test]
fn a_machine_without_an_opener_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("cpu/torch_modules.json.gz");
    works(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "run"],
    );
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .args(["report", "run", "--open"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("nothing here opens pages"), "{errors}");
}

/// The line of events adds up, and a trace of the host alone says nothing of a device that it does not have.
#[test]
fn the_events_of_an_import_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let import = |name: &str, run: &str| {
        let trace = fixture(name);
        let args = ["import", trace.to_str().unwrap(), "-o", run];
        let said = works(folder.path(), &args);
        let report = fs::read_to_string(folder.path().join(run).join("report.md")).unwrap();
        (said, report)
    };
    let sums_up = |report: &str| {
        let mut lines = report.lines();
        let line = lines.find(|line| line.contains(" events in ")).unwrap();
        let number = |part: &str| {
            part.trim_start_matches("- ")
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        };
        // The line of the timeline itself has another shape.
        let (events, parts) = lines
            .find(|line| line.starts_with("- ") && line.contains(" events in "))
            .unwrap_or(line)
            .split_once(':')
            .unwrap();
        let parts = parts.split(',').filter_map(number);
        assert_eq!(number(events), Some(parts.sum()), "{line}");
    };
    let (said, report) = import("cpu/torch_modules.json.gz", "host");
    sums_up(&report);
    assert!(said.contains("no GPU events"), "{said}");
    assert!(!said.contains("kernels"), "{said}");
    let operators = fs::read_to_string(folder.path().join("host/operators.md")).unwrap();
    assert!(!operators.contains("GPU"), "{operators}");
    let page = fs::read_to_string(folder.path().join("host/report.html")).unwrap();
    assert!(page.contains("Host, self") && !page.contains("GPU, self"));
    let (said, report) = import("h200/torch_shapes.json.gz", "device");
    sums_up(&report);
    assert!(said.starts_with("GPU busy 5.7 %"), "{said}");
    assert!(report.contains("100.0 % of GPU time is attributed to PyTorch ops"));
    // Busy and idle time are of what slices show, and make it up: 58.7 ms + 1.82 s.
    let (said, report) = import("h200/cupti/slices.wire.gz", "slices");
    sums_up(&report);
    assert!(
        said.starts_with("GPU busy 3.1 % of 1.879 s sampled"),
        "{said}"
    );
    assert!(report.contains("busy 58.7 ms"), "{report}");
    assert!(report.contains("No PyTorch ops were recorded"));
}
