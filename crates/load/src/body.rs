//! Requests as JSON.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{endpoint::Api, prompt::Prompt};

/// Optional fields that a server accepts, learned by asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// `stream_options.include_usage`: token counts at the end.
    pub usage: bool,
    /// `stream_options.continuous_usage_stats`: tokens with every event.
    pub continuous_usage: bool,
    /// `ignore_eos`: as many tokens as asked for.
    pub ignore_eos: bool,
}

impl Dialect {
    /// From the most that servers understand to the least.
    pub fn all(ignore_eos: bool) -> Vec<Self> {
        let of = |usage, continuous_usage, ignore_eos| Self {
            usage,
            continuous_usage,
            ignore_eos,
        };
        let mut all = Vec::new();
        for ignore_eos in if ignore_eos {
            vec![true, false]
        } else {
            vec![false]
        } {
            all.extend([
                of(true, true, ignore_eos),
                of(true, false, ignore_eos),
                of(false, false, ignore_eos),
            ]);
        }
        all
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Whether the model said it.
    pub is_answer: bool,
    pub text: String,
}

/// What all requests of a load have in common.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    pub api: Api,
    pub model: String,
    pub stream: bool,
    /// Optional fields that the server accepts.
    pub dialect: Dialect,
    /// Fields of the user's own, which win over ours.
    pub extra: Map<String, Value>,
}

impl RequestTemplate {
    /// A request. Text of a conversation stands before its prompt.
    pub fn body(&self, prompt: &Prompt, max_tokens: u64, history: &[ChatMessage]) -> Bytes {
        let mut fields = Map::new();
        fields.insert("model".to_owned(), json!(self.model));
        fields.insert("max_tokens".to_owned(), json!(max_tokens));
        fields.insert("temperature".to_owned(), json!(0.0));
        if self.dialect.ignore_eos {
            fields.insert("ignore_eos".to_owned(), json!(true));
        }
        fields.insert("stream".to_owned(), json!(self.stream));
        if self.stream && self.dialect.usage {
            let mut options = json!({"include_usage": true});
            if self.dialect.continuous_usage {
                options["continuous_usage_stats"] = json!(true);
            }
            fields.insert("stream_options".to_owned(), options);
        }
        match self.api {
            Api::Chat => {
                let said = |message: &ChatMessage| {
                    let role = if message.is_answer {
                        "assistant"
                    } else {
                        "user"
                    };
                    json!({"role": role, "content": message.text})
                };
                let mut messages: Vec<Value> = history.iter().map(said).collect();
                messages.push(json!({"role": "user", "content": prompt_text(prompt)}));
                fields.insert("messages".to_owned(), Value::Array(messages));
            }
            Api::Completions if history.is_empty() => {
                if let Prompt::Text(text) = prompt {
                    fields.insert("prompt".to_owned(), json!(text));
                }
            }
            Api::Completions => {
                let before: Vec<&str> = history.iter().map(|said| said.text.as_str()).collect();
                let whole = format!("{}\n{}", before.join("\n"), prompt_text(prompt));
                fields.insert("prompt".to_owned(), json!(whole));
            }
        }
        fields.extend(self.extra.clone());
        let mut body = Value::Object(fields).to_string();
        // Thousands of ids as JSON values would take longer than all the rest.
        if let (Api::Completions, Prompt::Tokens(ids), true) =
            (self.api, prompt, history.is_empty())
            && !self.extra.contains_key("prompt")
        {
            body.pop();
            body.reserve(ids.len() * 7 + 16);
            body += ",\"prompt\":[";
            for (index, id) in ids.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let _ = write!(body, "{comma}{id}");
            }
            body += "]}";
        }
        body.into()
    }
}

/// Token ids mean nothing as text, so a prompt that must be text says which they were.
fn prompt_text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(ids) => {
            let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
            words.join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat_template(api: Api) -> RequestTemplate {
        RequestTemplate {
            api,
            model: "m".to_owned(),
            stream: true,
            dialect: Dialect::all(true)[0],
            extra: Map::new(),
        }
    }

    fn read_json(body: &Bytes) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn token_ids_and_options_are_json() {
        let mut template = chat_template(Api::Completions);
        template.extra.insert("temperature".to_owned(), json!(0.5));
        let body = read_json(&template.body(&Prompt::Tokens(vec![5, 6, 7]), 9, &[]));
        assert_eq!(body["prompt"], json!([5, 6, 7]));
        assert_eq!(body["max_tokens"], 9);
        assert_eq!(body["temperature"], 0.5);
        assert_eq!(
            body["stream_options"],
            json!({"include_usage": true, "continuous_usage_stats": true})
        );
        assert_eq!(
            read_json(&template.body(&Prompt::Tokens(vec![]), 9, &[]))["prompt"],
            json!([])
        );
        template.extra.insert("prompt".to_owned(), json!("own"));
        let body = template.body(&Prompt::Tokens(vec![5]), 9, &[]);
        assert_eq!(read_json(&body)["prompt"], "own");
        assert_eq!(body.windows(8).filter(|at| *at == b"\"prompt\"").count(), 1);
    }

    #[test]
    fn a_conversation_has_all_its_messages() {
        let said = |is_answer, text: &str| ChatMessage {
            is_answer,
            text: text.to_owned(),
        };
        let history = [said(false, "q \"1\""), said(true, "a")];
        let body =
            read_json(&chat_template(Api::Chat).body(&Prompt::Text("q2".to_owned()), 1, &history));
        let roles: Vec<&str> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
        assert_eq!(body["messages"][0]["content"], "q \"1\"");
        let body = read_json(&chat_template(Api::Completions).body(
            &Prompt::Text("q2".to_owned()),
            1,
            &history,
        ));
        assert_eq!(body["prompt"], "q \"1\"\na\nq2");
    }

    #[test]
    fn dialects_go_from_most_to_least() {
        assert_eq!(Dialect::all(true).len(), 6);
        assert_eq!(
            Dialect::all(false)[2],
            Dialect {
                usage: false,
                continuous_usage: false,
                ignore_eos: false
            }
        );
    }
}
