//! The PyTorch worker in a real interpreter, on the CPU.
//!
//! `LLMPROF_PYTHON` names the Python (default: the repository's `.venv`).

#![expect(clippy::unwrap_used, reason = "tests")]

mod devices;
mod failures;
mod images;
mod kernels;
mod pages;
mod pairs;
mod profiled;
mod remote_code;
mod same_tokens;
mod support;
mod text;
