use llmprof_units::Count;

use super::{
    ChartWidth,
    axis::ChartAxis,
    svg::{Svg, SvgElement},
    text_width,
};
use crate::view::{Histogram, Unit};

const TOP: f64 = 64.0;
const BOTTOM: f64 = 260.0;

/// Bars of counts, with named values as dashed lines.
pub fn histogram(histogram: &Histogram, width: ChartWidth) -> Svg {
    let (left, right) = (width.pick(60.0, 36.0), width.pixels() - 16.0);
    let title = format!(
        "{} ({})",
        histogram.title,
        Count(histogram.total(), "value")
    );
    let mut svg = Svg::new(&title, width, BOTTOM + 28.0);
    let values = histogram.bins.iter().flat_map(|bin| [bin.low, bin.high]);
    let values = values.chain(histogram.marks.iter().map(|mark| mark.value));
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let x = ChartAxis::linear(low, high, left, right);
    let most = histogram
        .bins
        .iter()
        .map(|bin| bin.count)
        .max()
        .unwrap_or(0);
    let y = ChartAxis::linear(0.0, most.max(1) as f64, BOTTOM, TOP);
    for tick in y
        .ticks(4, Unit::Count)
        .into_iter()
        .filter(|tick| tick.fract() == 0.0)
    {
        let at = y.at(tick);
        svg.add(SvgElement::line(left, at, right, at).class("grid"));
        svg.add(SvgElement::text(left - 8.0, at + 4.0, &Unit::Count.tick(tick)).class("tick end"));
    }
    for tick in x.ticks(width.pick(7, 4), histogram.unit) {
        svg.add(x.label(tick, BOTTOM + 18.0, histogram.unit, width));
    }
    for bin in histogram.bins.iter().filter(|bin| bin.count > 0) {
        let (from, to, top) = (x.at(bin.low), x.at(bin.high), y.at(bin.count as f64));
        let span = format!(
            "{} to {}",
            histogram.unit.format(bin.low),
            histogram.unit.format(bin.high)
        );
        svg.add(
            SvgElement::rect(from, top, (to - from - 1.0).max(2.0), BOTTOM - top)
                .class("bar c0 flat")
                .tooltip(&format!("{span}: {}", bin.count)),
        );
    }
    svg.add(SvgElement::line(left, BOTTOM, right, BOTTOM).class("axis"));

    // Labels of neighbours would cover each other: each takes the first of three lines that is free.
    let mut taken = [f64::NEG_INFINITY; 3];
    let mut marks: Vec<_> = histogram
        .marks
        .iter()
        .filter(|mark| mark.value.is_finite())
        .collect();
    marks.sort_by(|a, b| a.value.total_cmp(&b.value));
    let mut labels = Vec::new();
    for mark in marks {
        let at = x.at(mark.value);
        let label = format!("{} {}", mark.label, histogram.unit.format(mark.value));
        let room = text_width(&label) + 8.0;
        // Where there is no room to the right of the line, to its left.
        let begin = if at + 4.0 + room > width.pixels() {
            at + 4.0 - room
        } else {
            at + 4.0
        };
        let free = taken.iter().position(|&end| end < begin);
        let line = free.unwrap_or(taken.len() - 1);
        taken[line] = begin + room;
        let baseline = 34.0 + 12.0 * line as f64;
        svg.add(
            SvgElement::line(at, baseline - 9.0, at, BOTTOM)
                .class("mark")
                .tooltip(&label),
        );
        labels.push(SvgElement::text(begin, baseline, &label).class("tick halo"));
    }
    for label in labels {
        svg.add(label);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::ValueMark;

    #[test]
    fn snapshot() {
        let values: Vec<f64> = (1..=40).map(|i| 1e6 + (i % 10) as f64 * 1e4).collect();
        let mark = |label: &str, value| ValueMark {
            label: label.to_owned(),
            value,
        };
        let marks = vec![
            mark("p99", 1.09e6),
            mark("p50", 1.045e6),
            mark("p90", 1.08e6),
        ];
        let view = Histogram::from_values("Time between tokens", Unit::Nanoseconds, &values, marks);
        insta::assert_snapshot!(histogram(&view, ChartWidth::Wide).inline());
    }

    /// A mark at the right end has its label to the left, not across its line.
    #[test]
    fn labels_do_not_lie_across_their_lines() {
        let view = Histogram::from_values(
            "t",
            Unit::Nanoseconds,
            &[1e6, 2e6],
            vec![ValueMark {
                label: "p99".to_owned(),
                value: 2e6,
            }],
        );
        let text = histogram(&view, ChartWidth::Wide).inline();
        let (before, _) = text.split_once(">p99 2 ms<").unwrap();
        let (_, begin) = before.rsplit_once("x=\"").unwrap();
        let begin: f64 = begin.split('"').next().unwrap().parse().unwrap();
        assert!(
            begin + text_width("p99 2 ms") < ChartWidth::Wide.pixels() - 16.0,
            "{text}"
        );
    }

    #[test]
    fn no_values_draw_no_bars() {
        let view = Histogram::from_values("t", Unit::Count, &[], vec![]);
        assert!(
            !histogram(&view, ChartWidth::Wide)
                .inline()
                .contains("<rect")
        );
    }
}
