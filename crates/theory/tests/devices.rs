//! The device files: complete, consistent with themselves, found by the names drivers report.

use llmprof_theory::device::{Catalog, Device, DeviceError, Engine, Recount};
use llmprof_units::{Basis, DType};

fn every_device() -> Vec<Device> {
    let catalog = Catalog::embedded();
    catalog
        .entries()
        .iter()
        .map(|entry| {
            catalog
                .by_name(&entry.name)
                .expect("embedded files are valid")
        })
        .collect()
}

#[test]
fn peaks_follow_from_units_operations_and_clock() {
    let mut recounted = 0;
    for device in every_device() {
        for peak in &device.peaks {
            let what = format!("{} {} {}", device.name, peak.engine, peak.dtype);
            match (&peak.recount, peak.recount.recounted_rate()) {
                (Recount::Factors { .. }, Some(rate)) => {
                    let ratio = peak.dense_flops_per_s.0 / rate.0;
                    assert!(
                        (0.97..=1.03).contains(&ratio),
                        "{what}: stated / recounted = {ratio}"
                    );
                    recounted += 1;
                }
                (Recount::Unknown(reason), None) => assert!(reason.len() > 10, "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    assert!(recounted > 100, "only {recounted} peaks could be recounted");
}

#[test]
fn dense_rates_are_not_the_sparse_ones_of_advertisements() {
    // bf16 TFLOP/s with f32 accumulate, dense, as the makers' own documents give them beside the sparse figures.
    for (name, tera) in [
        ("h100_sxm", 989.4),
        ("h200", 989.4),
        ("h100_pcie", 756.0),
        ("a100_sxm_80gb", 312.0),
        ("rtx_3090", 71.0),
        ("rtx_4090", 165.2),
        ("rtx_5090", 209.5),
        ("l4", 121.0),
        ("mi300x", 1307.4),
        ("b200", 2250.0),
    ] {
        let device = Catalog::embedded().by_name(name).unwrap();
        let peak = device.dense_peak(DType::Bf16, Engine::Tensor).unwrap();
        let ratio = peak.dense_flops_per_s.0 / (tera * 1e12);
        assert!(
            (0.995..1.005).contains(&ratio),
            "{name}: {}",
            peak.dense_flops_per_s
        );
    }
}

#[test]
fn drivers_names_find_their_device_and_only_it() {
    let catalog = Catalog::embedded();
    for (driver, name) in [
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm_80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100_sxm_40gb"),
        ("NVIDIA A100 80GB PCIe", "a100_pcie_80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA B200", "b200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("AMD Instinct MI350X", "mi350x"),
        ("AMD Instinct MI355X", "mi355x"),
        ("AMD Instinct MI210", "mi210"),
        ("Tesla V100-DGXS-32GB", "v100_sxm"),
        ("Tesla T4", "t4"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA H800", "h800_sxm"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("AMD Instinct MI250X", "mi250x_gcd"),
        ("Apple M4 Max", "apple_m4_max"),
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon_8480"),
        ("  nvidia  h200 ", "h200"),
    ] {
        assert_eq!(catalog.by_driver_name(driver).unwrap().name, name);
        assert_eq!(catalog.find_device(driver).unwrap().name, name);
        assert_eq!(catalog.find_device(name).unwrap().name, name);
    }
    let mut seen = std::collections::BTreeMap::new();
    for entry in catalog.entries() {
        for driver in entry.driver_names {
            let other = seen.insert(driver.to_lowercase(), entry.name.clone());
            assert_eq!(other, None, "{driver} is claimed twice");
        }
    }
}

#[test]
fn unknown_devices_are_errors_with_advice() {
    let catalog = Catalog::embedded();
    for wanted in [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "Tesla P100-SXM2-16GB",
        "",
    ] {
        let error = catalog.find_device(wanted).unwrap_err();
        assert!(matches!(error, DeviceError::Unknown { .. }), "{error:?}");
        assert!(error.to_string().contains("custom_npu"), "{error}");
    }
    let error = catalog
        .find_device("NVIDIA H100 NVL")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("h100_pcie") || error.contains("h100_sxm"),
        "{error}"
    );
    assert!(
        catalog
            .find_device("h100sxm")
            .unwrap_err()
            .to_string()
            .contains("h100_sxm")
    );
}

#[test]
fn formats_without_a_peak_are_named() {
    let catalog = Catalog::embedded();
    let a100 = catalog.by_name("a100_sxm_80gb").unwrap();
    let error = a100.dense_peak(DType::F8E4m3, Engine::Tensor).unwrap_err();
    assert_eq!(error.dtype, DType::F8E4m3);
    let text = error.to_string();
    assert!(
        text.contains("fp8") && text.contains("a100_sxm_80gb") && text.contains("bf16"),
        "{text}"
    );

    // f32 products run on vector units where TF32 is not asked for; 16-bit vector work may use f32 lanes.
    assert_eq!(
        a100.dense_peak(DType::F32, Engine::Tensor).unwrap().engine,
        Engine::Vector
    );
    let l4 = catalog.by_name("l4").unwrap();
    assert_eq!(
        l4.dense_peak(DType::Bf16, Engine::Vector).unwrap().dtype,
        DType::F32
    );
    assert!(l4.dense_peak(DType::F64, Engine::Vector).is_err());

    // Of two accumulators the wide one, which frameworks use.
    let rtx = catalog.by_name("rtx_4090").unwrap();
    let peak = rtx.dense_peak(DType::F16, Engine::Tensor).unwrap();
    assert_eq!(peak.accumulate, Some(DType::F32));
}

const MEASURED: &str = "
name: this_machine
title: Measured here
driver_names: [NVIDIA H200]
vendor: Intel
kind: cpu
basis: measured
measured_at: 2026-01-31T12:00:00Z
sources: { run: llmprof hardware measure }
units: { name: core, value: 2, source: run }
peaks:
  - { dtype: f32, engine: vector, tflops: 0.18, source: run }
memory:
  capacity_gb: { value: 8.0, source: run }
  bandwidth_gb_s: { value: 12.5, source: run }
caches:
  - { level: l1, scope: unit, kib: 48, bandwidth_gb_s: 310, source: run }
  - { level: l2, scope: unit, bandwidth_gb_s: 140, source: run }
";

#[test]
fn users_files_overlay_the_embedded_ones() {
    let mut catalog = Catalog::embedded();
    let device = catalog.add_file("mine.yaml", MEASURED).unwrap().clone();
    assert_eq!(device.memory.bandwidth_bytes_per_s.basis, Basis::Measured);
    assert_eq!(
        device.memory.bandwidth_bytes_per_s.source,
        "llmprof hardware measure"
    );
    assert_eq!(catalog.by_name("this_machine").unwrap(), device);
    assert_eq!(
        catalog.by_driver_name("NVIDIA H200").unwrap().name,
        "this_machine"
    );

    let h200 = Catalog::embedded_text("h200")
        .unwrap()
        .replace("value: 4800", "value: 4000");
    catalog.add_file("h200.yaml", &h200).unwrap();
    assert_eq!(catalog.by_name("h200").unwrap().memory_bandwidth().0, 4e12);

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("b.yml"), MEASURED).unwrap();
    std::fs::write(directory.path().join("a.txt"), "not read").unwrap();
    let mut catalog = Catalog::embedded();
    catalog.add_directory(directory.path()).unwrap();
    assert!(catalog.by_name("this_machine").is_ok());
    std::fs::write(directory.path().join("c.yaml"), MEASURED).unwrap();
    let error = Catalog::embedded()
        .add_directory(directory.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("c.yaml") && error.contains("b.yml"),
        "{error}"
    );
    let missing = directory.path().join("absent");
    assert!(Catalog::embedded().add_directory(&missing).is_err());
}

#[test]
fn mistakes_name_the_file_and_the_key() {
    for (from, to, expected) in [
        ("title:", "tittle:", "tittle"),
        ("value: 12.5", "value: -1", "memory.bandwidth_gb_s"),
        ("value: 12.5", "value: .nan", "memory.bandwidth_gb_s"),
        ("value: 12.5", "value: 1e300", "memory.bandwidth_gb_s"),
        ("value: 12.5", "value: fast", "line 15"),
        (
            "source: run }\npeaks",
            "source: nowhere }\npeaks",
            "nowhere",
        ),
        ("dtype: f32", "dtype: f31", "f31"),
        ("engine: vector", "engine: quantum", "quantum"),
        ("name: this_machine", "name: This Machine", "This Machine"),
        ("measured_at: 2026-01-31T12:00:00Z\n", "", "measured_at"),
        (
            "tflops: 0.18",
            "tflops: 0.18, clock: boost",
            "peaks[0] (vector f32)",
        ),
        (
            "tflops: 0.18",
            "tflops: 0.18, sparse_tflops: 0.1",
            "sparse_tflops",
        ),
        (
            "level: l2, scope: unit, bandwidth_gb_s: 140",
            "level: l2, scope: unit",
            "caches.l2",
        ),
        ("memory:", "memory: [", "line"),
    ] {
        assert!(MEASURED.contains(from), "{from}");
        let text = MEASURED.replacen(from, to, 1);
        let error = Catalog::embedded()
            .add_file("mine.yaml", &text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("mine.yaml") && error.contains(expected),
            "{to}: {error}"
        );
    }
    assert!(Catalog::embedded().add_file("empty.yaml", "").is_err());
}

#[test]
fn templates_and_files_carry_a_source_for_every_figure() {
    for device in every_device() {
        let json = serde_json::to_value(&device).unwrap();
        let mut figures = 0;
        count_figures(&json, &mut figures);
        assert!(figures >= 3, "{}: {figures} figures", device.name);
        assert!(!device.peaks.is_empty(), "{}", device.name);
    }
}

/// Every JSON object with a `basis` and a number beside it has a non-empty `source`.
fn count_figures(value: &serde_json::Value, figures: &mut usize) {
    if let Some(object) = value.as_object() {
        if object.contains_key("basis") && !object.contains_key("name") {
            let source = object["source"].as_str().expect("a string");
            assert!(source.len() > 5, "{object:?}");
            *figures += 1;
        }
        for child in object.values() {
            count_figures(child, figures);
        }
    }
    if let Some(list) = value.as_array() {
        for child in list {
            count_figures(child, figures);
        }
    }
}
