//! How a session begins: when NVTX or the driver first calls.

use std::fs::OpenOptions;
use std::path::PathBuf;

use llmprof_wire::control::Report;
use llmprof_wire::{Attached, Header, Options, options};

use crate::control::Control;
use crate::cupti::Attachment;
use crate::descriptor::Own;
use crate::gate::{Condition, Gate};
use crate::hooks::cupti::HOOKS;
use crate::nvtx::domains;
use crate::outbox::Outbox;
use crate::session::{self, Session};
use crate::sys::{self, Bell};
use crate::{driver, life, worker};

/// How often a process writes that may end at any moment without a word, ms.
const FORKED_INTERVAL_MS: u32 = 20;

/// The session of this process, begun now where there is none. None where llmprof did not ask for one.
pub(crate) fn ensure() -> Option<&'static Session> {
    session::current_or(start)
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

    let gate = Gate::new(options.begin, range, options.overhead_ppm > 0);
    let session: &'static Session =
        Box::leak(Box::new(Session::new(Outbox::new(options, bell), gate)));
    life::watch();
    domains::note_all(&session.outbox);
    session.publish();
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
    if session.cupti().is_some() {
        return;
    }
    let Session { outbox, .. } = session;
    match Attachment::open(&outbox.options, HOOKS, life::is_forked()) {
        Ok(cupti) => {
            let version = cupti.version();
            if !session.set_cupti(cupti) {
                return;
            }
            let name = std::fs::read("/proc/self/comm").unwrap_or_default();
            let record = Attached {
                time: sys::now(),
                cupti: version,
                driver: driver::version(),
                all_calls: u8::from(outbox.options.all_calls),
                text: name.trim_ascii_end(),
            };
            outbox.note(|out| record.put(out));
            outbox.report(Report::Attached { cupti: version });
            outbox.buffers.prepare();
            session.change(Condition::Attached);
        }
        Err(refusal) => refusal.report(outbox),
    }
}
