use super::{
    ChartWidth,
    axis::ChartAxis,
    shortened,
    svg::{Svg, SvgElement},
    text_width,
};
use crate::view::PairedBars;

const TOP: f64 = 58.0;
const BAR: f64 = 11.0;

/// Rows of two bars from a common zero, with both values and what the second has more.
pub fn paired_bars(view: &PairedBars, width: ChartWidth) -> Svg {
    let row_height = width.pick(34.0, 50.0);
    let bottom = TOP + row_height * view.rows.len() as f64;
    let mut svg = Svg::new(&view.title, width, bottom + 26.0);
    let left = width.pick(250.0, 0.0);
    let right = width.pixels() - width.pick(250.0, 1.0);
    let values = || view.rows.iter().flat_map(|row| row.values);
    let low = values().fold(0.0, f64::min);
    let high = values().fold(0.0, f64::max);
    let x = ChartAxis::linear(low, high, left, right);
    let mut at = 0.0;
    for (number, side) in view.sides.iter().enumerate() {
        svg.add(SvgElement::rect(at, 28.0, 11.0, 11.0).class(&format!("c{number} flat")));
        let label = shortened(side, width.letters(at + 20.0) / (2 - number).max(1));
        svg.add(SvgElement::text(at + 16.0, 38.0, &label));
        at += 36.0 + text_width(&label);
    }
    for tick in x.ticks(width.pick(6, 4), view.unit) {
        let place = x.at(tick);
        svg.add(SvgElement::line(place, TOP - 6.0, place, bottom).class("grid"));
        svg.add(x.label(tick, bottom + 16.0, view.unit, width));
    }
    let zero = x.at(0.0);
    for (index, row) in view.rows.iter().enumerate() {
        let y = TOP + row_height * index as f64;
        let bars = y + width.pick(4.0, 20.0);
        let [a, b] = row.values;
        let label = shortened(&row.label, width.pick(38, 46));
        let (text_x, class) = width.pick((left - 12.0, "end"), (0.0, "halo"));
        svg.add(SvgElement::text(text_x, y + width.pick(20.0, 14.0), &label).class(class));
        for (number, value) in row.values.iter().enumerate() {
            let end = x.at(*value);
            let (from, to) = (zero.min(end), zero.max(end));
            svg.add(
                SvgElement::rect(
                    from,
                    bars + number as f64 * (BAR + 1.0),
                    (to - from).max(1.0),
                    BAR,
                )
                .class(&format!("c{number} flat"))
                .tooltip(&format!(
                    "{}, {}: {}",
                    row.label,
                    view.sides[number],
                    view.unit.format(*value)
                )),
            );
        }
        let sign = if b > a { "+" } else { "" };
        let text = format!(
            "{} → {} ({sign}{})",
            view.unit.format(a),
            view.unit.format(b),
            view.unit.format(b - a)
        );
        let place = y + width.pick(20.0, 14.0);
        svg.add(SvgElement::text(width.pixels(), place, &text).class("end halo quiet"));
    }
    svg.add(SvgElement::line(zero, TOP - 6.0, zero, bottom).class("axis"));
    svg
}
