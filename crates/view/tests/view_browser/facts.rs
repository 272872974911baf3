//! Facts of a real trace, each computed a second way.

use std::path::Path;
use std::sync::Arc;

use llmprof_analysis::compare::{CompareOptions, Comparison};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{MeasuredPass, RecordedTrace, Request, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_report::compose::compare::facts_of;
use llmprof_units::Nanos;
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

/// The sample with GEMMs of which every call takes 10 % longer, give or take 1 %.
fn slower_gemms() -> OpenedRun {
    let mut builder = crate::sample::events();
    let kernels = std::mem::take(&mut builder.kernels);
    for (row, mut kernel) in kernels.rows().enumerate() {
        if kernel.duration == crate::sample::GEMM_NS {
            kernel.duration += kernel.duration * (9 + row as i64 / 2 % 3) / 100;
        }
        builder.kernels.push(kernel);
    }
    opened("slower", measured(builder.finish(), 1_060))
}

fn opened(title: &str, record: RunRecord) -> OpenedRun {
    let analysis = llmprof_analysis::analyze(&record, None).unwrap();
    OpenedRun::new(title.to_owned(), record, Some(analysis), None).unwrap()
}

/// A trace with eight passes that were measured without a profiler, of 20 tokens each, about so many µs apart.
fn measured(trace: Trace, tpot_us: i64) -> RunRecord {
    let request = |pass: i64| {
        let token = |number: i64| Nanos((number + 1) * (tpot_us + pass % 3) * 1_000);
        Request {
            id: pass.to_string(),
            pass: pass as usize,
            token_ns: (0..20).map(token).collect(),
            prompt_tokens: 128,
            output_tokens: 20,
            batch: 1,
            ..Request::default()
        }
    };
    RunRecord {
        name: "measured".to_owned(),
        passes: vec![MeasuredPass::default(); 8],
        requests: (0..8).map(request).collect(),
        traces: vec![RecordedTrace { pass: None, trace }],
        ..RunRecord::default()
    }
}

#[test]
fn a_comparison_has_the_intervals_of_the_command() {
    let first = Arc::new(opened("first", measured(crate::sample::trace(), 1_000)));
    let second = Arc::new(slower_gemms());
    let site = Site {
        runs: vec![Arc::clone(&first), Arc::clone(&second)],
    };
    let compared = ask(&site, "compare/0/1.json", &[]);
    let kernels = compared["kernels"].as_array().unwrap();
    let gemm = &kernels[0];
    assert!(gemm["label"].as_str().unwrap().contains("gemm"), "{gemm}");
    // One of the 200 GEMMs has another name.
    assert_eq!(
        (&gemm["a"]["calls"], &gemm["b"]["calls"]),
        (&199.into(), &199.into())
    );
    assert_eq!(gemm["b"]["median_ns"], crate::sample::GEMM_NS * 110 / 100);
    let number = |key: &str| gemm[key].as_f64().unwrap();
    assert!((number("ratio") - 1.1).abs() < 1e-9, "{gemm}");
    assert!((1.085..=1.1).contains(&number("ci_low")), "{gemm}");
    assert!((1.1..=1.115).contains(&number("ci_high")), "{gemm}");
    assert_eq!(gemm["change"], "+10.0 %");
    let unchanged = &kernels[kernels.len() - 1];
    assert_eq!(
        (&unchanged["difference_ns"], &unchanged["interval"]),
        (&0.into(), &"+0.0 … +0.0 %".into())
    );
    // The metrics are those of the command, to the letter.
    let facts = |run: &OpenedRun| {
        let analysis = run.analysis.as_ref().unwrap();
        [facts_of(&run.title, &run.title, &run.record, analysis)]
    };
    let (a, b) = (facts(&first), facts(&second));
    let comparison = Comparison::between(&a, &b, CompareOptions::default()).unwrap();
    let tpot = comparison.metric("tpot").unwrap();
    assert!(tpot.ratio.is_some_and(|ratio| (ratio - 1.06).abs() < 0.01));
    assert!(tpot.ci_low.is_some_and(|low| low > 1.05));
    let metrics = compared["result"]["metrics"]["rows"].as_array().unwrap();
    assert_eq!(metrics.len(), comparison.metrics.len());
    for (row, metric) in metrics.iter().zip(&comparison.metrics) {
        let interval = llmprof_report::compose::compare::sentences::interval(metric);
        if !interval.is_empty() {
            assert_eq!(row["cells"][5]["text"], interval, "{}", metric.metric);
        }
    }
    // Turned around, the ratio is the inverse.
    let turned = ask(&site, "compare/1/0.json", &[]);
    let ratio = turned["kernels"][0]["ratio"].as_f64().unwrap();
    assert!((ratio * number("ratio") - 1.0).abs() < 1e-9);
    assert!(site.reply("compare/0/2.json", &[]).is_none());
}

#[test]
fn notes_of_a_run_are_on_its_pages() {
    let mut run = slower_gemms();
    run.notes = Some("slow GEMMs\n<b>since</b> Tuesday".to_owned());
    let site = Site {
        runs: vec![Arc::new(run), Arc::clone(&crate::site().runs[0])],
    };
    let runs = ask(&site, "runs.json", &[]);
    assert_eq!(runs["runs"][0]["notes"], "slow GEMMs\n<b>since</b> Tuesday");
    assert_eq!(runs["runs"][1]["notes"], Value::Null);
    let page = ask(&site, "r/0/run.json", &[]);
    assert_eq!(page["notes"], runs["runs"][0]["notes"]);
}
