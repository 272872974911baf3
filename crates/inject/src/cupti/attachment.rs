//! CUPTI in a process that it may leave and come back to.
//!
//! Once CUPTI has recorded kernels, the launches of a process stay slow until `cuptiFinalize`. That function destroys
//! what CUPTI holds while other threads may be inside it, and any call of CUPTI afterwards brings it back. So there is
//! one lock: whoever calls CUPTI holds it, and knows that CUPTI is there. CUPTI's own callbacks must not wait for it,
//! since its holder may wait for them; they only try, and leave the work to the next one.

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

/// `cuptiGetVersion` of CUDA 12.6. Before, programs with CUDA graphs crashed when CUPTI came back (PyTorch's pull requests
/// 112507 and 150957).
const FIRST_TO_LEAVE: u32 = 24;

/// CUPTI, and whether it is in the process.
pub(crate) struct Attachment {
    cupti: Cupti,
    state: Mutex<State>,
    /// Counts the times that callbacks of calls were switched on.
    round: AtomicU64,
    /// Whether it is on its way out.
    is_under_way: AtomicBool,
    door: Door,
    /// Whether a context was made while recording was on that was not stopped since.
    new_context: AtomicBool,
    /// What is known of graphs: a [`Graphs`].
    graphs: AtomicU8,
    /// Time that taking it out has cost, ns.
    time: AtomicI64,
}

struct State {
    detach: Detach,
    patience: Patience,
    subscriber: Subscriber,
    heard: Heard,
    /// Why it never detaches, other than for graphs.
    stays: Option<&'static str>,
    /// It was taken out at least once.
    has_left: bool,
    reported_kept: bool,
    reported_refused: bool,
}

/// The calls whose beginning and end are heard of, each with those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    Waits,
    Launches,
}

/// What is known of the graphs of a process. Those that were made while kernels are recorded, or that ran both then and
/// afterwards, fail when CUPTI detaches ("unspecified launch failure", seen with CUDA 13.0); others go on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Graphs {
    Unseen,
    /// They were captured before our eyes.
    Captured,
    /// They ran, and must have been captured while CUPTI was out.
    Found,
}

/// Why recording did not begin.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It never will.
    Always(Refusal),
    /// Another tool has taken CUPTI meanwhile, which the file says; later it may be free again.
    Now,
}

impl Attachment {
    /// CUPTI, found and subscribed to. With `follows_waits` we are called when the process has waited for its device.
    pub(crate) fn open(
        options: &llmprof_wire::Options,
        hooks: Hooks,
        follows_waits: bool,
    ) -> Result<Self, Refusal> {
        let cupti = Cupti::find(options, hooks, follows_waits)?;
        let subscriber = cupti.subscribe(Cupti::prime)?;
        let stays = if !cupti.can_detach() {
            Some("this libcupti has no cuptiFinalize")
        } else if cupti.version < FIRST_TO_LEAVE {
            Some("CUPTI before CUDA 12.6 may crash the program when it attaches again")
        } else {
            None
        };
        Ok(Self {
            cupti,
            state: Mutex::new(State {
                detach: Detach::Attached,
                patience: Patience::default(),
                subscriber,
                heard: Heard::Nothing,
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

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock().ok()
    }

    /// The lock, where CUPTI is there to be called.
    fn inside(&self) -> Option<MutexGuard<'_, State>> {
        self.lock().filter(|state| state.detach.is_present())
    }

    /// Records from now on; CUPTI attaches again for that where it is detached.
    pub(crate) fn start(&self, outbox: &Outbox) -> Result<(), Denied> {
        let refusal = |why: &str| Denied::Always(why.to_owned().into());
        let mut state = self
            .lock()
            .ok_or_else(|| refusal("the library failed before"))?;
        if !state.detach.is_present() {
            return self.come_back(&mut state, outbox);
        }
        self.hear(&mut state, Heard::Nothing);
        self.settle(&mut state, Detach::Attached);
        self.cupti.start().map_err(|refusal| {
            self.cupti.stop();
            Denied::Always(refusal)
        })
    }

    fn come_back(&self, state: &mut State, outbox: &Outbox) -> Result<(), Denied> {
        let begin = sys::now();
        match self.cupti.subscribe(Cupti::resume) {
            Ok(subscriber) => {
                state.subscriber = subscriber;
                self.settle(state, Detach::Attached);
                note(outbox, begin, true);
                Ok(())
            }
            Err(refusal) => {
                if !std::mem::replace(&mut state.reported_refused, true) {
                    let record = Refused {
                        time: begin,
                        status: refusal.status,
                        text: refusal.why.as_bytes(),
                    };
                    outbox.note(|out| record.put(out));
                }
                Err(Denied::Now)
            }
        }
    }

    /// Records no more. What was begun comes with the next flush. With `detaches` CUPTI is to detach from the process, where it
    /// may; our thread does that.
    pub(crate) fn stop(&self, outbox: &Outbox, detaches: bool) {
        let Some(mut state) = self.inside() else {
            return;
        };
        self.cupti.stop();
        if self.new_context.swap(false, Ordering::Relaxed) {
            self.cupti.stop_graphs();
        }
        if !detaches {
            return;
        }
        if let Some(why) = self.stays(&state) {
            keep(&mut state, outbox, why);
            return;
        }
        let patience = state.patience;
        state.detach.stopped(sys::now(), patience);
        self.is_under_way.store(true, Ordering::Relaxed);
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    fn stays(&self, state: &State) -> Option<&'static str> {
        let graphs = match self.graphs.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(llmprof_wire::KEPT_GRAPHS_CAPTURED),
            _ => Some(llmprof_wire::KEPT_GRAPHS_FOUND),
        };
        state.stays.or(graphs)
    }

    fn settle(&self, state: &mut State, detach: Detach) {
        state.detach = detach;
        self.is_under_way.store(false, Ordering::Relaxed);
    }

    /// Switches the callbacks of calls that wait or launch: on for what is newly heard, off for all.
    fn hear(&self, state: &mut State, heard: Heard) {
        let before = std::mem::replace(&mut state.heard, heard);
        let calls = &self.cupti.calls;
        for (kind, calls) in [
            (Heard::Waits, &calls.waits),
            (Heard::Launches, &calls.launches),
        ] {
            let (was_on, on) = (before >= kind, heard >= kind);
            for &(domain, callback) in calls.iter().filter(|_| was_on != on) {
                self.cupti
                    .enable_callback(state.subscriber, domain, callback, on);
            }
        }
    }

    /// When [`drains`](Self::drains) may next say something.
    pub(crate) fn next_change(&self) -> Option<i64> {
        self.lock().and_then(|state| state.detach.next())
    }

    /// What is to be taken and read now, so that CUPTI can leave; then say [`drained`](Self::drained).
    pub(crate) fn drains(&self, now: i64) -> Option<Drain> {
        self.lock()?.detach.drains(now)
    }

    /// It was read, and whether CUPTI may hold more. If not, the next call that ends detaches CUPTI.
    pub(crate) fn drained(&self, is_left: bool) {
        let Some(mut state) = self.lock() else {
            return;
        };
        if state.detach.drained(sys::now(), is_left) {
            self.hear(&mut state, Heard::Launches);
        } else if state.detach.is_under_way() {
            self.hear(&mut state, Heard::Waits);
        }
    }

    /// All was taken: if some of it still ran on the device it is waited for longer the next time, else less.
    pub(crate) fn took_all(&self, was_hasty: bool) {
        if let Some(mut state) = self.lock() {
            if was_hasty {
                state.patience.grow();
            } else {
                state.patience.shrink();
            }
        }
    }

    /// A call of CUDA begins or ends on this thread, of which CUPTI tells us in this function's caller.
    pub(crate) fn call_passes(&self, outbox: &Outbox, domain: u32, callback: u32, site: u32) {
        let round = self.round.load(Ordering::Relaxed);
        if site != layout::Callback::EXIT {
            nesting::enter(round);
            return;
        }
        if !nesting::leave(round, domain == domain::RUNTIME) || outbox.is_finishing() {
            return;
        }
        // Whoever holds the lock may be inside CUPTI and wait for this very call.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        match state
            .detach
            .passes(sys::now(), self.calls().waited_for(domain, callback))
        {
            Passing::Nothing => {}
            Passing::Wake => outbox.bell.ring(),
            Passing::Detach => self.detach_now(&mut state, outbox),
        }
    }

    fn detach_now(&self, state: &mut State, outbox: &Outbox) {
        if let Some(why) = self.stays(state) {
            self.hear(state, Heard::Nothing);
            self.settle(state, Detach::Attached);
            keep(state, outbox, why);
            return;
        }
        if outbox.buffers.has_full() {
            state.detach.found_more(sys::now());
            outbox.bell.ring();
            return;
        }
        self.door.closed_for(|| {
            let begin = sys::now();
            let status = self.cupti.leave(state.subscriber);
            state.heard = Heard::Nothing;
            self.settle(state, Detach::Detached);
            if status == SUCCESS {
                state.has_left = true;
                outbox.buffers.reclaim();
                outbox.count_change();
                note(outbox, begin, false);
            } else {
                // Nothing calls it until the next slice, which subscribes again; then it stays.
                let why = "cuptiFinalize failed";
                state.stays = Some(why);
                keep(state, outbox, why);
            }
            self.time.fetch_add(sys::now() - begin, Ordering::Relaxed);
        });
    }

    /// Whether buffers that CUPTI hands out come too late to be read.
    pub(crate) fn is_detaching(&self) -> bool {
        self.door.is_closed()
    }

    /// Whether CUPTI is on its way out: launches are slow until it is, and more is to be paid.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Time that taking it out has cost so far, ns.
    pub(crate) fn time(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }

    /// The process has made a context while recording is on.
    pub(crate) fn sees_context(&self) {
        self.new_context.store(true, Ordering::Relaxed);
    }

    /// A graph ran while kernels were recorded. Graphs are few launches for many kernels, so that CUPTI costs little by staying from now
    /// on, and nodes that are captured while it is out cannot be traced back.
    pub(crate) fn finds_graph(&self) {
        self.sees_graph(Graphs::Found);
    }

    /// Whether the process has graphs, as far as was seen: CUPTI stays then.
    pub(crate) fn sees_graphs(&self) -> bool {
        self.graphs.load(Ordering::Relaxed) != Graphs::Unseen as u8
    }

    fn sees_graph(&self, graphs: Graphs) {
        let (unseen, graphs) = (Graphs::Unseen as u8, graphs as u8);
        let order = Ordering::Relaxed;
        // What was seen first is why.
        let _ = self.graphs.compare_exchange(unseen, graphs, order, order);
    }

    /// Runs `work` in a callback about the node of a graph, unless CUPTI is being taken out.
    pub(crate) fn visit(&self, work: impl FnOnce(&Cupti)) {
        self.sees_graph(Graphs::Captured);
        self.door.visit(|| work(&self.cupti));
    }

    /// Hands out the buffers whose records are whole, or all of them.
    pub(crate) fn flush(&self, forced: bool) {
        if let Some(_inside) = self.inside() {
            self.cupti.flush(forced);
        }
    }

    /// The process ends: hands out all buffers, unless that cannot be had within `limit`.
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
            self.cupti.flush(true);
        }
    }

    /// Calls `each` with every record of a buffer; how many CUPTI has dropped. None if CUPTI has detached: then the records
    /// cannot be read any more.
    pub(crate) fn read(
        &self,
        full: &Full,
        each: impl FnMut(*const layout::Activity),
    ) -> Option<u64> {
        let _inside = self.inside()?;
        // SAFETY: CUPTI completed the buffer, and whoever holds it keeps it through the call.
        unsafe { self.cupti.records(full.memory, full.valid, each) };
        Some(self.cupti.dropped(full.context, full.stream))
    }

    /// How many records of no buffer CUPTI has dropped since it was last asked.
    pub(crate) fn dropped(&self) -> u64 {
        let no_context: *mut c_void = std::ptr::null_mut();
        self.inside()
            .map_or(0, |_inside| self.cupti.dropped(no_context, 0))
    }

    /// The process ends: says so where CUPTI was to leave and never could.
    pub(crate) fn last_words(&self, outbox: &Outbox) {
        if let Some(mut state) = self.lock()
            && state.detach.is_under_way()
            && !state.has_left
        {
            keep(
                &mut state,
                outbox,
                "the process made no call of CUDA at which it could",
            );
        }
    }
}

fn note(outbox: &Outbox, begin: i64, on: bool) {
    let record = llmprof_wire::Attachment {
        time: begin,
        took: (sys::now() - begin) as u64,
        on: u8::from(on),
    };
    outbox.note(|out| record.put(out));
}

fn keep(state: &mut State, outbox: &Outbox, why: &str) {
    if !std::mem::replace(&mut state.reported_kept, true) {
        let record = Kept {
            time: sys::now(),
            text: why.as_bytes(),
        };
        outbox.note(|out| record.put(out));
    }
}
