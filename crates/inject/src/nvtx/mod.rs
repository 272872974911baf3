//! NVTX: ranges, marks and names, taken from NVTX itself and not through CUPTI.
//!
//! The NVTX headers of a program hold a table of function pointers; a tool puts its functions there. Doing so ourselves
//! costs a third of CUPTI's marker records, is the same for all versions of CUDA, works before CUDA is initialized, and
//! lets us know the ranges that are open on a thread when it captures a graph, or when recording begins.

mod attributes;
mod callbacks;
mod domains;
mod ranges;
mod threads;

use std::ffi::{c_int, c_uint, c_void};

pub(crate) use ranges::{Ranges, open_path};

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
    if crate::session::current().is_none() {
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
    for (module, functions) in callbacks::modules() {
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
