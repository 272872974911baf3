use super::{
    ChartWidth,
    axis::ChartAxis,
    svg::{Svg, SvgElement},
    text_width,
    theme::CATEGORIES,
    wrapped,
};
use crate::view::{StepLatency, Unit};

const TOP: f64 = 52.0;
const HEIGHT: f64 = 208.0;
const LEGEND: f64 = 18.0;

/// The latency of each step over step numbers, from zero, with named values as dashed lines.
pub fn step_latency(view: &StepLatency, width: ChartWidth) -> Svg {
    let (left, right) = (width.pick(84.0, 64.0), width.pixels() - 16.0);
    let title = format!("{} ({})", view.title, view.counted());
    let legend = legend(view, width.pick(left, 0.0), right);
    let lines = legend
        .last()
        .map_or(0.0, |(_, (_, line))| *line as f64 + 1.0);
    let top = TOP + LEGEND * lines;
    let bottom = top + HEIGHT;
    let mut svg = Svg::new(&title, width, bottom + 28.0);
    for (index, (label, (at, line))) in legend.iter().enumerate() {
        let y = TOP + LEGEND * *line as f64;
        let color = format!("c{} flat", index % CATEGORIES);
        svg.add(SvgElement::rect(*at, y - 9.0, 10.0, 10.0).class(&color));
        svg.add(SvgElement::text(at + 16.0, y, label).class("tick"));
    }
    let finite = || {
        let values = view.lines.iter().flat_map(|line| &line.values_ns).copied();
        let marks = view.marks.iter().map(|mark| mark.value);
        values.chain(marks).filter(|value| value.is_finite())
    };
    let longest = view.lines.iter().map(|line| line.values_ns.len()).max();
    let longest = longest.unwrap_or(0);
    let x = ChartAxis::linear(1.0, longest.max(2) as f64, left, right);
    let y = ChartAxis::linear(0.0, finite().fold(0.0, f64::max) * 1.05, bottom, top);
    for tick in y.ticks(4, Unit::Nanoseconds) {
        let at = y.at(tick);
        svg.add(SvgElement::line(left, at, right, at).class("grid"));
        let label = Unit::Nanoseconds.tick(tick);
        svg.add(SvgElement::text(left - 8.0, at + 4.0, &label).class("tick end"));
    }
    let whole = |tick: &f64| tick.fract() == 0.0;
    for tick in x
        .ticks(width.pick(8, 4), Unit::Count)
        .into_iter()
        .filter(whole)
    {
        svg.add(x.label(tick, bottom + 18.0, Unit::Count, width));
    }
    for (index, line) in view.lines.iter().enumerate() {
        let color = format!("c{}", index % CATEGORIES);
        let places: Vec<(f64, f64)> = (1..)
            .zip(&line.values_ns)
            .map(|(step, &value)| (x.at(f64::from(step)), value))
            .collect();
        for run in places.split(|(_, value)| !value.is_finite()) {
            let mut points = thinned(run);
            for point in &mut points {
                point.1 = y.at(point.1);
            }
            // A lone step would be a line of no length.
            if let [(at, value)] = points[..] {
                points.push((at + 2.0, value));
            }
            if !points.is_empty() {
                svg.add(
                    SvgElement::polyline(&points)
                        .class(&format!("{color} line"))
                        .tooltip(&line.label),
                );
            }
        }
    }
    svg.add(SvgElement::line(left, bottom, right, bottom).class("axis"));
    marks(&mut svg, view, width, (left, right), &y);
    svg
}

/// The names of lines with their places; one line needs none.
fn legend(view: &StepLatency, left: f64, right: f64) -> Vec<(&str, (f64, usize))> {
    if view.lines.len() < 2 {
        return Vec::new();
    }
    let labels: Vec<&str> = view.lines.iter().map(|line| line.label.as_str()).collect();
    let widths: Vec<f64> = labels
        .iter()
        .map(|label| text_width(label) + 32.0)
        .collect();
    let places = wrapped(&widths, left, right);
    labels.into_iter().zip(places).collect()
}

fn marks(
    svg: &mut Svg,
    view: &StepLatency,
    width: ChartWidth,
    (left, right): (f64, f64),
    y: &ChartAxis,
) {
    let mut at = width.pick(left, 0.0);
    for mark in view.marks.iter().filter(|mark| mark.value.is_finite()) {
        let label = format!("{} {}", mark.label, Unit::Nanoseconds.format(mark.value));
        let height = y.at(mark.value);
        svg.add(
            SvgElement::line(left, height, right, height)
                .class("mark thin")
                .tooltip(&label),
        );
        svg.add(SvgElement::text(at, 36.0, &label).class("tick"));
        at += text_width(&label) + 18.0;
    }
}

/// Of the steps on one pixel the lowest and the highest: the picture is the same and the file small.
fn thinned(run: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for column in run.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let value = |point: &&(f64, f64)| point.1;
        let low = column.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
        let high = column.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
        kept.extend(low);
        kept.extend(high.filter(|_| column.len() > 1));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{StepLine, ValueMark};

    fn sample(values: &[f64]) -> StepLatency {
        StepLatency {
            title: "Latency of each step: decode".to_owned(),
            noun: "step",
            lines: vec![StepLine {
                label: "step".to_owned(),
                values_ns: values.to_vec(),
            }],
            marks: vec![ValueMark {
                label: "p50".to_owned(),
                value: 2e6,
            }],
        }
    }

    #[test]
    fn snapshot() {
        let view = sample(&[9e6, 2e6, 2.1e6, f64::NAN, 1.9e6, 2e6]);
        insta::assert_snapshot!(step_latency(&view, ChartWidth::Wide).inline());
    }

    #[test]
    fn many_steps_stay_a_small_picture_and_keep_their_extremes() {
        let mut values = vec![1e6; 100_000];
        values[70_000] = 5e7;
        let text = step_latency(&sample(&values), ChartWidth::Wide).inline();
        assert!(text.len() < 60_000, "{}", text.len());
        let run: Vec<(f64, f64)> = values.iter().map(|value| (3.0, *value)).collect();
        assert_eq!(thinned(&run), [(3.0, 1e6), (3.0, 5e7)]);
    }

    #[test]
    fn several_lines_have_a_legend() {
        let mut view = sample(&[1e6, 2e6]);
        view.lines[0].label = "request 1".to_owned();
        let mut second = view.lines[0].clone();
        "request 2".clone_into(&mut second.label);
        let one = step_latency(&view, ChartWidth::Wide).inline();
        assert!(!one.contains(">request 1</text>"), "{one}");
        view.lines.push(second);
        let two = step_latency(&view, ChartWidth::Wide).inline();
        assert!(two.contains(">request 1</text>") && two.contains(">request 2</text>"));
    }

    #[test]
    fn no_steps_draw_no_line() {
        let text = step_latency(&sample(&[]), ChartWidth::Narrow).inline();
        assert!(!text.contains("polyline"), "{text}");
    }
}
