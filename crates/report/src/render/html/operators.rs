//! A table that sorts by a click on its header and shows the rows that hold a text.

use crate::{
    Align,
    chart::escaped,
    view::{Cell, OperatorTable},
};

pub(super) fn figure(table: &OperatorTable) -> String {
    let rows = table.rows.len();
    let mut text = format!(
        "<figure class=\"operators\">\n<div class=\"controls\"><label>filter \
         <input type=\"search\" class=\"filter\" placeholder=\"text in any column\"></label> \
         <output>{rows} {}</output></div>\n<div class=\"scroll tall\"><table>\n<thead><tr>",
        escaped(&table.title)
    );
    for column in &table.columns {
        text += &format!(
            "<th{}><button type=\"button\">{}</button></th>",
            class(column.align),
            escaped(&column.header)
        );
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += "<tr>";
        for (index, column) in table.columns.iter().enumerate() {
            text += &cell(row.get(index).unwrap_or(&Cell::Missing), column.align);
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n</figure>\n"
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    }
}

fn cell(cell: &Cell, align: Align) -> String {
    let key = match cell {
        Cell::Number { value, .. } if value.is_finite() => format!(" data-value=\"{value}\""),
        Cell::Text(_) => String::new(),
        Cell::Number { .. } | Cell::Missing => " data-missing".to_owned(),
    };
    let text = escaped(cell.text());
    // Kernel names are longer than any column; the whole name is in the tooltip.
    let whole = match cell {
        Cell::Text(text) if text.chars().count() > 48 => format!(" title=\"{}\"", escaped(text)),
        _ => String::new(),
    };
    format!("<td{}{key}{whole}>{text}</td>", class(align))
}
