//! Nsight Systems: the export against the tool's own reports, and the reports against their published totals.

use llmprof_units::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llmprof_record::import::{
    self, ImportError, Limits, Profile, Source, nsys_report, nsys_sqlite, nsys_stats,
};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::canonical;
use llmprof_record::summary::{self, Spread, Summary, SummaryTable, TimeRow};
use llmprof_record::trace::{CopyKind, HostKind, MemoryKind, RangeKind, SyncKind, Trace};
use proptest::prelude::*;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

fn trace() -> &'static Trace {
    static ONCE: OnceLock<Trace> = OnceLock::new();
    ONCE.get_or_init(|| {
        match import::import(&fixture("h200/nsys/qwen05.sqlite.gz"), &Limits::default())
            .expect("export")
        {
            ("nsys_sqlite", Profile::Trace(trace)) => *trace,
            (name, _) => panic!("taken for {name}"),
        }
    })
}

fn report(path: &Path) -> SummaryTable {
    match import::import(path, &Limits::default()).expect("report") {
        ("nsys_stats", Profile::Summary(table)) => *table,
        (name, _) => panic!("taken for {name}"),
    }
}

fn stats(name: &str) -> Summary {
    let table = report(&fixture(&format!("h200/nsys/stats_{name}.csv")));
    assert_eq!(table.issues, []);
    table.summary
}

/// As the tool prints: means, medians and deviations with one decimal.
fn assert_spread(ours: &Spread, theirs: &Spread, place: &str) {
    assert_eq!(
        (ours.count, ours.min, ours.max),
        (theirs.count, theirs.min, theirs.max),
        "{place}"
    );
    let pairs = [
        (Some(ours.mean), Some(theirs.mean)),
        (ours.median, theirs.median),
        (ours.deviation, theirs.deviation),
    ];
    for (ours, theirs) in pairs {
        let (ours, theirs) = (ours.expect("ours"), theirs.expect("theirs"));
        assert!(
            (ours - theirs).abs() <= 0.0501 + theirs.abs() * 1e-12,
            "{place}: {ours} and {theirs}"
        );
    }
}

fn assert_times(ours: &[TimeRow], theirs: &[TimeRow]) {
    assert_eq!(ours.len(), theirs.len());
    let ours: BTreeMap<_, _> = ours
        .iter()
        .map(|row| ((&row.name, &row.style), row))
        .collect();
    for row in theirs {
        let own = ours[&(&row.name, &row.style)];
        assert_eq!(own.total_ns, row.total_ns, "{}", row.name);
        assert_spread(&own.times, &row.times, &row.name);
    }
}

#[test]
fn api_calls_equal_the_report() {
    let Summary::CudaApi(theirs) = stats("cuda_api_sum") else {
        panic!("kind")
    };
    assert_times(&summary::api_times(trace()), &theirs);
}

#[test]
fn kernels_equal_the_report() {
    let Summary::Kernels(theirs) = stats("cuda_gpu_kern_sum") else {
        panic!("kind")
    };
    let ours = summary::kernel_times(trace());
    assert_times(&ours, &theirs);
    let order = |rows: &[TimeRow]| rows.iter().map(|row| row.total_ns).collect::<Vec<_>>();
    assert_eq!(order(&ours), order(&theirs));
}

#[test]
fn copies_and_memsets_equal_the_report() {
    let Summary::Memory(theirs) = stats("cuda_gpu_mem_time_sum") else {
        panic!("kind")
    };
    assert_times(&summary::memory_times(trace()), &theirs);
}

#[test]
fn ranges_equal_the_report() {
    let Summary::Ranges(theirs) = stats("nvtx_sum") else {
        panic!("kind")
    };
    assert_times(&summary::range_times(trace()), &theirs);
}

#[test]
fn executions_equal_the_report_row_by_row() {
    let Summary::Executions(theirs) = stats("cuda_kern_exec_sum") else {
        panic!("kind")
    };
    let ours = summary::kernel_executions(trace());
    assert_eq!(ours.len(), theirs.len());
    let ours: BTreeMap<_, _> = ours
        .iter()
        .map(|row| ((&row.api, &row.kernel), row))
        .collect();
    for row in &theirs {
        let own = ours[&(&row.api, &row.kernel)];
        assert_eq!(
            (own.process, own.thread, own.device),
            (row.process, row.thread, row.device)
        );
        assert_spread(&own.total, &row.total, "total");
        assert_spread(&own.call, &row.call, "call");
        assert_spread(&own.run, &row.run, "run");
        match (&own.queue, &row.queue) {
            (Some(own), Some(row)) => assert_spread(own, row, "queue"),
            (own, row) => assert_eq!(own, row),
        }
    }
}

#[test]
fn kernels_by_range_equal_the_report() {
    let Summary::RangeKernels(theirs) = stats("nvtx_kern_sum") else {
        panic!("kind")
    };
    let ours = summary::range_kernels(trace());
    assert_eq!(ours.len(), theirs.len());
    let ours: BTreeMap<_, _> = ours
        .iter()
        .map(|row| ((&row.range, &row.kernel), row))
        .collect();
    for row in &theirs {
        let own = ours[&(&row.range, &row.kernel)];
        assert_eq!(
            (&own.style, own.process, own.thread),
            (&row.style, row.process, row.thread)
        );
        assert_eq!(
            (own.range_instances, own.total_ns),
            (row.range_instances, row.total_ns),
            "{}",
            row.kernel
        );
        assert_spread(&own.times, &row.times, &row.kernel);
    }
}

#[test]
fn projections_equal_the_report() {
    let Summary::RangeProjections(theirs) = stats("nvtx_gpu_proj_sum") else {
        panic!("kind")
    };
    let ours = summary::range_projections(trace());
    assert_eq!(ours.len(), theirs.len());
    for (own, row) in ours.iter().zip(&theirs) {
        assert_eq!(
            (&own.range, &own.style, own.operations),
            (&row.range, &row.style, row.operations)
        );
        assert_eq!(
            (own.total_ns, own.total_range_ns),
            (row.total_ns, row.total_range_ns)
        );
        assert_eq!(
            (own.mean_level, own.mean_children),
            (row.mean_level, row.mean_children)
        );
        assert_spread(&own.times, &row.times, &row.range);
    }
}

#[test]
fn the_export_has_every_event_and_what_it_says_of_the_device() {
    let trace = trace();
    assert_eq!(trace.issues, []);
    assert_eq!(
        (trace.kernels.len(), trace.copies.len(), trace.memsets.len()),
        (10_655, 4, 70)
    );
    assert_eq!(
        (trace.hosts.len(), trace.ranges.len(), trace.syncs.len()),
        (26_364 + 26, 4, 1)
    );
    assert_eq!(trace.events_read, 10_655 + 4 + 70 + 26_364 + 26 + 4 + 1);
    assert_eq!(trace.syncs.row(0).kind, SyncKind::STREAM_WAIT);
    let copy = trace.copies.row(0);
    assert_eq!((copy.kind, copy.bytes), (CopyKind::HOST_TO_DEVICE, 2));
    assert_eq!(
        (copy.source, copy.target),
        (MemoryKind::PAGEABLE, MemoryKind::DEVICE)
    );
    let device = &trace.devices[0];
    assert_eq!((device.id, device.name.as_str()), (0, "NVIDIA H200"));
    assert_eq!(
        (device.sm_count, device.compute_capability),
        (Some(132), Some((9, 0)))
    );
    assert_eq!(device.memory_bandwidth_bytes_per_s, Some(4_814_304_000_000));
    assert_eq!(
        (device.max_threads_per_sm, device.l2_bytes),
        (Some(2048), Some(Bytes(62_914_560)))
    );
    assert_eq!(trace.metadata["driver_version"], "580.159.04");
    assert_eq!(trace.metadata["tool"], "nsys");
    assert_eq!(
        trace.clock_origin_ns,
        Some(Nanos(1_794_702_370_071_773_816))
    );
    // Mangled names lead to the same canonical name.
    for row in trace.kernels.rows().take(500) {
        assert_eq!(
            canonical(trace.text(row.mangled)),
            canonical(trace.text(row.name))
        );
    }
}

#[test]
fn environment_commands_and_hosts_do_not_pass() {
    let trace = trace();
    let metadata = format!(
        "{:?} {:?} {:?}",
        trace.metadata, trace.devices, trace.issues
    );
    let strings: Vec<&str> = trace.strings.iter().collect();
    for secret in [
        "generate.py",
        "qwen2_5_0_5b",
        "qwen05",
        "LaunchAnother",
        "/opt/nvidia",
        "Xeon",
        "Ubuntu",
    ] {
        assert!(!metadata.contains(secret), "{secret}");
        assert!(
            strings.iter().all(|text| !text.contains(secret)),
            "{secret}"
        );
    }
    assert!(strings.iter().all(|text| *text != "vm"));
}

#[test]
fn ranges_hold_launches_of_the_warm_half() {
    let Summary::RangeKernels(rows) = stats("nvtx_kern_sum") else {
        panic!("kind")
    };
    let launches: u64 = rows
        .iter()
        .filter(|row| row.range == ":decode")
        .map(|row| row.times.count)
        .sum();
    // Two instances of four steps of 1,006 kernels.
    assert_eq!(launches, 2 * 4 * 1006);
}

/// Kernel time of a decode step as two profilers saw it, in two runs of one program.
#[test]
fn kineto_and_nsys_agree_on_a_decode_step() {
    const STEP: usize = 1006;
    let warm = |trace: &Trace, after: i64| -> f64 {
        let mut kernels: Vec<_> = trace
            .kernels
            .rows()
            .filter(|row| row.start >= after)
            .collect();
        kernels.sort_by_key(|row| row.start);
        // The first step is the prefill.
        let decode = &kernels[STEP..];
        assert_eq!(decode.len() % STEP, 0);
        let total: i64 = decode.iter().map(|row| row.duration).sum();
        total as f64 / (decode.len() / STEP) as f64
    };
    let nsys = trace();
    let warm_prefill = nsys
        .ranges
        .rows()
        .filter(|row| nsys.text(row.name) == "prefill")
        .last()
        .expect("range");
    let nsys = warm(nsys, warm_prefill.start);
    let kineto = warm(
        &imported(&fixture("h200/torch_shapes.json.gz")).expect("trace"),
        i64::MIN,
    );
    assert!((nsys / kineto - 1.0).abs() < 1e-3, "{nsys} and {kineto}");
}

const STAGES: [(&str, usize, f64, u64); 6] = [
    ("all-stage", 113, 4946.065, 1_695_983),
    ("decode", 46, 179.073, 78_016),
    ("prefill", 97, 65.692, 6_660),
    ("sam", 36, 21.895, 652),
    ("clip", 19, 3.425, 387),
    ("projector", 2, 0.035, 2),
];

#[test]
fn the_ancestors_summaries_have_their_published_totals() {
    for (stage, rows, milliseconds, launches) in STAGES {
        let table = report(&fixture(&format!("ancestor/nsys/{stage}.csv")));
        assert_eq!(table.issues, []);
        let Summary::Kernels(kernels) = table.summary else {
            panic!("kind")
        };
        assert_eq!(kernels.len(), rows, "{stage}");
        let total: i64 = kernels.iter().map(|row| row.total_ns.0).sum();
        assert!(
            (total as f64 / 1e6 - milliseconds).abs() < 0.0006,
            "{stage}: {total}"
        );
        assert_eq!(
            kernels.iter().map(|row| row.times.count).sum::<u64>(),
            launches,
            "{stage}"
        );
    }
    let Summary::Kernels(decode) = report(&fixture("ancestor/nsys/decode.csv")).summary else {
        panic!("kind")
    };
    assert_eq!(
        (decode[0].total_ns, decode[0].times.count),
        (Nanos(61_602_133), 16_448)
    );
    assert_eq!(
        (decode[1].total_ns, decode[1].times.count),
        (Nanos(26_427_871), 2_304)
    );
}

fn source(name: &str, bytes: &[u8]) -> Result<Source, ImportError> {
    Source::from_bytes(Path::new(name), bytes.to_vec(), &Limits::default())
}

#[test]
fn headers_that_no_fixture_has_are_known() {
    type Expected = fn(&Summary) -> bool;
    let cases: [(&str, Expected); 5] = [
        (
            "Time (%),Total Time (us),Num Calls,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Name\n100.0,1.500,2,0.75,0.75,0.5,1.0,0.35,poll\n",
            |summary| matches!(summary, Summary::OsRuntime(rows) if rows[0].total_ns == Nanos(1500) && rows[0].times.min == 500.0),
        ),
        (
            "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n\"1,000.5\",1,1000.5,1000.5,1000.5,1000.5,0.0,[CUDA memcpy Host-to-Device]\n",
            |summary| matches!(summary, Summary::MemorySizes(rows) if rows[0].total_bytes == 1_000_500_000.0),
        ),
        (
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n1.0,5,1,5,5,5,5,0,7 1 1,128 1 1,k\n",
            |summary| matches!(summary, Summary::KernelsBySize(rows) if rows[0].grid == Some([7, 1, 1])),
        ),
        (
            "Processing [x.sqlite] with [report.py]...\n\nTime(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n1.0,5,1,5,5,5,k\n",
            |summary| matches!(summary, Summary::Kernels(rows) if rows[0].times.median.is_none()),
        ),
        (
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n1.0,5,1,5,5,5,5,0,CUDA_KERNEL,k\n",
            |summary| matches!(summary, Summary::Device(rows) if rows[0].style.as_deref() == Some("CUDA_KERNEL")),
        ),
    ];
    for (text, expected) in cases {
        let table = nsys_stats::read(&source("report.csv", text.as_bytes()).expect("text"))
            .expect("report");
        assert_eq!(table.issues, [], "{text}");
        assert!(expected(&table.summary), "{:?}", table.summary);
    }
}

#[test]
fn a_bad_cell_is_named_by_line_and_column() {
    let text = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n1.0,5,1,5,5,5,5,0,k\n1.0,x5,1,5,5,5,5,0,k\n1.0,5\n";
    let table =
        nsys_stats::read(&source("report.csv", text.as_bytes()).expect("text")).expect("report");
    assert!(matches!(&table.summary, Summary::Kernels(rows) if rows.len() == 1));
    let cut = Issue::warning(IssueCode::NsysStatsCutRow).with("line", 4);
    let bad = Issue::warning(IssueCode::NsysStatsBadRow).with("line", 3);
    assert_eq!(
        table.issues,
        [
            cut.with("cells", 2).with("columns", 9),
            bad.with("column", "Total Time (ns)").with("cell", "x5")
        ]
    );
}

fn copy_of_export(folder: &Path) -> PathBuf {
    let unpacked =
        Source::open(&fixture("h200/nsys/qwen05.sqlite.gz"), &Limits::default()).expect("fixture");
    let path = folder.join("export.sqlite");
    std::fs::write(&path, unpacked.bytes()).expect("written");
    path
}

fn imported(path: &Path) -> Result<Trace, ImportError> {
    match import::import(path, &Limits::default())? {
        (_, Profile::Trace(trace)) => Ok(*trace),
        (name, _) => panic!("taken for {name}"),
    }
}

/// Kernels have an occupancy of NaN, which is not equal to itself.
fn assert_same(other: &Trace) {
    let whole = trace();
    assert!(
        whole.strings == other.strings
            && whole.threads == other.threads
            && whole.hosts == other.hosts
    );
    assert!(
        whole.ranges == other.ranges
            && whole.copies == other.copies
            && whole.memsets == other.memsets
    );
    let mut kernels = whole.kernels.rows().zip(other.kernels.rows());
    assert!(
        kernels
            .all(|(a, b)| a.start == b.start && a.name == b.name && a.correlation == b.correlation)
    );
    assert_eq!(
        (&whole.metadata, &whole.devices),
        (&other.metadata, &other.devices)
    );
}

#[test]
fn a_plain_file_reads_as_a_packed_one() {
    let folder = tempfile::tempdir().expect("folder");
    let path = copy_of_export(folder.path());
    assert_same(&imported(&path).expect("trace"));
    // Whatever it is called.
    let odd = folder.path().join("a b%20?#.csv");
    std::fs::rename(&path, &odd).expect("renamed");
    assert_same(&imported(&odd).expect("trace"));
}

/// The export with changes that no fixture has: graphs, streams, processes, domains, other versions.
fn changed(changes: &str) -> Trace {
    let folder = tempfile::tempdir().expect("folder");
    let path = copy_of_export(folder.path());
    let database = rusqlite::Connection::open(&path).expect("database");
    database.execute_batch(changes).expect("changes");
    drop(database);
    imported(&path).expect("trace")
}

fn codes(trace: &Trace) -> Vec<&str> {
    trace
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect()
}

#[test]
fn graph_nodes_share_their_launch_and_name_their_graph() {
    let trace = changed(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = (5 << 32) + rowid, correlationId = 148 WHERE rowid <= 100;",
    );
    let nodes: Vec<_> = trace
        .kernels
        .rows()
        .filter(|row| row.graph_node != 0)
        .collect();
    assert_eq!(nodes.len(), 100);
    assert!(
        nodes
            .iter()
            .all(|row| row.graph == 5 && row.correlation == 148)
    );
}

#[test]
fn a_graph_traced_whole_is_one_row_and_an_issue() {
    let trace = changed(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
           streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (21924154113, 21924155113, 0, 1, 7, 9, 281482140581888, 3, 4);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 0, 0, 1, 7, 9, 281482140581888, 3, 4);",
    );
    let whole: Vec<_> = trace
        .kernels
        .rows()
        .filter(|row| trace.text(row.name) == "[CUDA graph]")
        .collect();
    assert_eq!(whole.len(), 1);
    assert_eq!((whole[0].graph, whole[0].duration), (3, 1000));
    assert_eq!(
        codes(&trace),
        ["nsys.graphs_whole", "nsys.graphs_without_time"]
    );
}

#[test]
fn ranges_nest_in_domains_and_open_ones_end_with_the_capture() {
    let trace = changed(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (1, NULL, 75, 'lib', 281482140582315, 2);
         INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (24654591700, 24783869400, 59, 'inner', 281482140582315, 2);
         INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (24654591700, NULL, 60, 'open', 281482140582315, 0);
         INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (24654591700, NULL, 34, 'mark', 281482140582315, 0);",
    );
    assert_eq!(codes(&trace), ["nsys.open_range"]);
    let by_name = |name: &str| {
        trace
            .ranges
            .rows()
            .find(|row| trace.text(row.name) == name)
            .expect("range")
    };
    assert_eq!(trace.text(by_name("inner").domain), "lib");
    assert_eq!(
        (by_name("mark").kind, by_name("mark").duration),
        (RangeKind::MARK, 0)
    );
    assert!(by_name("open").duration > 0);
    let projections = summary::range_projections(&trace);
    let level = |name: &str| {
        projections
            .iter()
            .find(|row| row.range == name)
            .map(|row| (row.mean_level, row.mean_children))
    };
    assert_eq!(level("lib:inner").expect("inner").0, 2.0);
    assert_eq!(level(":decode"), Some((0.0, 0.5)));
}

#[test]
fn processes_keep_their_correlations_and_devices_apart() {
    // A second process with the same ids, whose device 0 is the machine's GPU 1.
    let trace = changed(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start, end, eventClass, globalTid + (1 << 24), correlationId, nameId, returnValue, callchainId
           FROM CUPTI_ACTIVITY_KIND_RUNTIME;
         CREATE TEMP TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL; UPDATE k SET globalPid = globalPid + (1 << 24);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM k;
         INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 428);",
    );
    assert_eq!(codes(&trace), ["nsys.devices_renumbered"]);
    let on = |device: u32| {
        trace
            .kernels
            .rows()
            .filter(|row| row.device == device)
            .count()
    };
    assert_eq!((on(0), on(1)), (10_655, 10_655));
    let rows = summary::kernel_executions(&trace);
    assert_eq!(
        rows.len(),
        2 * summary::kernel_executions(self::trace()).len()
    );
    assert!(
        rows.iter()
            .all(|row| row.process - 427 == i64::from(row.device))
    );
}

#[test]
fn other_tables_and_older_columns_are_tolerated() {
    let trace = changed(
        "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
         INSERT INTO OSRT_API VALUES (5, 9, 27, 281482140582315, 3, (SELECT id FROM StringIds WHERE value LIKE 'cudaMalloc_v%'));
         CREATE TABLE GPU_METRICS (timestamp INTEGER, value INTEGER); INSERT INTO GPU_METRICS VALUES (1, 2), (2, 3);
         ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN graphNodeId;
         ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN mangledName;
         ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN eventClass;
         DROP TABLE ENUM_CUDA_MEMCPY_OPER; DROP TABLE TARGET_INFO_GPU; DROP TABLE ThreadNames;
         DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET; DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;",
    );
    assert_eq!(codes(&trace), ["nsys.not_read"]);
    assert_eq!(trace.issues[0].count, 2);
    assert_eq!(trace.kernels.len(), 10_655);
    let system: Vec<_> = trace
        .hosts
        .rows()
        .filter(|row| row.kind == HostKind::SYSTEM)
        .collect();
    assert_eq!((system.len(), system[0].correlation), (1, 0));
    let drivers = |trace: &Trace| {
        trace
            .hosts
            .rows()
            .filter(|row| row.kind == HostKind::DRIVER)
            .count()
    };
    assert_eq!(drivers(&trace), drivers(self::trace()));
    assert_eq!(
        summary::kernel_times(&trace),
        summary::kernel_times(self::trace())
    );
}

#[test]
fn bad_rows_and_missing_columns_are_named() {
    let trace = changed(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 3;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5 WHERE rowid = 4;
         ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN start TO begin;",
    );
    assert_eq!(
        codes(&trace),
        [
            "nsys.ends_before_start",
            "nsys.missing_column",
            "nsys.unusable_row"
        ]
    );
    assert_eq!(trace.issues[1].count, 70);
    let of = |issue: usize, key: &str| trace.issues[issue].values[key].clone();
    assert_eq!(of(1, "table"), "CUPTI_ACTIVITY_KIND_MEMSET");
    assert_eq!(of(1, "column"), "start");
    assert_eq!((of(2, "row"), of(2, "column")), (3.into(), "start".into()));
    assert_eq!(trace.kernels.len(), 10_654);
    assert!(trace.kernels.rows().all(|row| row.duration >= 0));
}

#[test]
fn the_wrong_kind_of_database_is_refused_with_its_tables() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("other.sqlite");
    let database = rusqlite::Connection::open(&path).expect("database");
    database
        .execute_batch("CREATE TABLE songs (id); CREATE TABLE StringIds (id, value);")
        .expect("tables");
    drop(database);
    let error = imported(&path).expect_err("refused").to_string();
    assert!(
        error.contains("other.sqlite") && error.contains("songs"),
        "{error}"
    );
    std::fs::write(&path, b"").expect("written");
    assert!(matches!(imported(&path), Err(ImportError::NotAFile { .. })));
    std::fs::write(&path, b"SQLite format 3\0nothing").expect("written");
    assert!(matches!(imported(&path), Err(ImportError::Unusable { .. })));
    let empty = tempfile::tempdir().expect("folder");
    assert!(matches!(
        imported(empty.path()),
        Err(ImportError::Directory { .. })
    ));
}

/// A stand-in for the tool: a script that leaves the export where it was reported to, or complains.
fn tool(folder: &Path, name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

#[test]
fn a_report_goes_through_the_tool() {
    let folder = tempfile::tempdir().expect("folder");
    let export = copy_of_export(folder.path());
    let report = folder.path().join("run.nsys-rep");
    std::fs::write(&report, b"\x01report").expect("written");
    // `nsys export --type sqlite --force-overwrite true --output FILE REPORT`
    let copies = format!(
        "[ \"$1 $2 $3 $8\" = 'export --type sqlite {}' ] && cp '{}' \"$7\"",
        report.display(),
        export.display()
    );
    let works = tool(folder.path(), "works", &copies);
    match nsys_report::read(&report, Some(&works), &Limits::default()).expect("profile") {
        Profile::Trace(trace) => assert_same(&trace),
        _ => panic!("not a trace"),
    }
    let fails = tool(
        folder.path(),
        "fails",
        "echo 'Exportation error: not a report' >&2; exit 1",
    );
    let refusal = |tool: Option<&Path>| {
        let read = nsys_report::read(&report, tool, &Limits::default());
        read.expect_err("refused").to_string()
    };
    let error = refusal(Some(fails.as_path()));
    assert!(
        error.contains("run.nsys-rep") && error.contains("not a report"),
        "{error}"
    );
    assert!(refusal(None).contains("nsys export --type sqlite"));
    assert!(refusal(Some(folder.path().join("absent").as_path())).contains("could not be started"));
}

#[test]
fn a_directory_of_counters_is_a_profile() {
    match import::import(&fixture("ancestor/ncu"), &Limits::default()).expect("profile") {
        ("ncu_csv", Profile::Counters(counters)) => assert_eq!(counters.launches.len(), 20),
        (name, _) => panic!("{name}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_damaged_database_is_an_error_or_has_issues(
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
        let whole = WHOLE.get_or_init(|| {
            Source::open(&fixture("h200/nsys/qwen05.sqlite.gz"), &Limits::default()).expect("fixture").bytes().to_vec()
        });
        let mut bytes = whole[..16 + cut.index(whole.len() - 16)].to_vec();
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if !bytes.starts_with(b"SQLite format 3\0") {
            return Ok(());
        }
        let source = source("damaged.sqlite", &bytes).expect("content");
        if let Ok(trace) = nsys_sqlite::read(&source) {
            prop_assert!(!trace.issues.is_empty() || trace.events_read <= whole_events());
        }
    }

    #[test]
    fn reports_cut_or_flipped_never_panic(
        report in 0_usize..7,
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 0..10),
    ) {
        let names = ["cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_kern_exec_sum",
            "nvtx_gpu_proj_sum", "nvtx_kern_sum", "nvtx_sum"];
        let mut bytes = std::fs::read(fixture(&format!("h200/nsys/stats_{}.csv", names[report]))).expect("fixture");
        bytes.truncate(cut.index(bytes.len()) + 1);
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        if let Ok(source) = source("report.csv", &bytes) {
            let _ = nsys_stats::read(&source);
        }
    }
}

fn whole_events() -> u64 {
    trace().events_read
}

#[test]
fn a_report_cut_anywhere_keeps_whole_rows_and_says_what_is_lost() {
    let bytes = std::fs::read(fixture("h200/nsys/stats_cuda_gpu_kern_sum.csv")).expect("fixture");
    let header = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("header")
        + 1;
    for cut in (header..bytes.len()).step_by(11) {
        let part = &bytes[..cut];
        let table = nsys_stats::read(&source("report.csv", part).expect("text")).expect("header");
        let Summary::Kernels(rows) = table.summary else {
            panic!("kind")
        };
        let lines = line_breaks(&part[header..]);
        let whole_end = part.ends_with(b"\n");
        assert!(
            rows.len() == lines || (rows.len() == lines + 1 && !whole_end),
            "cut at {cut}"
        );
        assert_eq!(
            table.issues.is_empty(),
            whole_end || rows.len() == lines + 1,
            "cut at {cut}"
        );
    }
}

fn line_breaks(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// A table of a module runs the module's code when it is read: whatever its name, it is not looked at.
#[test]
fn tables_of_modules_are_not_read() {
    use llmprof_record::import::{Limits, Profile, import};
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, kind: &str| {
        let path = folder.path().join(name);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute_batch(&format!(
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                 CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, \"end\" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
                 INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel');
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 5, 281474976710657, 7, 1);
                 CREATE {kind} (start, \"end\", eventType, text, globalTid);
                 INSERT INTO NVTX_EVENTS (start, \"end\", eventType, text, globalTid) VALUES (1, 9, 59, 'decode', 281474976710657);"
            ))
            .unwrap();
        drop(connection);
        match import(&path, &Limits::default()).unwrap().1 {
            Profile::Trace(trace) => (trace.hosts.len(), trace.ranges.len()),
            _ => panic!("a timeline"),
        }
    };
    assert_eq!(read("plain.sqlite", "TABLE NVTX_EVENTS"), (1, 1));
    let module = "VIRTUAL TABLE NVTX_EVENTS USING fts5";
    assert_eq!(read("module.sqlite", module), (1, 0));
}

/// A page that is named by many pages above it makes a small file a database of any size.
#[test]
fn pages_that_are_named_again_and_again_do_not_multiply() {
    use llmprof_record::import::{Limits, import};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dag.sqlite");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 512;
             CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, \"end\" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
             CREATE VIRTUAL TABLE words USING fts5(text);",
        )
        .unwrap();
    connection
        .execute_batch(
            "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
             INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT n, n + 5, 281474976710657, n, 1 FROM numbers;",
        )
        .unwrap();
    let root: usize = connection
        .query_row(
            "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'",
            [],
            |row| row.get::<_, i64>(0),
        )
        .unwrap() as usize;
    drop(connection);
    // Every cell of an interior page names its first child: https://www.sqlite.org/fileformat.html#b_tree_pages
    let mut bytes = std::fs::read(&path).unwrap();
    let page_bytes = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let mut page = (root - 1) * page_bytes;
    for _ in 0..4 {
        if bytes[page] != 5 {
            break;
        }
        let cells = usize::from(u16::from_be_bytes([bytes[page + 3], bytes[page + 4]]));
        let cell = |bytes: &[u8], index: usize| {
            let at = page + 12 + 2 * index;
            page + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
        };
        let first = cell(&bytes, 0);
        let child: [u8; 4] = bytes[first..first + 4].try_into().unwrap();
        for index in 0..cells {
            let at = cell(&bytes, index);
            bytes[at..at + 4].copy_from_slice(&child);
        }
        bytes[page + 8..page + 12].copy_from_slice(&child);
        page = (u32::from_be_bytes(child) as usize - 1) * page_bytes;
    }
    std::fs::write(&path, &bytes).unwrap();
    // Whatever is read, it is no more than the file can hold.
    if let Ok((_, llmprof_record::import::Profile::Trace(trace))) =
        import(&path, &Limits::default())
    {
        assert!(trace.hosts.len() <= bytes.len() / 4);
    }
}
