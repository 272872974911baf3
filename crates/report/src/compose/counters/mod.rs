//! Hardware counters of single launches: how much of the device each used, and what Nsight Compute advises.

pub mod csv;
pub mod sentences;

use llmprof_record::counters::{Counters, Value};
use llmprof_units::{Bytes, FlopsPerSecond, Nanos, format_significant};

use self::sentences as text;
use super::kernels::name;
use crate::analyzed::{CountedLaunch, CounterPoint, CountersAnalysis, percentages};
use crate::compose::kernel_report::sentences::{class, metric};
use crate::compose::kernels::sentences::hundredths;
use crate::document::{Align, Cell, Column, Document, Table};

/// Readings that a page has; `counters.json` has all.
const READINGS_MAX: usize = 5_000;

/// Adds launches and advice; `with_readings` says that there is room for all readings.
pub(super) fn add(
    document: &mut Document,
    counters: &Counters,
    analysis: &CountersAnalysis,
    with_readings: bool,
) {
    if analysis.launches.is_empty() {
        return;
    }
    let section = document.section("counters", "Launches with counters");
    section.paragraph(text::LAUNCHES);
    section.table(launches(analysis));
    let advice = advice(analysis);
    if !advice.rows.is_empty() {
        let section = document.section("ncu_advice", "Nsight Compute advice");
        section.paragraph(text::ADVICE);
        section.table(advice);
    }
    if with_readings {
        readings(document, counters);
    }
}

fn launches(analysis: &CountersAnalysis) -> Table {
    let has_timeline = analysis.joined.is_some();
    let mut headers = vec![
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Grid", Align::Right),
        ("Block", Align::Right),
        ("Class", Align::Left),
        ("Duration", Align::Right),
    ];
    if has_timeline {
        headers.push(("Mean on timeline", Align::Right));
    }
    headers.extend(percentages().map(|name| (metric(name), Align::Right)));
    headers.extend([
        ("DRAM traffic", Align::Right),
        ("Tensor-core rate", Align::Right),
        ("Tensor-core FLOP/B", Align::Right),
        ("FP32 rate", Align::Right),
        ("FP32 FLOP/B", Align::Right),
    ]);
    let columns = headers.into_iter().map(|(header, align)| Column {
        header: header.to_owned(),
        align,
    });
    let mut table = Table::sortable("launches", columns.collect());
    for (index, row) in analysis.launches.iter().enumerate() {
        table.row(launch(index + 1, row, has_timeline));
    }
    table.without_empty_columns()
}

fn launch(number: usize, row: &CountedLaunch, has_timeline: bool) -> Vec<Cell> {
    let mut cells = vec![
        Cell::number(number as f64, number),
        name(&row.kernel),
        size(row.grid),
        size(row.block),
        Cell::from(class(row.class)),
        row.duration_ns
            .map_or(Cell::Missing, |time| Cell::number(time.0 as f64, time)),
    ];
    if has_timeline {
        cells.push(row.timeline_mean_ns.map_or(Cell::Missing, |mean| {
            Cell::number(mean, Nanos(mean.round() as i64))
        }));
    }
    for (_, value) in &row.percentages {
        cells.push(value.map_or(Cell::Missing, |value| {
            Cell::number(value, format_args!("{value:.1} %"))
        }));
    }
    cells.push(row.dram_bytes.map_or(Cell::Missing, |bytes| {
        Cell::number(bytes.0 as f64, Bytes(bytes.0))
    }));
    for point in [row.tensor, row.fp32] {
        cells.extend(rate(point));
    }
    cells
}

/// Operations per second and per byte.
fn rate(point: Option<CounterPoint>) -> [Cell; 2] {
    let rate = point.map_or(Cell::Missing, |point| {
        Cell::number(point.flops_per_s, FlopsPerSecond(point.flops_per_s))
    });
    let intensity = point.and_then(|point| point.intensity);
    let intensity = intensity.map_or(Cell::Missing, |intensity| {
        Cell::number(intensity, hundredths(intensity))
    });
    [rate, intensity]
}

fn size(size: Option<[u32; 3]>) -> Cell {
    size.map_or(Cell::Missing, |[x, y, z]| {
        let all = f64::from(x) * f64::from(y) * f64::from(z);
        Cell::number(all, format_args!("{x} × {y} × {z}"))
    })
}

/// The rule of each launch that Nsight Compute expects the largest speedup of.
fn advice(analysis: &CountersAnalysis) -> Table {
    let columns = Column::all([
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Est. speedup", Align::Right),
        ("Rule", Align::Left),
        ("Advice", Align::Left),
    ]);
    let mut table = Table::sortable("launches", columns);
    for (index, row) in analysis.launches.iter().enumerate() {
        let Some(advice) = row.advice.as_ref() else {
            continue;
        };
        let Some(part) = advice.speedup_pct else {
            continue;
        };
        table.row([
            Cell::number(index as f64 + 1.0, index + 1),
            name(&row.kernel),
            Cell::number(part, format_args!("{part:.1} %")),
            Cell::from(advice.rule.as_str()),
            Cell::from(text::first_sentence(&advice.text)),
        ]);
    }
    table
}

/// Adds every reading that stands under a section of Nsight Compute, too many for a text. A raw page has none: its hundreds of
/// metrics are in the files.
fn readings(document: &mut Document, counters: &Counters) {
    let columns = Column::all([
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Section", Align::Left),
        ("Metric", Align::Left),
        ("Value", Align::Right),
        ("Unit", Align::Left),
    ]);
    let mut table = Table::sortable("readings", columns);
    let mut left_out = 0_u64;
    for (index, launch) in counters.launches.iter().enumerate() {
        for reading in &launch.readings {
            let Some(metric) = counters.describe(reading.metric) else {
                continue;
            };
            let value = match &reading.value {
                Value::Number(value) => Cell::number(*value, format_significant(*value)),
                Value::Text(text) => Cell::from(text.as_str()),
                Value::Absent => continue,
            };
            if metric.section.is_empty() {
                continue;
            }
            if table.rows.len() >= READINGS_MAX {
                left_out += 1;
                continue;
            }
            table.row([
                Cell::number(index as f64 + 1.0, index + 1),
                name(&launch.canonical),
                Cell::from(metric.section.as_str()),
                Cell::from(metric.name.as_str()),
                value,
                Cell::from(metric.unit.as_str()),
            ]);
        }
    }
    if table.rows.is_empty() {
        return;
    }
    let section = document.section("readings", "Readings by section");
    section.page_only = true;
    section.table(table);
    if left_out > 0 {
        section.paragraph(text::more_readings(left_out));
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::{CountersBuilder, Metric, ProfiledLaunch, Reading};

    use super::*;
    use crate::document::Block;
    use llmprof_analysis::counters::ClassRule;

    fn counters() -> Counters {
        let mut builder = CountersBuilder::default();
        let metric = builder.metric(Metric {
            section: "Occupancy".to_owned(),
            label: String::new(),
            name: "Achieved Occupancy".to_owned(),
            unit: "%".to_owned(),
        });
        let raw = builder.metric(Metric {
            section: String::new(),
            label: String::new(),
            name: "sm__cycles_active.avg".to_owned(),
            unit: String::new(),
        });
        let reading = |metric, value| Reading {
            metric,
            value: Value::Number(value),
            printed_unit: String::new(),
        };
        builder.counters.launches.push(ProfiledLaunch {
            canonical: "gemm".to_owned(),
            grid: Some([7, 2, 1]),
            readings: vec![reading(metric, 14.15), reading(raw, 99.0)],
            ..ProfiledLaunch::default()
        });
        builder.counters
    }

    #[test]
    fn launches_have_the_columns_that_were_read() {
        let counters = counters();
        let analysis = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
        let mut document = Document::default();
        add(&mut document, &counters, &analysis, true);
        let keys: Vec<&str> = document.sections.iter().map(|s| s.key.as_str()).collect();
        assert_eq!(keys, ["counters", "readings"], "no rule, no advice");
        let Block::Table(table) = &document.sections[0].blocks[1] else {
            panic!("{document:?}")
        };
        let headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
        assert_eq!(
            headers,
            ["#", "Kernel", "Grid", "Class", "Achieved occupancy"]
        );
        let cells: Vec<&str> = table.rows[0].cells.iter().map(Cell::text).collect();
        assert_eq!(cells, ["1", "gemm", "7 × 2 × 1", "unknown", "14.2 %"]);
        assert!(document.sections[1].page_only);
        let Block::Table(readings) = &document.sections[1].blocks[0] else {
            panic!("{document:?}")
        };
        // Of the raw page there are too many.
        assert_eq!(readings.rows.len(), 1);
        assert_eq!(readings.rows[0].cells[3].text(), "Achieved Occupancy");
        let none =
            CountersAnalysis::from_counters(&Counters::default(), None, None, ClassRule::default());
        let mut empty = Document::default();
        add(&mut empty, &Counters::default(), &none, true);
        assert!(empty.sections.is_empty());
    }
}
