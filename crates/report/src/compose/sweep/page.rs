//! A sweep as a page: the table, heat maps over two keys, scaling curves over one.

use super::sentences as text;
use super::table::{self, SweepFigures, SweepRow};
use crate::{
    Document, Drawing,
    view::{Curves, HeatMap, PlottedCurve, Unit},
};

/// A number of a job, where it has it.
type Value = fn(&SweepFigures) -> Option<f64>;

/// What is drawn: key, name, unit, value.
const METRICS: [(&str, &str, Unit, Value); 3] = [
    ("tpot", "TPOT", Unit::Nanoseconds, |of| {
        Some(of.tpot_ns?.mean)
    }),
    ("ttft", "TTFT", Unit::Nanoseconds, |of| {
        Some(of.ttft_ns?.mean)
    }),
    ("tokens_per_s", "Tokens/s", Unit::Count, |of| {
        Some(of.tokens_per_s?.mean)
    }),
];

/// A key that differs between jobs, with its values in the order they first appear.
struct SweepAxis {
    key: String,
    values: Vec<String>,
}

impl SweepAxis {
    /// The values as numbers, where all are.
    fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(|value| value.parse().ok()).collect()
    }
}

/// `comparison.md` and `comparison.html`.
pub fn document(rows: &[SweepRow]) -> Document {
    let mut document = Document::new(text::TITLE);
    document.summary = table::summary(rows);
    document.table(table::page_table(rows));
    let common = table::common(rows);
    if !common.is_empty() {
        document.paragraph(text::common(&common));
    }
    document.paragraph(text::basis(table::has_energy(rows)));
    document.list(table::warnings(rows));
    let axes = axes(rows);
    if axes.iter().all(|axis| axis.values.len() < 2) {
        return document;
    }
    for (key, name, unit, value) in METRICS {
        let has = rows
            .iter()
            .any(|row| row.figures.as_ref().and_then(value).is_some());
        if !has {
            continue;
        }
        let curves = curves(rows, &axes, name, unit, value);
        let map = heat_map(rows, &axes, name, unit, value);
        if curves.is_none() && map.is_none() {
            continue;
        }
        let section = document.section(&format!("sweep_{key}"), name);
        if let Some(map) = map {
            section.chart(format!("heat_map_{key}"), Drawing::HeatMap(map));
        }
        if let Some(curves) = curves {
            section.chart(format!("scaling_{key}"), Drawing::Curves(curves));
        }
    }
    document
}

fn split(line: &str) -> Option<(&str, &str)> {
    line.trim_start_matches('+').split_once('=')
}

fn value_of<'r>(row: &'r SweepRow, key: &str) -> Option<&'r str> {
    let mut pairs = row.overrides.iter().filter_map(|line| split(line));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Keys with more than one value.
fn axes(rows: &[SweepRow]) -> Vec<SweepAxis> {
    let mut axes: Vec<SweepAxis> = Vec::new();
    for (key, value) in rows
        .iter()
        .flat_map(|row| &row.overrides)
        .filter_map(|line| split(line))
    {
        let at = axes.iter().position(|axis| axis.key == key);
        let at = at.unwrap_or_else(|| {
            axes.push(SweepAxis {
                key: key.to_owned(),
                values: Vec::new(),
            });
            axes.len() - 1
        });
        if !axes[at].values.iter().any(|known| known == value) {
            axes[at].values.push(value.to_owned());
        }
    }
    axes.retain(|axis| axis.values.len() > 1);
    axes
}

/// Two keys alone: with a third a cell would stand for several jobs.
fn heat_map(
    rows: &[SweepRow],
    axes: &[SweepAxis],
    name: &str,
    unit: Unit,
    value: Value,
) -> Option<HeatMap> {
    let [first, second] = axes else { return None };
    let cell = |row_value: &String, column: &String| {
        let job = rows.iter().find(|row| {
            value_of(row, &first.key) == Some(row_value)
                && value_of(row, &second.key) == Some(column)
        })?;
        job.figures.as_ref().and_then(value)
    };
    Some(HeatMap {
        title: format!("{name} by {} and {}", first.key, second.key),
        unit,
        keys: [second.key.clone(), first.key.clone()],
        columns: second.values.clone(),
        rows: first.values.clone(),
        cells: first
            .values
            .iter()
            .map(|row| {
                second
                    .values
                    .iter()
                    .map(|column| cell(row, column))
                    .collect()
            })
            .collect(),
    })
}

/// Along the numeric key with the most values; a line per combination of the others.
fn curves(
    rows: &[SweepRow],
    axes: &[SweepAxis],
    name: &str,
    unit: Unit,
    value: Value,
) -> Option<Curves> {
    let numeric = axes.iter().filter(|axis| axis.numbers().is_some());
    let along = numeric.max_by_key(|axis| axis.values.len())?;
    let mut lines: Vec<PlottedCurve> = Vec::new();
    for row in rows {
        let Some(figure) = row.figures.as_ref().and_then(value) else {
            continue;
        };
        let Some(at) = value_of(row, &along.key).and_then(|text| text.parse().ok()) else {
            continue;
        };
        let others = axes.iter().filter(|axis| axis.key != along.key);
        let label: Vec<String> = others
            .filter_map(|axis| Some(format!("{}={}", axis.key, value_of(row, &axis.key)?)))
            .collect();
        let label = label.join(" ");
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.points.push((at, figure)),
            None => lines.push(PlottedCurve {
                label,
                points: vec![(at, figure)],
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    (!lines.is_empty()).then(|| Curves {
        title: format!("{name} over {}", along.key),
        unit,
        key: along.key.clone(),
        lines,
    })
}
