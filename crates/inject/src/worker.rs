//! Our thread: writes records, obeys llmprof's orders, keeps slices within the overhead budget.

use llmprof_wire::control::{Order, Report};
use llmprof_wire::{Checkpoint, Cost, Ended, Header};

use crate::budget::{Budget, Recorded};
use crate::buffers::Full;
use crate::control::{Control, Received};
use crate::cupti::{Attachment, Drain};
use crate::descriptor::OwnDescriptor;
use crate::gate::{Condition, Slice};
use crate::guard;
use crate::nvtx::domains;
use crate::output::Output;
use crate::session::Session;
use crate::sys;
use crate::translate::{Outcome, Translator};

/// Why records were dropped that CUPTI handed back while it was detached.
const TOO_LATE: &str = "buffers that came when CUPTI had left";

/// Starts the thread. If that fails, llmprof is notified and nothing is recorded.
pub(crate) fn spawn_worker(
    session: &'static Session,
    file: OwnDescriptor,
    header: Header,
    control: Control,
) {
    let last_words = control.try_clone();
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
                let is_done = guard::catch_panics(false, move || {
                    worker.run();
                    true
                });
                if !is_done {
                    // Nobody reads what is recorded from now on.
                    guard::catch_panics((), || session.apply_condition(Condition::Ordered(false)));
                }
                session.set_finished();
            })
    });
    if let Err(error) = started {
        last_words.send(&Report::Refused {
            why: format!("the system has no thread for the library: {error}"),
        });
        session.apply_condition(Condition::Ordered(false));
        session.set_finished();
    }
}

struct Worker {
    session: &'static Session,
    control: Control,
    output: Output,
    translator: Translator,
    scratch: Vec<u8>,
    /// Number of CUPTI records read so far.
    records: u64,
    /// Device activities without times among them.
    untimed: u64,
    /// Records that the budget has not been told of yet.
    recorded: Recorded,
    /// Dropped records that llmprof was told of.
    reported_dropped: u64,
    /// Whether llmprof was told that the file is full.
    reported_full: bool,
    /// Change count at the last flush of CUPTI; `None` if CUPTI may hold more records since.
    asked: Option<u64>,
    /// Whether records were dropped that later records refer to.
    forgets: bool,
}

impl Worker {
    fn run(mut self) {
        let interval = i64::from(self.session.outbox.options.interval_ms) * 1_000_000;
        let mut next = sys::now_ns() + interval;
        self.output.write_all();
        while !self.session.is_over() {
            let until = self.next_change().unwrap_or(next).min(next);
            // Rounded up: a wait that ends early would spin.
            let wait = ((until - sys::now_ns()).max(0) + 999_999) / 1_000_000;
            if self
                .session
                .outbox
                .bell
                .wait(self.control.descriptor(), wait)
            {
                self.obey_orders();
            }
            self.drain_queues();
            self.send_reports();
            if self.has_lost_descriptors() || self.output.is_full {
                // Nothing more can be written, or nobody listens: leave the target alone.
                self.session.apply_condition(Condition::Ordered(false));
            }
            self.keep_budget();
            self.detach_cupti();
            if sys::now_ns() >= next || self.session.outbox.take_hurry() {
                self.write_checkpoint();
                next = sys::now_ns() + interval;
            }
        }
        self.write_last_words();
    }

    /// Whether the program closed or reused one of our descriptors.
    fn has_lost_descriptors(&self) -> bool {
        self.output.is_taken || self.control.is_taken() || self.session.outbox.bell.is_taken()
    }

    /// Earliest time of work other than writing.
    fn next_change(&self) -> Option<i64> {
        let budget = self.session.budget.as_ref().and_then(Budget::next_change);
        let cupti = self.session.cupti().and_then(Attachment::next_change);
        budget.into_iter().chain(cupti).min()
    }

    fn obey_orders(&mut self) {
        let session = self.session;
        match self.control.receive_orders() {
            Received::Orders(orders) => {
                for order in orders {
                    match order {
                        Order::Start => session.apply_condition(Condition::Ordered(true)),
                        Order::Stop => session.apply_condition(Condition::Ordered(false)),
                        Order::Flush(number) => {
                            self.asked = None;
                            self.write_checkpoint();
                            self.control.send(&Report::Flushed { number });
                        }
                    }
                }
            }
            // Nobody will read the records: stop recording.
            Received::Closed => session.apply_condition(Condition::Ordered(false)),
        }
    }

    fn send_reports(&mut self) {
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
        let switches = session.switching_totals();
        // Account for the launches of a slice before the next one. While CUPTI is being detached it is flushed anyway.
        if !switches.is_on && !switches.is_open_ended {
            self.flush_cupti();
        }
        let now = (sys::now_ns(), sys::time_of_others());
        let is_wanted = session.gate.awaits_slice();
        match budget.tick(now, &mut self.recorded, switches, is_wanted) {
            Some(true) => {
                session.apply_condition(Condition::SliceBegun(Slice::OfTime));
                budget.is_on(sys::now_ns());
            }
            Some(false) => session.apply_condition(Condition::SliceEnded),
            None => {}
        }
    }

    /// Reads the complete records of CUPTI; once recording is off, only until nothing more comes.
    fn flush_cupti(&mut self) {
        let gate = &self.session.gate;
        let changes = Some(self.session.outbox.change_count());
        if gate.is_open() || self.asked != changes {
            self.asked = changes;
            if let Some(cupti) = self.session.cupti() {
                cupti.flush_buffers(false);
            }
        }
        self.drain_queues();
    }

    /// Reads what CUPTI holds, so that it can be detached.
    fn detach_cupti(&mut self) {
        let Some(cupti) = self.session.cupti() else {
            return;
        };
        let Some(drain) = cupti.next_drain(sys::now_ns()) else {
            return;
        };
        let untimed = self.untimed;
        cupti.flush_buffers(drain == Drain::All);
        self.drain_queues();
        if drain == Drain::All {
            cupti.took_all(self.untimed > untimed);
        }
        let dropped = cupti.take_dropped();
        self.output
            .count_dropped(dropped, "CUPTI had no buffer for them");
        cupti.drained(drain == Drain::Whole && self.session.outbox.buffers.is_any_out());
    }

    /// Writes everything that has ended to the file, and a checkpoint record.
    fn write_checkpoint(&mut self) {
        let time = sys::now_ns();
        self.flush_cupti();
        // A full file lacks records, so it gets no checkpoint.
        if !self.output.is_full {
            self.output.add_with(1, |out| Checkpoint { time }.put(out));
        }
        self.output.write_all();
        self.send_reports();
        self.session.outbox.buffers.prepare_ready();
    }

    /// Writes what threads have handed over. Notes come first: they name what other records refer to.
    fn drain_queues(&mut self) {
        if std::mem::take(&mut self.forgets) {
            // Names of numbers in use did not reach the file: write all names again.
            self.translator = Translator::default();
            domains::note_all(&self.session.outbox);
        }
        let taken = self.session.ranges.take_records(&self.session.outbox.notes);
        self.add_notes(&taken.notes, taken.dropped_notes);
        self.output
            .count_dropped(taken.dropped, "too many ranges at once");
        for chunk in taken.chunks {
            self.add_to_output(&chunk, Output::add_records);
        }
        while let Some(full) = self.session.outbox.buffers.next_full() {
            // Before the records of a later attachment, the note that CUPTI detached must be written.
            let (notes, dropped) = self.session.outbox.notes.take_notes();
            self.add_notes(&notes, dropped);
            if let Some(cupti) = self.session.cupti() {
                self.read_buffer(cupti, &full);
            }
            self.session.outbox.buffers.put_empty(full.memory);
        }
        // Counts buffers: the number of records in them is not known.
        let late = self.session.outbox.buffers.take_late();
        self.output.count_dropped(late, TOO_LATE);
    }

    fn add_notes(&mut self, notes: &[u8], dropped: u64) {
        self.output.count_dropped(dropped, "too many notes at once");
        self.add_to_output(notes, Output::add_notes);
    }

    fn add_to_output(&mut self, records: &[u8], add: fn(&mut Output, u64, &[u8]) -> bool) {
        if !records.is_empty() {
            let count = llmprof_wire::Reader::records(records, 0).count() as u64;
            if !add(&mut self.output, count, records) {
                self.forgets = true;
            }
        }
    }

    fn read_buffer(&mut self, cupti: &Attachment, full: &Full) {
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
        let dropped = cupti.read_records(full, |record| {
            records += 1;
            // SAFETY: the record is CUPTI's, of a version that is supported.
            let is_of_graph =
                match unsafe { translator.write_record(record, cupti.calls(), scratch) } {
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
                            recorded.kernels.add_kernel(times, name, stream);
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
            .count_dropped(untimed, "device activities that had no times");
        match dropped {
            Some(dropped) => self
                .output
                .count_dropped(dropped, "CUPTI had no buffer for them"),
            None => self.output.count_dropped(1, TOO_LATE),
        }
    }

    /// The process ends: reads and writes everything that is left.
    fn write_last_words(mut self) {
        let session = self.session;
        if let Some(cupti) = session.cupti() {
            cupti.last_words(&session.outbox);
        }
        self.drain_queues();
        if let Some(cupti) = session.cupti() {
            let dropped = cupti.take_dropped();
            self.output
                .count_dropped(dropped, "CUPTI had no buffer for them");
        }
        let refused = session
            .outbox
            .buffers
            .refused
            .load(std::sync::atomic::Ordering::Relaxed);
        if self.output.dropped == 0 {
            self.output
                .count_dropped(refused, "buffers that CUPTI asked for in vain");
        }
        self.output
            .count_dropped(guard::panic_count(), "faults inside the library");
        let switches = session.switching_totals();
        let (launch_cost, samples) = session.budget.as_ref().map_or((0, 0), Budget::launch_cost);
        let cost = Cost {
            records: self.records,
            thread_time: sys::thread_time() as u64,
            switches: switches.count,
            switch_time: switches.time as u64,
            launch_cost,
            launch_cost_samples: samples,
        };
        self.output.add_with(1, |out| cost.put(out));
        self.output.write_all();
        let ended = Ended {
            time: sys::now_ns(),
            dropped: self.output.dropped,
        };
        self.output.add_with(1, |out| ended.put(out));
        self.output.write_all();
        self.send_reports();
        self.control.send(&Report::Ended);
    }
}
