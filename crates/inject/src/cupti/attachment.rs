//! Attaches CUPTI to the process and detaches it between slices.
//!
//! Once CUPTI has recorded kernels, launches stay slow until `cuptiFinalize`. That function destroys CUPTI's state while
//! other threads may be inside CUPTI, and any later call of CUPTI attaches it again. So every caller of CUPTI holds one
//! lock, under which CUPTI is known to be attached. CUPTI's own callbacks must not wait for the lock, since its holder may
//! wait for them: they only try it, and leave the work to the next callback.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use llmprof_wire::{Kept, Refused};

use super::detach::{Detach, Drain, Passing, Patience};
use super::door::Door;
use super::{Calls, Cupti, Hooks, Refusal, SUCCESS, Subscriber, domain, layout, nesting};
use crate::buffers::Full;
use crate::outbox::Outbox;
use crate::sys;

/// `cuptiGetVersion` of CUDA 12.6. With older versions, programs with CUDA Graphs crashed when CUPTI attached again (PyTorch's
/// pull requests 112507 and 150957).
const DETACH_MIN_VERSION: u32 = 24;

/// CUPTI and whether it is attached.
pub(crate) struct Attachment {
    cupti: Cupti,
    state: Mutex<AttachmentState>,
    /// How often the callbacks of CUDA calls were switched on; see `nesting`.
    round: AtomicU64,
    /// Whether CUPTI is waiting to be detached.
    is_under_way: AtomicBool,
    door: Door,
    /// Whether a CUDA context was created since recording was last switched on.
    new_context: AtomicBool,
    /// A [`Graphs`] as a number.
    graphs: AtomicU8,
    /// Total time spent detaching, ns.
    time: AtomicI64,
}

struct AttachmentState {
    detach: Detach,
    patience: Patience,
    subscriber: Subscriber,
    heard: CallbacksHeard,
    /// Why CUPTI never detaches, apart from CUDA Graphs.
    stays: Option<&'static str>,
    /// Whether CUPTI was detached at least once.
    has_left: bool,
    reported_kept: bool,
    reported_refused: bool,
}

/// CUDA calls whose callbacks are on; each variant includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallbacksHeard {
    Nothing,
    Waits,
    Launches,
}

/// CUDA Graphs seen in the process. Graphs that were instantiated while kernels were recorded, or that ran during and after
/// recording, fail when CUPTI detaches ("unspecified launch failure", seen with CUDA 13.0); other graphs keep working.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Graphs {
    Unseen,
    /// Captured while CUPTI was attached.
    Captured,
    /// Ran, but were not seen being captured: CUPTI was detached then.
    Found,
}

/// Why recording did not begin.
#[derive(Debug)]
pub(crate) enum Denied {
    /// Recording can never begin in this process; the file says why.
    Always(Refusal),
    /// Another tool uses CUPTI now (noted in the file); it may be free again later.
    Now,
}

impl Attachment {
    /// Finds CUPTI and subscribes to it. With `follows_waits` we are called after the process synchronized with its device.
    pub(crate) fn open(
        options: &llmprof_wire::Options,
        hooks: Hooks,
        follows_waits: bool,
    ) -> Result<Self, Refusal> {
        let cupti = Cupti::find_and_check(options, hooks, follows_waits)?;
        let subscriber = cupti.subscribe(Cupti::probe_recording)?;
        let stays = if !cupti.can_detach() {
            Some("this libcupti has no cuptiFinalize")
        } else if cupti.version < DETACH_MIN_VERSION {
            Some("CUPTI before CUDA 12.6 may crash the program when it attaches again")
        } else {
            None
        };
        Ok(Self {
            cupti,
            state: Mutex::new(AttachmentState {
                detach: Detach::Attached,
                patience: Patience::default(),
                subscriber,
                heard: CallbacksHeard::Nothing,
                stays,
                has_left: false,
                reported_kept: false,
                reported_refused: false,
            }),
            round: AtomicU64::new(0),
            is_under_way: AtomicBool::new(false),
            door: Door::new(),
            new_context: AtomicBool::new(false),
            graphs: AtomicU8::new(Graphs::Unseen as u8),
            time: AtomicI64::new(0),
        })
    }

    pub(crate) fn version(&self) -> u32 {
        self.cupti.version
    }

    /// The calls that are recorded.
    pub(crate) fn calls(&self) -> &Calls {
        &self.cupti.calls
    }

    fn lock(&self) -> Option<MutexGuard<'_, AttachmentState>> {
        self.state.lock().ok()
    }

    /// Takes the lock; `None` if CUPTI is detached and must not be called.
    fn lock_attached(&self) -> Option<MutexGuard<'_, AttachmentState>> {
        self.lock().filter(|state| state.detach.is_present())
    }

    /// Starts recording; attaches CUPTI first if it is detached.
    pub(crate) fn start_recording(&self, outbox: &Outbox) -> Result<(), Denied> {
        let refusal = |why: &str| Denied::Always(why.to_owned().into());
        let mut state = self
            .lock()
            .ok_or_else(|| refusal("the library failed before"))?;
        if !state.detach.is_present() {
            return self.come_back(&mut state, outbox);
        }
        self.switch_callbacks(&mut state, CallbacksHeard::Nothing);
        self.set_detach_state(&mut state, Detach::Attached);
        self.cupti.start_recording().map_err(|refusal| {
            self.cupti.stop_recording();
            Denied::Always(refusal)
        })
    }

    fn come_back(&self, state: &mut AttachmentState, outbox: &Outbox) -> Result<(), Denied> {
        let begin = sys::now_ns();
        match self.cupti.subscribe(Cupti::resume_recording) {
            Ok(subscriber) => {
                state.subscriber = subscriber;
                self.set_detach_state(state, Detach::Attached);
                note_attachment(outbox, begin, true);
                Ok(())
            }
            Err(refusal) => {
                if !std::mem::replace(&mut state.reported_refused, true) {
                    let record = Refused {
                        time: begin,
                        status: refusal.status,
                        text: refusal.why.as_bytes(),
                    };
                    outbox.write_note(|out| record.put(out));
                }
                Err(Denied::Now)
            }
        }
    }

    /// Stops recording. Activities that have begun come with the next flush. With `detaches`, CUPTI will be detached if that
    /// is allowed: our thread prepares it, see `detach`.
    pub(crate) fn stop_recording(&self, outbox: &Outbox, detaches: bool) {
        let Some(mut state) = self.lock_attached() else {
            return;
        };
        self.cupti.stop_recording();
        if self.new_context.swap(false, Ordering::Relaxed) {
            self.cupti.stop_graphs();
        }
        if !detaches {
            return;
        }
        if let Some(why) = self.reason_to_stay(&state) {
            keep_attached(&mut state, outbox, why);
            return;
        }
        let patience = state.patience;
        state.detach.begin_detach(sys::now_ns(), patience);
        self.is_under_way.store(true, Ordering::Relaxed);
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    fn reason_to_stay(&self, state: &AttachmentState) -> Option<&'static str> {
        let graphs = match self.graphs.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(llmprof_wire::KEPT_GRAPHS_CAPTURED),
            _ => Some(llmprof_wire::KEPT_GRAPHS_FOUND),
        };
        state.stays.or(graphs)
    }

    fn set_detach_state(&self, state: &mut AttachmentState, detach: Detach) {
        state.detach = detach;
        self.is_under_way.store(false, Ordering::Relaxed);
    }

    /// Switches the callbacks of CUDA calls that wait or launch.
    fn switch_callbacks(&self, state: &mut AttachmentState, heard: CallbacksHeard) {
        let before = std::mem::replace(&mut state.heard, heard);
        let calls = &self.cupti.calls;
        for (kind, calls) in [
            (CallbacksHeard::Waits, &calls.waits),
            (CallbacksHeard::Launches, &calls.launches),
        ] {
            let (was_on, on) = (before >= kind, heard >= kind);
            for &(domain, callback) in calls.iter().filter(|_| was_on != on) {
                self.cupti
                    .enable_callback(state.subscriber, domain, callback, on);
            }
        }
    }

    /// Earliest time at which [`next_drain`](Self::next_drain) may return something.
    pub(crate) fn next_change(&self) -> Option<i64> {
        self.lock().and_then(|state| state.detach.next())
    }

    /// What our thread should flush and read now so that CUPTI can detach; [`drained`](Self::drained) follows.
    pub(crate) fn next_drain(&self, now: i64) -> Option<Drain> {
        self.lock()?.detach.next_drain(now)
    }

    /// Our thread has read it; `is_left`: CUPTI may hold more. If not, the next CUDA call that ends detaches CUPTI.
    pub(crate) fn drained(&self, is_left: bool) {
        let Some(mut state) = self.lock() else {
            return;
        };
        if state.detach.finish_drain(sys::now_ns(), is_left) {
            self.switch_callbacks(&mut state, CallbacksHeard::Launches);
        } else if state.detach.is_under_way() {
            self.switch_callbacks(&mut state, CallbacksHeard::Waits);
        }
    }

    /// Everything was flushed by force. `was_hasty`: some kernels were still running, so we wait longer next time, else less.
    pub(crate) fn took_all(&self, was_hasty: bool) {
        if let Some(mut state) = self.lock() {
            if was_hasty {
                state.patience.grow();
            } else {
                state.patience.shrink();
            }
        }
    }

    /// A CUDA call begins or ends on this thread (called from CUPTI's callback).
    pub(crate) fn call_passes(&self, outbox: &Outbox, domain: u32, callback: u32, site: u32) {
        let round = self.round.load(Ordering::Relaxed);
        if site != layout::Callback::EXIT {
            nesting::enter_call(round);
            return;
        }
        if !nesting::leave_call(round, domain == domain::RUNTIME) || outbox.is_finishing() {
            return;
        }
        // The holder of the lock may be inside CUPTI and wait for this very call.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        match state
            .detach
            .call_ends(sys::now_ns(), self.calls().waited_for(domain, callback))
        {
            Passing::Nothing => {}
            Passing::Wake => outbox.bell.ring(),
            Passing::Detach => self.detach_now(&mut state, outbox),
        }
    }

    fn detach_now(&self, state: &mut AttachmentState, outbox: &Outbox) {
        if let Some(why) = self.reason_to_stay(state) {
            self.switch_callbacks(state, CallbacksHeard::Nothing);
            self.set_detach_state(state, Detach::Attached);
            keep_attached(state, outbox, why);
            return;
        }
        if outbox.buffers.has_full() {
            state.detach.found_more(sys::now_ns());
            outbox.bell.ring();
            return;
        }
        self.door.closed_for(|| {
            let begin = sys::now_ns();
            let status = self.cupti.detach_process(state.subscriber);
            state.heard = CallbacksHeard::Nothing;
            self.set_detach_state(state, Detach::Detached);
            if status == SUCCESS {
                state.has_left = true;
                outbox.buffers.reclaim_all();
                outbox.count_change();
                note_attachment(outbox, begin, false);
            } else {
                // CUPTI is not called until the next slice, which subscribes again; from then on it stays attached.
                let why = "cuptiFinalize failed";
                state.stays = Some(why);
                keep_attached(state, outbox, why);
            }
            self.time
                .fetch_add(sys::now_ns() - begin, Ordering::Relaxed);
        });
    }

    /// Whether CUPTI is being detached right now: buffers that it hands back cannot be read any more.
    pub(crate) fn is_detaching(&self) -> bool {
        self.door.is_closed()
    }

    /// Whether CUPTI is waiting to be detached: until then launches stay slow and cost budget.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Time spent detaching so far.
    pub(crate) fn detach_time_ns(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }

    /// The process created a CUDA context while recording is on.
    pub(crate) fn sees_context(&self) {
        self.new_context.store(true, Ordering::Relaxed);
    }

    /// A CUDA Graph ran while kernels were recorded: CUPTI stays attached from now on. That costs little, since graphs need few
    /// launches, and nodes captured while CUPTI is detached could not be traced back.
    pub(crate) fn finds_graph(&self) {
        self.sees_graph(Graphs::Found);
    }

    /// Whether CUDA Graphs were seen: CUPTI then stays attached.
    pub(crate) fn sees_graphs(&self) -> bool {
        self.graphs.load(Ordering::Relaxed) != Graphs::Unseen as u8
    }

    fn sees_graph(&self, graphs: Graphs) {
        let (unseen, graphs) = (Graphs::Unseen as u8, graphs as u8);
        let order = Ordering::Relaxed;
        // The first reason is the one reported.
        let _ = self.graphs.compare_exchange(unseen, graphs, order, order);
    }

    /// Runs `work` in a callback about a graph node, unless CUPTI is being detached.
    pub(crate) fn visit(&self, work: impl FnOnce(&Cupti)) {
        self.sees_graph(Graphs::Captured);
        self.door.visit(|| work(&self.cupti));
    }

    /// Has CUPTI hand back the buffers with complete records; with `forced`, all buffers.
    pub(crate) fn flush_buffers(&self, forced: bool) {
        if let Some(_inside) = self.lock_attached() {
            self.cupti.flush_buffers(forced);
        }
    }

    /// The process ends: flushes all buffers, unless the lock is not free within `limit`.
    pub(crate) fn flush_last(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let state = loop {
            match self.state.try_lock() {
                Ok(state) => break state,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return,
            }
        };
        if state.detach.is_present() {
            self.cupti.flush_buffers(true);
        }
    }

    /// Calls `each` with every record of a buffer and returns the number of records that CUPTI dropped. `None` if CUPTI has
    /// detached: the records then point to freed memory.
    pub(crate) fn read_records(
        &self,
        full: &Full,
        each: impl FnMut(*const layout::Activity),
    ) -> Option<u64> {
        let _inside = self.lock_attached()?;
        // SAFETY: CUPTI completed the buffer, and whoever holds it keeps it through the call.
        unsafe { self.cupti.for_each_record(full.memory, full.valid, each) };
        Some(self.cupti.take_dropped(full.context, full.stream))
    }

    /// Number of records outside of any buffer that CUPTI dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        let no_context: *mut c_void = std::ptr::null_mut();
        self.lock_attached()
            .map_or(0, |_inside| self.cupti.take_dropped(no_context, 0))
    }

    /// The process ends: notes if CUPTI was to detach and never could.
    pub(crate) fn last_words(&self, outbox: &Outbox) {
        if let Some(mut state) = self.lock()
            && state.detach.is_under_way()
            && !state.has_left
        {
            keep_attached(
                &mut state,
                outbox,
                "the process made no call of CUDA at which it could",
            );
        }
    }
}

fn note_attachment(outbox: &Outbox, begin: i64, on: bool) {
    let record = llmprof_wire::Attachment {
        time: begin,
        took: (sys::now_ns() - begin) as u64,
        on: u8::from(on),
    };
    outbox.write_note(|out| record.put(out));
}

fn keep_attached(state: &mut AttachmentState, outbox: &Outbox, why: &str) {
    if !std::mem::replace(&mut state.reported_kept, true) {
        let record = Kept {
            time: sys::now_ns(),
            text: why.as_bytes(),
        };
        outbox.write_note(|out| record.put(out));
    }
}
