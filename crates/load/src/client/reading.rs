//! What the events of an answer add up to, apart from where they come from.

use llmprof_units::{Bytes, Nanos};
use serde_json::error::Category;

use crate::{
    answer::{AnswerPart, TokenUsage},
    record::{Arrival, FailureKind, RequestFailure, RequestRecord, TokenBasis},
    sse::StreamEvent,
};

/// Events with text that an answer may have beside those of its tokens, and for each token that was asked for: some servers send
/// a character at a time.
const FREE_ARRIVALS: u64 = 1024;
const ARRIVALS_PER_TOKEN: u64 = 16;
/// Longest text that is kept of an answer.
const TEXT_MAX_BYTES: usize = 64 << 20;

/// Tokens of a prompt that a server may add: templates of chats, instructions for tools. All others stand for a byte of the request or more.
const TEMPLATE_TOKENS_MAX: u64 = 1 << 16;

/// An answer as far as it was read; times, arrivals and tokens are put into the record of its request.
pub struct AnswerReading {
    keep_text: bool,
    text: String,
    has_finished: bool,
    is_done: bool,
    usage: Option<TokenUsage>,
    /// Whether usage came with text, and how often usage came.
    usage_with_text: u64,
    mistake: Option<String>,
    failure: Option<RequestFailure>,
    prompt_tokens_max: u64,
}

impl AnswerReading {
    /// `keep_text`: for a tokenizer, or the next turn.
    pub fn new(keep_text: bool) -> Self {
        Self {
            keep_text,
            text: String::new(),
            has_finished: false,
            is_done: false,
            usage: None,
            usage_with_text: 0,
            mistake: None,
            failure: None,
            prompt_tokens_max: u64::MAX,
        }
    }

    /// For the answer to a body of so many bytes.
    #[must_use]
    pub fn answering(self, body_bytes: usize) -> Self {
        Self {
            prompt_tokens_max: TEMPLATE_TOKENS_MAX + body_bytes as u64,
            ..self
        }
    }

    /// Whether nothing that follows can be of use.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether the stream has said that it is over.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// One event of a stream.
    pub fn take(&mut self, event: StreamEvent<'_>, record: &mut RequestRecord) {
        if self.failure.is_some() {
            return;
        }
        if event.data == b"[DONE]" {
            self.is_done = true;
            return;
        }
        let answer = match AnswerPart::read(event.data, self.keep_text) {
            Ok(answer) => answer,
            // Half an event is how a stream looks that broke off.
            Err(_) if event.is_cut => return,
            Err(error) => {
                let text = String::from_utf8_lossy(event.data);
                self.failure = Some(RequestFailure::new(
                    FailureKind::Malformed,
                    match error.classify() {
                        // It is JSON, of another form.
                        Category::Data => {
                            format!("an event is not of the protocol ({error}): {text}")
                        }
                        _ => format!("an event is not JSON ({error}): {text}"),
                    },
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
                self.note_failure(format!(
                    "usage fell from {before} to {} tokens",
                    usage.completion_tokens
                ));
            }
            let total = usage.prompt_tokens.checked_add(usage.completion_tokens);
            if usage.total_tokens.is_some() && usage.total_tokens != total {
                self.note_failure("usage does not add up to its total".to_owned());
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
            let most = record.max_tokens.saturating_mul(ARRIVALS_PER_TOKEN);
            let most = most.saturating_add(FREE_ARRIVALS);
            if record.arrivals.len() as u64 >= most {
                let tokens = record.max_tokens;
                let message = format!("more than {most} events for {tokens} tokens");
                self.failure = Some(RequestFailure::new(FailureKind::Malformed, message));
                return;
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
            if self.text.len() > TEXT_MAX_BYTES {
                let message = format!("the answer has more than {TEXT_MAX_BYTES} bytes");
                self.failure = Some(RequestFailure::new(FailureKind::Malformed, message));
            }
        }
    }

    /// An answer that does not stream.
    pub fn take_whole(&mut self, bytes: &[u8], at: Nanos, record: &mut RequestRecord) {
        record.received_bytes = Bytes(bytes.len() as u64);
        record.is_whole = true;
        // Some servers stream JSON lines (Ollama's own interface): the last line has the totals. Others write one object over
        // many lines.
        let last = bytes
            .split(|&byte| byte == b'\n')
            .rfind(|line| !line.is_empty())
            .unwrap_or_default();
        let is_one = last.len() < bytes.trim_ascii_end().len()
            && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        let event = StreamEvent {
            data: if is_one { bytes } else { last },
            at,
            is_cut: false,
        };
        self.take(event, record);
        self.has_finished = true;
    }

    /// Whether what was read is an answer.
    pub fn ended(&mut self) -> Result<(), RequestFailure> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// The same of a stream, which had so many lines that are not of its format.
    pub fn stream_ended(
        &mut self,
        record: &RequestRecord,
        foreign_lines: u64,
    ) -> Result<(), RequestFailure> {
        self.ended()?;
        if self.has_finished || self.is_done {
            return Ok(());
        }
        if foreign_lines > 0 && record.arrivals.is_empty() {
            let message = format!(
                "the answer says it is an event stream and has {foreign_lines} lines that are none"
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

    fn note_failure(&mut self, what: String) {
        self.mistake.get_or_insert(what);
    }

    /// What the answer says of tokens; its text, where that was kept.
    pub fn conclude(mut self, record: &mut RequestRecord) -> String {
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
                self.note_failure("usage has no tokens, though text came".to_owned());
            }
        } else if let Some(tokens) = record.timings.and_then(|timings| timings.output_tokens) {
            record.output_tokens = Some(tokens);
            record.token_basis = TokenBasis::Usage;
        }
        if let Some(tokens) = record.output_tokens.filter(|n| *n > record.max_tokens) {
            self.note_failure(format!(
                "usage has {tokens} tokens, though at most {} were asked for",
                record.max_tokens
            ));
        }
        if let Some(tokens) = record.prompt_tokens.filter(|n| *n > self.prompt_tokens_max) {
            self.note_failure(format!(
                "usage has {tokens} prompt tokens, though the request has fewer bytes"
            ));
        }
        record.usage_mistake = self.mistake;
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_event(event: &str) -> RequestRecord {
        let mut record = RequestRecord::due(0, Nanos(0), 16);
        let mut reading = AnswerReading::new(false);
        let event = StreamEvent {
            data: event.as_bytes(),
            at: Nanos(1),
            is_cut: false,
        };
        reading.take(event, &mut record);
        record.failure = reading.stream_ended(&record, 0).err();
        reading.conclude(&mut record);
        record
    }

    /// Arrivals of a server that never ends were kept until the request's time was over.
    #[test]
    fn a_stream_without_end_is_not_kept() {
        let mut record = RequestRecord::due(0, Nanos(0), 16);
        let mut reading = AnswerReading::new(true);
        let event = StreamEvent {
            data: br#"{"choices":[{"text":"a"}]}"#,
            at: Nanos(1),
            is_cut: false,
        };
        for _ in 0..2000 {
            reading.take(event, &mut record);
        }
        assert_eq!(record.arrivals.len(), 1024 + 16 * 16);
        let failure = reading.ended().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Malformed);
        assert!(failure.message.contains("for 16 tokens"), "{failure:?}");

        let mut reading = AnswerReading::new(true);
        let long = format!(r#"{{"response":"{}"}}"#, "x".repeat(8 << 20));
        record.arrivals.clear();
        let event = StreamEvent {
            data: long.as_bytes(),
            ..event
        };
        for _ in 0..12 {
            reading.take(event, &mut record);
        }
        assert!(reading.has_failed());
        assert_eq!((record.arrivals.len(), reading.text.len()), (9, 72 << 20));
    }

    /// The last line of an object over many lines was taken for the answer.
    #[test]
    fn an_answer_may_stand_on_one_line_or_many() {
        let object = serde_json::json!({
            "choices": [{"text": "a b", "finish_reason": "length"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        });
        let lines = "{\"response\":\"a\"}\n{\"response\":\" b\",\"done\":true,\"eval_count\":2,\"eval_duration\":1}\n";
        let texts = [
            format!("{object}\n"),
            format!("{object:#}"),
            lines.to_owned(),
        ];
        for text in texts {
            let mut record = RequestRecord::due(0, Nanos(0), 16);
            let mut reading = AnswerReading::new(false);
            reading.take_whole(text.as_bytes(), Nanos(1), &mut record);
            assert_eq!(reading.ended(), Ok(()), "{text}");
            reading.conclude(&mut record);
            assert_eq!(record.output_tokens, Some(2), "{text}");
        }
    }

    /// The sum of both did not fit 64 bits.
    #[test]
    fn numbers_that_cannot_be_are_not_believed() {
        let most = u64::MAX;
        let event = format!(
            r#"{{"choices":[{{"text":"a","finish_reason":"length"}}],"usage":{{"prompt_tokens":{most},"completion_tokens":{most},"total_tokens":1}}}}"#
        );
        let record = read_event(&event);
        assert_eq!(record.failure, None);
        let mistake = record.usage_mistake.as_deref();
        assert_eq!(mistake, Some("usage does not add up to its total"));
        let event =
            r#"{"choices":[{"text":"a","finish_reason":"length"}],"timings":{"predicted_n":17}}"#;
        let mistake = read_event(event)
            .usage_mistake
            .expect("more than were asked for");
        assert!(mistake.contains("at most 16"), "{mistake}");
        let event = r#"{"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":70000,"completion_tokens":1}}"#;
        for (body_bytes, is_believed) in [(4_464, true), (4_463, false)] {
            let mut record = RequestRecord::due(0, Nanos(0), 16);
            let mut reading = AnswerReading::new(false).answering(body_bytes);
            reading.take_whole(event.as_bytes(), Nanos(1), &mut record);
            reading.conclude(&mut record);
            assert_eq!(record.usage_mistake.is_none(), is_believed, "{record:?}");
        }
    }
}
