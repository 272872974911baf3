//! Telemetry, statistics and logs of other tools, and rocprofv3: against what their files say by plain text search.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use std::path::Path;

use llmprof_record::import::{self, ImportError, Limits, Profile, Source};
use llmprof_record::issue::IssueCode;
use llmprof_record::memory::MemoryHistory;
use llmprof_record::samples::Samples;
use llmprof_record::summary::{GemmRow, Summary};
use llmprof_record::trace::Trace;
use llmprof_units::{Bytes, Nanos};

fn read(content: &[u8]) -> Result<(&'static str, Profile), ImportError> {
    let source = Source::from_bytes(Path::new("content"), content.to_vec(), &Limits::default())?;
    let importer = import::sniff(source.head())
        .ok_or_else(|| source.unusable("nothing known", "no importer knows it"))?;
    (importer.read)(&source).map(|profile| (importer.name, profile))
}

fn samples(name: &str, format: &str) -> Samples {
    match read(&support::unpacked(name)).unwrap() {
        (importer, Profile::Telemetry(samples)) if importer == format => *samples,
        (importer, other) => panic!("{name} was read as {importer}: {other:?}"),
    }
}

#[test]
fn nvml_csv_is_read_as_it_is_written() {
    let imported = samples("h200/nvml.csv", "nvml_csv");
    let text = String::from_utf8(support::unpacked("h200/nvml.csv")).unwrap();
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    let gpu = &imported.gpus[0];
    assert_eq!(gpu.rows.len(), rows.len());
    assert_eq!(gpu.memory_total_bytes, Some(Bytes(143_771 << 20)));
    let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
    let ours =
        |value: &dyn Fn(usize) -> f64| (0..rows.len()).map(value).sum::<f64>() / rows.len() as f64;
    assert!((ours(&|row| gpu.rows[row].power_w.unwrap().0) - mean(5)).abs() < 1e-9);
    assert!((ours(&|row| gpu.rows[row].gpu_percent.unwrap()) - mean(1)).abs() < 1e-9);
    assert!((ours(&|row| gpu.rows[row].sm_clock_hz.unwrap().0 / 1e6) - mean(3)).abs() < 1e-6);
    let span = rows.last().unwrap()[0] - rows[0][0];
    assert!((gpu.rows.last().unwrap().time_ns.seconds() - span).abs() < 1e-6);
    // Samples of 20 Hz, give or take what a reading takes.
    assert!(
        (40_000_000..70_000_000).contains(&imported.period_ns.0),
        "{:?}",
        imported.period_ns
    );
    // What a run writes is read again.
    let written = imported.nvml_csv().unwrap();
    let (_, Profile::Telemetry(again)) = read(written.as_bytes()).unwrap() else {
        panic!("telemetry")
    };
    assert_eq!(again.gpus[0].rows.len(), rows.len());
    assert_eq!(again.gpus[0].rows[7].power_w, gpu.rows[7].power_w);
    assert_eq!(
        again.gpus[0].rows[7].memory_used_bytes,
        gpu.rows[7].memory_used_bytes
    );
}

#[test]
fn dmon_and_query_of_one_machine() {
    let dmon = samples("h200/dmon.txt", "nvidia_smi_dmon");
    let rows = &dmon.gpus[0].rows;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].power_w.unwrap().0, 125.0);
    assert_eq!(rows[2].sm_clock_hz.unwrap().0, 345e6);
    assert_eq!(rows[2].time_ns, Nanos(2_000_000_000));
    assert_eq!(rows[0].gpu_percent, Some(2.0));
    assert!(
        dmon.issues
            .iter()
            .any(|issue| issue.code.as_str() == "gpu_telemetry.no_times")
    );

    let query = samples("h200/nvidia_smi_q.txt", "nvidia_smi_q");
    let gpu = &query.gpus[0];
    assert_eq!(gpu.name, "NVIDIA H200");
    assert_eq!(gpu.memory_total_bytes, Some(Bytes(143_771 << 20)));
    let row = &gpu.rows[0];
    assert_eq!(row.power_w.unwrap().0, 86.72);
    assert_eq!(row.power_instant_w.unwrap().0, 80.75);
    assert_eq!(row.sm_clock_hz.unwrap().0, 345e6);
    assert_eq!(row.memory_clock_hz.unwrap().0, 3201e6);
    assert_eq!(
        (row.temperature_c, row.memory_temperature_c),
        (Some(36.0), Some(40.0))
    );
    assert_eq!(row.performance_state, Some(0));
    assert_eq!(row.throttle_reasons.unwrap().to_string(), "gpu_idle");
    assert_eq!(row.pcie_tx.unwrap().0, 1_150_000.0);
}

fn telemetry(text: &str) -> Samples {
    match read(text.as_bytes()).unwrap() {
        (_, Profile::Telemetry(samples)) => *samples,
        other => panic!("{other:?}"),
    }
}

/// `dmon -s pucvmt`: every column that is read, with its unit, and its header again after some rows.
#[test]
fn every_column_of_dmon_has_its_unit() {
    let header = "# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk  pviol  tviol     fb   bar1  rxpci  txpci\n\
                  # Idx      W      C      C      %      %    MHz    MHz      %   bool     MB     MB   MB/s   MB/s\n";
    let rows = "    0    312     61     72     98     45   2619   1755      0      0   3072      5    120     48\n    \
                    1     71     33      -      0      0   2619    345      0      1      0      1      0      0\n";
    let later = "    0    701     70     80    100     60   2619   1500     35      1   3072      5      -      -\n    \
                     1     71     33      -      0      0   2619    345      0      0      0      1      0      0\n";
    let imported = telemetry(&format!("{header}{rows}{header}{later}"));
    assert_eq!(imported.gpus.len(), 2);
    let [first, second] = &imported.gpus[0].rows[..] else {
        panic!("two rows");
    };
    assert_eq!(
        (first.power_w.unwrap().0, first.gpu_percent),
        (312.0, Some(98.0))
    );
    assert_eq!(first.memory_percent, Some(45.0));
    assert_eq!(
        (first.temperature_c, first.memory_temperature_c),
        (Some(61.0), Some(72.0))
    );
    assert_eq!(first.sm_clock_hz.unwrap().0, 1755e6);
    assert_eq!(first.memory_clock_hz.unwrap().0, 2619e6);
    // It says MB and counts mebibytes; rates are of 10⁶ bytes.
    assert_eq!(first.memory_used_bytes, Some(Bytes(3072 << 20)));
    assert_eq!(
        (first.pcie_rx.unwrap().0, first.pcie_tx.unwrap().0),
        (120e6, 48e6)
    );
    assert_eq!(first.throttle_reasons.unwrap().0, 0);
    // Held back by power and by heat; rates that were not sampled are absent and not 0.
    assert_eq!(
        second.throttle_reasons.unwrap().to_string(),
        "software_power_cap|software_thermal"
    );
    assert_eq!((second.pcie_rx, second.pcie_tx), (None, None));
    assert_eq!(second.time_ns, Nanos(1_000_000_000));
    let other = &imported.gpus[1].rows[0];
    assert_eq!(other.memory_temperature_c, None);
    assert_eq!(
        other.throttle_reasons.unwrap().to_string(),
        "software_thermal"
    );
}

/// Names of before driver 530, two GPUs, and what a GPU does not have.
#[test]
fn queries_of_older_drivers_are_read_by_their_names() {
    let gpu = |bus: &str, name: &str, reason: &str, power: &str| {
        format!(
            "GPU {bus}\n    Product Name                          : {name}\n    Performance State                     : P2\n    \
             Clocks Throttle Reasons\n        Idle                              : Not Active\n        \
             HW Slowdown                       : {reason}\n            HW Thermal Slowdown           : {reason}\n            \
             HW Power Brake Slowdown       : Not Active\n    FB Memory Usage\n        \
             Total                             : 16160 MiB\n        Used                              : 1024 MiB\n    \
             BAR1 Memory Usage\n        Total                             : 16384 MiB\n        \
             Used                              : 3 MiB\n    Utilization\n        Gpu                               : 87 %\n        \
             Memory                            : 12 %\n    Temperature\n        \
             GPU Current Temp                  : 83 C\n        Memory Current Temp               : N/A\n    \
             Power Readings\n        Power Draw                        : {power}\n        \
             Power Limit                       : 300.00 W\n    Clocks\n        SM                                : 1380 MHz\n        \
             Memory                            : 877 MHz\n    Max Clocks\n        SM                                : 1530 MHz\n"
        )
    };
    let text = format!(
        "\n==============NVSMI LOG==============\n\nTimestamp                                 : Mon Jan  2 10:00:00 2023\n\
         Attached GPUs                             : 2\n{}{}",
        gpu(
            "00000000:1A:00.0",
            "Tesla V100-SXM2-16GB",
            "Active",
            "288.51 W"
        ),
        gpu(
            "00000000:1B:00.0",
            "Tesla T4",
            "Not Active",
            "[Unknown Error]"
        ),
    );
    let imported = telemetry(&text);
    let [hot, other] = &imported.gpus[..] else {
        panic!("two GPUs");
    };
    assert_eq!(
        (hot.name.as_str(), other.name.as_str()),
        ("Tesla V100-SXM2-16GB", "Tesla T4")
    );
    // Not the memory behind the BAR, and not the highest clocks.
    assert_eq!(hot.memory_total_bytes, Some(Bytes(16_160 << 20)));
    let row = &hot.rows[0];
    assert_eq!(row.memory_used_bytes, Some(Bytes(1 << 30)));
    assert_eq!(row.sm_clock_hz.unwrap().0, 1380e6);
    assert_eq!(
        (row.gpu_percent, row.memory_percent),
        (Some(87.0), Some(12.0))
    );
    assert_eq!(
        (row.temperature_c, row.memory_temperature_c),
        (Some(83.0), None)
    );
    assert_eq!(row.power_w.unwrap().0, 288.51);
    assert_eq!(row.performance_state, Some(2));
    assert_eq!(
        row.throttle_reasons.unwrap().to_string(),
        "hardware_slowdown|hardware_thermal"
    );
    assert_eq!(other.rows[0].power_w, None);
    assert_eq!(other.rows[0].throttle_reasons.unwrap().0, 0);
    let codes: Vec<&str> = imported
        .issues
        .iter()
        .map(|one| one.code.as_str())
        .collect();
    assert_eq!(codes, ["gpu_telemetry.one_moment"]);
}

#[test]
fn statistics_of_torch_are_those_of_the_snapshot_beside_them() {
    let memory = |name: &str| -> MemoryHistory {
        match read(&support::unpacked(name)).unwrap() {
            (_, Profile::Memory(memory)) => *memory,
            other => panic!("{name}: {other:?}"),
        }
    };
    let stats = memory("h200/memory_stats.json");
    let snapshot = memory("h200/memory_snapshot.pickle.gz");
    let (mut counted, segments) = (stats.devices[0].now, snapshot.devices[0].now);
    counted.largest_free_bytes = segments.largest_free_bytes;
    assert_eq!(counted, segments);
    let history = stats.devices[0].history.as_ref().unwrap();
    assert_eq!(history.peak.allocated_bytes.0, 1_268_952_576);
    assert!(
        stats
            .issues
            .iter()
            .all(|issue| issue.code.as_str() == "torch_stats.no_history")
    );
    let (_, Profile::Memory(poor)) = read(br#"{"reserved_bytes.all.current": 5}"#).unwrap() else {
        panic!("memory")
    };
    assert_eq!(poor.issues[0].code.as_str(), "torch_stats.missing");
}

fn gemms_in_order(name: &str) -> (Vec<GemmRow>, Vec<u32>) {
    match read(&support::unpacked(name)).unwrap() {
        ("cublas_log", Profile::Summary(table)) => match table.summary {
            Summary::Gemms(rows) => (rows, table.order),
            other => panic!("{other:?}"),
        },
        other => panic!("{name}: {other:?}"),
    }
}

fn gemms(name: &str) -> Vec<GemmRow> {
    gemms_in_order(name).0
}

/// By `grep Trace`: the angles of positions first; the head of the prompt after 24 layers of seven GEMMs; the head of the next
/// token last.
#[test]
fn calls_of_cublas_keep_their_order() {
    let (rows, order) = gemms_in_order("h200/cublas/cublaslt.log.gz");
    let shape = |call: usize| {
        let row = &rows[order[call] as usize];
        (row.m, row.n, row.k)
    };
    assert_eq!(order.len(), 340);
    assert_eq!(shape(0), (64, 32, 1));
    assert_eq!(shape(169), (151_936, 64, 896));
    assert_eq!(shape(339), (151_936, 1, 896));
    assert_eq!([shape(1), shape(2)], [(896, 64, 896), (128, 64, 896)]);
    for (number, row) in (0..).zip(&rows) {
        let calls = order.iter().filter(|row| **row == number).count();
        assert_eq!(calls as u64, row.calls);
    }
}

#[test]
fn logs_of_cublas_have_every_gemm() {
    let (cublas, lt) = (
        gemms("h200/cublas/cublas.log.gz"),
        gemms("h200/cublas/cublaslt.log.gz"),
    );
    let calls = |rows: &[GemmRow]| rows.iter().map(|row| row.calls).sum::<u64>();
    // By `grep -c`: 194 cublasGemmEx and 2 cublasSgemm; 340 Trace lines of a Matmul.
    assert_eq!((calls(&cublas), calls(&lt)), (196, 340));
    // The head of a model with 896 features and 151,936 words, of one token.
    let head = |rows: &[GemmRow]| {
        let row = rows
            .iter()
            .find(|row| (row.m, row.n, row.k) == (151_936, 1, 896));
        row.map(|row| (row.calls, row.dtype.clone(), row.transposed))
    };
    assert_eq!(head(&cublas), head(&lt));
    assert_eq!(head(&lt).unwrap(), (1, "R_16BF".to_owned(), [true, false]));
    let row = lt
        .iter()
        .find(|row| (row.m, row.n, row.k) == (151_936, 1, 896))
        .unwrap();
    assert_eq!(row.flops(), 2.0 * 151_936.0 * 896.0);
    // What cuBLAS was asked for, cuBLASLt did too.
    let total = |rows: &[GemmRow]| rows.iter().map(GemmRow::total_flops).sum::<f64>();
    assert!(total(&cublas) < total(&lt));
    let cut = support::unpacked("h200/cublas/cublas.log.gz");
    for end in [0, 40, 400, 4000, 40_000] {
        let _ = read(&cut[..end]);
    }
}

fn trace(name: &str) -> Trace {
    match read(&support::unpacked(name)).unwrap() {
        (_, Profile::Trace(trace)) => *trace,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn json_and_csv_of_rocprofv3_are_the_same_events() {
    let json = trace("rocprofv3/results.json");
    let kernels = trace("rocprofv3/kernel_trace.csv");
    let rows = |trace: &Trace| -> Vec<_> {
        let names = &trace.strings;
        let rows = trace.kernels.rows();
        rows.map(|k| {
            (
                names.get(k.name).to_owned(),
                k.start,
                k.duration,
                k.grid,
                k.block,
                k.correlation,
                k.registers,
                k.static_shared,
                k.device,
            )
        })
        .collect()
    };
    assert_eq!(rows(&json), rows(&kernels));
    // 8192 work-items in groups of 256 are 32 blocks.
    let first = rows(&json)[0].clone();
    assert_eq!(
        (first.1, first.2, first.3, first.4),
        (2_000, 5_000, [32, 4, 1], [256, 1, 1])
    );
    assert_eq!(
        first.0,
        "Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI32x32x8x1_SN_K1"
    );
    let copies = trace("rocprofv3/memory_copy_trace.csv");
    let kinds = |trace: &Trace| {
        trace
            .copies
            .rows()
            .map(|c| (c.kind, c.start, c.duration))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&json), kinds(&copies));
    let calls = trace("rocprofv3/hip_api_trace.csv");
    let hosts = |trace: &Trace| {
        let rows = trace.hosts.rows();
        rows.map(|h| {
            (
                trace.strings.get(h.name).to_owned(),
                h.start,
                h.duration,
                h.correlation,
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(hosts(&json), hosts(&calls));
    let markers = trace("rocprofv3/marker_api_trace.csv");
    assert_eq!(json.ranges.rows().count(), 1);
    assert_eq!(
        markers
            .strings
            .get(markers.ranges.rows().next().unwrap().name),
        "decode"
    );
    assert_eq!(json.devices[0].name, "AMD Instinct MI300X");
    assert_eq!(json.devices[0].sm_count, Some(304));
    // Every report of it says that nobody tried it on the real thing.
    assert!(
        json.issues
            .iter()
            .any(|issue| issue.code.as_str() == "rocprof.not_run")
    );
    let ("rocprofv3_csv", Profile::Summary(stats)) =
        read(&support::unpacked("rocprofv3/kernel_stats.csv")).unwrap()
    else {
        panic!("sums")
    };
    let Summary::Kernels(rows) = stats.summary else {
        panic!("kernels")
    };
    assert_eq!((rows[0].total_ns, rows[0].times.count), (Nanos(10_000), 2));
    support::check_truncation(&support::unpacked("rocprofv3/kernel_trace.csv"), 48);
    support::check_truncation(&support::unpacked("rocprofv3/results.json"), 48);
}

#[test]
fn statistics_of_calls_are_not_kernels() {
    let stats = |text: &[u8]| read(text).map(|(_, profile)| profile);
    let content = support::unpacked("rocprofv3/hip_api_stats.csv");
    let Ok(Profile::Summary(calls)) = stats(&content) else {
        panic!("sums")
    };
    let Summary::CudaApi(rows) = calls.summary else {
        panic!("calls of an API")
    };
    assert_eq!(rows[0].name, "hipStreamCreateWithFlags");
    let header = "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\"\n";
    let one = |name: &str| stats(format!("{header}\"{name}\",2,20,10.0\n").as_bytes());
    let of = |name: &str| match one(name) {
        Ok(Profile::Summary(table)) => table.summary,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        of("MEMORY_COPY_HOST_TO_DEVICE"),
        Summary::Memory(_)
    ));
    for kernel in [
        "hipblas_gemm(float*)",
        "ncclDevKernel_Generic_1",
        "Cijk_Alik",
    ] {
        assert!(matches!(of(kernel), Summary::Kernels(_)), "{kernel}");
    }
    assert!(one("KERNEL_DISPATCH").is_err());
}

/// An exporter that writes what is no number as the time of every event.
#[test]
fn a_file_whose_events_were_all_dropped_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let event = r#"{"ph": "X", "name": "aten::mm", "pid": 1, "tid": 1, "ts": "noon", "dur": 2}"#;
    let content = format!("[{event},{event}]");
    std::fs::write(&path, &content).unwrap();
    let packed = folder.path().join("trace.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, content.as_bytes()).unwrap();
    std::fs::write(&packed, gzip.finish().unwrap()).unwrap();
    for path in [path, packed] {
        let error = import::import(&path, &Limits::default()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("none of its 2 events can be used"), "{said}");
        let ImportError::NoEvents { worst, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(worst.unwrap().code, IssueCode::KinetoNoTime);
    }
}

#[test]
fn a_file_in_which_nothing_was_recorded_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let name = r#"{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}"#;
    for events in ["", name] {
        let content = format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#);
        std::fs::write(&path, content).unwrap();
        let error = import::import(&path, &Limits::default()).unwrap_err();
        assert!(matches!(error, ImportError::NoEvents { .. }), "{error}");
    }
}

#[test]
fn known_formats_that_are_not_read_say_what_to_export() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        import::import(&path, &Limits::default())
            .unwrap_err()
            .to_string()
    };
    let chakra = br#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "x", "nodes": []}"#;
    let said = refuse("b", chakra);
    assert!(
        said.contains("Chakra") && said.contains("export_chrome_trace"),
        "{said}"
    );
    let said = refuse("c", b"something else");
    assert!(said.contains("unrecognized format"), "{said}");
}
