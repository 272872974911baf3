//! A headless Chromium spoken to over a pipe: the DevTools protocol needs no socket, driver or runtime this way.
//!
//! Messages are JSON ended by a zero byte, on file descriptors 3 (to the browser) and 4 (from it).
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A loaded machine starts a browser in seconds; only a hang takes longer than this.
const PATIENCE: Duration = Duration::from_mins(2);

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    next: u64,
    /// Events that came while waiting for answers.
    pub(crate) events: Vec<Value>,
    _profile: TempDir,
}

/// The browser's path: `LLMPROF_CHROMIUM`, else the first known name on the search path.
pub(crate) fn find() -> PathBuf {
    if let Some(path) = std::env::var_os("LLMPROF_CHROMIUM") {
        return path.into();
    }
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&search_path).collect();
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| {
            directories
                .iter()
                .map(move |directory| directory.join(name))
        })
        .find(|path| path.is_file())
        .expect("chromium is on the search path")
}

impl Chromium {
    /// Starts it with an empty profile, so that nothing of the user's is read or written.
    pub(crate) fn start(path: &Path) -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#])
            .arg(path)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args([
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
            ])
            .args(["--window-size=1280,900", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let commands = child.stdin.take().expect("stdin is piped");
        let mut answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers
                .read_until(0, &mut message)
                .is_ok_and(|read| read > 0)
            {
                message.pop();
                let value = serde_json::from_slice(&message).expect("the browser speaks JSON");
                message.clear();
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target =
            browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
        );
        attached["sessionId"]
            .as_str()
            .expect("a session")
            .clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method});
        message["params"] = params;
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser reads");
        loop {
            let mut message = self.receive(method);
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&self, what: &str) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        message.unwrap_or_else(|error| panic!("no answer to {what}: {error}"))
    }

    /// Opens a file and waits until it is loaded and its first frame is drawn.
    pub(crate) fn open(&mut self, file: &Path) {
        self.open_url(&format!("file://{}", file.display()));
    }

    pub(crate) fn open_url(&mut self, url: &str) {
        self.events.clear();
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{answer}");
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            let message = self.receive("Page.navigate");
            self.events.push(message);
        }
        self.frame();
    }

    /// Waits until what was asked for is on the screen.
    pub(crate) fn frame(&mut self) {
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// The value of an expression in the page, awaited if it is a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// A number of the page.
    pub(crate) fn number(&mut self, expression: &str) -> f64 {
        let value = self.value(expression);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// A mouse event of the given type with further fields.
    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64), fields: Value) {
        let mut params = json!({"type": kind, "x": x, "y": y});
        if let Value::Object(fields) = fields {
            for (name, value) in fields {
                params[name] = value;
            }
        }
        self.call("Input.dispatchMouseEvent", params);
    }

    /// A key pressed and released.
    pub(crate) fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }

    /// Messages of the console that tell of something wrong, and uncaught exceptions.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let wrong = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => {
                matches!(
                    event["params"]["type"].as_str(),
                    Some("error" | "warning" | "assert")
                )
            }
            _ => false,
        };
        self.events.iter().filter(wrong).collect()
    }

    /// The addresses asked for, but for the page itself.
    pub(crate) fn requests(&self, page: &Path) -> Vec<String> {
        let own = format!("file://{}", page.display());
        self.events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str())
            .filter(|url| *url != own && !url.starts_with("data:"))
            .map(ToOwned::to_owned)
            .collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its helper processes end with it; one that does not answer is killed.
        let _ = self
            .commands
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
