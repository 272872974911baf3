//! Sums from `nsys stats --format csv`, distinguished by their headers.
//!
//! Names of columns carry the unit, `Total Time (ns)`, which `--timeunit` changes; values are moved to ns and bytes.
//! Lines that the tool prints before the header are passed over.

use llmprof_units::Nanos;

use super::csv_text::{CsvText, Row};
use super::{ImportError, Importer, Profile, Source};
use crate::counters::unit;
use crate::issue::{Issue, IssueCode};
use crate::summary::{
    ExecutionRow, ProjectionRow, RangeKernelRow, SizeRow, Spread, Summary, SummaryTable, TimeRow,
};

/// Reads the CSV of one report.
pub(crate) const IMPORTER: Importer = Importer {
    name: "nsys_stats",
    sniff,
    read: |source| Ok(Profile::Summary(Box::new(read(source)?))),
};

const FORMAT: &str = "an nsys stats report";

fn sniff(head: &[u8]) -> bool {
    CsvText::find(head, |cells| StatsReport::from_header(cells).is_some()).is_some()
}

pub fn read(source: &Source) -> Result<SummaryTable, ImportError> {
    let Some(table) = CsvText::find(source.bytes(), |cells| {
        StatsReport::from_header(cells).is_some()
    }) else {
        return Err(source.unusable(FORMAT, "no header of a known report is in it"));
    };
    let Some(report) = StatsReport::from_header(&table.header) else {
        return Err(source.unusable(FORMAT, "its header is of no known report"));
    };
    let mut table = read_rows(table, report);
    table.issues.splice(0..0, source.issues().iter().cloned());
    Ok(table)
}

/// The reports, by the columns that only they have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatsReport {
    Calls,
    Kernels,
    KernelsBySize,
    Memory,
    MemorySizes,
    Device,
    Ranges,
    Executions,
    RangeKernels,
    RangeProjections,
}

impl StatsReport {
    fn from_header(header: &[String]) -> Option<Self> {
        let has = |names: &[&str]| names.iter().any(|name| find(header, &[name]).is_some());
        let is_times = has(&["Total Time"]) && has(&["Max", "Maximum"]);
        Some(
            if has(&["QCount"]) && has(&["API Name"]) && has(&["Kernel Name"]) {
                Self::Executions
            } else if has(&["Kern Inst"]) && has(&["NVTX Range"]) {
                Self::RangeKernels
            } else if has(&["Total Proj Time"]) && has(&["Range"]) {
                Self::RangeProjections
            } else if has(&["Operation"]) && has(&["Total"]) && has(&["Count", "Operations"]) {
                Self::MemorySizes
            } else if !is_times {
                return None;
            } else if has(&["Range"]) {
                Self::Ranges
            } else if has(&["Operation"]) && has(&["Category"]) {
                Self::Device
            } else if has(&["Operation"]) {
                Self::Memory
            } else if has(&["GridXYZ"]) && has(&["Name"]) {
                Self::KernelsBySize
            } else if has(&["Num Calls", "Calls"]) && has(&["Name"]) {
                Self::Calls
            } else if has(&["Instances"]) && has(&["Name"]) {
                Self::Kernels
            } else {
                return None;
            },
        )
    }
}

/// The place of the first of some columns, and the power of ten from its unit to the base unit.
fn find(header: &[String], names: &[&str]) -> Option<(usize, i32)> {
    header.iter().enumerate().find_map(|(at, cell)| {
        let cell = cell.trim();
        let (name, printed) = match cell.split_once('(') {
            Some((name, rest)) => (name.trim_end(), rest.strip_suffix(')')?),
            None => (cell, ""),
        };
        let exponent = match printed {
            "" | "%" | "ns" | "B" => 0,
            "us" | "KB" => 3,
            "ms" | "MB" => 6,
            "s" | "sec" | "GB" => 9,
            _ => return None,
        };
        names.contains(&name).then_some((at, exponent))
    })
}

/// A row that is being read, and where its first bad cell is.
struct ReportCells<'a> {
    header: &'a [String],
    row: &'a Row,
    /// Its column, and what it holds; absent where the column is missing.
    wrong: Option<(String, Option<String>)>,
}

impl ReportCells<'_> {
    fn text(&mut self, names: &[&str]) -> Option<String> {
        let place = find(self.header, names).and_then(|(at, _)| self.row.cells.get(at));
        if place.is_none() {
            self.wrong
                .get_or_insert_with(|| (names[0].to_owned(), None));
        }
        place.cloned()
    }

    /// A number in its base unit. An empty cell is bad: see [`ReportCells::optional`].
    fn number(&mut self, names: &[&str]) -> Option<f64> {
        let (at, exponent) = find(self.header, names).or_else(|| {
            self.wrong
                .get_or_insert_with(|| (names[0].to_owned(), None));
            None
        })?;
        let cell = self.row.cells.get(at).map_or("", String::as_str);
        let number = unit::scale_number(cell, exponent);
        if number.is_none() {
            self.wrong
                .get_or_insert_with(|| (self.header[at].clone(), Some(cell.to_owned())));
        }
        number
    }

    fn whole(&mut self, names: &[&str]) -> Option<i64> {
        let number = self.number(names)?;
        // Sums in µs may have decimals below a ns; beyond 2^53 the tool's own float arithmetic is as coarse.
        (number.abs() < 9.2e18).then_some(number.round() as i64)
    }

    fn count(&mut self, names: &[&str]) -> Option<u64> {
        let number = self.whole(names)?;
        let count = u64::try_from(number).ok();
        if count.is_none() {
            self.wrong
                .get_or_insert_with(|| (names[0].to_owned(), Some(number.to_string())));
        }
        count
    }

    /// A number whose column older versions lack. A bad cell is noted as for [`ReportCells::number`].
    fn optional(&mut self, names: &[&str]) -> Option<f64> {
        find(self.header, names).and_then(|_| self.number(names))
    }

    /// A spread whose columns begin with `prefix`, as `Proj ` or `Q`.
    fn spread(&mut self, count: u64, prefix: &str) -> Option<Spread> {
        let name = |word: &str| format!("{prefix}{word}");
        let either = |short: &str, long: &str| [name(short), name(long)];
        let [mean, mean_long] = either("Avg", "Average");
        let [median, median_long] = either("Med", "Median");
        let [min, min_long] = either("Min", "Minimum");
        let [max, max_long] = either("Max", "Maximum");
        let deviation = name("StdDev");
        Some(Spread {
            count,
            mean: self.number(&[&mean, &mean_long])?,
            median: self.optional(&[&median, &median_long]),
            min: self.number(&[&min, &min_long])?,
            max: self.number(&[&max, &max_long])?,
            deviation: self.optional(&[&deviation]),
        })
    }

    fn times(&mut self, count: &[&str], name: &[&str]) -> Option<TimeRow> {
        let count = self.count(count)?;
        Some(TimeRow {
            name: self.text(name)?,
            total_ns: Nanos(self.whole(&["Total Time"])?),
            times: self.spread(count, "")?,
            style: find(self.header, &["Style", "Category"])
                .and_then(|(at, _)| self.row.cells.get(at))
                .cloned(),
            grid: self.triple("GridXYZ"),
            block: self.triple("BlockXYZ"),
        })
    }

    /// `7 1 1` or `(7, 1, 1)`.
    fn triple(&self, name: &str) -> Option<[u32; 3]> {
        let (at, _) = find(self.header, &[name])?;
        let digits = self.row.cells.get(at)?;
        let mut parts = digits
            .split(|c: char| !c.is_ascii_digit())
            .filter(|part| !part.is_empty())
            .map(str::parse);
        let mut next = || parts.next()?.ok();
        Some([next()?, next()?, next()?])
    }
}

fn read_sizes(cells: &mut ReportCells<'_>) -> Option<SizeRow> {
    let count = cells.count(&["Count", "Operations"])?;
    Some(SizeRow {
        name: cells.text(&["Operation"])?,
        total_bytes: cells.number(&["Total"])?,
        sizes: cells.spread(count, "")?,
    })
}

fn read_execution(cells: &mut ReportCells<'_>) -> Option<ExecutionRow> {
    let count = cells.count(&["Count"])?;
    let queued = cells.count(&["QCount"])?;
    Some(ExecutionRow {
        process: cells.whole(&["PID"])?,
        thread: cells.whole(&["TID"])?,
        device: u32::try_from(cells.count(&["DevId"])?).ok()?,
        api: cells.text(&["API Name"])?,
        kernel: cells.text(&["Kernel Name"])?,
        total: cells.spread(count, "T")?,
        call: cells.spread(count, "A")?,
        queue: if queued > 0 {
            Some(cells.spread(queued, "Q")?)
        } else {
            None
        },
        run: cells.spread(count, "K")?,
    })
}

fn read_range_kernel(cells: &mut ReportCells<'_>) -> Option<RangeKernelRow> {
    let count = cells.count(&["Kern Inst"])?;
    Some(RangeKernelRow {
        range: cells.text(&["NVTX Range"])?,
        style: cells.text(&["Style"])?,
        process: cells.whole(&["PID"])?,
        thread: cells.whole(&["TID"])?,
        range_instances: cells.count(&["NVTX Inst"])?,
        kernel: cells.text(&["Kernel Name"])?,
        total_ns: Nanos(cells.whole(&["Total Time"])?),
        times: cells.spread(count, "")?,
    })
}

fn read_projection(cells: &mut ReportCells<'_>) -> Option<ProjectionRow> {
    let count = cells.count(&["Range Instances"])?;
    Some(ProjectionRow {
        range: cells.text(&["Range"])?,
        style: cells.text(&["Style"])?,
        total_ns: Nanos(cells.whole(&["Total Proj Time"])?),
        total_range_ns: Nanos(cells.whole(&["Total Range Time"])?),
        times: cells.spread(count, "Proj ")?,
        operations: cells.count(&["Total GPU Ops"])?,
        mean_level: cells.number(&["Avg Range Lvl"])?,
        mean_children: cells.number(&["Avg Num Child"])?,
    })
}

fn read_rows(table: CsvText<'_>, report: StatsReport) -> SummaryTable {
    const CALLS: &[&str] = &["Num Calls", "Calls"];
    const INSTANCES: &[&str] = &["Instances"];
    const COUNT: &[&str] = &["Count", "Operations", "Instances"];
    let mut issues = Vec::new();
    let mut times =
        |table, count, name| collect(table, &mut issues, |cells| cells.times(count, name));
    let summary = match report {
        StatsReport::Calls => {
            // Two reports share this header; functions of CUDA all begin alike, and no function of a C library does.
            let rows = times(table, CALLS, &["Name"]);
            if rows.iter().any(|row| row.name.starts_with("cu")) {
                Summary::CudaApi(rows)
            } else {
                Summary::OsRuntime(rows)
            }
        }
        StatsReport::Kernels => Summary::Kernels(times(table, INSTANCES, &["Name"])),
        StatsReport::KernelsBySize => Summary::KernelsBySize(times(table, INSTANCES, &["Name"])),
        StatsReport::Memory => Summary::Memory(times(table, COUNT, &["Operation"])),
        StatsReport::Device => Summary::Device(times(table, COUNT, &["Operation"])),
        StatsReport::Ranges => Summary::Ranges(times(table, INSTANCES, &["Range"])),
        StatsReport::MemorySizes => Summary::MemorySizes(collect(table, &mut issues, read_sizes)),
        StatsReport::Executions => Summary::Executions(collect(table, &mut issues, read_execution)),
        StatsReport::RangeKernels => {
            Summary::RangeKernels(collect(table, &mut issues, read_range_kernel))
        }
        StatsReport::RangeProjections => {
            Summary::RangeProjections(collect(table, &mut issues, read_projection))
        }
    };
    SummaryTable {
        summary,
        order: Vec::new(),
        issues,
    }
}

/// A row that has not as many cells as the header has columns.
fn cut_row(line: u64, cells: &[String], header: &[String]) -> Issue {
    Issue::warning(IssueCode::NsysStatsCutRow)
        .with("line", line)
        .with("cells", cells.len())
        .with("columns", header.len())
}

/// Reads all rows, leaving out what cannot be read with one issue for each kind of loss.
fn collect<T>(
    mut table: CsvText<'_>,
    issues: &mut Vec<Issue>,
    mut read: impl FnMut(&mut ReportCells<'_>) -> Option<T>,
) -> Vec<T> {
    let header = std::mem::take(&mut table.header);
    let mut rows = Vec::new();
    let [mut cut, mut bad, mut damaged]: [Option<(u64, Issue)>; 3] = Default::default();
    while let Some(row) = table.next_row() {
        let line = row.line;
        if row.cells.len() == 1 {
            // Blank but for spaces, or a line of talk after the table.
            if !row.cells[0].trim().is_empty() {
                let issue = cut_row(line, &row.cells, &header);
                cut.get_or_insert((0, issue)).0 += 1;
            }
            continue;
        }
        // Without a line break after it, only a closed quote shows that the last cell is whole.
        if row.cells.len() != header.len() || row.cut_after.is_some_and(|byte| byte != b'"') {
            let issue = cut_row(line, &row.cells, &header);
            cut.get_or_insert((0, issue)).0 += 1;
            continue;
        }
        if row.damaged_text {
            let issue = Issue::warning(IssueCode::NsysStatsNotUtf8).with("line", line);
            damaged.get_or_insert((0, issue)).0 += 1;
        }
        let mut cells = ReportCells {
            header: &header,
            row: &row,
            wrong: None,
        };
        if let Some(value) = read(&mut cells) {
            rows.push(value);
        } else {
            let issue = Issue::warning(IssueCode::NsysStatsBadRow).with("line", line);
            let issue = match cells.wrong {
                Some((column, Some(cell))) => issue.with("column", column).with("cell", cell),
                Some((column, None)) => issue.with("column", column),
                None => issue,
            };
            bad.get_or_insert((0, issue)).0 += 1;
        }
    }
    let losses = [cut, bad, damaged].into_iter().flatten();
    issues.extend(losses.map(|(count, issue)| issue.counting(count)));
    rows
}
