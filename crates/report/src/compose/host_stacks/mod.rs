//! What the host did while no GPU was busy.

mod sentences;

use std::collections::BTreeMap;

use llmprof_analysis::Analysis;
use llmprof_analysis::host_stacks::{
    HostPlace, HostStacks, StackSource, analyze_host_stacks, flame_stacks,
};
use llmprof_record::{flame::FlameStack, trace::Trace};
use llmprof_units::{Nanos, Percent};

use self::sentences as text;
use crate::document::{Align, Cell, Column, Document, Drawing, Section, Table};
use crate::view::{Icicle, IciclePart, Unit};

/// Levels of calls that are drawn, from the outermost.
const DEPTH_MAX: usize = 40;
/// A part narrower than this share of the whole would not be seen.
const WIDTH_MIN: f64 = 0.002;
const ROWS_IN_TEXT: usize = 10;
/// Lines that are shown of a phase or range.
const PLACES_OF_PART_MAX: usize = 3;

pub(super) fn add(document: &mut Document, analysis: &Analysis, trace: Option<&Trace>) {
    let Some(trace) = trace else { return };
    let Some(host) = analyze_host_stacks(trace, &analysis.phases) else {
        return;
    };
    if host.idle.samples == 0 && host.whole.samples == 0 {
        return;
    }
    let section = document.section("host_stacks", "Host during GPU idle");
    section.paragraph(text::basis(&host));
    // Recorded functions have a table of their own for the whole trace.
    if host.source == StackSource::Sampled {
        add_places(section, &host);
    }
    add_parts(section, &host);
    add_gaps(section, &host);
    for (key, title, only_idle) in [
        ("host_idle_stacks", text::idle_flame(), true),
        ("host_stacks", text::whole_flame(), false),
    ] {
        let parts = lay_out_stacks(&flame_stacks(trace, only_idle));
        if !parts.is_empty() {
            let icicle = Icicle {
                title: title.to_owned(),
                unit: Unit::Nanoseconds,
                parts,
            };
            section.chart(key, Drawing::Icicle(icicle));
        }
    }
}

fn number(value: f64, text: String) -> Cell {
    Cell::Number { value, text }
}

fn time(nanos: Nanos) -> Cell {
    number(nanos.0 as f64, nanos.to_string())
}

/// What a table says of a place: what the thread did, where samples tell, and the line.
fn place_columns(source: StackSource) -> Vec<(&'static str, Align)> {
    let mut columns = vec![("Function", Align::Left), ("Line", Align::Left)];
    if source == StackSource::Sampled {
        columns.insert(0, ("Host thread", Align::Left));
    }
    columns.push(("Share", Align::Right));
    columns
}

fn place_cells(place: &HostPlace, source: StackSource) -> Vec<Cell> {
    let mut cells = vec![
        Cell::Text(text::function(place)),
        Cell::Text(text::line(place)),
    ];
    if source == StackSource::Sampled {
        cells.insert(0, Cell::Text(text::activity(place)));
    }
    cells.push(number(place.share, Percent(place.share).to_string()));
    cells
}

/// A table of places, each after what `first` says of the row.
fn place_table<'a>(
    noun: &str,
    source: StackSource,
    first: Vec<(&'static str, Align)>,
    rows: impl Iterator<Item = (Vec<Cell>, &'a HostPlace)>,
) -> Table {
    let columns = first.into_iter().chain(place_columns(source));
    let mut table = Table::sortable(noun, Column::all(columns));
    table.rows_in_text = ROWS_IN_TEXT;
    for (mut cells, place) in rows {
        cells.extend(place_cells(place, source));
        table.push(None, cells);
    }
    table
}

const IDLE: (&str, Align) = ("GPU idle", Align::Right);

fn add_places(section: &mut Section, host: &HostStacks) {
    let places = host.idle.places.iter();
    let rows = places.map(|place| (vec![time(place.time_ns)], place));
    section.table(place_table("lines", host.source, vec![IDLE], rows));
}

fn add_parts(section: &mut Section, host: &HostStacks) {
    if host.parts.is_empty() {
        return;
    }
    let part = if host.by_phase { "Phase" } else { "Range" };
    let rows = host.parts.iter().flat_map(|part| {
        let places = part.host.places.iter().take(PLACES_OF_PART_MAX);
        places.map(|place| {
            let name = Cell::Text(part.name.clone());
            (vec![name, time(place.time_ns)], place)
        })
    });
    let first = vec![(part, Align::Left), IDLE];
    section.table(place_table("lines", host.source, first, rows));
}

fn add_gaps(section: &mut Section, host: &HostStacks) {
    if host.gaps.is_empty() {
        return;
    }
    let is_sampled = host.source == StackSource::Sampled;
    let rows = host.gaps.iter().filter_map(|gap| {
        let mut cells = vec![time(gap.start_ns), time(gap.duration_ns)];
        if is_sampled {
            let samples = gap.host.samples;
            cells.push(number(samples as f64, samples.to_string()));
        }
        Some((cells, gap.host.places.first()?))
    });
    let mut first = vec![("Gap, since the first GPU work", Align::Right), IDLE];
    if is_sampled {
        first.push(("Samples", Align::Right));
    }
    section.table(place_table("gaps", host.source, first, rows));
}

#[derive(Default)]
struct StackNode<'a> {
    time: i64,
    children: BTreeMap<&'a str, StackNode<'a>>,
}

fn lay_out_stacks(stacks: &[FlameStack]) -> Vec<IciclePart> {
    let mut root = StackNode::default();
    for stack in stacks {
        root.time += stack.time_ns.0;
        let mut node = &mut root;
        for frame in stack.frames.iter().take(DEPTH_MAX) {
            node = node.children.entry(frame).or_default();
            node.time += stack.time_ns.0;
        }
    }
    let least = root.time as f64 * WIDTH_MIN;
    let mut parts = Vec::new();
    lay_out(&root, 0, 0.0, least, &mut parts);
    parts
}

fn lay_out(
    node: &StackNode<'_>,
    depth: usize,
    start: f64,
    least: f64,
    parts: &mut Vec<IciclePart>,
) {
    let mut at = start;
    for (name, child) in &node.children {
        let value = child.time as f64;
        if value >= least {
            parts.push(IciclePart {
                name: (*name).to_owned(),
                path: (*name).to_owned(),
                depth,
                start: at,
                value,
            });
            lay_out(child, depth + 1, at, least, parts);
        }
        at += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_within_their_callers() {
        let stack = |frames: &[&str], time| FlameStack {
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            time_ns: Nanos(time),
        };
        let parts = lay_out_stacks(&[
            stack(&["main", "a"], 600),
            stack(&["main", "b"], 399),
            stack(&["main", "seldom"], 1),
        ]);
        let drawn: Vec<_> = parts
            .iter()
            .map(|part| (part.name.as_str(), part.depth, part.start, part.value))
            .collect();
        assert_eq!(
            drawn,
            [
                ("main", 0, 0.0, 1000.0),
                ("a", 1, 0.0, 600.0),
                ("b", 1, 600.0, 399.0)
            ]
        );
    }
}
