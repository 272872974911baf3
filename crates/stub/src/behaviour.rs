//! What a stub does with requests.

use std::{path::PathBuf, time::Duration};

use crate::RequestFault;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Behaviour {
    /// From a request's turn to its first token.
    pub prefill: Duration,
    /// Pause between two successive tokens of an answer.
    pub step: Duration,
    /// Number of tokens that each SSE event brings.
    pub tokens_per_event: u64,
    /// Tokens that each answer has, regardless of what the request asks for.
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
    pub keep_alive: bool,
    /// Which requests fail, by their number in order of arrival.
    pub faults: Vec<(u64, RequestFault)>,
    /// One more fault for every n-th request.
    pub fault_every: Option<(u64, RequestFault)>,
    /// Whether the key that was sent is repeated wherever a server can say something: the status line, a header, the name of
    /// the model, names and labels of metrics, text, errors in and outside of streams, lines that are not JSON, labels of its trace.
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
