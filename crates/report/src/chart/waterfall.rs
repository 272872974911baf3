use llmprof_units::{Nanos, Percent};

use super::{
    ChartWidth,
    axis::ChartAxis,
    shortened,
    svg::{Svg, SvgElement},
};
use crate::view::{Unit, Waterfall};

const TOP: f64 = 34.0;

/// Where the parts of a row are: its bar, its label and its value beside the bar, or above it where there is no room beside.
struct WaterfallRows {
    width: ChartWidth,
    height: f64,
    bar: f64,
    /// From the top of a row to that of its bar.
    to_bar: f64,
    /// From the top of a row to the baseline of its text.
    to_text: f64,
    left: f64,
    right: f64,
}

impl WaterfallRows {
    fn with_width(width: ChartWidth) -> Self {
        match width {
            ChartWidth::Wide => Self {
                width,
                height: 28.0,
                bar: 18.0,
                to_bar: 5.0,
                to_text: 18.0,
                left: 250.0,
                right: width.pixels() - 150.0,
            },
            ChartWidth::Narrow => Self {
                width,
                height: 42.0,
                bar: 14.0,
                to_bar: 22.0,
                to_text: 17.0,
                left: 0.0,
                right: width.pixels() - 1.0,
            },
        }
    }

    fn top(&self, index: usize) -> f64 {
        TOP + self.height * index as f64
    }

    fn label(&self, y: f64, label: &str, class: &str) -> SvgElement {
        let (x, end) = self.width.pick((self.left - 12.0, "end"), (0.0, "halo"));
        SvgElement::text(x, y + self.to_text, &shortened(label, 38)).class(&format!("{class}{end}"))
    }

    fn value(&self, y: f64, value: &str, class: &str) -> SvgElement {
        let halo = self.width.pick("", " halo");
        SvgElement::text(self.width.pixels(), y + self.to_text, value)
            .class(&format!("{class}end{halo}"))
    }

    fn bar(&self, y: f64, from: f64, to: f64) -> SvgElement {
        SvgElement::rect(from, y + self.to_bar, (to - from).max(1.0), self.bar)
    }
}

/// Parts of a phase's wall time, each starting where the one before it ended.
pub fn waterfall(waterfall: &Waterfall, width: ChartWidth) -> Svg {
    let remainder = waterfall.remainder_ns();
    let mut rows: Vec<(&str, Nanos, &str)> = waterfall
        .parts
        .iter()
        .map(|part| (part.label.as_str(), part.duration_ns, part.kind.name()))
        .collect();
    if remainder != Nanos(0) {
        rows.push(("not in any part", remainder, "unattributed"));
    }
    let place = WaterfallRows::with_width(width);
    let bottom = place.top(rows.len() + 1);
    let title = format!("Where the time of {} went", waterfall.phase);
    let mut svg = Svg::new(&title, width, bottom + 26.0);

    let mut ends = Vec::with_capacity(rows.len());
    let mut sum = Nanos(0);
    for (_, duration, _) in &rows {
        ends.push((sum, sum + *duration));
        sum += *duration;
    }
    let reached = ends.iter().flat_map(|&(from, to)| [from, to]);
    let low = reached.clone().map(|n| n.0).min().unwrap_or(0).min(0);
    let high = reached
        .map(|n| n.0)
        .max()
        .unwrap_or(0)
        .max(waterfall.wall_ns.0);
    let x = ChartAxis::linear(low as f64, high as f64, place.left, place.right);
    for tick in x.ticks(width.pick(6, 4), Unit::Nanoseconds) {
        let at = x.at(tick);
        svg.add(SvgElement::line(at, TOP - 4.0, at, bottom).class("grid"));
        svg.add(x.label(tick, bottom + 16.0, Unit::Nanoseconds, width));
    }
    for (index, ((label, duration, kind), (from, to))) in rows.iter().zip(&ends).enumerate() {
        let y = place.top(index);
        let (left, right) = (x.at(from.0.min(to.0) as f64), x.at(from.0.max(to.0) as f64));
        let negative = if duration.0 < 0 { " negative" } else { "" };
        let value = value(*duration, waterfall.wall_ns);
        svg.add(place.label(y, label, ""));
        svg.add(
            place
                .bar(y, left, right)
                .class(&format!("bar {kind}{negative}"))
                .tooltip(&format!("{label}: {value}")),
        );
        let end = x.at(to.0 as f64);
        let below = y + place.to_bar + place.bar;
        svg.add(SvgElement::line(end, below, end, y + place.height + place.to_bar).class("link"));
        svg.add(place.value(y, &value, ""));
    }
    let y = place.top(rows.len());
    let wall = waterfall.wall_ns;
    svg.add(place.label(y, "wall time", "strong "));
    svg.add(
        place
            .bar(y, x.at(0.0), x.at(wall.0 as f64))
            .class("bar total")
            .tooltip(&format!("wall time: {wall}")),
    );
    svg.add(place.value(y, &value(wall, wall), "strong "));
    svg
}

fn value(part: Nanos, whole: Nanos) -> String {
    if whole.0 <= 0 {
        return part.to_string();
    }
    // The time has the sign.
    let share = part.0.unsigned_abs() as f64 / whole.0 as f64;
    format!("{part} · {}", Percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{PartKind, WaterfallPart};

    fn sample(wall: i64) -> Waterfall {
        let part = |label: &str, duration, kind| WaterfallPart {
            label: label.to_owned(),
            duration_ns: Nanos(duration),
            kind,
        };
        Waterfall {
            phase: "decode".to_owned(),
            wall_ns: Nanos(wall),
            parts: vec![
                part("roofline time", 2_000_000, PartKind::Roofline),
                part("kernel inefficiency", 500_000, PartKind::Inefficiency),
                part("idle: <host> & launch", 8_000_000, PartKind::Idle),
                part("overlap", -500_000, PartKind::Overlap),
            ],
        }
    }

    #[test]
    fn snapshot() {
        insta::assert_snapshot!(waterfall(&sample(10_000_000), ChartWidth::Wide).inline());
    }

    /// Labels and values above the bars, which have the whole width.
    #[test]
    fn narrow_snapshot() {
        insta::assert_snapshot!(waterfall(&sample(10_000_000), ChartWidth::Narrow).inline());
    }

    #[test]
    fn a_sum_that_misses_the_wall_is_shown() {
        assert!(
            !waterfall(&sample(10_000_000), ChartWidth::Wide)
                .inline()
                .contains("not in any part")
        );
        let text = waterfall(&sample(10_000_700), ChartWidth::Wide).inline();
        assert!(text.contains("not in any part: 700 ns"), "{text}");
    }

    #[test]
    fn an_empty_phase_is_drawn() {
        let empty = Waterfall {
            phase: String::new(),
            wall_ns: Nanos(0),
            parts: vec![],
        };
        assert!(
            waterfall(&empty, ChartWidth::Wide)
                .inline()
                .contains("wall time: 0 ns")
        );
    }
}
