//! NVTX ranges and marks with their domains.

use std::collections::HashMap;

use super::database::Database;
use super::{Reading, process_of};
use crate::import::torch_names::add_pushed_range;
use crate::issue::{Issue, IssueCode};
use crate::trace::{Range, RangeKind, StrId, ThreadId};

/// Codes of `ENUM_NSYS_EVENT_TYPE` for NVTX events, and for those read from NVTXT files.
const PUSH_POP: [i64; 2] = [59, 70];
const START_END: [i64; 2] = [60, 71];
const MARK: [i64; 2] = [34, 65];
const DOMAIN: i64 = 75;

pub(super) fn read(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "NVTX_EVENTS";
    let domains = read_domains(database, reading);
    // A range that was never closed lasts as long as the rest of the capture is known to.
    let last = last_end(reading);
    let columns = [
        "start",
        "eventType",
        "end",
        "text",
        "textId",
        "globalTid",
        "domainId",
    ];
    let (mut open, mut other, mut rows_kept) = (0, 0, 0);
    database.scan(TABLE, &columns, 2, |cells| {
        let (start, kind) = (cells.int()?, cells.int()?);
        let (end, text, text_id) = (cells.int(), cells.text(), cells.int());
        let (thread, domain) = (cells.int(), cells.int().unwrap_or(0));
        let kind = if PUSH_POP.contains(&kind) {
            RangeKind::NVTX
        } else if START_END.contains(&kind) {
            RangeKind::NVTX_START_END
        } else if MARK.contains(&kind) {
            RangeKind::MARK
        } else {
            // Names of domains, categories, threads and streams; anything else is counted.
            other += u64::from(!matches!(kind, 33 | 39 | 64 | 72..=76 | 97..=99));
            return Some(());
        };
        let end = match end {
            _ if kind == RangeKind::MARK => start,
            Some(end) => end,
            None => {
                open += 1;
                last.max(start)
            }
        };
        rows_kept += 1;
        let name = match text {
            Some(text) => reading.builder.intern(&text),
            None => reading.text(text_id),
        };
        let process = thread.map_or(-1, process_of);
        let thread = thread.map_or(ThreadId::NONE, |global| reading.thread(global));
        let range = Range {
            start,
            duration: end.saturating_sub(start).max(0),
            name,
            domain: domains.get(&(process, domain)).copied().unwrap_or_default(),
            thread,
            kind,
            ..Range::default()
        };
        add_pushed_range(&mut reading.builder, range);
        Some(())
    });
    reading.builder.events_read += rows_kept;
    database.lose(Issue::warning(IssueCode::NsysOpenRange), TABLE, open);
    database.lose(Issue::warning(IssueCode::NsysUnknownNvtx), TABLE, other);
}

/// Names of domains by process and number. The default domain has number 0 and no name.
fn read_domains(database: &mut Database, reading: &mut Reading) -> HashMap<(i64, i64), StrId> {
    let mut domains = HashMap::new();
    let columns = ["eventType", "domainId", "globalTid", "text", "textId"];
    database.scan("NVTX_EVENTS", &columns, 1, |cells| {
        if cells.int() != Some(DOMAIN) {
            return Some(());
        }
        let (number, thread) = (cells.int()?, cells.int());
        let (text, text_id) = (cells.text(), cells.int());
        let name = match text {
            Some(text) => reading.builder.intern(&text),
            None => reading.text(text_id),
        };
        domains.insert((thread.map_or(-1, process_of), number), name);
        Some(())
    });
    domains
}

fn last_end(reading: &Reading) -> i64 {
    let builder = &reading.builder;
    let hosts = builder
        .hosts
        .start
        .iter()
        .zip(builder.hosts.duration.iter());
    let kernels = builder
        .kernels
        .start
        .iter()
        .zip(builder.kernels.duration.iter());
    hosts
        .chain(kernels)
        .map(|(start, duration)| start.saturating_add(*duration))
        .max()
        .unwrap_or(0)
}
