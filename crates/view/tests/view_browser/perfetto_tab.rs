//! "Open in Perfetto": the trace is handed to a page at an address of the user's choice, after a word about it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;

use crate::{browser, quiet, settle, site, start, wait};

/// A page that answers as Perfetto's does and tells how many bytes it was given.
const PAGE: &str = "<!doctype html><script>addEventListener('message', event => { if (event.data === 'PING') event.source.postMessage('PONG', event.origin); \
                    else fetch('/got/' + event.data.perfetto.buffer.byteLength); })</script>";

/// A server of that page; the receiver gets the paths it is asked for.
fn perfetto_stand_in() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, paths) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                head.clear();
            }
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{PAGE}",
                PAGE.len()
            );
            let _ = stream.write_all(answer.as_bytes());
            if sender.send(path).is_err() {
                break;
            }
        }
    });
    (url, paths)
}

#[test]
#[ignore = "live: needs Chromium"]
fn perfetto_gets_the_trace_when_a_person_agrees() {
    let mut browser = browser();
    let site = site();
    let mut trace = Vec::new();
    let run = &site.runs[0];
    run.timeline.write_pftrace(&run.record, &mut trace).unwrap();
    let url = start(site);
    let (address, paths) = perfetto_stand_in();
    browser.open_url(&format!("{url}#timeline"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    settle(&mut browser);
    browser.value("document.querySelector('[aria-label=\"open in Perfetto\"]').click()");
    let said = browser.value("document.querySelector('dialog').textContent");
    assert!(
        said.as_str()
            .unwrap()
            .contains("hands the trace of this run to it"),
        "{said}"
    );
    browser.value("document.querySelector('dialog input').value = 'javascript:alert(1)'; document.querySelector('dialog button').click()");
    assert_eq!(
        browser.value("document.querySelector('dialog .bad').textContent"),
        json!("An address begins with http:// or https://.")
    );
    assert!(paths.try_recv().is_err(), "nothing was asked for yet");
    let agree = format!(
        "document.querySelector('dialog input').value = {}; document.querySelector('dialog button').click()",
        json!(address)
    );
    browser.call(
        "Runtime.evaluate",
        json!({"expression": agree, "userGesture": true}),
    );
    let given = paths.iter().find(|path| path.starts_with("/got/"));
    assert_eq!(given, Some(format!("/got/{}", trace.len())));
    quiet(&browser);
}
