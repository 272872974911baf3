//! A server that misbehaves: every failure has a name, is in no latency, and leaves the other requests alone.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop")]

use crate::support;

use std::time::{Duration, Instant};

use llmprof_analysis::serving::{load_issues, summarize_load};
use llmprof_load::{
    arrivals::Arrivals,
    body::Dialect,
    client::{ProbeError, drive_load, probe_server},
    prompt::Prompt,
    record::{FailureKind, RequestRecord, TokenBasis},
};
use llmprof_record::issue::IssueCode;
use llmprof_stub::{Behaviour, RequestFault, Stub};
use support::{chat, load, run};

const CLOSED: Arrivals = Arrivals::Closed { concurrency: 1 };

/// Three requests, one after the other; the second one meets the fault.
fn second(fault: RequestFault) -> (RequestRecord, Vec<RequestRecord>) {
    second_of(Behaviour {
        faults: vec![(1, fault)],
        ..Behaviour::default()
    })
}

fn second_of(behaviour: Behaviour) -> (RequestRecord, Vec<RequestRecord>) {
    let stub = Stub::start(behaviour).unwrap();
    let mut load = load(&stub.url(), &CLOSED, 3, 6);
    load.timeout = Duration::from_millis(600);
    let mut requests = run(&load).requests;
    assert_eq!(requests.len(), 3);
    (requests.remove(1), requests)
}

fn assert_failure(fault: RequestFault, kind: FailureKind, words: &str) {
    let (failed, others) = second(fault);
    let failure = failed.failure.as_ref().expect("it fails");
    assert_eq!(failure.kind, kind, "{fault:?}: {}", failure.message);
    assert!(
        failure.message.contains(words),
        "{fault:?}: {}",
        failure.message
    );
    for other in others {
        assert_eq!(other.failure, None, "{fault:?}");
        assert_eq!(other.output_tokens, Some(6));
    }
}

#[test]
fn refusals_by_status() {
    assert_failure(
        RequestFault::Status(429),
        FailureKind::TooManyRequests,
        "refused by the stub",
    );
    assert_failure(
        RequestFault::Status(500),
        FailureKind::ServerError,
        "HTTP 500",
    );
    assert_failure(
        RequestFault::Status(404),
        FailureKind::ClientError,
        "HTTP 404",
    );
}

#[test]
fn connections_that_break() {
    assert_failure(RequestFault::DieAfter(3), FailureKind::Disconnected, "");
    assert_failure(RequestFault::ResetAfter(3), FailureKind::Reset, "reset");
    assert_failure(RequestFault::ResetAfter(0), FailureKind::Reset, "");
}

#[test]
fn silence_ends_at_the_time_limit() {
    let started = Instant::now();
    assert_failure(RequestFault::StallAfter(3), FailureKind::Timeout, "600ms");
    assert_failure(RequestFault::HalfOpen, FailureKind::Timeout, "600ms");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_is_not_of_the_protocol() {
    assert_failure(RequestFault::BadEvent, FailureKind::Malformed, "not JSON");
    assert_failure(RequestFault::Html, FailureKind::Malformed, "event stream");
    assert_failure(RequestFault::NotHttp, FailureKind::Malformed, "");
    assert_failure(
        RequestFault::ErrorEvent,
        FailureKind::ServerError,
        "engine died",
    );
}

#[test]
fn an_answer_is_done_though_its_connection_stays_open() {
    let (request, _) = second(RequestFault::OpenAfterDone);
    assert_eq!(request.failure, None);
    assert_eq!(request.output_tokens, Some(6));
    assert_eq!(request.arrivals.len(), 6);
    let last = request.arrivals.last().unwrap().at_ns;
    assert!(request.end_ns >= last, "{request:?}");
    // Its connection is given up: the next request needs a new one.
    let stub = Stub::start(Behaviour {
        faults: vec![(0, RequestFault::OpenAfterDone)],
        ..Behaviour::default()
    })
    .unwrap();
    let record = run(&load(&stub.url(), &CLOSED, 3, 6));
    assert!(record.requests.iter().all(|r| r.failure.is_none()));
    let connected: Vec<bool> = record
        .requests
        .iter()
        .map(|r| r.connect_ns.is_some())
        .collect();
    assert_eq!(connected, [true, true, false]);
}

/// The first request of a bench asks what the server understands: it ends as those of the load do.
#[test]
fn the_probe_is_done_though_its_connection_stays_open() {
    let stub = Stub::start(Behaviour {
        faults: vec![(0, RequestFault::OpenAfterDone)],
        ..Behaviour::default()
    })
    .unwrap();
    let asked = load(&stub.url(), &CLOSED, 1, 1);
    let prompt = Prompt::Tokens(vec![1000]);
    let limit = Duration::from_mins(1);
    let started = Instant::now();
    let probed = probe_server(&asked.endpoint, &asked.template, &prompt, true, limit).unwrap();
    assert_eq!(probed.dialect, Dialect::all(true)[0]);
    assert!(started.elapsed() < limit / 2);
    // Its connection is given up.
    let record = run(&load(&stub.url(), &CLOSED, 2, 6));
    assert!(record.requests.iter().all(|r| r.failure.is_none()));
}

#[test]
fn a_program_of_another_protocol_is_told_from_no_program() {
    for fault in [RequestFault::NotHttp, RequestFault::ResetAfter(0)] {
        let stub = Stub::start(Behaviour {
            faults: vec![(0, fault)],
            ..Behaviour::default()
        })
        .unwrap();
        let asked = load(&stub.url(), &CLOSED, 1, 1);
        let prompt = Prompt::Tokens(vec![1000]);
        let limit = Duration::from_mins(1);
        let error =
            probe_server(&asked.endpoint, &asked.template, &prompt, true, limit).unwrap_err();
        assert!(
            matches!(error, ProbeError::Garbled { .. }),
            "{fault:?}: {error}"
        );
    }
}

#[test]
fn a_head_that_comes_in_pieces_is_waited_for() {
    let (request, _) = second(RequestFault::SlowHead(Duration::from_millis(3)));
    assert_eq!(request.failure, None);
    assert_eq!(request.output_tokens, Some(6));
    // 16 bytes at a time of more than 80.
    let waited = request.headers_ns.unwrap() - request.sent_ns.unwrap();
    assert!(waited.millis() >= 15.0, "{waited}");
    assert_failure(
        RequestFault::SlowHead(Duration::from_secs(5)),
        FailureKind::Timeout,
        "600ms",
    );
}

#[test]
fn a_server_that_stops_answering_is_told_with_the_time() {
    let stub = Stub::start(Behaviour {
        faults: vec![(20, RequestFault::Stop)],
        ..Behaviour::default()
    })
    .unwrap();
    let record = run(&load(&stub.url(), &CLOSED, 60, 4));
    let summary = summarize_load(&record, &[]);
    let stopped = summary.server_stopped_s;
    let stopped = stopped.expect("nothing was answered after it");
    assert_eq!(
        (summary.figures.completed, summary.figures.failed),
        (20, 40)
    );
    for request in record.requests.iter().filter(|r| r.is_complete()) {
        assert!(request.end_ns.seconds() <= stopped, "{request:?}");
    }
    let codes: Vec<IssueCode> = load_issues(&record, &summary, None, &[])
        .into_iter()
        .map(|issue| issue.code)
        .collect();
    assert!(codes.contains(&IssueCode::BenchServerStopped), "{codes:?}");
}

/// A server that is started again on its port meets the rest of the load: what failed meanwhile is in no latency, and it did not stop.
#[test]
fn a_server_that_restarts_is_found_again() {
    const ANSWERS: usize = 20;
    let first = Stub::start(Behaviour::default()).unwrap();
    let url = first.url();
    let address = url.trim_start_matches("http://").to_owned();
    let arrivals = Arrivals::Constant { rate: 100.0 };
    let asked = load(&url, &arrivals, 6000, 4);
    let (mut first, mut second) = (Some(first), None::<Stub>);
    let mut ended_before = 0;
    let record = drive_load(&asked, |_, progress| match (&first, &second) {
        (Some(stub), _) => {
            if stub.served().len() >= ANSWERS {
                first = None;
                ended_before = progress.ended + progress.in_flight;
            }
            true
        }
        (None, None) => {
            if progress.ended >= ended_before + 5 {
                second = Some(Stub::start_at(&address, Behaviour::default()).unwrap());
            }
            true
        }
        (None, Some(stub)) => stub.served().len() < ANSWERS,
    });
    let record = record.unwrap();
    let kinds = record.requests.iter().filter_map(|r| r.failure.as_ref());
    let kinds: Vec<FailureKind> = kinds.map(|failure| failure.kind).collect();
    let count = |wanted: FailureKind| kinds.iter().filter(|kind| **kind == wanted).count();
    assert!(count(FailureKind::Connect) >= 5, "{kinds:?}");
    let is_expected = |kind: &FailureKind| {
        matches!(
            kind,
            FailureKind::Connect
                | FailureKind::Reset
                | FailureKind::Disconnected
                | FailureKind::Interrupted
        )
    };
    assert!(kinds.iter().all(is_expected), "{kinds:?}");
    let complete = record.requests.iter().filter(|r| r.is_complete());
    assert!(complete.clone().count() >= 2 * ANSWERS - 1);
    assert!(complete.clone().all(|r| r.output_tokens == Some(4)));
    let last_failed = record.requests.iter().filter(|r| {
        let failure = r.failure.as_ref();
        failure.is_some_and(|failure| failure.kind == FailureKind::Connect)
    });
    let last_failed = last_failed.map(|r| r.end_ns).max().unwrap();
    assert!(complete.clone().any(|r| r.end_ns > last_failed));
    let summary = summarize_load(&record, &[]);
    assert_eq!(summary.server_stopped_s, None);
    assert_eq!(summary.figures.completed, complete.count() as u64);
}

#[test]
fn a_server_that_is_not_there() {
    let url = {
        let stub = Stub::start(Behaviour::default()).unwrap();
        stub.url()
    };
    let record = run(&load(&url, &CLOSED, 2, 6));
    for request in &record.requests {
        assert_eq!(request.failure.as_ref().unwrap().kind, FailureKind::Connect);
    }
    let summary = summarize_load(&record, &[]);
    assert_eq!((summary.figures.completed, summary.figures.failed), (0, 2));
    assert_eq!(summary.figures.ttft_ms, None);
}

#[test]
fn usage_that_contradicts_itself_is_not_believed() {
    for (fault, words) in [
        (RequestFault::UsageZero, "no tokens"),
        (RequestFault::UsageTooMany, "at most 6"),
        (RequestFault::UsageFalls, "fell"),
    ] {
        let (request, _) = second(fault);
        assert_eq!(request.failure, None);
        let mistake = request.usage_mistake.as_ref().expect("it is noticed");
        assert!(mistake.contains(words), "{fault:?}: {mistake}");
        assert_eq!(request.tpot_ns(), None);
        assert_eq!(request.inter_token_ns(), None);
    }
}

#[test]
fn tokens_that_are_held_back_tell_no_pace() {
    let (request, _) = second_of(Behaviour {
        step: Duration::from_millis(5),
        faults: vec![(1, RequestFault::HeldBack)],
        ..Behaviour::default()
    });
    assert_eq!(request.output_tokens, Some(6));
    assert_eq!(request.arrivals.len(), 1);
    assert_eq!(request.tpot_ns(), None);
    assert_eq!(request.inter_token_ns(), Some(vec![]));
}

#[test]
fn slow_reading_and_pauses_are_latency() {
    let (request, others) = second(RequestFault::SlowReader(Duration::from_millis(120)));
    assert!(request.ttft_ns().unwrap().0 >= 120_000_000);
    assert!(others[0].ttft_ns().unwrap().0 < 120_000_000);
    // A busy machine may see the first token late, and then the gap is shorter: not always.
    let is_seen = (0..5).any(|_| {
        let (request, _) = second(RequestFault::Pause(Duration::from_millis(150)));
        assert!(request.e2e_ns().unwrap().0 >= 150_000_000);
        request.gaps_ns().max().unwrap() >= 150_000_000
            && request.ttft_ns().unwrap().0 < 150_000_000
    });
    assert!(is_seen);
}

#[test]
fn http_without_keep_alive() {
    let stub = Stub::start(Behaviour {
        keep_alive: false,
        ..Behaviour::default()
    })
    .unwrap();
    for stream in [true, false] {
        let mut load = load(&stub.url(), &CLOSED, 5, 6);
        load.template.stream = stream;
        let record = run(&load);
        for request in record.requests {
            assert_eq!(request.failure, None);
            assert_eq!(request.output_tokens, Some(6));
            assert!(
                request.connect_ns.is_some(),
                "each has a connection of its own"
            );
        }
    }
}

#[test]
fn several_tokens_an_event_and_late_blank_lines() {
    let stub = Stub::start(Behaviour {
        step: Duration::from_millis(20),
        tokens_per_event: 4,
        late_blank_lines: true,
        ..Behaviour::default()
    })
    .unwrap();
    let mut load = load(&stub.url(), &CLOSED, 6, 13);
    chat(&mut load);
    let record = run(&load);
    let mut longest = 0;
    for request in &record.requests {
        assert_eq!(request.failure, None);
        assert_eq!(request.token_basis, TokenBasis::ContinuousUsage);
        assert_eq!(request.output_tokens, Some(13));
        // 4 + 4 + 4 + 1.
        assert_eq!(request.arrivals.len(), 4);
        assert_eq!(request.tokens_in_company(), 12);
        assert_eq!(request.inter_token_ns().unwrap().len(), 9);
        longest = longest.max(request.gaps_ns().last().unwrap());
    }
    // A reader that takes an event for complete only when the next one begins would time the last two alike, with no gap between
    // them.
    assert!(longest >= 10_000_000, "{longest}");
    let summary = summarize_load(&record, &[]);
    assert!(
        load_issues(&record, &summary, None, &[])
            .iter()
            .any(|i| i.code.as_str() == "bench.tokens_together")
    );
}

#[test]
fn a_server_without_usage_counts_by_tokenizer_or_not_at_all() {
    let stub = Stub::start(Behaviour {
        usage: false,
        ..Behaviour::default()
    })
    .unwrap();
    let mut load = load(&stub.url(), &CLOSED, 3, 6);
    let record = run(&load);
    let summary = summarize_load(&record, &[]);
    assert_eq!(summary.figures.total_output_tokens, None);
    assert_eq!(summary.figures.tpot_ms, None);
    assert_eq!(summary.figures.completed, 3);
    assert!(
        load_issues(&record, &summary, None, &[])
            .iter()
            .any(|i| i.code.as_str() == "bench.tokens_unknown")
    );
    load.count_tokens = Some(std::sync::Arc::new(|text| {
        Some(text.split_whitespace().count() as u64)
    }));
    let record = run(&load);
    assert_eq!(record.requests[0].token_basis, TokenBasis::Tokenizer);
    assert_eq!(
        summarize_load(&record, &[]).figures.total_output_tokens,
        Some(18)
    );
}
