//! Pages beside the timeline, against runs whose every number is known.

use std::sync::Arc;

use llmprof_record::rank_summary::{RankStep, RankSummary};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::serving::{
    Arrival, EnginePart, EngineStep, FailureKind, RequestFailure, RequestRecord, ServedLoad,
};
use llmprof_record::trace::{
    CpuState, FrameId, HostSample, MemoryEvent, MemoryEvents, MemoryPlace, StackFrame,
};
use llmprof_units::Nanos;
use llmprof_view::{OpenedRun, Site};
use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::sample::{self, HOSTILE};
use crate::{browser, click, quiet, screenshot, settle, site, size, start, theme, wait};

const MS: i64 = 1_000_000;
/// 2026-01-01.
const STARTED: i64 = 1_767_225_600_000_000_000;

fn site_of(record: RunRecord) -> Site {
    let analysis = llmprof_analysis::analyze(&record, None).unwrap();
    let run = OpenedRun::new("run".to_owned(), record, Some(analysis), None).unwrap();
    Site {
        runs: vec![Arc::new(run)],
    }
}

/// Two requests that overlap, and one that failed. The first waits 10 ms for an engine step with its prefill of 20 ms; decode steps follow.
fn load() -> RunRecord {
    let load = json!({
        "asked": {
            "endpoint": "http://127.0.0.1:1", "arrivals": {"kind": "closed", "concurrency": 2}, "requests": 3,
            "source": {"kind": "trace", "requests": 3, "speedup": 1.0}, "shared_prefix_share": 0.0, "slos": [],
        },
        "started_unix_ns": STARTED, "duration_ns": 200 * MS, "abandoned": 0,
        "client": {"has_schedule": true, "worker_cpu_share": 0.1, "event_loop_delay_ms": null},
        "server": null, "exporters": [], "steps": [], "sweep": null,
    });
    let mut load: ServedLoad = serde_json::from_value(load).unwrap();
    let request = |index: u64, due: i64, sent: i64, first: i64, end: i64| RequestRecord {
        sent_ns: Some(Nanos(sent * MS)),
        arrivals: [first, i64::midpoint(first, end), end]
            .map(|at| Arrival {
                at_ns: Nanos(at * MS),
                tokens: None,
            })
            .to_vec(),
        end_ns: Nanos(end * MS),
        prompt_tokens: Some(128),
        output_tokens: Some(3),
        ..RequestRecord::due(index, Nanos(due * MS), 3)
    };
    let mut failed = RequestRecord::due(2, Nanos(60 * MS), 3);
    failed.sent_ns = Some(Nanos(60 * MS));
    failed.end_ns = Nanos(90 * MS);
    failed.failure = Some(RequestFailure::new(FailureKind::Timeout, HOSTILE));
    load.load.requests = vec![
        request(0, 0, 2, 32, 92),
        request(1, 40, 40, 64, 104),
        failed,
    ];
    let part = |sequences: u64, tokens: u64| EnginePart {
        sequences,
        tokens,
        context: None,
    };
    let step = |start: i64, end: i64, prefill: u64, decode: u64| EngineStep {
        start_unix_ns: Nanos(STARTED + start * MS),
        end_unix_ns: Nanos(STARTED + end * MS),
        prefill: part(prefill, prefill * 128),
        decode: part(decode, decode),
        ..EngineStep::default()
    };
    load.steps = vec![
        step(12, 32, 1, 0),
        step(33, 43, 0, 1),
        step(44, 64, 1, 1),
        step(65, 104, 0, 2),
    ];
    RunRecord {
        name: "load".to_owned(),
        load: Some(load),
        ..RunRecord::default()
    }
}

/// Four ranks and six steps: rank 2 takes 15 ms in step 4, all others take 10 ms.
fn ranks() -> RunRecord {
    let summary = |rank: u32| {
        let mut end = 0;
        let steps = (0..6).map(|number| {
            let start = end;
            end = start
                + if rank == 2 && number == 4 {
                    15 * MS
                } else {
                    10 * MS
                };
            RankStep {
                number: Some(number),
                start_ns: start,
                end_ns: end,
                compute_ns: end - start,
                ..RankStep::default()
            }
        });
        RankSummary {
            rank,
            world_size: Some(4),
            steps: steps.collect(),
            has_marked_steps: true,
            recorded_ns: 65 * MS,
            ..RankSummary::default()
        }
    };
    RunRecord {
        name: "ranks".to_owned(),
        rank_summaries: (0..4).map(summary).collect(),
        ..RunRecord::default()
    }
}

/// The sample's trace with stacks of the thread that launches and with memory of its operators.
fn host_record() -> RunRecord {
    let mut builder = sample::events();
    let thread = builder.thread(7, 8);
    let file = builder.intern("/srv/serve.py");
    let [main, forward, hostile] = ["main", "forward", HOSTILE].map(|name| builder.intern(name));
    let frame = |parent, function, line| StackFrame {
        parent,
        function,
        file,
        line,
    };
    let outer = builder.frame(frame(FrameId::NONE, main, 1));
    let inner = builder.frame(frame(outer, forward, 20));
    let odd = builder.frame(frame(outer, hostile, 30));
    // 30 of 40 samples of 1 ms are in `forward`. The GPU works from 10 to 310 µs of a step and from 410 to 610 µs.
    for number in 0..40_i64 {
        builder.host_samples.push(HostSample {
            time: number * MS + if number % 2 == 0 { 100_000 } else { 800_000 },
            period: MS,
            thread,
            cpu: CpuState::ON,
            stack: if number % 4 == 3 { odd } else { inner },
            ..HostSample::default()
        });
    }
    builder.memory = MemoryEvents::default();
    for (time, bytes, address, allocated) in [
        // The first sample reaches back 0.9 ms before the trace.
        (2_000, 3 << 20, 1, 5 << 20),
        (403_000, 1 << 20, 2, 6 << 20),
        (1_500_000, -(3 << 20), 1, 3 << 20),
    ] {
        builder.memory.push(MemoryEvent {
            time,
            bytes,
            address,
            allocated,
            thread,
            place: MemoryPlace::DEVICE,
            ..MemoryEvent::default()
        });
    }
    RunRecord {
        name: "host".to_owned(),
        traces: vec![RecordedTrace {
            pass: None,
            trace: builder.finish(),
        }],
        ..RunRecord::default()
    }
}

fn open(site: Site, page: &str) -> Chromium {
    let mut browser = browser();
    let url = start(site);
    browser.open_url(&format!("{url}#{page}"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    browser
}

fn text(browser: &mut Chromium) -> String {
    let text = browser.value("document.getElementById('main').textContent");
    text.as_str().unwrap().to_owned()
}

/// The texts of a picture's marks.
fn marks(browser: &mut Chromium) -> Vec<String> {
    wait(
        browser,
        "document.querySelector('.picture')?.parentElement.picture.marks?.length",
    );
    let marks = browser.value(
        "document.querySelector('.picture').parentElement.picture.marks.map(mark => mark.text)",
    );
    serde_json::from_value(marks).unwrap()
}

/// Widths, themes and the console, for the page that is open.
fn looks_right(browser: &mut Chromium, name: &str) {
    for mode in ["light", "dark"] {
        theme(browser, mode);
        for width in [390, 1400, 2560] {
            size(browser, width, 900);
            let over = browser.number("document.documentElement.scrollWidth - innerWidth");
            assert!(over <= 0.0, "{name} at {width} px is {over} px too wide");
            screenshot(browser, &format!("{name}-{mode}-{width}"));
        }
    }
    let unnamed = browser.value("[...document.querySelectorAll('canvas, input, select, textarea, button')].filter(element => !(element.ariaLabel || element.textContent || element.labels?.length)).length");
    assert_eq!(unnamed, json!(0), "{name} has controls without a label");
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null);
    quiet(browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn requests_are_joined_with_engine_steps() {
    let mut browser = open(site_of(load()), "requests");
    settle(&mut browser);
    let said = text(&mut browser);
    assert!(
        said.contains("3 requests, 1 failed. 4 engine steps"),
        "{said}"
    );
    let slices = browser.value(
        "(() => { const t = document.querySelector('.timeline').timeline; const row = t.shownRows.find(row => row.lane?.title === 'requests'); \
         const tracks = [[], [], []]; for (let x = 0; x * 512 * 2 ** t.level < t.info.span_ns; x += 1) t.store.get(row.number, t.level, x).data.tracks.forEach((track, number) => \
         track.starts.forEach((start, at) => { if (!tracks[number].some(slice => slice[0] === start / 1e6)) tracks[number].push([start / 1e6, track.durations[at] / 1e6, t.run.name(track.names[at])?.[0]]); })); return tracks; })()",
    );
    // The second request begins before the first has ended, so it has a track of its own, and the third one more.
    assert_eq!(
        slices,
        json!([
            [
                [0, 2, "in the client"],
                [2, 30, "until the first token"],
                [32, 60, "tokens"]
            ],
            [[40, 24, "until the first token"], [64, 40, "tokens"]],
            [[60, 30, "failed: timeout"]]
        ])
    );
    browser.value("[...document.querySelectorAll('.page > div:last-of-type td button')].find(button => button.textContent === '0').click()");
    wait(
        &mut browser,
        "document.querySelector('.side h2')?.textContent === 'request 0'",
    );
    let side = browser.value("document.querySelector('.side').textContent");
    let side = side.as_str().unwrap();
    for part in [
        "TTFT32 ms",
        "TPOT30 ms",
        "engine steps until the first token1 (1 with a prefill), 20 ms of the time",
        "engine steps after it3 (1 with a prefill), 57 ms of the time",
        "prefill in: prefill step 20 ms",
    ] {
        assert!(side.contains(part), "{part} in {side}");
    }
    browser.value("document.querySelector('.side li button').click()");
    wait(
        &mut browser,
        "document.querySelector('.side h2')?.textContent === 'prefill step'",
    );
    let side = browser.value("document.querySelector('.side').textContent");
    assert!(
        side.as_str()
            .unwrap()
            .contains("prefill1 sequence, 128 new tokens"),
        "{side}"
    );
    looks_right(&mut browser, "requests");
}

#[test]
#[ignore = "live: needs Chromium"]
fn a_long_step_of_one_rank_stands_out() {
    let mut browser = open(site_of(ranks()), "ranks");
    let marks = marks(&mut browser);
    assert_eq!(marks.len(), 24);
    let slow: Vec<&String> = marks
        .iter()
        .filter(|mark| mark.contains("1.500×"))
        .collect();
    assert_eq!(slow, ["rank 2, step 4: 15 ms, 1.500× the median rank"]);
    // Keys lead to it: two ranks down, four steps right.
    browser.value("document.querySelector('.picture canvas').focus()");
    for key in ["ArrowDown", "ArrowDown", "ArrowDown"]
        .iter()
        .chain(&["ArrowRight"; 4])
    {
        browser.key(key);
    }
    let said = browser.value("document.querySelector('.picture + p').textContent");
    assert_eq!(said, json!(slow[0]));
    looks_right(&mut browser, "ranks");
}

#[test]
#[ignore = "live: needs Chromium"]
fn stacks_are_as_wide_as_their_time() {
    let mut browser = open(site_of(host_record()), "flame");
    let whole = marks(&mut browser);
    assert!(
        whole[0].starts_with("main (serve.py:1): 40 ms, 100.0 % of all"),
        "{whole:?}"
    );
    assert!(
        whole
            .iter()
            .any(|mark| mark.starts_with("forward (serve.py:20): 30 ms, 75.0 %")),
        "{whole:?}"
    );
    // Half of the samples are between kernels; every second of those is in the other function.
    browser.value("[...document.querySelectorAll('button')].find(button => button.textContent === 'While no GPU was busy').click()");
    let idle = marks(&mut browser);
    assert!(idle[0].contains("20 ms"), "{idle:?}");
    assert!(
        idle.iter()
            .any(|mark| mark.starts_with("forward (serve.py:20): 10 ms, 50.0 %")),
        "{idle:?}"
    );
    assert!(
        idle.iter().any(|mark| mark.starts_with("<img src=x")),
        "{idle:?}"
    );
    assert_eq!(
        browser.value("location.hash"),
        json!("#flame?of=idle&run=0")
    );
    // A click makes a frame fill the width.
    let place = browser.value("(() => { const picture = document.querySelector('.picture').parentElement.picture; const box = picture.canvas.getBoundingClientRect(); \
        const mark = picture.marks.find(mark => mark.text.startsWith('forward')); return [box.left + mark.x + 4, box.top + mark.y + 4]; })()");
    click(
        &mut browser,
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap()),
    );
    assert!(
        marks(&mut browser)[0]
            .starts_with("forward (serve.py:20): 10 ms, 50.0 % of all, 100.0 % of what is shown")
    );
    looks_right(&mut browser, "flame");
}

#[test]
#[ignore = "live: needs Chromium"]
fn memory_is_stacked_by_operator() {
    let mut browser = open(site_of(host_record()), "memory");
    marks(&mut browser);
    let said = text(&mut browser);
    assert!(
        said.contains("Peak 6 MiB at 1.303 ms; at the end 3 MiB."),
        "{said}"
    );
    let rows = browser.value("[...document.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent))");
    assert_eq!(
        rows,
        json!([
            ["aten::mm", "4 MiB", "66.7 %", "4 MiB", "1 MiB"],
            [
                "held before the recording",
                "2 MiB",
                "33.3 %",
                "2 MiB",
                "2 MiB"
            ],
        ])
    );
    let held = |texts: &[String]| texts.iter().any(|text| text.starts_with("held before"));
    assert!(held(&marks(&mut browser)), "it is the smaller part");
    browser.value("document.querySelector('section input[type=checkbox]').click()");
    let changing = marks(&mut browser);
    assert!(!changing.is_empty() && !held(&changing), "{changing:?}");
    looks_right(&mut browser, "memory");
}

#[test]
#[ignore = "live: needs Chromium"]
fn steps_lead_to_the_timeline() {
    let mut browser = open(site(), "steps");
    let marks = marks(&mut browser);
    assert_eq!(marks.len(), sample::STEPS as usize);
    assert!(marks[0].starts_with("step 0: "), "{}", marks[0]);
    browser.value("document.querySelector('.picture canvas').focus()");
    browser.key("ArrowRight");
    browser.key("ArrowRight");
    browser.key("Enter");
    wait(&mut browser, "location.hash.startsWith('#timeline')");
    settle(&mut browser);
    // The second step lies in the view.
    let (start, per_px) = crate::state(&mut browser);
    assert!(
        start < 1.1e6 && start + per_px * 1000.0 > 1.9e6,
        "{start} {per_px}"
    );
    browser.value("location.hash = '#steps?run=0'; 0");
    wait(&mut browser, "document.querySelector('.picture')");
    looks_right(&mut browser, "steps");
}

#[test]
#[ignore = "live: needs Chromium"]
fn a_mark_of_a_chart_tells_its_value_and_text_stays_readable() {
    let mut browser = open(site(), "run");
    let marks = "[...document.querySelectorAll('.chart')].flatMap(chart => [...chart.shadowRoot.querySelectorAll('rect > title')])";
    wait(&mut browser, &format!("{marks}.length > 0"));
    let told = browser.value(&format!(
        "{marks}.some(title => /[0-9] (ns|µs|ms|s|%)/.test(title.textContent))"
    ));
    assert_eq!(told, json!(true));
    size(&mut browser, 390, 900);
    // A chart that does not fit scrolls: its letters would be 4 px high.
    let width = browser.number("document.querySelector('.chart').shadowRoot.querySelector('svg').getBoundingClientRect().width");
    assert!(width >= 800.0, "{width}");
    let over = browser.number("document.documentElement.scrollWidth - innerWidth");
    assert!(over <= 0.0, "{over} px too wide");
    // No column is narrower than its words.
    browser.value("location.hash = '#runs?run=0'; 0");
    wait(&mut browser, "document.querySelector('th')");
    let lines = "[...document.querySelectorAll('th button')].map(head => { const range = document.createRange(); range.selectNodeContents(head); \
         return new Set([...range.getClientRects()].map(box => box.top)).size; })";
    assert_eq!(browser.value(lines), json!([1, 1, 1, 1, 1]));
    quiet(&browser);
}

/// Runs by their notes, and from two of them to their comparison.
#[test]
#[ignore = "live: needs Chromium"]
fn runs_are_filtered_sorted_and_compared() {
    let noted = |title: &str, notes: Option<&str>| {
        let record = sample::record();
        let analysis = llmprof_analysis::analyze(&record, None).unwrap();
        let mut run = OpenedRun::new(title.to_owned(), record, Some(analysis), None).unwrap();
        run.notes = notes.map(str::to_owned);
        Arc::new(run)
    };
    let notes = format!("slower since Tuesday\n{HOSTILE}\nagain on Friday");
    let runs = vec![
        noted("b", None),
        noted("c", Some(&notes)),
        noted("a", Some("the baseline")),
    ];
    let mut browser = open(Site { runs }, "runs");
    let column = |place: usize| {
        format!(
            "[...document.querySelectorAll('tbody tr')].map(row => row.children[{place}].textContent)"
        )
    };
    assert_eq!(
        browser.value(&column(4)),
        json!(["", "slower since Tuesday", "the baseline"])
    );
    let head = |name: &str| {
        format!(
            "[...document.querySelectorAll('th button')].find(head => head.textContent === '{name}').click()"
        )
    };
    browser.value(&head("Run"));
    assert_eq!(browser.value(&column(0)), json!(["a", "b", "c"]));
    browser.value(&head("Notes"));
    // A run without notes comes last.
    assert_eq!(browser.value(&column(0)), json!(["c", "a", "b"]));
    let filter = |text: &str| {
        format!(
            "(() => {{ const filter = document.querySelector('.filter'); filter.value = '{text}'; filter.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.value(&filter("friday"));
    assert_eq!(
        browser.value(&column(0)),
        json!(["c"]),
        "the whole notes count"
    );
    browser.value("document.querySelector('tbody input').click()");
    browser.value(&filter("baseline"));
    browser.value("document.querySelector('tbody input').click()");
    browser.value(&filter(""));
    assert_eq!(
        browser.value("[...document.querySelectorAll('tbody input')].map(input => input.checked)"),
        json!([true, true, false]),
        "what is picked stays picked"
    );
    looks_right(&mut browser, "runs-with-notes");
    browser.value("[...document.querySelectorAll('button')].find(button => button.textContent === 'Compare the two').click()");
    wait(&mut browser, "document.querySelector('.pair')");
    assert_eq!(
        browser.value("location.hash"),
        json!("#compare?with=2&run=1")
    );
    wait(
        &mut browser,
        "[...document.querySelectorAll('h2')].some(head => head.textContent === 'Kernels by difference')",
    );
    looks_right(&mut browser, "compare");
    browser.value("location.hash = '#run?run=1'; 0");
    wait(&mut browser, "document.querySelector('.notes')");
    assert_eq!(
        browser.value("document.querySelector('.notes').textContent"),
        json!(notes)
    );
    quiet(&browser);
}

/// A run that has nothing for a page says what would be needed.
#[test]
#[ignore = "live: needs Chromium"]
fn pages_without_data_say_why() {
    let mut browser = open(site_of(ranks()), "timeline");
    for (page, why) in [
        ("timeline", "no trace"),
        ("steps", "Nothing in this run shows steps"),
        ("requests", "This run has no requests"),
        ("memory", "No allocations were recorded"),
        ("flame", "This run has no trace"),
    ] {
        browser.value(&format!("location.hash = '#{page}?run=0'; 0"));
        wait(
            &mut browser,
            &format!(
                "document.getElementById('main').textContent.includes({})",
                json!(why)
            ),
        );
    }
    let said = text(&mut open(site(), "ranks"));
    assert!(said.contains("This run has one rank"), "{said}");
    quiet(&browser);
}
