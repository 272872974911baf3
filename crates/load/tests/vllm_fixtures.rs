//! What a real vLLM server sent.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]

use std::{collections::BTreeMap, path::PathBuf};

use llmprof_analysis::serving::{parts, summarize_load};
use llmprof_load::{
    answer::AnswerPart,
    offline,
    record::ServerFamily,
    replay, results,
    server::{
        families::{identify_server, read_window},
        text::{MetricKind, MetricsPage},
        window::Window,
    },
    sse::{Splitter, StreamEvent},
    statistics::Distribution,
};
use llmprof_units::Nanos;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/vllm")
        .join(name)
}

fn metrics() -> String {
    std::fs::read_to_string(fixture("metrics.txt")).unwrap()
}

/// The value of a sample by its whole name and labels, found without our parser.
fn raw(page: &str, start: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(start)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn its_metrics_are_read_whole() {
    let text = metrics();
    let page = MetricsPage::read(&text);
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count();
    assert_eq!(page.broken_lines, 0);
    assert_eq!(page.samples.len(), lines);
    assert_eq!(identify_server(&page), ServerFamily::Vllm);
    assert_eq!(
        page.kind("vllm:generation_tokens_total"),
        MetricKind::Counter
    );

    let window = Window::between(&MetricsPage::default(), &page);
    let said = read_window(ServerFamily::Vllm, &window);
    let mean = |name: &str| {
        1e3 * raw(&text, &format!("vllm:{name}_sum")) / raw(&text, &format!("vllm:{name}_count"))
    };
    assert_eq!(
        said.queue_ms.unwrap().mean,
        Some(mean("request_queue_time_seconds"))
    );
    assert_eq!(
        said.prefill_ms.unwrap().mean,
        Some(mean("request_prefill_time_seconds"))
    );
    let ttft = said.ttft_ms.unwrap();
    assert_eq!(ttft.mean, Some(mean("time_to_first_token_seconds")));
    // A quantile lies in the bucket that holds its rank.
    let (p50, count) = (ttft.p50.unwrap() / 1e3, ttft.count);
    let below = |limit: f64| {
        let pattern = "vllm:time_to_first_token_seconds_bucket";
        text.lines()
            .filter(|line| line.starts_with(pattern))
            .filter_map(|line| {
                let le = line
                    .split("le=\"")
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse::<f64>()
                    .ok()?;
                (le <= limit).then(|| line.rsplit(' ').next()?.parse::<f64>().ok())?
            })
            .fold(0.0, f64::max)
    };
    assert!(below(p50) <= count / 2.0 + 1.0);
    assert_eq!(
        said.output_tokens,
        Some(raw(&text, "vllm:generation_tokens_total"))
    );
    assert_eq!(said.preemptions, Some(0.0));
}

#[test]
fn its_stream_counts_as_its_usage_says() {
    let text = std::fs::read_to_string(fixture("stream.json")).unwrap();
    let streams: BTreeMap<String, Vec<(f64, String)>> = serde_json::from_str(&text).unwrap();
    assert!(streams.len() > 3);
    for (name, lines) in streams {
        let mut splitter = Splitter::default();
        let mut tokens = Vec::new();
        let mut is_done = false;
        let mut finished = false;
        let mut take = |event: StreamEvent<'_>| {
            if event.data == b"[DONE]" {
                is_done = true;
                return;
            }
            let answer = AnswerPart::read(event.data, false).unwrap();
            finished |= answer.finish;
            tokens.push((
                event.at,
                answer.usage.map(|u| u.completion_tokens),
                answer.text_bytes,
            ));
        };
        for (seconds, line) in &lines {
            let bytes = format!("{line}\n\n");
            splitter.push(bytes.as_bytes(), Nanos((seconds * 1e9) as i64), &mut take);
        }
        splitter.finish(&mut take);
        // A token may have no text of its own: usage counts it, events with text would not.
        let counted: Vec<u64> = tokens.iter().filter_map(|token| token.1).collect();
        assert!(counted.is_sorted(), "{name}: {counted:?}");
        assert!(*counted.last().unwrap() >= 4, "{name}: {counted:?}");
        let with_text = tokens.iter().filter(|token| token.2 > 0).count() as u64;
        assert!(with_text <= *counted.last().unwrap(), "{name}");
        assert!(finished && is_done, "{name}");
    }
}

/// `vllm bench serve --save-detailed` against the real server: what its lists give by our arithmetic is what it printed.
#[test]
fn percentiles_of_its_benchmark_are_ours() {
    let result = &results::load(&fixture("bench_serve.json")).unwrap()[0];
    assert_eq!((result.completed, result.requests.len()), (Some(80), 80));
    let tpot = |r: &results::ForeignRequest| {
        let gaps: f64 = r.gaps_ms.iter().sum();
        gaps / r.gaps_ms.len() as f64
    };
    let lists: [(&str, &BTreeMap<String, f64>, Vec<f64>); 4] = [
        (
            "ttft",
            &result.ttft_ms,
            result.requests.iter().filter_map(|r| r.ttft_ms).collect(),
        ),
        (
            "itl",
            &result.itl_ms,
            result
                .requests
                .iter()
                .flat_map(|r| r.gaps_ms.clone())
                .collect(),
        ),
        (
            "tpot",
            &result.tpot_ms,
            result.requests.iter().map(tpot).collect(),
        ),
        (
            "e2e",
            &result.e2e_ms,
            result.requests.iter().filter_map(|r| r.e2e_ms).collect(),
        ),
    ];
    for (name, printed, values) in lists {
        let ours = Distribution::of_values(&values).unwrap();
        for (statistic, value) in [
            ("mean", ours.mean),
            ("p50", ours.p50),
            ("p90", ours.p90),
            ("p99", ours.p99),
        ] {
            let theirs = printed[statistic];
            assert!(
                (value - theirs).abs() < 1e-3,
                "{name} {statistic}: {value}, {theirs}"
            );
        }
    }
    // And it can be replayed: the same lengths at the same times.
    let replayed = replay::load_trace(&fixture("bench_serve.json")).unwrap();
    assert_eq!(replayed.len(), 80);
    assert!(
        replayed
            .iter()
            .all(|r| (r.prompt_tokens, r.output_tokens) == (64, 16))
    );
    let span = (replayed.last().unwrap().at_ns - replayed[0].at_ns).seconds();
    assert!(
        (span - 20.0).abs() < 0.5,
        "80 requests at 4 a second: {span}"
    );
}

/// The `LLM` class of the real build: two requests and an empty one, which it refuses.
#[test]
fn its_offline_class_splits_every_request() {
    let text = std::fs::read_to_string(fixture("offline.jsonl")).unwrap();
    let offline = offline::parse_offline(&text, |_| 4).unwrap();
    assert!(offline.is_whole);
    assert_eq!(offline.version, "0.32.0");
    let summary = summarize_load(&offline.load, &[]);
    assert_eq!((summary.figures.completed, summary.figures.failed), (2, 1));
    assert_eq!(summary.figures.total_output_tokens, Some(7));
    let each = parts::split_requests(&offline.load.requests, Nanos(0), &[]);
    for (parts, request) in each.iter().zip(&offline.load.requests) {
        assert_eq!(parts.split_by, parts::SplitBy::Timings);
        assert_eq!(Some(parts.sum_ns()), request.e2e_ns());
        // By the engine's own stamps, in the file.
        assert_eq!(parts.prefill_ns, Nanos(52_082_703));
    }
    assert_eq!(each[0].queue_ns, Nanos(41_842));
}
