//! A server of known behaviour, for tests and for the benchmark: OpenAI-compatible, no model.
//!
//! What it does is set exactly, so that every number the client finds can be compared with the truth; faults are injected by
//! request. It speaks HTTP over plain sockets, without the library that the client uses, so that neither hides a mistake of the
//! other.

mod faults;
mod metrics;
mod serve;
mod state;
mod trace;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

pub use faults::Fault;
pub use state::{Called, Served};

/// How a stub behaves.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Behaviour {
    /// From a request's turn to its first token.
    pub prefill: Duration,
    /// Between tokens.
    pub step: Duration,
    /// Tokens an event brings.
    pub tokens_per_event: u64,
    /// Tokens generated whatever was asked for.
    pub tokens: Option<u64>,
    /// Requests that run at once; others queue. 0 has no limit.
    pub slots: usize,
    /// Whether usage is told at all.
    pub usage: bool,
    /// Whether options beyond the common ones are refused with HTTP 400.
    pub is_strict: bool,
    /// Whether `timings` as llama.cpp has them end an answer.
    pub timings: bool,
    /// Whether blank lines come with the next event.
    pub late_blank_lines: bool,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// Which requests fail, by their number in order of arrival.
    pub faults: Vec<(u64, Fault)>,
    /// One more fault for every n-th request.
    pub fault_every: Option<(u64, Fault)>,
    /// Whether the key that was sent is repeated wherever a server can say something: the status line, a header, the name of
    /// the model, names and labels of metrics, text, errors in and outside of streams, what is no JSON, labels of its trace.
    pub repeats_key: bool,
    /// The form in which the key is repeated.
    pub key_form: fn(&str) -> String,
    /// What names of its metrics begin with, which says what server it is.
    pub metrics_prefix: &'static str,
    /// How long `/stop_profile` takes: servers answer once their trace is written.
    pub trace_pause: Duration,
    /// Where `/stop_profile` leaves a trace of its steps, labelled as vLLM's are. For one slot: steps of several would overlap.
    pub trace_folder: Option<PathBuf>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            prefill: Duration::ZERO,
            step: Duration::ZERO,
            tokens_per_event: 1,
            tokens: None,
            slots: 0,
            usage: true,
            is_strict: false,
            timings: false,
            late_blank_lines: false,
            keep_alive: true,
            faults: Vec::new(),
            fault_every: None,
            repeats_key: false,
            key_form: str::to_owned,
            metrics_prefix: "vllm:",
            trace_pause: Duration::ZERO,
            trace_folder: None,
        }
    }
}

/// A stub that runs until it is dropped.
pub struct Stub {
    address: SocketAddr,
    state: Arc<state::State>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stub {
    /// Starts one on a free port of the loopback.
    pub fn start(behaviour: Behaviour) -> std::io::Result<Self> {
        Self::start_at("127.0.0.1:0", behaviour)
    }

    /// Starts one at an address.
    pub fn start_at(address: &str, behaviour: Behaviour) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(state::State::new(behaviour));
        let shared = Arc::clone(&state);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("stub".to_owned())
            .spawn(move || {
                runtime.block_on(serve::accept(listener, shared));
                runtime.shutdown_background();
            })?;
        Ok(Self {
            address,
            state,
            thread: Some(thread),
        })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it did with each request, in order of arrival.
    pub fn served(&self) -> Vec<Served> {
        lock(&self.state.served).clone()
    }

    /// What it did with each request, once none is being answered: a client has its answer before it is counted here.
    pub fn served_when_idle(&self) -> Vec<Served> {
        while self.state.running.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.served()
    }

    /// Calls of its profiler.
    pub fn calls(&self) -> Vec<Called> {
        lock(&self.state.calls).clone()
    }

    /// What every request had as `Authorization`, in order of arrival.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        lock(&self.state.authorizations).clone()
    }

    /// Waits until somebody ends the process.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.state.stop.notify_waiters();
        self.state.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics with the lock")
}
