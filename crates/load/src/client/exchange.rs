//! One request and its answer, every arrival with its time.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, header};
use llmprof_units::Nanos;

use super::connection::{Connector, Pool, Sender};
use crate::{
    answer::Answer,
    clock::Clock,
    endpoint::Endpoint,
    record::{Arrival, FailureKind, RequestFailure, RequestRecord, TokenBasis},
    sse::{Event, Splitter},
};

/// Most of a refusal that is kept to tell why.
const REASON_BYTES: usize = 400;
/// Longest answer that does not stream.
const MOST_BYTES: usize = 64 << 20;

/// What requests are made with.
pub(crate) struct Client {
    pub(crate) connector: Connector,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    /// The start of every request: method, path and headers.
    pub(crate) head: Head,
    /// Whether the text of answers is kept: for a tokenizer, or the next turn.
    pub(crate) keep_text: bool,
}

/// Path and headers of a request.
#[derive(Clone)]
pub(crate) struct Head {
    path: String,
    authority: String,
    key: Option<header::HeaderValue>,
}

impl Head {
    pub(crate) fn new(connector: &Connector, path: String) -> Self {
        let endpoint = connector.endpoint();
        let key = endpoint.key.as_ref().and_then(|key| {
            let mut value = header::HeaderValue::from_str(&key.header()).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            path,
            authority: endpoint.authority(),
            key,
        }
    }

    pub(crate) fn request(&self, method: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut builder = Request::builder()
            .method(method)
            .uri(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::USER_AGENT, "llmprof");
        if let Some(key) = &self.key {
            builder = builder.header(header::AUTHORIZATION, key);
        }
        if !body.is_empty() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        builder
            .body(Full::new(body))
            .expect("path and authority were read as a URL")
    }
}

impl Client {
    /// Sends a request and follows its answer to the end; what is found on the way is in `record`. The text of the answer is
    /// returned where it is kept.
    pub(crate) async fn exchange(&self, body: Bytes, record: &mut RequestRecord) -> String {
        let mut reading = Reading::new(self.keep_text);
        let ended = self.follow(body, record, &mut reading).await;
        if record.end_ns < self.clock.now() && (ended.is_err() || record.arrivals.is_empty()) {
            record.end_ns = self.clock.now();
        }
        if let Err(failure) = ended {
            record.failure = Some(failure);
        }
        reading.conclude(record);
        if let Some(failure) = &mut record.failure {
            let message = std::mem::take(&mut failure.message);
            failure.message = self.connector.endpoint().without_key(message);
        }
        reading.text
    }

    async fn follow(
        &self,
        body: Bytes,
        record: &mut RequestRecord,
        reading: &mut Reading,
    ) -> Result<(), RequestFailure> {
        let (sender, response) = self.send(body, record).await?;
        record.headers_ns = Some(self.clock.now());
        let status = response.status();
        if !status.is_success() {
            let kind = match status.as_u16() {
                429 => FailureKind::TooManyRequests,
                400..500 => FailureKind::ClientError,
                _ => FailureKind::ServerError,
            };
            let reason = reason(response, self.connector.endpoint()).await;
            self.pool.put(sender);
            let message = format!("HTTP {status}: {reason}");
            return Err(RequestFailure::new(kind, message.trim_end_matches(": ")));
        }
        let content = response.headers().get(header::CONTENT_TYPE);
        let streams = content
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if streams {
            self.stream(response, record, reading).await?;
        } else {
            self.whole(response, record, reading).await?;
        }
        record.end_ns = self.clock.now();
        self.pool.put(sender);
        Ok(())
    }

    /// Hands the request to a connection, a kept one where there is one. A kept one that the server closed meanwhile has seen
    /// nothing of it: a new one is made.
    async fn send(
        &self,
        body: Bytes,
        record: &mut RequestRecord,
    ) -> Result<(Sender, Response<Incoming>), RequestFailure> {
        while let Some(mut sender) = self.pool.take() {
            if sender.ready().await.is_err() {
                continue;
            }
            record.sent_ns = Some(self.clock.now());
            let request = self.head.request("POST", body.clone());
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((sender, response)),
                // Not one byte of an answer on a connection that was used before: it was closed while idle.
                Err(error)
                    if error.error().is_canceled() || error.error().is_incomplete_message() => {}
                Err(error) => return Err(http_failure(error.error())),
            }
        }
        let before = self.clock.now();
        let mut sender = self.connector.connect().await?;
        let now = self.clock.now();
        record.connect_ns = Some(now - before);
        record.sent_ns = Some(now);
        let response = sender
            .send_request(self.head.request("POST", body))
            .await
            .map_err(|error| http_failure(&error))?;
        Ok((sender, response))
    }

    async fn stream(
        &self,
        response: Response<Incoming>,
        record: &mut RequestRecord,
        reading: &mut Reading,
    ) -> Result<(), RequestFailure> {
        let mut body = response.into_body();
        let mut splitter = Splitter::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| http_failure(&error))?;
            let at = self.clock.now();
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            record.received_bytes += llmprof_units::Bytes(bytes.len() as u64);
            splitter.push(bytes, at, |event| reading.take(event, record));
            if reading.failure.is_some() {
                break;
            }
        }
        splitter.finish(|event| reading.take(event, record));
        if let Some(failure) = reading.failure.take() {
            return Err(failure);
        }
        if reading.is_over() {
            return Ok(());
        }
        if splitter.foreign_lines() > 0 && record.arrivals.is_empty() {
            let message = format!(
                "the answer says it is an event stream and has {} lines that are none",
                splitter.foreign_lines()
            );
            return Err(RequestFailure::new(FailureKind::Malformed, message));
        }
        Err(RequestFailure::new(
            FailureKind::Disconnected,
            format!(
                "the stream ended after {} events, without a finish_reason",
                record.arrivals.len()
            ),
        ))
    }

    async fn whole(
        &self,
        response: Response<Incoming>,
        record: &mut RequestRecord,
        reading: &mut Reading,
    ) -> Result<(), RequestFailure> {
        let bytes = collect(response, MOST_BYTES).await?;
        let at = self.clock.now();
        record.received_bytes = llmprof_units::Bytes(bytes.len() as u64);
        record.is_whole = true;
        // Some servers stream JSON lines (Ollama's own interface): the last line has the totals.
        let last = bytes
            .split(|&byte| byte == b'\n')
            .rfind(|line| !line.is_empty())
            .unwrap_or_default();
        reading.take(
            Event {
                data: last,
                at,
                is_cut: false,
            },
            record,
        );
        reading.has_finished = true;
        match reading.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// What the events of one answer add up to.
struct Reading {
    keep_text: bool,
    text: String,
    has_finished: bool,
    is_done: bool,
    usage: Option<crate::answer::Usage>,
    /// Whether usage came with text, and how often usage came.
    usage_with_text: u64,
    mistake: Option<String>,
    failure: Option<RequestFailure>,
}

impl Reading {
    fn new(keep_text: bool) -> Self {
        Self {
            keep_text,
            text: String::new(),
            has_finished: false,
            is_done: false,
            usage: None,
            usage_with_text: 0,
            mistake: None,
            failure: None,
        }
    }

    fn is_over(&self) -> bool {
        self.has_finished || self.is_done
    }

    fn take(&mut self, event: Event<'_>, record: &mut RequestRecord) {
        if self.failure.is_some() {
            return;
        }
        if event.data == b"[DONE]" {
            self.is_done = true;
            return;
        }
        let answer = match Answer::read(event.data, self.keep_text) {
            Ok(answer) => answer,
            // Half an event is how a stream looks that broke off.
            Err(_) if event.is_cut => return,
            Err(error) => {
                let start = String::from_utf8_lossy(&event.data[..event.data.len().min(80)]);
                self.failure = Some(RequestFailure::new(
                    FailureKind::Malformed,
                    format!("an event is no JSON ({error}): {start}"),
                ));
                return;
            }
        };
        if let Some(error) = answer.error {
            self.failure = Some(RequestFailure::new(FailureKind::ServerError, error));
            return;
        }
        let before = self.usage.map_or(0, |usage| usage.completion_tokens);
        if let Some(usage) = answer.usage {
            if usage.completion_tokens < before {
                self.blame(format!(
                    "usage fell from {before} to {} tokens",
                    usage.completion_tokens
                ));
            }
            if usage
                .total_tokens
                .is_some_and(|total| total != usage.prompt_tokens + usage.completion_tokens)
            {
                self.blame("usage does not add up to its total".to_owned());
            }
            self.usage = Some(usage);
        }
        let tokens = answer.usage.map(|usage| usage.completion_tokens);
        let is_new = answer.text_bytes > 0 || tokens.is_some_and(|tokens| tokens > before);
        // The last event with the totals repeats what was said before.
        if is_new && !(answer.text_bytes == 0 && self.has_finished) {
            if tokens.is_some() {
                self.usage_with_text += 1;
            }
            record.arrivals.push(Arrival {
                at_ns: event.at,
                tokens: tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            });
        }
        self.has_finished |= answer.finish;
        record.timings = answer.timings.or(record.timings);
        if self.keep_text {
            self.text += &answer.text;
        }
    }

    fn blame(&mut self, what: String) {
        self.mistake.get_or_insert(what);
    }

    fn conclude(&mut self, record: &mut RequestRecord) {
        if let Some(usage) = self.usage {
            record.prompt_tokens = Some(usage.prompt_tokens);
            record.output_tokens = Some(usage.completion_tokens);
            let is_continuous =
                !record.is_whole && self.usage_with_text == record.arrivals.len() as u64;
            record.token_basis = if is_continuous {
                TokenBasis::ContinuousUsage
            } else {
                TokenBasis::Usage
            };
            if usage.completion_tokens == 0 && !record.arrivals.is_empty() {
                self.blame("usage has no tokens, though text came".to_owned());
            }
            if usage.completion_tokens > record.max_tokens {
                self.blame(format!(
                    "usage has {} tokens, though at most {} were asked for",
                    usage.completion_tokens, record.max_tokens
                ));
            }
        } else if let Some(tokens) = record.timings.and_then(|timings| timings.output_tokens) {
            record.output_tokens = Some(tokens);
            record.token_basis = TokenBasis::Usage;
        }
        record.usage_mistake = self.mistake.take();
    }
}

/// A failure of HTTP or of the connection below it.
fn http_failure(error: &hyper::Error) -> RequestFailure {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            let kind = match io.kind() {
                std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => {
                    FailureKind::Reset
                }
                std::io::ErrorKind::TimedOut => FailureKind::Timeout,
                _ => FailureKind::Disconnected,
            };
            return RequestFailure::new(kind, io.to_string());
        }
        source = inner.source();
    }
    let kind = if error.is_parse() {
        FailureKind::Malformed
    } else {
        FailureKind::Disconnected
    };
    RequestFailure::new(kind, error.to_string())
}

/// The whole body, up to a limit.
pub(crate) async fn collect(
    response: Response<Incoming>,
    most: usize,
) -> Result<Vec<u8>, RequestFailure> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| http_failure(&error))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > most {
                return Err(RequestFailure::new(
                    FailureKind::Malformed,
                    format!("the answer has more than {most} bytes"),
                ));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

/// Why a server refused, in its own words.
async fn reason(response: Response<Incoming>, endpoint: &Endpoint) -> String {
    let bytes = collect(response, 1 << 20).await.unwrap_or_default();
    let told = Answer::read(&bytes, false)
        .ok()
        .and_then(|answer| answer.error);
    let text = told.unwrap_or_else(|| String::from_utf8_lossy(&bytes).trim().to_owned());
    // Before it is cut, which could leave a part of the key.
    let text = endpoint.without_key(text);
    text.chars().take(REASON_BYTES).collect()
}

/// A request that was not followed to its end.
pub(crate) fn broken_off(record: &mut RequestRecord, kind: FailureKind, now: Nanos, why: &str) {
    record.end_ns = now;
    record.failure = Some(RequestFailure::new(kind, why));
}
