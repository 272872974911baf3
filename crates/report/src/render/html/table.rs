//! Tables. Those with many rows sort by a click on a header and show the rows that hold a text.

use crate::{
    chart::escaped,
    document::{Align, Cell, Row, Table},
};

pub(super) fn table(table: &Table) -> String {
    if table.is_sortable() {
        sortable(table)
    } else {
        format!("<div class=\"scroll\">{}</div>\n", rows(table))
    }
}

/// Fewer rows are seen at a glance.
const LEAST_FILTERED: usize = 8;

fn sortable(table: &Table) -> String {
    let hidden = if table.rows.len() < LEAST_FILTERED {
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
        rows(table)
    )
}

fn rows(table: &Table) -> String {
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
        text += &cells(table, row);
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>"
}

fn cells(table: &Table, row: &Row) -> String {
    let mut text = String::new();
    for (index, column) in table.columns.iter().enumerate() {
        text += &match row.cells.get(index) {
            Some(found) if table.is_sortable() => cell(found, column.align),
            Some(found) => breakable(&cell(found, column.align), column.align),
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

fn cell(cell: &Cell, align: Align) -> String {
    let text = escaped(cell.text());
    let class = class(align);
    match cell {
        Cell::Number { value, .. } if value.is_finite() => {
            format!("<td{class} data-value=\"{value}\">{text}</td>")
        }
        Cell::Number { .. } | Cell::Missing => format!("<td{class} data-missing>{text}</td>"),
        // The whole name is in the tooltip, and what the timeline is searched for.
        Cell::Name { full, .. } => {
            format!(
                "<td{class} data-name title=\"{}\">{text}</td>",
                escaped(full)
            )
        }
        Cell::Text(words) if words.chars().count() > 48 => {
            format!("<td{class} title=\"{text}\">{text}</td>")
        }
        Cell::Text(_) => format!("<td{class}>{text}</td>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_short_rows_filled() {
        let mut view = Table::new(&["Kernel", "Time"], 1);
        view.keyed("a-b".to_owned(), ["</table>"]);
        let text = table(&view);
        assert!(
            text.contains("<tr id=\"a-b\"><td>&lt;/table&gt;</td><td class=\"n\"></td></tr>"),
            "{text}"
        );
    }

    #[test]
    fn numbers_break_before_brackets_only() {
        let mut view = Table::new(&["Phase", "Idle"], 1);
        view.row(["a b", "5.032 ms (38.7 %)"]);
        let text = table(&view);
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
        let text = table(&view);
        let expected = "title=\"void f&lt;&quot;x&quot;&gt;()\">mul bf16</td>";
        assert!(text.contains(expected), "{text}");
    }
}
