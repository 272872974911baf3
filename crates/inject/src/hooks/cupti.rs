//! What CUPTI calls. These run on threads of the target or of CUPTI: short, no I/O, no panic.

use std::ffi::c_void;

use llmprof_wire::GraphNode;

use crate::buffers::Full;
use crate::cupti::layout::Callback;
use crate::cupti::{Attachment, CONTEXT_CREATED, Hooks, NODE_CLONED, domain};
use crate::guard::quietly;
use crate::{session, sys};

pub(crate) const HOOKS: Hooks = Hooks {
    timestamp,
    requested,
    completed,
    called,
};

/// The clock of all records: the run's.
unsafe extern "C" fn timestamp() -> u64 {
    sys::now() as u64
}

/// CUPTI needs a buffer. Without one it drops records, and counts them.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let taken = quietly(None, || session::current()?.outbox.buffers.take());
    let (memory, bytes) = taken.unwrap_or((std::ptr::null_mut(), 0));
    // SAFETY: CUPTI passes valid places for all three.
    unsafe {
        *buffer = memory;
        *size = bytes;
        *most_records = 0;
    }
}

/// CUPTI is done with a buffer.
unsafe extern "C" fn completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    quietly((), || {
        if let Some(session) = session::current()
            && session.outbox.buffers.is_back(buffer)
        {
            if session.cupti().is_some_and(Attachment::is_detaching) {
                // What its records point to may be gone before they are read.
                session.outbox.buffers.put_late(buffer, valid);
                return;
            }
            let full = Full {
                memory: buffer,
                valid,
                context,
                stream,
            };
            session.outbox.buffers.put_full(full, &session.outbox.bell);
        }
    });
}

/// `CUpti_ResourceData`.
#[repr(C)]
struct ResourceData {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *const c_void,
}

/// `CUpti_GraphData`, as far as we read it.
#[repr(C)]
struct GraphData {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
}

/// What we subscribed to happened.
unsafe extern "C" fn called(_user: *mut c_void, domain: u32, callback: u32, data: *const c_void) {
    match domain {
        domain::RUNTIME | domain::DRIVER if !data.is_null() => quietly((), || {
            // SAFETY: for these domains the data is a `CUpti_CallbackData`, which lives until we return.
            let site = unsafe { (*data.cast::<Callback>()).site };
            if let Some(session) = session::current()
                && let Some(cupti) = session.cupti()
            {
                cupti.call_passes(&session.outbox, domain, callback, site);
            }
        }),
        domain::RESOURCE if callback == CONTEXT_CREATED => quietly((), || {
            if let Some(session) = session::current()
                && session.gate.is_open()
                && let Some(cupti) = session.cupti()
            {
                cupti.sees_context();
            }
        }),
        domain::RESOURCE if !data.is_null() => quietly((), || {
            // SAFETY: for this domain the data is a `CUpti_ResourceData`, and for callbacks about nodes of graphs its
            // descriptor is a `CUpti_GraphData`; both live until we return.
            let graph = unsafe {
                &*(*data.cast::<ResourceData>())
                    .descriptor
                    .cast::<GraphData>()
            };
            node_made(graph, callback);
        }),
        // The device is idle and its records are whole: in a process that may end without a word, now is the time.
        domain::SYNCHRONIZE => quietly((), || {
            if let Some(session) = session::current() {
                session.outbox.hurry();
            }
        }),
        _ => {}
    }
}

/// A node of a graph came to be: remembers inside which ranges, so that kernels which the graph launches later can be
/// traced back to the module that they were captured in.
fn node_made(graph: &GraphData, callback: u32) {
    let Some(session) = session::current() else {
        return;
    };
    let Some(cupti) = session.cupti() else { return };
    cupti.visit(|cupti| {
        let Some(node) = cupti.node_id(graph.node) else {
            return;
        };
        let original = match callback {
            NODE_CLONED => cupti.node_id(graph.original_node).unwrap_or(0),
            _ => 0,
        };
        let path = if original == 0 {
            session.ranges.open_path()
        } else {
            Vec::new()
        };
        let record = GraphNode {
            time: sys::now(),
            node,
            original,
            graph: cupti.graph_id(graph.graph),
            thread: sys::thread_id(),
            text: &path,
        };
        session.outbox.note(|out| record.put(out));
    });
}
