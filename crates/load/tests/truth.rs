//! What the client finds is what the stub did.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]

use crate::support;

use std::{sync::Arc, time::Duration};

use llmprof_analysis::serving::{LatencyPart, parts, summarize_load};
use llmprof_load::{
    arrivals::Arrivals,
    body::Dialect,
    client::{drive_load, probe_server},
    lengths::Lengths,
    plan::{LoadPlan, LoadSource},
    prompt::{Prompt, PromptSource},
    record::{FailureKind, ServerFamily},
    results,
    server::{
        families::read_window,
        profile::{ProfileRequest, Profiler},
        scrape::Scraper,
        window::Window,
    },
    slo::{Slo, all_met},
    sweep::{RateBounds, search_rate},
};
use llmprof_stub::{Behaviour, Stub};
use llmprof_units::Nanos;
use support::{PROMPTS, load, run};

/// A timer never fires early, and on a busy machine late: lower bounds are exact, upper ones have room.
fn is_about(found_ms: f64, truth_ms: f64) -> bool {
    found_ms >= truth_ms && found_ms < truth_ms + 60.0
}

#[test]
fn latencies_are_the_stubs() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(30),
        step: Duration::from_millis(5),
        ..Behaviour::default()
    })
    .unwrap();
    let record = run(&load(
        &stub.url(),
        &Arrivals::Constant { rate: 50.0 },
        40,
        9,
    ));
    let summary = summarize_load(&record, &[]);
    assert_eq!((summary.figures.completed, summary.figures.failed), (40, 0));
    assert_eq!(summary.figures.total_output_tokens, Some(360));
    assert_eq!(summary.figures.total_input_tokens, Some(640));
    assert!(
        is_about(summary.figures.ttft_ms.unwrap().p50, 30.0),
        "{summary:?}"
    );
    assert!(is_about(summary.figures.e2e_ms.unwrap().p50, 70.0));
    let tpot = summary.figures.tpot_ms.unwrap().p50;
    assert!((3.0..15.0).contains(&tpot), "{tpot}");
    assert_eq!(summary.figures.itl_ms.unwrap().count, 320);
    assert_eq!(record.requests[7].scheduled_ns.0, 140_000_000);
    assert_eq!(stub.served_when_idle().len(), 40);
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    // One place, 50 ms each, one request every 10 ms: the tenth waits for nine others.
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(50),
        slots: 1,
        ..Behaviour::default()
    })
    .unwrap();
    let mut asked = load(&stub.url(), &Arrivals::Constant { rate: 100.0 }, 10, 1);
    let by_server = run(&asked).requests[9].ttft_ns().unwrap().0;
    assert!(by_server >= 10 * 50_000_000 - 9 * 10_000_000, "{by_server}");
    // The same queue inside of the client is the same latency: no coordinated omission.
    asked.max_concurrency = Some(1);
    let last = &run(&asked).requests[9];
    assert!(last.ttft_ns().unwrap().0 >= 410_000_000);
    assert!(last.client_wait_ns().unwrap().0 >= 300_000_000);
}

#[test]
fn a_closed_loop_keeps_its_concurrency() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(10),
        ..Behaviour::default()
    })
    .unwrap();
    let mut asked = load(&stub.url(), &Arrivals::Closed { concurrency: 4 }, 40, 2);
    asked.workers = 2;
    let summary = summarize_load(&run(&asked), &[]);
    assert_eq!(summary.figures.completed, 40);
    assert_eq!(summary.concurrency.max, 4);
    assert!(summary.concurrency.mean > 3.0);
    assert_eq!(summary.schedule_lag_ms, None);
}

#[test]
fn conversations_take_turns_and_carry_what_was_said() {
    for arrivals in [
        Arrivals::Closed { concurrency: 2 },
        Arrivals::Constant { rate: 100.0 },
    ] {
        let stub = Stub::start(Behaviour::default()).unwrap();
        let mut asked = load(&stub.url(), &arrivals, 1, 4);
        let source = LoadSource::Synthetic {
            prompt: Lengths::Fixed { tokens: 5 },
            output: Lengths::Fixed { tokens: 4 },
            turns: 3,
        };
        let prompts = PromptSource {
            as_tokens: false,
            ..PROMPTS
        };
        asked.plan = Arc::new(LoadPlan::draw(
            &source,
            &arrivals,
            prompts,
            6,
            Duration::from_millis(20),
        ));
        let record = run(&asked);
        assert_eq!(record.requests.len(), 6, "{arrivals:?}");
        for turns in record.requests.chunks(3) {
            for pair in turns.windows(2) {
                assert_eq!(pair[0].failure, None);
                let pause = pair[1].scheduled_ns - pair[0].end_ns;
                assert_eq!(pause.0, 20_000_000);
                assert!(pair[1].prompt_tokens > pair[0].prompt_tokens);
            }
        }
    }
}

#[test]
fn a_load_can_be_stopped() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_secs(30),
        ..Behaviour::default()
    })
    .unwrap();
    let started = std::time::Instant::now();
    for arrivals in [
        Arrivals::Closed { concurrency: 3 },
        Arrivals::Constant { rate: 10.0 },
    ] {
        let record = drive_load(&load(&stub.url(), &arrivals, 1000, 2), |_, progress| {
            progress.in_flight < 3
        })
        .unwrap();
        assert!(record.requests.len() >= 3);
        let kinds = record
            .requests
            .iter()
            .map(|r| r.failure.as_ref().unwrap().kind);
        assert!(
            kinds
                .into_iter()
                .all(|kind| kind == FailureKind::Interrupted)
        );
    }
    assert!(started.elapsed() < Duration::from_secs(15));
}

/// Requests that waited for a place were sent all the same, one after the other, and a pause between turns was sat out.
#[test]
fn what_waits_when_a_load_is_stopped_is_not_sent() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(50),
        ..Behaviour::default()
    })
    .unwrap();
    let mut asked = load(&stub.url(), &Arrivals::Constant { rate: 1e6 }, 20_000, 1);
    asked.max_concurrency = Some(1);
    let started = std::time::Instant::now();
    let record = drive_load(&asked, |_, _| false).unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    let sent = record.requests.iter().filter(|r| r.sent_ns.is_some());
    assert!(sent.count() < 10);
    assert!(stub.served().len() < 10);

    let source = LoadSource::Synthetic {
        prompt: Lengths::Fixed { tokens: 5 },
        output: Lengths::Fixed { tokens: 1 },
        turns: 2,
    };
    for arrivals in [
        Arrivals::Closed { concurrency: 2 },
        Arrivals::Constant { rate: 100.0 },
    ] {
        let mut asked = load(&stub.url(), &arrivals, 1, 1);
        let think = Duration::from_hours(1);
        asked.plan = Arc::new(LoadPlan::draw(&source, &arrivals, PROMPTS, 4, think));
        let started = std::time::Instant::now();
        let record = drive_load(&asked, |_, progress| progress.ended < 2).unwrap();
        assert!(started.elapsed() < Duration::from_secs(10), "{arrivals:?}");
        assert_eq!(record.requests.len(), 2, "{arrivals:?}");
        assert!(record.requests.iter().all(|r| r.failure.is_none()));
    }
}

#[test]
fn the_probe_finds_model_and_dialect() {
    for (is_strict, expected) in [
        (false, Dialect::all(true)[0]),
        (
            true,
            Dialect {
                usage: true,
                continuous_usage: false,
                ignore_eos: false,
            },
        ),
    ] {
        let stub = Stub::start(Behaviour {
            is_strict,
            ..Behaviour::default()
        })
        .unwrap();
        let mut asked = load(&stub.url(), &Arrivals::Closed { concurrency: 1 }, 1, 1);
        asked.template.model = String::new();
        let prompt = Prompt::Tokens(vec![1000]);
        let limit = Duration::from_secs(5);
        let probed = probe_server(&asked.endpoint, &asked.template, &prompt, true, limit).unwrap();
        assert_eq!((probed.model.as_str(), probed.dialect), ("stub", expected));
    }
    let gone = load(
        "http://127.0.0.1:9",
        &Arrivals::Closed { concurrency: 1 },
        1,
        1,
    );
    let prompt = Prompt::Tokens(vec![1000]);
    let error = probe_server(
        &gone.endpoint,
        &gone.template,
        &prompt,
        true,
        Duration::from_secs(5),
    );
    assert!(error.unwrap_err().to_string().contains("does not answer"));
}

#[test]
fn the_servers_histograms_split_the_mean_request() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(20),
        step: Duration::from_millis(5),
        slots: 1,
        ..Behaviour::default()
    })
    .unwrap();
    let asked = load(&stub.url(), &Arrivals::Constant { rate: 40.0 }, 12, 3);
    // Requests before the window are in the counters, and must not be in the window.
    run(&load(
        &stub.url(),
        &Arrivals::Closed { concurrency: 1 },
        5,
        1,
    ));
    let scraper = Scraper::start(
        Arc::clone(&asked.endpoint),
        "/metrics".to_owned(),
        Duration::from_millis(50),
    )
    .unwrap();
    let record = run(&asked);
    let scrapes = scraper.finish().unwrap();
    assert_eq!(scrapes.family, ServerFamily::Vllm);
    assert!(
        scrapes
            .gauges
            .iter()
            .any(|(_, gauges)| gauges.waiting > Some(0.0))
    );
    let window = Window::between(&scrapes.first.page, &scrapes.last.page);
    let said = read_window(scrapes.family, &window);
    let queue = said.queue_ms.as_ref().unwrap();
    assert_eq!(queue.count, 12.0);
    let served = &stub.served()[5..];
    let truth = served
        .iter()
        .map(|one| one.queue.as_secs_f64() * 1e3)
        .sum::<f64>()
        / 12.0;
    assert!((queue.mean.unwrap() - truth).abs() < 1e-3);
    assert_eq!(said.output_tokens, Some(36.0));

    let summary = summarize_load(&record, &[]);
    let each = parts::split_requests(&record.requests, record.started_unix_ns, &[]);
    for (parts, request) in each.iter().zip(&record.requests) {
        assert_eq!(parts.sum_ns(), request.e2e_ns().unwrap());
    }
    let mean = parts::mean_parts(&each, &record, Some(&said)).unwrap();
    let sum: f64 = mean.parts.iter().map(|part| part.mean_ms).sum();
    assert!((sum - summary.figures.e2e_ms.unwrap().mean).abs() < 1e-6);
    assert!((mean.ms(LatencyPart::Queueing) - truth).abs() < 1e-3);
    assert!(mean.ms(LatencyPart::Prefill) >= 20.0);
    // Without the server nothing is split, and that is said.
    let alone = parts::mean_parts(&each, &record, None).unwrap();
    assert!(
        alone
            .parts
            .iter()
            .any(|p| p.part == LatencyPart::UntilFirstToken)
    );
    assert_eq!(alone.not_split.len(), 1);
}

#[test]
fn timings_of_the_server_split_single_requests() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(20),
        step: Duration::from_millis(2),
        timings: true,
        ..Behaviour::default()
    })
    .unwrap();
    let record = run(&load(
        &stub.url(),
        &Arrivals::Closed { concurrency: 1 },
        4,
        3,
    ));
    for parts in parts::split_requests(&record.requests, record.started_unix_ns, &[]) {
        assert_eq!(parts.split_by, parts::SplitBy::Timings);
        assert_eq!(parts.prefill_ns, Nanos(20_000_000));
        assert_eq!(parts.unsplit_ns, Nanos(0));
    }
}

#[test]
fn a_sweep_finds_what_the_stub_can_do() {
    // Two places of 20 ms: 100 requests per second, no more.
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(20),
        slots: 2,
        ..Behaviour::default()
    })
    .unwrap();
    let slos: Vec<Slo> = vec!["ttft:p90<120ms".parse().unwrap()];
    let bounds = RateBounds {
        least: 20.0,
        most: 2000.0,
        precision: 0.5,
        tries: 8,
    };
    let search = search_rate(bounds, |rate| {
        let count = (rate * 0.8) as usize;
        let record = run(&load(&stub.url(), &Arrivals::Constant { rate }, count, 1));
        let summary = summarize_load(&record, &slos);
        let is_met = all_met(&slos, &summary.figures);
        Some((summary, is_met))
    });
    let failing = search.first_failing_rate.unwrap();
    assert!(failing > 80.0 / 1.5, "{failing}");
    assert!(failing <= 640.0, "{failing}");
    let worst = search.points.last().unwrap();
    assert!(!worst.is_met && worst.summary.figures.goodput.unwrap() < worst.rate);
}

#[test]
fn results_of_vllm_are_written_as_they_are_read() {
    let stub = Stub::start(Behaviour {
        step: Duration::from_millis(2),
        ..Behaviour::default()
    })
    .unwrap();
    let arrivals = Arrivals::Poisson { rate: 200.0 };
    let record = run(&load(&stub.url(), &arrivals, 20, 4));
    let summary = summarize_load(&record, &[]);
    let json = llmprof_report::vllm_bench(&record, &summary, &arrivals, "stub", "20260101-000000");
    let read = &results::parse_results(&json.to_string()).unwrap()[0];
    assert_eq!(read.tool, "vllm bench serve");
    assert_eq!(read.completed, Some(20));
    assert_eq!(read.request_rate, Some(200.0));
    // JSON is read to the last digit but one.
    let is_same = |read: f64, own: f64| (read - own).abs() < 1e-9 * own;
    assert!(is_same(
        read.ttft_ms["p99"],
        summary.figures.ttft_ms.unwrap().p99
    ));
    assert!(is_same(
        read.e2e_ms["mean"],
        summary.figures.e2e_ms.unwrap().mean
    ));
    let request = &read.requests[3];
    assert_eq!(request.gaps_ms.len(), 3);
    let e2e = record.requests[3].e2e_ns().unwrap().0 as f64 / 1e6;
    assert!((request.e2e_ms.unwrap() - e2e).abs() < 1e-6);
    // And it can be replayed.
    let replayed = llmprof_load::replay::parse_trace(&json.to_string()).unwrap();
    assert_eq!(replayed.len(), 20);
    assert!(
        (replayed[5].at_ns - record.requests[5].scheduled_ns)
            .0
            .abs()
            < 1000
    );
}

#[test]
fn profile_endpoints_are_called_with_their_options() {
    let stub = Stub::start(Behaviour::default()).unwrap();
    let asked = load(&stub.url(), &Arrivals::Closed { concurrency: 1 }, 1, 1);
    let request = ProfileRequest {
        when_running: None,
        after: Some(Duration::ZERO),
        length: Duration::ZERO,
        steps: Some(5),
        options: serde_json::from_str(r#"{"with_stack":false}"#).unwrap(),
    };
    for family in [ServerFamily::Sglang, ServerFamily::Vllm] {
        let profiler = Profiler::new(Arc::clone(&asked.endpoint), family, request.clone()).unwrap();
        profiler.start().unwrap();
        profiler.stop().unwrap();
    }
    let calls = stub.calls();
    let body: serde_json::Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"with_stack": false, "num_steps": 5})
    );
    assert_eq!(calls[1].path, "/stop_profile");
    assert_eq!(
        (calls[2].path.as_str(), calls[2].body.as_str()),
        ("/start_profile", "")
    );
}
