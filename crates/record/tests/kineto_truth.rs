//! Kineto fixtures against an independent count of the same files (`fixtures/kineto_counts.py`).

#![expect(clippy::unwrap_used, reason = "what a test cannot read ends it")]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process::Command;

use llmprof_record::trace::{HostKind, RangeKind, StrId, Trace};
use serde_json::{Value, json};

/// What the recipe counts, taken from our columns.
fn counts(trace: &Trace) -> Value {
    let mut categories = BTreeMap::new();
    let mut add = |category: &str, rows: Vec<(StrId, i64, i64, u32, u64)>| {
        if rows.is_empty() {
            return;
        }
        categories.insert(
            category.to_owned(),
            json!({
                "count": rows.len(),
                "names": rows.iter().map(|row| row.0).collect::<BTreeSet<_>>().len(),
                "duration_ns": rows.iter().map(|row| row.2).sum::<i64>(),
                "first_start_ns": rows.iter().map(|row| row.1).min(),
                "last_end_ns": rows.iter().map(|row| row.1 + row.2).max(),
                "correlation_sum": rows.iter().map(|row| u64::from(row.3)).sum::<u64>(),
                "external_sum": rows.iter().map(|row| row.4).sum::<u64>(),
            }),
        );
    };
    for &kind in HostKind::ALL {
        let rows = trace.hosts.rows().filter(|host| host.kind == kind);
        add(
            kind.name(),
            rows.map(|h| (h.name, h.start, h.duration, h.correlation, h.external))
                .collect(),
        );
    }
    let capture = trace
        .ranges
        .rows()
        .filter(|range| range.kind == RangeKind::CAPTURE);
    add(
        "Trace",
        capture
            .map(|r| (r.name, r.start, r.duration, 0, r.external))
            .collect(),
    );
    add(
        "kernel",
        trace
            .kernels
            .rows()
            .map(|k| (k.name, k.start, k.duration, k.correlation, k.external))
            .collect(),
    );
    add(
        "gpu_memset",
        trace
            .memsets
            .rows()
            .map(|m| (m.name, m.start, m.duration, m.correlation, m.external))
            .collect(),
    );
    add(
        "gpu_memcpy",
        trace
            .copies
            .rows()
            .map(|c| (c.name, c.start, c.duration, c.correlation, c.external))
            .collect(),
    );

    let mut dtypes: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut tensors, mut elements, mut strides, mut values) = (0_u64, 0_i64, 0_i64, 0_u64);
    let mut distinct = BTreeSet::new();
    for host in trace.hosts.rows() {
        for argument in trace.inputs.arguments(host.inputs) {
            *dtypes.entry(trace.text(argument.dtype())).or_default() += 1;
            if argument.value() != StrId::EMPTY {
                values += 1;
                distinct.insert(argument.value());
            }
            for tensor in argument.tensors() {
                tensors += 1;
                elements += tensor.dims.iter().product::<i64>();
                strides += tensor.strides.iter().sum::<i64>();
            }
        }
    }
    let product = |three: [u32; 3]| three.iter().map(|&n| u64::from(n)).product::<u64>();
    let kernels = &trace.kernels;
    json!({
        "events": trace.events_read,
        "categories": categories,
        "kernel_threads": kernels.rows().map(|k| product(k.grid) * product(k.block)).sum::<u64>(),
        "kernel_registers": kernels.registers.iter().sum::<u32>(),
        "kernel_shared_bytes": kernels.static_shared.iter().sum::<u32>(),
        "kernel_occupancy_percent": kernels.occupancy.iter().sum::<f32>() as u64,
        "kernel_streams": kernels.stream.iter().collect::<BTreeSet<_>>(),
        "memset_bytes": trace.memsets.bytes.iter().sum::<u64>(),
        "input_dtypes": dtypes,
        "input_tensors": tensors,
        "input_elements": elements,
        "input_strides": strides,
        "input_values": values,
        "input_distinct_values": distinct.len(),
        "memory_events": trace.memory.len(),
        "memory_bytes": trace.memory.bytes.iter().sum::<i64>(),
        "memory_max_allocated": trace.memory.allocated.iter().max().unwrap_or(&0),
        "memory_addresses": trace.memory.address.iter().collect::<BTreeSet<_>>().len(),
        "python_ids": trace.hosts.python_id.iter().map(|&id| u64::from(id)).sum::<u64>(),
        "python_parents": trace.hosts.python_parent.iter().map(|&id| u64::from(id)).sum::<u64>(),
        "sm_count": trace.devices.iter().map(|device| device.sm_count).collect::<Vec<_>>(),
        "clock_origin_ns": trace.clock_origin_ns,
    })
}

fn check(name: &str) -> String {
    let (trace, digest) = support::check_timeline(&format!("h200/{name}.json.gz"), "kineto");
    let expected = fs::read(support::fixture(&format!("h200/{name}.counts.json"))).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let counted = counts(&trace);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&counted[key], value, "{name}: {key}");
    }
    digest
}

#[test]
fn shapes_fixture() {
    insta::assert_snapshot!(check("torch_shapes"));
}

#[test]
fn stacks_and_memory_fixture() {
    insta::assert_snapshot!(check("torch_full"));
}

/// The counts in the repository are what the recipe gives.
#[test]
#[ignore = "live: needs Python"]
fn counts_are_what_python_counts() {
    for name in ["torch_shapes", "torch_full"] {
        let python = env::var_os("LLMPROF_PYTHON").unwrap_or_else(|| "python3".into());
        let output = Command::new(python)
            .arg(support::fixture("kineto_counts.py"))
            .arg(support::fixture(&format!("h200/{name}.json.gz")))
            .output()
            .unwrap();
        let live: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stored = fs::read(support::fixture(&format!("h200/{name}.counts.json"))).unwrap();
        assert_eq!(live, serde_json::from_slice::<Value>(&stored).unwrap());
    }
}

/// Chrome JSON that we write reads back as the same trace; the arrows add events, nothing else changes.
#[test]
fn chrome_export_reads_back_equal() {
    for name in ["torch_shapes", "torch_full"] {
        let trace =
            support::import_bytes(&support::unpacked(&format!("h200/{name}.json.gz"))).unwrap();
        let mut chrome = Vec::new();
        trace.write_chrome(&mut chrome).unwrap();
        serde_json::from_slice::<serde::de::IgnoredAny>(&chrome).expect("valid JSON");
        let mut back = support::import_bytes(&chrome).unwrap();
        back.events_read = trace.events_read;
        support::assert_same(&back, &trace);
    }
}

#[test]
fn sqlite_export_has_the_same_sums() {
    let trace = support::import_bytes(&support::unpacked("h200/torch_full.json.gz")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.sqlite");
    trace.write_sqlite(&path, |_| Ok(())).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let number = |query: &str| {
        database
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(
        number("SELECT sum(duration) FROM kernels"),
        trace.kernels.duration.iter().sum::<i64>()
    );
    assert_eq!(
        number("SELECT count(*) FROM hosts_view WHERE kind = 'cpu_op' AND name LIKE 'aten::%'"),
        {
            let operators = trace
                .hosts
                .rows()
                .filter(|host| host.kind == HostKind::OPERATOR);
            operators
                .filter(|host| trace.text(host.name).starts_with("aten::"))
                .count() as i64
        }
    );
    assert_eq!(
        number("SELECT sum(grid_x * grid_y * grid_z) FROM kernels"),
        {
            let blocks = trace
                .kernels
                .grid
                .iter()
                .map(|grid| grid.iter().map(|&n| i64::from(n)).product::<i64>());
            blocks.sum::<i64>()
        }
    );
    assert_eq!(
        number("SELECT max(allocated) FROM memory_events"),
        *trace.memory.allocated.iter().max().unwrap() as i64
    );
    assert_eq!(number("SELECT count(DISTINCT id) FROM inputs"), {
        let lists = 0..trace.inputs.len() as u32;
        let used = lists.filter(|&id| {
            trace
                .inputs
                .arguments(llmprof_record::trace::InputsId(id))
                .len()
                > 0
        });
        used.count() as i64
    });
    assert!(
        trace.write_sqlite(&path, |_| Ok(())).is_err(),
        "an export does not overwrite"
    );
}
