use llmprof_units::{Nanos, Percent};

use super::{
    WIDTH,
    axis::Axis,
    shortened,
    svg::{Element, Svg},
};
use crate::view::{Unit, Waterfall};

const LABELS: f64 = 250.0;
const VALUES: f64 = 150.0;
const TOP: f64 = 34.0;
const ROW: f64 = 28.0;
const BAR: f64 = 18.0;

/// Parts of a phase's wall time, each starting where the one before it ended.
pub fn waterfall(waterfall: &Waterfall) -> Svg {
    let remainder = waterfall.remainder_ns();
    let mut rows: Vec<(&str, Nanos, &str)> = waterfall
        .parts
        .iter()
        .map(|part| (part.label.as_str(), part.duration_ns, part.kind.name()))
        .collect();
    if remainder != Nanos(0) {
        rows.push(("not in any part", remainder, "unattributed"));
    }
    let bottom = TOP + ROW * (rows.len() + 1) as f64;
    let title = format!("Where the time of {} went", waterfall.phase);
    let mut svg = Svg::new(&title, WIDTH, bottom + 26.0);
    svg.add(Element::text(0.0, 16.0, &title).class("heading"));

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
    let x = Axis::linear(low as f64, high as f64, LABELS, WIDTH - VALUES);
    for tick in x.ticks(6, Unit::Nanoseconds) {
        let at = x.at(tick);
        svg.add(Element::line(at, TOP - 4.0, at, bottom).class("grid"));
        svg.add(
            Element::text(at, bottom + 16.0, &Unit::Nanoseconds.tick(tick)).class("tick middle"),
        );
    }
    for (index, ((label, duration, kind), (from, to))) in rows.iter().zip(&ends).enumerate() {
        let y = TOP + ROW * index as f64;
        let (left, right) = (x.at(from.0.min(to.0) as f64), x.at(from.0.max(to.0) as f64));
        let negative = if duration.0 < 0 { " negative" } else { "" };
        let value = value(*duration, waterfall.wall_ns);
        svg.add(row_label(y, label, ""));
        svg.add(
            Element::rect(left, y + (ROW - BAR) / 2.0, (right - left).max(1.0), BAR)
                .class(&format!("bar {kind}{negative}"))
                .tooltip(&format!("{label}: {value}")),
        );
        svg.add(
            Element::line(
                x.at(to.0 as f64),
                y + f64::midpoint(ROW, BAR),
                x.at(to.0 as f64),
                y + ROW + (ROW - BAR) / 2.0,
            )
            .class("link"),
        );
        svg.add(Element::text(WIDTH, y + ROW / 2.0 + 4.0, &value).class("end"));
    }
    let y = TOP + ROW * rows.len() as f64;
    let wall = waterfall.wall_ns;
    svg.add(row_label(y, "wall time", "strong "));
    svg.add(
        Element::rect(
            x.at(0.0),
            y + (ROW - BAR) / 2.0,
            (x.at(wall.0 as f64) - x.at(0.0)).max(1.0),
            BAR,
        )
        .class("bar total")
        .tooltip(&format!("wall time: {wall}")),
    );
    svg.add(Element::text(WIDTH, y + ROW / 2.0 + 4.0, &value(wall, wall)).class("strong end"));
    svg
}

fn row_label(y: f64, label: &str, class: &str) -> Element {
    Element::text(LABELS - 12.0, y + ROW / 2.0 + 4.0, &shortened(label, 38))
        .class(&format!("{class}end"))
}

fn value(part: Nanos, whole: Nanos) -> String {
    if whole.0 <= 0 {
        return part.to_string();
    }
    format!("{part} · {}", Percent(part.0 as f64 / whole.0 as f64))
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
                part("floor", 2_000_000, PartKind::Floor),
                part("above the floor", 500_000, PartKind::Inefficiency),
                part("idle: <host> & launch", 8_000_000, PartKind::Idle),
                part("overlap", -500_000, PartKind::Overlap),
            ],
        }
    }

    #[test]
    fn snapshot() {
        insta::assert_snapshot!(waterfall(&sample(10_000_000)).inline());
    }

    #[test]
    fn a_sum_that_misses_the_wall_is_shown() {
        assert!(
            !waterfall(&sample(10_000_000))
                .inline()
                .contains("not in any part")
        );
        let text = waterfall(&sample(10_000_700)).inline();
        assert!(text.contains("not in any part: 700 ns"), "{text}");
    }

    #[test]
    fn an_empty_phase_is_drawn() {
        let empty = Waterfall {
            phase: String::new(),
            wall_ns: Nanos(0),
            parts: vec![],
        };
        assert!(waterfall(&empty).inline().contains("wall time: 0 ns"));
    }
}
