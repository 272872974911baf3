//! The pages in a real browser, against a run whose every time is known.
//!
//! Skipped where there is no Chromium, unless `LLMPROF_REQUIRE_BROWSER=1`. `LLMPROF_SCREENSHOTS=DIR` keeps pictures to look at.
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
use llmprof_view::{OpenedRun, Server, Site, serve};
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
    let server = Server::bind(0).unwrap();
    let url = server.url();
    std::thread::spawn(move || serve(server, &Arc::new(site)));
    url
}

#[expect(clippy::print_stderr, reason = "a test that did not run says so")]
pub(crate) fn browser() -> Option<Chromium> {
    let Some(path) = chromium::find() else {
        let required =
            std::env::var_os("LLMPROF_REQUIRE_BROWSER").is_some_and(|value| value == "1");
        assert!(!required, "LLMPROF_REQUIRE_BROWSER=1, but no chromium");
        eprintln!("skipped: no chromium on the search path");
        return None;
    };
    Some(Chromium::start(&path))
}

/// A page that is loaded, with nothing left to fetch.
fn open(url: &str, hash: &str) -> Option<Chromium> {
    let mut browser = browser()?;
    browser.open_url(&format!("{url}{hash}"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    Some(browser)
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
fn keys_move_the_view() {
    let Some(mut browser) = open(&start(site()), "#timeline") else {
        return;
    };
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
fn a_click_shows_what_launched_a_kernel() {
    let Some(mut browser) = open(&start(site()), "#timeline?t=0,2000000") else {
        return;
    };
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
    quiet(&browser);
}

#[test]
fn a_drag_sums_what_it_covers() {
    let Some(mut browser) = open(&start(site()), "#timeline") else {
        return;
    };
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
fn search_and_address_lead_back() {
    let url = start(site());
    let Some(mut browser) = open(&url, "#timeline?q=img+src") else {
        return;
    };
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
fn two_timelines_move_in_step() {
    let Some(mut browser) = open(&start(pair()), "#compare?run=0&with=1") else {
        return;
    };
    wait(
        &mut browser,
        "[...document.querySelectorAll('.timeline')].filter(element => element.timeline.width).length === 2",
    );
    let views = "[...document.querySelectorAll('.timeline')].map(element => [element.timeline.start, element.timeline.nsPerPx])";
    browser.value("document.querySelectorAll('.timeline')[1].timeline.zoom(0.25, 600)");
    let both = browser.value(views);
    assert_eq!(both[0], both[1]);
    assert_ne!(both[0][0], json!(0));
    let differences = browser.value("[...document.querySelectorAll('.page > div:last-child tbody tr')].map(row => row.children[5].textContent)");
    assert_eq!(
        differences,
        json!(["0 ns", "0 ns", "0 ns"]),
        "the same program"
    );
    quiet(&browser);
}

#[test]
fn every_page_is_quiet_at_every_width_in_both_themes() {
    let url = start(site());
    let Some(mut browser) = open(&url, "#run") else {
        return;
    };
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
