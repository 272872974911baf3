//! What the library knows while it watches a process.
//!
//! There is one session a process. It is never freed, since threads of the target may hold it; after a fork the child
//! leaves its parent's session behind, untouched, and begins its own when it initializes CUDA.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use llmprof_wire::control::Report;
use llmprof_wire::{Attached, Header, Options, Refused, options};

use crate::budget::Budget;
use crate::buffers::Buffers;
use crate::control::Control;
use crate::cupti::{Attachment, Refusal};
use crate::descriptor::Own;
use crate::gate::Gate;
use crate::nvtx::Ranges;
use crate::queues::Notes;
use crate::sys::{self, Bell};
use crate::{driver, life, worker};

/// Notes beyond this many bytes that our thread has not taken yet are dropped.
const MOST_NOTES: usize = 64 << 20;

/// How often a process writes that may end at any moment without a word, ms.
const FORKED_INTERVAL_MS: u32 = 20;

static CURRENT: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// 0: nobody starts a session; 1: someone does.
static STARTING: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) buffers: Buffers,
    pub(crate) bell: Bell,
    pub(crate) gate: Gate,
    pub(crate) ranges: Ranges,
    pub(crate) budget: Option<Budget>,
    cupti: OnceLock<Attachment>,
    pub(crate) notes: Notes,
    reports: Mutex<Vec<Report>>,
    /// Whether our thread should write now, whatever the interval.
    hurry: AtomicBool,
    finishing: AtomicBool,
    /// Whether CUPTI has handed out all that it will: our thread ends when it has read that.
    is_over: AtomicBool,
    finished: (Mutex<bool>, Condvar),
}

/// The session of this process, if it has one.
pub(crate) fn current() -> Option<&'static Session> {
    // SAFETY: the pointer is null or of a session that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Leaves the session behind. Called in the child after a fork, where its locks may be held by threads that are gone.
pub(crate) fn forget() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    STARTING.store(0, Ordering::Release);
}

/// The session of this process, begun now where there is none. None where llmprof did not ask for one.
pub(crate) fn ensure() -> Option<&'static Session> {
    loop {
        if let Some(session) = current() {
            return Some(session);
        }
        if STARTING
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            let session = start();
            STARTING.store(0, Ordering::Release);
            return session;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn start() -> Option<&'static Session> {
    let directory = PathBuf::from(std::env::var_os(options::DIRECTORY)?);
    let text = std::env::var(options::CAPTURE).unwrap_or_default();
    let mut options = Options::read(&text);
    if life::is_forked() {
        options.interval_ms = options.interval_ms.min(FORKED_INTERVAL_MS);
    }
    let range = std::env::var_os(options::RANGE)
        .map(|name| name.to_string_lossy().into_owned().into_bytes());
    let control = Control::connect(std::env::var_os(options::CONTROL));
    let bell = Bell::new()?;

    let header = Header {
        process: std::process::id(),
        parent: sys::parent_id(),
        time: sys::now(),
        unix_offset: sys::unix_offset(),
    };
    // A process may become another program and keep its number: the time keeps their files apart.
    let name = format!(
        "{}-{}.{}",
        header.process,
        header.time,
        llmprof_wire::EXTENSION
    );
    let file = create(&directory.join(&name), &control)?;
    let [bell_in, bell_out] = bell.owned();
    life::remember_descriptors([Some(&file), control.own(), Some(bell_in), Some(bell_out)]);
    control.send(&Report::Hello {
        version: llmprof_wire::VERSION,
        process: header.process,
        file: name,
    });

    let buffer = options.buffer_kib as usize * 1024;
    let session: &'static Session = Box::leak(Box::new(Session {
        options,
        buffers: Buffers::new(buffer, options.memory_mib as usize * 1024 * 1024),
        bell,
        gate: Gate::new(options.begin, range, options.overhead_ppm > 0),
        ranges: Ranges::new(),
        budget: Budget::new(options.overhead_ppm, options.detach),
        cupti: OnceLock::new(),
        notes: Notes::new(MOST_NOTES),
        reports: Mutex::default(),
        hurry: AtomicBool::new(false),
        finishing: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        finished: (Mutex::new(false), Condvar::new()),
    }));
    life::watch();
    Ranges::announce(session);
    CURRENT.store(std::ptr::from_ref(session).cast_mut(), Ordering::Release);
    worker::spawn(session, file, header, control);
    Some(session)
}

fn create(path: &std::path::Path, control: &Control) -> Option<Own> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    if let Err(error) = &file {
        control.send(&Report::Refused {
            why: format!("cannot create its file: {error}"),
        });
    }
    Own::new(file.ok()?)
}

/// Begins to use CUPTI, when the driver calls.
pub(crate) fn attach() {
    let Some(session) = ensure() else { return };
    if session.cupti.get().is_some() {
        return;
    }
    match Attachment::open(&session.options, life::is_forked()) {
        Ok(cupti) => {
            let version = cupti.version();
            if session.cupti.set(cupti).is_err() {
                return;
            }
            let name = std::fs::read("/proc/self/comm").unwrap_or_default();
            let record = Attached {
                time: sys::now(),
                cupti: version,
                driver: driver::version(),
                all_calls: u8::from(session.options.all_calls),
                text: name.trim_ascii_end(),
            };
            session.note(|out| record.put(out));
            session.report(Report::Attached { cupti: version });
            session.buffers.prepare();
            session.gate.attach(session);
        }
        Err(refusal) => session.refuse(&refusal),
    }
}

impl Session {
    /// CUPTI, once it is in use.
    pub(crate) fn cupti(&self) -> Option<&Attachment> {
        self.cupti.get()
    }

    /// Adds records that our thread will write.
    pub(crate) fn note(&self, put: impl FnOnce(&mut Vec<u8>)) {
        self.notes.add(put);
    }

    /// Lets our thread tell llmprof.
    pub(crate) fn report(&self, report: Report) {
        if let Ok(mut reports) = self.reports.lock() {
            reports.push(report);
        }
        self.bell.ring();
    }

    /// What llmprof is to be notified of since the last time.
    pub(crate) fn take_reports(&self) -> Vec<Report> {
        let reports = self.reports.lock();
        reports
            .map(|mut reports| std::mem::take(&mut *reports))
            .unwrap_or_default()
    }

    /// CUPTI said no: the process runs on untouched, and llmprof is notified.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        let record = Refused {
            time: sys::now(),
            status: refusal.status,
            text: refusal.why.as_bytes(),
        };
        self.note(|out| record.put(out));
        self.report(Report::Refused {
            why: refusal.why.clone(),
        });
    }

    /// Has our thread write what there is, soon.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Whether someone asked for that since the last time.
    pub(crate) fn take_hurry(&self) -> bool {
        self.hurry.swap(false, Ordering::Relaxed)
    }

    /// Whether the process is about to end.
    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// Whether nothing more will come from CUPTI, since the process ends.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The process ends: takes the last records from CUPTI and waits until they are written, within limits.
    pub(crate) fn finish(&self) {
        if self.finishing.swap(true, Ordering::AcqRel) {
            return;
        }
        let limit = Duration::from_millis(u64::from(self.options.exit_ms));
        if let Some(cupti) = self.cupti() {
            cupti.flush_last(limit);
        }
        // Not before: our thread would end, and nobody read what was handed out last.
        self.is_over.store(true, Ordering::Release);
        self.bell.ring();
        let (done, changed) = &self.finished;
        if let Ok(done) = done.lock() {
            // Whether in time or not, the process ends now.
            let _ = changed.wait_timeout_while(done, limit, |done| !*done);
        }
    }

    /// Our thread is done.
    pub(crate) fn set_finished(&self) {
        let (done, changed) = &self.finished;
        if let Ok(mut done) = done.lock() {
            *done = true;
        }
        changed.notify_all();
    }
}
