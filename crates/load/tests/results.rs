//! Results of other load generators, by their documented keys.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]

use llmprof_load::results::parse_results;

#[test]
fn sglang_has_a_line_a_run() {
    let line = |rate: f64| {
        format!(
            r#"{{"backend":"sglang","request_rate":{rate},"duration":10.0,"completed":50,"total_input_tokens":500,"total_output_tokens":900,"request_throughput":5.0,"output_throughput":90.0,"mean_e2e_latency_ms":200.0,"median_e2e_latency_ms":190.0,"p99_e2e_latency_ms":400.0,"mean_ttft_ms":30.0,"median_ttft_ms":28.0,"p99_ttft_ms":60.0,"mean_tpot_ms":9.0,"mean_itl_ms":9.5,"accept_length":null}}"#
        )
    };
    let results = parse_results(&format!("{}\n{}\n", line(4.0), line(8.0))).unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].tool, "sglang");
    assert_eq!(results[1].request_rate, Some(8.0));
    assert_eq!(results[0].e2e_ms["p50"], 190.0);
    assert_eq!(results[0].e2e_ms["p99"], 400.0);
    assert_eq!(results[0].ttft_ms["mean"], 30.0);
    assert_eq!(results[0].total_output_tokens, Some(900));
}

#[test]
fn vllm_says_inf_for_no_rate_and_leaves_failed_requests_in_its_lists() {
    let json = r#"{"date":"20260101","model_id":"m","request_rate":"inf","duration":2.0,"completed":1,"failed":1,"request_throughput":0.5,
        "mean_ttft_ms":10.0,"median_ttft_ms":10.0,"std_ttft_ms":0.0,"p99_ttft_ms":10.0,
        "input_lens":[8,8],"output_lens":[3,0],"ttfts":[0.01,0.0],"itls":[[0.002,0.003],[]],"start_times":[5.0,6.0],"errors":["","boom"]}"#;
    let result = &parse_results(json).unwrap()[0];
    assert_eq!(result.request_rate, None);
    assert_eq!(result.model.as_deref(), Some("m"));
    assert_eq!(result.requests[0].gaps_ms, [2.0, 3.0]);
    assert!((result.requests[0].e2e_ms.unwrap() - 15.0).abs() < 1e-9);
    assert_eq!(result.requests[1].error.as_deref(), Some("boom"));
    assert_eq!(result.requests[1].ttft_ms, None);
}

#[test]
fn aiperf_by_metric_and_by_request() {
    let metric = |unit: &str, avg: f64| {
        format!(
            r#"{{"unit":"{unit}","avg":{avg},"p50":{avg},"p99":{}}}"#,
            avg * 2.0
        )
    };
    let json = format!(
        r#"{{"schema_version":"1.4","request_latency":{},"time_to_first_token":{},"inter_token_latency":{},"request_throughput":{},"request_count":{},
            "input_config":{{"endpoint":{{"model_names":["m"]}}}}}}"#,
        metric("ms", 100.0),
        metric("s", 0.02),
        metric("ms", 5.0),
        metric("requests/sec", 7.0),
        metric("requests", 40.0)
    );
    let result = &parse_results(&json).unwrap()[0];
    assert_eq!(
        (result.tool.as_str(), result.completed),
        ("aiperf", Some(40))
    );
    assert_eq!(result.ttft_ms["mean"], 20.0);
    assert_eq!(result.e2e_ms["p99"], 200.0);
    assert_eq!(result.request_throughput, Some(7.0));
    assert_eq!(result.model.as_deref(), Some("m"));

    let record = |latency: f64, error: &str| {
        format!(
            r#"{{"metadata":{{"request_start_ns":1000000000}},"metrics":{{"request_latency":{{"value":{latency},"unit":"ms"}},"time_to_first_token":{{"value":10,"unit":"ms"}},"output_sequence_length":{{"value":5,"unit":"tokens"}},"inter_chunk_latency":{{"value":[1.0,2.0],"unit":"ms"}}}},"error":{error}}}"#
        )
    };
    for count in [1, 3] {
        let text: Vec<String> = (0..count).map(|_| record(40.0, "null")).collect();
        let result = &parse_results(&text.join("\n")).unwrap()[0];
        assert_eq!(result.completed, Some(count));
        assert_eq!(result.e2e_ms["p50"], 40.0);
        assert_eq!(result.requests[0].gaps_ms, [1.0, 2.0]);
        assert_eq!(result.requests[0].start_s, Some(1.0));
    }
    let failed = [record(1.0, "null"), record(9.0, r#"{"message":"no"}"#)].join("\n");
    let result = &parse_results(&failed).unwrap()[0];
    assert_eq!((result.completed, result.failed), (Some(1), Some(1)));
    assert_eq!(result.requests[1].error.as_deref(), Some("no"));
}

#[test]
fn what_is_no_result_is_refused() {
    for text in [
        "",
        "{}",
        "[]",
        "hello",
        "{\"request_throughput\":1}",
        "{\"traceEvents\":[]}",
    ] {
        let error = parse_results(text).unwrap_err().to_string();
        assert!(error.contains("unrecognized format"), "{text}: {error}");
    }
    let cut = "{\"request_throughput\":1,\"mean_ttft_ms\":2}\n{\"request_thr";
    assert!(
        parse_results(cut)
            .unwrap_err()
            .to_string()
            .starts_with("line 2")
    );
}
