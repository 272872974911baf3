//! Sums by name, where a profile holds nothing finer: what `nsys stats` prints.

use llmprof_record::kernel_name::brief;
use llmprof_record::summary::{
    ExecutionRow, ProjectionRow, RangeKernelRow, SizeRow, Spread, Summary, SummaryTable, TimeRow,
};
use llmprof_units::{Bytes, Count, Nanos, Percent};

use crate::{
    Align, Column,
    view::{Cell, OperatorTable, Part, Section},
};

/// Names are cut to this many characters.
const LONGEST_NAME: usize = 90;

/// What rows of times are of: in a sentence, and as a heading.
fn times(summary: &Summary) -> Option<(&'static str, &'static str, &[TimeRow])> {
    Some(match summary {
        Summary::CudaApi(rows) => ("CUDA API function", "Calls of the CUDA API", rows),
        Summary::OsRuntime(rows) => (
            "operating-system function",
            "Calls of the operating system",
            rows,
        ),
        Summary::Kernels(rows) => ("kernel", "Kernels", rows),
        Summary::KernelsBySize(rows) => ("kernel", "Kernels by size", rows),
        Summary::Memory(rows) => ("memory operation", "Copies and memsets", rows),
        Summary::Device(rows) => ("device activity", "Activities of devices", rows),
        Summary::Ranges(rows) => ("range", "Ranges", rows),
        Summary::MemorySizes(_)
        | Summary::Executions(_)
        | Summary::RangeKernels(_)
        | Summary::RangeProjections(_) => return None,
    })
}

/// Whether rows lie inside each other, so that their times do not add up.
fn is_nested(summary: &Summary) -> bool {
    matches!(summary, Summary::Ranges(_))
}

/// What a table says, in a sentence.
pub fn conclusion(table: &SummaryTable) -> String {
    let counted = |rows: usize, what| Count(rows as u64, what);
    if let Some((what, _, rows)) = times(&table.summary) {
        let calls: u64 = rows.iter().map(|row| row.times.count).sum();
        let rows_of = counted(rows.len(), what);
        return if is_nested(&table.summary) {
            format!("{rows_of} by name, {} in all.", Count(calls, "time"))
        } else {
            let total = Nanos(total(rows));
            format!("{rows_of} in {}, {total} in all.", Count(calls, "call"))
        };
    }
    match &table.summary {
        Summary::MemorySizes(rows) => {
            let total: f64 = rows.iter().map(|row| row.total_bytes).sum();
            let kinds = counted(rows.len(), "kind");
            format!("{kinds} of copies and memsets, {} in all.", bytes(total))
        }
        Summary::Executions(rows) => format!(
            "{} with launch, queue and run times.",
            counted(rows.len(), "kernel")
        ),
        Summary::RangeKernels(rows) => format!("{} by range.", counted(rows.len(), "kernel")),
        Summary::RangeProjections(rows) => {
            format!("{} as the device saw them.", counted(rows.len(), "range"))
        }
        _ => String::new(),
    }
}

/// A section of a report; `file` is where the table came from.
pub fn section(table: &SummaryTable, file: &str) -> Section {
    let (title, table) = match &table.summary {
        Summary::MemorySizes(rows) => ("Sizes of copies and memsets", sizes(rows)),
        Summary::Executions(rows) => ("Launch, queue and run times", executions(rows)),
        Summary::RangeKernels(rows) => ("Kernels by range", range_kernels(rows)),
        Summary::RangeProjections(rows) => ("Ranges on the device", projections(rows)),
        summary => {
            let (_, title, rows) = times(summary).unwrap_or(("", "Sums", &[]));
            (title, time_rows(rows, is_nested(summary)))
        }
    };
    let title = match file {
        "" => title.to_owned(),
        file => format!("{title} ({file})"),
    };
    Section::new(title, vec![Part::Operators(table)])
}

fn total(rows: &[TimeRow]) -> i64 {
    let times = rows.iter().map(|row| row.total_ns);
    times.fold(0, i64::saturating_add)
}

fn time_rows(rows: &[TimeRow], is_nested: bool) -> OperatorTable {
    let whole = total(rows);
    let has_size = rows.iter().any(|row| row.grid.is_some());
    let has_style = rows.iter().any(|row| row.style.is_some());
    let mut headers = vec![("Name", Align::Left)];
    if has_style {
        headers.push(("Kind", Align::Left));
    }
    if has_size {
        headers.extend([("Grid", Align::Right), ("Block", Align::Right)]);
    }
    headers.push(("Total", Align::Right));
    if !is_nested {
        headers.push(("Share", Align::Right));
    }
    headers.extend(SPREAD);
    let mut found = table(headers);
    for row in rows {
        let mut cells = vec![Cell::from(brief(&row.name, LONGEST_NAME))];
        if has_style {
            cells.push(row.style.as_deref().map_or(Cell::Missing, Cell::from));
        }
        if has_size {
            cells.extend([row.grid, row.block].map(size));
        }
        cells.push(time(row.total_ns as f64));
        if !is_nested {
            cells.push(share(row.total_ns, whole));
        }
        cells.extend(spread(&row.times, time));
        found.rows.push(cells);
    }
    found
}

fn sizes(rows: &[SizeRow]) -> OperatorTable {
    let mut headers = vec![("Name", Align::Left), ("Total", Align::Right)];
    headers.extend(SPREAD);
    let mut found = table(headers);
    let size = |value: f64| Cell::number(value, bytes(value));
    for row in rows {
        let mut cells = vec![Cell::from(row.name.as_str()), size(row.total_bytes)];
        cells.extend(spread(&row.sizes, size));
        found.rows.push(cells);
    }
    found
}

fn executions(rows: &[ExecutionRow]) -> OperatorTable {
    let mut found = table(vec![
        ("Kernel", Align::Left),
        ("API", Align::Left),
        ("Device", Align::Right),
        ("Thread", Align::Right),
        ("Launches", Align::Right),
        ("Call, mean", Align::Right),
        ("Queue, mean", Align::Right),
        ("Run, mean", Align::Right),
        ("From call to end, mean", Align::Right),
    ]);
    for row in rows {
        found.rows.push(vec![
            Cell::from(brief(&row.kernel, LONGEST_NAME)),
            Cell::from(row.api.as_str()),
            Cell::number(f64::from(row.device), row.device),
            Cell::number(row.thread as f64, row.thread),
            count(row.total.count),
            time(row.call.mean),
            row.queue.map_or(Cell::Missing, |queue| time(queue.mean)),
            time(row.run.mean),
            time(row.total.mean),
        ]);
    }
    found
}

fn range_kernels(rows: &[RangeKernelRow]) -> OperatorTable {
    let mut headers = vec![
        ("Range", Align::Left),
        ("Kernel", Align::Left),
        ("Ranges", Align::Right),
        ("Total", Align::Right),
    ];
    headers.extend(SPREAD);
    let mut found = table(headers);
    for row in rows {
        let range = match row.range.as_str() {
            "" => "outside all",
            range => range,
        };
        let mut cells = vec![
            Cell::from(range),
            Cell::from(brief(&row.kernel, LONGEST_NAME)),
            count(row.range_instances),
            time(row.total_ns as f64),
        ];
        cells.extend(spread(&row.times, time));
        found.rows.push(cells);
    }
    found
}

fn projections(rows: &[ProjectionRow]) -> OperatorTable {
    let mut headers = vec![
        ("Range", Align::Left),
        ("On the device", Align::Right),
        ("On the host", Align::Right),
        ("Operations", Align::Right),
    ];
    headers.extend(SPREAD);
    let mut found = table(headers);
    for row in rows {
        let mut cells = vec![
            Cell::from(row.range.as_str()),
            time(row.total_ns as f64),
            time(row.total_range_ns as f64),
            count(row.operations),
        ];
        cells.extend(spread(&row.times, time));
        found.rows.push(cells);
    }
    found
}

const SPREAD: [(&str, Align); 5] = [
    ("Calls", Align::Right),
    ("Mean", Align::Right),
    ("Median", Align::Right),
    ("Least", Align::Right),
    ("Most", Align::Right),
];

fn spread(values: &Spread, cell: impl Fn(f64) -> Cell) -> [Cell; 5] {
    [
        count(values.count),
        cell(values.mean),
        values.median.map_or(Cell::Missing, &cell),
        cell(values.min),
        cell(values.max),
    ]
}

fn table(headers: Vec<(&str, Align)>) -> OperatorTable {
    let columns = headers.into_iter().map(|(header, align)| Column {
        header: header.to_owned(),
        align,
    });
    OperatorTable {
        title: "rows".to_owned(),
        columns: columns.collect(),
        rows: Vec::new(),
    }
}

fn time(ns: f64) -> Cell {
    Cell::number(ns, Nanos(ns.round() as i64))
}

fn count(number: u64) -> Cell {
    Cell::number(number as f64, number)
}

fn share(part: i64, whole: i64) -> Cell {
    if whole <= 0 {
        return Cell::Missing;
    }
    let share = part as f64 / whole as f64;
    Cell::number(share, Percent(share))
}

fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0).round() as u64)
}

fn size(size: Option<[u32; 3]>) -> Cell {
    size.map_or(Cell::Missing, |[x, y, z]| {
        let all = f64::from(x) * f64::from(y) * f64::from(z);
        Cell::number(all, format_args!("{x} × {y} × {z}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, total_ns: i64, count: u64) -> TimeRow {
        TimeRow {
            name: name.to_owned(),
            total_ns,
            times: Spread {
                count,
                mean: total_ns as f64 / count as f64,
                min: 1.0,
                max: total_ns as f64,
                ..Spread::default()
            },
            style: None,
            grid: None,
            block: None,
        }
    }

    fn table(summary: Summary) -> SummaryTable {
        SummaryTable {
            summary,
            issues: Vec::new(),
        }
    }

    #[test]
    fn shares_are_of_the_table() {
        let kernels = table(Summary::Kernels(vec![
            row("gemm", 3_000, 3),
            row("norm", 1_000, 1),
        ]));
        assert_eq!(conclusion(&kernels), "2 kernels in 4 calls, 4 µs in all.");
        let section = section(&kernels, "kern_sum.csv");
        assert_eq!(section.title, "Kernels (kern_sum.csv)");
        let [Part::Operators(found)] = section.parts.as_slice() else {
            panic!("{section:?}")
        };
        let cells: Vec<&str> = found.rows[0].iter().map(Cell::text).collect();
        assert_eq!(
            cells,
            ["gemm", "3 µs", "75.0 %", "3", "1 µs", "–", "1 ns", "3 µs"]
        );
        assert_eq!(found.columns.len(), cells.len());
    }

    /// Ranges lie inside each other: a sum of them counts time twice.
    #[test]
    fn ranges_have_no_shares() {
        let ranges = table(Summary::Ranges(vec![row("a", 10, 1), row("b", 5, 1)]));
        assert_eq!(conclusion(&ranges), "2 ranges by name, 2 times in all.");
        let Part::Operators(found) = &section(&ranges, "").parts[0] else {
            panic!("a table")
        };
        assert!(found.columns.iter().all(|column| column.header != "Share"));
        assert_eq!(found.columns.len(), found.rows[0].len());
    }
}
