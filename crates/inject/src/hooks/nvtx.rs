//! The functions that NVTX calls in place of its own.
//!
//! The NVTX headers of a program hold a table of function pointers; a tool puts its functions there. Doing so ourselves
//! costs a third of CUPTI's marker records, is the same for all versions of CUDA, works before CUDA is initialized, and
//! lets us know the ranges that are open on a thread when it captures a graph, or when recording begins.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::guard::quietly;
use crate::nvtx::attributes::{self, EventAttributes, Registered};
use crate::nvtx::domains::{self, Domain};
use crate::session::{self, Session};

/// `NvtxGetExportTableFunc_t`.
pub(crate) type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;

/// A place in a program's table that holds a pointer to a function.
type Slot = *mut *const c_void;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct ExportTableCallbacks {
    size: usize,
    module_table: Option<unsafe extern "C" fn(c_int, *mut *const Slot, *mut c_uint) -> c_int>,
}

/// Puts our functions into the table of one copy of NVTX. What we do not handle stays as it is and becomes a no-op.
///
/// # Safety
/// `export_table` is the function that NVTX hands to tools.
pub(crate) unsafe fn install(export_table: GetExportTable) -> bool {
    if session::current().is_none() {
        return false;
    }
    // SAFETY: NVTX gives null or a table that lives as long as the program.
    let callbacks = unsafe {
        export_table(CALLBACKS)
            .cast::<ExportTableCallbacks>()
            .as_ref()
    };
    let Some(module_table) = callbacks
        .filter(|table| table.size >= size_of::<ExportTableCallbacks>())
        .and_then(|table| table.module_table)
    else {
        return false;
    };
    for (module, functions) in modules() {
        let (mut slots, mut count): (*const Slot, c_uint) = (std::ptr::null(), 0);
        // SAFETY: both places are valid for the call.
        let known = unsafe { module_table(module, &raw mut slots, &raw mut count) };
        if known == 0 || slots.is_null() {
            continue;
        }
        for (number, function) in functions {
            if number < count {
                // SAFETY: the table has `count` entries, each null or the address of a function pointer of the type
                // that the number stands for, which ours has.
                unsafe {
                    let slot = *slots.add(number as usize);
                    if !slot.is_null() {
                        *slot = function;
                    }
                }
            }
        }
    }
    true
}

/// `NVTX_NO_PUSH_POP_TRACKING`.
const NOT_TRACKED: c_int = -2;

/// `NvtxCallbackModule`.
const CORE: c_int = 1;
const CORE2: c_int = 5;

/// By module, our functions with the numbers of the calls that they replace (`NvtxCallbackIdCore`, `…Core2`).
fn modules() -> [(c_int, Vec<(u32, *const c_void)>); 2] {
    [
        (
            CORE,
            vec![
                (1, mark_ex as *const c_void),
                (2, mark_a as *const c_void),
                (3, mark_w as *const c_void),
                (4, start_ex as *const c_void),
                (5, start_a as *const c_void),
                (6, start_w as *const c_void),
                (7, end as *const c_void),
                (8, push_ex as *const c_void),
                (9, push_a as *const c_void),
                (10, push_w as *const c_void),
                (11, pop as *const c_void),
                (14, name_thread_a as *const c_void),
                (15, name_thread_w as *const c_void),
            ],
        ),
        (
            CORE2,
            vec![
                (1, domain_mark_ex as *const c_void),
                (2, domain_start_ex as *const c_void),
                (3, domain_end as *const c_void),
                (4, domain_push_ex as *const c_void),
                (5, domain_pop as *const c_void),
                (10, register_a as *const c_void),
                (11, register_w as *const c_void),
                (12, domain_create_a as *const c_void),
                (13, domain_create_w as *const c_void),
            ],
        ),
    ]
}

fn with<T>(fallback: T, work: impl FnOnce(&'static Session) -> T) -> T {
    match session::current() {
        Some(session) => quietly(fallback, || work(session)),
        None => fallback,
    }
}

// SAFETY, for all functions below: NVTX passes texts, attributes and handles as its interface defines them, and they
// live through the call.

unsafe extern "C" fn mark_ex(event: *const EventAttributes) {
    // SAFETY: see above.
    unsafe { domain_mark_ex(std::ptr::null(), event) };
}

unsafe extern "C" fn mark_a(text: *const c_char) {
    with((), |session| {
        // SAFETY: see above.
        unsafe { attributes::narrow(text, |text| session.mark(0, text)) }
    });
}

unsafe extern "C" fn mark_w(text: *const libc::wchar_t) {
    with((), |session| {
        // SAFETY: see above.
        session.mark(0, unsafe { attributes::wide(text) }.as_bytes());
    });
}

unsafe extern "C" fn start_ex(event: *const EventAttributes) -> u64 {
    // SAFETY: see above.
    unsafe { domain_start_ex(std::ptr::null(), event) }
}

unsafe extern "C" fn start_a(text: *const c_char) -> u64 {
    with(0, |session| {
        // SAFETY: see above.
        unsafe { attributes::narrow(text, |text| session.start_range(0, text)) }
    })
}

unsafe extern "C" fn start_w(text: *const libc::wchar_t) -> u64 {
    with(0, |session| {
        // SAFETY: see above.
        session.start_range(0, unsafe { attributes::wide(text) }.as_bytes())
    })
}

unsafe extern "C" fn end(range: u64) {
    with((), |session| session.end_range(range));
}

unsafe extern "C" fn push_ex(event: *const EventAttributes) -> c_int {
    // SAFETY: see above.
    unsafe { domain_push_ex(std::ptr::null(), event) }
}

unsafe extern "C" fn push_a(text: *const c_char) -> c_int {
    with(NOT_TRACKED, |session| {
        // SAFETY: see above.
        unsafe { attributes::narrow(text, |text| session.push(0, text)) }
    })
}

unsafe extern "C" fn push_w(text: *const libc::wchar_t) -> c_int {
    with(NOT_TRACKED, |session| {
        // SAFETY: see above.
        session.push(0, unsafe { attributes::wide(text) }.as_bytes())
    })
}

unsafe extern "C" fn pop() -> c_int {
    with(NOT_TRACKED, |session| session.pop(0))
}

unsafe extern "C" fn name_thread_a(thread: u32, text: *const c_char) {
    with((), |session| {
        // SAFETY: see above.
        unsafe { attributes::narrow(text, |text| session.name_thread(thread, text)) }
    });
}

unsafe extern "C" fn name_thread_w(thread: u32, text: *const libc::wchar_t) {
    with((), |session| {
        // SAFETY: see above.
        session.name_thread(thread, unsafe { attributes::wide(text) }.as_bytes());
    });
}

unsafe extern "C" fn domain_mark_ex(domain: *const Domain, event: *const EventAttributes) {
    with((), |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::id(domain);
            attributes::message(event, |text| session.mark(domain, text));
        }
    });
}

unsafe extern "C" fn domain_start_ex(domain: *const Domain, event: *const EventAttributes) -> u64 {
    with(0, |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::id(domain);
            attributes::message(event, |text| session.start_range(domain, text))
        }
    })
}

unsafe extern "C" fn domain_end(_domain: *const Domain, range: u64) {
    with((), |session| session.end_range(range));
}

unsafe extern "C" fn domain_push_ex(domain: *const Domain, event: *const EventAttributes) -> c_int {
    with(NOT_TRACKED, |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::id(domain);
            attributes::message(event, |text| session.push(domain, text))
        }
    })
}

unsafe extern "C" fn domain_pop(domain: *const Domain) -> c_int {
    with(NOT_TRACKED, |session| {
        // SAFETY: see above.
        session.pop(unsafe { domains::id(domain) })
    })
}

unsafe extern "C" fn register_a(_domain: *const Domain, text: *const c_char) -> *const Registered {
    // SAFETY: see above.
    quietly(std::ptr::null(), || unsafe {
        attributes::narrow(text, attributes::register)
    })
}

unsafe extern "C" fn register_w(
    _domain: *const Domain,
    text: *const libc::wchar_t,
) -> *const Registered {
    quietly(std::ptr::null(), || {
        // SAFETY: see above.
        attributes::register(unsafe { attributes::wide(text) }.as_bytes())
    })
}

unsafe extern "C" fn domain_create_a(text: *const c_char) -> *const Domain {
    // SAFETY: see above.
    unsafe { attributes::narrow(text, create) }
}

unsafe extern "C" fn domain_create_w(text: *const libc::wchar_t) -> *const Domain {
    quietly(std::ptr::null(), || {
        // SAFETY: see above.
        create(unsafe { attributes::wide(text) }.as_bytes())
    })
}

/// A domain must be there even without a session: the program keeps the handle.
fn create(name: &[u8]) -> *const Domain {
    quietly(std::ptr::null(), || match session::current() {
        Some(session) => std::ptr::from_ref(session.domain(name)),
        None => std::ptr::from_ref(domains::make(name, |_| ())),
    })
}
