use std::collections::BTreeMap;

use llmprof_theory::device::{
    Catalog, DeviceKind, Engine,
    schema::{FigureEntry, MemoryEntry, PeakEntry},
};
use llmprof_units::{Basis, DType};

use super::*;

/// A calibration of this processor that found so many TFLOP/s while other programs took so much.
fn calibration(tflops: f64, other_programs: f64) -> DeviceFile {
    let cpu = host::read_cpu();
    DeviceFile {
        name: THIS_CPU.to_owned(),
        title: device_title(&cpu).to_owned(),
        driver_names: Vec::new(),
        vendor: "unknown".to_owned(),
        kind: DeviceKind::Cpu,
        architecture: None,
        basis: Basis::Measured,
        measured_at: Some("2026-01-01T00:00:00Z".to_owned()),
        calibration: Some(DeviceCalibration {
            method: METHOD_VERSION,
            threads: cpu.threads.unwrap_or(1),
            other_programs: Some(other_programs),
            outdone: false,
        }),
        sources: BTreeMap::from([("llmprof".to_owned(), "here: \"measured\"".to_owned())]),
        units: None,
        clocks_mhz: BTreeMap::new(),
        peaks: vec![PeakEntry {
            dtype: DType::F32,
            engine: Engine::Vector,
            accumulate: None,
            tflops,
            sparse_tflops: None,
            operations_per_clock: None,
            clock: None,
            not_recounted: Some("measured".to_owned()),
            source: "llmprof".to_owned(),
            at: None,
            basis: None,
        }],
        memory: MemoryEntry {
            technology: None,
            capacity_gb: None,
            bandwidth_gb_s: FigureEntry {
                value: 20.5,
                source: "llmprof".to_owned(),
                at: Some("reading".to_owned()),
                basis: None,
            },
        },
        caches: Vec::new(),
        interconnects: Vec::new(),
        power_w: None,
        launch_latency_us: None,
        notes: vec!["Main memory, read: 10.0 GB/s.".to_owned()],
    }
}

fn place() -> (tempfile::TempDir, CalibrationFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = CalibrationFile::at_path(folder.path().join("deep/cpu.yaml"));
    (folder, file)
}

fn tflops(file: &CalibrationFile) -> f64 {
    file.read_file().unwrap().unwrap().peaks[0].tflops
}

#[test]
fn what_is_written_is_a_device_of_the_catalog() {
    let (_folder, file) = place();
    assert_eq!(file.load_device().unwrap(), None);
    let written = calibration(1.0 / 3.0, 0.02);
    assert_eq!(file.keep_better(&written).unwrap(), CalibrationOutcome::New);
    assert_eq!(file.read_file().unwrap().unwrap(), written);
    let text = std::fs::read_to_string(file.path()).unwrap();
    let mut catalog = Catalog::embedded();
    let device = catalog.add_file("cpu.yaml", &text).unwrap().clone();
    assert_eq!(file.load_device().unwrap().unwrap(), device);
    assert_eq!(device.peaks[0].dense_flops_per_s.0, 1e12 / 3.0);
    assert_eq!(device.memory_bandwidth().0, 20.5e9);
    assert_eq!(device.calibration, written.calibration);
}

#[test]
fn a_disturbed_calibration_replaces_no_better_one() {
    let (_folder, file) = place();
    // Anything is better than nothing.
    assert_eq!(
        file.keep_better(&calibration(1.0, 0.5)).unwrap(),
        CalibrationOutcome::New
    );
    assert_eq!(
        file.keep_better(&calibration(0.8, 0.6)).unwrap(),
        CalibrationOutcome::Old
    );
    assert_eq!(
        file.keep_better(&calibration(1.1, 0.3)).unwrap(),
        CalibrationOutcome::New
    );
    // A busy machine does not calibrate before every run.
    assert!(file.is_current());
    assert_eq!(
        file.keep_better(&calibration(2.0, 0.05)).unwrap(),
        CalibrationOutcome::New
    );
    assert_eq!(
        file.keep_better(&calibration(1.5, 0.2)).unwrap(),
        CalibrationOutcome::Old
    );
    // Also where a run was faster since: the old peaks are low, and those of a busy machine lower.
    assert!(file.mark_outdone().unwrap());
    assert_eq!(
        file.keep_better(&calibration(1.5, 0.2)).unwrap(),
        CalibrationOutcome::Old
    );
    assert_eq!(tflops(&file), 2.0);
    assert_eq!(
        file.keep_better(&calibration(2.2, 0.0)).unwrap(),
        CalibrationOutcome::New
    );
    assert_eq!(tflops(&file), 2.2);
}

#[test]
fn another_processor_or_method_is_no_better_one() {
    let changes: [fn(&mut DeviceFile); 4] = [
        |file| file.title += " II",
        |file| file.calibration.as_mut().unwrap().method -= 1,
        |file| file.calibration.as_mut().unwrap().threads += 1,
        |file| file.calibration = None,
    ];
    for change in changes {
        let (_folder, file) = place();
        let mut other = calibration(9.0, 0.0);
        change(&mut other);
        file.write_file(&other).unwrap();
        assert!(!file.is_current());
        assert_eq!(
            file.keep_better(&calibration(1.0, 0.5)).unwrap(),
            CalibrationOutcome::New
        );
        assert_eq!(tflops(&file), 1.0);
    }
}

#[test]
fn that_a_run_was_faster_is_noted_once() {
    let (_folder, file) = place();
    assert!(!file.mark_outdone().unwrap());
    assert!(!file.path().exists());
    file.write_file(&calibration(1.0, 0.0)).unwrap();
    assert!(file.mark_outdone().unwrap());
    assert!(!file.mark_outdone().unwrap());
    assert!(
        file.load_device()
            .unwrap()
            .unwrap()
            .calibration
            .unwrap()
            .outdone
    );
}

#[test]
fn a_broken_file_is_an_error_and_is_replaced() {
    let (_folder, file) = place();
    file.write_file(&calibration(1.0, 0.0)).unwrap();
    std::fs::write(file.path(), "name: [").unwrap();
    let error = file.load_device().unwrap_err();
    assert!(matches!(error, CalibrationError::Device(_)), "{error}");
    assert!(!file.is_current());
    assert_eq!(
        file.keep_better(&calibration(1.0, 0.5)).unwrap(),
        CalibrationOutcome::New
    );
}

#[test]
fn one_at_a_time_calibrates() {
    let folder = tempfile::tempdir().unwrap();
    let file = CalibrationFile::at_path(folder.path().join("cache/cpu.yaml"));
    let held = file.lock_calibration().unwrap();
    let other = File::open(folder.path().join("cache/cpu.lock")).unwrap();
    assert!(other.try_lock().is_err());
    drop(held);
    assert!(other.try_lock().is_ok());
    // A folder that cannot be made holds nobody up.
    std::fs::write(folder.path().join("plain"), "").unwrap();
    let nowhere = CalibrationFile::at_path(folder.path().join("plain/cpu.yaml"));
    assert!(nowhere.lock_calibration().is_none());
}
