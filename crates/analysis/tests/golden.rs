//! Tables that TraceLens made of published traces: GEMMs by shape, and ops of a replayed graph.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use llmprof_analysis::graphs::GraphSource;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{self, Limits};
use llmprof_record::run::RunRecord;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public")
}

fn analyzed(files: &[&str]) -> Analysis {
    let mut record = RunRecord::default();
    for file in files {
        let (_, profile) = import::import(&fixtures().join(file), &Limits::default())
            .expect("a profile that can be read");
        record
            .add_profile(file, profile)
            .expect("they belong together");
    }
    analyze(&record, None).expect("without a workload nothing is refused")
}

/// Rows of a table as maps of columns. Cells may hold commas in quotes.
fn table(file: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(fixtures().join(file)).expect("a table");
    let headers = reader.headers().expect("headers").clone();
    let row = |record: csv::StringRecord| {
        headers
            .iter()
            .map(str::to_owned)
            .zip(record.iter().map(str::to_owned))
            .collect()
    };
    reader
        .records()
        .map(|record| row(record.expect("a row")))
        .collect()
}

fn close(measured: f64, expected: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() < 0.002,
        "{what}: {measured} where {expected} is expected"
    );
}

#[test]
fn gemms_by_shape_are_those_of_tracelens() {
    for folder in ["qwen_h100", "qwen_mi300"] {
        let analysis = analyzed(&[&format!("{folder}/trace.json.gz")]);
        let timeline = analysis.timeline.expect("a trace");
        let mut compared = 0;
        for row in table(&format!("{folder}/GEMM.csv")) {
            let number = |column: &str| row[column].parse::<f64>().expect("a number");
            let [batch, m, n, k] =
                ["B", "M", "N", "K"].map(|name| number(&format!("param: {name}")) as u64);
            let operators = timeline
                .operators
                .iter()
                .filter(|operator| operator.name == row["name"]);
            let mut shapes = operators
                .flat_map(|operator| &operator.shapes)
                .filter(|shape| {
                    let gemm = shape.cost.and_then(|cost| cost.gemm);
                    gemm.is_some_and(|gemm| {
                        (gemm.batch, gemm.m, gemm.n, gemm.k) == (batch, m, n, k)
                    })
                });
            let what = format!("{folder} {} {batch} {m} {n} {k}", row["name"]);
            let shape = shapes.next().unwrap_or_else(|| panic!("{what} is missing"));
            assert_eq!(shape.times.calls, number("name_count") as u64, "{what}");
            close(
                shape.times.device_total_ns.0 as f64,
                1e3 * number("Kernel Time (µs)_sum"),
                &what,
            );
            let (cost, work) = (shape.cost.expect("a cost"), shape.work.expect("work"));
            // TraceLens counts the addition of a bias too.
            let bias = if row["param: bias"] == "True" {
                batch * m * n
            } else {
                0
            };
            close(
                (cost.flops.0 + bias) as f64,
                1e9 * number("GFLOPS_first"),
                &what,
            );
            close(
                cost.bytes.0 as f64,
                1_048_576.0 * number("Data Moved (MB)_first"),
                &what,
            );
            // Their mean of rates and our rate of sums differ by the spread of the calls.
            let rate = work.flops_per_s.expect("it ran") / 1e12;
            assert!(
                (rate / number("TFLOPS/s_mean") - 1.0).abs() < 0.02,
                "{what}: {rate}"
            );
            compared += 1;
        }
        assert!(compared >= 5, "{folder}: {compared}");
    }
}

#[test]
fn kernels_of_replayed_graphs_lead_back_to_the_ops_of_the_capture() {
    let folder = "vllm_piecewise_mi300";
    let files = [
        format!("{folder}/captures_cut.json.gz"),
        format!("{folder}/trace.json.gz"),
    ];
    let analysis = analyzed(&[&files[0], &files[1]]);
    let graphs = analysis.graphs.expect("graphs were launched");
    assert_eq!(graphs.source, Some(GraphSource::CaptureTrace));
    assert_eq!(
        (graphs.launches, graphs.captures, graphs.events),
        (25, 25, 361)
    );
    // Python over the JSON: 149919.755 µs of kernels that graph launches ran.
    close(graphs.device_ns.0 as f64, 149_919_755.0, "graph time");
    assert_eq!(graphs.covered_ns, graphs.device_ns);
    let sums = |names: &[&str]| {
        let rows = graphs.operators.iter().filter(|row| {
            row.operator
                .as_deref()
                .is_some_and(|name| names.contains(&name))
        });
        rows.fold((0, 0), |(calls, time), row| {
            (calls + row.calls, time + row.device_ns.0)
        })
    };
    let golden = table(&format!("{folder}/ops_summary_by_category.csv"));
    let of = |category: &str| {
        let row = golden.iter().find(|row| {
            row["op category"] == category && row["parent_module"] == "nn.Module: GraphModule"
        });
        let row = row.expect("a category");
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        (number("Count"), 1e6 * number("total_direct_kernel_time_ms"))
    };
    for (category, names) in [
        ("GEMM", &["aten::addmm"][..]),
        (
            "RMSNorm",
            &["aiter::rmsnorm2d_fwd_with_add_ck", "aiter::rms_norm"],
        ),
        (
            "triton",
            &[
                "triton_poi_fused_0",
                "triton_poi_fused__to_copy_1",
                "triton_poi_fused_constant_pad_nd_moe_forward_0",
            ],
        ),
        (
            "other",
            &[
                "_C::rotary_embedding",
                "vllm::moe_forward",
                "TopK",
                "SortTokens",
            ],
        ),
    ] {
        let ((calls, time), (expected_calls, expected_time)) = (sums(names), of(category));
        assert_eq!(calls as f64, expected_calls, "{category}");
        close(time as f64, expected_time, category);
    }
    assert!(
        graphs
            .operators
            .iter()
            .all(|row| row.module.as_deref() == Some("GptOssForCausalLM_0/GraphModule_0"))
    );
}

#[test]
fn without_a_capture_the_report_says_so() {
    let analysis = analyzed(&["vllm_piecewise_mi300/trace.json.gz"]);
    let graphs = analysis.graphs.expect("graphs were launched");
    assert_eq!(
        (graphs.source, graphs.covered_ns.0, graphs.events),
        (None, 0, 361)
    );
    assert!(
        analysis
            .issues
            .iter()
            .any(|issue| issue.code.as_str() == "graphs.no_origin")
    );
}
