//! What is done with what servers and load generators of others say.

use llmprof_analysis::serving::{load_issues, parts, summarize_load};
use llmprof_load::{
    client::AnswerReading,
    dataset, offline,
    record::{DcgmGpus, FailureKind, LoadRecord, RequestRecord},
    replay, results,
    server::{
        dcgm::add_page,
        families::{identify_server, read_gauges, read_window},
        text::MetricsPage,
        window::Window,
    },
    sse::{Splitter, StreamEvent},
};
use llmprof_units::Nanos;

/// Every format; each has a folder of seeds in `fuzz/corpus` and a target in `fuzz/fuzz_targets`.
pub const FORMATS: [&str; 7] = [
    "load_results",
    "prometheus",
    "server_stream",
    "server_answer",
    "request_trace",
    "load_dataset",
    "vllm_offline",
];

/// Reads bytes as a format, and makes of them what a bench makes; true where something could be read.
pub fn read(format: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match format {
        "load_results" => results::parse_results(&text).is_ok(),
        "prometheus" => read_page(&text),
        "server_stream" => read_stream(bytes),
        "server_answer" => read_answer(bytes),
        "request_trace" => replay::parse_trace(&text).is_ok(),
        "load_dataset" => dataset::parse_conversations(&text).is_ok(),
        "vllm_offline" => offline::parse_offline(&text, |_| ASKED_TOKENS).is_ok_and(|read| {
            conclude_load(&read.load);
            true
        }),
        _ => unreachable!("a format that is listed"),
    }
}

/// Tokens that a request asks for.
const ASKED_TOKENS: u64 = 16;

/// The numbers of a load, and the parts of its requests.
fn conclude_load(load: &LoadRecord) {
    let summary = summarize_load(load, &[]);
    load_issues(load, &summary, None, &[]);
    parts::split_requests(&load.requests, load.started_unix_ns, &[]);
}

/// Two requests that were answered alike.
fn conclude_answer(record: RequestRecord) {
    conclude_load(&LoadRecord {
        duration_ns: record.end_ns,
        requests: vec![record.clone(), record],
        ..LoadRecord::default()
    });
}

/// A page as it is, and as the growth from its first half.
fn read_page(text: &str) -> bool {
    let whole = MetricsPage::read(text);
    let lines: Vec<&str> = text.lines().collect();
    let half = MetricsPage::read(&lines[..lines.len() / 2].join("\n"));
    let family = identify_server(&whole);
    read_gauges(family, &whole);
    add_page(&mut DcgmGpus::default(), &whole);
    for before in [&MetricsPage::default(), &half, &whole] {
        let window = Window::between(before, &whole);
        read_window(family, &window);
    }
    !whole.samples.is_empty()
}

/// A stream in one piece and in small ones: its events are the same.
fn read_stream(bytes: &[u8]) -> bool {
    let events = |size: usize| {
        let mut splitter = Splitter::default();
        let mut events: Vec<(Vec<u8>, bool)> = Vec::new();
        for (number, piece) in bytes.chunks(size).enumerate() {
            splitter.push(piece, Nanos(number as i64), |event| {
                events.push((event.data.to_vec(), event.is_cut));
            });
        }
        splitter.finish(|event| events.push((event.data.to_vec(), event.is_cut)));
        events
    };
    let whole = events(bytes.len().max(1));
    assert_eq!(whole, events(7), "pieces change no event");
    let mut record = RequestRecord::due(0, Nanos(0), ASKED_TOKENS);
    record.sent_ns = Some(Nanos(0));
    let mut reading = AnswerReading::new(true);
    for (number, (data, is_cut)) in whole.iter().enumerate() {
        let event = StreamEvent {
            data,
            at: Nanos(number as i64 + 1),
            is_cut: *is_cut,
        };
        reading.take(event, &mut record);
    }
    record.end_ns = Nanos(whole.len() as i64);
    record.failure = reading.stream_ended(&record, 0).err();
    reading.conclude(&mut record);
    let any = !record.arrivals.is_empty();
    conclude_answer(record);
    any
}

/// An answer that does not stream.
fn read_answer(bytes: &[u8]) -> bool {
    let mut record = RequestRecord::due(0, Nanos(0), ASKED_TOKENS);
    record.sent_ns = Some(Nanos(0));
    let mut reading = AnswerReading::new(true);
    reading.take_whole(bytes, Nanos(1), &mut record);
    record.failure = reading.ended().err();
    reading.conclude(&mut record);
    let failure = record.failure.as_ref().map(|failure| failure.kind);
    let is_read = failure != Some(FailureKind::Malformed);
    conclude_answer(record);
    is_read
}
