//! A server of known behaviour, for tests and for the benchmark: OpenAI-compatible, no model.
//!
//! What it does is set exactly, so that every number the client finds can be compared with the truth; faults are injected by
//! request. It speaks HTTP over plain sockets, without the library that the client uses, so that neither hides a mistake of the
//! other.

mod behaviour;
mod faults;
mod metrics;
mod serve;
mod state;
mod trace;

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

pub use behaviour::Behaviour;
pub use faults::RequestFault;
pub(crate) use state::lock_ignoring_poison;
pub use state::{Called, ServedRequest};

/// A stub that runs until it is dropped.
pub struct Stub {
    address: SocketAddr,
    state: Arc<state::StubState>,
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
        let state = Arc::new(state::StubState::new(behaviour));
        let shared = Arc::clone(&state);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("stub".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let served = serve::accept_connections(listener, Arc::clone(&shared));
                    tokio::spawn(served);
                    shared.stop.notified().await;
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            address,
            state,
            thread: Some(thread),
        })
    }

    /// The server's address, such as `http://127.0.0.1:43210`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it did with each request, in order of arrival.
    pub fn served(&self) -> Vec<ServedRequest> {
        lock_ignoring_poison(&self.state.served).clone()
    }

    /// What it did with each request, once none is being answered: a client has its answer before it is counted here.
    pub fn served_when_idle(&self) -> Vec<ServedRequest> {
        while self.state.running.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.served()
    }

    /// Calls of `/start_profile` and `/stop_profile`, in order of arrival.
    pub fn calls(&self) -> Vec<Called> {
        lock_ignoring_poison(&self.state.calls).clone()
    }

    /// What every request had as `Authorization`, in order of arrival.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        lock_ignoring_poison(&self.state.authorizations).clone()
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
