use super::{
    ChartWidth,
    axis::ChartAxis,
    shortened,
    svg::{Svg, SvgElement},
    text_width,
    theme::CATEGORIES,
    wrapped,
};
use crate::view::{Series, SeriesLine, Unit};

const HEIGHT: f64 = 152.0;
const LEGEND: f64 = 16.0;
/// Room above the lines for the names of bands.
const NAMES: f64 = 17.0;

/// Lines over time, from zero where all values are positive; time is shown from the first sample.
pub fn series(series: &Series, width: ChartWidth) -> Svg {
    let (left, right) = (width.pick(84.0, 64.0), width.pixels() - 16.0);
    let legend_left = width.pick(left, 0.0);
    let labels: Vec<String> = series
        .lines
        .iter()
        .map(|line| {
            let summary = summary(line, series.unit);
            shortened(&summary, width.letters(legend_left + 16.0))
        })
        .collect();
    let widths: Vec<f64> = labels
        .iter()
        .map(|label| text_width(label) + 32.0)
        .collect();
    let legend = wrapped(&widths, legend_left, width.pixels());
    let below_legend = 32.0 + LEGEND * legend.last().map_or(0.0, |&(_, line)| line as f64 + 1.0);
    let top = below_legend + if series.bands.is_empty() { 0.0 } else { NAMES };
    let bottom = top + HEIGHT;
    let mut svg = Svg::new(&series.title, width, bottom + 26.0);
    let samples = || series.lines.iter().flat_map(|line| &line.samples);
    let times = || {
        let bands = series
            .bands
            .iter()
            .flat_map(|band| [band.start_ns.0, band.end_ns.0]);
        samples().map(|(time, _)| time.0).chain(bands)
    };
    let start = times().min().unwrap_or(0);
    let since = |time: i64| time.saturating_sub(start) as f64;
    let x = ChartAxis::linear(0.0, since(times().max().unwrap_or(0)), left, right);
    let values = samples()
        .map(|&(_, value)| value)
        .filter(|value| value.is_finite());
    let (low, high) = values.fold((0.0_f64, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let y = ChartAxis::linear(low, high * 1.05, bottom, top);

    for (index, band) in series.bands.iter().enumerate() {
        let (from, to) = (x.at(since(band.start_ns.0)), x.at(since(band.end_ns.0)));
        let class = if index % 2 == 0 { "band" } else { "band odd" };
        let room = ((to - from) / text_width("0")) as usize;
        svg.add(
            SvgElement::rect(
                from,
                below_legend,
                (to - from).max(0.5),
                bottom - below_legend,
            )
            .class(class)
            .tooltip(&band.label),
        );
        if room >= 4 {
            let label = shortened(&band.label, room - 1);
            svg.add(SvgElement::text(from + 4.0, below_legend + 12.0, &label).class("tick"));
        }
    }
    for tick in y.ticks(4, series.unit) {
        let at = y.at(tick);
        svg.add(SvgElement::line(left, at, right, at).class("grid"));
        svg.add(SvgElement::text(left - 8.0, at + 4.0, &series.unit.tick(tick)).class("tick end"));
    }
    for tick in x.ticks(width.pick(8, 4), Unit::Nanoseconds) {
        svg.add(x.label(tick, bottom + 18.0, Unit::Nanoseconds, width));
    }
    for (index, ((line, label), (at, row))) in
        series.lines.iter().zip(&labels).zip(legend).enumerate()
    {
        let color = format!("c{}", index % CATEGORIES);
        for segment in segments(line, |time, value| (x.at(since(time)), y.at(value))) {
            svg.add(
                SvgElement::polyline(&segment)
                    .class(&format!("{color} line"))
                    .tooltip(label),
            );
        }
        let baseline = 36.0 + LEGEND * row as f64;
        svg.add(SvgElement::rect(at, baseline - 9.0, 10.0, 10.0).class(&format!("{color} flat")));
        svg.add(SvgElement::text(at + 15.0, baseline, label).class("tick"));
    }
    svg
}

fn summary(line: &SeriesLine, unit: Unit) -> String {
    match line.summary() {
        None => format!("{}: no samples", line.label),
        Some(summary) => format!(
            "{}: mean {}, {} to {}",
            line.label,
            unit.format(summary.mean),
            unit.format(summary.least),
            unit.format(summary.most)
        ),
    }
}

/// Connected segments in pixels. Of the samples on one pixel only the first, lowest, highest and last are kept: the picture is the
/// same and the file small.
fn segments(line: &SeriesLine, place: impl Fn(i64, f64) -> (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let mut segments = Vec::new();
    for segment in line.samples.split(|(_, value)| !value.is_finite()) {
        let points: Vec<(f64, f64)> = segment
            .iter()
            .map(|&(time, value)| place(time.0, value))
            .collect();
        let mut kept: Vec<(f64, f64)> = Vec::new();
        for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
            let by_height =
                |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
            let low = column
                .iter()
                .enumerate()
                .min_by(by_height)
                .map_or(0, |(index, _)| index);
            let high = column
                .iter()
                .enumerate()
                .max_by(by_height)
                .map_or(0, |(index, _)| index);
            let mut keep = [0, low, high, column.len() - 1];
            keep.sort_unstable();
            let mut last = None;
            for index in keep {
                if last != Some(index) {
                    kept.push(column[index]);
                }
                last = Some(index);
            }
        }
        // A lone sample would be a line of no length.
        if let [(x, y)] = kept[..] {
            kept.push((x + 1.0, y));
        }
        if !kept.is_empty() {
            segments.push(kept);
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;
    use crate::view::Band;

    fn line(values: &[f64]) -> SeriesLine {
        SeriesLine {
            is_held: false,
            label: "package".to_owned(),
            samples: values
                .iter()
                .enumerate()
                .map(|(i, &v)| (Nanos(i as i64 * 100_000_000), v))
                .collect(),
        }
    }

    #[test]
    fn snapshot() {
        let band = |label: &str, start, end| Band {
            label: label.to_owned(),
            start_ns: Nanos(start),
            end_ns: Nanos(end),
        };
        let view = Series {
            key: "power".to_owned(),
            title: "Power".to_owned(),
            unit: Unit::Watts,
            lines: vec![
                line(&[40.0, 95.5, 97.0, f64::NAN, 60.0, 55.0]),
                line(&[10.0; 6]),
            ],
            bands: vec![
                band("prefill", 50_000_000, 250_000_000),
                band("decode", 250_000_000, 480_000_000),
            ],
        };
        insta::assert_snapshot!(series(&view, ChartWidth::Wide).inline());
    }

    #[test]
    fn thinning_keeps_extremes_and_breaks_at_gaps() {
        let mut values: Vec<f64> = (0..10_000).map(f64::from).collect();
        values[5_000] = 1e9;
        values[7_000] = f64::NAN;
        let parts = segments(&line(&values), |time, value| (time as f64 / 1e10, value));
        assert_eq!(parts.len(), 2);
        assert!(parts[0].iter().any(|&(_, value)| value == 1e9));
        assert!(parts.iter().map(Vec::len).sum::<usize>() <= 4 * 102);
    }
}
