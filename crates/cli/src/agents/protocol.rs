//! The Model Context Protocol over stdio: one JSON-RPC message a line.

use std::io::{BufRead, Read as _};

use llmprof_units::printable;
use serde_json::{Value, json};

/// Revisions with the `initialize` handshake, the newest last; they are alike in all that is used here.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Longer messages are refused.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

pub(super) trait Tools {
    fn instructions(&self) -> &'static str;
    /// The value of `tools` in the answer to `tools/list`.
    fn list(&self) -> Value;
    /// The text of an answer, or of an error that the caller can act on; `None` where there is no such tool.
    fn call(&mut self, name: &str, arguments: &Value) -> Option<Result<String, String>>;
    /// A call that works from the beginning, for who named a tool that does not exist.
    fn first_call(&self) -> Value;
}

/// The reply to one message; `None` where it asks for none.
pub(super) fn reply(message: &[u8], tools: &mut impl Tools) -> Option<Value> {
    if message.len() > MESSAGE_BYTES_MAX {
        let why = format!("a message has at most {MESSAGE_BYTES_MAX} bytes");
        return Some(error(&Value::Null, INVALID_REQUEST, &why));
    }
    let Ok(message) = serde_json::from_slice::<Value>(message) else {
        return Some(error(&Value::Null, PARSE_ERROR, "the message is not JSON"));
    };
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    let is_id = id.is_string() || id.is_number() || id.is_null();
    let method = message.get("method").and_then(Value::as_str);
    let is_request = message.get("jsonrpc").and_then(Value::as_str) == Some("2.0") && is_id;
    let Some(method) = method.filter(|_| is_request) else {
        // Replies to requests that this server never sends are not answered.
        if message.get("result").is_some() || message.get("error").is_some() {
            return None;
        }
        let why = "the message is not one request of JSON-RPC 2.0";
        let id = if is_id { id } else { Value::Null };
        return Some(error(&id, INVALID_REQUEST, why));
    };
    // A message without an id is a notification.
    message.get("id")?;
    let params = message.get("params").unwrap_or(&Value::Null);
    Some(match method {
        "initialize" => result(&id, &initialized(params, tools)),
        "ping" => result(&id, &json!({})),
        "tools/list" => result(&id, &json!({"tools": tools.list()})),
        "tools/call" => {
            let Some(name) = params.get("name").and_then(Value::as_str) else {
                return Some(error(
                    &id,
                    INVALID_PARAMS,
                    "tools/call needs the `name` of a tool",
                ));
            };
            let none = json!({});
            let arguments = params.get("arguments").filter(|value| !value.is_null());
            match tools.call(name, arguments.unwrap_or(&none)) {
                Some(Ok(text)) => result(&id, &content(&text, false)),
                Some(Err(text)) => result(&id, &content(&text, true)),
                None => unknown_tool(&id, name, tools),
            }
        }
        _ => error(
            &id,
            METHOD_NOT_FOUND,
            "this server has tools only: tools/list, tools/call",
        ),
    })
}

fn initialized(params: &Value, tools: &impl Tools) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let version = asked.filter(|asked| VERSIONS.contains(asked));
    json!({
        "protocolVersion": version.unwrap_or(VERSIONS[VERSIONS.len() - 1]),
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "llmprof", "version": crate::VERSION},
        "instructions": tools.instructions(),
    })
}

fn content(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

/// What says which tools there are, and which call comes next.
fn unknown_tool(id: &Value, name: &str, tools: &impl Tools) -> Value {
    let name: String = name.chars().take(60).collect();
    let list = tools.list();
    let known = list.as_array().into_iter().flatten();
    let known: Vec<&str> = known.filter_map(|tool| tool["name"].as_str()).collect();
    let first = tools.first_call();
    let why = format!(
        "unknown tool `{}`; tools: {}; call `{}` next",
        printable(&name),
        known.join(", "),
        first["tool"].as_str().unwrap_or("tools/list")
    );
    let mut reply = error(id, INVALID_PARAMS, &why);
    reply["error"]["data"] = json!({"next": [first]});
    reply
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The next line without its end, cut one byte beyond [`MESSAGE_BYTES_MAX`]; `None` at the end of input.
pub(super) fn next_message(input: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        let mut line = Vec::new();
        let limit = MESSAGE_BYTES_MAX as u64 + 1;
        input.by_ref().take(limit).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == limit {
            skip_line(input)?;
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line));
        }
    }
}

/// Reads to the end of a line without keeping it.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let read = end.map_or(buffer.len(), |end| end + 1);
        input.consume(read);
        if end.is_some() || read == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Tools for Echo {
        fn instructions(&self) -> &'static str {
            "echo"
        }

        fn list(&self) -> Value {
            json!([{"name": "echo"}])
        }

        fn call(&mut self, name: &str, arguments: &Value) -> Option<Result<String, String>> {
            (name == "echo").then(|| Ok(arguments.to_string()))
        }

        fn first_call(&self) -> Value {
            json!({"tool": "echo", "arguments": {}})
        }
    }

    fn code(message: &str) -> i64 {
        let reply = reply(message.as_bytes(), &mut Echo).unwrap();
        reply["error"]["code"].as_i64().unwrap()
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_code() {
        assert_eq!(code("{"), PARSE_ERROR);
        assert_eq!(code("[]"), INVALID_REQUEST);
        assert_eq!(code(r#"{"id": 1, "method": "ping"}"#), INVALID_REQUEST);
        assert_eq!(
            code(r#"{"jsonrpc": "2.0", "id": [1], "method": "ping"}"#),
            INVALID_REQUEST
        );
        assert_eq!(
            code(r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#),
            METHOD_NOT_FOUND
        );
        assert_eq!(
            code(r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#),
            INVALID_PARAMS
        );
        assert_eq!(
            code(r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}"#),
            INVALID_PARAMS
        );
        assert_eq!(code(&" ".repeat(MESSAGE_BYTES_MAX + 1)), INVALID_REQUEST);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_next_call() {
        let message = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "kernel\u202e"}}"#;
        let reply = reply(message.as_bytes(), &mut Echo).unwrap();
        let error = &reply["error"];
        assert_eq!(error["data"]["next"][0]["tool"], "echo");
        let said = error["message"].as_str().unwrap();
        assert!(said.contains("tools: echo; call `echo` next"), "{said}");
        assert!(!said.contains('\u{202e}'), "{said}");
    }

    #[test]
    fn notifications_and_replies_are_not_answered() {
        for message in [
            r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            r#"{"jsonrpc": "2.0", "method": "no/such"}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#,
        ] {
            assert!(reply(message.as_bytes(), &mut Echo).is_none(), "{message}");
        }
    }

    #[test]
    fn a_version_that_is_not_known_is_answered_with_the_newest() {
        let version = |asked: &str| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": asked}});
            let reply = reply(message.to_string().as_bytes(), &mut Echo).unwrap();
            reply["result"]["protocolVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(version("2025-03-26"), "2025-03-26");
        assert_eq!(version("1999-01-01"), "2025-11-25");
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_read() {
        let long = "x".repeat(3 * MESSAGE_BYTES_MAX);
        let text = format!("{long}\n\n  \nsecond\nlast");
        let mut input = std::io::BufReader::new(text.as_bytes());
        let mut next = || next_message(&mut input).unwrap();
        assert_eq!(next().unwrap().len(), MESSAGE_BYTES_MAX + 1);
        assert_eq!(next().unwrap(), b"second\n");
        assert_eq!(next().unwrap(), b"last");
        assert!(next().is_none());
    }
}
