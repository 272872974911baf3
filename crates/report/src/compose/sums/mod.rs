//! Tables of sums by name, where a profile holds nothing finer: what `nsys stats` prints.

pub mod sentences;

use llmprof_record::summary::{
    ExecutionRow, GemmRow, ProjectionRow, RangeKernelRow, SizeRow, Spread, Summary, SummaryTable,
    TimeRow,
};
use llmprof_units::{Bytes, Flops, Nanos, Percent};

use self::sentences::{is_nested, times, total};
use super::kernels::name;
use crate::document::{Align, Cell, Column, Document, Table, key};

/// Adds a section; `file` is where the table came from.
pub(super) fn add(document: &mut Document, table: &SummaryTable, file: &str) {
    let (title, table) = match &table.summary {
        Summary::MemorySizes(rows) => ("Sizes of copies and memsets", sizes(rows)),
        Summary::Executions(rows) => ("Launch, queue and execution times", executions(rows)),
        Summary::RangeKernels(rows) => ("Kernels by range", range_kernels(rows)),
        Summary::RangeProjections(rows) => ("Ranges projected onto the GPU", projections(rows)),
        Summary::Gemms(rows) => ("GEMMs by shape", gemms(rows)),
        summary => {
            let (_, title, rows) = times(summary).unwrap_or(("", "Sums", &[]));
            (title, time_rows(rows, is_nested(summary)))
        }
    };
    let section = match file {
        "" => document.section(&format!("sums-{}", key(title)), title),
        file => document.section(&format!("sums-{}", key(file)), format!("{title} ({file})")),
    };
    section.table(table);
}

fn time_rows(rows: &[TimeRow], is_nested: bool) -> Table {
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
    let mut sums = table(headers);
    for row in rows {
        let mut cells = vec![name(&row.name)];
        if has_style {
            cells.push(row.style.as_deref().map_or(Cell::Missing, Cell::from));
        }
        if has_size {
            cells.extend([row.grid, row.block].map(size));
        }
        cells.push(time(row.total_ns.0 as f64));
        if !is_nested {
            cells.push(share(row.total_ns, whole));
        }
        cells.extend(spread(&row.times, time));
        sums.row(cells);
    }
    sums
}

fn sizes(rows: &[SizeRow]) -> Table {
    let mut headers = vec![("Name", Align::Left), ("Total", Align::Right)];
    headers.extend(SPREAD);
    let mut sums = table(headers);
    let size = |value: f64| Cell::number(value, bytes(value));
    for row in rows {
        let mut cells = vec![Cell::from(row.name.as_str()), size(row.total_bytes)];
        cells.extend(spread(&row.sizes, size));
        sums.row(cells);
    }
    sums
}

fn executions(rows: &[ExecutionRow]) -> Table {
    let mut sums = table(vec![
        ("Kernel", Align::Left),
        ("API", Align::Left),
        ("Device", Align::Right),
        ("Thread", Align::Right),
        ("Launches", Align::Right),
        ("API call, mean", Align::Right),
        ("Queue, mean", Align::Right),
        ("Execution, mean", Align::Right),
        ("Launch to end, mean", Align::Right),
    ]);
    for row in rows {
        sums.row([
            name(&row.kernel),
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
    sums
}

fn range_kernels(rows: &[RangeKernelRow]) -> Table {
    let mut headers = vec![
        ("Range", Align::Left),
        ("Kernel", Align::Left),
        ("Ranges", Align::Right),
        ("Total", Align::Right),
    ];
    headers.extend(SPREAD);
    let mut sums = table(headers);
    for row in rows {
        let range = match row.range.as_str() {
            "" => "no range",
            range => range,
        };
        let mut cells = vec![
            Cell::from(range),
            name(&row.kernel),
            count(row.range_instances),
            time(row.total_ns.0 as f64),
        ];
        cells.extend(spread(&row.times, time));
        sums.row(cells);
    }
    sums
}

fn projections(rows: &[ProjectionRow]) -> Table {
    let mut headers = vec![
        ("Range", Align::Left),
        ("GPU time", Align::Right),
        ("Host time", Align::Right),
        ("Operations", Align::Right),
    ];
    headers.extend(SPREAD);
    let mut sums = table(headers);
    for row in rows {
        let mut cells = vec![
            Cell::from(row.range.as_str()),
            time(row.total_ns.0 as f64),
            time(row.total_range_ns.0 as f64),
            count(row.operations),
        ];
        cells.extend(spread(&row.times, time));
        sums.row(cells);
    }
    sums
}

fn gemms(rows: &[GemmRow]) -> Table {
    let mut sums = table(vec![
        ("Function", Align::Left),
        ("dtype", Align::Left),
        ("A, B", Align::Left),
        ("m", Align::Right),
        ("n", Align::Right),
        ("k", Align::Right),
        ("Batch", Align::Right),
        ("Calls", Align::Right),
        ("FLOPs per call", Align::Right),
        ("FLOPs", Align::Right),
        ("Share", Align::Right),
    ]);
    let whole: f64 = rows.iter().map(GemmRow::total_flops).sum();
    let flops = |flops: f64| Cell::number(flops, Flops(flops.round() as u64));
    for row in rows {
        let [a, b] = row
            .transposed
            .map(|is_transposed| if is_transposed { "T" } else { "N" });
        let part = row.total_flops() / whole.max(1.0);
        sums.row([
            Cell::from(row.function.as_str()),
            Cell::from(row.dtype.as_str()),
            Cell::from(format!("{a}, {b}").as_str()),
            count(row.m),
            count(row.n),
            count(row.k),
            count(row.batch),
            count(row.calls),
            flops(row.flops()),
            flops(row.total_flops()),
            Cell::number(part, Percent(part)),
        ]);
    }
    sums
}

const SPREAD: [(&str, Align); 5] = [
    ("Calls", Align::Right),
    ("Mean", Align::Right),
    ("Median", Align::Right),
    ("Min", Align::Right),
    ("Max", Align::Right),
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

fn table(headers: Vec<(&str, Align)>) -> Table {
    let columns = headers.into_iter().map(|(header, align)| Column {
        header: header.to_owned(),
        align,
    });
    Table::sortable("rows", columns.collect())
}

fn time(ns: f64) -> Cell {
    Cell::number(ns, Nanos(ns.round() as i64))
}

fn count(number: u64) -> Cell {
    Cell::number(number as f64, number)
}

fn share(part: Nanos, whole: Nanos) -> Cell {
    if whole <= Nanos(0) {
        return Cell::Missing;
    }
    let share = part.0 as f64 / whole.0 as f64;
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
    use self::sentences::result;
    use super::*;
    use crate::document::Block;

    fn row(name: &str, total_ns: i64, count: u64) -> TimeRow {
        TimeRow {
            name: name.to_owned(),
            total_ns: Nanos(total_ns),
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

    fn summary(summary: Summary) -> SummaryTable {
        SummaryTable {
            summary,
            order: Vec::new(),
            issues: Vec::new(),
        }
    }

    fn composed(table: &SummaryTable, file: &str) -> (String, Table) {
        let mut document = Document::default();
        add(&mut document, table, file);
        let section = document.sections.remove(0);
        let Some(Block::Table(table)) = section.blocks.into_iter().next() else {
            panic!("a table")
        };
        (section.title, table)
    }

    #[test]
    fn shares_are_of_the_table() {
        let kernels = summary(Summary::Kernels(vec![
            row("gemm", 3_000, 3),
            row("norm", 1_000, 1),
        ]));
        assert_eq!(result(&kernels), "2 kernels in 4 calls, 4 µs in all.");
        let (title, sums) = composed(&kernels, "kern_sum.csv");
        assert_eq!(title, "Kernels (kern_sum.csv)");
        let cells: Vec<&str> = sums.rows[0].cells.iter().map(Cell::text).collect();
        assert_eq!(
            cells,
            ["gemm", "3 µs", "75.0 %", "3", "1 µs", "–", "1 ns", "3 µs"]
        );
        assert_eq!(sums.columns.len(), cells.len());
    }

    /// Ranges lie inside each other: a sum of them counts time twice.
    #[test]
    fn ranges_have_no_shares() {
        let ranges = summary(Summary::Ranges(vec![row("a", 10, 1), row("b", 5, 1)]));
        assert_eq!(result(&ranges), "2 ranges by name, 2 instances in all.");
        let (_, sums) = composed(&ranges, "");
        assert!(sums.columns.iter().all(|column| column.header != "Share"));
        assert_eq!(sums.columns.len(), sums.rows[0].cells.len());
    }
}
