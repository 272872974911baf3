//! CUPTI, loaded at run time.

mod attachment;
mod calls;
mod detach;
mod door;
mod find;
pub(crate) mod layout;
mod nesting;

use std::ffi::{CStr, c_char, c_void};

use llmprof_wire::Refused;
use llmprof_wire::control::Report;

pub(crate) use attachment::{Attachment, Denied};
pub(crate) use calls::Calls;
pub(crate) use detach::Drain;

use crate::outbox::Outbox;
use crate::sys;

// CUptiResult
pub(crate) type Status = u32;
pub(crate) const SUCCESS: Status = 0;
// CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
const OTHER_SUBSCRIBER: Status = 39;
// CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
const FLUSH_FORCED: u32 = 1;
// CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
const SYSTEM_THREADS: u32 = 1;

// CUpti_CallbackDomain
pub(crate) mod domain {
    pub(crate) const DRIVER: u32 = 1;
    pub(crate) const RUNTIME: u32 = 2;
    pub(crate) const RESOURCE: u32 = 3;
    pub(crate) const SYNCHRONIZE: u32 = 4;
}

// CUPTI_CBID_RESOURCE_CONTEXT_CREATED
pub(crate) const CONTEXT_CREATED: u32 = 1;
// CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED
pub(crate) const NODE_CREATED: u32 = 13;
// CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED
pub(crate) const NODE_CLONED: u32 = 20;

// CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, …_CONTEXT_SYNCHRONIZED
const STREAM_OR_CONTEXT_SYNCHRONIZED: [u32; 2] = [1, 2];

/// Whether the record layouts of this CUPTI version are known: CUDA 12.0 (version 18) up to 13.x.
pub(crate) fn is_supported(version: u32) -> bool {
    (18..140_000).contains(&version)
}

macro_rules! api {
    (
        needed { $( $name:ident: $symbol:literal = fn($($arg:ty),*); )* }
        optional { $( $oname:ident: $osymbol:literal = fn($($oarg:ty),*); )* }
    ) => {
                struct Api {
            $( $name: unsafe extern "C" fn($($arg),*) -> Status, )*
            $( $oname: Option<unsafe extern "C" fn($($oarg),*) -> Status>, )*
        }

        impl Api {
            fn load(library: crate::sys::Library) -> Result<Self, String> {
                Ok(Self {
                    $( $name: {
                        let address = library
                            .symbol($symbol)
                            .ok_or_else(|| format!("this libcupti has no {}", $symbol.to_string_lossy()))?;
                        // SAFETY: the function of this name has this signature in every supported version.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Status>(address) }
                    }, )*
                    $( $oname: library.symbol($osymbol).map(|address| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($oarg),*) -> Status>(address) }
                    }), )*
                })
            }
        }
    };
}

// CUpti_SubscriberHandle
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Subscriber(*mut c_void);

// SAFETY: a handle that CUPTI takes from any thread.
unsafe impl Send for Subscriber {}

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type Called = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Timestamp = unsafe extern "C" fn() -> u64;

/// The functions that CUPTI calls. They live as long as this library, which is pinned.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    /// The clock of all records.
    pub(crate) timestamp: Timestamp,
    /// Asks for an empty buffer, which CUPTI then fills.
    pub(crate) requested: Requested,
    /// CUPTI is done with a buffer.
    pub(crate) completed: Completed,
    /// An event that we subscribed to.
    pub(crate) called: Called,
}

api! {
    needed {
        get_version: c"cuptiGetVersion" = fn(*mut u32);
        subscribe: c"cuptiSubscribe" = fn(*mut Subscriber, Called, *mut c_void);
        unsubscribe: c"cuptiUnsubscribe" = fn(Subscriber);
        enable_callback: c"cuptiEnableCallback" = fn(u32, Subscriber, u32, u32);
        register_callbacks: c"cuptiActivityRegisterCallbacks" = fn(Requested, Completed);
        register_timestamp: c"cuptiActivityRegisterTimestampCallback" = fn(Timestamp);
        set_thread_ids: c"cuptiSetThreadIdType" = fn(u32);
        enable: c"cuptiActivityEnable" = fn(u32);
        disable: c"cuptiActivityDisable" = fn(u32);
        flush_all: c"cuptiActivityFlushAll" = fn(u32);
        next_record: c"cuptiActivityGetNextRecord" = fn(*mut u8, usize, *mut *const layout::Activity);
        dropped: c"cuptiActivityGetNumDroppedRecords" = fn(*mut c_void, u32, *mut usize);
        callback_name: c"cuptiGetCallbackName" = fn(u32, u32, *mut *const c_char);
    }
    optional {
        enable_runtime: c"cuptiActivityEnableRuntimeApi" = fn(u32, u8);
        enable_driver: c"cuptiActivityEnableDriverApi" = fn(u32, u8);
        graph_node_id: c"cuptiGetGraphNodeId" = fn(*mut c_void, *mut u64);
        graph_id: c"cuptiGetGraphId" = fn(*mut c_void, *mut u32);
        finalize: c"cuptiFinalize" = fn();
        result_string: c"cuptiGetResultString" = fn(Status, *mut *const c_char);
    }
}

/// Why CUPTI cannot be used.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Status that CUPTI returned; 0 if it was not found or has an unknown version.
    pub(crate) status: Status,
    pub(crate) why: String,
}

impl Refusal {
    /// Notifies llmprof; the process runs on without recording.
    pub(crate) fn report_refusal(&self, outbox: &Outbox) {
        let record = Refused {
            time: sys::now_ns(),
            status: self.status,
            text: self.why.as_bytes(),
        };
        outbox.write_note(|out| record.put(out));
        outbox.send_report(Report::Refused {
            why: self.why.clone(),
        });
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { status: 0, why }
    }
}

/// The loaded functions of CUPTI. [`Attachment`] knows when they may be called.
pub(crate) struct Cupti {
    api: Api,
    version: u32,
    calls: Calls,
    hooks: Hooks,
    follows_waits: bool,
}

impl Cupti {
    /// Finds CUPTI and checks its version. With `follows_waits` we are called after the process synchronized with its device.
    fn find_and_check(
        options: &llmprof_wire::Options,
        hooks: Hooks,
        follows_waits: bool,
    ) -> Result<Self, Refusal> {
        let api = Api::load(find::find_cupti()?)?;
        let mut version = 0;
        // SAFETY: `version` is valid for the call.
        let status = unsafe { (api.get_version)(&raw mut version) };
        if status != SUCCESS || !is_supported(version) {
            return Err(format!(
                "libcupti has version {version}, and the layouts of its records are known for CUDA 12 and 13"
            )
            .into());
        }
        let calls = Calls::choose_calls(
            |domain, callback| {
                let mut name: *const c_char = std::ptr::null();
                // SAFETY: `name` is valid for the call.
                let status = unsafe { (api.callback_name)(domain, callback, &raw mut name) };
                // SAFETY: on success it is a C string that CUPTI keeps.
                (status == SUCCESS && !name.is_null())
                    .then(|| unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
            },
            options.all_calls,
        );
        Ok(Self {
            api,
            version,
            calls,
            hooks,
            follows_waits,
        })
    }

    /// Subscribes, then runs `begin`. If either fails, CUPTI is unsubscribed again.
    fn subscribe(
        &self,
        begin: impl FnOnce(&Self) -> Result<(), Refusal>,
    ) -> Result<Subscriber, Refusal> {
        let mut subscriber = Subscriber(std::ptr::null_mut());
        // SAFETY: the callback lives as long as this library, which is pinned.
        let status = unsafe {
            (self.api.subscribe)(&raw mut subscriber, self.hooks.called, std::ptr::null_mut())
        };
        self.check_status("cuptiSubscribe", status)?;
        let begun = self.enable_callbacks(subscriber).and_then(|()| begin(self));
        if begun.is_err() {
            // SAFETY: the subscriber is ours.
            unsafe { (self.api.unsubscribe)(subscriber) };
        }
        begun.map(|()| subscriber)
    }

    fn enable_callbacks(&self, subscriber: Subscriber) -> Result<(), Refusal> {
        let Self { api, hooks, .. } = self;
        // SAFETY: the callbacks live as long as this library; the clock must be set before anything is enabled.
        unsafe {
            self.check_status(
                "cuptiActivityRegisterTimestampCallback",
                (api.register_timestamp)(hooks.timestamp),
            )?;
            self.check_status("cuptiSetThreadIdType", (api.set_thread_ids)(SYSTEM_THREADS))?;
            self.check_status(
                "cuptiActivityRegisterCallbacks",
                (api.register_callbacks)(hooks.requested, hooks.completed),
            )?;
        }
        // Without those about nodes, kernels of graphs are not traced back to where they were captured.
        for callback in [CONTEXT_CREATED, NODE_CREATED, NODE_CLONED] {
            self.enable_callback(subscriber, domain::RESOURCE, callback, true);
        }
        if self.follows_waits {
            for callback in STREAM_OR_CONTEXT_SYNCHRONIZED {
                self.enable_callback(subscriber, domain::SYNCHRONIZE, callback, true);
            }
        }
        Ok(())
    }

    /// Records for a moment, so that a driver that refuses recording does so here.
    fn probe_recording(&self) -> Result<(), Refusal> {
        let started = self.start_recording();
        self.stop_recording();
        started
    }

    fn resume_recording(&self) -> Result<(), Refusal> {
        self.start_recording()
            .inspect_err(|_| self.stop_recording())
    }

    fn enable_callback(&self, subscriber: Subscriber, domain: u32, callback: u32, on: bool) {
        // SAFETY: the subscriber is ours; the rest are numbers.
        unsafe { (self.api.enable_callback)(u32::from(on), subscriber, domain, callback) };
    }

    /// Whether this CUPTI can be detached.
    fn can_detach(&self) -> bool {
        self.api.finalize.is_some()
    }

    /// Unsubscribes, then detaches CUPTI with `cuptiFinalize`, in the order that Kineto uses (its pull request 739).
    fn detach_process(&self, subscriber: Subscriber) -> Status {
        // SAFETY: the subscriber is ours, and nobody else of us is inside CUPTI.
        unsafe { (self.api.unsubscribe)(subscriber) };
        // SAFETY: as above.
        self.api
            .finalize
            .map_or(SUCCESS, |finalize| unsafe { finalize() })
    }

    fn check_status(&self, function: &str, status: Status) -> Result<(), Refusal> {
        match status {
            SUCCESS => Ok(()),
            OTHER_SUBSCRIBER => Err(Refusal {
                status,
                why: "another tool uses CUPTI in this process".to_owned(),
            }),
            status => Err(Refusal {
                status,
                why: format!("{function} failed: {}", self.describe_status(status)),
            }),
        }
    }

    fn describe_status(&self, status: Status) -> String {
        let mut text: *const c_char = std::ptr::null();
        if let Some(result_string) = self.api.result_string {
            // SAFETY: `text` is valid for the call, and then null or a C string of CUPTI's.
            unsafe { result_string(status, &raw mut text) };
        }
        if text.is_null() {
            return format!("error {status}");
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        format!("{text} ({status})")
    }

    /// The kinds of device activity that are recorded, kernels first.
    const ACTIVITY_KINDS: [u32; 6] = [
        layout::kind::KERNEL,
        layout::kind::MEMCPY,
        layout::kind::MEMCPY_PEER,
        layout::kind::MEMSET,
        layout::kind::SYNCHRONIZATION,
        layout::kind::OVERHEAD,
    ];

    const CALL_KINDS: [u32; 2] = [layout::kind::RUNTIME, layout::kind::DRIVER];

    /// Starts recording. Activity kinds that CUPTI does not know are left out, except kernels, which are required. Calls are
    /// enabled first and disabled last, so that no kernel lacks its launch.
    fn start_recording(&self) -> Result<(), Refusal> {
        self.record_calls();
        for kind in Self::ACTIVITY_KINDS {
            // SAFETY: takes a number.
            let status = unsafe { (self.api.enable)(kind) };
            if kind == layout::kind::KERNEL {
                self.check_status("cuptiActivityEnable", status)?;
            }
        }
        Ok(())
    }

    /// Stops recording. Activities that have begun come with the next flush.
    fn stop_recording(&self) {
        for kind in Self::ACTIVITY_KINDS.into_iter().chain(Self::CALL_KINDS) {
            // SAFETY: takes a number.
            unsafe { (self.api.disable)(kind) };
        }
    }

    /// Stops recording kernels of CUDA Graphs too. In a context that was created during recording they continue to be
    /// recorded, at full cost, until recording is switched on and off once more (seen with CUDA 13.0).
    fn stop_graphs(&self) {
        // SAFETY: both take a number.
        unsafe {
            (self.api.enable)(layout::kind::KERNEL);
            (self.api.disable)(layout::kind::KERNEL);
        }
    }

    /// Records the chosen calls: enables all calls, then disables the others, in this order and every time. Enabling the
    /// chosen calls one by one gives no records if the runtime initialized itself while none of its calls was enabled, or
    /// after CUPTI attached again (seen with CUDA 13.0).
    fn record_calls(&self) {
        for kind in Self::CALL_KINDS {
            // SAFETY: takes a number.
            unsafe { (self.api.enable)(kind) };
        }
        if self.calls.all {
            return;
        }
        // CUPTI before 12.5 records all or none.
        let (Some(runtime), Some(driver)) = (self.api.enable_runtime, self.api.enable_driver)
        else {
            return;
        };
        for &(domain, callback) in &self.calls.others {
            let switch = match domain {
                domain::RUNTIME => runtime,
                _ => driver,
            };
            // SAFETY: takes numbers.
            unsafe { switch(callback, 0) };
        }
    }

    /// Hands back the buffers with complete records; with `forced`, all buffers.
    fn flush_buffers(&self, forced: bool) {
        // SAFETY: takes a number; our callbacks are registered.
        unsafe { (self.api.flush_all)(if forced { FLUSH_FORCED } else { 0 }) };
    }

    /// Calls `each` with every record of a buffer.
    ///
    /// # Safety
    /// `buffer` was completed by CUPTI with `valid` bytes.
    unsafe fn for_each_record(
        &self,
        buffer: *mut u8,
        valid: usize,
        mut each: impl FnMut(*const layout::Activity),
    ) {
        let mut record: *const layout::Activity = std::ptr::null();
        loop {
            // SAFETY: the buffer is as CUPTI left it, and `record` is null or the one before.
            let status = unsafe { (self.api.next_record)(buffer, valid, &raw mut record) };
            if status != SUCCESS || record.is_null() {
                return;
            }
            each(record);
        }
    }

    /// Number of records that CUPTI dropped since the last call.
    fn take_dropped(&self, context: *mut c_void, stream: u32) -> u64 {
        let mut count = 0;
        // SAFETY: the context is one that CUPTI named, or null.
        let status = unsafe { (self.api.dropped)(context, stream, &raw mut count) };
        if status == SUCCESS { count as u64 } else { 0 }
    }

    pub(crate) fn node_id(&self, node: *mut c_void) -> Option<u64> {
        let mut id = 0;
        // SAFETY: CUPTI named the node in a callback that is still running.
        let status = unsafe { self.api.graph_node_id?(node, &raw mut id) };
        (status == SUCCESS).then_some(id)
    }

    pub(crate) fn graph_id(&self, graph: *mut c_void) -> u32 {
        let mut id = 0;
        if let Some(graph_id) = self.api.graph_id {
            // SAFETY: as for the node.
            unsafe { graph_id(graph, &raw mut id) };
        }
        id
    }
}
