//! What the server refuses.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::{site, start};

fn ask(url: &str, request: &str) -> String {
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn wrong_token_host_origin_and_method_are_refused() {
    let url = start(site());
    let host = url
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let token = url
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(token.len(), 32);
    let get = |path: &str, host: &str, more: &str| {
        ask(
            &url,
            &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"),
        )
    };
    let own = format!("/{token}/runs.json");
    let good = get(&own, &host, "");
    assert!(good.starts_with("HTTP/1.1 200"), "{good}");
    assert!(good.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"));
    assert!(
        get(&own, "localhost:9", "").starts_with("HTTP/1.1 200"),
        "ssh -L has another port"
    );
    assert!(get(&own, &host, &format!("Origin: http://{host}\r\n")).starts_with("HTTP/1.1 200"));
    let wrong = format!("/{}/runs.json", "0".repeat(32));
    for (path, host, more) in [
        (wrong.as_str(), host.as_str(), ""),
        ("/runs.json", host.as_str(), ""),
        ("/", host.as_str(), ""),
        (own.as_str(), "evil.example", ""),
        (own.as_str(), "localhost:80@evil.example", ""),
        (own.as_str(), "[::1]evil.example", ""),
        (own.as_str(), "", ""),
        (
            own.as_str(),
            host.as_str(),
            "Origin: http://evil.example\r\n",
        ),
        (own.as_str(), host.as_str(), "Origin: null\r\n"),
        (
            own.as_str(),
            host.as_str(),
            "Sec-Fetch-Site: cross-site\r\n",
        ),
    ] {
        let answer = get(path, host, more);
        assert!(
            answer.starts_with("HTTP/1.1 403"),
            "{path} {host} {more}: {answer}"
        );
        assert!(!answer.contains("runs"), "{answer}");
    }
    for path in [
        "nothing",
        "r/9/run.json",
        "r/0/tile/0/99/0",
        "r/0/tile/0/3/-1",
        "r/0/event/0/4294967295",
        "../../etc/passwd",
    ] {
        let answer = get(&format!("/{token}/{path}"), &host, "");
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let post = ask(
        &url,
        &format!("POST {own} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
    );
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    let garbage = ask(&url, "hello\r\n\r\n");
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");
}

/// A report is a file of the run's folder, so its script may be anybody's.
#[test]
fn a_report_is_shown_in_a_sandbox() {
    let record = crate::sample::record();
    let report = Some("<script>fetch('../../runs.json')</script>".to_owned());
    let run = llmprof_view::OpenedRun::new("run".to_owned(), record, None, report).unwrap();
    let site = llmprof_view::Site {
        runs: vec![std::sync::Arc::new(run)],
    };
    let url = start(site);
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let request =
        format!("GET /{path}r/0/report.html HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = ask(&url, &request);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let policy = "Content-Security-Policy: sandbox allow-scripts allow-popups allow-downloads; default-src 'none';";
    assert!(answer.contains(policy), "{answer}");
}
