//! Charts of a document as files of their own.

use crate::chart::{self, ChartWidth, Svg};
use crate::document::{Chart, Document, Drawing};

/// File systems end names at 255 bytes.
const PLOT_NAME_CHARS_MAX: usize = 80;

/// Pictures of one document as files; the page has all of its charts.
const PLOTS_MAX: usize = 200;

/// A name without extension for each chart, and its picture. Keys that are too long for a file are cut; equal ones are numbered.
pub fn plots(document: &Document) -> Vec<(String, Svg)> {
    let mut plots: Vec<(String, Svg)> = Vec::new();
    for chart in document.charts().take(PLOTS_MAX) {
        let name: String = chart.key.chars().take(PLOT_NAME_CHARS_MAX).collect();
        let equal = |name: &str| plots.iter().any(|(known, _)| known == name);
        let free = if equal(&name) {
            // One of as many names as there are plots is free.
            (2..plots.len() + 3)
                .map(|number| format!("{name}-{number}"))
                .find(|name| !equal(name))
                .unwrap_or_default()
        } else {
            name
        };
        plots.push((free, drawn(chart)));
    }
    plots
}

fn drawn(chart: &Chart) -> Svg {
    match &chart.drawing {
        Drawing::Waterfall(view) => chart::waterfall(view, ChartWidth::Wide),
        Drawing::Roofline(view) => chart::roofline(view, ChartWidth::Wide),
        Drawing::Timeline(view) => chart::timeline(view),
        Drawing::Histogram(view) => chart::histogram(view, ChartWidth::Wide),
        Drawing::StepLatency(view) => chart::step_latency(view, ChartWidth::Wide),
        Drawing::Series(view) => chart::series(view, ChartWidth::Wide),
        Drawing::PairedBars(view) => chart::paired_bars(view, ChartWidth::Wide),
        Drawing::HeatMap(view) => chart::heat_map(view, ChartWidth::Wide),
        Drawing::Icicle(view) => chart::icicle(view, ChartWidth::Wide),
        Drawing::Curves(view) => chart::curves(view, ChartWidth::Wide),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::StepLatency;

    #[test]
    fn names_fit_file_systems_and_differ() {
        let mut document = Document::new("t");
        let section = document.section("s", "S");
        for name in ["x".repeat(300), "x".repeat(300), "y".to_owned()] {
            let empty = StepLatency {
                title: String::new(),
                noun: "step",
                lines: Vec::new(),
                marks: Vec::new(),
            };
            section.chart(name, Drawing::StepLatency(empty));
        }
        let names: Vec<String> = plots(&document).into_iter().map(|(name, _)| name).collect();
        let long = "x".repeat(PLOT_NAME_CHARS_MAX);
        assert_eq!(names, [long.clone(), format!("{long}-2"), "y".to_owned()]);
    }
}
