//! Tables. Those with many rows sort by a click on a header and show the rows that hold a text. Names and phases lead to the
//! timeline.

use std::collections::HashSet;

use crate::{
    chart::escaped,
    document::{Align, Cell, Document, Drawing, Table, TableRow},
};

/// What cells can lead to: names and phases on the timelines of a page.
#[derive(Default)]
pub(super) struct OnTimeline<'a> {
    names: HashSet<&'a str>,
    phases: HashSet<&'a str>,
}

impl<'a> OnTimeline<'a> {
    pub(super) fn collect(document: &'a Document) -> Self {
        let mut names = Self::default();
        for chart in document.charts() {
            if let Drawing::Timeline(timeline) = &chart.drawing {
                names
                    .names
                    .extend(timeline.names.iter().map(String::as_str));
                let windows = timeline.windows.iter();
                let phases = windows.filter_map(|w| timeline.phases.get(w.phase as usize));
                names.phases.extend(phases.map(String::as_str));
            }
        }
        names
    }
}

pub(super) fn table(table: &Table, on_timeline: &OnTimeline<'_>) -> String {
    if table.is_sortable() {
        sortable(table, on_timeline)
    } else {
        let rows = rows(table, on_timeline);
        format!("<div class=\"scroll\">{rows}</div>\n")
    }
}

/// Fewer rows are seen at a glance.
const FILTERED_ROWS_MIN: usize = 8;

fn sortable(table: &Table, on_timeline: &OnTimeline<'_>) -> String {
    let hidden = if table.rows.len() < FILTERED_ROWS_MIN {
        " hidden"
    } else {
        ""
    };
    format!(
        "<figure class=\"operators\">\n<div class=\"controls{hidden}\"><label>filter \
         <input type=\"search\" class=\"filter\" placeholder=\"text in any column\"></label> \
         <output>{} {}</output></div>\n<div class=\"scroll tall\">{}</div>\n</figure>\n",
        table.rows.len(),
        escaped(&table.noun),
        rows(table, on_timeline)
    )
}

fn rows(table: &Table, on_timeline: &OnTimeline<'_>) -> String {
    let mut text = "<table>\n<thead><tr>".to_owned();
    for column in &table.columns {
        let header = escaped(&column.header);
        let class = class(column.align);
        text += &if table.is_sortable() {
            format!("<th{class}><button type=\"button\">{header}</button></th>")
        } else {
            format!("<th{class}>{header}</th>")
        };
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += &match &row.key {
            Some(key) => format!("<tr id=\"{}\">", escaped(key)),
            None => "<tr>".to_owned(),
        };
        text += &cells(table, row, on_timeline);
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>"
}

fn cells(table: &Table, row: &TableRow, on_timeline: &OnTimeline<'_>) -> String {
    let cell = |cell: &Cell, align| self::cell(cell, align, on_timeline);
    let mut text = String::new();
    for (index, column) in table.columns.iter().enumerate() {
        text += &match row.cells.get(index) {
            Some(content) if table.is_sortable() => cell(content, column.align),
            Some(content) => breakable(&cell(content, column.align), column.align),
            None if table.is_sortable() => cell(&Cell::Missing, column.align),
            None => format!("<td{}></td>", class(column.align)),
        };
    }
    text
}

/// A number with a second one in brackets may break before the bracket.
fn breakable(cell: &str, align: Align) -> String {
    match align {
        Align::Right => cell.replace(" (", "<wbr> ("),
        Align::Left => cell.to_owned(),
    }
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    }
}

/// Names from this length on may break: one line of them would push numbers out of sight.
const BREAKABLE_NAME_CHARS: usize = 25;

fn cell(cell: &Cell, align: Align, on_timeline: &OnTimeline<'_>) -> String {
    let text = escaped(cell.text());
    let class = class(align);
    match cell {
        Cell::Number { value, .. } if value.is_finite() => {
            format!("<td{class} data-value=\"{value}\">{text}</td>")
        }
        Cell::Number { .. } | Cell::Missing => format!("<td{class} data-missing>{text}</td>"),
        Cell::Name { label, full } => {
            let whole = escaped(full);
            // Names with a title may break.
            let title = if label == full && label.chars().count() < BREAKABLE_NAME_CHARS {
                String::new()
            } else {
                format!(" title=\"{whole}\"")
            };
            let text = if on_timeline.names.contains(full.as_str()) {
                format!("<a href=\"#timeline\" data-name=\"{whole}\">{text}</a>")
            } else {
                text
            };
            format!("<td{class}{title}>{text}</td>")
        }
        Cell::Phase { name, .. } if on_timeline.phases.contains(name.as_str()) => {
            let name = escaped(name);
            format!("<td{class}><a href=\"#timeline\" data-show-phase=\"{name}\">{text}</a></td>")
        }
        Cell::Link { href, .. } => {
            format!("<td{class}><a href=\"{}\">{text}</a></td>", escaped(href))
        }
        Cell::Text(words) if words.chars().count() > 48 => {
            format!("<td{class} title=\"{text}\">{text}</td>")
        }
        Cell::Text(_) | Cell::Phase { .. } => format!("<td{class}>{text}</td>"),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;
    use crate::view::{Timeline, TimelineWindow};

    #[test]
    fn cells_are_escaped_and_short_rows_filled() {
        let mut view = Table::new(&["Kernel", "Time"], 1);
        view.keyed("a-b".to_owned(), ["</table>"]);
        let text = table(&view, &OnTimeline::default());
        assert!(
            text.contains("<tr id=\"a-b\"><td>&lt;/table&gt;</td><td class=\"n\"></td></tr>"),
            "{text}"
        );
    }

    #[test]
    fn numbers_break_before_brackets_only() {
        let mut view = Table::new(&["Phase", "Idle"], 1);
        view.row(["a b", "5.032 ms (38.7 %)"]);
        let text = table(&view, &OnTimeline::default());
        let number = "<td class=\"n\">5.032 ms<wbr> (38.7 %)</td>";
        assert!(
            text.contains("<td>a b</td>") && text.contains(number),
            "{text}"
        );
    }

    #[test]
    fn long_names_show_a_label_and_keep_the_whole() {
        let mut view = Table::new(&["Kernel"], 1);
        view.row([Cell::Name {
            label: "mul bf16".to_owned(),
            full: "void f<\"x\">()".to_owned(),
        }]);
        let text = table(&view, &OnTimeline::default());
        let expected = "title=\"void f&lt;&quot;x&quot;&gt;()\">mul bf16</td>";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn names_and_phases_lead_to_a_timeline_that_has_them() {
        let phases = vec!["decode".to_owned(), "prefill".to_owned()];
        let mut timeline = Timeline::new(vec![], vec!["a<b>".to_owned()], phases);
        timeline.windows.push(TimelineWindow {
            phase: 0,
            start_ns: Nanos(0),
            end_ns: Nanos(1),
        });
        let mut document = Document::new("t");
        document
            .section("timeline", "Timeline")
            .chart("timeline", Drawing::Timeline(timeline));
        let phase = |name: &str| Cell::Phase {
            label: name.to_owned(),
            name: name.to_owned(),
        };
        let mut view = Table::new(&["Name", "Phase"], 2);
        view.row([Cell::event("a<b>"), phase("decode")]);
        view.row([Cell::event("c"), phase("prefill")]);
        let text = table(&view, &OnTimeline::collect(&document));
        for expected in [
            "<td><a href=\"#timeline\" data-name=\"a&lt;b&gt;\">a&lt;b&gt;</a></td>",
            "<td><a href=\"#timeline\" data-show-phase=\"decode\">decode</a></td>",
            "<td>c</td><td>prefill</td>",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
