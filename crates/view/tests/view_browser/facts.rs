//! Facts of a real trace, each computed a second way.

use std::path::Path;
use std::sync::Arc;

use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_view::{OpenedRun, Site};
use serde_json::Value;

/// Bf16 FLOP/s of an H200 without sparsity, and bytes a second of its memory, by NVIDIA's datasheet.
const H200: (f64, f64) = (989.4e12, 4.8e12);
/// Kernels are table 1 of an event's number.
const KERNELS: usize = 1 << 28;

fn site_of(fixture: &str) -> Site {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let (_, profile) = import(&root.join(fixture), &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("{fixture} is no timeline")
    };
    let record = RunRecord {
        name: fixture.to_owned(),
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    let analysis = llmprof_analysis::analyze(&record, None).unwrap();
    let run = OpenedRun::new(fixture.to_owned(), record, Some(analysis), None).unwrap();
    Site {
        runs: vec![Arc::new(run)],
    }
}

fn ask(site: &Site, path: &str, query: &[(&str, &str)]) -> Value {
    let query: Vec<(String, String)> = query
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let reply = site.reply(path, &query).unwrap();
    serde_json::from_slice(&reply.body).unwrap()
}

/// Dimensions of `bf16[4,896]`.
fn dimensions(input: &str) -> Option<(f64, f64)> {
    let (rows, columns) = input
        .strip_prefix("bf16[")?
        .strip_suffix(']')?
        .split_once(',')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

/// The time of `aten::mm` by hand: operations over the peak, or bytes over the bandwidth.
#[test]
fn a_gemm_has_the_roofline_time_of_its_shapes() {
    let site = site_of("h200/torch_shapes.json.gz");
    let kernels = site.runs[0].record.traces[0].trace.kernels.len();
    let mut checked = 0;
    for row in 0..kernels {
        let event = ask(&site, &format!("r/0/event/0/{}", KERNELS + row), &[]);
        let fact = |key: &str| {
            let facts = event["facts"].as_array().unwrap();
            facts
                .iter()
                .find(|fact| fact[0] == key)
                .map(|fact| fact[1].clone())
        };
        let (Some(inputs), Some(least)) = (fact("inputs"), fact("operator_roofline_time_ns"))
        else {
            continue;
        };
        if fact("operator").unwrap() != "aten::mm" {
            continue;
        }
        let inputs: Vec<&str> = inputs.as_str().unwrap().split(", ").collect();
        let (Some((m, k)), Some((_, n))) = (dimensions(inputs[0]), dimensions(inputs[1])) else {
            continue;
        };
        let by_flops = 2.0 * m * n * k / H200.0;
        let by_bytes = 2.0 * (m * k + k * n + m * n) / H200.1;
        let expected = by_flops.max(by_bytes) * 1e9;
        let least = least.as_f64().unwrap();
        assert!(
            (least / expected - 1.0).abs() < 0.03,
            "{inputs:?}: {least} ns, by hand {expected} ns"
        );
        checked += 1;
    }
    assert!(checked > 100, "{checked} GEMMs have shapes");
}

#[test]
fn modules_of_a_selection_sum_up_to_its_device_time() {
    let site = site_of("h200/torch_full.json.gz");
    let span = site.runs[0].timeline.span;
    for (from, to) in [(0, span), (span / 3, span / 2)] {
        let totals = ask(
            &site,
            "r/0/totals",
            &[("from", &from.to_string()), ("to", &to.to_string())],
        );
        let sum = |part: &str, key: &str| {
            let rows = totals[part].as_array().unwrap();
            rows.iter()
                .map(|row| row[key].as_i64().unwrap())
                .sum::<i64>()
        };
        assert_eq!(sum("modules", "total_ns"), sum("categories", "total_ns"));
        assert_eq!(sum("modules", "count"), sum("categories", "count"));
        let names: Vec<&str> = totals["modules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["module"].as_str().unwrap())
            .collect();
        assert!(
            names.iter().any(|name| name.contains("DecoderLayer")),
            "{names:?}"
        );
    }
}
