//! Ten million events: a real trace repeated. `LLMPROF_LARGE_TRACE=FILE cargo test --release -p llmprof-view --test view_browser --
//! --ignored --nocapture ten_million` prints the figures of docs/view.md.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::trace::{StrId, ThreadId, Trace, TraceBuilder};
use llmprof_units::stats::percentile;
use llmprof_view::tile::TilePlace;
use llmprof_view::{OpenedRun, Site, ViewTimeline};
use serde_json::{Value, json};

use crate::{browser, settle, start, wait};

const EVENTS: usize = 10_000_000;

/// The trace over and over, each time after the last.
fn repeated(trace: &Trace, events: usize) -> Trace {
    let mut builder = TraceBuilder::default();
    let names: Vec<StrId> = trace
        .strings
        .iter()
        .map(|text| builder.intern(text))
        .collect();
    let name = |id: StrId| names[id.0 as usize];
    let threads: Vec<ThreadId> = (0..trace.threads.len())
        .map(|row| {
            let thread = trace.threads.row(row);
            builder.thread(thread.process, thread.thread)
        })
        .collect();
    let own = trace.hosts.len() + trace.kernels.len() + trace.copies.len() + trace.memsets.len();
    let starts = trace.hosts.start.iter().chain(trace.kernels.start.iter());
    let first = starts.clone().min().copied().unwrap_or(0);
    let last = starts.max().copied().unwrap_or(0) + 1_000_000;
    let calls = trace.hosts.correlation.iter().max().copied().unwrap_or(0) + 1;
    for round in 0..events.div_ceil(own) {
        let shift = (last - first) * round as i64;
        let correlation = |id: u32| {
            if id == 0 {
                0
            } else {
                id + calls * round as u32
            }
        };
        for mut row in trace.hosts.rows() {
            row.start += shift;
            row.name = name(row.name);
            row.thread = threads[row.thread.0 as usize];
            row.correlation = correlation(row.correlation);
            (row.inputs, row.external) = (llmprof_record::trace::InputsId::NONE, 0);
            builder.hosts.push(row);
        }
        for mut row in trace.kernels.rows() {
            row.start += shift;
            (row.name, row.mangled) = (name(row.name), StrId::EMPTY);
            row.correlation = correlation(row.correlation);
            row.external = 0;
            builder.kernels.push(row);
        }
        for mut row in trace.copies.rows() {
            row.start += shift;
            row.name = name(row.name);
            row.correlation = correlation(row.correlation);
            row.external = 0;
            builder.copies.push(row);
        }
        for mut row in trace.memsets.rows() {
            row.start += shift;
            row.name = name(row.name);
            row.correlation = correlation(row.correlation);
            row.external = 0;
            builder.memsets.push(row);
        }
    }
    builder.finish()
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(values, share)
}

#[test]
#[ignore = "minutes, and figures mean something in a release build on an idle machine only"]
fn ten_million_events() {
    let file = std::env::var("LLMPROF_LARGE_TRACE").unwrap();
    let events = std::env::var("LLMPROF_LARGE_EVENTS").map_or(EVENTS, |text| text.parse().unwrap());
    let (_, profile) = import(std::path::Path::new(&file), &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("{file} is no timeline")
    };
    let trace = repeated(&trace, events);
    let record = RunRecord {
        name: "large".to_owned(),
        traces: vec![RecordedTrace { pass: None, trace }],
        ..RunRecord::default()
    };
    let began = Instant::now();
    let run = OpenedRun::new("large".to_owned(), record, None, None).unwrap();
    let layout_s = began.elapsed().as_secs_f64();
    let count = run.timeline.events();
    println!(
        "{count} events: laid out in {layout_s:.2} s, {:.1} bytes an event",
        run.timeline.memory_bytes() as f64 / count as f64
    );
    let began = Instant::now();
    let mut written = 0_u64;
    struct Counted<'a>(&'a mut u64);
    impl Write for Counted<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            *self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    run.timeline
        .write_pftrace(&run.record, Counted(&mut written))
        .unwrap();
    let export_s = began.elapsed().as_secs_f64();
    println!(
        "pftrace: {:.2} M events/s, {} MB",
        count as f64 / export_s / 1e6,
        written / 1_000_000
    );
    let (lanes, span) = (run.timeline.lanes.len(), run.timeline.span);
    let cut = cut_times(&run.timeline);
    let (slowest, level) = cut
        .iter()
        .copied()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap();
    println!(
        "tiles cut: CPU of a tile at the slowest of {} lanes and levels {slowest:.2} ms (level {level})",
        cut.len()
    );
    let url = start(Site {
        runs: vec![Arc::new(run)],
    });
    let mut tiles = tile_times(&url, lanes, span);
    println!(
        "tiles: {} asked, p50 {:.2} ms, p99 {:.2} ms",
        tiles.len(),
        quantile(&mut tiles, 0.5),
        quantile(&mut tiles, 0.99)
    );
    let mut browser = browser();
    browser.open_url(&format!("{url}#timeline"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    settle(&mut browser);
    println!(
        "page: first view complete {:.0} ms after navigation",
        browser.number("performance.now()")
    );
    // On the CPU time of the page's thread: other work on the machine does not count.
    browser.call("Performance.enable", json!({"timeDomain": "threadTicks"}));
    let before = metrics(&mut browser);
    // Panning and zooming as a person does: a step a frame.
    let mut frames: Vec<f64> = serde_json::from_value(browser.value(
        "(async () => { const t = document.querySelector('.timeline').timeline; const times = []; let last = performance.now(); \
         for (let step = 0; step < 600; step += 1) { if (step % 150 < 60) t.zoom(1 / 1.06); else if (step % 150 < 110) t.pan(24); else t.zoom(1.07); \
         const before = t.frames.length; await new Promise(done => requestAnimationFrame(() => setTimeout(done))); const now = performance.now(); times.push(now - last); last = now; } return times; })()",
    )).unwrap();
    let after = metrics(&mut browser);
    let used = |name: &str| (after[name].as_f64().unwrap() - before[name].as_f64().unwrap()) * 1e3;
    let count = frames.len() as f64;
    let dropped = frames.iter().filter(|&&ms| ms > 25.0).count();
    println!(
        "frames: p50 {:.1} ms, p95 {:.1} ms, {dropped} of {count} later than 25 ms; CPU of the page's thread {:.2} ms a frame, of that script {:.2} ms",
        quantile(&mut frames, 0.5),
        quantile(&mut frames, 0.95),
        used("TaskDuration") / count,
        used("ScriptDuration") / count
    );
    let mut paints: Vec<f64> = serde_json::from_value(
        browser.value("document.querySelector('.timeline').timeline.frames"),
    )
    .unwrap();
    println!(
        "paints: p50 {:.1} ms, p95 {:.1} ms",
        quantile(&mut paints, 0.5),
        quantile(&mut paints, 0.95)
    );
    let mut control = control_frames(&mut browser);
    println!(
        "control, a canvas of the same size with one rectangle: p50 {:.1} ms, p95 {:.1} ms a frame",
        quantile(&mut control, 0.5),
        quantile(&mut control, 0.95)
    );
}

/// What a frame takes of which the page draws nothing but a rectangle: no page of this size can be faster on this machine.
fn control_frames(browser: &mut crate::chromium::Chromium) -> Vec<f64> {
    let frames = browser.value(
        "(async () => { const old = document.querySelector('.timeline canvas'); const canvas = document.createElement('canvas'); \
         [canvas.width, canvas.height] = [old.width, old.height]; document.body.replaceChildren(canvas); \
         const context = canvas.getContext('2d'); const times = []; let last = performance.now(); \
         for (let step = 0; step < 600; step += 1) { context.fillStyle = step % 2 ? '#fff' : '#eee'; context.fillRect(0, 0, canvas.width, canvas.height); \
         await new Promise(done => requestAnimationFrame(() => setTimeout(done))); const now = performance.now(); times.push(now - last); last = now; } return times; })()",
    );
    serde_json::from_value(frames).unwrap()
}

/// Durations by kind, s.
fn metrics(browser: &mut crate::chromium::Chromium) -> serde_json::Map<String, Value> {
    let metrics = browser.call("Performance.getMetrics", json!({}));
    let metrics = metrics["metrics"].as_array().unwrap().iter();
    metrics
        .map(|metric| {
            (
                metric["name"].as_str().unwrap().to_owned(),
                metric["value"].clone(),
            )
        })
        .collect()
}

/// CPU time of this process, ms, to a tick of 10 ms.
fn process_cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap() * 10.0)
        .sum()
}

/// CPU time of cutting a tile, for every lane and level: the mean of as many as take 200 ms, so that neither ticks nor other programs count.
fn cut_times(timeline: &ViewTimeline) -> Vec<(f64, u32)> {
    let mut times = Vec::new();
    for lane in 0..timeline.lanes.len() {
        for level in 0..34 {
            let tiles = timeline.span / (512 << level) + 1;
            let (began, mut cuts) = (process_cpu_ms(), 0_i64);
            while process_cpu_ms() - began < 200.0 && cuts < 2_000 {
                let x = cuts * 7919 % tiles;
                assert!(timeline.tile(lane, TilePlace { level, x }).is_some());
                cuts += 1;
            }
            times.push(((process_cpu_ms() - began) / cuts as f64, level));
        }
    }
    times
}

/// Three tiles of each level.
fn tile_places(span: i64) -> impl Iterator<Item = (u32, i64)> {
    (0..34_u32)
        .flat_map(move |level| [0, 3, 7].map(|part| (level, (span / 8 * part) >> (9 + level))))
}

/// Tiles of every lane at every level, in ms as a client sees them.
fn tile_times(url: &str, lanes: usize, span: i64) -> Vec<f64> {
    let rest = url.trim_start_matches("http://");
    let (host, token) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    for lane in 0..lanes {
        for (level, x) in tile_places(span) {
            let began = Instant::now();
            write!(
                stream,
                "GET /{token}r/0/tile/{lane}/{level}/{x} HTTP/1.1\r\nHost: {host}\r\n\r\n"
            )
            .unwrap();
            read_answer(&mut stream);
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    times
}

fn read_answer(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
}
