//! Hardware counters of single launches: how much of the device each used, and what their profiler advises.

use llmprof_analysis::counters::{CountersAnalysis, LaunchRow, Point, percentages};
use llmprof_record::counters::{Counters, Value};
use llmprof_record::kernel_name::brief;
use llmprof_units::{Bytes, Count, FlopsPerSecond, Nanos, significant};

use crate::{
    Align, Column, Document,
    view::{Cell, OperatorTable, Part, Section},
};

/// Names of kernels are cut to this many characters.
const LONGEST_NAME: usize = 90;
/// Readings that a page has; `counters.json` has all.
const MOST_READINGS: usize = 5_000;

/// What counters say, in a sentence.
pub fn conclusion(found: &CountersAnalysis) -> String {
    let total: Nanos = found
        .launches
        .iter()
        .filter_map(|row| row.duration_ns)
        .sum();
    let launches = Count(found.launches.len() as u64, "launch");
    let joined = found
        .joined
        .map(|joined| format!("; {joined} of them with a kernel of the same name on the timeline"));
    format!(
        "{launches} with counters, {total} together, measured with cold caches{}.",
        joined.unwrap_or_default()
    )
}

/// The sections of a report: launches, and what to change.
pub fn sections(found: &CountersAnalysis) -> Vec<Section> {
    if found.launches.is_empty() {
        return Vec::new();
    }
    let mut note = Document::new("");
    note.paragraph(
        "One row a launch, in the order of the file. Durations are those of the profiler of counters, which empties caches and fixes the \
         clock unless it is told otherwise: on a timeline the same kernels take less. Percentages are of what a unit can sustain.",
    );
    let mut sections = vec![Section::new(
        "Launches with counters",
        vec![Part::Document(note), Part::Operators(launches(found))],
    )];
    sections.extend(advice(found));
    sections
}

fn launches(found: &CountersAnalysis) -> OperatorTable {
    let has_timeline = found.joined.is_some();
    let mut headers = vec![
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Grid", Align::Right),
        ("Block", Align::Right),
        ("Duration", Align::Right),
    ];
    if has_timeline {
        headers.push(("Mean on the timeline", Align::Right));
    }
    headers.extend(percentages().map(|name| (spoken(name), Align::Right)));
    headers.extend([
        ("DRAM", Align::Right),
        ("Matrix units", Align::Right),
        ("FLOP/B", Align::Right),
        ("f32", Align::Right),
        ("FLOP/B", Align::Right),
    ]);
    let columns = headers.into_iter().map(|(header, align)| Column {
        header: header.to_owned(),
        align,
    });
    let rows = found.launches.iter().enumerate();
    OperatorTable {
        title: "launches".to_owned(),
        columns: columns.collect(),
        rows: rows
            .map(|(index, row)| launch(index + 1, row, has_timeline))
            .collect(),
    }
    .without_empty_columns()
}

fn launch(number: usize, row: &LaunchRow, has_timeline: bool) -> Vec<Cell> {
    let mut cells = vec![
        Cell::number(number as f64, number),
        Cell::from(brief(&row.kernel, LONGEST_NAME)),
        size(row.grid),
        size(row.block),
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
        Cell::number(bytes as f64, Bytes(bytes))
    }));
    for point in [row.tensor, row.fp32] {
        cells.extend(rate(point));
    }
    cells
}

/// Operations per second and per byte.
fn rate(point: Option<Point>) -> [Cell; 2] {
    let rate = point.map_or(Cell::Missing, |point| {
        Cell::number(point.flops_per_s, FlopsPerSecond(point.flops_per_s))
    });
    let intensity = point.and_then(|point| point.intensity);
    let intensity = intensity.map_or(Cell::Missing, |intensity| {
        Cell::number(intensity, significant(intensity))
    });
    [rate, intensity]
}

fn size(size: Option<[u32; 3]>) -> Cell {
    size.map_or(Cell::Missing, |[x, y, z]| {
        let all = f64::from(x) * f64::from(y) * f64::from(z);
        Cell::number(all, format_args!("{x} × {y} × {z}"))
    })
}

/// A percentage as a header.
fn spoken(name: &'static str) -> &'static str {
    match name {
        "sm_throughput_pct" => "SM throughput",
        "dram_throughput_pct" => "DRAM throughput",
        "l2_throughput_pct" => "L2 throughput",
        "achieved_occupancy_pct" => "Occupancy",
        other => other,
    }
}

/// What the profiler advises for each launch that it expects to become faster.
fn advice(found: &CountersAnalysis) -> Option<Section> {
    let columns = Column::all([
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Would go", Align::Right),
        ("Rule", Align::Left),
        ("Advice", Align::Left),
    ]);
    let rows = found
        .launches
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let advice = row.advice.as_ref()?;
            let part = advice.speedup_pct?;
            Some(vec![
                Cell::number(index as f64 + 1.0, index + 1),
                Cell::from(brief(&row.kernel, LONGEST_NAME)),
                Cell::number(part, format_args!("{part:.1} %")),
                Cell::from(advice.rule.as_str()),
                Cell::from(advice.text.replace('\n', " ")),
            ])
        });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let mut note = Document::new("");
    note.paragraph(
        "For each launch the rule that its profiler expects most of, and the part of the kernel's time that would go, by the profiler's \
         own estimate: what many small kernels lack is often work, not another setting.",
    );
    let table = OperatorTable {
        title: "launches".to_owned(),
        columns,
        rows,
    };
    let parts = vec![Part::Document(note), Part::Operators(table)];
    Some(Section::new("Advice of Nsight Compute", parts))
}

/// Every reading that stands under a heading of its profiler, too many for a text. A raw page has none: its hundreds of metrics
/// are in the files.
pub fn readings(counters: &Counters) -> Option<Section> {
    let mut rows = Vec::new();
    let mut left_out = 0_u64;
    for (index, launch) in counters.launches.iter().enumerate() {
        for reading in &launch.readings {
            let Some(metric) = counters.describe(reading.metric) else {
                continue;
            };
            let value = match &reading.value {
                Value::Number(value) => Cell::number(*value, significant(*value)),
                Value::Text(text) => Cell::from(text.as_str()),
                Value::Absent => continue,
            };
            if metric.section.is_empty() {
                continue;
            }
            if rows.len() >= MOST_READINGS {
                left_out += 1;
                continue;
            }
            rows.push(vec![
                Cell::number(index as f64 + 1.0, index + 1),
                Cell::from(brief(&launch.canonical, LONGEST_NAME)),
                Cell::from(metric.section.as_str()),
                Cell::from(metric.name.as_str()),
                value,
                Cell::from(metric.unit.as_str()),
            ]);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let columns = Column::all([
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Section", Align::Left),
        ("Metric", Align::Left),
        ("Value", Align::Right),
        ("Unit", Align::Left),
    ]);
    let mut parts = vec![Part::Operators(OperatorTable {
        title: "readings".to_owned(),
        columns,
        rows,
    })];
    if left_out > 0 {
        let mut note = Document::new("");
        note.paragraph(format!(
            "{} more are in `counters.json`.",
            Count(left_out, "reading")
        ));
        parts.push(Part::Document(note));
    }
    Some(Section::new("Readings by section", parts))
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::{CountersBuilder, Metric, ProfiledLaunch, Reading};

    use super::*;

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
        let found = CountersAnalysis::of(&counters, None);
        let sections = sections(&found);
        assert_eq!(sections.len(), 1, "no rule, no advice");
        let [_, Part::Operators(table)] = sections[0].parts.as_slice() else {
            panic!("{sections:?}")
        };
        let headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
        assert_eq!(headers, ["#", "Kernel", "Grid", "Occupancy"]);
        let cells: Vec<&str> = table.rows[0].iter().map(Cell::text).collect();
        assert_eq!(cells, ["1", "gemm", "7 × 2 × 1", "14.2 %"]);
        let Some(Part::Operators(readings)) = readings(&counters).map(|s| s.parts[0].clone())
        else {
            panic!("a table")
        };
        // Of the raw page there are too many.
        assert_eq!(readings.rows.len(), 1);
        assert_eq!(readings.rows[0][3].text(), "Achieved Occupancy");
        let none = CountersAnalysis::of(&Counters::default(), None);
        assert!(super::sections(&none).is_empty());
    }
}
