//! The archive: the same pages from files.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use llmprof_view::tile::TilePlace;
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
#[ignore = "live: needs Chromium"]
fn an_archive_shows_the_timeline_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("page");
    let facts = site().write_archive(&target).unwrap();
    assert!(!facts.is_cut && facts.files > 20);
    assert!(site().write_archive(&target).is_err(), "never overwritten");
    let mut browser = browser();
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
    // Every place and zoom is shown by a tile that the archive has: a missing one is an error in the console.
    for hash in [
        "#timeline?t=-1000000,400000000",
        "#timeline?t=50000,10",
        "#timeline?t=0,20000000",
        "#run",
        "#memory",
    ] {
        browser.value(&format!("location.hash = '{hash}'"));
        if hash.starts_with("#timeline") {
            let start: f64 = hash["#timeline?t=".len()..]
                .split(',')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            wait(
                &mut browser,
                &format!(
                    "Math.abs(document.querySelector('.timeline')?.timeline.start - {start}) < 1"
                ),
            );
            settle(&mut browser);
            // At rest it fetches what a next move shows.
            wait(
                &mut browser,
                "document.querySelector('.timeline').timeline.isResting",
            );
            settle(&mut browser);
        } else {
            wait(&mut browser, "document.querySelector('.page h1')");
        }
    }
    quiet(&browser);
}

#[test]
fn an_archive_lists_the_tiles_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("page");
    let site = site();
    site.write_archive(&target).unwrap();
    let lanes = std::fs::read(target.join("r/0/lanes.json")).unwrap();
    let lanes: Value = serde_json::from_slice(&lanes).unwrap();
    for (lane, facts) in lanes["lanes"].as_array().unwrap().iter().enumerate() {
        // The widest first, 64 in a file.
        let levels = facts["tiles"].as_object().unwrap();
        let mut levels: Vec<(u32, Vec<i64>)> = levels
            .iter()
            .map(|(level, bounds)| {
                let bounds = serde_json::from_value(bounds.clone()).unwrap();
                (level.parse().unwrap(), bounds)
            })
            .collect();
        levels.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        let places = levels.iter().flat_map(|(level, bounds)| {
            let numbers = bounds.chunks(2).flat_map(|pair| pair[0]..=pair[1]);
            numbers.map(|x| TilePlace { level: *level, x })
        });
        let places: Vec<TilePlace> = places.collect();
        for (number, places) in places.chunks(64).enumerate() {
            let pack = std::fs::read(target.join(format!("r/0/tile/{lane}/{number}"))).unwrap();
            let lengths = pack[..256].chunks(4);
            let lengths =
                lengths.map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()) as usize);
            let lengths: Vec<usize> = lengths.collect();
            let mut at = 256;
            for (place, length) in places.iter().zip(&lengths) {
                let tile = site.runs[0].timeline.tile(lane, *place).unwrap();
                assert_eq!(pack[at..at + length], tile, "lane {lane}, {place:?}");
                at += length;
            }
            assert_eq!(at, pack.len());
        }
        let files = std::fs::read_dir(target.join(format!("r/0/tile/{lane}"))).unwrap();
        assert_eq!(files.count(), places.len().div_ceil(64));
    }
}
