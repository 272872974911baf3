//! Functions that CUPTI calls, on threads of the target or of CUPTI. They must be short, without I/O or panics.

use std::ffi::c_void;

use llmprof_wire::GraphNode;

use crate::buffers::Full;
use crate::cupti::layout::Callback;
use crate::cupti::{Attachment, CONTEXT_CREATED, Hooks, NODE_CLONED, domain};
use crate::guard::catch_panics;
use crate::{session, sys};

pub(crate) const HOOKS: Hooks = Hooks {
    timestamp: record_timestamp,
    requested: buffer_requested,
    completed: buffer_completed,
    called: callback_called,
};

/// The clock of all records: `CLOCK_MONOTONIC`, as in the rest of the run.
unsafe extern "C" fn record_timestamp() -> u64 {
    sys::now_ns() as u64
}

/// CUPTI needs a buffer. Without one it drops records, and counts them.
unsafe extern "C" fn buffer_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    most_records: *mut usize,
) {
    let taken = catch_panics(None, || {
        session::current_session()?.outbox.buffers.take_empty()
    });
    let (memory, bytes) = taken.unwrap_or((std::ptr::null_mut(), 0));
    // SAFETY: CUPTI passes valid places for all three.
    unsafe {
        *buffer = memory;
        *size = bytes;
        *most_records = 0;
    }
}

/// CUPTI is done with a buffer.
unsafe extern "C" fn buffer_completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    catch_panics((), || {
        if let Some(session) = session::current_session()
            && session.outbox.buffers.is_back(buffer)
        {
            if session.cupti().is_some_and(Attachment::is_detaching) {
                // CUPTI is being detached: what the records point to may be freed before they are read.
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

// CUpti_ResourceData
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

/// An event that we subscribed to.
unsafe extern "C" fn callback_called(
    _user: *mut c_void,
    domain: u32,
    callback: u32,
    data: *const c_void,
) {
    match domain {
        domain::RUNTIME | domain::DRIVER if !data.is_null() => catch_panics((), || {
            // SAFETY: for these domains the data is a `CUpti_CallbackData`, which lives until we return.
            let site = unsafe { (*data.cast::<Callback>()).site };
            if let Some(session) = session::current_session()
                && let Some(cupti) = session.cupti()
            {
                cupti.call_passes(&session.outbox, domain, callback, site);
            }
        }),
        domain::RESOURCE if callback == CONTEXT_CREATED => catch_panics((), || {
            if let Some(session) = session::current_session()
                && session.gate.is_open()
                && let Some(cupti) = session.cupti()
            {
                cupti.sees_context();
            }
        }),
        domain::RESOURCE if !data.is_null() => catch_panics((), || {
            // SAFETY: for this domain the data is a `CUpti_ResourceData`, and for callbacks about nodes of graphs its
            // descriptor is a `CUpti_GraphData`; both live until we return.
            let graph = unsafe {
                &*(*data.cast::<ResourceData>())
                    .descriptor
                    .cast::<GraphData>()
            };
            node_made(graph, callback);
        }),
        // The device is idle and its records are complete: flush now, since a forked process may end without notice.
        domain::SYNCHRONIZE => catch_panics((), || {
            if let Some(session) = session::current_session() {
                session.outbox.request_flush();
            }
        }),
        _ => {}
    }
}

/// A graph node was created: notes the open ranges, so that kernels launched by the graph later can be traced back to the
/// module they were captured in.
fn node_made(graph: &GraphData, callback: u32) {
    let Some(session) = session::current_session() else {
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
            time: sys::now_ns(),
            node,
            original,
            graph: cupti.graph_id(graph.graph),
            thread: sys::thread_id(),
            text: &path,
        };
        session.outbox.write_note(|out| record.put(out));
    });
}
