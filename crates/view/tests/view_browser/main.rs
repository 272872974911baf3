//! The pages in a real browser, against a run whose every time is known.
//!
//! `LLMPROF_SCREENSHOTS=DIR` keeps pictures to look at.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../report/tests/browser/chromium.rs"]
#[allow(dead_code, reason = "shared with the tests of reports")]
mod chromium;

mod archived;
mod facts;
mod http;
mod large;
mod loading;
mod pages;
mod perfetto;
mod perfetto_tab;
mod perfetto_ui;
mod questions;
mod sample;

use std::sync::Arc;

use chromium::Chromium;
use llmprof_view::{OpenedRun, Site, ViewServer, serve};
use serde_json::{Value, json};

/// Two runs of the same program.
pub(crate) fn pair() -> Site {
    let runs = site().runs.into_iter().chain(site().runs).collect();
    Site { runs }
}

pub(crate) fn site() -> Site {
    let record = sample::record();
    let analysis = llmprof_analysis::analyze(&record, None).unwrap();
    let title = sample::HOSTILE.to_owned();
    let run = OpenedRun::new(title, record, Some(analysis), None).unwrap();
    Site {
        runs: vec![Arc::new(run)],
    }
}

/// The address of a server that lives as long as the test.
pub(crate) fn start(site: Site) -> String {
    let server = ViewServer::bind(0).unwrap();
    let url = server.url();
    std::thread::spawn(move || serve(server, &Arc::new(site)));
    url
}

pub(crate) fn browser() -> Chromium {
    Chromium::start(&chromium::find())
}

/// A page that is loaded, with nothing left to fetch.
fn open(url: &str, hash: &str) -> Chromium {
    let mut browser = browser();
    browser.open_url(&format!("{url}{hash}"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    browser
}

/// Waits until an expression is true; the page says when it is done, no time is guessed.
pub(crate) fn wait(browser: &mut Chromium, condition: &str) {
    let waited = browser.value(&format!(
        "new Promise(done => {{ const began = performance.now(); const look = () => (({condition}) ? done(true) : \
         performance.now() - began > 60000 ? done(false) : setTimeout(look, 20)); look(); }})"
    ));
    assert_eq!(waited, json!(true), "{condition}");
}

pub(crate) fn settle(browser: &mut Chromium) {
    wait(
        browser,
        "(() => { const t = document.querySelector('.timeline')?.timeline; return t && t.width && t.frames.length && !t.store.isLoading && !t.isDrawing && !t.stale; })()",
    );
}

pub(crate) fn quiet(browser: &Chromium) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

fn state(browser: &mut Chromium) -> (f64, f64) {
    let view = browser.value("(() => { const t = document.querySelector('.timeline').timeline; return [t.start, t.nsPerPx]; })()");
    (view[0].as_f64().unwrap(), view[1].as_f64().unwrap())
}

/// The middle of an event, given its lane's title and a moment.
fn place(browser: &mut Chromium, title: &str, ns: i64) -> (f64, f64) {
    let place = browser.value(&format!(
        "(() => {{ const t = document.querySelector('.timeline').timeline; const box = t.canvas.getBoundingClientRect(); \
         const row = t.shownRows.find(row => row.lane?.title === {}); return [box.left + t.x({ns}), box.top + row.top + 8]; }})()",
        json!(title)
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

fn click(browser: &mut Chromium, at: (f64, f64)) {
    let button = json!({"button": "left", "clickCount": 1, "buttons": 1});
    browser.mouse("mouseMoved", at, json!({}));
    browser.mouse("mousePressed", at, button.clone());
    browser.mouse("mouseReleased", at, button);
}

fn screenshot(browser: &mut Chromium, name: &str) {
    if let Some(folder) = std::env::var_os("LLMPROF_SCREENSHOTS") {
        let shot = browser.call("Page.captureScreenshot", json!({"format": "png"}));
        let file = std::path::Path::new(&folder).join(format!("{name}.b64"));
        std::fs::write(file, shot["data"].as_str().unwrap()).unwrap();
    }
}

fn size(browser: &mut Chromium, width: u32, height: u32) {
    let metrics =
        json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", metrics);
    browser.frame();
}

fn theme(browser: &mut Chromium, theme: &str) {
    let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
    browser.call("Emulation.setEmulatedMedia", features);
    browser.frame();
}

/// Columns and tree of the lanes; what launched what is beside them.
#[test]
fn lanes_take_at_most_forty_bytes_an_event() {
    let site = site();
    let timeline = &site.runs[0].timeline;
    let per_event = timeline.memory_bytes() as f64 / timeline.events() as f64;
    assert!((16.0..=40.0).contains(&per_event), "{per_event}");
}

#[test]
#[ignore = "live: needs Chromium"]
fn keys_move_the_view() {
    let mut browser = open(&start(site()), "#timeline");
    settle(&mut browser);
    let (start, per_px) = state(&mut browser);
    browser.key("w");
    let (_, zoomed) = state(&mut browser);
    assert!(zoomed < per_px);
    browser.key("s");
    let (_, back) = state(&mut browser);
    assert!((back - per_px).abs() < 1e-6 * per_px);
    for _ in 0..8 {
        browser.key("w");
    }
    let (before, _) = state(&mut browser);
    browser.key("d");
    let (right, _) = state(&mut browser);
    browser.key("a");
    let (left, _) = state(&mut browser);
    assert!(right > before && (left - before).abs() < 1.0);
    browser.key("0");
    assert_eq!(state(&mut browser), (start, per_px));
    browser.key("/");
    assert_eq!(
        browser.value("document.activeElement.type"),
        json!("search")
    );
    settle(&mut browser);
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn a_click_shows_what_launched_a_kernel() {
    let mut browser = open(&start(site()), "#timeline?t=0,2000000");
    settle(&mut browser);
    let at = place(&mut browser, "stream 7", 110_000);
    click(&mut browser, at);
    wait(&mut browser, "document.querySelector('.side h2')");
    let text = browser.value("document.querySelector('.side').textContent");
    let text = text.as_str().unwrap();
    for part in [
        "s16816gemm",
        "duration300 µs",
        "operatoraten::mm",
        "launched by: cudaLaunchKernel",
        "launch to start6 µs",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let links = browser.value("document.querySelector('.timeline').timeline.links.map(link => [link.role, link.start_ns])");
    assert_eq!(links, json!([["launched by", 4000], ["operator", 1000]]));
    // The other way: from the call to its kernel.
    browser.value("document.querySelector('.side li button').click()");
    wait(
        &mut browser,
        "document.querySelector('.side h2').textContent === 'cudaLaunchKernel'",
    );
    let links =
        browser.value("document.querySelector('.timeline').timeline.links.map(link => link.role)");
    assert_eq!(links, json!(["launched"]));
    browser.key("f");
    settle(&mut browser);
    let (_, per_px) = state(&mut browser);
    assert!(per_px < 50.0, "a call of 4 µs fills the view: {per_px}");
    // What a click on the head of a lane and of a group does.
    let changed = "(() => { const t = document.querySelector('.timeline').timeline; return [t.pins.size, t.open.size, t.closed.size]; })()";
    for key in ["p", "e", "g"] {
        browser.key(key);
    }
    assert_eq!(browser.value(changed), json!([1, 1, 1]));
    for key in ["p", "e", "g"] {
        browser.key(key);
    }
    assert_eq!(browser.value(changed), json!([0, 0, 0]));
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn a_drag_sums_what_it_covers() {
    let mut browser = open(&start(site()), "#timeline");
    settle(&mut browser);
    browser.value("document.querySelector('.timeline').timeline.select(10000, 10010000)");
    wait(&mut browser, "document.querySelector('.side h3')");
    let text = browser.value("document.querySelector('.side').textContent");
    let text = text.as_str().unwrap();
    // Ten steps of 500 µs of kernels; a copy of 20 µs runs beside one of them.
    assert!(
        text.contains("busy 5 ms (50.0 %), idle 5 ms (50.0 %)"),
        "{text}"
    );
    let drag = json!({"button": "left", "clickCount": 1, "buttons": 1});
    let from = place(&mut browser, "stream 7", 20_000_000);
    browser.mouse("mousePressed", from, drag.clone());
    browser.mouse("mouseMoved", (from.0 + 60.0, from.1), drag.clone());
    browser.mouse("mouseReleased", (from.0 + 60.0, from.1), drag);
    let area = browser.value("document.querySelector('.timeline').timeline.area");
    let (_, per_px) = state(&mut browser);
    let width = area[1].as_f64().unwrap() - area[0].as_f64().unwrap();
    assert!((width / per_px - 60.0).abs() < 1.5, "{area}");
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn search_and_address_lead_back() {
    let url = start(site());
    let mut browser = open(&url, "#timeline?q=img+src");
    settle(&mut browser);
    wait(
        &mut browser,
        "document.querySelector('.side h2')?.textContent.startsWith('2 events match')",
    );
    browser.value("document.querySelector('.timeline').timeline.find(true)");
    wait(
        &mut browser,
        "document.querySelector('.timeline').timeline.selected?.start_ns > 0",
    );
    wait(&mut browser, "location.hash.includes('s=')");
    let hash = browser.value("location.hash");
    let before = state(&mut browser);
    browser.open_url("about:blank");
    browser.open_url(&format!("{url}{}", hash.as_str().unwrap()));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    settle(&mut browser);
    wait(
        &mut browser,
        "document.querySelector('.side h2')?.textContent.includes('<img src=x')",
    );
    let after = state(&mut browser);
    assert!((before.0 - after.0).abs() < 2.0 && (before.1 / after.1 - 1.0).abs() < 1e-3);
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null);
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn two_timelines_move_in_step() {
    let mut browser = open(&start(pair()), "#compare?run=0&with=1");
    wait(
        &mut browser,
        "[...document.querySelectorAll('.timeline')].filter(element => element.timeline.width).length === 2",
    );
    let views = "[...document.querySelectorAll('.timeline')].map(element => [element.timeline.start, element.timeline.nsPerPx])";
    browser.value("document.querySelectorAll('.timeline')[1].timeline.zoom(0.25, 600)");
    let both = browser.value(views);
    assert_eq!(both[0], both[1]);
    assert_ne!(both[0][0], json!(0));
    wait(
        &mut browser,
        "document.querySelector('.page > div:last-child tbody tr')",
    );
    let cells = |column: usize| {
        format!(
            "[...document.querySelectorAll('.page > div:last-child table:last-of-type tbody tr')].map(row => row.children[{column}].textContent)"
        )
    };
    let same = json!(["0 ns", "0 ns", "0 ns"]);
    assert_eq!(browser.value(&cells(5)), same, "the same program");
    let text = browser.value("document.querySelector('.page').textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("A and B are the same recording"), "{text}");
    // The hostile kernel ran once.
    let intervals = browser.value(&cells(9));
    assert_eq!(intervals, json!(["–", "+0.0 … +0.0 %", "+0.0 … +0.0 %"]));
    quiet(&browser);
}

/// What a person set up: times, folded groups, opened and pinned lanes, selection.
#[test]
#[ignore = "live: needs Chromium"]
fn the_address_holds_the_view_of_a_timeline_and_of_both_that_are_compared() {
    let url = start(pair());
    let shown = "[...document.querySelectorAll('.timeline')].map(element => { const t = element.timeline; \
                 return [Math.round(t.start), [...t.closed], [...t.open], [...t.pins], t.area, t.selected?.event ?? null, t.search.value]; })";
    let all_drawn = |number: usize| {
        format!(
            "[...document.querySelectorAll('.timeline')].filter(element => element.timeline.width && element.timeline.frames.length).length === {number}"
        )
    };
    let mut browser = open(&url, "#timeline?run=1");
    wait(&mut browser, &all_drawn(1));
    browser.value(
        "(() => { const t = document.querySelector('.timeline').timeline; t.zoom(0.25, 600); t.toggle(t.closed, t.info.lanes.at(-1).group); \
         t.toggle(t.open, 0); t.toggle(t.pins, 1); })()",
    );
    wait(&mut browser, "location.hash.includes('g=')");
    let before = browser.value(shown);
    let hash = browser.value("location.hash");
    assert!(hash.as_str().unwrap().contains("run=1"), "{hash}");
    browser.open_url("about:blank");
    browser.open_url(&format!("{url}{}", hash.as_str().unwrap()));
    wait(&mut browser, &all_drawn(1));
    assert_eq!(browser.value(shown), before);

    let mut browser = open(&url, "#compare?run=0&with=1");
    wait(&mut browser, &all_drawn(2));
    browser.value(
        "(() => { const [a, b] = [...document.querySelectorAll('.timeline')].map(element => element.timeline); a.zoom(0.25, 600); \
         a.toggle(a.closed, a.info.lanes[0].group); b.toggle(b.pins, 1); b.select(10000, 20000); })()",
    );
    wait(
        &mut browser,
        "location.hash.includes('b.a=10000%2C20000') && location.hash.includes('b.p=1') && location.hash.includes('g=0')",
    );
    let before = browser.value(shown);
    assert_ne!(before[0][1], before[1][1], "each has its own");
    let hash = browser.value("location.hash");
    browser.open_url("about:blank");
    browser.open_url(&format!("{url}{}", hash.as_str().unwrap()));
    wait(&mut browser, &all_drawn(2));
    assert_eq!(browser.value(shown), before);
    quiet(&browser);
}

/// Tiles meet without a gap or an overlap, whatever the ratio of device pixels: a lane that is busy all the time is one bar.
#[test]
#[ignore = "live: needs Chromium"]
fn tiles_have_no_seam_at_fractional_ratios() {
    let mut browser = browser();
    let url = start(site());
    for ratio in [1.0, 1.25, 1.5, 1.1] {
        let metrics =
            json!({"width": 1000, "height": 700, "deviceScaleFactor": ratio, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", metrics);
        browser.open_url("about:blank");
        browser.open_url(&format!("{url}#timeline?t=1234567,2345678"));
        wait(
            &mut browser,
            "document.documentElement.dataset.ready === 'yes'",
        );
        settle(&mut browser);
        // A tile full of one slice, beside itself.
        let seams = browser.value(
            "(() => { const t = document.querySelector('.timeline').timeline; const context = t.canvas.getContext('2d'); \
             const full = new OffscreenCanvas(Math.round(512 * 0.7), 20); const paint = full.getContext('2d'); paint.fillStyle = '#123456'; paint.fillRect(0, 0, full.width, full.height); \
             context.setTransform(1, 0, 0, 1, 0, 0); context.clearRect(0, 0, t.canvas.width, t.canvas.height); \
             const ns = t.nsPerPx * 512 * 0.7 / t.ratio; const row = { top: 100.3 }; \
             for (let x = -1; x < 12; x += 1) t.copyTile(context, full, row, t.start + x * ns, t.start + (x + 1) * ns); \
             const left = Math.ceil(t.labelWidth * t.ratio) + 1; const image = context.getImageData(left, Math.round(100.3 * t.ratio), t.canvas.width - left, 20).data; \
             let wrong = 0; for (let at = 0; at < image.length; at += 4) if (image[at] !== 0x12 || image[at + 1] !== 0x34 || image[at + 2] !== 0x56 || image[at + 3] !== 255) wrong += 1; return wrong; })()",
        );
        assert_eq!(seams, json!(0), "at {ratio}");
        let exact = browser.value("(() => { const t = document.querySelector('.timeline').timeline; const box = t.stage.getBoundingClientRect(); return Math.abs(t.canvas.width - box.width * t.ratio) < 1; })()");
        assert_eq!(exact, json!(true));
    }
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn every_page_is_quiet_at_every_width_in_both_themes() {
    let url = start(site());
    let mut browser = open(&url, "#run");
    for (page, probe) in [
        ("run", ".page h1"),
        ("runs", ".page table"),
        ("query", ".page textarea"),
        ("timeline", ".timeline canvas"),
    ] {
        browser.value(&format!("location.hash = '#{page}?run=0'"));
        wait(&mut browser, &format!("document.querySelector('{probe}')"));
        let objects = browser.number("document.body.innerText.split('[object ').length - 1");
        assert!(objects == 0.0, "{page} prints objects");
        if page == "run" {
            let texts = "[...document.querySelectorAll('.page p, .page li')]";
            let quoted = browser.number(&format!(
                "{texts}.filter(text => text.innerText.includes('`')).length"
            ));
            assert!(quoted == 0.0, "{quoted} sentences have backticks");
            let marked = browser.number("document.querySelectorAll('.page p code').length");
            assert!(marked > 0.0, "no name is marked");
        }
        for mode in ["light", "dark"] {
            theme(&mut browser, mode);
            for width in [390, 1400, 2560] {
                size(&mut browser, width, 900);
                if page == "timeline" {
                    settle(&mut browser);
                }
                let over = browser.number("document.documentElement.scrollWidth - innerWidth");
                assert!(over <= 0.0, "{page} at {width} px is {over} px too wide");
                screenshot(&mut browser, &format!("{page}-{mode}-{width}"));
            }
        }
    }
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null);
    quiet(&browser);
}
