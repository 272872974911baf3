use super::{
    ChartWidth, shortened,
    svg::{Svg, SvgElement},
};
use crate::view::HeatMap;

const TOP: f64 = 66.0;
const CELL: f64 = 34.0;

/// A cell per combination; the darkest is the highest value. Every cell has its number.
pub fn heat_map(view: &HeatMap, width: ChartWidth) -> Svg {
    let left = width.pick(170.0, 84.0);
    let bottom = TOP + CELL * view.rows.len() as f64;
    let mut svg = Svg::new(&view.title, width, bottom + 10.0);
    let across = (width.pixels() - left) / view.columns.len().max(1) as f64;
    let letters = (across / 7.0).max(1.0) as usize;
    let [columns, rows] = &view.keys;
    svg.add(SvgElement::text(left, 36.0, columns).class("quiet"));
    svg.add(SvgElement::text(0.0, TOP - 12.0, &shortened(rows, width.pick(24, 12))).class("quiet"));
    let values = || view.cells.iter().flatten().flatten().copied();
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    // Equal ratios are equal steps of shade: times of a sweep span orders of magnitude.
    let shade = |value: f64| {
        if high > low && low > 0.0 {
            0.08 + 0.62 * (value / low).ln() / (high / low).ln()
        } else {
            0.3
        }
    };
    let longest = view
        .columns
        .iter()
        .map(|column| column.chars().count())
        .max();
    let every = longest.unwrap_or(1).min(4).div_ceil(letters).max(1);
    for (index, column) in view.columns.iter().enumerate().step_by(every) {
        let x = left + across * (index as f64 + 0.5);
        svg.add(
            SvgElement::text(x, TOP - 12.0, &shortened(column, letters * every))
                .class("tick middle"),
        );
    }
    for (row, cells) in view.cells.iter().enumerate() {
        let y = TOP + CELL * row as f64;
        let label = view.rows.get(row).map_or("", String::as_str);
        let label = shortened(label, width.pick(22, 10));
        svg.add(SvgElement::text(left - 10.0, y + 21.0, &label).class("end"));
        for (column, value) in cells.iter().enumerate() {
            let x = left + across * column as f64;
            let cell = SvgElement::rect(x, y, across, CELL);
            let Some(value) = value else {
                svg.add(cell.class("empty"));
                continue;
            };
            let text = view.unit.format(*value);
            let name = view.columns.get(column).map_or("", String::as_str);
            svg.add(
                cell.class("heat")
                    .number("fill-opacity", shade(*value))
                    .tooltip(&format!("{columns}={name}, {rows}={label}: {text}")),
            );
            // Part of a number would be another number.
            if text.chars().count() <= letters {
                svg.add(SvgElement::text(x + across / 2.0, y + 21.0, &text).class("middle halo"));
            }
        }
    }
    svg
}
