use super::{NcuError, Sink, details};
use crate::counters::{Metric, ProfiledLaunch, Reading, unit};
use crate::import::csv_text::{CsvText, Row};
use crate::issue::{Issue, IssueCode};
use crate::kernel_name::canonical;

/// Whether a header is that of `--print-summary per-kernel`: launches are counted and not numbered.
pub(super) fn is_header(cells: &[String]) -> bool {
    let has = |name: &str| cells.iter().any(|cell| cell == name);
    ["Kernel Name", "Invocations", "Metric Name", "Average"]
        .into_iter()
        .all(has)
}

struct Columns {
    kernel: usize,
    block: Option<usize>,
    grid: Option<usize>,
    device: Option<usize>,
    compute_capability: Option<usize>,
    invocations: usize,
    section: Option<usize>,
    metric: usize,
    unit: usize,
    average: usize,
    width: usize,
}

impl Columns {
    fn from_header(table: &CsvText<'_>, place: &str) -> Result<Self, NcuError> {
        let need = |column: &'static str| {
            table.column(column).ok_or_else(|| NcuError::MissingColumn {
                place: place.to_owned(),
                column,
            })
        };
        Ok(Self {
            kernel: need("Kernel Name")?,
            block: table.column("Block Size"),
            grid: table.column("Grid Size"),
            device: table.column("Device"),
            compute_capability: table.column("CC"),
            invocations: need("Invocations")?,
            section: table.column("Section Name"),
            metric: need("Metric Name")?,
            unit: need("Metric Unit")?,
            average: need("Average")?,
            width: table.header.len(),
        })
    }
}

/// Each kernel becomes one launch that stands for all of its launches and has their mean values: `Minimum` and `Maximum` belong to
/// launches that cannot be separated any more.
pub(super) fn read(mut table: CsvText<'_>, sink: &mut Sink<'_>) -> Result<(), NcuError> {
    let columns = Columns::from_header(&table, sink.place)?;
    let mut kernels: Vec<[String; 4]> = Vec::new();
    let mut launches = 0;
    while let Some(row) = table.next_row() {
        let is_cut = row.cut_after.is_some_and(|byte| byte != b'"');
        if row.cells.len() != columns.width || is_cut {
            let issue = Issue::warning(IssueCode::NcuCutRow).with("line", row.line);
            sink.lose(issue.with("cells", row.cells.len()));
            continue;
        }
        let Some(count) = super::launch::parse_whole(&row.cells[columns.invocations]) else {
            let issue = Issue::warning(IssueCode::NcuBadLaunch).with("line", row.line);
            sink.lose(issue.with("column", "Invocations"));
            continue;
        };
        let cell = |at: Option<usize>| at.map_or(String::new(), |at| row.cells[at].clone());
        let key = [
            row.cells[columns.kernel].clone(),
            cell(columns.grid),
            cell(columns.block),
            cell(columns.device),
        ];
        let known = kernels.iter().position(|known| *known == key);
        let id = known.unwrap_or_else(|| {
            launches += count;
            kernels.push(key);
            kernels.len() - 1
        });
        let launch = sink.launch(summary_launch(&columns, &row, id as u64), row.line);
        read_metric(&columns, &row, launch, sink);
    }
    if kernels.is_empty() {
        sink.lose(Issue::warning(IssueCode::NcuNoRows));
    } else {
        let issue = Issue::info(IssueCode::NcuMeansOfLaunches).with("kernels", kernels.len());
        sink.lose(issue.with("launches", launches));
    }
    Ok(())
}

fn summary_launch(columns: &Columns, row: &Row, id: u64) -> ProfiledLaunch {
    let cell = |at: Option<usize>| at.map_or("", |at| row.cells[at].as_str());
    let kernel = row.cells[columns.kernel].clone();
    ProfiledLaunch {
        id,
        canonical: canonical(&kernel),
        kernel,
        device: cell(columns.device).parse().unwrap_or(0),
        compute_capability: cell(columns.compute_capability).to_owned(),
        grid: super::launch::parse_dimensions(cell(columns.grid)),
        block: super::launch::parse_dimensions(cell(columns.block)),
        ..ProfiledLaunch::default()
    }
}

fn read_metric(columns: &Columns, row: &Row, launch: usize, sink: &mut Sink<'_>) {
    let name = &row.cells[columns.metric];
    if name.is_empty() {
        sink.lose(Issue::warning(IssueCode::NcuNameless).with("line", row.line));
        return;
    }
    let printed_unit = &row.cells[columns.unit];
    let scaled = unit::base_unit(printed_unit);
    let cell = &row.cells[columns.average];
    let value = details::parse_value(cell, scaled.exponent, sink.notation);
    if details::is_suspect(&value, printed_unit) {
        let issue = Issue::warning(IssueCode::NcuBadValue).with("line", row.line);
        let issue = issue.with("metric", name.as_str());
        sink.lose(issue.with("cell", cell.as_str()));
    }
    let metric = sink.builder.metric(Metric {
        section: columns
            .section
            .map_or_else(String::new, |at| row.cells[at].clone()),
        label: String::new(),
        name: name.clone(),
        unit: scaled.base,
    });
    let reading = Reading {
        metric,
        value,
        printed_unit: printed_unit.clone(),
    };
    sink.reading(launch, reading, row.line);
}
