//! HTTP on loopback for one person's browser.
//!
//! Every path begins with a random token, so that other users of the machine and other pages in the browser learn nothing. The `Host`
//! must be loopback, which defeats names that a foreign site resolves to 127.0.0.1, and an `Origin` must be this server. Requests are
//! read within limits; nothing they name is a file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::ViewError;
use crate::site::{Site, SiteReply};

/// A browser opens six connections; two pages and a prefetch stay far below this.
const CONNECTIONS_MAX: usize = 64;
/// Request line and headers together.
const HEAD_BYTES_MAX: u64 = 32 * 1024;
/// For the next request of a connection, from the end of the one before.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// For the first one: who has not shown the token yet holds a connection no longer.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const TOKEN_BYTES: usize = 16;
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The report is a file of the run's folder, which may come from others: it may draw itself, and reach neither this server nor another.
const REPORT_POLICY: &str = "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; script-src 'unsafe-inline'; \
                             style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A server that listens, and the address to open.
pub struct ViewServer {
    listener: TcpListener,
    token: String,
    port: u16,
}

impl ViewServer {
    /// Listens on loopback; port 0 is any free one.
    pub fn bind(port: u16) -> Result<Self, ViewError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|source| ViewError::Listen { port, source })?;
        let port = listener
            .local_addr()
            .map_err(|source| ViewError::Listen { port, source })?
            .port();
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut bytes))
            .map_err(ViewError::Random)?;
        let token = format!("{:032x}", u128::from_le_bytes(bytes));
        Ok(Self {
            listener,
            token,
            port,
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }
}

/// Answers requests for as long as the process lives.
pub fn serve(server: ViewServer, site: &Arc<Site>) {
    let open = Arc::new(AtomicUsize::new(0));
    let token: Arc<str> = server.token.into();
    for stream in server.listener.incoming() {
        let Ok(stream) = stream else { continue };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (site, open, token) = (Arc::clone(site), Arc::clone(&open), Arc::clone(&token));
        std::thread::spawn(move || {
            // A reader that goes away is its own affair.
            let _ = converse(&stream, &site, &token);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn converse(stream: &TcpStream, site: &Site, token: &str) -> std::io::Result<()> {
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(TimedStream {
        stream,
        deadline: Instant::now() + FIRST_HEAD_TIMEOUT,
    });
    while answer_next(&mut reader, &mut &*stream, site, token)? {
        reader.get_mut().deadline = Instant::now() + IDLE_TIMEOUT;
    }
    Ok(())
}

/// Reads a request and answers it; whether the connection stays open for another.
pub fn answer_next(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    site: &Site,
    token: &str,
) -> std::io::Result<bool> {
    let Some(request) = HttpRequest::read(reader)? else {
        return Ok(false);
    };
    let answer = answer(&request, site, token);
    write_answer(writer, &answer, request.keeps_open)?;
    Ok(request.keeps_open)
}

/// A stream whose next request must have come by a deadline, however slowly its bytes come.
struct TimedStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for TimedStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

struct HttpAnswer {
    status: &'static str,
    reply: SiteReply,
}

fn answer(request: &HttpRequest, site: &Site, token: &str) -> HttpAnswer {
    let refuse = |status: &'static str| HttpAnswer {
        status,
        reply: SiteReply {
            content_type: "text/plain; charset=utf-8",
            body: status.as_bytes().to_vec(),
            is_report: false,
        },
    };
    if request.is_malformed {
        return refuse("400 Bad Request");
    }
    if !is_loopback(&request.host) || request.is_foreign() {
        return refuse("403 Forbidden");
    }
    let path = request.path.strip_prefix('/').unwrap_or_default();
    let (given, path) = path.split_once('/').unwrap_or((path, ""));
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return refuse("403 Forbidden");
    }
    if request.method != "GET" {
        return refuse("405 Method Not Allowed");
    }
    // A closed tab or a bug in one answer must not end the others.
    let reply = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        site.reply(path, &request.query)
    }));
    match reply {
        Ok(Some(reply)) => HttpAnswer {
            status: "200 OK",
            reply,
        },
        Ok(None) => refuse("404 Not Found"),
        Err(_) => refuse("500 Internal Server Error"),
    }
}

/// Compares in a time that does not depend on where texts differ.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differences == 0
}

/// Whether a `Host` names this machine by a name that no foreign site can have. The port may differ: `ssh -L` changes it.
fn is_loopback(host: &str) -> bool {
    let names = ["127.0.0.1", "localhost", "[::1]"];
    names.iter().any(|name| {
        host.strip_prefix(name).is_some_and(|port| {
            port.is_empty()
                || port
                    .strip_prefix(':')
                    .is_some_and(|port| port.parse::<u16>().is_ok())
        })
    })
}

fn write_answer(
    writer: &mut impl Write,
    answer: &HttpAnswer,
    keeps_open: bool,
) -> std::io::Result<()> {
    let reply = &answer.reply;
    let policy = if reply.is_report {
        REPORT_POLICY
    } else {
        POLICY
    };
    let connection = if keeps_open { "keep-alive" } else { "close" };
    let mut bytes = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {policy}\r\n\
         Connection: {connection}\r\n\r\n",
        answer.status,
        reply.content_type,
        reply.body.len(),
    )
    .into_bytes();
    bytes.extend_from_slice(&reply.body);
    writer.write_all(&bytes)
}

#[derive(Default)]
struct HttpRequest {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    host: String,
    origin: Option<String>,
    site: Option<String>,
    keeps_open: bool,
    is_malformed: bool,
}

impl HttpRequest {
    /// The next request of a connection; `None` where the other side is done.
    fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut limited = reader.take(HEAD_BYTES_MAX);
        let mut line = String::new();
        if limited.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut request = Self {
            keeps_open: true,
            ..Self::default()
        };
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(method), Some(target), Some("HTTP/1.1"), None) => {
                let (path, query) = target.split_once('?').unwrap_or((target, ""));
                method.clone_into(&mut request.method);
                request.path = decode(path);
                request.query = query
                    .split('&')
                    .filter(|pair| !pair.is_empty())
                    .map(|pair| {
                        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                        (decode(key), decode(value))
                    })
                    .collect();
            }
            _ => request.is_malformed = true,
        }
        loop {
            let mut line = String::new();
            if limited.read_line(&mut line)? == 0 {
                request.is_malformed = true;
                request.keeps_open = false;
                break;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                request.is_malformed = true;
                continue;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" if request.host.is_empty() => value.clone_into(&mut request.host),
                "host" => request.is_malformed = true,
                "origin" => request.origin = Some(value.to_owned()),
                "sec-fetch-site" => request.site = Some(value.to_owned()),
                "connection" if value.eq_ignore_ascii_case("close") => request.keeps_open = false,
                // No request that is answered here has a body.
                "content-length" | "transfer-encoding" if value != "0" => {
                    request.is_malformed = true;
                    request.keeps_open = false;
                }
                _ => {}
            }
        }
        request.keeps_open &= !request.is_malformed;
        Ok(Some(request))
    }

    /// Whether the page of another site sent the request.
    fn is_foreign(&self) -> bool {
        let own = |origin: &String| *origin == format!("http://{}", self.host);
        let from_elsewhere = self.origin.as_ref().is_some_and(|origin| !own(origin));
        let is_cross = matches!(self.site.as_deref(), Some("cross-site"));
        from_elsewhere || is_cross
    }
}

/// Percent-decoded text; `+` is a space, as forms write it.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digits = (ahead.next(), ahead.next());
                let value = match digits {
                    (Some(high), Some(low)) => {
                        let digit = |byte: u8| (byte as char).to_digit(16);
                        digit(high).zip(digit(low))
                    }
                    _ => None,
                };
                match value {
                    Some((high, low)) => {
                        bytes.push((high * 16 + low) as u8);
                        rest = ahead;
                    }
                    None => bytes.push(b'%'),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_other_than_loopback_are_refused() {
        for host in ["127.0.0.1:8000", "localhost", "localhost:9", "[::1]:80"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1",
            "localhost.evil",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn targets_are_decoded_and_damage_is_kept() {
        assert_eq!(decode("a%20b+c%2Fd%zz%"), "a b c/d%zz%");
    }

    #[test]
    fn a_request_without_end_is_malformed() {
        let mut text: &[u8] = b"GET /x HTTP/1.1\r\nHost: localhost\r\n";
        let request = HttpRequest::read(&mut text);
        assert!(matches!(request, Ok(Some(request)) if request.is_malformed));
        let mut endless = BufReader::new(std::io::repeat(b'a'));
        let request = HttpRequest::read(&mut endless);
        assert!(matches!(request, Ok(Some(request)) if request.is_malformed));
    }
}
