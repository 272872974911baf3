//! API calls, operating-system calls, library calls and the profiler's own work.

use super::database::Database;
use super::{Reading, process_of, thread_of};
use crate::issue::{Issue, IssueCode};
use crate::trace::{Host, HostKind};

pub(super) fn read(database: &mut Database, reading: &mut Reading) {
    read_calls(
        database,
        reading,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        HostKind::RUNTIME,
    );
    read_calls(database, reading, "OSRT_API", HostKind::SYSTEM);
    read_calls(database, reading, "PROFILER_OVERHEAD", HostKind::OVERHEAD);
    for library in ["CUDNN_EVENTS", "CUBLAS_EVENTS"] {
        read_calls(database, reading, library, HostKind::OTHER);
    }
}

fn read_calls(database: &mut Database, reading: &mut Reading, table: &str, kind: HostKind) {
    let columns = [
        "start",
        "end",
        "nameId",
        "globalTid",
        "correlationId",
        "eventClass",
    ];
    let mut backwards = 0;
    let rows = database.scan(table, &columns, 3, |cells| {
        let (start, end, name) = (cells.int()?, cells.int()?, cells.int()?);
        let (thread, correlation, class) = (cells.int(), cells.int(), cells.int());
        let name = reading.api_name(name);
        backwards += u64::from(end < start);
        let is_api = kind == HostKind::RUNTIME;
        let kind = if is_api {
            api_kind(class, reading.builder.strings.get(name))
        } else {
            kind
        };
        let correlation = if is_api {
            reading.correlations.unique(thread, correlation)
        } else {
            0
        };
        let thread = thread.map_or(crate::trace::ThreadId::NONE, |global| {
            reading.thread(global)
        });
        reading.builder.hosts.push(Host {
            start,
            duration: end.saturating_sub(start).max(0),
            name,
            thread,
            kind,
            correlation,
            ..Host::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
    database.lose(
        Issue::warning(IssueCode::NsysEndsBeforeStart),
        table,
        backwards,
    );
}

/// Runtime or driver: by the class where this version has it, else by the name.
fn api_kind(class: Option<i64>, name: &str) -> HostKind {
    match class {
        Some(0) => HostKind::RUNTIME,
        Some(1) => HostKind::DRIVER,
        _ if name.starts_with("cuda") => HostKind::RUNTIME,
        _ => HostKind::DRIVER,
    }
}

impl Reading {
    /// A function's name without the version that the tool appends, `cudaMalloc_v3020`, which its own reports hide.
    fn api_name(&mut self, id: i64) -> crate::trace::StrId {
        if let Some(&known) = self.interned.get(&id) {
            return known;
        }
        let text = self.texts.get(&id).map_or("", String::as_str);
        let interned = self.builder.intern(without_version(text));
        self.interned.insert(id, interned);
        interned
    }
}

/// Cuts a trailing `_v` with exactly four digits: `cudaLaunchKernelExC_v11060` stays, as in the tool's reports.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((bare, digits))
            if digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            bare
        }
        _ => name,
    }
}

/// Names of threads that have events. The table lists the machine's other processes too, which are nobody's business.
pub(super) fn read_thread_names(database: &mut Database, reading: &mut Reading) {
    database.scan("ThreadNames", &["nameId", "globalTid"], 2, |cells| {
        let (name, global) = (cells.int()?, cells.int()?);
        if let Some(name) = reading.texts.get(&name)
            && reading
                .threads_seen
                .contains(&(process_of(global), thread_of(global)))
        {
            reading
                .builder
                .name_thread(Ok(process_of(global)), Ok(thread_of(global)), name);
        }
        Some(())
    });
}

#[cfg(test)]
mod tests {
    use super::without_version;

    #[test]
    fn only_four_digits_are_a_version() {
        assert_eq!(without_version("cudaMalloc_v3020"), "cudaMalloc");
        assert_eq!(
            without_version("cudaLaunchKernelExC_v11060"),
            "cudaLaunchKernelExC_v11060"
        );
        assert_eq!(without_version("cuMemcpy_v2"), "cuMemcpy_v2");
        assert_eq!(without_version("_v3020"), "");
        assert_eq!(without_version("pthread_cond_wait"), "pthread_cond_wait");
    }
}
