//! The library that the CUDA driver and NVTX load into a watched process.
//!
//! `CUDA_INJECTION64_PATH` makes the driver load it and call [`InitializeInjection`] inside `cuInit`;
//! `NVTX_INJECTION64_PATH` makes every copy of the NVTX headers call [`InitializeInjectionNvtx2`]. It finds `libcupti`,
//! has it record into our buffers, and our own thread writes full buffers to a wire file.
//!
//! It must not disturb the target: no panic leaves the library, no signal handler is set, only the two entry points are
//! exported, and the target's threads never wait for a file or a socket. If anything is missing or refused, the process runs
//! without recording and llmprof is told why.
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

/// The driver calls this once, while it initializes. Always returns success: an error would make `cuInit` fail in the target.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guard::catch_panics((), start::attach_cupti);
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
    let installed = guard::catch_panics(false, || {
        start::ensure_session();
        // SAFETY: the caller says so.
        export_table.is_some_and(|table| unsafe { hooks::nvtx::install_hooks(table) })
    });
    c_int::from(installed)
}
