//! Our thread: writes what was recorded, listens to llmprof, keeps slices within their budget.

use llmprof_wire::control::{Order, Report};
use llmprof_wire::{Checkpoint, Cost, Ended, Header};

use crate::budget::{Budget, Recorded};
use crate::buffers::Full;
use crate::control::{Control, Heard};
use crate::cupti::{Attachment, Drain};
use crate::descriptor::Own;
use crate::gate::{Condition, Slice};
use crate::guard;
use crate::nvtx::domains;
use crate::output::Output;
use crate::session::Session;
use crate::sys;
use crate::translate::{Outcome, Translator};

/// Why records were dropped that CUPTI handed out when it left the process.
const TOO_LATE: &str = "buffers that came when CUPTI had left";

/// Starts the thread. Where the system refuses one, llmprof is notified, and nothing is recorded.
pub(crate) fn spawn(session: &'static Session, file: Own, header: Header, control: Control) {
    let last_words = control.another();
    let worker = Worker {
        session,
        control,
        output: Output::new(file, &header, session.outbox.options.most_bytes),
        translator: Translator::default(),
        scratch: Vec::new(),
        records: 0,
        untimed: 0,
        recorded: Recorded::default(),
        reported_dropped: 0,
        reported_full: false,
        asked: None,
        forgets: false,
    };
    let started = sys::without_signals(|| {
        std::thread::Builder::new()
            .name("llmprof".to_owned())
            .spawn(move || {
                let is_done = guard::quietly(false, move || {
                    worker.run();
                    true
                });
                if !is_done {
                    // Nobody reads what is recorded from now on.
                    guard::quietly((), || session.change(Condition::Ordered(false)));
                }
                session.set_finished();
            })
    });
    if let Err(error) = started {
        last_words.send(&Report::Refused {
            why: format!("the system has no thread for the library: {error}"),
        });
        session.change(Condition::Ordered(false));
        session.set_finished();
    }
}

struct Worker {
    session: &'static Session,
    control: Control,
    output: Output,
    translator: Translator,
    scratch: Vec<u8>,
    /// Records of CUPTI that were read.
    records: u64,
    /// Device activities among them that had no times.
    untimed: u64,
    /// What the budget is to know of them.
    recorded: Recorded,
    /// Losses that llmprof knows of.
    reported_dropped: u64,
    /// Whether llmprof knows that the file is full.
    reported_full: bool,
    /// How often the gate had changed when CUPTI was last asked for what it holds; nothing where it may hold more since.
    asked: Option<u64>,
    /// Whether records were dropped that later ones refer to.
    forgets: bool,
}

impl Worker {
    fn run(mut self) {
        let interval = i64::from(self.session.outbox.options.interval_ms) * 1_000_000;
        let mut next = sys::now() + interval;
        self.output.flush();
        while !self.session.is_over() {
            let until = self.next_change().unwrap_or(next).min(next);
            // Rounded up: a wait that ends early would spin.
            let wait = ((until - sys::now()).max(0) + 999_999) / 1_000_000;
            if self
                .session
                .outbox
                .bell
                .wait(self.control.descriptor(), wait)
            {
                self.obey();
            }
            self.drain();
            self.report();
            if self.has_lost_descriptors() || self.output.is_full {
                // Nothing more can be written, or nobody listens: leave the target alone.
                self.session.change(Condition::Ordered(false));
            }
            self.keep_budget();
            self.detach_cupti();
            if sys::now() >= next || self.session.outbox.take_hurry() {
                self.checkpoint();
                next = sys::now() + interval;
            }
        }
        self.end();
    }

    /// Whether the program closed what we need, or has it for files of its own.
    fn has_lost_descriptors(&self) -> bool {
        self.output.is_taken || self.control.is_taken() || self.session.outbox.bell.is_taken()
    }

    /// When there may be something to do besides writing.
    fn next_change(&self) -> Option<i64> {
        let budget = self.session.budget.as_ref().and_then(Budget::next_change);
        let cupti = self.session.cupti().and_then(Attachment::next_change);
        budget.into_iter().chain(cupti).min()
    }

    /// Does what llmprof asks.
    fn obey(&mut self) {
        let session = self.session;
        match self.control.hear() {
            Heard::Orders(orders) => {
                for order in orders {
                    match order {
                        Order::Start => session.change(Condition::Ordered(true)),
                        Order::Stop => session.change(Condition::Ordered(false)),
                        Order::Flush(number) => {
                            self.asked = None;
                            self.checkpoint();
                            self.control.send(&Report::Flushed { number });
                        }
                    }
                }
            }
            // Nobody will read what is recorded from now on: leave the target alone.
            Heard::Closed => session.change(Condition::Ordered(false)),
        }
    }

    fn report(&mut self) {
        for report in self.session.outbox.take_reports() {
            self.control.send(&report);
        }
        if self.output.dropped > self.reported_dropped {
            self.reported_dropped = self.output.dropped;
            self.control.send(&Report::Dropped {
                count: self.output.dropped,
                why: self.output.why.clone(),
            });
        }
        if self.output.is_full && !std::mem::replace(&mut self.reported_full, true) {
            self.control.send(&Report::Full);
        }
    }

    fn keep_budget(&mut self) {
        let session = self.session;
        let Some(budget) = &session.budget else {
            return;
        };
        let switches = session.switches();
        // The launches of a slice are counted before the next one. While CUPTI detaches it is asked for them anyway.
        if !switches.is_on && !switches.is_open_ended {
            self.flush_cupti();
        }
        let now = (sys::now(), sys::time_of_others());
        let is_wanted = session.gate.awaits_slice();
        match budget.tick(now, &mut self.recorded, switches, is_wanted) {
            Some(true) => {
                session.change(Condition::SliceBegun(Slice::OfTime));
                budget.is_on(sys::now());
            }
            Some(false) => session.change(Condition::SliceEnded),
            None => {}
        }
    }

    /// Reads what CUPTI holds and is whole. Once recording is off, until nothing comes any more.
    fn flush_cupti(&mut self) {
        let gate = &self.session.gate;
        let changes = Some(self.session.outbox.changes());
        if gate.is_open() || self.asked != changes {
            self.asked = changes;
            if let Some(cupti) = self.session.cupti() {
                cupti.flush(false);
            }
        }
        self.drain();
    }

    /// Reads what CUPTI holds, so that it can leave the process.
    fn detach_cupti(&mut self) {
        let Some(cupti) = self.session.cupti() else {
            return;
        };
        let Some(drain) = cupti.drains(sys::now()) else {
            return;
        };
        let untimed = self.untimed;
        cupti.flush(drain == Drain::All);
        self.drain();
        if drain == Drain::All {
            cupti.took_all(self.untimed > untimed);
        }
        let dropped = cupti.dropped();
        self.output.lose(dropped, "CUPTI had no buffer for them");
        cupti.drained(drain == Drain::Whole && self.session.outbox.buffers.is_any_out());
    }

    /// Everything that has ended goes into the file.
    fn checkpoint(&mut self) {
        let time = sys::now();
        self.flush_cupti();
        // Of a full file it would not be true.
        if !self.output.is_full {
            self.output.add(1, |out| Checkpoint { time }.put(out));
        }
        self.output.flush();
        self.report();
        self.session.outbox.buffers.prepare();
    }

    /// Takes over what threads have handed out. Notes come first: they name what others refer to.
    fn drain(&mut self) {
        if std::mem::take(&mut self.forgets) {
            // Names that were given numbers did not reach the file.
            self.translator = Translator::default();
            domains::note_all(&self.session.outbox);
        }
        let taken = self.session.ranges.take(&self.session.outbox.notes);
        self.add_notes(&taken.notes, taken.dropped_notes);
        self.output.lose(taken.dropped, "too many ranges at once");
        for chunk in taken.chunks {
            self.add(&chunk, Output::add_records);
        }
        while let Some(full) = self.session.outbox.buffers.next_full() {
            // That CUPTI has detached since, for what was recorded after it came back.
            let (notes, dropped) = self.session.outbox.notes.take();
            self.add_notes(&notes, dropped);
            if let Some(cupti) = self.session.cupti() {
                self.read(cupti, &full);
            }
            self.session.outbox.buffers.put_empty(full.memory);
        }
        // How many records were in them is not known.
        let late = self.session.outbox.buffers.take_late();
        self.output.lose(late, TOO_LATE);
    }

    fn add_notes(&mut self, notes: &[u8], dropped: u64) {
        self.output.lose(dropped, "too many notes at once");
        self.add(notes, Output::add_notes);
    }

    fn add(&mut self, records: &[u8], add: fn(&mut Output, u64, &[u8]) -> bool) {
        if !records.is_empty() {
            let count = llmprof_wire::Reader::records(records, 0).count() as u64;
            if !add(&mut self.output, count, records) {
                self.forgets = true;
            }
        }
    }

    fn read(&mut self, cupti: &Attachment, full: &Full) {
        self.asked = None;
        let Self {
            scratch,
            translator,
            recorded,
            ..
        } = self;
        let has_budget = self.session.budget.is_some();
        let (mut records, mut untimed) = (0, 0);
        scratch.clear();
        let dropped = cupti.read(full, |record| {
            records += 1;
            // SAFETY: the record is CUPTI's, of a version that is supported.
            let is_of_graph = match unsafe { translator.put(record, cupti.calls(), scratch) } {
                Outcome::Launch { of_graph } => {
                    recorded.launches += 1.0;
                    of_graph
                }
                Outcome::Untimed { of_graph } => {
                    untimed += 1;
                    of_graph
                }
                Outcome::Kernel {
                    times,
                    name,
                    stream,
                    of_graph,
                } => {
                    if has_budget {
                        recorded.kernels.add(times, name, stream);
                    }
                    recorded.of_graphs += f64::from(u8::from(of_graph));
                    of_graph
                }
                Outcome::Written | Outcome::Left => false,
            };
            if is_of_graph {
                cupti.finds_graph();
            }
        });
        self.records += records;
        self.untimed += untimed;
        let scratch = std::mem::take(&mut self.scratch);
        if !self.output.add_records(records, &scratch) {
            self.forgets = true;
        }
        self.scratch = scratch;
        self.output
            .lose(untimed, "device activities that had no times");
        match dropped {
            Some(dropped) => self.output.lose(dropped, "CUPTI had no buffer for them"),
            None => self.output.lose(1, TOO_LATE),
        }
    }

    /// The process ends: the last words.
    fn end(mut self) {
        let session = self.session;
        if let Some(cupti) = session.cupti() {
            cupti.last_words(&session.outbox);
        }
        self.drain();
        if let Some(cupti) = session.cupti() {
            let dropped = cupti.dropped();
            self.output.lose(dropped, "CUPTI had no buffer for them");
        }
        let refused = session
            .outbox
            .buffers
            .refused
            .load(std::sync::atomic::Ordering::Relaxed);
        if self.output.dropped == 0 {
            self.output
                .lose(refused, "buffers that CUPTI asked for in vain");
        }
        self.output
            .lose(guard::panics(), "faults inside the library");
        let switches = session.switches();
        let (launch_cost, samples) = session.budget.as_ref().map_or((0, 0), Budget::launch_cost);
        let cost = Cost {
            records: self.records,
            thread_time: sys::thread_time() as u64,
            switches: switches.count,
            switch_time: switches.time as u64,
            launch_cost,
            launch_cost_samples: samples,
        };
        self.output.add(1, |out| cost.put(out));
        self.output.flush();
        let ended = Ended {
            time: sys::now(),
            dropped: self.output.dropped,
        };
        self.output.add(1, |out| ended.put(out));
        self.output.flush();
        self.report();
        self.control.send(&Report::Ended);
    }
}
