//! Profiles without a timeline: counters, sums and memory have reports too, alone and beside a timeline.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use llmprof_units::{Bytes, Nanos};

use common::{json, refused, works};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200")
        .join(name)
}

/// Imports files, and reads `report.md` and `report.html`. Made again, by `report` and by `analyze`, they are the same.
fn reports(folder: &Path, files: &[&Path]) -> [String; 2] {
    let mut args = vec!["import"];
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    args.extend(["-o", "run"]);
    works(folder, &args);
    let read = || {
        ["run/report.md", "run/report.html"]
            .map(|name| fs::read_to_string(folder.join(name)).unwrap())
    };
    let first = read();
    for again in ["report", "analyze"] {
        for name in ["run/report.md", "run/report.html"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
        works(folder, &[again, "run"]);
        assert!(read() == first, "{again}");
    }
    // Pages keep a number and its unit on one line.
    first.map(|text| text.replace('\u{a0}', " "))
}

#[test]
fn a_snapshot_of_memory_has_a_report_with_its_curve() {
    let folder = tempfile::tempdir().unwrap();
    let [text, page] = reports(folder.path(), &[&fixture("memory_snapshot.pickle.gz")]);
    let counts = json(&fixture("memory_snapshot.counts.json"));
    let bytes = |when: &str, what: &str| Bytes(counts[when][what].as_u64().unwrap());
    // In the unit of what is reserved.
    let allocated = |when: &str| bytes(when, "allocated_bytes").0 as f64 / f64::from(1 << 30);
    let end = format!(
        "at the end {:.3} GiB allocated of {} reserved",
        allocated("now"),
        bytes("now", "reserved_bytes")
    );
    let peak = format!("peak {:.3} GiB allocated", allocated("peak"));
    for report in [&text, &page] {
        assert!(report.contains(&end), "{end}");
        assert!(report.contains(&peak), "{peak}");
        assert!(report.contains("Who held memory of GPU 0 at the peak"));
    }
    assert!(page.contains("<figure class=\"series\" id=\"telemetry_memory_of_device_0\">"));
    let plot = folder
        .path()
        .join("run/plots/telemetry_memory_of_device_0.svg");
    assert!(fs::read_to_string(plot).unwrap().contains("polyline"));
}

#[test]
fn counters_have_a_report_with_their_launches_and_sections() {
    let folder = tempfile::tempdir().unwrap();
    let [text, page] = reports(folder.path(), &[&fixture("ncu/decode_details.csv.gz")]);
    for report in [&text, &page] {
        assert!(report.contains("40 launches with counters, 121.8 µs together"));
        // Of a kernel with one block the grid is the fault before the pipelines that it leaves empty.
        let at = |rule: &str| report.find(rule).unwrap();
        assert!(at("LaunchConfiguration") < at("HighPipeUtilization"));
    }
    assert!(page.contains("Readings by section") && page.contains("Achieved Occupancy"));
    assert!(!text.contains("Readings by section"), "too many for a text");
    // The raw page has no sections, but more to compute from.
    let raw = tempfile::tempdir().unwrap();
    let [_, page] = reports(raw.path(), &[&fixture("ncu/decode_raw.csv.gz")]);
    assert!(page.contains(">DRAM traffic<") && !page.contains("Readings by section"));
}

#[test]
fn sums_have_a_report_and_their_times_are_those_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = fixture("nsys/stats_cuda_gpu_kern_sum.csv");
    let table = fs::read_to_string(&file).unwrap();
    // Time (%), Total Time (ns), Instances, …, Name
    let column =
        |line: &str, index: usize| -> i64 { line.split(',').nth(index).unwrap().parse().unwrap() };
    let rows: Vec<&str> = table
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .collect();
    let total: i64 = rows.iter().map(|line| column(line, 1)).sum();
    let calls: i64 = rows.iter().map(|line| column(line, 2)).sum();
    let said = format!(
        "{} kernels in {calls} calls, {} in all",
        rows.len(),
        Nanos(total)
    );
    for report in reports(folder.path(), &[&file]) {
        assert!(report.contains(&said), "{said}");
        for line in &rows[..5] {
            assert!(report.contains(&Nanos(column(line, 1)).to_string()));
        }
    }
}

/// Beside a timeline they are sections of its report.
#[test]
fn counters_and_memory_stand_in_the_report_of_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        fixture("torch_full.json.gz"),
        fixture("ncu/decode_raw.csv.gz"),
        fixture("memory_snapshot.pickle.gz"),
    ];
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    for report in reports(folder.path(), &files) {
        for part in [
            "Where the time went",
            "Launches with counters",
            "Mean on timeline",
            "Allocator memory",
        ] {
            assert!(report.contains(part), "{part}");
        }
    }
}

#[test]
fn a_run_whose_counters_are_broken_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    reports(folder.path(), &[&fixture("ncu/decode_raw.csv.gz")]);
    fs::write(folder.path().join("run/counters.json"), "{").unwrap();
    let message = refused(folder.path(), &["report", "run"]);
    assert!(message.contains("counters.json"), "{message}");
}

/// Telemetry, statistics and logs that other tools left are reports of their own.
#[test]
fn telemetry_statistics_and_logs_have_reports() {
    for (file, words) in [
        (
            "nvml.csv",
            &["GPU 0, 123 samples", "794.4 J (derived)", "GPU telemetry"][..],
        ),
        ("dmon.txt", &["GPU 0, 3 samples", "gpu_telemetry.no_times"]),
        (
            "nvidia_smi_q.txt",
            &["NVIDIA H200", "86.72 W", "gpu_telemetry.one_moment"],
        ),
        (
            "memory_stats.json",
            &["peak 1.182 GiB allocated", "torch_stats.no_history"],
        ),
        (
            "cublas/cublaslt.log.gz",
            &[
                "340 GEMMs of 14 shapes",
                "GEMMs by shape",
                "cublas_log.no_times",
            ],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let [text, page] = reports(folder.path(), &[&fixture(file)]);
        for word in words {
            assert!(
                text.contains(word) || text.contains(&word.replace('_', "\\_")),
                "{file}: {word}\n{text}"
            );
        }
        assert!(page.contains("<html"), "{file}");
    }
    // Beside a timeline, samples are one more section.
    let folder = tempfile::tempdir().unwrap();
    let said = refused(
        folder.path(),
        &[
            "import",
            fixture("nvml.csv").to_str().unwrap(),
            fixture("dmon.txt").to_str().unwrap(),
        ],
    );
    assert!(said.contains("a second set of telemetry"), "{said}");
}

/// A timeline and the logs of the same process: shapes with times, also of a run that is analyzed again.
#[test]
fn logs_of_cublas_beside_a_timeline_have_times() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["run.sqlite.gz", "cublas.log.gz", "cublaslt.log.gz"];
    let files = files.map(|file| fixture("stage2").join(file));
    let [text, page] = reports(folder.path(), &files.each_ref().map(PathBuf::as_path));
    for word in [
        "cuBLAS ran 680 GEMMs of 13 shapes",
        "680 of 680 GEMM kernels are joined in launch order (100.0 % of their time)",
        "151936 × 1 × 896",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(page.contains("GEMMs with their shapes"));
    assert!(!text.contains("no_times"), "{text}");
    let csv = folder.path().join("run/gemms.csv");
    let first = fs::read_to_string(&csv).unwrap();
    assert_eq!(first.lines().count(), 681);
    let head = first.lines().find(|line| line.contains(",151936,1,896,"));
    let cells: Vec<&str> = head.unwrap().split(',').collect();
    let number = |place: usize| cells[place].parse::<f64>().unwrap();
    let rate = 2.0 * 151_936.0 * 896.0 / (number(2) / 1e9);
    assert!((number(12) / rate - 1.0).abs() < 1e-9, "{cells:?}");
    fs::remove_file(&csv).unwrap();
    works(folder.path(), &["analyze", "run"]);
    assert_eq!(fs::read_to_string(&csv).unwrap(), first);
}

/// A folder of a project holds more than profiles: what is none is left out, and the report says so.
#[test]
fn files_of_a_folder_that_are_not_profiles_are_left_out_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let trace = fixture("../cpu/torch_modules.json.gz");
    fs::copy(&trace, traces.join("trace.json.gz")).unwrap();
    let database = rusqlite::Connection::open(traces.join("experiments.db")).unwrap();
    database
        .execute_batch("create table experiments (id integer)")
        .unwrap();
    drop(database);
    // Chrome's format, with nothing in it.
    fs::write(traces.join("metrics.json"), r#"{"traceEvents": []}"#).unwrap();
    fs::write(traces.join("config.json"), r#"{"hidden_size": 64}"#).unwrap();
    works(folder.path(), &["import", "traces", "-o", "run"]);
    let manifest = json(&folder.path().join("run/analysis.json"));
    let issues = manifest["issues"].as_array().unwrap().iter();
    let left_out: Vec<String> = issues
        .filter(|issue| issue["code"] == "import.left_out")
        .map(|issue| issue["values"].to_string())
        .collect();
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    for name in ["experiments.db", "metrics.json", "config.json"] {
        let of_file = left_out.iter().filter(|values| values.contains(name));
        assert_eq!(of_file.count(), 1, "{name} in {left_out:?}");
    }
    // A file that is named is an error, and so is a folder that has nothing else.
    let named = refused(folder.path(), &["import", "traces/experiments.db"]);
    assert!(named.contains("another kind of SQLite file"), "{named}");
    fs::remove_file(traces.join("trace.json.gz")).unwrap();
    let nothing = refused(folder.path(), &["import", "traces"]);
    assert!(nothing.contains("experiments.db"), "{nothing}");
}
