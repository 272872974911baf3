//! Modules as an icicle and a heat map of layers, source lines of host-bound time, GEMMs by shape.

mod sentences;

use std::collections::{BTreeMap, BTreeSet};

use llmprof_units::{BytesPerSecond, FlopsPerSecond, Nanos, Percent};

use self::sentences as text;
use crate::analyzed::{Analysis, OriginRow, ShapeRow, TraceAnalysis};
use crate::compose::kernels::sentences::hundredths;
use crate::document::{Align, Cell, Column, Document, Drawing, Table};
use crate::view::{HeatMap, Icicle, IciclePart, Unit};

/// Levels of modules, ops in a heat map, rows of a text.
const MODULE_DEPTH_MAX: usize = 10;
const OPS_MAX: usize = 10;
const ROWS_IN_TEXT: usize = 15;
/// Idle time below one part in so many of the device's span needs no table.
const NOTICED_PART: i64 = 20;

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return;
    };
    let tree = ModuleNode::from_rows(&timeline.attribution);
    if !tree.children.is_empty() {
        let section = document.section("modules", "Modules");
        section.paragraph(text::basis(
            Nanos(tree.time),
            timeline.totals.device_time_ns,
        ));
        section.chart("modules", Drawing::Icicle(icicle(&tree)));
        if let Some(map) = heat_map(&timeline.attribution) {
            section.chart("layers", Drawing::HeatMap(map));
        }
    }
    gemms(document, timeline);
    let idle: i64 = timeline
        .devices
        .iter()
        .map(|device| device.total.idle_ns.0)
        .sum();
    let span = timeline.totals.device_span_ns.0;
    if !timeline.source_lines.is_empty() && idle.saturating_mul(NOTICED_PART) > span {
        let listed: i64 = timeline.source_lines.iter().map(|row| row.idle_ns.0).sum();
        let section = document.section("source_lines", "GPU idle by Python function");
        section.paragraph(text::source_basis(Nanos(listed)));
        let columns = Column::all([
            ("Function", Align::Left),
            ("GPU idle", Align::Right),
            ("Share", Align::Right),
            ("Gaps", Align::Right),
        ]);
        let mut table = Table::sortable("functions", columns);
        table.rows_in_text = ROWS_IN_TEXT;
        for row in &timeline.source_lines {
            let share = row.idle_ns.0 as f64 / listed.max(1) as f64;
            table.push(
                None,
                vec![
                    Cell::Text(row.function.clone()),
                    number(row.idle_ns.0 as f64, row.idle_ns.to_string()),
                    number(share, Percent(share).to_string()),
                    number(row.gaps as f64, row.gaps.to_string()),
                ],
            );
        }
        section.table(table);
    }
}

fn number(value: f64, text: String) -> Cell {
    Cell::Number { value, text }
}

/// A module with what was launched inside it.
#[derive(Default)]
struct ModuleNode {
    time: i64,
    /// In the order of names, numbers as numbers.
    children: BTreeMap<(String, u64), ModuleNode>,
}

impl ModuleNode {
    fn from_rows(rows: &[OriginRow]) -> Self {
        let mut root = Self::default();
        for row in rows {
            let Some(path) = &row.module else { continue };
            root.time = root.time.saturating_add(row.total_ns.0);
            let mut at = &mut root;
            for name in path.split('/').take(MODULE_DEPTH_MAX) {
                at = at.children.entry(numbered(name)).or_default();
                at.time = at.time.saturating_add(row.total_ns.0);
            }
        }
        root
    }
}

/// `Linear_12` and `layers.12` in the order of their numbers.
fn numbered(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = &name[stem.len()..];
    let is_plain = number == "0" || !number.starts_with('0');
    match number.parse() {
        Ok(number) if is_plain && number < u64::MAX => (stem.to_owned(), number),
        _ => (name.to_owned(), u64::MAX),
    }
}

fn named((stem, number): &(String, u64)) -> String {
    if *number == u64::MAX {
        stem.clone()
    } else {
        format!("{stem}{number}")
    }
}

fn icicle(tree: &ModuleNode) -> Icicle {
    let mut parts = Vec::new();
    lay_out(tree, 0, 0.0, "", &mut parts);
    Icicle {
        title: text::icicle().to_owned(),
        unit: Unit::Nanoseconds,
        parts,
    }
}

fn lay_out(node: &ModuleNode, depth: usize, start: f64, path: &str, parts: &mut Vec<IciclePart>) {
    let mut at = start;
    for (key, child) in &node.children {
        let name = named(key);
        let whole = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}/{name}")
        };
        parts.push(IciclePart {
            name,
            path: whole.clone(),
            depth,
            start: at,
            value: child.time as f64,
        });
        lay_out(child, depth + 1, at, &whole, parts);
        at += child.time as f64;
    }
}

/// The class whose calls are the layers: of those with several numbers, the one that holds the most time, the outermost of equal ones.
fn layer_class(rows: &[OriginRow]) -> Option<String> {
    let mut classes: BTreeMap<String, (i64, usize, BTreeSet<u64>)> = BTreeMap::new();
    for row in rows {
        let Some(path) = &row.module else { continue };
        for (depth, name) in path.split('/').enumerate() {
            let (class, number) = numbered(name);
            let (time, depths, numbers) =
                classes.entry(class).or_insert((0, depth, BTreeSet::new()));
            *time = time.saturating_add(row.total_ns.0);
            *depths = (*depths).min(depth);
            numbers.insert(number);
        }
    }
    let several = classes
        .into_iter()
        .filter(|(_, (.., numbers))| numbers.len() > 1);
    let best = several.max_by_key(|(_, (time, depth, _))| (*time, std::cmp::Reverse(*depth)));
    best.map(|(class, _)| class)
}

/// Ops by layers; nothing where no class of modules has several calls.
fn heat_map(rows: &[OriginRow]) -> Option<HeatMap> {
    let class = layer_class(rows)?;
    let mut cells: BTreeMap<(&str, u64), i64> = BTreeMap::new();
    let mut ops: BTreeMap<&str, i64> = BTreeMap::new();
    for row in rows {
        let (Some(path), Some(op)) = (&row.module, &row.operator) else {
            continue;
        };
        let layer = path
            .split('/')
            .map(numbered)
            .find(|(name, _)| *name == class);
        let Some((_, number)) = layer else { continue };
        *cells.entry((op, number)).or_default() += row.total_ns.0;
        *ops.entry(op).or_default() += row.total_ns.0;
    }
    let mut names: Vec<(&str, i64)> = ops.into_iter().collect();
    names.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    names.truncate(OPS_MAX);
    let mut layers: Vec<u64> = cells.keys().map(|(_, layer)| *layer).collect();
    layers.sort_unstable();
    layers.dedup();
    if layers.len() < 2 {
        return None;
    }
    let row_of = |op: &str| {
        layers
            .iter()
            .map(|layer| cells.get(&(op, *layer)).map(|time| *time as f64))
            .collect()
    };
    Some(HeatMap {
        title: text::heat_map(&class),
        unit: Unit::Nanoseconds,
        keys: [class.clone(), "op".to_owned()],
        columns: layers.iter().map(u64::to_string).collect(),
        rows: names.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cells: names.iter().map(|(name, _)| row_of(name)).collect(),
    })
}

/// GEMMs that launched kernels, by shape.
fn gemms(document: &mut Document, timeline: &TraceAnalysis) {
    let shapes = timeline.operators.iter().flat_map(|operator| {
        operator
            .shapes
            .iter()
            .map(move |shape| (&operator.name, shape))
    });
    let mut rows: Vec<(&String, &ShapeRow)> = shapes
        .filter(|(_, shape)| {
            shape.cost.is_some_and(|cost| cost.gemm.is_some()) && shape.times.device_self_ns.0 > 0
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|(name, shape)| (std::cmp::Reverse(shape.times.device_total_ns), *name));
    let headers = [
        "Op",
        "Dtype",
        "B",
        "M",
        "N",
        "K",
        "Calls",
        "Time",
        "Per call",
        "FLOP/s",
        "B/s",
        "FLOP/B",
        "% of roofline",
    ];
    let column = |(index, header): (usize, &&str)| Column {
        header: (*header).to_owned(),
        align: if index < 2 { Align::Left } else { Align::Right },
    };
    let mut table = Table::sortable(
        "GEMM shapes",
        headers.iter().enumerate().map(column).collect(),
    );
    table.rows_in_text = ROWS_IN_TEXT;
    for (name, shape) in rows {
        table.push(None, gemm_cells(name, shape));
    }
    let section = document.section("gemms", "GEMM shapes");
    section.table(table);
    section.paragraph(text::gemm_basis());
}

fn gemm_cells(name: &str, shape: &ShapeRow) -> Vec<Cell> {
    let whole = |count: u64| number(count as f64, count.to_string());
    let cost = shape.cost;
    let gemm = cost.and_then(|cost| cost.gemm).unwrap_or_default();
    let work = shape.work;
    let per_call = shape.times.device_total_ns.0 as f64 / shape.times.calls.max(1) as f64;
    let intensity = cost.map(|cost| cost.flops.0 as f64 / cost.bytes.0.max(1) as f64);
    let known = |value: Option<f64>, text: fn(f64) -> String| {
        value.map_or(Cell::Missing, |value| number(value, text(value)))
    };
    vec![
        Cell::event(name),
        cost.map_or(Cell::Missing, |cost| Cell::Text(cost.dtype.to_string())),
        whole(gemm.batch),
        whole(gemm.m),
        whole(gemm.n),
        whole(gemm.k),
        whole(shape.times.calls),
        number(
            shape.times.device_total_ns.0 as f64,
            shape.times.device_total_ns.to_string(),
        ),
        number(per_call, Nanos(per_call.round() as i64).to_string()),
        known(work.and_then(|work| work.flops_per_s), |rate| {
            FlopsPerSecond(rate).to_string()
        }),
        known(work.and_then(|work| work.bytes_per_s), |rate| {
            BytesPerSecond(rate).to_string()
        }),
        known(intensity, hundredths),
        known(work.and_then(|work| work.roofline), |part| {
            Percent(part).to_string()
        }),
    ]
}
