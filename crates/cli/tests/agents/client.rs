//! A client that speaks the protocol and nothing more.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use llmprof_view::agent::ANSWER_BYTES_MAX;
use serde_json::{Value, json};

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    calls: u64,
}

/// What a tool answered.
pub(crate) struct Called {
    pub(crate) answer: Value,
    pub(crate) bytes: usize,
    pub(crate) is_error: bool,
}

impl Client {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .arg("mcp")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            calls: 0,
        };
        let begun = client.request("initialize", &json!({"protocolVersion": "2025-06-18"}));
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "no reply");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        let reply = self.receive();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Called {
        let reply = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &reply["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{tool} {arguments}: {reply}"));
        assert!(text.len() <= ANSWER_BYTES_MAX, "{} bytes", text.len());
        let answer: Value = serde_json::from_str(text).unwrap();
        let schema = answer["schema"].as_str().unwrap();
        assert!(schema.starts_with("llmprof.agent."), "{schema}");
        Called {
            is_error: result["isError"] == true,
            bytes: text.len(),
            answer,
        }
    }

    /// Follows a hint of an answer.
    pub(crate) fn follow(&mut self, next: &Value) -> Called {
        let tool = next["tool"].as_str().unwrap();
        let called = self.call(tool, &next["arguments"]);
        assert!(!called.is_error, "{next} leads to {}", called.answer);
        called
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let ended = self.child.wait();
        if !std::thread::panicking() {
            assert!(ended.unwrap().success());
        }
    }
}
