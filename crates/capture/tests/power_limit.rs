//! Power limits without a GPU: a stand-in for NVIDIA's library keeps them in a file.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use crate::build::stand_in;
use llmprof_capture::telemetry::nvml::PowerLimit;
use llmprof_record::issue::Issue;
use llmprof_units::Watts;

/// What was set, in order: `1 300000`.
fn set(library: &Path) -> Vec<String> {
    let file = library.with_extension("1.limits");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn codes(issues: &[Issue]) -> Vec<&str> {
    issues.iter().map(|issue| issue.code.as_str()).collect()
}

fn reason(issues: &[Issue]) -> String {
    issues[0].values["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_limit_lasts_as_long_as_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let library = stand_in(folder.path(), &["SAME_GPUS"]);
    let (limit, issues) = PowerLimit::set_limit(&[0, 1], Watts(300.0), Some(&library), None);
    assert_eq!(codes(&issues), ["power.limit_set", "power.limit_set"]);
    assert_eq!(issues[1].values["before_w"], 500.0);
    assert_eq!(set(&library), ["0 300000", "1 300000"]);
    assert!(limit.unwrap().restore_limits().is_empty());
    assert_eq!(set(&library)[2..], ["0 500000", "1 500000"]);
    // Dropped in an error's way, it restores too.
    let (limit, _) = PowerLimit::set_limit(&[1], Watts(250.5), Some(&library), None);
    drop(limit);
    assert_eq!(set(&library)[4..], ["1 250500", "1 500000"]);
}

#[test]
fn a_limit_that_somebody_else_set_meanwhile_stays() {
    let folder = tempfile::tempdir().unwrap();
    let library = stand_in(folder.path(), &["SAME_GPUS"]);
    let (limit, _) = PowerLimit::set_limit(&[0], Watts(300.0), Some(&library), None);
    std::fs::write(library.with_extension("1.limits"), "0 400000\n").unwrap();
    assert!(limit.unwrap().restore_limits().is_empty());
    assert_eq!(set(&library), ["0 400000"]);
}

#[test]
fn what_cannot_be_set_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |switches: &[&str], device: u32, watts: f64| {
        let library = stand_in(folder.path(), switches);
        let (limit, issues) = PowerLimit::set_limit(&[device], Watts(watts), Some(&library), None);
        assert!(limit.is_none());
        assert_eq!(codes(&issues), ["power.limit_refused"]);
        assert!(set(&library).is_empty());
        reason(&issues)
    };
    let permitted = refused(&["SAME_GPUS", "NO_PERMISSION"], 0, 300.0);
    assert!(permitted.contains("root"), "{permitted}");
    let range = refused(&["SAME_GPUS"], 0, 900.0);
    assert!(range.contains("200 to 700 W"), "{range}");
    let missing = refused(&["SAME_GPUS"], 7, 300.0);
    assert!(missing.contains("2 GPUs"), "{missing}");
    let without = refused(&["BARE", "SAME_GPUS"], 0, 300.0);
    assert!(without.contains("no limit"), "{without}");
    // CUDA puts the fastest of different GPUs first: which one is `cuda:0` is not known.
    let order = refused(&[], 0, 300.0);
    assert!(order.contains("CUDA_DEVICE_ORDER"), "{order}");
    let started = refused(&["INIT_FAILS"], 0, 300.0);
    assert!(started.contains("does not start"), "{started}");
}
