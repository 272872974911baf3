//! The tables of a query: rows of the traces as they are, no copy. `docs/view.md` lists them; a test compares.

use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_report::compose::concluded_findings;

use crate::agent::cause_of;
use crate::lanes::{idle_label, idle_parts};
use crate::opened_run::OpenedRun;
use crate::timeline::TimelineTrace;

/// A value of a cell.
pub(crate) enum QueryCell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Owned(String),
}

impl<'a> From<Option<&'a str>> for QueryCell<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl From<Option<String>> for QueryCell<'_> {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Self::Owned)
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(impl From<$type> for QueryCell<'_> {
        fn from(value: $type) -> Self { Self::Integer(value as i64) }
    })* };
}
integers!(i64, u32, u64, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryTable {
    Kernel,
    Launch,
    HostOp,
    Copy,
    Memset,
    Range,
    Step,
    IdleGap,
    Sample,
    Memory,
    Finding,
}

impl QueryTable {
    pub const ALL: [Self; 11] = [
        Self::Kernel,
        Self::Launch,
        Self::HostOp,
        Self::Copy,
        Self::Memset,
        Self::Range,
        Self::Step,
        Self::IdleGap,
        Self::Sample,
        Self::Memory,
        Self::Finding,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Launch => "launch",
            Self::HostOp => "host_op",
            Self::Copy => "copy",
            Self::Memset => "memset",
            Self::Range => "range",
            Self::Step => "step",
            Self::IdleGap => "idle_gap",
            Self::Sample => "sample",
            Self::Memory => "memory",
            Self::Finding => "finding",
        }
    }

    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => &[
                "id",
                "trace",
                "name",
                "category",
                "library",
                "start_ns",
                "duration_ns",
                "device",
                "context",
                "stream",
                "correlation",
                "graph",
                "graph_node",
                "grid_x",
                "grid_y",
                "grid_z",
                "block_x",
                "block_y",
                "block_z",
                "registers",
                "shared_bytes",
                "launch_id",
                "operator",
                "module",
            ],
            Self::Launch => &[
                "id",
                "trace",
                "name",
                "start_ns",
                "duration_ns",
                "process",
                "thread",
                "correlation",
                "device_events",
            ],
            Self::HostOp | Self::Range => &[
                "id",
                "trace",
                "name",
                "kind",
                "start_ns",
                "duration_ns",
                "process",
                "thread",
            ],
            Self::Copy => &[
                "id",
                "trace",
                "name",
                "direction",
                "source",
                "target",
                "bytes",
                "start_ns",
                "duration_ns",
                "device",
                "context",
                "stream",
                "correlation",
                "launch_id",
                "operator",
            ],
            Self::Memset => &[
                "id",
                "trace",
                "name",
                "bytes",
                "start_ns",
                "duration_ns",
                "device",
                "context",
                "stream",
                "correlation",
                "launch_id",
                "operator",
            ],
            Self::Step => &["id", "phase", "start_ns", "duration_ns"],
            Self::IdleGap => &[
                "id",
                "trace",
                "device",
                "start_ns",
                "duration_ns",
                "cause",
                "host_busy_ns",
                "host_sync_ns",
                "launch_latency_ns",
                "launch_call_ns",
                "queued_gap_ns",
                "not_started_ns",
                "data_loading_ns",
                "unknown_ns",
            ],
            Self::Sample => &[
                "id",
                "trace",
                "time_ns",
                "period_ns",
                "process",
                "thread",
                "state",
                "wait",
                "function",
                "file",
                "line",
            ],
            Self::Memory => &[
                "id",
                "trace",
                "time_ns",
                "bytes",
                "allocated_bytes",
                "reserved_bytes",
                "place",
                "device",
            ],
            Self::Finding => &["id", "title", "gain", "gain_ms", "knob", "evidence"],
        }
    }

    /// Whether a column has texts. Threads and processes are numbers or texts, as their tool wrote them: those are texts.
    pub fn is_text(self, column: &str) -> bool {
        match self {
            Self::Finding => !matches!(column, "id" | "gain_ms"),
            _ => matches!(
                column,
                "name"
                    | "category"
                    | "library"
                    | "operator"
                    | "module"
                    | "process"
                    | "thread"
                    | "kind"
                    | "direction"
                    | "source"
                    | "target"
                    | "phase"
                    | "cause"
                    | "state"
                    | "wait"
                    | "function"
                    | "file"
                    | "place"
            ),
        }
    }

    /// Whether a column has numbers that are not whole.
    pub fn is_real(self, column: &str) -> bool {
        self == Self::Finding && column == "gain_ms"
    }

    /// Whether rows belong to the run and not to one of its traces.
    pub(crate) fn is_of_run(self) -> bool {
        matches!(self, Self::Step | Self::Finding)
    }
}

fn is_call(kind: HostKind) -> bool {
    matches!(kind, HostKind::RUNTIME | HostKind::DRIVER)
}

/// One trace of a run as a query sees it.
#[derive(Clone, Copy)]
pub(crate) struct TraceRows<'a> {
    pub(super) run: &'a OpenedRun,
    pub(super) number: usize,
    pub(crate) trace: &'a Trace,
    on: &'a TimelineTrace,
}

impl<'a> TraceRows<'a> {
    pub(crate) fn for_trace(run: &'a OpenedRun, number: usize) -> Option<Self> {
        let on = run.timeline.traces.get(number)?;
        let trace = &run.record.traces.get(on.index)?.trace;
        Some(Self {
            run,
            number,
            trace,
            on,
        })
    }

    /// Rows of the table; of those [`is_row`](Self::is_row) tells which are in it.
    pub(crate) fn len(&self, table: QueryTable) -> usize {
        match table {
            QueryTable::Kernel => self.trace.kernels.len(),
            QueryTable::Launch | QueryTable::HostOp => self.trace.hosts.len(),
            QueryTable::Copy => self.trace.copies.len(),
            QueryTable::Memset => self.trace.memsets.len(),
            QueryTable::Range => self.trace.ranges.len(),
            QueryTable::Step => self.run.timeline.phases.len(),
            QueryTable::IdleGap => self.on.origins.gaps().len(),
            QueryTable::Sample => self.trace.host_samples.len(),
            QueryTable::Memory => self.trace.memory.len(),
            QueryTable::Finding => self.run.findings().len(),
        }
    }

    pub(crate) fn is_row(&self, table: QueryTable, row: usize) -> bool {
        match table {
            QueryTable::Launch => is_call(self.trace.hosts.kind[row]),
            QueryTable::HostOp => !is_call(self.trace.hosts.kind[row]),
            _ => true,
        }
    }

    fn time(&self, time: i64) -> QueryCell<'a> {
        QueryCell::Integer(time.saturating_add(self.on.shift) - self.run.timeline.origin)
    }

    fn text(&self, id: StrId) -> QueryCell<'a> {
        QueryCell::Text(self.trace.text(id))
    }

    fn thread(&self, id: ThreadId, is_process: bool) -> QueryCell<'a> {
        let row = id.0 as usize;
        if id == ThreadId::NONE || row >= self.trace.threads.len() {
            return QueryCell::Null;
        }
        let thread = self.trace.threads.row(row);
        let (number, label) = if is_process {
            (thread.process, thread.process_label)
        } else {
            (thread.thread, thread.label)
        };
        match label {
            StrId::EMPTY => QueryCell::Integer(number),
            label => self.text(label),
        }
    }

    /// Columns that tell where a device event comes from.
    fn origin(&self, origin: llmprof_analysis::EventOrigin, column: &str) -> QueryCell<'a> {
        match column {
            "launch_id" => origin.call.map_or(QueryCell::Null, QueryCell::from),
            "operator" => origin.operator.map_or(QueryCell::Null, |row| {
                self.text(self.trace.hosts.name[row as usize])
            }),
            "module" => self.on.origins.modules(self.trace, origin).into(),
            _ => QueryCell::Null,
        }
    }

    pub(crate) fn cell(&self, table: QueryTable, row: usize, column: &str) -> QueryCell<'a> {
        match column {
            // Numbers of findings begin at 1, as in `finding=1`.
            "id" if table == QueryTable::Finding => return (row + 1).into(),
            "id" => return row.into(),
            "trace" => return self.number.into(),
            _ => {}
        }
        match table {
            QueryTable::Kernel => self.kernel(row, column),
            QueryTable::Launch | QueryTable::HostOp => self.host(row, column),
            QueryTable::Copy => self.copy(row, column),
            QueryTable::Memset => self.memset(row, column),
            QueryTable::Range => self.range(row, column),
            QueryTable::Step => self.step(row, column),
            QueryTable::IdleGap => self.idle_gap(row, column),
            QueryTable::Sample => self.sample(row, column),
            QueryTable::Memory => self.memory(row, column),
            QueryTable::Finding => self.finding(row, column),
        }
    }

    fn kernel(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.kernels;
        match column {
            "name" => self.text(rows.name[row]),
            "category" | "library" => {
                let names = &self.run.timeline.names;
                let class = names.kernel_class(self.number, rows.name[row]);
                let (category, library) = class.unzip();
                if column == "category" {
                    category
                } else {
                    library
                }
                .into()
            }
            "start_ns" => self.time(rows.start[row]),
            "duration_ns" => rows.duration[row].into(),
            "device" => rows.device[row].into(),
            "context" => rows.context[row].into(),
            "stream" => rows.stream[row].into(),
            "correlation" => rows.correlation[row].into(),
            "graph" => rows.graph[row].into(),
            "graph_node" => rows.graph_node[row].into(),
            "grid_x" => rows.grid[row][0].into(),
            "grid_y" => rows.grid[row][1].into(),
            "grid_z" => rows.grid[row][2].into(),
            "block_x" => rows.block[row][0].into(),
            "block_y" => rows.block[row][1].into(),
            "block_z" => rows.block[row][2].into(),
            "registers" => rows.registers[row].into(),
            "shared_bytes" => {
                (u64::from(rows.static_shared[row]) + u64::from(rows.dynamic_shared[row])).into()
            }
            other => self.origin(self.on.origins.of_kernel(row), other),
        }
    }

    fn host(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.hosts;
        match column {
            "name" => self.text(rows.name[row]),
            "kind" => QueryCell::Text(rows.kind[row].name()),
            "start_ns" => self.time(rows.start[row]),
            "duration_ns" => rows.duration[row].into(),
            "process" => self.thread(rows.thread[row], true),
            "thread" => self.thread(rows.thread[row], false),
            "correlation" => rows.correlation[row].into(),
            "device_events" => {
                let launched = &self.on.launched;
                let first = launched.partition_point(|(call, _)| (*call as usize) < row);
                let end = launched.partition_point(|(call, _)| *call as usize <= row);
                (end - first).into()
            }
            _ => QueryCell::Null,
        }
    }

    fn copy(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.copies;
        match column {
            "name" => self.text(rows.name[row]),
            "direction" => QueryCell::Text(rows.kind[row].name()),
            "source" => QueryCell::Text(rows.source[row].name()),
            "target" => QueryCell::Text(rows.target[row].name()),
            "bytes" => rows.bytes[row].into(),
            "start_ns" => self.time(rows.start[row]),
            "duration_ns" => rows.duration[row].into(),
            "device" => rows.device[row].into(),
            "context" => rows.context[row].into(),
            "stream" => rows.stream[row].into(),
            "correlation" => rows.correlation[row].into(),
            other => self.origin(self.on.origins.of_copy(row), other),
        }
    }

    fn memset(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.memsets;
        match column {
            "name" => self.text(rows.name[row]),
            "bytes" => rows.bytes[row].into(),
            "start_ns" => self.time(rows.start[row]),
            "duration_ns" => rows.duration[row].into(),
            "device" => rows.device[row].into(),
            "context" => rows.context[row].into(),
            "stream" => rows.stream[row].into(),
            "correlation" => rows.correlation[row].into(),
            other => self.origin(self.on.origins.of_memset(row), other),
        }
    }

    fn range(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.ranges;
        match column {
            "name" => self.text(rows.name[row]),
            "kind" => QueryCell::Text(rows.kind[row].name()),
            "start_ns" => self.time(rows.start[row]),
            "duration_ns" => rows.duration[row].into(),
            "process" => self.thread(rows.thread[row], true),
            "thread" => self.thread(rows.thread[row], false),
            _ => QueryCell::Null,
        }
    }

    fn step(&self, row: usize, column: &str) -> QueryCell<'a> {
        let (phase, start, end) = &self.run.timeline.phases[row];
        match column {
            "phase" => QueryCell::Text(phase),
            "start_ns" => QueryCell::Integer(start - self.run.timeline.origin),
            "duration_ns" => QueryCell::Integer(end - start),
            _ => QueryCell::Null,
        }
    }

    fn idle_gap(&self, row: usize, column: &str) -> QueryCell<'a> {
        let gap = self.on.origins.gaps()[row];
        let [
            busy,
            sync,
            latency,
            call,
            queued,
            not_started,
            loading,
            unknown,
        ] = idle_parts(&gap).map(|(_, time)| time);
        match column {
            "device" => gap.device.into(),
            "start_ns" => self.time(gap.start_ns),
            "duration_ns" => (gap.end_ns - gap.start_ns).into(),
            "cause" => QueryCell::Text(idle_label(&gap)),
            "host_busy_ns" => busy.into(),
            "host_sync_ns" => sync.into(),
            "launch_latency_ns" => latency.into(),
            "launch_call_ns" => call.into(),
            "queued_gap_ns" => queued.into(),
            "not_started_ns" => not_started.into(),
            "data_loading_ns" => loading.into(),
            "unknown_ns" => unknown.into(),
            _ => QueryCell::Null,
        }
    }

    fn sample(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.host_samples;
        let frame = || self.trace.stack_frames.stack(rows.stack[row]).next();
        match column {
            "time_ns" => self.time(rows.time[row]),
            "period_ns" => rows.period[row].into(),
            "process" => self.thread(rows.thread[row], true),
            "thread" => self.thread(rows.thread[row], false),
            "state" => QueryCell::Text(rows.cpu[row].name()),
            "wait" => QueryCell::Text(rows.wait[row].name()),
            "function" => frame().map_or(QueryCell::Null, |frame| self.text(frame.function)),
            "file" => frame().map_or(QueryCell::Null, |frame| self.text(frame.file)),
            "line" => frame().map_or(QueryCell::Null, |frame| frame.line.into()),
            _ => QueryCell::Null,
        }
    }

    fn memory(&self, row: usize, column: &str) -> QueryCell<'a> {
        let rows = &self.trace.memory;
        match column {
            "time_ns" => self.time(rows.time[row]),
            "bytes" => rows.bytes[row].into(),
            "allocated_bytes" => rows.allocated[row].into(),
            "reserved_bytes" => rows.reserved[row].into(),
            "place" => QueryCell::Text(rows.place[row].name()),
            "device" => rows.device[row].into(),
            _ => QueryCell::Null,
        }
    }

    /// What removing the cause of a finding saves, of the first phase that its sentence names: of a step where that has steps, else
    /// of a pass.
    fn gain_ms(&self, row: usize) -> Option<f64> {
        let analysis = self.run.analysis.as_ref()?;
        let cause = cause_of(concluded_findings(analysis).nth(row)?)?;
        Some(cause.gains.first()?.saved_ns.millis())
    }

    fn finding(&self, row: usize, column: &str) -> QueryCell<'a> {
        let finding = &self.run.findings()[row];
        match column {
            "title" => QueryCell::Text(&finding.title),
            "gain" => finding.gain.as_deref().into(),
            "gain_ms" => self.gain_ms(row).map_or(QueryCell::Null, QueryCell::Real),
            "knob" => finding.knob.as_deref().into(),
            "evidence" => QueryCell::Owned(finding.evidence.join("\n")),
            _ => QueryCell::Null,
        }
    }
}
