//! The ranges that are open on each thread, and what of them was written.
//!
//! A thread writes into memory of its own, behind a lock that only our thread ever contends for, and then for the time
//! of a pointer swap.

use std::cell::Cell;
use std::collections::HashMap;

use llmprof_wire::{Mark, Pop, Push, RangeEnd, RangeStart, ThreadName};

use super::domains;
use super::threads::{Thread, Threads};
use crate::budget::Moment;
use crate::cupti::Attachment;
use crate::gate::Slice;
use crate::queues::{Chunks, Notes};
use crate::session::Session;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sys;

/// Bytes that a thread gathers before it hands them over.
const CHUNK: usize = 128 << 10;
/// Chunks that our thread has not taken yet; more are dropped.
const MOST_CHUNKS: usize = 1024;
/// Ranges a thread may have open; those inside are not recorded.
const DEEPEST: usize = 4096;
/// Ranges that may be open and end on any thread; more are not recorded.
const MOST_STARTED: usize = 1 << 16;
/// What stands between the names in a path.
const SEPARATOR: u8 = 0x1f;

/// All ranges of a session.
pub(crate) struct Ranges {
    threads: Threads,
    /// Ranges beyond [`MOST_STARTED`] count as dropped here.
    chunks: Chunks,
    started: Mutex<HashMap<u64, Started>>,
    numbers: AtomicU64,
}

/// What a thread has open, and what of it is to be written.
#[derive(Default)]
pub(super) struct Log {
    open: Vec<Open>,
    /// Ranges beyond [`DEEPEST`] that are open.
    deeper: u64,
    /// The names of open ranges, one after the other.
    names: Vec<u8>,
    /// Records that are not handed over yet.
    out: Vec<u8>,
}

struct Open {
    domain: u32,
    time: i64,
    name: std::ops::Range<usize>,
    is_written: bool,
    /// A domain's range may end before one of another domain that began later; it stays until it is the last.
    is_over: bool,
    /// How often recording had been switched when it began.
    changes: u64,
}

/// What threads have handed over.
pub(crate) struct Taken {
    pub(crate) notes: Vec<u8>,
    pub(crate) dropped_notes: u64,
    /// Records of ranges; what they refer to is in the notes.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) dropped: u64,
}

struct Started {
    time: i64,
    thread: u32,
    domain: u32,
    name: Box<[u8]>,
    is_written: bool,
}

thread_local! {
    /// The session that the thread's log belongs to, and the log. There is nothing to drop: logs are never freed.
    static THREAD: Cell<(usize, Option<&'static Thread>)> = const { Cell::new((0, None)) };
}

fn this_thread(session: &Session) -> Option<&'static Thread> {
    let key = std::ptr::from_ref(session) as usize;
    let (owner, thread) = THREAD.try_with(Cell::get).ok()?;
    if owner == key {
        return thread;
    }
    let thread = session.ranges.threads.join()?;
    THREAD
        .try_with(|place| place.set((key, Some(thread))))
        .ok()?;
    Some(thread)
}

impl Log {
    /// Forgets what a thread had open that is gone; false while there is something to hand over.
    pub(super) fn clear(&mut self) -> bool {
        let is_empty = self.out.is_empty();
        if is_empty {
            *self = Self::default();
        }
        is_empty
    }

    fn hand_over(&mut self, ranges: &Ranges) {
        if self.out.is_empty() {
            return;
        }
        ranges.chunks.add(std::mem::take(&mut self.out));
    }

    /// Hands over what was gathered where it is much.
    fn hand_over_much(&mut self, session: &Session) {
        if self.out.len() >= CHUNK {
            self.hand_over(&session.ranges);
            session.bell.ring();
        }
    }

    fn write_push(&mut self, index: usize, thread: u32) {
        let open = &mut self.open[index];
        open.is_written = true;
        let record = Push {
            time: open.time,
            thread,
            domain: open.domain,
            text: &self.names[open.name.clone()],
        };
        record.put(&mut self.out);
    }
}

impl Session {
    /// CUPTI is not on its way.
    fn is_settled(&self) -> bool {
        !self.cupti().is_some_and(Attachment::is_under_way)
    }

    /// A range begins on this thread. The answer is how many were open in it before.
    pub(super) fn push(&self, domain: u32, name: &[u8]) -> i32 {
        let Some(thread) = this_thread(self) else {
            return -1;
        };
        // Before the range, so that it lies inside what is recorded.
        let is_gate = self.gate.is_range(name);
        if is_gate {
            self.gate.enter(self);
        }
        if let Some(budget) = &self.budget {
            let moment = Moment {
                changes: self.gate.changes(),
                is_quiet: !self.gate.is_open() && self.is_settled(),
            };
            if budget.begins(name, sys::now(), moment) {
                self.gate.begin_slice(self, Slice::OfSteps);
            }
        }
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        if log.open.len() >= DEEPEST {
            log.deeper += 1;
            drop(log);
            if is_gate {
                self.gate.leave(self);
            }
            return -1;
        }
        let begin = log.names.len();
        log.names.extend_from_slice(name);
        let name = begin..log.names.len();
        let depth = log.open.len();
        log.open.push(Open {
            domain,
            time: sys::now(),
            name,
            is_written: false,
            is_over: false,
            changes: self.gate.changes(),
        });
        if self.gate.takes_ranges() {
            log.write_push(depth, thread.id());
            log.hand_over_much(self);
        }
        depth as i32
    }

    /// The innermost range of a domain ends on this thread. The answer is how many are left open.
    pub(super) fn pop(&self, domain: u32) -> i32 {
        let Some(thread) = this_thread(self) else {
            return -1;
        };
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        if log.deeper > 0 {
            log.deeper -= 1;
            return -1;
        }
        let found = log
            .open
            .iter()
            .rposition(|open| open.domain == domain && !open.is_over);
        let Some(index) = found else { return -1 };
        let time = sys::now();
        let open = &mut log.open[index];
        open.is_over = true;
        let (is_written, name) = (open.is_written, open.name.clone());
        let whole = (open.time, time);
        let changes = open.changes;
        let is_gate = self.gate.is_range(&log.names[name.clone()]);
        let ends_slice = self.budget.as_ref().is_some_and(|budget| {
            let recorded = self.gate.since(changes).filter(|_| self.is_settled());
            budget.ends(&log.names[name.clone()], whole, recorded)
        });
        if is_written {
            let record = Pop {
                time,
                thread: thread.id(),
                domain,
            };
            record.put(&mut log.out);
        }
        while log.open.last().is_some_and(|open| open.is_over) {
            let begin = log.open.pop().map_or(0, |open| open.name.start);
            log.names.truncate(begin);
        }
        let left = log.open.len() as i32;
        drop(log);
        if is_gate {
            self.gate.leave(self);
        }
        if ends_slice {
            self.gate.end_slice(self);
        }
        left
    }

    /// A moment with a name.
    pub(super) fn mark(&self, domain: u32, name: &[u8]) {
        if !self.gate.takes_ranges() {
            return;
        }
        let Some(thread) = this_thread(self) else {
            return;
        };
        if let Ok(mut log) = thread.log.lock() {
            let record = Mark {
                time: sys::now(),
                thread: thread.id(),
                domain,
                text: name,
            };
            record.put(&mut log.out);
            log.hand_over_much(self);
        }
    }

    /// A range begins that may end on another thread. The answer is its number.
    pub(super) fn start_range(&self, domain: u32, name: &[u8]) -> u64 {
        let number = self.ranges.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let started = self.ranges.started.lock().map(|started| started.len());
        if started.is_ok_and(|count| count >= MOST_STARTED) {
            self.ranges.chunks.count_dropped(1);
            return number;
        }
        if self.gate.is_range(name) {
            self.gate.enter(self);
        }
        let started = Started {
            time: sys::now(),
            thread: sys::thread_id(),
            domain,
            name: name.into(),
            is_written: false,
        };
        if let Ok(mut ranges) = self.ranges.started.lock() {
            let range = ranges.entry(number).or_insert(started);
            if self.gate.takes_ranges() {
                write_start(self, number, range);
            }
        }
        number
    }

    pub(super) fn end_range(&self, number: u64) {
        let ended = match self.ranges.started.lock() {
            Ok(mut ranges) => ranges.remove(&number),
            Err(_) => None,
        };
        let Some(range) = ended else { return };
        if range.is_written {
            let record = RangeEnd {
                time: sys::now(),
                range: number,
                thread: sys::thread_id(),
            };
            self.note(|out| record.put(out));
        }
        if self.gate.is_range(&range.name) {
            self.gate.leave(self);
        }
    }

    /// What a thread is called.
    pub(super) fn name_thread(&self, thread: u32, name: &[u8]) {
        self.note(|out| ThreadName { thread, text: name }.put(out));
    }

    /// The domain of this name, announced where it is new.
    pub(super) fn domain(&self, name: &[u8]) -> &'static domains::Domain {
        // Before others can have it: a range in it must not be written first.
        domains::make(name, |domain| self.announce(domain))
    }

    fn announce(&self, domain: &domains::Domain) {
        let record = llmprof_wire::Domain {
            id: domain.id,
            text: &domain.name,
        };
        self.note(|out| record.put(out));
    }
}

fn write_start(session: &Session, number: u64, range: &mut Started) {
    range.is_written = true;
    let record = RangeStart {
        time: range.time,
        range: number,
        thread: range.thread,
        domain: range.domain,
        text: &range.name,
    };
    session.note(|out| record.put(out));
}

impl Ranges {
    pub(crate) fn new() -> Self {
        Self {
            threads: Threads::default(),
            chunks: Chunks::new(MOST_CHUNKS),
            started: Mutex::new(HashMap::new()),
            numbers: AtomicU64::new(0),
        }
    }

    /// Tells a new session's file of domains that are known already.
    pub(crate) fn announce(session: &Session) {
        for domain in domains::all() {
            session.announce(domain);
        }
    }

    /// Recording begins: writes the beginnings of all ranges that are open.
    pub(crate) fn write_open(&self, session: &Session) {
        self.threads.each(|id, log| {
            for index in 0..log.open.len() {
                if !log.open[index].is_written && !log.open[index].is_over {
                    log.write_push(index, id);
                }
            }
        });
        if let Ok(mut started) = self.started.lock() {
            for (&number, range) in started.iter_mut().filter(|(_, range)| !range.is_written) {
                write_start(session, number, range);
            }
        }
    }

    /// All records that threads have gathered, those of one thread in their order, and the notes that belong before them.
    pub(crate) fn take(&self, notes: &Notes) -> Taken {
        self.threads.each(|_, log| log.hand_over(self));
        self.threads.part();
        let (chunks, dropped) = self.chunks.take();
        // Not before: a domain that is noted between the two would come after a range in it.
        let (notes, dropped_notes) = notes.take();
        Taken {
            notes,
            dropped_notes,
            chunks,
            dropped,
        }
    }
}

/// The names of the ranges that are open on this thread, outermost first, joined by 0x1f. A name of another than the
/// default domain has `domain:` in front.
pub(crate) fn open_path(session: &Session) -> Vec<u8> {
    let mut path = Vec::new();
    let Some(thread) = this_thread(session) else {
        return path;
    };
    let Ok(log) = thread.log.lock() else {
        return path;
    };
    for open in log.open.iter().filter(|open| !open.is_over) {
        if !path.is_empty() {
            path.push(SEPARATOR);
        }
        if open.domain != 0 {
            path.extend_from_slice(domains::name(open.domain));
            path.push(b':');
        }
        path.extend_from_slice(&log.names[open.name.clone()]);
    }
    path
}

#[cfg(all(test, loom))]
mod orders {
    use llmprof_wire::{Reader, Record};
    use loom::{sync::Arc, thread};

    use super::*;
    use crate::sync::in_every_order;

    struct Scene {
        ranges: Ranges,
        notes: Notes,
    }

    fn scene(most_chunks: usize) -> Arc<Scene> {
        let mut ranges = Ranges::new();
        ranges.chunks = Chunks::new(most_chunks);
        let notes = Notes::new(1 << 10);
        Arc::new(Scene { ranges, notes })
    }

    /// A thread of the target marks a moment, and hands over what it gathered as if it were much.
    fn mark(scene: &Scene, of: &Thread, domain: u32, time: i64, is_much: bool) {
        let mut log = of.log.lock().unwrap();
        let mark = Mark {
            time,
            thread: 0,
            domain,
            text: b"",
        };
        mark.put(&mut log.out);
        if is_much {
            log.hand_over(&scene.ranges);
        }
    }

    fn marks(taken: &Taken) -> impl Iterator<Item = (u32, i64)> {
        let chunks = taken.chunks.iter();
        chunks
            .flat_map(|chunk| Reader::records(chunk, 0))
            .map(|record| match record {
                Record::Mark(mark) => (mark.domain, mark.time),
                other => panic!("{other:?}"),
            })
    }

    /// Two threads with a domain each, while ours takes.
    fn all_come(most_chunks: usize) {
        let scene = scene(most_chunks);
        let writers = [1, 2].map(|domain| {
            let scene = scene.clone();
            thread::spawn(move || {
                let own = scene.ranges.threads.join().unwrap();
                mark(&scene, own, domain, 1, true);
                mark(&scene, own, domain, 2, false);
            })
        });
        let mut taken = vec![scene.ranges.take(&scene.notes)];
        for writer in writers {
            writer.join().unwrap();
        }
        taken.push(scene.ranges.take(&scene.notes));
        let dropped: u64 = taken.iter().map(|taken| taken.dropped).sum();
        let all: Vec<_> = taken.iter().flat_map(marks).collect();
        assert_eq!(all.len() as u64 + dropped, 4);
        for domain in [1, 2] {
            let times = all.iter().filter(|mark| mark.0 == domain);
            assert!(times.is_sorted_by_key(|mark| mark.1));
        }
        assert!(most_chunks < 4 || dropped == 0);
    }

    #[test]
    fn every_record_comes_in_the_order_of_its_thread() {
        in_every_order(|| all_come(4));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        in_every_order(|| all_come(1));
    }

    /// A thread that found the domain of another wrote its range before the domain had a name.
    #[test]
    fn a_domain_is_known_before_its_ranges() {
        in_every_order(|| {
            let scene = scene(4);
            let writer = || {
                let scene = scene.clone();
                move || {
                    let domain = domains::make(b"d", |domain| {
                        let record = llmprof_wire::Domain {
                            id: domain.id,
                            text: &domain.name,
                        };
                        scene.notes.add(|out| record.put(out));
                    });
                    let own = scene.ranges.threads.join().unwrap();
                    mark(&scene, own, domain.id, 1, true);
                    domain.id
                }
            };
            let other = thread::spawn(writer());
            let ours = {
                let scene = scene.clone();
                thread::spawn(move || scene.ranges.take(&scene.notes))
            };
            let id = writer()();
            assert_eq!(other.join().unwrap(), id);
            let mut known = Vec::new();
            for taken in [ours.join().unwrap(), scene.ranges.take(&scene.notes)] {
                for record in Reader::records(&taken.notes, 0) {
                    if let Record::Domain(domain) = record {
                        known.push(domain.id);
                    }
                }
                assert!(marks(&taken).all(|mark| known.contains(&mark.0)));
            }
        });
    }
}
