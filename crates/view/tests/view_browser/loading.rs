//! What a page says while an answer is on its way: the browser holds the request back until the test lets it go.

use serde_json::{Value, json};

use crate::{browser, pair, quiet, settle, start, wait};

const TEXT: &str = "document.getElementById('main').innerText.trim()";

/// Holds back requests for addresses of a pattern.
fn hold(browser: &mut crate::chromium::Chromium, pattern: &str) {
    let patterns = json!({"patterns": [{"urlPattern": pattern}]});
    browser.call("Fetch.enable", patterns);
}

/// The request that is held back.
fn held(browser: &mut crate::chromium::Chromium) -> Value {
    loop {
        let paused = |event: &Value| event["method"] == "Fetch.requestPaused";
        if let Some(place) = browser.events.iter().position(paused) {
            return browser.events.remove(place)["params"]["requestId"].take();
        }
        browser.call("Runtime.evaluate", json!({"expression": "0"}));
    }
}

fn release(browser: &mut crate::chromium::Chromium, request: &Value) {
    browser.call("Fetch.continueRequest", json!({"requestId": request}));
    browser.call("Fetch.disable", json!({}));
}

#[test]
#[ignore = "live: needs Chromium"]
fn every_wait_says_what_is_awaited() {
    let mut browser = browser();
    let url = start(pair());
    // The first paint is the page's own text: no script has run.
    hold(&mut browser, "*/app.js");
    browser.call("Page.navigate", json!({"url": format!("{url}#run")}));
    let request = held(&mut browser);
    wait(&mut browser, "document.getElementById('main')");
    assert_eq!(browser.value(TEXT), json!("Loading the pages…"));
    // In the colours of the system: it was white before a dark page.
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.call("Emulation.setEmulatedMedia", dark);
    // The style sheet may arrive after the body is parsed; nothing is painted until then.
    wait(
        &mut browser,
        "getComputedStyle(document.body).backgroundColor === 'rgb(15, 19, 24)'",
    );
    hold(&mut browser, "*/runs.json");
    browser.call("Fetch.continueRequest", json!({"requestId": request}));
    let request = held(&mut browser);
    assert_eq!(browser.value(TEXT), json!("Loading the list of runs…"));
    release(&mut browser, &request);
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    assert!(
        browser
            .value("document.getElementById('loading')")
            .is_null()
    );
    // Another page of a run that was not opened before.
    hold(&mut browser, "*/r/1/lanes.json");
    browser.value("location.hash = '#timeline?run=1'; 0");
    let request = held(&mut browser);
    wait(
        &mut browser,
        &format!("{TEXT}.startsWith('Loading Timeline of <img')"),
    );
    wait(
        &mut browser,
        "document.getElementById('status').textContent === 'laying out the timeline…'",
    );
    release(&mut browser, &request);
    settle(&mut browser);
    // A sum that takes long.
    hold(&mut browser, "*/totals*");
    browser.value("document.querySelector('.timeline').timeline.select(0, 1e6); 0");
    let request = held(&mut browser);
    wait(
        &mut browser,
        "document.getElementById('status').textContent === 'summing the selection…'",
    );
    release(&mut browser, &request);
    wait(
        &mut browser,
        "document.getElementById('status').textContent === ''",
    );
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null);
    quiet(&browser);
}

#[test]
#[ignore = "live: needs Chromium"]
fn a_server_that_is_gone_is_named() {
    let mut browser = browser();
    hold(&mut browser, "*/runs.json");
    let url = start(pair());
    browser.call("Page.navigate", json!({"url": url}));
    let request = held(&mut browser);
    let failure = json!({"requestId": request, "errorReason": "ConnectionRefused"});
    browser.call("Fetch.failRequest", failure);
    wait(
        &mut browser,
        &format!("{TEXT}.startsWith('Cannot load the list of runs: ')"),
    );
    wait(
        &mut browser,
        "document.getElementById('status').textContent.startsWith('llmprof view does not answer')",
    );
}
