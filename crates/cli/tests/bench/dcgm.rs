//! GPUs of a server elsewhere: what its DCGM exporter says reaches the report.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use super::{bench, json, read, stub};

/// A page as the exporter writes it; the second GPU has no profiling fields and no error.
const PAGE: &str = include_str!("dcgm_exporter.txt");

/// Answers every request with the page until the test ends.
fn exporter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{PAGE}", PAGE.len());
        }
    });
    url
}

#[test]
fn what_a_dcgm_exporter_says_is_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let (stub, url) = (stub(), exporter());
    let (code, _, errors) = bench(
        dir.path(),
        &[
            &stub.url(),
            "--requests",
            "8",
            "--output-tokens",
            "8",
            "--metrics",
            &url,
            "--scrape-interval",
            "20ms",
            "-o",
            "run",
        ],
    );
    assert_eq!(code, 0, "{errors}");
    let run = dir.path().join("run");
    let report = read(&run.join("report.md"));
    let rows: Vec<&str> = report
        .lines()
        .skip_while(|line| !line.contains("GPUs by the DCGM exporter"))
        .filter(|line| line.starts_with('|'))
        .take(4)
        .collect();
    let cells = |row: usize| -> Vec<&str> { rows[row].split('|').map(str::trim).collect() };
    assert_eq!(
        cells(2)[1..8],
        [
            "0",
            "62.5 %",
            "31.2 %",
            "1980",
            "2619",
            "512.3 (512.3)",
            "XID 79"
        ],
        "{rows:?}"
    );
    assert_eq!(
        cells(3)[1..8],
        ["1", "", "", "345", "2619", "71.25 (71.25)", "none"],
        "{rows:?}"
    );
    assert!(read(&run.join("report.html")).contains("XID 79"));
    let kept = json(&run.join("load.json")).to_string();
    assert!(kept.contains("DCGM_FI_DEV_XID_ERRORS"), "{kept}");
}
