//! Kernels by their counters: classes, rooflines at each memory level, one entry per kernel, histograms.

pub mod csv;
pub mod sentences;

use std::collections::{BTreeMap, BTreeSet};

use llmprof_analysis::counters::percentages;
use llmprof_record::counters::{Level, Pipe};
use llmprof_theory::device::{Catalog, Device, Engine};
use llmprof_units::{Basis, Bytes, Nanos, Percent};
use schemars::JsonSchema;
use serde::Serialize;

use self::sentences as text;
use super::kernels::name;
use crate::analyzed::{Advice, CountedLaunch, CountersAnalysis};
use crate::document::{Align, Cell, Column, Document, Drawing, Table};
use crate::kernel_label::kernel_label;
use crate::view::{Histogram, PlottedOperator, Roofline, RooflineCeiling, RooflineTitles, Unit};

/// Kernels with an entry and a roofline of their own.
const KERNELS_MAX: usize = 20;

/// What a user says of a kernel: `kernel-info.yaml`, joined by canonical name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct KernelNote {
    /// Name for people.
    pub friendly_name: Option<String>,
    /// Library that has the kernel.
    pub source_lib: Option<String>,
    /// Each with its kind: `tiled (32, 128), (128, 32) → (32, 32)`.
    pub data_shape: Vec<String>,
    /// What the kernel does.
    pub description: Option<String>,
}

/// Notes by canonical kernel name.
pub type KernelNotes = BTreeMap<String, KernelNote>;

/// Adds everything that follows from counters.
pub fn add(
    document: &mut Document,
    analysis: &CountersAnalysis,
    device: Option<&Device>,
    notes: &KernelNotes,
) {
    if analysis.launches.is_empty() {
        return;
    }
    let inferred = match device {
        Some(_) => None,
        None => analysis
            .device
            .as_deref()
            .and_then(|name| Catalog::embedded().by_name(name).ok()),
    };
    let device = device.or(inferred.as_ref());
    let rows = ranked(analysis);
    all_kernels(document, analysis, &rows, notes);
    classes(document, analysis);
    let points: Vec<PlottedOperator> = rows
        .iter()
        .enumerate()
        .flat_map(|(rank, row)| points(row, entry_key(rank).as_deref()))
        .collect();
    if !points.is_empty() {
        let normalized = normalized(&rows);
        let title = titles("Kernels under the roofline, by memory level");
        let chart = roofline(&analysis.launches.iter(), device, title, points);
        let section = document.section("kernel_roofline", "Kernel rooflines");
        section.paragraph(text::ROOFLINE);
        section.chart("kernel_roofline", Drawing::Roofline(chart));
        if !normalized.points.is_empty() {
            section.paragraph(text::NORMALIZED);
            section.chart("kernel_roofline_normalized", Drawing::Roofline(normalized));
        }
    }
    against_model(document, analysis);
    entries(document, &rows, device, notes);
    histograms(document, analysis);
}

/// The kernels with the most time first.
fn ranked(analysis: &CountersAnalysis) -> Vec<&CountedLaunch> {
    let mut rows: Vec<&CountedLaunch> = analysis.launches.iter().collect();
    rows.sort_by(|a, b| b.weight_ns().total_cmp(&a.weight_ns()));
    rows
}

/// The key of the kernel's entry, where it has one.
fn entry_key(rank: usize) -> Option<String> {
    (rank < KERNELS_MAX).then(|| format!("kernel-{}", rank + 1))
}

fn share_of(row: &CountedLaunch, total: f64) -> f64 {
    if total > 0.0 {
        row.weight_ns() / total
    } else {
        0.0
    }
}

fn title_of(row: &CountedLaunch, notes: &KernelNotes) -> String {
    let note = notes.get(&row.kernel);
    note.and_then(|note| note.friendly_name.clone())
        .unwrap_or_else(|| kernel_label(&row.kernel))
}

/// One row a kernel: what limits it, its time, and how busy it kept the device.
fn all_kernels(
    document: &mut Document,
    analysis: &CountersAnalysis,
    rows: &[&CountedLaunch],
    notes: &KernelNotes,
) {
    let section = document.section("all_kernels", "All profiled kernels");
    section.paragraph(text::device(analysis));
    let columns = Column::all([
        ("#", Align::Right),
        ("Kernel", Align::Left),
        ("Class", Align::Left),
        ("Time", Align::Right),
        ("Share", Align::Right),
        ("SM", Align::Right),
        ("FLOP rate", Align::Right),
        ("DRAM", Align::Right),
        ("Occupancy", Align::Right),
    ]);
    let total: f64 = rows.iter().map(|row| row.weight_ns()).sum();
    let percent = |value: Option<f64>| {
        value.map_or(Cell::Missing, |value| {
            Cell::number(value, Percent(value / 100.0))
        })
    };
    let mut table = Table::sortable("kernels", columns);
    for (rank, row) in rows.iter().enumerate() {
        let time = Nanos(row.weight_ns().round() as i64);
        let share = share_of(row, total);
        table.row([
            Cell::number((rank + 1) as f64, rank + 1),
            match entry_key(rank) {
                Some(key) => Cell::Link {
                    label: title_of(row, notes),
                    href: format!("#{key}"),
                },
                None => Cell::from(title_of(row, notes)),
            },
            Cell::from(text::class(row.class)),
            Cell::number(time.0 as f64, time),
            Cell::number(share, Percent(share)),
            percent(row.used.sm_pct),
            percent(row.used.flops_pct),
            percent(row.used.dram_pct),
            percent(row.percentage("achieved_occupancy_pct")),
        ]);
    }
    section.table(table);
}

/// Parts of peak over parts of bandwidth: one ridge for all formats and memory levels.
fn normalized(rows: &[&CountedLaunch]) -> Roofline {
    let mut drawn = Vec::new();
    for (rank, row) in rows.iter().enumerate() {
        let Some(flops) = row.used.flops_pct.filter(|flops| *flops > 0.0) else {
            continue;
        };
        let levels = [
            (Level::Dram, row.used.dram_pct),
            (Level::L2, row.used.l2_pct),
            (Level::L1, row.used.l1_pct),
        ];
        for (level, share) in levels {
            let Some(share) = share.filter(|share| *share > 0.0) else {
                continue;
            };
            drawn.push(PlottedOperator {
                label: kernel_label(&row.kernel),
                kind: text::class(row.class).to_owned(),
                phase: text::level(level).to_owned(),
                intensity: flops / share,
                flops_per_s: llmprof_units::FlopsPerSecond(flops / 100.0),
                time_ns: Nanos(row.weight_ns().round() as i64),
                calls: row.launches.unwrap_or(1),
                anchor: entry_key(rank),
            });
        }
    }
    let titles = RooflineTitles {
        title: "Kernels under the normalized roofline".to_owned(),
        intensity: "arithmetic intensity ÷ ridge point of format and memory level".to_owned(),
        shapes: "memory level",
        colors: "class",
        is_normalized: true,
    };
    Roofline {
        titles: Some(titles),
        roofs: vec![RooflineCeiling {
            label: "peak, bandwidth".to_owned(),
            peak_flops_per_s: llmprof_units::FlopsPerSecond(1.0),
            bandwidth: llmprof_units::BytesPerSecond(1.0),
            basis: Basis::Derived,
            is_own: true,
        }],
        points: drawn,
        own_lacks_peak: false,
    }
}

fn titles(title: &str) -> RooflineTitles {
    RooflineTitles {
        title: title.to_owned(),
        intensity: "arithmetic intensity (FLOPs per byte that the level moved)".to_owned(),
        shapes: "memory level",
        colors: "class",
        is_normalized: false,
    }
}

fn classes(document: &mut Document, analysis: &CountersAnalysis) {
    let section = document.section("kernel_classes", "Kernel classes");
    section.paragraph(text::rule(analysis));
    if let Some(covered) = text::covered(analysis) {
        section.paragraph(covered);
    }
    let columns = Column::all([
        ("Class", Align::Left),
        ("Kernels", Align::Right),
        ("Share of time", Align::Right),
    ]);
    let mut table = Table::sortable("classes", columns);
    for (class, count, share) in text::classes(analysis) {
        table.row([
            Cell::from(text::class(class)),
            Cell::number(count as f64, count),
            Cell::number(share, Percent(share)),
        ]);
    }
    section.table(table);
}

/// Counted work and traffic of one decode step beside the model's.
fn against_model(document: &mut Document, analysis: &CountersAnalysis) {
    if analysis.against_model.is_empty() {
        return;
    }
    let section = document.section("counters_against_model", "Counters beside the model");
    section.paragraph(text::AGAINST_MODEL);
    let columns = Column::all([
        ("Kind", Align::Left),
        ("DRAM bytes counted", Align::Right),
        ("Model", Align::Right),
        ("Ratio", Align::Right),
        ("FLOPs counted", Align::Right),
        ("Model", Align::Right),
        ("Ratio", Align::Right),
    ]);
    let mut table = Table::sortable("kinds", columns);
    let ratio = |ratio: Option<f64>| {
        ratio.map_or(Cell::Missing, |ratio| {
            Cell::number(ratio, format_args!("{ratio:.3}"))
        })
    };
    for row in &analysis.against_model {
        table.row([
            Cell::from(row.kind.as_str()),
            Cell::number(row.counted_bytes.0 as f64, row.counted_bytes),
            Cell::number(row.model_bytes.0 as f64, row.model_bytes),
            ratio(row.bytes_ratio),
            Cell::number(row.counted_flops.0 as f64, row.counted_flops),
            Cell::number(row.model_flops.0 as f64, row.model_flops),
            ratio(row.flops_ratio),
        ]);
    }
    section.table(table);
}

/// A kernel once for every level that it moved bytes of; none where a pipe that it used has no ceiling to stand under.
fn points(row: &CountedLaunch, anchor: Option<&str>) -> Vec<PlottedOperator> {
    let flops: f64 = row.pipes.iter().map(|rate| rate.flops_per_s.0).sum();
    let levels = row.levels.iter().filter(|level| level.bytes_per_s.0 > 0.0);
    levels
        .filter(|_| flops > 0.0 && !row.used.lacks_peak)
        .map(|level| PlottedOperator {
            label: kernel_label(&row.kernel),
            kind: text::class(row.class).to_owned(),
            phase: text::level(level.level).to_owned(),
            intensity: flops / level.bytes_per_s.0,
            flops_per_s: llmprof_units::FlopsPerSecond(flops),
            time_ns: Nanos(row.weight_ns().round() as i64),
            calls: row.launches.unwrap_or(1),
            anchor: anchor.map(str::to_owned),
        })
        .collect()
}

/// The ceilings that counters state at the clock of the measurement, and the datasheet's.
fn roofs<'a>(
    rows: &(impl Iterator<Item = &'a CountedLaunch> + Clone),
    device: Option<&Device>,
) -> Vec<RooflineCeiling> {
    let mut roofs: Vec<RooflineCeiling> = Vec::new();
    let used: BTreeMap<String, (Pipe, &str)> = rows
        .clone()
        .flat_map(|row| &row.pipes)
        .map(|rate| {
            let label = text::pipe_of(rate.pipe, &rate.format);
            (label, (rate.pipe, rate.format.as_str()))
        })
        .collect();
    // Peaks follow the clock, which differs from launch to launch: the highest is drawn.
    for (label, (pipe, format)) in used {
        let mut peak: f64 = 0.0;
        for rate in rows.clone().flat_map(|row| &row.pipes) {
            if rate.pipe == pipe && rate.format == format {
                peak = peak.max(rate.peak_flops_per_s.map_or(0.0, |peak| peak.0));
            }
        }
        let mut levels: BTreeMap<_, f64> = BTreeMap::new();
        for level in rows.clone().flat_map(|row| &row.levels) {
            let bandwidth = level.peak_bytes_per_s.map_or(0.0, |peak| peak.0);
            let most = levels.entry(level.level).or_default();
            *most = most.max(bandwidth);
        }
        roofs.extend(
            levels
                .into_iter()
                .map(|(level, bandwidth)| RooflineCeiling {
                    label: format!("{label}, {}", text::level(level)),
                    peak_flops_per_s: llmprof_units::FlopsPerSecond(peak),
                    bandwidth: llmprof_units::BytesPerSecond(bandwidth),
                    basis: Basis::Derived,
                    is_own: true,
                }),
        );
    }
    for peak in device.iter().flat_map(|device| &device.peaks) {
        let is_used = rows.clone().flat_map(|row| &row.pipes).any(|rate| {
            (rate.pipe == Pipe::Tensor) == (peak.engine == Engine::Tensor)
                && same_format(&rate.format, &peak.dtype.to_string())
        });
        if let (true, Some(device)) = (is_used, device) {
            roofs.push(RooflineCeiling {
                label: format!("{} {}, DRAM", peak.engine, peak.dtype),
                peak_flops_per_s: peak.dense_flops_per_s,
                bandwidth: device.memory_bandwidth(),
                basis: Basis::Datasheet,
                is_own: false,
            });
        }
    }
    roofs.retain(|roof| roof.peak_flops_per_s.0 > 0.0 && roof.bandwidth.0 > 0.0);
    roofs
}

fn roofline<'a>(
    rows: &(impl Iterator<Item = &'a CountedLaunch> + Clone),
    device: Option<&Device>,
    titles: RooflineTitles,
    points: Vec<PlottedOperator>,
) -> Roofline {
    let roofs = roofs(rows, device);
    let has_own = |label: &str| {
        let mut own = roofs.iter().filter(|roof| roof.is_own);
        own.any(|roof| roof.unit_and_memory().0 == label)
    };
    let mut used = rows.clone().flat_map(|row| &row.pipes);
    let own_lacks_peak = used
        .any(|rate| rate.flops_per_s.0 > 0.0 && !has_own(&text::pipe_of(rate.pipe, &rate.format)));
    Roofline {
        titles: Some(titles),
        roofs,
        points,
        own_lacks_peak,
    }
}

/// Counters say `fp32` where the rest of llmprof says `f32`.
fn same_format(counter: &str, dtype: &str) -> bool {
    counter == dtype || counter.strip_prefix("fp") == dtype.strip_prefix('f')
}

fn entries(
    document: &mut Document,
    rows: &[&CountedLaunch],
    device: Option<&Device>,
    notes: &KernelNotes,
) {
    let total: f64 = rows.iter().map(|row| row.weight_ns()).sum();
    let section = document.section("kernel_report", "Kernel report");
    section.paragraph(text::REPORT);
    if !notes.is_empty() {
        let kernels: BTreeSet<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
        let noted = kernels.iter().filter(|kernel| notes.contains_key(**kernel));
        section.paragraph(text::noted(noted.count(), kernels.len()));
    }
    let mut told = BTreeMap::new();
    for (rank, row) in rows.iter().take(KERNELS_MAX).enumerate() {
        let note = notes.get(&row.kernel);
        let label = title_of(row, notes);
        let share = share_of(row, total);
        let title = format!(
            "{}. {label}: {} ({} of profiled time)",
            rank + 1,
            text::class_of(row),
            Percent(share)
        );
        section.entry(entry_key(rank).unwrap_or_default(), title);
        let mut lines = Vec::new();
        lines.extend(what_it_is(row, note));
        lines.extend(text::evidence(row));
        let findings = row.findings.iter();
        lines.extend(findings.map(|finding| text::finding(row, finding)));
        if row.findings.is_empty() {
            lines.push(format!("Try: {}", text::launch_advice(row)));
        }
        let mut again: BTreeMap<usize, Vec<&Advice>> = BTreeMap::new();
        for rule in &row.rules {
            let key = (rule.rule.as_str(), text::without_numbers(&rule.text));
            let first = *told.entry(key).or_insert(rank);
            if first == rank {
                lines.push(text::rule_of_ncu(rule));
            } else {
                again.entry(first).or_default().push(rule);
            }
        }
        lines.extend(
            again
                .iter()
                .map(|(first, rules)| text::rules_as_for(*first + 1, rules)),
        );
        section.list(lines);
        let own = points(row, None);
        if !own.is_empty() {
            let chart = roofline(&std::iter::once(*row), device, titles(&label), own);
            section.chart(
                format!("kernel_roofline_{}", rank + 1),
                Drawing::Roofline(chart),
            );
        }
    }
}

fn what_it_is(row: &CountedLaunch, note: Option<&KernelNote>) -> Vec<String> {
    let class = llmprof_record::kernel_name::classify(&row.kernel);
    let library = note
        .and_then(|note| note.source_lib.clone())
        .unwrap_or_else(|| class.library.name().to_owned());
    let size = |size: Option<[u32; 3]>| {
        size.map_or_else(|| "?".to_owned(), |[x, y, z]| format!("{x} × {y} × {z}"))
    };
    let mut lines = vec![format!(
        "`{}` ({}, {library}), grid {}, block {}.",
        name(&row.kernel).text(),
        class.category.name(),
        size(row.grid),
        size(row.block)
    )];
    lines.extend(note.and_then(|note| note.description.clone()));
    lines.extend(note.and_then(|note| text::data_shape(&note.data_shape)));
    lines.extend(text::operators(&row.operators));
    lines
}

/// The metrics of which distributions are shown: the percentages, duration, DRAM bytes and bandwidth.
fn histograms(document: &mut Document, analysis: &CountersAnalysis) {
    let section = document.section("kernel_histograms", "Distributions over launches");
    section.page_only = true;
    let times: Vec<f64> = analysis
        .launches
        .iter()
        .filter_map(|row| Some(row.duration_ns?.0 as f64))
        .collect();
    let mut all = vec![("duration".to_owned(), Unit::Nanoseconds, times)];
    for metric in percentages() {
        let values = analysis
            .launches
            .iter()
            .filter_map(|row| row.percentage(metric));
        let shares = values.map(|percent| percent / 100.0).collect();
        all.push((metric.to_owned(), Unit::Fraction, shares));
    }
    let bytes = analysis.launches.iter();
    let bytes = bytes.filter_map(|row| Some(Bytes(row.dram_bytes?.0).0 as f64));
    all.push(("dram_bytes".to_owned(), Unit::Bytes, bytes.collect()));
    let rates = analysis.launches.iter().filter_map(|row| {
        let dram = row.levels.iter().find(|level| level.level == Level::Dram)?;
        Some(dram.bytes_per_s.0)
    });
    let rates = rates.collect();
    all.push(("dram_rate".to_owned(), Unit::BytesPerSecond, rates));
    for (metric, unit, values) in all {
        if values.is_empty() {
            continue;
        }
        let view = Histogram::from_values(text::histogram(&metric), unit, &values, Vec::new());
        section.chart(format!("histogram_{metric}"), Drawing::Histogram(view));
    }
}
