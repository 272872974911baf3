//! The functions that NVTX calls in place of its own.
//!
//! The NVTX headers of a program hold a table of function pointers; a tool puts its functions there. This costs a third of
//! what CUPTI's marker records cost, is the same for all versions of CUDA, works before CUDA is initialized, and tells us
//! which ranges are open on a thread when it captures a graph or when recording begins.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::guard::catch_panics;
use crate::nvtx::attributes::{self, EventAttributes, Registered};
use crate::nvtx::domains::{self, Domain};
use crate::session::{self, Session};

// NvtxGetExportTableFunc_t
pub(crate) type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;

// NVTX_ETID_CALLBACKS
const CALLBACKS: u32 = 1;

/// A place in a program's table that holds a pointer to a function.
type Slot = *mut *const c_void;

// NvtxExportTableCallbacks
#[repr(C)]
struct ExportTableCallbacks {
    size: usize,
    module_table: Option<unsafe extern "C" fn(c_int, *mut *const Slot, *mut c_uint) -> c_int>,
}

/// Puts our functions into the table of one copy of NVTX. What we do not handle stays as it is and becomes a no-op.
///
/// # Safety
/// `export_table` is the function that NVTX hands to tools.
pub(crate) unsafe fn install_hooks(export_table: GetExportTable) -> bool {
    if session::current_session().is_none() {
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
    for (module, functions) in hooks_by_module() {
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

// NVTX_NO_PUSH_POP_TRACKING
const NOT_TRACKED: c_int = -2;

// NvtxCallbackModule
const CORE: c_int = 1;
const CORE2: c_int = 5;

/// Our functions by module, with the numbers of the calls they replace (`NvtxCallbackIdCore`, `…Core2`).
fn hooks_by_module() -> [(c_int, Vec<(u32, *const c_void)>); 2] {
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

fn with_session<T>(fallback: T, work: impl FnOnce(&'static Session) -> T) -> T {
    match session::current_session() {
        Some(session) => catch_panics(fallback, || work(session)),
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
    with_session((), |session| {
        // SAFETY: see above.
        unsafe { attributes::with_c_string(text, |text| session.mark_moment(0, text)) }
    });
}

unsafe extern "C" fn mark_w(text: *const libc::wchar_t) {
    with_session((), |session| {
        // SAFETY: see above.
        session.mark_moment(0, unsafe { attributes::wide_to_utf8(text) }.as_bytes());
    });
}

unsafe extern "C" fn start_ex(event: *const EventAttributes) -> u64 {
    // SAFETY: see above.
    unsafe { domain_start_ex(std::ptr::null(), event) }
}

unsafe extern "C" fn start_a(text: *const c_char) -> u64 {
    with_session(0, |session| {
        // SAFETY: see above.
        unsafe { attributes::with_c_string(text, |text| session.start_range(0, text)) }
    })
}

unsafe extern "C" fn start_w(text: *const libc::wchar_t) -> u64 {
    with_session(0, |session| {
        // SAFETY: see above.
        session.start_range(0, unsafe { attributes::wide_to_utf8(text) }.as_bytes())
    })
}

unsafe extern "C" fn end(range: u64) {
    with_session((), |session| session.end_range(range));
}

unsafe extern "C" fn push_ex(event: *const EventAttributes) -> c_int {
    // SAFETY: see above.
    unsafe { domain_push_ex(std::ptr::null(), event) }
}

unsafe extern "C" fn push_a(text: *const c_char) -> c_int {
    with_session(NOT_TRACKED, |session| {
        // SAFETY: see above.
        unsafe { attributes::with_c_string(text, |text| session.push_range(0, text)) }
    })
}

unsafe extern "C" fn push_w(text: *const libc::wchar_t) -> c_int {
    with_session(NOT_TRACKED, |session| {
        // SAFETY: see above.
        session.push_range(0, unsafe { attributes::wide_to_utf8(text) }.as_bytes())
    })
}

unsafe extern "C" fn pop() -> c_int {
    with_session(NOT_TRACKED, |session| session.pop_range(0))
}

unsafe extern "C" fn name_thread_a(thread: u32, text: *const c_char) {
    with_session((), |session| {
        // SAFETY: see above.
        unsafe { attributes::with_c_string(text, |text| session.name_thread(thread, text)) }
    });
}

unsafe extern "C" fn name_thread_w(thread: u32, text: *const libc::wchar_t) {
    with_session((), |session| {
        // SAFETY: see above.
        session.name_thread(thread, unsafe { attributes::wide_to_utf8(text) }.as_bytes());
    });
}

unsafe extern "C" fn domain_mark_ex(domain: *const Domain, event: *const EventAttributes) {
    with_session((), |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::domain_id(domain);
            attributes::with_message(event, |text| session.mark_moment(domain, text));
        }
    });
}

unsafe extern "C" fn domain_start_ex(domain: *const Domain, event: *const EventAttributes) -> u64 {
    with_session(0, |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::domain_id(domain);
            attributes::with_message(event, |text| session.start_range(domain, text))
        }
    })
}

unsafe extern "C" fn domain_end(_domain: *const Domain, range: u64) {
    with_session((), |session| session.end_range(range));
}

unsafe extern "C" fn domain_push_ex(domain: *const Domain, event: *const EventAttributes) -> c_int {
    with_session(NOT_TRACKED, |session| {
        // SAFETY: see above.
        unsafe {
            let domain = domains::domain_id(domain);
            attributes::with_message(event, |text| session.push_range(domain, text))
        }
    })
}

unsafe extern "C" fn domain_pop(domain: *const Domain) -> c_int {
    with_session(NOT_TRACKED, |session| {
        // SAFETY: see above.
        session.pop_range(unsafe { domains::domain_id(domain) })
    })
}

unsafe extern "C" fn register_a(_domain: *const Domain, text: *const c_char) -> *const Registered {
    // SAFETY: see above.
    catch_panics(std::ptr::null(), || unsafe {
        attributes::with_c_string(text, attributes::register_text)
    })
}

unsafe extern "C" fn register_w(
    _domain: *const Domain,
    text: *const libc::wchar_t,
) -> *const Registered {
    catch_panics(std::ptr::null(), || {
        // SAFETY: see above.
        attributes::register_text(unsafe { attributes::wide_to_utf8(text) }.as_bytes())
    })
}

unsafe extern "C" fn domain_create_a(text: *const c_char) -> *const Domain {
    // SAFETY: see above.
    unsafe { attributes::with_c_string(text, create_domain) }
}

unsafe extern "C" fn domain_create_w(text: *const libc::wchar_t) -> *const Domain {
    catch_panics(std::ptr::null(), || {
        // SAFETY: see above.
        create_domain(unsafe { attributes::wide_to_utf8(text) }.as_bytes())
    })
}

/// Creates the domain even without a session, because the program keeps the handle.
fn create_domain(name: &[u8]) -> *const Domain {
    catch_panics(std::ptr::null(), || match session::current_session() {
        Some(session) => std::ptr::from_ref(session.named_domain(name)),
        None => std::ptr::from_ref(domains::find_or_make(name, |_| ())),
    })
}
