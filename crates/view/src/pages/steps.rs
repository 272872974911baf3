//! How long single steps took, in their order.

use llmprof_analysis::Analysis;
use llmprof_record::run::{PassKind, RunRecord};
use llmprof_report::text::steps::{by_pattern, is_told};
use llmprof_units::stats::nearest_percentile;
use serde_json::{Value, json};

use crate::opened_run::OpenedRun;
use crate::timeline::Timeline;

/// Steps of one series that a page gets; of more, the longest of each group.
const STEPS_MAX: usize = 20_000;
/// Series of one page: those with most steps.
const SERIES_MAX: usize = 12;

const NO_STEPS: &str = "Nothing in this run shows steps: no phase or marked range occurs twice, no sequence of launches repeats, and no token times were recorded.";

/// Steps of one kind: `(start, duration)`, the start where it is on the clock of the timeline.
struct Series {
    name: String,
    source: &'static str,
    steps: Vec<(Option<i64>, i64)>,
}

pub(super) fn steps_json(run: &OpenedRun) -> Value {
    let mut series = phase_series(&run.timeline);
    if let Some(analysis) = &run.analysis {
        series.extend(pattern_series(&run.timeline, analysis));
    }
    series.extend(token_series(&run.record));
    series.extend(engine_series(run));
    series.retain(|one| one.steps.len() > 1);
    if series.is_empty() {
        return json!({"why": NO_STEPS});
    }
    let left_off = series.len().saturating_sub(SERIES_MAX);
    series.sort_by_key(|one| std::cmp::Reverse(one.steps.len()));
    series.truncate(SERIES_MAX);
    json!({"series": series.iter().map(series_json).collect::<Vec<_>>(), "left_off": left_off})
}

fn series_json(series: &Series) -> Value {
    let mut sorted: Vec<i64> = series.steps.iter().map(|step| step.1).collect();
    sorted.sort_unstable();
    let quantile = |share: f64| nearest_percentile(&sorted, share);
    let group = series.steps.len().div_ceil(STEPS_MAX);
    let steps = series
        .steps
        .chunks(group)
        .enumerate()
        .map(|(number, chunk)| {
            let longest = (0..chunk.len()).max_by_key(|&at| (chunk[at].1, std::cmp::Reverse(at)));
            let at = longest.unwrap_or(0);
            json!([number * group + at, chunk[at].0, chunk[at].1])
        });
    json!({
        "name": series.name, "source": series.source, "count": series.steps.len(), "group": group,
        "steps": steps.collect::<Vec<_>>(),
        "min_ns": sorted[0], "p50_ns": quantile(0.5), "p90_ns": quantile(0.9), "p99_ns": quantile(0.99), "max_ns": quantile(1.0),
    })
}

fn phase_series(timeline: &Timeline) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (name, start, end) in &timeline.phases {
        let step = (Some(start - timeline.origin), end - start);
        match series.iter_mut().find(|one| one.name == *name) {
            Some(one) => one.steps.push(step),
            None => series.push(Series {
                name: name.clone(),
                source: "phases of the timeline",
                steps: vec![step],
            }),
        }
    }
    series
}

/// Sequences of launches that repeat, where no proven phase says what they are.
fn pattern_series(timeline: &Timeline, analysis: &Analysis) -> Vec<Series> {
    let patterns = analysis
        .timeline
        .as_ref()
        .and_then(|trace| trace.steps.as_ref());
    let Some(patterns) = patterns.filter(|_| by_pattern(analysis)) else {
        return Vec::new();
    };
    let told = patterns.patterns.iter().filter(|pattern| is_told(pattern));
    told.map(|pattern| Series {
        name: pattern.name.clone(),
        source: "a sequence of launches that repeats; nothing proves what it is",
        steps: (pattern.start_ns.iter().zip(&pattern.step_ns))
            .map(|(start, length)| (Some(start.0 - timeline.origin), length.0))
            .collect(),
    })
    .collect()
}

/// Times between tokens of the requests of plain passes.
fn token_series(record: &RunRecord) -> Option<Series> {
    let plain = record.passes_of(PassKind::Plain);
    let requests = plain.flat_map(|(pass, _)| record.requests_of(pass));
    let between = requests.flat_map(|request| {
        let pairs = request.token_ns.windows(2);
        pairs.map(|pair| (None, pair[1].0.saturating_sub(pair[0].0)))
    });
    let steps: Vec<_> = between.collect();
    (!steps.is_empty()).then(|| Series {
        name: "time between tokens".to_owned(),
        source: "token times of the passes without a profiler, request after request",
        steps,
    })
}

fn engine_series(run: &OpenedRun) -> Option<Series> {
    let load = run.record.load.as_ref()?;
    let steps = load.steps.iter().map(|step| {
        let start = run.timeline.unix_to_timeline(step.start_unix_ns);
        (
            start,
            step.end_unix_ns.0.saturating_sub(step.start_unix_ns.0),
        )
    });
    Some(Series {
        name: "engine steps".to_owned(),
        source: "the server's trace",
        steps: steps.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_longest_step() {
        let steps =
            (0..50_000_i64).map(|number| (Some(number), if number == 31_234 { 900 } else { 10 }));
        let series = Series {
            name: "decode_step".to_owned(),
            source: "",
            steps: steps.collect(),
        };
        let page = series_json(&series);
        assert_eq!(
            (&page["group"], &page["count"]),
            (&json!(3), &json!(50_000))
        );
        let longest = page["steps"]
            .as_array()
            .and_then(|steps| steps.iter().find(|step| step[2] == 900));
        assert_eq!(longest, Some(&json!([31_234, 31_234, 900])));
        assert_eq!(
            (&page["p50_ns"], &page["max_ns"]),
            (&json!(10), &json!(900))
        );
    }
}
