//! Several processes that share a model, on the CPU with gloo.

use std::fs;

use serde_json::Value;

use super::{issues, python, run, stderr};

#[test]
#[ignore = "live: needs torch and transformers"]
fn two_processes_share_a_model_and_both_are_recorded() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &[
            "hardware=multi_gpu",
            &format!("runtime.python={python}"),
            "runtime.threads=1",
            "runtime.warmup=1",
            "runtime.repeats=1",
            "workload.prompt_tokens=8",
            "infer.max_new_tokens=3",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(folder.path().join("out/analysis.json")).unwrap();
    let analysis: Value = serde_json::from_str(&text).unwrap();
    let ranks = &analysis["ranks"];
    assert_eq!(ranks["world_size"], 2);
    assert_eq!(ranks["ranks"].as_array().unwrap().len(), 2);
    // Two layers with an all-reduce after attention and one after the MLP, in one prefill and two decode steps.
    assert_eq!(
        (&ranks["matched"], &ranks["unmatched"]),
        (&12.into(), &0.into())
    );
    for row in ranks["ranks"].as_array().unwrap() {
        let parts = [
            "compute",
            "exposed_transfer",
            "exposed_waiting",
            "exposed_unmatched",
            "copies",
            "idle",
        ];
        let sum: i64 = parts
            .iter()
            .map(|part| row[format!("{part}_ns")].as_i64().unwrap())
            .sum();
        assert_eq!(sum, ranks["span_ns"].as_i64().unwrap());
        let communication = row["communication_ns"].as_i64().unwrap();
        let exposed = row["exposed_transfer_ns"].as_i64().unwrap()
            + row["exposed_waiting_ns"].as_i64().unwrap();
        assert!(
            exposed * 2 > communication,
            "the program waits for every collective: {row}"
        );
    }
    assert!(issues(&text).contains(&"ranks.model_divided".to_owned()));
    let logs = fs::read_dir(folder.path().join("out/torch_profiler")).unwrap();
    let names: Vec<String> = logs
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().any(|name| name.contains(".rank1.")),
        "{names:?}"
    );
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn a_model_that_cannot_be_divided_is_refused() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let ranks = [
        "hardware=multi_gpu",
        "hardware.ranks=3",
        &format!("runtime.python={python}"),
    ];
    let output = run(folder.path(), &ranks);
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("num_attention_heads=4 cannot be split among 3 ranks"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn ranks_need_a_runtime_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    for (more, key) in [
        ("runtime.cuda_graph=true", "runtime.cuda_graph"),
        ("hardware.ranks=0", "hardware.ranks"),
        ("hardware.ranks=1000", "hardware.ranks"),
    ] {
        let output = run(folder.path(), &["hardware=multi_gpu", more]);
        assert!(!output.status.success(), "{more}");
        assert!(stderr(&output).contains(key), "{more}: {}", stderr(&output));
    }
}
