//! How a session begins: when NVTX or the driver first calls.

use std::fs::OpenOptions;
use std::path::PathBuf;

use llmprof_wire::control::Report;
use llmprof_wire::{Attached, Header, Options, options};

use crate::control::Control;
use crate::cupti::Attachment;
use crate::descriptor::OwnDescriptor;
use crate::gate::{Condition, Gate};
use crate::hooks::cupti::HOOKS;
use crate::nvtx::domains;
use crate::outbox::Outbox;
use crate::session::{self, Session};
use crate::sys::{self, Bell};
use crate::{driver, life, worker};

/// Write interval of a forked process, which may end at any moment without notice.
const FORKED_INTERVAL_MS: u32 = 20;

/// The process-wide session, begun now if there is none; `None` if llmprof did not ask for one.
pub(crate) fn ensure_session() -> Option<&'static Session> {
    session::current_or(start_session)
}

fn start_session() -> Option<&'static Session> {
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
        time: sys::now_ns(),
        unix_offset: sys::unix_offset(),
    };
    // A process that execs another program keeps its number: the time keeps their files apart.
    let name = format!(
        "{}-{}.{}",
        header.process,
        header.time,
        llmprof_wire::EXTENSION
    );
    let file = create_file(&directory.join(&name), &control)?;
    let [bell_in, bell_out] = bell.owned_descriptors();
    life::remember_descriptors([
        Some(&file),
        control.descriptor_owner(),
        Some(bell_in),
        Some(bell_out),
    ]);
    control.send(&Report::Hello {
        version: llmprof_wire::VERSION,
        process: header.process,
        file: name,
    });

    let gate = Gate::new(options.begin, range, options.overhead_ppm > 0);
    let session: &'static Session =
        Box::leak(Box::new(Session::new(Outbox::new(options, bell), gate)));
    life::register_handlers();
    domains::note_all(&session.outbox);
    session.publish();
    worker::spawn_worker(session, file, header, control);
    Some(session)
}

fn create_file(path: &std::path::Path, control: &Control) -> Option<OwnDescriptor> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    if let Err(error) = &file {
        control.send(&Report::Refused {
            why: format!("cannot create its file: {error}"),
        });
    }
    OwnDescriptor::new(file.ok()?)
}

/// Begins to use CUPTI, when the driver calls.
pub(crate) fn attach_cupti() {
    let Some(session) = ensure_session() else {
        return;
    };
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
                time: sys::now_ns(),
                cupti: version,
                driver: driver::driver_version(),
                all_calls: u8::from(outbox.options.all_calls),
                text: name.trim_ascii_end(),
            };
            outbox.write_note(|out| record.put(out));
            outbox.send_report(Report::Attached { cupti: version });
            outbox.buffers.prepare_ready();
            session.apply_condition(Condition::Attached);
        }
        Err(refusal) => refusal.report_refusal(outbox),
    }
}
