use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use llmprof_units::Nanos;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use crate::{
    RequestFault, lock_ignoring_poison, metrics,
    state::{Called, ServedRequest, StubState},
    trace,
};

pub(super) async fn accept_connections(listener: std::net::TcpListener, state: Arc<StubState>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve_connection(stream, Arc::clone(&state)));
        } else {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

struct HttpRequest {
    method: String,
    path: String,
    authorization: Option<String>,
    body: Vec<u8>,
}

fn now_unix_ns() -> Nanos {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(Nanos(0), |since| Nanos(since.as_nanos() as i64))
}

async fn serve_connection(mut stream: TcpStream, state: Arc<StubState>) {
    let mut buffer = Vec::with_capacity(1024);
    // A client may go away at any time.
    while let Ok(Some(asked)) = read_request(&mut stream, &mut buffer).await {
        state.note_authorization(asked.authorization.clone());
        match answer_request(&mut stream, &state, &asked).await {
            Ok(true) if state.behaviour.keep_alive => {}
            _ => return,
        }
    }
}

/// The next request; `None` once the client has closed the connection.
async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<HttpRequest>> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end]).map_err(|_| bad())?;
            let mut words = head.split(' ');
            let method = words.next().unwrap_or_default().to_owned();
            let path = words.next().unwrap_or_default().to_owned();
            let field = |wanted: &str| {
                let mut fields = head.lines().filter_map(|line| line.split_once(':'));
                let named = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
                named.map(|(_, value)| value.trim().to_owned())
            };
            let authorization = field("authorization");
            let length = field("content-length")
                .map_or(Ok(0), |value| value.parse::<usize>())
                .map_err(|_| bad())?;
            let start = end + 4;
            while buffer.len() < start + length {
                if stream.read_buf(buffer).await? == 0 {
                    return Ok(None);
                }
            }
            let body = buffer[start..start + length].to_vec();
            buffer.drain(..start + length);
            return Ok(Some(HttpRequest {
                method,
                path,
                authorization,
                body,
            }));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer_request(
    stream: &mut TcpStream,
    state: &Arc<StubState>,
    asked: &HttpRequest,
) -> io::Result<bool> {
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/health") => write_response(stream, state, 200, "text/plain", b"").await,
        ("GET", "/v1/models") => {
            let id = format!("stub{}", state.repeated_keys());
            let models =
                format!(r#"{{"object":"list","data":[{{"id":"{id}","object":"model"}}]}}"#);
            write_response(stream, state, 200, "application/json", models.as_bytes()).await
        }
        ("GET", "/metrics") => {
            let page = metrics::metrics_page(state);
            write_response(stream, state, 200, "text/plain", page.as_bytes()).await
        }
        ("POST", "/v1/completions" | "/v1/chat/completions") => {
            complete_request(stream, state, asked).await
        }
        ("POST", "/start_profile" | "/stop_profile") => {
            let served = lock_ignoring_poison(&state.served).clone();
            let mut calls = lock_ignoring_poison(&state.calls).clone();
            calls.push(Called {
                path: asked.path.clone(),
                body: String::from_utf8_lossy(&asked.body).into_owned(),
                at_unix_ns: now_unix_ns(),
                running: state.running.load(Ordering::Relaxed),
                served: served.len(),
            });
            if let [.., start, stop] = &calls[..]
                && stop.path == "/stop_profile"
                && let Some(folder) = &state.behaviour.trace_folder
            {
                trace::write_trace(
                    folder,
                    &served[start.served..],
                    stop,
                    &state.repeated_keys(),
                )?;
            }
            *lock_ignoring_poison(&state.calls) = calls;
            if asked.path == "/stop_profile" && !state.behaviour.trace_pause.is_zero() {
                sleep(state.behaviour.trace_pause).await;
            }
            write_response(stream, state, 200, "text/plain", b"").await
        }
        _ => {
            write_response(
                stream,
                state,
                404,
                "application/json",
                br#"{"error":{"message":"no such path"}}"#,
            )
            .await
        }
    }
}

async fn write_response(
    stream: &mut TcpStream,
    state: &StubState,
    status: u16,
    kind: &str,
    body: &[u8],
) -> io::Result<bool> {
    let connection = if state.behaviour.keep_alive {
        ""
    } else {
        "connection: close\r\n"
    };
    let repeated = state.repeated_keys();
    let mut text = format!(
        "HTTP/1.1 {status} Status{repeated}\r\nx-request-id: 1{repeated}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{connection}\r\n",
        body.len()
    )
    .into_bytes();
    text.extend_from_slice(body);
    stream.write_all(&text).await?;
    Ok(true)
}

/// The number after `"name":` in a body, without reading all of it as JSON.
fn number_after(body: &[u8], name: &str) -> Option<u64> {
    let at = memchr::memmem::find(body, format!("\"{name}\":").as_bytes())?;
    let digits: String = body[at + name.len() + 3..]
        .iter()
        .map(|&byte| char::from(byte))
        .skip_while(|c| *c == ' ')
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

fn contains_text(body: &[u8], text: &str) -> bool {
    memchr::memmem::find(body, text.as_bytes()).is_some()
}

/// Tokens of a prompt: its ids, or its words.
fn prompt_tokens(body: &[u8]) -> u64 {
    let Some(at) = memchr::memmem::find(body, b"\"prompt\":[") else {
        let words = memchr::memchr_iter(b' ', body).count();
        return words as u64 + 1;
    };
    let end = memchr::memchr(b']', &body[at..]).unwrap_or(0);
    let ids = &body[at + 10..at + end.max(10)];
    if ids.is_empty() {
        0
    } else {
        memchr::memchr_iter(b',', ids).count() as u64 + 1
    }
}

/// The body of a streamed answer; what is in `out` is not sent yet.
struct Body<'a> {
    stream: &'a mut TcpStream,
    out: Vec<u8>,
    is_chunked: bool,
}

impl Body<'_> {
    fn add_piece(&mut self, bytes: &[u8]) {
        if self.is_chunked {
            write_chunk(&mut self.out, bytes);
        } else {
            self.out.extend_from_slice(bytes);
        }
    }

    async fn flush_pieces(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out).await?;
            self.out.clear();
        }
        Ok(())
    }
}

/// A chunk of HTTP's chunked encoding.
fn write_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

async fn complete_request(
    stream: &mut TcpStream,
    state: &Arc<StubState>,
    asked: &HttpRequest,
) -> io::Result<bool> {
    let behaviour = &state.behaviour;
    let body = &asked.body;
    let arrived = Instant::now();
    let arrived_unix_ns = now_unix_ns();
    if behaviour.is_strict
        && (contains_text(body, "continuous_usage_stats") || contains_text(body, "ignore_eos"))
    {
        let refusal = br#"{"error":{"message":"unknown field"}}"#;
        return write_response(stream, state, 400, "application/json", refusal).await;
    }
    let number_of = state.number.fetch_add(1, Ordering::Relaxed);
    let fault = behaviour
        .faults
        .iter()
        .find(|(number, _)| *number == number_of)
        .map(|(_, fault)| *fault)
        .or_else(|| {
            let (every, fault) = behaviour.fault_every?;
            (number_of % every == every - 1).then_some(fault)
        });
    match fault {
        Some(RequestFault::Status(status)) => {
            let refusal = format!(
                r#"{{"error":{{"message":"refused by the stub{}"}}}}"#,
                state.repeated_keys()
            );
            return write_response(
                stream,
                state,
                status,
                "application/json",
                refusal.as_bytes(),
            )
            .await;
        }
        Some(RequestFault::HalfOpen) => {
            sleep(Duration::from_hours(1)).await;
            return Ok(false);
        }
        Some(RequestFault::Stop) => {
            state.stop.notify_one();
            return Ok(false);
        }
        Some(RequestFault::NotHttp) => {
            stream.write_all(b"SSH-2.0-not-http\r\n\r\n").await?;
            return Ok(false);
        }
        Some(RequestFault::SlowReader(pause)) => sleep(pause).await,
        _ => {}
    }
    let tokens = behaviour
        .tokens
        .unwrap_or_else(|| number_after(body, "max_tokens").unwrap_or(16));
    let prompt = prompt_tokens(body);
    state.waiting.fetch_add(1, Ordering::Relaxed);
    let slot = state.slots.acquire().await;
    state.waiting.fetch_sub(1, Ordering::Relaxed);
    state.running.fetch_add(1, Ordering::Relaxed);
    let queue = arrived.elapsed();
    let turn = Instant::now();
    if !behaviour.prefill.is_zero() {
        sleep(behaviour.prefill).await;
    }
    let first = Instant::now();
    let reply = StubReply {
        state,
        repeated: state.repeated_keys(),
        tokens,
        prompt,
        fault,
        is_chat: asked.path.ends_with("chat/completions"),
        with_usage: behaviour.usage && contains_text(body, "\"include_usage\":true"),
        continuous: behaviour.usage && contains_text(body, "\"continuous_usage_stats\":true"),
    };
    let result = if contains_text(body, "\"stream\":true") {
        reply.stream_answer(stream).await
    } else {
        reply.whole_answer(stream).await
    };
    drop(slot);
    if matches!(result, Ok(true)) {
        lock_ignoring_poison(&state.served).push(ServedRequest {
            arrived_unix_ns,
            queue,
            prefill: first - turn,
            decode: first.elapsed(),
            tokens,
            prompt_tokens: prompt,
        });
    }
    state.running.fetch_sub(1, Ordering::Release);
    result
}

struct StubReply<'a> {
    state: &'a StubState,
    repeated: String,
    tokens: u64,
    prompt: u64,
    fault: Option<RequestFault>,
    is_chat: bool,
    with_usage: bool,
    continuous: bool,
}

impl StubReply<'_> {
    fn usage_json(&self, tokens: u64) -> String {
        let claimed = match self.fault {
            Some(RequestFault::UsageZero) => 0,
            Some(RequestFault::UsageTooMany) => tokens + 1000,
            Some(RequestFault::UsageFalls) if tokens == self.tokens => tokens.saturating_sub(2),
            _ => tokens,
        };
        format!(
            "{{\"prompt_tokens\":{},\"completion_tokens\":{claimed},\"total_tokens\":{}}}",
            self.prompt,
            self.prompt + claimed
        )
    }

    /// One event that brings the tokens up to `tokens`, `brought` of them new.
    fn event_json(&self, tokens: u64, brought: u64) -> String {
        let text = "tok ".repeat(brought as usize) + &self.repeated;
        let finish = if tokens == self.tokens {
            "\"length\""
        } else {
            "null"
        };
        let said = if self.is_chat {
            format!("\"delta\":{{\"content\":\"{text}\"}}")
        } else {
            format!("\"text\":\"{text}\"")
        };
        let mut event = format!(
            "data: {{\"id\":\"cmpl-stub\",\"object\":\"text_completion\",\"created\":1,\"model\":\"stub\",\"choices\":[{{\"index\":0,{said},\"logprobs\":null,\"finish_reason\":{finish}}}]"
        );
        if self.continuous {
            event += &format!(",\"usage\":{}", self.usage_json(tokens));
        }
        if self.state.behaviour.timings && tokens == self.tokens {
            let behaviour = &self.state.behaviour;
            event += &format!(
                ",\"timings\":{{\"cache_n\":0,\"prompt_n\":{},\"prompt_ms\":{},\"predicted_n\":{},\"predicted_ms\":{}}}",
                self.prompt,
                behaviour.prefill.as_secs_f64() * 1e3,
                tokens,
                behaviour.step.as_secs_f64() * 1e3 * tokens.saturating_sub(1) as f64
            );
        }
        event.push('}');
        event
    }

    async fn stream_answer(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let is_chunked = self.state.behaviour.keep_alive;
        let mut body = Body {
            stream,
            out: Vec::with_capacity(1024),
            is_chunked,
        };
        let encoding = if is_chunked {
            "transfer-encoding: chunked\r\n"
        } else {
            "connection: close\r\n"
        };
        let repeated = &self.repeated;
        let head = format!(
            "HTTP/1.1 200 OK{repeated}\r\nx-request-id: 1{repeated}\r\ncontent-type: text/event-stream\r\n{encoding}\r\n"
        );
        body.out.extend_from_slice(head.as_bytes());
        if let Some(RequestFault::SlowHead(pause)) = self.fault {
            for piece in std::mem::take(&mut body.out).chunks(16) {
                body.out.extend_from_slice(piece);
                body.flush_pieces().await?;
                sleep(pause).await;
            }
        }
        match self.fault {
            Some(RequestFault::Html) => {
                let page = format!("<html>\n<body>busy{repeated}</body>\n</html>\n");
                body.add_piece(page.as_bytes());
            }
            Some(RequestFault::BadEvent) => {
                // Across the place where a short message would be cut.
                let event = format!("data: {{\"choices\":[}}{repeated:>76}\n\n");
                body.add_piece(event.as_bytes());
            }
            Some(RequestFault::ErrorEvent) => {
                let event =
                    format!("data: {{\"error\":{{\"message\":\"engine died{repeated}\"}}}}\n\n");
                body.add_piece(event.as_bytes());
            }
            _ => {
                if !self.stream_events(&mut body).await? {
                    return Ok(false);
                }
            }
        }
        if self.fault == Some(RequestFault::OpenAfterDone) {
            body.flush_pieces().await?;
            sleep(Duration::from_hours(1)).await;
        }
        if is_chunked {
            body.out.extend_from_slice(b"0\r\n\r\n");
        }
        body.flush_pieces().await?;
        Ok(true)
    }

    /// All events of the answer. False where a fault ended it early.
    async fn stream_events(&self, body: &mut Body<'_>) -> io::Result<bool> {
        let behaviour = &self.state.behaviour;
        if self.is_chat {
            body.add_piece(
                b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            );
        }
        let (mut sent, mut owed) = (0, "");
        let at_once = if self.fault == Some(RequestFault::HeldBack) {
            self.tokens
        } else {
            behaviour.tokens_per_event.max(1)
        };
        while sent < self.tokens {
            if !self.go_on(body, sent).await? {
                return Ok(false);
            }
            if sent > 0 && !behaviour.step.is_zero() {
                body.flush_pieces().await?;
                let steps = at_once.min(self.tokens - sent);
                sleep(behaviour.step * steps as u32).await;
            } else if self.fault == Some(RequestFault::HeldBack) {
                sleep(behaviour.step * self.tokens.saturating_sub(1) as u32).await;
            }
            let brought = at_once.min(self.tokens - sent);
            sent += brought;
            let mut text = owed.to_owned() + &self.event_json(sent, brought);
            (text, owed) = if behaviour.late_blank_lines {
                (text, "\n\n")
            } else {
                (text + "\n\n", "")
            };
            body.add_piece(text.as_bytes());
            if body.out.len() > 32 << 10 {
                body.flush_pieces().await?;
            }
        }
        if self.with_usage {
            let usage = format!(
                "{owed}data: {{\"choices\":[],\"usage\":{}}}\n\n",
                self.usage_json(self.tokens)
            );
            body.add_piece(usage.as_bytes());
        } else if !owed.is_empty() {
            body.add_piece(owed.as_bytes());
        }
        body.add_piece(b"data: [DONE]\n\n");
        Ok(true)
    }

    /// The fault that is due after `sent` tokens, if any. False where nothing follows it.
    async fn go_on(&self, body: &mut Body<'_>, sent: u64) -> io::Result<bool> {
        match self.fault {
            Some(RequestFault::DieAfter(tokens)) if sent >= tokens => {
                body.add_piece(b"data: {\"choices\":[{\"te");
                body.flush_pieces().await?;
                return Ok(false);
            }
            Some(RequestFault::ResetAfter(tokens)) if sent >= tokens => {
                body.flush_pieces().await?;
                sleep(Duration::from_millis(20)).await;
                let _ = body.stream.set_zero_linger();
                return Ok(false);
            }
            Some(RequestFault::StallAfter(tokens)) if sent >= tokens => {
                body.flush_pieces().await?;
                sleep(Duration::from_hours(1)).await;
            }
            Some(RequestFault::Pause(pause)) if sent == 1 => {
                body.flush_pieces().await?;
                sleep(pause).await;
            }
            _ => {}
        }
        Ok(true)
    }

    async fn whole_answer(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let behaviour = &self.state.behaviour;
        if !behaviour.step.is_zero() {
            sleep(behaviour.step * self.tokens.saturating_sub(1) as u32).await;
        }
        let repeated = &self.repeated;
        let said = if self.is_chat {
            format!("\"message\":{{\"role\":\"assistant\",\"content\":\"tok{repeated}\"}}")
        } else {
            format!("\"text\":\"tok{repeated}\"")
        };
        let usage = if behaviour.usage {
            format!(",\"usage\":{}", self.usage_json(self.tokens))
        } else {
            String::new()
        };
        let body = format!(
            "{{\"id\":\"cmpl-stub\",\"object\":\"text_completion\",\"model\":\"stub\",\"choices\":[{{\"index\":0,{said},\"finish_reason\":\"length\"}}]{usage}}}"
        );
        write_response(stream, self.state, 200, "application/json", body.as_bytes()).await
    }
}
