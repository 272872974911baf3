//! What rocprofv3 of ROCm writes: `--output-format json`, and the CSV files of kernels, copies, API calls and markers.
//!
//! Written from its documentation and files that others published; not run on the hardware, which every report of such a trace
//! says. Grids are counted in work-items there, in blocks here.

mod csv;
mod json;

use super::{Importer, Profile};
use crate::issue::{Issue, IssueCode};
use crate::trace::{Copy, CopyKind, Kernel, StrId, TraceBuilder};

pub(crate) const JSON: Importer = Importer {
    name: "rocprofv3_json",
    sniff: json::sniff,
    read: |source| Ok(Profile::Trace(Box::new(json::read(source)?))),
};

pub(crate) const CSV: Importer = Importer {
    name: "rocprofv3_csv",
    sniff: csv::sniff,
    read: csv::read,
};

const JSON_FORMAT: &str = "JSON of rocprofv3";
const CSV_FORMAT: &str = "a CSV of rocprofv3";

/// A dispatch as either format has it.
#[derive(Default)]
struct Dispatch {
    name: StrId,
    start: i64,
    end: i64,
    device: u32,
    queue: u32,
    correlation: u32,
    grid: [u32; 3],
    workgroup: [u32; 3],
    registers: u32,
    shared: u32,
}

/// A trace while it is read, with what does not fit.
#[derive(Default)]
struct RocprofReading {
    builder: TraceBuilder,
    backwards: u64,
    unread: u64,
}

impl RocprofReading {
    fn span(&mut self, start: i64, end: i64) -> (i64, i64) {
        self.builder.events_read += 1;
        self.backwards += u64::from(end < start);
        (start, end.saturating_sub(start).max(0))
    }

    fn dispatch(&mut self, dispatch: &Dispatch) {
        let (start, duration) = self.span(dispatch.start, dispatch.end);
        let blocks = |axis: usize| dispatch.grid[axis].div_ceil(dispatch.workgroup[axis].max(1));
        self.builder.kernels.push(Kernel {
            start,
            duration,
            name: dispatch.name,
            device: dispatch.device,
            stream: dispatch.queue,
            correlation: dispatch.correlation,
            grid: [blocks(0), blocks(1), blocks(2)],
            block: dispatch.workgroup,
            registers: dispatch.registers,
            static_shared: dispatch.shared,
            occupancy: f32::NAN,
            ..Kernel::default()
        });
    }

    /// The name and the kind of copies in a direction.
    fn direction(&mut self, text: &str) -> (StrId, CopyKind) {
        let kinds = [
            ("HOST_TO_DEVICE", CopyKind::HOST_TO_DEVICE),
            ("DEVICE_TO_HOST", CopyKind::DEVICE_TO_HOST),
            ("DEVICE_TO_DEVICE", CopyKind::DEVICE_TO_DEVICE),
            ("HOST_TO_HOST", CopyKind::HOST_TO_HOST),
        ];
        let kind = kinds.iter().find(|(part, _)| text.contains(part));
        let kind = kind.map_or(CopyKind::UNKNOWN, |(_, kind)| *kind);
        (self.builder.intern(text), kind)
    }

    fn copy(
        &mut self,
        (name, kind): (StrId, CopyKind),
        (start, end): (i64, i64),
        device: u32,
        correlation: u32,
    ) {
        let (start, duration) = self.span(start, end);
        self.builder.copies.push(Copy {
            start,
            duration,
            name,
            kind,
            device,
            correlation,
            ..Copy::default()
        });
    }

    fn issues(&mut self) {
        let issues = &mut self.builder.issues;
        issues.push(Issue::info(IssueCode::RocprofNotRun));
        if self.backwards > 0 {
            issues.push(Issue::warning(IssueCode::RocprofEndsBeforeStart).counting(self.backwards));
        }
        if self.unread > 0 {
            issues.push(Issue::warning(IssueCode::RocprofUnread).counting(self.unread));
        }
    }
}
