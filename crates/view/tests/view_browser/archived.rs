//! The archive: the same pages from files.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{browser, quiet, sample, settle, site, wait};

/// A web server that knows files and nothing else.
pub(crate) fn serve_files(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                head.clear();
            }
            let path = line
                .split(' ')
                .nth(1)
                .unwrap_or("/")
                .split('?')
                .next()
                .unwrap_or("/");
            let file = folder.join(match path.trim_start_matches('/') {
                "" => "index.html",
                path => path,
            });
            let kind = match file.extension().and_then(|end| end.to_str()) {
                Some("js") => "text/javascript",
                Some("css") => "text/css",
                Some("html") => "text/html",
                Some("svg") => "image/svg+xml",
                Some("wasm") => "application/wasm",
                _ => "application/octet-stream",
            };
            let (status, body) = match std::fs::read(&file) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&body));
        }
    });
    url
}

#[test]
fn an_archive_shows_the_timeline_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("page");
    let facts = site().write_archive(&target).unwrap();
    assert!(!facts.is_cut && facts.files > 20);
    assert!(site().write_archive(&target).is_err(), "never overwritten");
    assert!(!Path::new(&target).join("r/0/tile/0/40").exists());
    let Some(mut browser) = browser() else {
        return;
    };
    let url = serve_files(target);
    browser.open_url(&format!("{url}#timeline?t=3000000,20000"));
    wait(
        &mut browser,
        "document.documentElement.dataset.ready === 'yes'",
    );
    settle(&mut browser);
    let chosen = format!(
        "(() => {{ const t = document.querySelector('.timeline').timeline; const row = t.shownRows.find(row => row.lane?.title === 'stream 7'); \
         const hit = t.hit({{x: t.x({}), y: row.top + 5}}); t.click({{x: t.x({}), y: row.top + 5}}); return hit?.duration_ns ?? null; }})()",
        3_015_000, 3_015_000
    );
    assert_eq!(browser.value(&chosen), json!(sample::GEMM_NS));
    wait(
        &mut browser,
        "document.querySelector('.side h2')?.textContent.includes('<img')",
    );
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null);
    assert_eq!(
        browser.value(
            "[...document.querySelectorAll('#tabs a')].some(tab => tab.textContent === 'Query')"
        ),
        json!(false)
    );
    // A tile below one that shows everything is not there, which the browser logs and the page expects.
    browser
        .events
        .retain(|event| event["params"]["entry"]["source"] != "network");
    quiet(&browser);
}
