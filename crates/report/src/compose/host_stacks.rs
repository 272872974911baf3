//! What the host did while no GPU was busy.

use std::collections::BTreeMap;

use llmprof_analysis::host_stacks::{
    HostGap, HostRange, HostTime, StackSource, analyze_host_stacks, flame_stacks,
};
use llmprof_record::{flame::FlameStack, trace::Trace};
use llmprof_units::Percent;

use crate::document::{Align, Cell, Column, Document, Drawing, Section, Table};
use crate::text::host_stacks as text;
use crate::view::{Icicle, IciclePart, Unit};

/// Levels of calls that are drawn, from the outermost.
const DEPTH_MAX: usize = 40;
/// A part narrower than this share of the whole would not be seen.
const WIDTH_MIN: f64 = 0.002;
const ROWS_IN_TEXT: usize = 10;
/// Lines that are shown of a range.
const PLACES_OF_RANGE_MAX: usize = 3;

pub(super) fn add(document: &mut Document, trace: Option<&Trace>) {
    let Some((trace, host)) = trace.and_then(|trace| Some((trace, analyze_host_stacks(trace)?)))
    else {
        return;
    };
    if host.idle.samples == 0 && host.whole.samples == 0 {
        return;
    }
    let section = document.section("host_stacks", "Host during GPU idle");
    section.paragraph(text::basis(&host));
    // Recorded functions have a table of their own.
    if host.source == StackSource::Sampled {
        section.table(places("host_idle", &host.idle));
        add_ranges(section, &host.ranges);
        add_gaps(section, &host.gaps);
    }
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

fn places(key: &'static str, host: &HostTime) -> Table {
    let columns = Column::all([
        ("Host thread", Align::Left),
        ("Function", Align::Left),
        ("Line", Align::Left),
        ("GPU idle", Align::Right),
        ("Share", Align::Right),
    ]);
    let mut table = Table::sortable(key, columns);
    table.rows_in_text = ROWS_IN_TEXT;
    for place in &host.places {
        let number = |value: f64, text: String| Cell::Number { value, text };
        table.push(
            None,
            vec![
                Cell::Text(text::activity(place)),
                Cell::Text(text::function(place)),
                Cell::Text(text::line(place)),
                number(place.time_ns.0 as f64, place.time_ns.to_string()),
                number(place.share, Percent(place.share).to_string()),
            ],
        );
    }
    table
}

fn add_ranges(section: &mut Section, ranges: &[HostRange]) {
    let columns = Column::all([
        ("Range", Align::Left),
        ("GPU idle", Align::Right),
        ("Host thread", Align::Left),
        ("Function", Align::Left),
        ("Line", Align::Left),
        ("Share", Align::Right),
    ]);
    let mut table = Table::sortable("host_ranges", columns);
    table.rows_in_text = ROWS_IN_TEXT;
    let number = |value: f64, text: String| Cell::Number { value, text };
    for range in ranges {
        for place in range.host.places.iter().take(PLACES_OF_RANGE_MAX) {
            table.push(
                None,
                vec![
                    Cell::Text(range.name.clone()),
                    number(place.time_ns.0 as f64, place.time_ns.to_string()),
                    Cell::Text(text::activity(place)),
                    Cell::Text(text::function(place)),
                    Cell::Text(text::line(place)),
                    number(place.share, Percent(place.share).to_string()),
                ],
            );
        }
    }
    if !ranges.is_empty() {
        section.table(table);
    }
}

fn add_gaps(section: &mut Section, gaps: &[HostGap]) {
    let columns = Column::all([
        ("Gap at", Align::Right),
        ("GPU idle", Align::Right),
        ("Samples", Align::Right),
        ("Host thread, mostly", Align::Left),
        ("Function", Align::Left),
        ("Line", Align::Left),
        ("Share", Align::Right),
    ]);
    let mut table = Table::sortable("host_gaps", columns);
    table.rows_in_text = ROWS_IN_TEXT;
    for gap in gaps {
        let Some(place) = gap.host.places.first() else {
            continue;
        };
        let number = |value: f64, text: String| Cell::Number { value, text };
        table.push(
            None,
            vec![
                number(gap.start_ns.0 as f64, gap.start_ns.to_string()),
                number(gap.duration_ns.0 as f64, gap.duration_ns.to_string()),
                number(gap.host.samples as f64, gap.host.samples.to_string()),
                Cell::Text(text::activity(place)),
                Cell::Text(text::function(place)),
                Cell::Text(text::line(place)),
                number(place.share, Percent(place.share).to_string()),
            ],
        );
    }
    if !gaps.is_empty() {
        section.table(table);
    }
}

#[derive(Default)]
struct Node<'a> {
    time: i64,
    children: BTreeMap<&'a str, Node<'a>>,
}

fn lay_out_stacks(stacks: &[FlameStack]) -> Vec<IciclePart> {
    let mut root = Node::default();
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

fn lay_out(node: &Node<'_>, depth: usize, start: f64, least: f64, parts: &mut Vec<IciclePart>) {
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
    use llmprof_units::Nanos;

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
