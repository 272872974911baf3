//! The kernel workflow as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{fs, path::PathBuf};

use common::{refused, works};
use serde_json::Value;

fn printed(folder: &std::path::Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&works(folder, arguments)).unwrap()
}

fn fixture(name: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name);
    path.to_string_lossy().into_owned()
}

/// Everything below the comments is what the published extraction has.
#[test]
fn top_kernels_are_those_of_the_published_list() {
    let folder = tempfile::tempdir().unwrap();
    let csv = fixture("ancestor/nsys/all-stage.csv");
    works(
        folder.path(),
        &["kernels", "top", &csv, "--topk", "20", "-o", "top.yaml"],
    );
    let list = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let actual = list(fs::read_to_string(folder.path().join("top.yaml")).unwrap());
    let expected = list(fs::read_to_string(fixture("ancestor/nsys/top-kernels.yaml")).unwrap());
    assert_eq!(actual, expected);
}

#[test]
fn coverage_takes_as_many_kernels_as_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let csv = fixture("ancestor/nsys/decode.csv");
    let text = works(
        folder.path(),
        &["kernels", "top", &csv, "--coverage", "45%", "-o", "-"],
    );
    // 34.4 and 14.8 % by the file.
    assert_eq!(text.matches("name:").count(), 2, "{text}");
    let text = works(folder.path(), &["kernels", "top", &csv, "--topk", "3"]);
    assert!(text.starts_with("#  Phase  Share"), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
    let said = refused(folder.path(), &["kernels", "top", &csv, "--topk", "0"]);
    assert!(said.contains("leaves no kernel"), "{said}");
}

/// A first prefill and decode that load kernels are counted in neither the report nor this table.
#[test]
fn first_uses_are_left_out_as_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    let report = works(folder.path(), &["import", &trace, "-o", "run"]);
    let refusal = refused(folder.path(), &["kernels", "analyze", "run"]);
    assert!(refusal.contains("run has no counters"), "{refusal}");
    assert!(refusal.contains("llmprof kernels profile"), "{refusal}");
    let output = common::llmprof(folder.path(), &["kernels", "top", "run"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the first decode took longer"), "{said}");
    // As often and as large a part as the report says.
    let table = String::from_utf8(output.stdout).unwrap();
    let kernel = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT";
    assert!(
        report.contains(&format!("`{kernel}` at least 8.5 % (192 ×)")),
        "{report}"
    );
    let first: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        (&first[1..4], &first[6..]),
        (&["decode", "8.5", "%"][..], &["192", kernel][..]),
        "{table}"
    );
}

/// What is counted is what is shown: kernels by name, or kernels by phase.
#[test]
fn shares_are_those_of_the_rows_that_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("h200/nsys/qwen05.sqlite.gz");
    works(folder.path(), &["import", &trace, "-o", "run"]);
    let said = |more: &[&str]| {
        let words = [&["kernels", "top", "run", "--topk", "5"][..], more].concat();
        let output = common::llmprof(folder.path(), &words);
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        said(&[]),
        "5 of 62 rows take 29.2 % of 10.89 ms GPU time; a row is a kernel in one phase, and there are 42 kernels"
    );
    assert_eq!(
        said(&["--phase", "decode"]),
        "5 of 31 kernels take 38.7 % of 8.209 ms GPU time"
    );
    assert_eq!(
        said(&["-o", "-"]),
        "5 of 42 kernels take 34.3 % of 10.89 ms GPU time"
    );
}

#[test]
fn counters_become_tables_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let ncu = fixture("ancestor/ncu");
    let notes = "- raw_name: 'std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, (bool)0, (bool)1, (bool)1, (bool)0, (int)7, (bool)0, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<const __nv_bfloat16>, cublasGemvTensorStridedBatched<const __nv_bfloat16>, cublasGemvTensorStridedBatched<__nv_bfloat16>, float>>(T13)'\n  friendly_name: GEMV of one token\n  source_lib: cuBLAS\n  data_shape: {generic: [[(M, K), (K,), '->', (M,)]], fixed: null}\n  description: Rows of a weight times one vector.\n";
    fs::write(folder.path().join("kernel-info.yaml"), notes).unwrap();
    let arguments = [
        "kernels",
        "analyze",
        &ncu,
        "-o",
        "out",
        "--device",
        "rtx_5090",
        "--kernel-desc",
        "kernel-info.yaml",
    ];
    let said = works(folder.path(), &arguments);
    assert!(said.contains("under-filled grid: 5"), "{said}");
    let file = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let header = fs::read_to_string(fixture("ancestor/ncu/metrics_summary.csv")).unwrap();
    let summary = file("metrics_summary.csv");
    assert_eq!(summary.lines().next(), header.lines().next());
    assert_eq!(summary.lines().count(), 21);
    assert!(
        file("classification_summary.csv")
            .contains("kernel_0010_adbaf834f7ef147e0ba0fa823d1cf461,l2_bound")
    );
    assert!(file("all_metrics_long.csv").contains("dram__bytes_read.sum,3350000,byte"));
    assert!(file("report.md").contains("GEMV of one token"));
    // No unit of the two longest kernels is near its limit: occupancy and the tail are named, not fewer FLOPs alone.
    let report = file("report.md");
    let tried: Vec<&str> = report
        .lines()
        .filter(|line| line.starts_with("- Try: "))
        .collect();
    for line in &tried[..2] {
        assert!(
            line.contains("occupancy few warps hide latency: fewer"),
            "{line}"
        );
    }
    assert!(tried[0].contains("The last wave leaves"), "{}", tried[0]);
    assert!(
        !report.contains("only doing less of both helps"),
        "{report}"
    );
    assert!(file("report.md").contains("Shapes: generic (M, K), (K,) → (M,)."));
    assert!(summary.contains(",GEMV of one token,"), "{summary}");
    let analysis = printed(folder.path(), &[&arguments[..], &["--json"]].concat());
    let noted: Vec<&Value> = analysis["launches"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|launch| launch.get("note").is_some())
        .collect();
    assert_eq!(noted.len(), 1);
    assert_eq!(noted[0]["note"]["source_lib"], "cuBLAS");
    assert!(
        folder
            .path()
            .join("out/plots/kernel_roofline.svg")
            .is_file()
    );
    assert!(
        folder
            .path()
            .join("out/plots/histogram_achieved_occupancy_pct.svg")
            .is_file()
    );
}

/// The pages do not name their device, but show which one it is.
#[test]
fn the_device_of_counters_is_inferred() {
    let folder = tempfile::tempdir().unwrap();
    let ncu = fixture("ancestor/ncu");
    let said = works(folder.path(), &["kernels", "analyze", &ncu, "-o", "out"]);
    assert!(said.contains("datasheet peaks of rtx_5090"), "{said}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    let table = page.find("id=\"all_kernels\"").unwrap();
    assert!(table < page.find("id=\"kernel_classes\"").unwrap());
    assert!(page.contains("<h1>Kernels of ncu on rtx_5090</h1>"));
    // Rows of the table and points of the roofline link to the entries below.
    for rank in 1..=20 {
        assert!(page.contains(&format!("<td><a href=\"#kernel-{rank}\">")));
        assert!(page.contains(&format!("<h3 id=\"kernel-{rank}\">")));
    }
    assert!(page.contains("<a href=\"#kernel-1\"><path"));
    // The counters do not state the peak of tensor cores: the datasheet has it.
    let opens = "name=\"basis-kernel_roofline\" class=\"basis\" value=\"datasheet\" checked>";
    assert!(page.contains(opens));
    let plots = folder.path().join("out/plots");
    assert!(plots.join("kernel_roofline_normalized.svg").is_file());
}

/// A folder of packed reports once was "a directory without profiles".
#[test]
fn packed_reports_of_a_folder_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("ncu");
    fs::create_dir(&packed).unwrap();
    let report = fixture("h200/ncu/decode_12.ncu-rep.gz");
    fs::copy(&report, packed.join("decode_12.ncu-rep.gz")).unwrap();
    works(folder.path(), &["kernels", "analyze", "ncu"]);
    assert!(folder.path().join("analysis/report.md").is_file());
    assert!(!folder.path().join("ncu/analysis").exists());
    let alone = works(folder.path(), &["kernels", "analyze", &report, "--json"]);
    let in_folder = works(folder.path(), &["kernels", "analyze", "ncu", "--json"]);
    assert_eq!(in_folder, alone);
}

/// Each page has every launch: two pages of a profile had them twice.
#[test]
fn pages_of_one_profile_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let [raw, details] =
        ["raw", "details"].map(|page| fixture(&format!("h200/ncu/decode_{page}.csv.gz")));
    let launches = |pages: &[&str]| {
        let words = [&["kernels", "analyze"], pages, &["--json"]].concat();
        let analysis = printed(folder.path(), &words);
        analysis["launches"].as_array().unwrap().len()
    };
    let alone = launches(&[&raw]);
    assert!(alone > 0);
    assert_eq!(launches(&[&raw, &details]), alone);
    // The same page of two folders is of two profiles.
    let other = folder.path().join("decode_raw.csv.gz");
    fs::copy(&raw, &other).unwrap();
    assert_eq!(launches(&[&raw, other.to_str().unwrap()]), 2 * alone);
}

/// With lower margins a unit that is hardly used limits a kernel, and fewer wait for nothing or fill no device.
#[test]
fn margins_of_classes_are_options() {
    let folder = tempfile::tempdir().unwrap();
    let ncu = fixture("ancestor/ncu");
    let classes = |more: &[&str]| {
        let words = ["kernels", "analyze", &ncu, "--device", "rtx_5090", "--json"];
        let analysis = printed(folder.path(), &[&words[..], more].concat());
        let launches = analysis["launches"].as_array().unwrap();
        let of = |class: &str| launches.iter().filter(|one| one["class"] == class).count();
        (of("underfilled_grid"), of("latency_bound"))
    };
    let (grids, waits) = classes(&[]);
    assert_eq!(grids, 5);
    assert!(waits > 0);
    let low = [
        "--classify-low",
        "0",
        "--classify-high",
        "0",
        "--classify-margin",
        "1",
    ];
    assert_eq!(classes(&low), (0, 0));
    let words = ["kernels", "analyze", &ncu, "--classify-low", "70"];
    let said = refused(folder.path(), &words);
    assert!(said.contains("low at most high"), "{said}");
}

#[test]
fn a_report_of_nsight_compute_is_read_without_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let report = fixture("h200/ncu/decode_12.ncu-rep.gz");
    let analysis = printed(folder.path(), &["kernels", "analyze", &report, "--json"]);
    assert_eq!(analysis["launches"].as_array().unwrap().len(), 12);
    assert_eq!(analysis["device"], "h200");
    // A rule is explained at the first kernel that has it.
    common::works(folder.path(), &["kernels", "analyze", &report, "-o", "out"]);
    let text = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    let explained = text.matches("Nsight Compute, MemoryL2Compression").count();
    assert!(explained <= 2, "{explained} of 12");
    assert!(text.contains("Nsight Compute, as for kernel 1: "), "{text}");
    let said = refused(
        folder.path(),
        &["kernels", "analyze", &fixture("ancestor/nsys/decode.csv")],
    );
    assert!(said.contains("has no counters"), "{said}");
}

#[test]
fn the_doctor_checks_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let checks = printed(
        folder.path(),
        &["doctor", "--python", "/nowhere/python", "--json"],
    );
    let names: Vec<&str> = checks
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "NVIDIA driver",
            "NVML",
            "CUDA",
            "nvcc",
            "counter permission",
            "llmprof's CUPTI library",
            "CUPTI",
            "nsys",
            "nsys importer",
            "ncu",
            "/var/lock",
            "perf_event_paranoid",
            "ptrace_scope",
            "disk",
            "python",
            "torch",
            "transformers",
            "vllm",
            "pixi"
        ]
    );
    let broken = checks
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["state"] != "works");
    assert!(broken.clone().count() >= 1);
    assert!(broken.into_iter().all(|check| check["fix"].is_string()));
    // Root may read counters of a GPU; without one there are none.
    let driver = std::path::Path::new("/proc/driver/nvidia/params");
    let mut permissions = checks.as_array().unwrap().iter();
    let permission = permissions.find(|check| check["name"] == "counter permission");
    let is_missing = permission.unwrap()["state"] == "missing";
    assert_eq!(is_missing, !driver.exists());
    // With an interpreter, its packages are named too; the table has the same.
    let python = folder.path().join("python");
    let probe = "#!/bin/sh\necho python 3.12.1\necho torch - ModuleNotFoundError: x\necho transformers 5.0\necho vllm 0.11\n";
    fs::write(&python, probe).unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&python, runs).unwrap();
    let python = python.to_string_lossy();
    let table = works(folder.path(), &["doctor", "--python", &python]);
    for words in [
        "pip install torch",
        "transformers",
        "vllm",
        "0.11",
        "perf_event_paranoid",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

/// A tool that a run would refuse does not work.
#[test]
fn the_doctor_knows_tools_that_are_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let ncu = folder.path().join("ncu");
    fs::write(&ncu, "#!/bin/sh\necho Version 2022.4.1.0\n").unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&ncu, runs).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["doctor", "--json", "--python", "/nowhere/python"])
        .env("NCU", &ncu)
        .output()
        .unwrap();
    let checks: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut checks = checks.as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == "ncu").unwrap();
    assert_eq!(check["state"], "broken", "{check}");
    let version = check["found"].as_str().unwrap();
    assert!(
        version.contains("ncu 2022.4 is older than 2023.1"),
        "{version}"
    );
}
