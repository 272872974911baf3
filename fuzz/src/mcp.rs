//! Messages to `llmprof mcp`, which answers over pipes and must outlive them all.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub const FORMAT: &str = "mcp_message";
/// A reply to it follows whatever an input is answered with, or not answered.
const PING: &str = r#"{"jsonrpc": "2.0", "id": "last", "method": "ping"}"#;

/// A server in a folder of its own with one profile, `trace.json`.
pub struct McpServer {
    program: PathBuf,
    folder: tempfile::TempDir,
    running: RefCell<Option<Running>>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl McpServer {
    pub fn new(program: &Path, fuzz: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let seed = fuzz.join("corpus/kineto/small.json");
        fs::copy(seed, folder.path().join("trace.json")).expect("the folder is ours");
        Self {
            program: program.to_owned(),
            folder,
            running: RefCell::new(None),
        }
    }

    fn start(&self) -> Running {
        let mut child = Command::new(&self.program)
            .arg("mcp")
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is built");
        Running {
            input: child.stdin.take().expect("it is piped"),
            output: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
        }
    }

    /// Sends a message; true where the reply is a result. A server that ends is a failure.
    pub fn read(&self, message: &[u8]) -> bool {
        let mut place = self.running.borrow_mut();
        let mut running = place.take().unwrap_or_else(|| self.start());
        let mut lines = message.to_vec();
        for byte in &mut lines {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        lines.push(b'\n');
        lines.extend(PING.bytes());
        lines.push(b'\n');
        let sent = running.input.write_all(&lines);
        assert!(sent.is_ok(), "the server is gone");
        let mut is_result = false;
        loop {
            let mut reply = String::new();
            let bytes = running.output.read_line(&mut reply).unwrap_or(0);
            if bytes == 0 {
                let ended = running.child.wait();
                panic!("the server ended: {ended:?}");
            }
            if reply.contains(r#""id":"last""#) {
                break;
            }
            is_result |= reply.contains(r#""result":"#);
        }
        *place = Some(running);
        is_result
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.borrow_mut().take() {
            drop(running.input);
            let _ = running.child.wait();
        }
    }
}
