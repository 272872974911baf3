//! What is done with what servers and load generators of others say.

use llmprof_load::{
    answer::Answer,
    dataset, offline, replay, results,
    server::{
        families::{Family, dcgm},
        text::Page,
        window::Window,
    },
    sse::Splitter,
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

/// Reads bytes as a format; true where something could be read.
pub fn read(format: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match format {
        "load_results" => results::read(&text).is_ok(),
        "prometheus" => page(&text),
        "server_stream" => stream(bytes),
        "server_answer" => Answer::read(bytes, true).is_ok(),
        "request_trace" => replay::read(&text).is_ok(),
        "load_dataset" => dataset::read(&text).is_ok(),
        "vllm_offline" => offline::read(&text, |_| 16).is_ok(),
        _ => unreachable!("a format that is listed"),
    }
}

/// A page as it is, and as the growth from its first half.
fn page(text: &str) -> bool {
    let whole = Page::read(text);
    let lines: Vec<&str> = text.lines().collect();
    let half = Page::read(&lines[..lines.len() / 2].join("\n"));
    let family = Family::of(&whole);
    family.read_gauges(&whole);
    dcgm(&whole);
    for before in [&Page::default(), &half, &whole] {
        let window = Window::between(before, &whole);
        family.read_window(&window);
    }
    !whole.samples.is_empty()
}

/// A stream in one piece and in small ones: its events are the same.
fn stream(bytes: &[u8]) -> bool {
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
    let mut any = false;
    for (data, _) in &whole {
        any |= Answer::read(data, true).is_ok();
    }
    any
}
