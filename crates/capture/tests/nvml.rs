//! Telemetry of GPUs without a GPU: a stand-in for NVIDIA's library, compiled here, whose counters are known in closed
//! form.

use std::{collections::BTreeMap, time::Duration};

use crate::build::stand_in;
use llmprof_capture::telemetry::{Gpus, Sampler, Settings, nvml};
use llmprof_record::samples::{GpuSample, Samples, ThrottleReason};
use llmprof_units::{Basis, Bytes, BytesPerSecond, Nanos};

/// Samples the stand-in for a while, with this process as the worker.
fn sampled(switches: &[&str], gpus: Gpus) -> Samples {
    counted(switches, gpus).0
}

/// The same, with how often each GPU was asked for what: `nvmlDeviceGetClockInfo 2`.
fn counted(switches: &[&str], gpus: Gpus) -> (Samples, BTreeMap<(u32, String), u64>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = stand_in(folder.path(), switches);
    let sampler = Sampler::start_with(Settings {
        period: Duration::from_millis(10),
        gpus,
        nvml_library: Some(library.clone()),
        amd_library: None,
    })
    .expect("sampling starts");
    sampler.watch(std::process::id());
    // What the last sample reads once more is old enough by then.
    std::thread::sleep(Duration::from_millis(500));
    let samples = sampler.stop().expect("sampling stops");
    let reported = std::fs::read_to_string(library.with_extension("1.calls")).unwrap_or_default();
    let calls = reported.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [gpu, call, detail, count] = words[..] else {
            panic!("{line}");
        };
        let call = format!("{call} {detail}").replace(" 0", "");
        let number = |word: &str| word.parse().expect("a number");
        ((number(gpu), call), u64::from(number(count)))
    });
    (samples, calls.collect())
}

fn codes(samples: &Samples) -> Vec<&str> {
    samples
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .filter(|code| code.contains("gpu"))
        .collect()
}

/// A value of the issue of that code, as text.
fn value(samples: &Samples, code: &str, key: &str) -> String {
    let issue = samples
        .issues
        .iter()
        .find(|issue| issue.code.as_str() == code);
    let value = &issue.expect("there is such an issue").values[key];
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn span(samples: &Samples, gpu: usize) -> (Nanos, Nanos) {
    let rows = &samples.gpus[gpu].rows;
    (rows[0].time_ns, rows[rows.len() - 1].time_ns)
}

#[test]
fn every_gpu_is_read_with_all_it_tells() {
    let samples = sampled(&[], Gpus::All);
    // NVML's "unknown" is no state, and the second GPU says nothing else.
    assert_eq!(codes(&samples), ["telemetry.gpu_columns"]);
    assert_eq!(
        ["gpu", "name", "columns"].map(|key| value(&samples, "telemetry.gpu_columns", key)),
        ["1", "Stand-in B", "performance state"]
    );
    let [first, second] = &samples.gpus[..] else {
        panic!("two GPUs, not {}", samples.gpus.len());
    };
    assert_eq!((first.index, first.name.as_str()), (0, "Stand-in A"));
    assert_eq!((second.index, second.name.as_str()), (1, "Stand-in B"));
    assert_eq!(first.memory_total_bytes, Some(Bytes(143_771 << 20)));
    assert!(first.rows.len() >= 3, "{}", first.rows.len());
    assert_eq!(first.rows.len(), second.rows.len());
    let row = &first.rows[1];
    assert_eq!(
        (row.gpu_percent, row.memory_percent),
        (Some(70.0), Some(30.0))
    );
    assert_eq!(row.sm_clock_hz.unwrap().0, 1.98e9);
    assert_eq!(row.memory_clock_hz.unwrap().0, 3.201e9);
    assert_eq!(row.power_w.unwrap().0, 250.0);
    assert!((row.power_instant_w.unwrap().0 - 249.5).abs() < 1e-9);
    assert_eq!(
        (row.temperature_c, row.memory_temperature_c),
        (Some(37.0), Some(41.0))
    );
    assert_eq!(row.memory_used_bytes, Some(Bytes(2565 << 20)));
    assert_eq!(row.performance_state, Some(0));
    assert_eq!(second.rows[1].performance_state, None);
    // The latest of this process's two shares; the process of another; neither the entry of nobody nor the one beyond
    // the whole.
    let watched = first.rows.last().unwrap();
    assert_eq!(watched.worker_gpu_percent, Some(60.0));
    assert_eq!(watched.other_gpu_percent, Some(8.0));
    assert_eq!(watched.worker_memory_bytes, Some(Bytes(1 << 30)));
    // Nobody was on the second GPU, which is zero and not unknown.
    let idle = second.rows.last().unwrap();
    assert_eq!(
        (idle.worker_gpu_percent, idle.other_gpu_percent),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(idle.worker_memory_bytes, Some(Bytes(0)));
    // The first sample has no time before it to have a rate over.
    assert_eq!(first.rows[0].pcie_tx, None);
    let mebibytes = |count: f64| Some(BytesPerSecond(count * 1_048_576.0));
    let row = watched;
    assert_eq!((row.pcie_tx, row.pcie_rx), (mebibytes(2.0), mebibytes(3.0)));
    assert_eq!(
        (row.nvlink_tx, row.nvlink_rx),
        (mebibytes(4.0), mebibytes(5.0))
    );
}

#[test]
fn what_changes_slowly_is_asked_less_often() {
    let (samples, calls) = counted(&[], Gpus::All);
    for gpu in [0, 1] {
        let series = &samples.gpus[gpu as usize];
        let asked = |call: &str| calls.get(&(gpu, call.to_owned())).copied().unwrap_or(0);
        let rows = series.rows.len() as u64;
        for call in [
            "nvmlDeviceGetFieldValues 186",
            "nvmlDeviceGetClockInfo 1",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ] {
            assert_eq!(asked(call), rows, "{call}");
        }
        let (start, end) = span(&samples, gpu as usize);
        // At the start, every 90 ms, and at the end.
        let counter = 3 + ((end - start).seconds() / 0.09) as u64;
        assert!((3..=counter).contains(&asked("nvmlDeviceGetTotalEnergyConsumption")));
        // One more, since a question is asked a little after the time of its sample.
        let soon = 2 + ((end - start).seconds() / 0.2) as u64;
        assert!((1..=soon).contains(&asked("nvmlDeviceGetUtilizationRates")));
        // Once more for the size of the memory, which does not change.
        assert!((2..=soon + 1).contains(&asked("nvmlDeviceGetMemoryInfo_v2")));
        // At the start, every second, and at the end.
        let slow = 3 + (end - start).seconds() as u64;
        for call in [
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetClockInfo 2",
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetFieldValues 82",
            "nvmlDeviceGetPerformanceState",
            "nvmlGpmSampleGet",
        ] {
            assert!((1..=slow).contains(&asked(call)), "{call}");
        }
        // When the worker was named, too; each reading asks for a length first.
        for call in [
            "nvmlDeviceGetProcessUtilization",
            "nvmlDeviceGetComputeRunningProcesses_v3",
        ] {
            assert!((1..=2 * (slow + 1)).contains(&asked(call)), "{call}");
        }
        assert_eq!(asked("nvmlDeviceGetName"), 1);
    }
}

#[test]
fn what_a_gpu_refuses_is_asked_once() {
    let (samples, calls) = counted(&["BARE"], Gpus::Chosen(vec![0]));
    assert!(samples.gpus[0].rows.len() > 2);
    for ((_, call), count) in calls {
        // The size of the memory is another question than its use; PCIe is asked for both ways.
        let most = match call.as_str() {
            "nvmlDeviceGetMemoryInfo_v2" | "nvmlDeviceGetPcieThroughput" => 2,
            _ => 1,
        };
        assert!(count <= most, "{call}: {count}");
    }
    let (samples, calls) = counted(&["NO_ENERGY"], Gpus::Chosen(vec![0]));
    assert!(samples.gpus[0].rows.len() > 2);
    assert_eq!(
        calls[&(0, "nvmlDeviceGetTotalEnergyConsumption".to_owned())],
        1
    );
}

#[test]
fn energy_is_the_counters_difference() {
    let samples = sampled(&[], Gpus::All);
    for (gpu, joules_per_sample) in [(0, 1.5), (1, 3.0)] {
        let series = &samples.gpus[gpu];
        let (start, end) = span(&samples, gpu);
        let energy = series.energy_between(start, end).unwrap();
        // The stand-in's counter takes a step with every question.
        let mut read: Vec<&GpuSample> = series.rows.iter().collect();
        read.dedup_by(|a, b| a.energy_j == b.energy_j);
        let expected = joules_per_sample * (read.len() - 1) as f64;
        assert!(
            (energy.joules.0 - expected).abs() < 1e-9,
            "{energy:?} {expected}"
        );
        assert_eq!(energy.basis, Basis::Measured);
        // From one reading to the next it is one step of the counter, however far apart they are.
        let step = series.energy_between(read[1].time_ns, read[2].time_ns);
        assert!((step.unwrap().joules.0 - joules_per_sample).abs() < 1e-9);
        assert_eq!(series.energy_between(start - Nanos(1), end), None);
    }
}

#[test]
fn without_a_counter_energy_is_integrated_power() {
    let samples = sampled(&["NO_ENERGY"], Gpus::Chosen(vec![0]));
    assert_eq!(codes(&samples), ["telemetry.gpu_energy_derived"]);
    let (start, end) = span(&samples, 0);
    let energy = samples.gpus[0].energy_between(start, end).unwrap();
    let expected = 249.5 * (end - start).seconds();
    assert!((energy.joules.0 - expected).abs() < 1e-6 * expected);
    assert_eq!(energy.basis, Basis::Derived);
}

#[test]
fn a_counter_that_was_reset_is_not_believed() {
    let samples = sampled(&["ENERGY_RESET"], Gpus::Chosen(vec![0]));
    assert!(codes(&samples).contains(&"telemetry.gpu_energy_reset"));
    let series = &samples.gpus[0];
    let known: Vec<bool> = series
        .rows
        .iter()
        .map(|row| row.energy_j.is_some())
        .collect();
    let reset = known.iter().position(|known| !known).unwrap();
    assert!(reset >= 3 && known[reset..].iter().all(|known| !known));
    let (start, end) = span(&samples, 0);
    let energy = series.energy_between(start, end).unwrap();
    assert_eq!(energy.basis, Basis::Derived);
}

#[test]
fn throttling_names_its_reasons() {
    let samples = sampled(&[], Gpus::All);
    let (start, end) = span(&samples, 1);
    let held = samples.gpus[1].throttled_between(start, end).unwrap();
    assert!((held.share - 1.0).abs() < 1e-12);
    let reasons: Vec<ThrottleReason> = held.reasons.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(
        reasons,
        [
            ThrottleReason::SoftwarePowerCap,
            ThrottleReason::SoftwareThermal
        ]
    );
    // An idle GPU lowers its clocks by itself.
    let (start, end) = span(&samples, 0);
    assert_eq!(
        samples.gpus[0].throttled_between(start, end).unwrap().share,
        0.0
    );
}

#[test]
fn chosen_gpus_alone_are_read_and_missing_ones_named() {
    let samples = sampled(&[], Gpus::Chosen(vec![5, 1, 1]));
    assert_eq!(samples.gpus.len(), 1);
    assert_eq!(samples.gpus[0].index, 1);
    assert_eq!(
        codes(&samples),
        ["telemetry.gpu_missing", "telemetry.gpu_columns"]
    );
    assert_eq!(value(&samples, "telemetry.gpu_missing", "gpu"), "5");
}

#[test]
fn an_older_gpu_has_pcie_by_the_blocking_call() {
    let samples = sampled(&["NO_GPM"], Gpus::Chosen(vec![0]));
    let last = samples.gpus[0].rows.last().unwrap();
    assert_eq!(last.pcie_tx, Some(BytesPerSecond(1_150_000.0)));
    assert_eq!(last.pcie_rx, Some(BytesPerSecond(569_000.0)));
    assert_eq!(last.nvlink_tx, None);
    assert_eq!(
        ["gpu", "columns"].map(|key| value(&samples, "telemetry.gpu_columns", key)),
        ["0", "NVLink traffic"]
    );
}

#[test]
fn what_is_not_supported_is_one_issue_and_empty_columns() {
    let samples = sampled(&["BARE"], Gpus::Chosen(vec![0]));
    assert_eq!(codes(&samples), ["telemetry.gpu_columns"]);
    let rows = &samples.gpus[0].rows;
    assert!(rows.len() >= 2);
    let empty = GpuSample {
        time_ns: rows[1].time_ns,
        ..Default::default()
    };
    assert_eq!(rows[1], empty);
    let (start, end) = span(&samples, 0);
    assert_eq!(samples.gpus[0].energy_between(start, end), None);
    assert_eq!(samples.gpus[0].throttled_between(start, end), None);
    let file = samples.nvml_csv().unwrap();
    let cells: Vec<&str> = file.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(
        cells.iter().filter(|cell| !cell.is_empty()).count(),
        3,
        "{cells:?}"
    );
}

#[test]
fn no_driver_no_gpu_and_no_library_are_one_issue_each() {
    for (switches, reason) in [
        (&["INIT_FAILS"][..], "driver is not loaded"),
        (&["NO_DEVICES"][..], "knows no GPU"),
    ] {
        let samples = sampled(switches, Gpus::All);
        assert_eq!(codes(&samples), ["telemetry.no_gpu"]);
        let message = value(&samples, "telemetry.no_gpu", "reason");
        assert!(message.contains(reason), "{message}");
        assert!(samples.gpus.is_empty() && samples.nvml_csv().is_none());
        assert!(samples.rows.len() >= 2, "the host is sampled all the same");
    }
    let sampler = Sampler::start_with(Settings {
        period: Duration::from_millis(10),
        gpus: Gpus::All,
        nvml_library: Some("/nonexistent/libnvidia-ml.so.1".into()),
        amd_library: None,
    })
    .unwrap();
    let samples = sampler.stop().unwrap();
    assert_eq!(codes(&samples), ["telemetry.no_gpu"]);
}

#[test]
fn the_file_holds_every_sample() {
    let samples = sampled(&[], Gpus::All);
    let file = samples.nvml_csv().unwrap();
    let rows: usize = samples.gpus.iter().map(|gpu| gpu.rows.len()).sum();
    assert_eq!(file.lines().count(), rows + 1);
    let unix: f64 = file
        .lines()
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    assert!((0.0..600.0).contains(&(now - unix)), "{unix} {now}");
}

/// Loose, since the machine may be busy: what was sampled and what was missed make up the deadlines that passed.
#[test]
fn the_rate_is_kept_without_drift() {
    let samples = sampled(&[], Gpus::Chosen(vec![0]));
    let rows = samples.gpus[0].rows.len() as u64;
    let missed: u64 = samples
        .issues
        .iter()
        .filter(|issue| {
            issue.code.as_str() == "telemetry.missed_samples" && issue.to_string().contains("GPUs")
        })
        .map(|issue| issue.count)
        .sum();
    let (start, end) = span(&samples, 0);
    let deadlines = ((end - start).seconds() / 0.01) as u64;
    // The first and the last sample are not at deadlines.
    let seen = rows + missed;
    assert!(
        seen >= deadlines && seen <= deadlines + 3,
        "{rows} + {missed}, {deadlines}"
    );
}

#[test]
fn the_machine_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let facts = nvml::gpu_facts(Some(&stand_in(folder.path(), &[]))).unwrap();
    assert_eq!(facts.driver_version.as_deref(), Some("580.159.04"));
    assert_eq!(facts.cuda_version.as_deref(), Some("13.0"));
    assert_eq!(facts.gpus.len(), 2);
    let gpu = &facts.gpus[1];
    assert_eq!(gpu.name.as_deref(), Some("Stand-in B"));
    assert_eq!(gpu.architecture.as_deref(), Some("Hopper"));
    assert_eq!(gpu.compute_capability.as_deref(), Some("9.0"));
    assert_eq!(gpu.pci_bus_id.as_deref(), Some("00000000:01:06.0"));
    assert_eq!(
        (gpu.ecc_enabled, gpu.mig_enabled),
        (Some(true), Some(false))
    );
    assert_eq!(
        (gpu.persistence_mode, gpu.compute_mode.as_deref()),
        (Some(true), Some("exclusive_process"))
    );
    assert_eq!(gpu.power_limit_w.unwrap().0, 500.0);
    assert_eq!(gpu.default_power_limit_w.unwrap().0, 700.0);
    assert_eq!((gpu.pcie_generation, gpu.pcie_lanes), (Some(5), Some(16)));
    let bare = nvml::gpu_facts(Some(&stand_in(folder.path(), &["BARE"]))).unwrap();
    assert_eq!(
        serde_json::to_value(&bare.gpus[0]).unwrap(),
        serde_json::json!({"index": 0, "name": "Stand-in A"})
    );
    let failed = nvml::gpu_facts(Some(&stand_in(folder.path(), &["INIT_FAILS"])));
    assert!(failed.unwrap_err().to_string().contains("does not start"));
}
