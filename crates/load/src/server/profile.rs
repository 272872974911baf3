//! The profile endpoints of vLLM and SGLang.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{client::CallError, client::EndpointCalls, endpoint::Endpoint};
use llmprof_record::serving::ServerFamily;

/// A server writes its trace before it answers: a large one takes minutes.
const STOP_LIMIT: Duration = Duration::from_mins(15);
const START_LIMIT: Duration = Duration::from_mins(1);

/// When a profile starts, and how long it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRequest {
    /// Starts once so many requests run in the server's batch.
    pub when_running: Option<f64>,
    /// Starts this long after the load did; where neither is said, once half of the requests ended.
    pub after: Option<Duration>,
    /// How long it records, where the server does not count steps itself.
    pub length: Duration,
    /// Engine steps, for servers that count them (SGLang).
    pub steps: Option<u64>,
    /// More options of SGLang's `/start_profile`.
    pub options: Map<String, Value>,
}

/// Starts and stops a server's profiler.
pub struct Profiler {
    calls: EndpointCalls,
    family: ServerFamily,
    request: ProfileRequest,
}

impl Profiler {
    /// For a server of this family.
    pub fn new(
        endpoint: Arc<Endpoint>,
        family: ServerFamily,
        request: ProfileRequest,
    ) -> Result<Self, CallError> {
        Ok(Self {
            calls: EndpointCalls::new(endpoint)?,
            family,
            request,
        })
    }

    /// The body of the call: vLLM has its options from its command line and takes none.
    pub fn body(&self) -> Bytes {
        if self.family != ServerFamily::Sglang {
            return Bytes::new();
        }
        let mut options = self.request.options.clone();
        if let Some(steps) = self.request.steps {
            options.insert("num_steps".to_owned(), steps.into());
        }
        Value::Object(options).to_string().into()
    }

    /// Starts it. A server without the endpoint was started without a profiler.
    pub fn start(&self) -> Result<(), CallError> {
        self.calls
            .post("/start_profile", self.body(), START_LIMIT)
            .map(drop)
    }

    /// Stops it and waits until the trace is written.
    pub fn stop(&self) -> Result<(), CallError> {
        self.calls
            .post("/stop_profile", Bytes::new(), STOP_LIMIT)
            .map(drop)
    }
}
