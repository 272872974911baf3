//! Tokenizing in a process of its own. A `tokenizer.json` of a few kB can describe rules that double a text forty times, so it runs where
//! memory and CPU time are limited, and its end ends nothing else.
//!
//! [`TokenizerProcess`] starts `llmprof tokenize FILE` and asks it one JSON line at a time; [`serve_tokenizer`] answers there.

mod serve;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use serve::serve_tokenizer;

/// The internal command of llmprof that serves a tokenizer.
pub const TOKENIZE_COMMAND: &str = "tokenize";

/// The file that holds a whole tokenizer.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// Address space of the process. A tokenizer of 24 MB (262,144 tokens, 255,859 merges) takes 0.4 GB of it and 1 MB of text no more; the largest
/// published ones have 35 MB.
const MEMORY_MAX_GIB: u64 = 1;

/// CPU time for loading, or for one text. Loading that one takes 1.6 s, 1 MB of text 0.3 s.
const TEXT_MAX_CPU_S: u64 = 10;

/// An answer is at most this long: 20 million ids.
const ANSWER_MAX_BYTES: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    Encode { text: String, special_tokens: bool },
    Decode { ids: Vec<u32> },
}

/// The text of some ids, without and with special tokens.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodedText {
    pub text: String,
    pub raw_text: String,
}

/// A tokenizer in a process of its own. After a failure of the process every question fails as the first one did.
#[derive(Debug)]
pub struct TokenizerProcess {
    file: PathBuf,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    child: Child,
    /// Closed on drop, which ends the process.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    failure: Option<String>,
}

impl TokenizerProcess {
    /// Starts the process and waits until it has loaded `path`, a file or the folder that has a `tokenizer.json`. The message of a
    /// failure names the file.
    pub fn start(path: &Path) -> Result<Self, String> {
        let file = if path.is_dir() {
            path.join(TOKENIZER_FILE)
        } else {
            path.to_owned()
        };
        let unreadable =
            |why: String| format!("cannot read the tokenizer {}: {why}", file.display());
        let mut pipes = Pipes::open_pipes(&file).map_err(|error| unreadable(error.to_string()))?;
        pipes.read_answer::<()>().map_err(unreadable)?;
        Ok(Self {
            file,
            pipes: Mutex::new(pipes),
        })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn encode(&self, text: &str, special_tokens: bool) -> Result<Vec<u32>, String> {
        self.ask_process(&Question::Encode {
            text: text.to_owned(),
            special_tokens,
        })
    }

    pub fn decode(&self, ids: &[u32]) -> Result<DecodedText, String> {
        self.ask_process(&Question::Decode { ids: ids.to_vec() })
    }

    /// Why the process ended, if it did.
    pub fn failure(&self) -> Option<String> {
        self.lock_pipes().failure.clone()
    }

    fn ask_process<T: DeserializeOwned>(&self, question: &Question) -> Result<T, String> {
        let mut pipes = self.lock_pipes();
        if let Some(why) = &pipes.failure {
            return Err(why.clone());
        }
        let mut line = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let sent = match &mut pipes.input {
            Some(input) => input.write_all(&line).and_then(|()| input.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        match sent {
            Ok(()) => pipes.read_answer(),
            Err(error) => Err(pipes.end_process(&error.to_string())),
        }
    }

    fn lock_pipes(&self) -> std::sync::MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipes {
    fn open_pipes(file: &Path) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(TOKENIZE_COMMAND)
            .arg(file)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the one who asks.
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            failure: None,
        })
    }

    /// The next line of the process: what was asked for, or why it cannot be had.
    fn read_answer<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        let mut line = Vec::new();
        let limited = (&mut self.output).take(ANSWER_MAX_BYTES);
        let read = { limited }.read_until(b'\n', &mut line);
        if let Err(error) = read {
            return Err(self.end_process(&error.to_string()));
        }
        if line.last() != Some(&b'\n') {
            return Err(self.end_process("its answer is not whole"));
        }
        match serde_json::from_slice::<Result<T, String>>(&line) {
            Ok(answer) => answer,
            Err(error) => Err(self.end_process(&error.to_string())),
        }
    }

    /// Ends the process; the reason it had, else `why`.
    fn end_process(&mut self, why: &str) -> String {
        self.input = None;
        // It has ended by itself unless its answers make no sense.
        let _ = self.child.kill();
        let signal = self.child.wait().ok().and_then(|status| status.signal());
        let why = match signal {
            Some(ABORTED) => {
                format!(
                    "the tokenizer needs more than {MEMORY_MAX_GIB} GiB of memory: its tokenizer.json makes texts grow without bound, or the text is too long"
                )
            }
            Some(OUT_OF_CPU_TIME) => {
                format!("the tokenizer needs more than {TEXT_MAX_CPU_S} s of CPU time for a text")
            }
            _ => format!("the tokenizer's process failed: {why}"),
        };
        self.failure.insert(why).clone()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rust aborts a process whose allocation fails.
const ABORTED: i32 = rustix::process::Signal::ABORT.as_raw();
const OUT_OF_CPU_TIME: i32 = rustix::process::Signal::XCPU.as_raw();
