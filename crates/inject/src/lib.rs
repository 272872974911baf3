//! The library that the CUDA driver and NVTX load into a watched process.
//!
//! `CUDA_INJECTION64_PATH` makes the driver load it and call [`InitializeInjection`] inside `cuInit`;
//! `NVTX_INJECTION64_PATH` makes every copy of the NVTX headers call [`InitializeInjectionNvtx2`]. It finds `libcupti`,
//! lets it record into buffers of ours, and one thread of our own turns full buffers into a wire file.
//!
//! It is a guest. No panic leaves it, no signal handler is set, nothing is exported but the two entry points, the
//! threads of the process never wait for a file or a socket, and if anything is missing or refused the process runs as
//! if we were not there, and llmprof is notified why.
#![expect(
    unsafe_code,
    reason = "everything here talks to C: CUPTI, NVTX, the loader, pthreads"
)]

mod budget;
mod buffers;
mod control;
mod cupti;
mod descriptor;
mod driver;
mod gate;
mod guard;
mod hooks;
mod kept;
mod life;
mod names;
mod nvtx;
mod outbox;
mod output;
mod queues;
mod session;
mod start;
mod step_label;
mod sync;
mod sys;
mod translate;
mod worker;

use std::ffi::{c_int, c_void};

/// The driver calls this once, while it initializes itself. The answer is always success: a refusal here would be the
/// target's trouble.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guard::quietly((), start::attach);
    1
}

/// Each copy of the NVTX headers in the process calls this once, before its first event.
///
/// # Safety
/// `export_table` is the function that NVTX hands to tools.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    export_table: Option<unsafe extern "C" fn(u32) -> *const c_void>,
) -> c_int {
    let installed = guard::quietly(false, || {
        start::ensure();
        // SAFETY: the caller says so.
        export_table.is_some_and(|table| unsafe { hooks::nvtx::install(table) })
    });
    c_int::from(installed)
}
