//! The ranges that are open on each thread, and what of them was written.
//!
//! A thread writes into memory of its own, behind a lock that only our thread ever contends for, and then for the time
//! of a pointer swap.

use std::cell::Cell;
use std::collections::HashMap;

use llmprof_wire::RangeStart;

use super::domains;
use super::threads::{Thread, Threads};
use crate::outbox::Outbox;
use crate::queues::{Chunks, Notes};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;

/// Chunks that our thread has not taken yet; more are dropped.
const MOST_CHUNKS: usize = 1024;
/// What stands between the names in a path.
const SEPARATOR: u8 = 0x1f;

/// All ranges of a session.
pub(crate) struct Ranges {
    threads: Threads,
    /// Ranges that are too many count as dropped here.
    pub(crate) chunks: Chunks,
    pub(crate) started: Mutex<HashMap<u64, Started>>,
    pub(crate) numbers: AtomicU64,
}

/// What threads have handed over.
pub(crate) struct Taken {
    pub(crate) notes: Vec<u8>,
    pub(crate) dropped_notes: u64,
    /// Records of ranges; what they refer to is in the notes.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) dropped: u64,
}

/// A range that may end on another thread.
pub(crate) struct Started {
    pub(crate) time: i64,
    pub(crate) thread: u32,
    pub(crate) domain: u32,
    pub(crate) name: Box<[u8]>,
    pub(crate) is_written: bool,
}

thread_local! {
    /// The ranges that the thread's log belongs to, and the log. There is nothing to drop: logs are never freed.
    static THREAD: Cell<(usize, Option<&'static Thread>)> = const { Cell::new((0, None)) };
}

impl Started {
    pub(crate) fn write(&mut self, outbox: &Outbox, number: u64) {
        self.is_written = true;
        let record = RangeStart {
            time: self.time,
            range: number,
            thread: self.thread,
            domain: self.domain,
            text: &self.name,
        };
        outbox.note(|out| record.put(out));
    }
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

    /// The calling thread's log.
    pub(crate) fn this_thread(&self) -> Option<&'static Thread> {
        let key = std::ptr::from_ref(self) as usize;
        let (owner, thread) = THREAD.try_with(Cell::get).ok()?;
        if owner == key {
            return thread;
        }
        let thread = self.threads.join()?;
        THREAD
            .try_with(|place| place.set((key, Some(thread))))
            .ok()?;
        Some(thread)
    }

    /// Recording begins: writes the beginnings of all ranges that are open.
    pub(crate) fn write_open(&self, outbox: &Outbox) {
        self.threads.each(|id, log| log.write_open(id));
        if let Ok(mut started) = self.started.lock() {
            for (&number, range) in started.iter_mut().filter(|(_, range)| !range.is_written) {
                range.write(outbox, number);
            }
        }
    }

    /// All records that threads have gathered, those of one thread in their order, and the notes that belong before them.
    pub(crate) fn take(&self, notes: &Notes) -> Taken {
        self.threads.each(|_, log| log.hand_over(&self.chunks));
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

    /// The names of the ranges that are open on this thread, outermost first, joined by 0x1f. A name of another than the
    /// default domain has `domain:` in front.
    pub(crate) fn open_path(&self) -> Vec<u8> {
        let mut path = Vec::new();
        let Some(thread) = self.this_thread() else {
            return path;
        };
        let Ok(log) = thread.log.lock() else {
            return path;
        };
        for (domain, name) in log.open() {
            if !path.is_empty() {
                path.push(SEPARATOR);
            }
            if domain != 0 {
                path.extend_from_slice(domains::name(domain));
                path.push(b':');
            }
            path.extend_from_slice(name);
        }
        path
    }
}

#[cfg(all(test, loom))]
mod orders {
    use llmprof_wire::{Mark, Reader, Record};
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
        log.mark(&Mark {
            time,
            thread: 0,
            domain,
            text: b"",
        });
        if is_much {
            log.hand_over(&scene.ranges.chunks);
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
