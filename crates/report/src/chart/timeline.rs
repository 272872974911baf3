use llmprof_units::{Count, Nanos};

use super::{
    ChartWidth,
    axis::ChartAxis,
    shortened,
    svg::{Svg, SvgElement},
    theme::CATEGORIES,
};
use crate::view::{Timeline, TimelineRow, Unit};

const LEFT: f64 = 160.0;
const RIGHT: f64 = 952.0;
const TOP: f64 = 34.0;
const ROW: f64 = 12.0;
const GAP: f64 = 6.0;
const COLUMNS: usize = (RIGHT - LEFT) as usize;

/// All events on one picture, for a file: pages draw their own. Where several share a pixel, the one that fills most of it gives the colour and all of them the
/// height, so the picture stays small however many events there are, and shows utilization.
pub fn timeline(timeline: &Timeline) -> Svg {
    let layout = timeline.layout();
    let lanes = layout.rows.chunk_by(|a, b| a.lane == b.lane).count();
    let bottom = TOP + ROW * layout.rows.len() as f64 + GAP * lanes as f64;
    let title = format!("Timeline of {}", Count(timeline.len() as u64, "event"));
    let mut svg = Svg::new(&title, ChartWidth::Wide, bottom + 26.0);
    if layout.hidden > 0 {
        let note = format!("{} more at the same time are not drawn", layout.hidden);
        svg.add(SvgElement::text(RIGHT, 16.0, &note).class("tick end"));
    }
    let span = layout.span().0.max(1) as f64;
    let x = ChartAxis::linear(0.0, span, LEFT, RIGHT);
    for tick in x.ticks(7, Unit::Nanoseconds) {
        let at = x.at(tick);
        svg.add(SvgElement::line(at, TOP - 6.0, at, bottom).class("grid"));
        svg.add(
            SvgElement::text(at, bottom + 16.0, &Unit::Nanoseconds.tick(tick)).class("tick middle"),
        );
    }
    let mut y = TOP;
    for lane in layout.rows.chunk_by(|a, b| a.lane == b.lane) {
        if let Some(name) = timeline.lanes.get(lane[0].lane as usize) {
            svg.add(
                SvgElement::text(LEFT - 10.0, y + 10.0, &shortened(name, 23))
                    .class("tick end")
                    .tooltip(name),
            );
        }
        for row in lane {
            for run in runs(timeline, row, layout.start_ns, span) {
                let color = format!("c{} flat", run.name as usize % CATEGORIES);
                let width = (run.end - run.begin) as f64;
                let high = (ROW - 2.0) * f64::from(run.tenths) / 10.0;
                let top = y + ROW - 2.0 - high;
                let rect =
                    SvgElement::rect(LEFT + run.begin as f64, top, width, high).class(&color);
                svg.add(match timeline.names.get(run.name as usize) {
                    Some(name) if width >= 3.0 => rect.tooltip(name),
                    _ => rect,
                });
            }
            y += ROW;
        }
        y += GAP;
    }
    svg
}

/// Neighbouring pixels that look the same.
struct Run {
    begin: usize,
    end: usize,
    name: u32,
    tenths: u8,
}

#[derive(Clone, Copy, Default)]
struct Pixel {
    covered: f64,
    /// The event that covers most of it, and how much.
    most: Option<(u32, f64)>,
}

fn runs(timeline: &Timeline, row: &TimelineRow, start_ns: Nanos, span: f64) -> Vec<Run> {
    let mut pixels = vec![Pixel::default(); COLUMNS];
    for &index in &row.events {
        let event = timeline.event(index as usize);
        let begin = event.start_ns.0.saturating_sub(start_ns.0) as f64 / span * COLUMNS as f64;
        let end = begin + event.duration_ns.0 as f64 / span * COLUMNS as f64;
        let last = (end.ceil() as usize).clamp(1, COLUMNS);
        let first = (begin as usize).min(last - 1);
        for (column, pixel) in pixels.iter_mut().enumerate().take(last).skip(first) {
            let share = (end.min(column as f64 + 1.0) - begin.max(column as f64)).clamp(0.0, 1.0);
            pixel.covered += share;
            if pixel.most.is_none_or(|(_, most)| share > most) {
                pixel.most = Some((event.name, share));
            }
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (column, pixel) in pixels.iter().enumerate() {
        let Some((name, _)) = pixel.most else {
            continue;
        };
        // Even the shortest event stays visible.
        let tenths = (pixel.covered * 10.0).round().clamp(1.0, 10.0) as u8;
        match runs.last_mut() {
            Some(run) if run.end == column && run.name == name && run.tenths == tenths => {
                run.end += 1;
            }
            _ => runs.push(Run {
                begin: column,
                end: column + 1,
                name,
                tenths,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::TimelineEvent;

    fn sample(events: &[(u32, i64, i64, u32)]) -> Timeline {
        let lanes = vec!["stream 7".to_owned(), "thread 1".to_owned()];
        let names = vec!["gemm".to_owned(), "norm<&>".to_owned()];
        let mut view = Timeline::new(lanes, names, vec!["decode".to_owned()]);
        for &(lane, start, duration, name) in events {
            view.push(TimelineEvent {
                lane,
                start_ns: Nanos(start),
                duration_ns: Nanos(duration),
                name,
                phase: 0,
            });
        }
        view
    }

    #[test]
    fn snapshot() {
        let view = sample(&[
            (0, 100, 400, 0),
            (0, 500, 100, 1),
            (1, 50, 900, 0),
            (1, 60, 300, 1),
        ]);
        insta::assert_snapshot!(timeline(&view).inline());
    }

    #[test]
    fn size_does_not_grow_with_events() {
        let events: Vec<_> = (0..50_000)
            .map(|i| (0, i * 100, 60, (i % 2) as u32))
            .collect();
        let text = timeline(&sample(&events)).inline();
        assert!(text.matches("<rect").count() <= COLUMNS);
    }

    #[test]
    fn height_is_the_covered_share() {
        // 40 of each 100 ns are covered, thousands of times a pixel.
        let events: Vec<_> = (0..100_000).map(|i| (0, i * 100, 40, 0)).collect();
        let view = sample(&events);
        let layout = view.layout();
        let runs = runs(&view, &layout.rows[0], Nanos(0), 1e7);
        assert_eq!((runs.len(), runs[0].end, runs[0].tenths), (1, COLUMNS, 4));
    }

    #[test]
    fn no_events_and_extreme_times_are_drawn() {
        assert!(timeline(&sample(&[])).inline().contains("0 events"));
        timeline(&sample(&[(0, i64::MAX, i64::MAX, 9), (0, i64::MIN, 0, 9)]));
    }
}
