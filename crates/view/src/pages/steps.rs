//! How long single steps took, in their order.

use llmprof_analysis::Analysis;
use llmprof_analysis::steps::StepPattern;
use llmprof_record::run::{PassKind, RunRecord};
use llmprof_report::compose::steps::sentences::{by_pattern, is_told};
use serde_json::{Value, json};

use crate::opened_run::OpenedRun;
use crate::percentiles::add_percentiles;
use crate::timeline::ViewTimeline;

/// Steps of one series that a page gets; of more, the longest of each group.
const STEPS_MAX: usize = 20_000;
/// Series of one page: those with most steps.
const SERIES_MAX: usize = 12;

const NO_STEPS: &str = "Nothing in this run shows steps: no phase or marked range occurs twice, no sequence of launches repeats, and no token times were recorded.";

/// Steps of one kind: `(start, duration)`, the start where it is on the clock of the timeline.
struct StepSeries {
    name: String,
    source: &'static str,
    steps: Vec<(Option<i64>, i64)>,
}

pub(super) fn steps_json(run: &OpenedRun) -> Value {
    let mut series = phase_series(&run.timeline);
    // Launches that repeat say less than marked steps.
    let has_marked_steps = series.iter().any(|one| one.steps.len() > 1);
    let by_launches = |analysis: &&Analysis| !has_marked_steps || by_pattern(analysis);
    if let Some(analysis) = run.analysis.as_ref().filter(by_launches) {
        series.extend(pattern_series(&run.timeline, analysis));
    }
    series.extend(token_series(&run.record));
    series.extend(engine_series(run));
    series.retain(|one| one.steps.len() > 1);
    if series.is_empty() {
        let counted = run.analysis.as_ref().and_then(counted_steps);
        return json!({"why": counted.as_deref().unwrap_or(NO_STEPS)});
    }
    let left_off = series.len().saturating_sub(SERIES_MAX);
    series.sort_by_key(|one| std::cmp::Reverse(one.steps.len()));
    series.truncate(SERIES_MAX);
    json!({"series": series.iter().map(series_json).collect::<Vec<_>>(), "left_off": left_off})
}

fn series_json(series: &StepSeries) -> Value {
    let durations = series.steps.iter().map(|step| step.1).collect();
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
    let mut page = json!({
        "name": series.name, "source": series.source, "count": series.steps.len(), "group": group,
        "steps": steps.collect::<Vec<_>>(),
    });
    add_percentiles(&mut page, durations);
    page
}

/// That the steps of phases are counted and nothing shows where each begins; `None` where no phase has several.
fn counted_steps(analysis: &Analysis) -> Option<String> {
    let several = analysis.replays.iter().filter(|replay| replay.steps > 1);
    let counted = several.map(|replay| {
        let name = replay.label.as_deref().unwrap_or(replay.phase.name());
        format!(
            "{name} has {} steps of {} on average",
            replay.steps, replay.recorded_ns
        )
    });
    let counted: Vec<String> = counted.collect();
    (!counted.is_empty()).then(|| {
        format!(
            "{}, but nothing in the trace shows where each begins.",
            counted.join(", ")
        )
    })
}

fn phase_series(timeline: &ViewTimeline) -> Vec<StepSeries> {
    let mut series: Vec<StepSeries> = Vec::new();
    for (name, start, end) in &timeline.phases {
        let step = (Some(start - timeline.origin), end - start);
        match series.iter_mut().find(|one| one.name == *name) {
            Some(one) => one.steps.push(step),
            None => series.push(StepSeries {
                name: name.clone(),
                source: "phases of the timeline",
                steps: vec![step],
            }),
        }
    }
    series
}

/// Sequences of launches that repeat. One that repeats in a single interval of a phase as often as the phase has steps is its step.
fn pattern_series(timeline: &ViewTimeline, analysis: &Analysis) -> Vec<StepSeries> {
    let patterns = analysis
        .timeline
        .as_ref()
        .and_then(|trace| trace.steps.as_ref());
    let patterns = patterns.map_or(&[][..], |patterns| &patterns.patterns);
    let told = patterns.iter().filter(|pattern| is_told(pattern));
    told.map(|pattern| {
        let (name, source) = match phase_of_steps(timeline, analysis, pattern) {
            Some(phase) => (
                format!("{phase} step"),
                "a sequence of launches that repeats in the phase as often as the phase has steps",
            ),
            None => (
                pattern.name.clone(),
                "a sequence of launches that repeats; nothing proves what it is",
            ),
        };
        StepSeries {
            name,
            source,
            steps: (pattern.start_ns.iter().zip(&pattern.step_ns))
                .map(|(start, length)| (Some(start.0 - timeline.origin), length.0))
                .collect(),
        }
    })
    .collect()
}

/// The phase whose steps a pattern shows: all repetitions begin in its only interval, and the replay counted as many steps there.
fn phase_of_steps<'a>(
    timeline: &'a ViewTimeline,
    analysis: &Analysis,
    pattern: &StepPattern,
) -> Option<&'a str> {
    let mut phases = timeline.phases.iter();
    let (name, ..) = phases.find(|(_, from, to)| {
        let mut starts = pattern.start_ns.iter();
        starts.all(|start| (*from..*to).contains(&start.0))
    })?;
    let intervals = timeline.phases.iter().filter(|phase| phase.0 == *name);
    let mut replays = analysis.replays.iter();
    let has_as_many = replays.any(|replay| {
        replay.label.as_deref().unwrap_or(replay.phase.name()) == name
            && replay.steps == pattern.steps
    });
    (has_as_many && intervals.count() == 1).then_some(name.as_str())
}

/// Times between tokens of the requests of plain passes.
fn token_series(record: &RunRecord) -> Option<StepSeries> {
    let plain = record.passes_of(PassKind::Plain);
    let requests = plain.flat_map(|(pass, _)| record.requests_of(pass));
    let between = requests.flat_map(|request| {
        let pairs = request.token_ns.windows(2);
        pairs.map(|pair| (None, pair[1].0.saturating_sub(pair[0].0)))
    });
    let steps: Vec<_> = between.collect();
    (!steps.is_empty()).then(|| StepSeries {
        name: "time between tokens".to_owned(),
        source: "token times of the passes without a profiler, request after request",
        steps,
    })
}

fn engine_series(run: &OpenedRun) -> Option<StepSeries> {
    let load = run.record.load.as_ref()?;
    let steps = load.steps.iter().map(|step| {
        let start = run.timeline.unix_to_timeline(step.start_unix_ns);
        (
            start,
            step.end_unix_ns.0.saturating_sub(step.start_unix_ns.0),
        )
    });
    Some(StepSeries {
        name: "engine steps".to_owned(),
        source: "the server's trace",
        steps: steps.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_repeat_as_often_as_a_phase_has_steps_are_its_steps() {
        let phase = |steps: u64| json!({"phase": "decode", "steps": steps, "recorded_ns": 10, "error": 0.0, "plain_ns": 10, "without_causes_ns": 10});
        let mut analysis = Analysis::default();
        analysis
            .replays
            .push(serde_json::from_value(phase(6)).unwrap());
        let spread = json!({"count": 6, "mean": 10.0, "min": 10.0, "p50": 10.0, "p90": 10.0, "p99": 10.0, "max": 10.0});
        let work = json!({"count": 6, "mean": 9.0, "deviation": null, "ci95_half_width": null, "min": 9.0, "max": 9.0});
        let pattern = json!({
            "name": "pattern 1 (442 kernels)", "launched_by": "thread 1", "steps": 6, "equal": 6, "kernels": 442, "launches": 442,
            "wall_ns": spread, "wall_deviation_ns": 0.0, "kernel_time_ns": work, "usual_kernel_time_ns": 9.0, "idle_share": 0.1,
            "start_ns": [100, 110, 120, 130, 140, 150], "step_ns": [10, 10, 10, 10, 10, 10],
        });
        let pattern: StepPattern = serde_json::from_value(pattern).unwrap();
        let record = RunRecord::default();
        let mut timeline = ViewTimeline::from_record(&record, None).unwrap();
        timeline.phases = vec![
            ("prefill".to_owned(), 0, 100),
            ("decode".to_owned(), 100, 160),
        ];
        assert_eq!(
            phase_of_steps(&timeline, &analysis, &pattern),
            Some("decode")
        );
        let why = counted_steps(&analysis);
        assert!(
            why.is_some_and(|why| why.starts_with("decode has 6 steps of 10 ns on average, but"))
        );
        // Seven steps, or repetitions that begin in another phase, are not those.
        analysis.replays = vec![serde_json::from_value(phase(7)).unwrap()];
        assert_eq!(phase_of_steps(&timeline, &analysis, &pattern), None);
        timeline.phases[1].1 = 105;
        analysis.replays = vec![serde_json::from_value(phase(6)).unwrap()];
        assert_eq!(phase_of_steps(&timeline, &analysis, &pattern), None);
    }

    #[test]
    fn groups_keep_their_longest_step() {
        let steps =
            (0..50_000_i64).map(|number| (Some(number), if number == 31_234 { 900 } else { 10 }));
        let series = StepSeries {
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
            (&json!(10.0), &json!(900))
        );
    }
}
