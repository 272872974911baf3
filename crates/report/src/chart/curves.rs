use super::{
    ChartWidth,
    axis::ChartAxis,
    shortened,
    svg::{Svg, SvgElement},
    text_width, wrapped,
};
use crate::chart::CATEGORIES;
use crate::view::{Curves, Unit};

const HEIGHT: f64 = 260.0;

/// A metric against a swept number: straight lines between what was measured, a dot at each measurement.
pub fn curves(view: &Curves, width: ChartWidth) -> Svg {
    let labels: Vec<String> = view
        .lines
        .iter()
        .map(|line| shortened(&line.label, width.letters(40.0)))
        .collect();
    let widths: Vec<f64> = labels
        .iter()
        .map(|label| text_width(label) + 40.0)
        .collect();
    let named = view.lines.len() > 1;
    let places = wrapped(&widths, 0.0, width.pixels());
    let legend = if named {
        places.last().map_or(0, |place| place.1) + 1
    } else {
        0
    };
    let top = 40.0 + 18.0 * legend as f64;
    let bottom = top + HEIGHT;
    let mut svg = Svg::new(&view.title, width, bottom + 44.0);
    let points = || {
        view.lines
            .iter()
            .flat_map(|line| line.points.iter().copied())
    };
    let (mut low, mut high, mut most) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
    for (key, value) in points() {
        low = low.min(key);
        high = high.max(key);
        most = most.max(value);
    }
    let left = width.pick(90.0, 70.0);
    let right = width.pixels() - 16.0;
    let x = if view.is_logarithmic() {
        ChartAxis::logarithmic(low, high, left, right)
    } else {
        ChartAxis::linear(low, high, left, right)
    };
    let y = ChartAxis::linear(0.0, most, bottom, top);
    for tick in y.ticks(5, view.unit) {
        let at = y.at(tick);
        svg.add(SvgElement::line(left, at, right, at).class("grid"));
        svg.add(SvgElement::text(left - 8.0, at + 4.0, &view.unit.tick(tick)).class("tick end"));
    }
    let is_whole = |value: f64| value.fract() == 0.0;
    let whole = points().all(|(key, _)| is_whole(key));
    let ticks = x.ticks(width.pick(8, 4), Unit::Count).into_iter();
    for tick in ticks.filter(|tick| !whole || is_whole(*tick)) {
        svg.add(x.label(tick, bottom + 16.0, Unit::Count, width));
    }
    svg.add(SvgElement::line(left, bottom, right, bottom).class("axis"));
    let middle = f64::midpoint(left, right);
    svg.add(SvgElement::text(middle, bottom + 36.0, &view.key).class("quiet middle"));
    for (index, line) in view.lines.iter().enumerate() {
        let color = index % CATEGORIES;
        let drawn: Vec<(f64, f64)> = line
            .points
            .iter()
            .map(|&(key, value)| (x.at(key), y.at(value)))
            .collect();
        svg.add(SvgElement::polyline(&drawn).class(&format!("line c{color}")));
        for (place, (key, value)) in drawn.iter().zip(&line.points) {
            svg.add(
                SvgElement::new("circle")
                    .number("cx", place.0)
                    .number("cy", place.1)
                    .number("r", 3.5)
                    .class(&format!("c{color}"))
                    .tooltip(&format!(
                        "{} {}={key}: {}",
                        line.label,
                        view.key,
                        view.unit.format(*value)
                    )),
            );
        }
        if named {
            let (from, row) = places[index];
            let at = 32.0 + 18.0 * row as f64;
            svg.add(SvgElement::rect(from, at, 11.0, 11.0).class(&format!("c{color} flat")));
            svg.add(SvgElement::text(from + 16.0, at + 10.0, &labels[index]));
        }
    }
    svg
}
