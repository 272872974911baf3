use llmprof_units::Nanos;

use super::{CSV_FORMAT, Dispatch, RocprofReading};
use crate::import::csv_text::{CsvText, Row};
use crate::import::torch_names::add_pushed_range;
use crate::import::{ImportError, Profile, Source};
use crate::summary::{Spread, Summary, SummaryTable, TimeRow};
use crate::trace::{Host, HostKind, Range, RangeKind};

/// The tables that are read, by their columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RocprofTable {
    Kernels,
    Copies,
    /// API calls, or markers of ROCTx.
    Calls,
    /// Sums by name, as `--stats` writes them.
    Stats,
}

impl RocprofTable {
    fn from_header(header: &[String]) -> Option<Self> {
        let has = |names: &[&str]| {
            names
                .iter()
                .all(|name| header.iter().any(|cell| cell == name))
        };
        if has(&["Kind", "Kernel_Name", "Start_Timestamp", "End_Timestamp"]) {
            Some(Self::Kernels)
        } else if has(&["Kind", "Direction", "Start_Timestamp", "End_Timestamp"]) {
            Some(Self::Copies)
        } else if has(&["Domain", "Function", "Start_Timestamp", "End_Timestamp"]) {
            Some(Self::Calls)
        } else if has(&["Name", "Calls", "TotalDurationNs", "AverageNs"]) {
            Some(Self::Stats)
        } else {
            None
        }
    }
}

pub(super) fn sniff(head: &[u8]) -> bool {
    CsvText::find(head, |cells| RocprofTable::from_header(cells).is_some()).is_some()
}

pub(super) fn read(source: &Source) -> Result<Profile, ImportError> {
    let table = CsvText::find(source.bytes(), |cells| {
        RocprofTable::from_header(cells).is_some()
    });
    let kind_and_table =
        table.and_then(|table| Some((RocprofTable::from_header(&table.header)?, table)));
    let Some((kind, mut table)) = kind_and_table else {
        return Err(source.unusable(CSV_FORMAT, "it has no header that is known"));
    };
    let header = table.header.clone();
    let mut reading = RocprofReading::default();
    reading.builder.issues = source.issues().to_vec();
    let mut stats = Vec::new();
    while let Some(row) = table.next_row() {
        let cells = RocprofCells {
            header: &header,
            row: &row,
        };
        // A cut row has fewer cells; the last one may be cut inside of a number.
        let is_whole =
            row.cells.len() == header.len() && row.cut_after.is_none_or(|byte| byte == b'"');
        let taken = is_whole.then(|| match kind {
            RocprofTable::Kernels => cells.kernel(&mut reading),
            RocprofTable::Copies => cells.copy(&mut reading),
            RocprofTable::Calls => cells.call(&mut reading),
            RocprofTable::Stats => cells.stats().map(|row| stats.push(row)),
        });
        if taken.flatten().is_none() {
            reading.unread += 1;
        }
    }
    reading.issues();
    if kind == RocprofTable::Stats {
        let summary = summary_of(stats).ok_or_else(|| {
            source.unusable(
                CSV_FORMAT,
                "it has sums by domain; export the traces or the statistics of kernels",
            )
        })?;
        return Ok(Profile::Summary(Box::new(SummaryTable {
            summary,
            order: Vec::new(),
            issues: reading.builder.issues,
        })));
    }
    if reading.builder.events_read == 0 {
        return Err(source.unusable(CSV_FORMAT, "it has no event"));
    }
    Ok(Profile::Trace(Box::new(reading.builder.finish())))
}

/// What a table of statistics is of, which its names alone tell; `None` of one by domain (`KERNEL_DISPATCH`, `HIP_API`), where kernels
/// and calls are rows alike.
fn summary_of(rows: Vec<TimeRow>) -> Option<Summary> {
    let all = |is: fn(&str) -> bool| !rows.is_empty() && rows.iter().all(|row| is(&row.name));
    if all(is_domain) {
        return None;
    }
    Some(if all(is_api_call) {
        Summary::CudaApi(rows)
    } else if all(is_copy) {
        Summary::Memory(rows)
    } else {
        Summary::Kernels(rows)
    })
}

/// `hipLaunchKernel`, `hsa_queue_create`, `ncclAllReduce`: a function of a library, without the parameters that names of kernels have.
fn is_api_call(name: &str) -> bool {
    let camel = ["__hip", "hip", "nccl", "rccl", "rocDec", "rocJpeg", "roctx"];
    let is_function = camel.iter().any(|library| {
        let rest = name.strip_prefix(library);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    let is_kernel = name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel");
    (is_function && !is_kernel || name.starts_with("hsa_"))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_copy(name: &str) -> bool {
    let name = name.strip_prefix("MEMORY_COPY_").unwrap_or(name);
    matches!(
        name,
        "HOST_TO_DEVICE" | "DEVICE_TO_HOST" | "DEVICE_TO_DEVICE" | "HOST_TO_HOST"
    )
}

fn is_domain(name: &str) -> bool {
    name == "KERNEL_DISPATCH"
        || name == "MEMORY_COPY"
        || name == "MEMORY_ALLOCATION"
        || name == "SCRATCH_MEMORY"
        || name.ends_with("_API")
        || name.ends_with("_API_EXT")
}

struct RocprofCells<'a> {
    header: &'a [String],
    row: &'a Row,
}

impl<'a> RocprofCells<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.header.iter().position(|column| column == name)?;
        self.row.cells.get(at).map(|cell| cell.trim())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    fn small(&self, name: &str) -> u32 {
        self.number(name).map_or(0, |number| number as u32)
    }

    fn float(&self, name: &str) -> Option<f64> {
        let value: f64 = self.text(name)?.parse().ok()?;
        value.is_finite().then_some(value)
    }

    /// `4`, `Agent 4` or `GPU 3`.
    fn agent(&self, name: &str) -> u32 {
        let text = self.text(name).unwrap_or_default();
        let digits = text.rsplit(' ').next().unwrap_or_default();
        digits.parse().unwrap_or(0)
    }

    fn times(&self) -> Option<(i64, i64)> {
        Some((
            self.number("Start_Timestamp")?,
            self.number("End_Timestamp")?,
        ))
    }

    fn kernel(&self, reading: &mut RocprofReading) -> Option<()> {
        let (start, end) = self.times()?;
        let three =
            |prefix: &str| ["X", "Y", "Z"].map(|axis| self.small(&format!("{prefix}_{axis}")));
        let shared = self
            .number("LDS_Block_Size")
            .or(self.number("Group_Segment_Size"));
        let name = reading.builder.intern(self.text("Kernel_Name")?);
        reading.dispatch(&Dispatch {
            name,
            start,
            end,
            device: self.agent("Agent_Id"),
            queue: self.small("Queue_Id"),
            correlation: self.small("Correlation_Id"),
            grid: three("Grid_Size"),
            workgroup: three("Workgroup_Size"),
            registers: self.small("VGPR_Count"),
            shared: shared.map_or(0, |shared| shared as u32),
        });
        Some(())
    }

    fn copy(&self, reading: &mut RocprofReading) -> Option<()> {
        let times = self.times()?;
        let direction = self.text("Direction")?;
        let device = if direction.contains("TO_DEVICE") {
            self.agent("Destination_Agent_Id")
        } else {
            self.agent("Source_Agent_Id")
        };
        let direction = reading.direction(direction);
        reading.copy(direction, times, device, self.small("Correlation_Id"));
        Some(())
    }

    fn call(&self, reading: &mut RocprofReading) -> Option<()> {
        let (start, end) = self.times()?;
        let (start, duration) = reading.span(start, end);
        let builder = &mut reading.builder;
        let thread = builder.thread(
            self.number("Process_Id").unwrap_or(0),
            self.number("Thread_Id").unwrap_or(0),
        );
        let name = builder.intern(self.text("Function")?);
        let domain = self.text("Domain")?;
        if domain.starts_with("MARKER") {
            add_pushed_range(
                builder,
                Range {
                    start,
                    duration,
                    name,
                    thread,
                    kind: RangeKind::NVTX,
                    ..Range::default()
                },
            );
            return Some(());
        }
        builder.hosts.push(Host {
            start,
            duration,
            name,
            thread,
            kind: HostKind::RUNTIME,
            correlation: self.small("Correlation_Id"),
            ..Host::default()
        });
        Some(())
    }

    fn stats(&self) -> Option<TimeRow> {
        let count = u64::try_from(self.number("Calls")?).ok()?;
        Some(TimeRow {
            name: self.text("Name")?.to_owned(),
            total_ns: Nanos(self.number("TotalDurationNs")?),
            times: Spread {
                count,
                mean: self.float("AverageNs")?,
                median: None,
                min: self.float("MinNs").unwrap_or(f64::NAN),
                max: self.float("MaxNs").unwrap_or(f64::NAN),
                deviation: self.float("StdDev"),
            },
            style: None,
            grid: None,
            block: None,
        })
    }
}
