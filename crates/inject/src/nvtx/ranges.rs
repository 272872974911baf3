//! The ranges of all threads.
//!
//! Each thread writes into its own log, behind a lock that only our thread contends for, and holds only for a pointer swap.

use std::cell::Cell;
use std::collections::HashMap;

use llmprof_wire::RangeStart;

use super::domains;
use super::threads::{Thread, Threads};
use crate::outbox::Outbox;
use crate::queues::{Chunks, Notes};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;

/// Limit of chunks that our thread has not taken yet; more are dropped.
const CHUNKS_MAX: usize = 1024;
/// Separator of the names in a path.
const SEPARATOR: u8 = 0x1f;

/// All ranges of a session.
pub(crate) struct Ranges {
    threads: Threads,
    /// Also counts ranges that were dropped because too many were open.
    pub(crate) chunks: Chunks,
    pub(crate) started: Mutex<HashMap<u64, Started>>,
    pub(crate) numbers: AtomicU64,
}

/// What threads have handed over.
pub(crate) struct Taken {
    pub(crate) notes: Vec<u8>,
    pub(crate) dropped_notes: u64,
    /// Records of ranges; the domains they refer to are in the notes.
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
    /// The session's ranges that the log belongs to, and the log. Needs no drop: logs are never freed.
    static THREAD: Cell<(usize, Option<&'static Thread>)> = const { Cell::new((0, None)) };
}

impl Started {
    pub(crate) fn write_beginning(&mut self, outbox: &Outbox, number: u64) {
        self.is_written = true;
        let record = RangeStart {
            time: self.time,
            range: number,
            thread: self.thread,
            domain: self.domain,
            text: &self.name,
        };
        outbox.write_note(|out| record.put(out));
    }
}

impl Ranges {
    pub(crate) fn new() -> Self {
        Self {
            threads: Threads::default(),
            chunks: Chunks::new(CHUNKS_MAX),
            started: Mutex::new(HashMap::new()),
            numbers: AtomicU64::new(0),
        }
    }

    /// The log of the calling thread, registered on first use; `None` while the thread exits.
    pub(crate) fn this_thread(&self) -> Option<&'static Thread> {
        let key = std::ptr::from_ref(self) as usize;
        let (owner, thread) = THREAD.try_with(Cell::get).ok()?;
        if owner == key {
            return thread;
        }
        let thread = self.threads.register_thread()?;
        THREAD
            .try_with(|place| place.set((key, Some(thread))))
            .ok()?;
        Some(thread)
    }

    /// Recording begins: writes the begins of all open ranges.
    pub(crate) fn write_open(&self, outbox: &Outbox) {
        self.threads.for_each_log(|id, log| log.write_open(id));
        if let Ok(mut started) = self.started.lock() {
            for (&number, range) in started.iter_mut().filter(|(_, range)| !range.is_written) {
                range.write_beginning(outbox, number);
            }
        }
    }

    /// Takes the records of all threads, in order for each thread, and the notes that must be written before them.
    pub(crate) fn take_records(&self, notes: &Notes) -> Taken {
        self.threads
            .for_each_log(|_, log| log.hand_over(&self.chunks));
        self.threads.reclaim_gone();
        let (chunks, dropped) = self.chunks.take_chunks();
        // After the chunks: a domain noted in between would otherwise be written after a range in it.
        let (notes, dropped_notes) = notes.take_notes();
        Taken {
            notes,
            dropped_notes,
            chunks,
            dropped,
        }
    }

    /// The names of the ranges that are open on this thread, outermost first, joined by 0x1f. Names outside of the default
    /// domain are prefixed with `domain:`.
    pub(crate) fn open_path(&self) -> Vec<u8> {
        let mut path = Vec::new();
        let Some(thread) = self.this_thread() else {
            return path;
        };
        let Ok(log) = thread.log.lock() else {
            return path;
        };
        for (domain, name) in log.open_ranges() {
            if !path.is_empty() {
                path.push(SEPARATOR);
            }
            if domain != 0 {
                path.extend_from_slice(domains::domain_name(domain));
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

    fn new_scene(most_chunks: usize) -> Arc<Scene> {
        let mut ranges = Ranges::new();
        ranges.chunks = Chunks::new(most_chunks);
        let notes = Notes::new(1 << 10);
        Arc::new(Scene { ranges, notes })
    }

    /// A thread of the target marks a moment. With `is_much` it hands its records over, as if it had gathered many.
    fn mark_moment(scene: &Scene, of: &Thread, domain: u32, time: i64, is_much: bool) {
        let mut log = of.log.lock().unwrap();
        log.write_mark(&Mark {
            time,
            thread: 0,
            domain,
            text: b"",
        });
        if is_much {
            log.hand_over(&scene.ranges.chunks);
        }
    }

    fn marks_of(taken: &Taken) -> impl Iterator<Item = (u32, i64)> {
        let chunks = taken.chunks.iter();
        chunks
            .flat_map(|chunk| Reader::records(chunk, 0))
            .map(|record| match record {
                Record::Mark(mark) => (mark.domain, mark.time),
                other => panic!("{other:?}"),
            })
    }

    /// Two threads write marks, each in its own domain, while our thread takes the records.
    fn all_come(most_chunks: usize) {
        let scene = new_scene(most_chunks);
        let writers = [1, 2].map(|domain| {
            let scene = scene.clone();
            thread::spawn(move || {
                let thread_log = scene.ranges.threads.register_thread().unwrap();
                mark_moment(&scene, thread_log, domain, 1, true);
                mark_moment(&scene, thread_log, domain, 2, false);
            })
        });
        let mut taken = vec![scene.ranges.take_records(&scene.notes)];
        for writer in writers {
            writer.join().unwrap();
        }
        taken.push(scene.ranges.take_records(&scene.notes));
        let dropped: u64 = taken.iter().map(|taken| taken.dropped).sum();
        let all: Vec<_> = taken.iter().flat_map(marks_of).collect();
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

    /// Regression: a thread that found the domain of another thread wrote its range before the domain's name.
    #[test]
    fn a_domain_is_known_before_its_ranges() {
        in_every_order(|| {
            let scene = new_scene(4);
            let writer = || {
                let scene = scene.clone();
                move || {
                    let domain = domains::find_or_make(b"d", |domain| {
                        let record = llmprof_wire::Domain {
                            id: domain.id,
                            text: &domain.name,
                        };
                        scene.notes.add_note(|out| record.put(out));
                    });
                    let thread_log = scene.ranges.threads.register_thread().unwrap();
                    mark_moment(&scene, thread_log, domain.id, 1, true);
                    domain.id
                }
            };
            let other = thread::spawn(writer());
            let ours = {
                let scene = scene.clone();
                thread::spawn(move || scene.ranges.take_records(&scene.notes))
            };
            let id = writer()();
            assert_eq!(other.join().unwrap(), id);
            let mut known = Vec::new();
            for taken in [
                ours.join().unwrap(),
                scene.ranges.take_records(&scene.notes),
            ] {
                for record in Reader::records(&taken.notes, 0) {
                    if let Record::Domain(domain) = record {
                        known.push(domain.id);
                    }
                }
                assert!(marks_of(&taken).all(|mark| known.contains(&mark.0)));
            }
        });
    }
}
