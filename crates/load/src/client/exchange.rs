//! One request and its answer, every arrival with its time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, header};
use llmprof_units::Nanos;

use super::{
    connection::{ConnectionPool, Connector, Sender},
    reading::AnswerReading,
};
use crate::{
    answer::AnswerPart,
    clock::LoadClock,
    record::{FailureKind, RequestFailure, RequestRecord},
    sse::{EVENT_MAX_BYTES, Splitter},
};

/// Most of what a server said that is kept to tell why a request failed.
const REASON_CHARACTERS: usize = 400;
/// How long a server may take from `[DONE]` to the end of its answer before its connection is given up: the last chunk follows at
/// once, or never.
const END_AFTER_DONE: Duration = Duration::from_millis(100);
/// Longest answer that does not stream.
const BODY_MAX_BYTES: usize = 64 << 20;

/// What requests are made with.
pub(crate) struct LoadClient {
    pub(crate) connector: Connector,
    pub(crate) pool: ConnectionPool,
    pub(crate) clock: LoadClock,
    /// The start of every request: method, path and headers.
    pub(crate) head: RequestHead,
    /// Whether the text of answers is kept: for a tokenizer, or the next turn.
    pub(crate) keep_text: bool,
}

/// Path and headers of a request.
#[derive(Clone)]
pub(crate) struct RequestHead {
    path: String,
    authority: String,
    key: Option<header::HeaderValue>,
}

impl RequestHead {
    pub(crate) fn new(connector: &Connector, path: String) -> Self {
        let endpoint = connector.endpoint();
        let key = endpoint.key.as_ref().and_then(|key| {
            let mut value = header::HeaderValue::from_str(&key.header_value()).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            path,
            authority: endpoint.authority(),
            key,
        }
    }

    pub(crate) fn build_request(&self, method: &str, body: Bytes) -> Request<Full<Bytes>> {
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

impl LoadClient {
    /// Sends a request and follows its answer to the end; times, token counts and failures are in `record`. The text of the answer is
    /// returned where it is kept.
    pub(crate) async fn exchange_request(&self, body: Bytes, record: &mut RequestRecord) -> String {
        let mut reading = AnswerReading::new(self.keep_text).answering(body.len());
        let ended = self.follow_answer(body, record, &mut reading).await;
        if record.end_ns < self.clock.now() && (ended.is_err() || record.arrivals.is_empty()) {
            record.end_ns = self.clock.now();
        }
        if let Err(failure) = ended {
            record.failure = Some(failure);
        }
        let text = reading.conclude(record);
        if let Some(failure) = &mut record.failure {
            let message = std::mem::take(&mut failure.message);
            // Before it is cut, which could leave a part of the key.
            let message = self.connector.endpoint().without_key(message);
            failure.message = message.chars().take(REASON_CHARACTERS).collect();
        }
        text
    }

    async fn follow_answer(
        &self,
        body: Bytes,
        record: &mut RequestRecord,
        reading: &mut AnswerReading,
    ) -> Result<(), RequestFailure> {
        let (sender, response) = self.send_request(body, record).await?;
        record.headers_ns = Some(self.clock.now());
        let status = response.status();
        if !status.is_success() {
            let kind = match status.as_u16() {
                429 => FailureKind::TooManyRequests,
                400..500 => FailureKind::ClientError,
                _ => FailureKind::ServerError,
            };
            let reason = refusal_reason(response).await;
            self.pool.put_back(sender);
            let message = format!("HTTP {status}: {reason}");
            return Err(RequestFailure::new(kind, message.trim_end_matches(": ")));
        }
        let content = response.headers().get(header::CONTENT_TYPE);
        let streams = content
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut body = response.into_body();
        if !streams {
            self.read_whole(body, record, reading).await?;
            record.end_ns = self.clock.now();
            self.pool.put_back(sender);
            return Ok(());
        }
        self.read_stream(&mut body, record, reading).await?;
        record.end_ns = self.clock.now();
        // A connection takes its next request after the whole answer.
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        if tokio::time::timeout(END_AFTER_DONE, rest).await.is_ok() {
            self.pool.put_back(sender);
        }
        Ok(())
    }

    /// Hands the request to a connection, a kept one where there is one. A kept one that the server closed meanwhile has seen
    /// nothing of it: a new one is made.
    async fn send_request(
        &self,
        body: Bytes,
        record: &mut RequestRecord,
    ) -> Result<(Sender, Response<Incoming>), RequestFailure> {
        while let Some(mut sender) = self.pool.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            record.sent_ns = Some(self.clock.now());
            let request = self.head.build_request("POST", body.clone());
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
            .send_request(self.head.build_request("POST", body))
            .await
            .map_err(|error| http_failure(&error))?;
        Ok((sender, response))
    }

    async fn read_stream(
        &self,
        body: &mut Incoming,
        record: &mut RequestRecord,
        reading: &mut AnswerReading,
    ) -> Result<(), RequestFailure> {
        let mut splitter = Splitter::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| http_failure(&error))?;
            let at = self.clock.now();
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            record.received_bytes += llmprof_units::Bytes(bytes.len() as u64);
            splitter.push(bytes, at, |event| reading.take(event, record));
            if splitter.is_too_long() {
                let message = format!("an event has more than {EVENT_MAX_BYTES} bytes");
                return Err(RequestFailure::new(FailureKind::Malformed, message));
            }
            // Some servers and proxies keep the connection open after the answer is done.
            if reading.has_failed() || reading.is_done() {
                break;
            }
        }
        splitter.finish(|event| reading.take(event, record));
        reading.stream_ended(record, splitter.foreign_lines())
    }

    async fn read_whole(
        &self,
        body: Incoming,
        record: &mut RequestRecord,
        reading: &mut AnswerReading,
    ) -> Result<(), RequestFailure> {
        let bytes = collect_body(body, BODY_MAX_BYTES).await?;
        let at = self.clock.now();
        reading.take_whole(&bytes, at, record);
        reading.ended()
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
async fn collect_body(body: Incoming, most: usize) -> Result<Vec<u8>, RequestFailure> {
    let (bytes, _) = collect_answer(body, most).await?;
    Ok(bytes)
}

/// The event that ends an answer. Some servers keep the connection open after it.
const STREAM_END: &[u8] = b"data: [DONE]";

/// A body up to its end or to the last event of an answer, and whether its connection can be used again.
pub(crate) async fn collect_answer(
    mut body: Incoming,
    most: usize,
) -> Result<(Vec<u8>, bool), RequestFailure> {
    let mut bytes: Vec<u8> = Vec::new();
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
            let text = bytes.trim_ascii_end();
            let tail = text.len();
            let before = text.strip_suffix(STREAM_END);
            let is_done = before.is_some_and(|before| before.is_empty() || before.ends_with(b"\n"));
            // A line is whole where a line break follows it.
            if is_done && tail < bytes.len() {
                let end = tokio::time::timeout(END_AFTER_DONE, body.frame()).await;
                return Ok((bytes, matches!(end, Ok(None))));
            }
        }
    }
    Ok((bytes, true))
}

/// Why a server refused, in its own words.
async fn refusal_reason(response: Response<Incoming>) -> String {
    let bytes = collect_body(response.into_body(), 1 << 20)
        .await
        .unwrap_or_default();
    let told = AnswerPart::read(&bytes, false)
        .ok()
        .and_then(|answer| answer.error);
    told.unwrap_or_else(|| String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// A request that was not followed to its end.
pub(crate) fn broken_off(record: &mut RequestRecord, kind: FailureKind, now: Nanos, why: &str) {
    record.end_ns = now;
    record.failure = Some(RequestFailure::new(kind, why));
}
