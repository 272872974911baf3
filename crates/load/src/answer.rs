//! What an endpoint says in one event or one whole answer: new text, usage, why it ended, its own timings.

use std::fmt;

use llmprof_record::serving::ServerTimings;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// Tokens as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TokenUsage {
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens generated so far, in a stream with usage in every event.
    #[serde(default)]
    pub completion_tokens: u64,
    /// Both, as the server adds them.
    #[serde(default)]
    pub total_tokens: Option<u64>,
}

/// What one event or one whole answer says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerPart {
    /// Bytes of new text, whether said, thought or for a tool.
    pub text_bytes: usize,
    /// The new text, where it was to be kept.
    pub text: String,
    /// Token counts so far, where the event states them.
    pub usage: Option<TokenUsage>,
    /// The server says that generation is over, and why.
    pub finish: bool,
    /// Timings that the server measured itself.
    pub timings: Option<ServerTimings>,
    /// An error inside of a stream that began well.
    pub error: Option<String>,
}

impl AnswerPart {
    /// Reads an event's data or a body. `keep_text` copies the text, which costs.
    pub fn read(data: &[u8], keep_text: bool) -> Result<Self, serde_json::Error> {
        // Checked once for UTF-8, instead of name by name.
        let Ok(text) = std::str::from_utf8(data) else {
            return serde_json::from_slice::<Wire<KeptText>>(data).map(Wire::into_answer);
        };
        if keep_text {
            serde_json::from_str::<Wire<KeptText>>(text).map(Wire::into_answer)
        } else {
            serde_json::from_str::<Wire<MeasuredText>>(text).map(Wire::into_answer)
        }
    }
}

/// A text of which only the length matters, or all of it. A tool call is text too: the model generated it.
trait AnswerText: Default + for<'de> Deserialize<'de> {
    fn add_to(&self, answer: &mut AnswerPart);
    fn is_empty(&self) -> bool;
}

#[derive(Default)]
struct MeasuredText(usize);

#[derive(Default)]
struct KeptText(String);

impl AnswerText for MeasuredText {
    fn add_to(&self, answer: &mut AnswerPart) {
        answer.text_bytes += self.0;
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl AnswerText for KeptText {
    fn add_to(&self, answer: &mut AnswerPart) {
        answer.text_bytes += self.0.len();
        answer.text += &self.0;
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = MeasuredText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or null")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MeasuredText, E> {
        Ok(MeasuredText(text.len()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<MeasuredText, E> {
        Ok(MeasuredText(0))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<MeasuredText, A::Error> {
        while seq.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(MeasuredText(0))
    }
}

impl<'de> Deserialize<'de> for MeasuredText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for KeptText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<String>::deserialize(deserializer).map(|text| Self(text.unwrap_or_default()))
    }
}

#[derive(Deserialize)]
#[serde(bound = "T: AnswerText")]
struct Wire<T: AnswerText> {
    #[serde(default = "Vec::new")]
    choices: Vec<AnswerChoice<T>>,
    #[serde(default)]
    usage: Option<TokenUsage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
    /// Sent by llama.cpp only.
    #[serde(default)]
    timings: Option<LlamaTimings>,
    /// Sent by Ollama's own endpoints only, as are the fields below.
    #[serde(default)]
    message: Option<Delta<T>>,
    #[serde(default)]
    response: T,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    load_duration: Option<f64>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    prompt_eval_duration: Option<f64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(default)]
    eval_duration: Option<f64>,
}

#[derive(Deserialize)]
#[serde(bound = "T: AnswerText")]
struct AnswerChoice<T: AnswerText> {
    #[serde(default)]
    text: T,
    #[serde(default)]
    delta: Option<Delta<T>>,
    #[serde(default)]
    message: Option<Delta<T>>,
    #[serde(default)]
    finish_reason: MeasuredText,
}

#[derive(Deserialize)]
#[serde(bound = "T: AnswerText")]
struct Delta<T: AnswerText> {
    #[serde(default)]
    content: T,
    /// What the model thought, under either name. Some versions of vLLM send both, with the same text.
    #[serde(default)]
    reasoning: T,
    #[serde(default)]
    reasoning_content: T,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall<T>>>,
}

#[derive(Deserialize)]
#[serde(bound = "T: AnswerText")]
struct ToolCall<T: AnswerText> {
    #[serde(default)]
    function: Option<Function<T>>,
}

#[derive(Deserialize)]
#[serde(bound = "T: AnswerText")]
struct Function<T: AnswerText> {
    #[serde(default)]
    name: T,
    #[serde(default)]
    arguments: T,
}

#[derive(Clone, Copy, Deserialize)]
struct LlamaTimings {
    cache_n: Option<u64>,
    prompt_n: Option<u64>,
    prompt_ms: Option<f64>,
    predicted_n: Option<u64>,
    predicted_ms: Option<f64>,
}

impl<T: AnswerText> Delta<T> {
    fn add_to(&self, answer: &mut AnswerPart) {
        self.content.add_to(answer);
        if self.reasoning.is_empty() {
            self.reasoning_content.add_to(answer);
        } else {
            self.reasoning.add_to(answer);
        }
        for function in self
            .tool_calls
            .iter()
            .flatten()
            .filter_map(|call| call.function.as_ref())
        {
            function.name.add_to(answer);
            function.arguments.add_to(answer);
        }
    }
}

impl<T: AnswerText> Wire<T> {
    fn into_answer(self) -> AnswerPart {
        let mut answer = AnswerPart {
            usage: self.usage,
            finish: self.done,
            error: self.error.map(|error| match error.get("message") {
                Some(serde_json::Value::String(message)) => message.clone(),
                _ => error.to_string(),
            }),
            ..AnswerPart::default()
        };
        for choice in &self.choices {
            choice.text.add_to(&mut answer);
            for delta in choice.delta.iter().chain(&choice.message) {
                delta.add_to(&mut answer);
            }
            answer.finish |= choice.finish_reason.0 > 0;
        }
        self.response.add_to(&mut answer);
        if let Some(delta) = &self.message {
            delta.add_to(&mut answer);
        }
        let ms = |nanos: Option<f64>| nanos.map(|nanos| nanos / 1e6);
        answer.timings = match self.timings {
            Some(own) => Some(ServerTimings {
                prompt_tokens: own.prompt_n,
                cached_tokens: own.cache_n,
                queue_ms: None,
                prefill_ms: own.prompt_ms,
                output_tokens: own.predicted_n,
                decode_ms: own.predicted_ms,
                load_ms: None,
            }),
            None if self.eval_duration.is_some() || self.prompt_eval_duration.is_some() => {
                Some(ServerTimings {
                    prompt_tokens: self.prompt_eval_count,
                    cached_tokens: None,
                    queue_ms: None,
                    prefill_ms: ms(self.prompt_eval_duration),
                    output_tokens: self.eval_count,
                    decode_ms: ms(self.eval_duration),
                    load_ms: ms(self.load_duration),
                })
            }
            None => None,
        };
        if answer.usage.is_none()
            && let (Some(prompt), Some(output)) = (self.prompt_eval_count, self.eval_count)
        {
            answer.usage = Some(TokenUsage {
                prompt_tokens: prompt,
                completion_tokens: output,
                total_tokens: None,
            });
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_answer(text: &str) -> AnswerPart {
        let measured = AnswerPart::read(text.as_bytes(), false).unwrap();
        let kept = AnswerPart::read(text.as_bytes(), true).unwrap();
        assert_eq!(kept.text.len(), kept.text_bytes);
        assert_eq!(
            AnswerPart {
                text: String::new(),
                ..kept.clone()
            },
            measured
        );
        kept
    }

    #[test]
    fn events_of_completions_and_of_chat() {
        let event = read_answer(
            r#"{"choices":[{"index":0,"text":" a\n","finish_reason":null}],"usage":{"prompt_tokens":32,"total_tokens":33,"completion_tokens":1}}"#,
        );
        assert_eq!((event.text.as_str(), event.finish), (" a\n", false));
        assert_eq!(event.usage.unwrap().completion_tokens, 1);
        let role = read_answer(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#);
        assert_eq!((role.text_bytes, role.finish), (0, false));
        let thought = read_answer(
            r#"{"choices":[{"delta":{"content":null,"reasoning_content":"hm"},"finish_reason":"stop"}]}"#,
        );
        assert_eq!((thought.text.as_str(), thought.finish), ("hm", true));
        // Under both names it is thought once; every such event was taken for broken.
        for delta in [
            r#"{"content":null,"reasoning":"hm","reasoning_content":"hm"}"#,
            r#"{"reasoning":"hm","reasoning_content":null}"#,
            r#"{"reasoning":null,"reasoning_content":"hm"}"#,
        ] {
            let thought = read_answer(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#));
            assert_eq!(thought.text, "hm", "{delta}");
        }
        let tool = read_answer(
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}"#,
        );
        assert_eq!(tool.text, "f{}");
        let last =
            read_answer(r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}"#);
        assert_eq!(last.usage.unwrap().completion_tokens, 7);
    }

    #[test]
    fn timings_of_llama_cpp_and_ollama_are_milliseconds() {
        let llama = read_answer(
            r#"{"choices":[{"text":"x","finish_reason":"length"}],"timings":{"cache_n":2,"prompt_n":8,"prompt_ms":12.5,"predicted_n":4,"predicted_ms":80.0}}"#,
        );
        let timings = llama.timings.unwrap();
        assert_eq!(timings.prefill_ms, Some(12.5));
        assert_eq!(timings.cached_tokens, Some(2));
        let ollama = read_answer(
            r#"{"response":"y","done":true,"load_duration":5000000,"prompt_eval_count":8,"prompt_eval_duration":12500000,"eval_count":4,"eval_duration":80000000}"#,
        );
        assert_eq!(ollama.timings.unwrap().decode_ms, Some(80.0));
        assert_eq!(ollama.usage.unwrap().completion_tokens, 4);
        assert!(ollama.finish);
    }

    #[test]
    fn an_error_inside_of_a_stream_is_no_text() {
        let error = read_answer(r#"{"error":{"message":"out of memory","code":500}}"#);
        assert_eq!(error.error.as_deref(), Some("out of memory"));
        assert!(AnswerPart::read(b"{\"choices\":[", false).is_err());
    }
}
