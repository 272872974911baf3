//! Two runs beside each other: the result of `llmprof compare`, and kernels by the difference of their time.

use std::collections::BTreeMap;

use llmprof_analysis::compare::{
    CompareOptions, Comparison, RatioInterval, RunFacts, thin_to, unpaired_medians,
};
use llmprof_report::compose::compare::sentences as words;
use llmprof_report::compose::compare::{compared, facts_of, metrics};
use llmprof_units::stats::whole_median;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::opened_run::OpenedRun;
use crate::run_page::table_json;

/// Calls of a side that an interval is resampled from. Of more it would be narrower, and a page of a hundred kernels would take minutes.
const RESAMPLED_CALLS_MAX: usize = 128;
/// Kernels with an interval: those with the largest differences.
const KERNELS_WITH_INTERVAL_MAX: usize = 100;

pub(crate) fn compare_json(a: &OpenedRun, b: &OpenedRun) -> Value {
    json!({"result": result_json(a, b), "kernels": kernels_json(a, b)})
}

/// Sentences and metrics of the comparison; null where a run has no analysis.
fn result_json(a: &OpenedRun, b: &OpenedRun) -> Option<Value> {
    let facts = |run: &OpenedRun| -> Option<[RunFacts; 1]> {
        let analysis = run.analysis.as_ref()?;
        Some([facts_of(&run.title, &run.title, &run.record, analysis)])
    };
    let (first, second) = (facts(a)?, facts(b)?);
    let comparison = Comparison::between(&first, &second, CompareOptions::default())?;
    let document = compared(&comparison, (&first, &second), &[]);
    let has_metrics = !comparison.metrics.is_empty();
    Some(json!({
        "caveats": document.caveats,
        "summary": document.summary,
        "metrics": has_metrics.then(|| table_json(&a.timeline, &metrics(&comparison))),
        "notes": words::notes(&comparison).collect::<Vec<_>>(),
    }))
}

/// All calls of the kernels that share a label: those that differ in template arguments alone do.
struct KernelCalls {
    /// Number of the first one's name.
    name: u32,
    category: &'static str,
    durations: Vec<i64>,
    total_ns: i64,
}

fn calls_by_label(run: &OpenedRun) -> BTreeMap<&str, KernelCalls> {
    let mut rows: BTreeMap<&str, KernelCalls> = BTreeMap::new();
    let (names, traces) = (&run.timeline.names, &run.timeline.traces);
    let Some(kernels) = (traces.first()).map(|first| &run.record.traces[first.index].trace.kernels)
    else {
        return rows;
    };
    for (id, &duration) in kernels.name.iter().zip(kernels.duration.iter()) {
        let Some(name) = names.kernel_name(0, *id) else {
            continue;
        };
        let row = rows.entry(names.label(name)).or_insert(KernelCalls {
            name,
            category: names.category(name),
            durations: Vec::new(),
            total_ns: 0,
        });
        row.durations.push(duration);
        row.total_ns += duration;
    }
    rows
}

/// Kernels of either side, the largest difference first.
fn kernels_json(a: &OpenedRun, b: &OpenedRun) -> Vec<Value> {
    let (mut first, mut second) = (calls_by_label(a), calls_by_label(b));
    let labels: Vec<&str> = first.keys().chain(second.keys()).copied().collect();
    let mut rows: Vec<(&str, Option<KernelCalls>, Option<KernelCalls>, i64)> = (labels.iter())
        .filter_map(|label| {
            let (a, b) = (first.remove(label), second.remove(label));
            let total = |side: Option<&KernelCalls>| side.map(|calls| calls.total_ns);
            let difference = match (total(a.as_ref()), total(b.as_ref())) {
                // The label of both sides comes twice.
                (None, None) => return None,
                (a, b) => b.unwrap_or(0) - a.unwrap_or(0),
            };
            Some((*label, a, b, difference))
        })
        .collect();
    rows.sort_by_key(|(.., difference)| std::cmp::Reverse(difference.abs()));
    let rows = rows.into_par_iter().enumerate();
    rows.map(|(place, (label, a, b, difference))| {
        let both = a.as_ref().zip(b.as_ref());
        let interval = both
            .filter(|_| place < KERNELS_WITH_INTERVAL_MAX)
            .and_then(|(a, b)| median_interval(&a.durations, &b.durations));
        let category = a.as_ref().or(b.as_ref()).map(|calls| calls.category);
        json!({
            "label": label, "category": category, "difference_ns": difference,
            "a": a.map(side_json), "b": b.map(side_json),
            "ratio": interval.map(|interval| interval.ratio),
            "ci_low": interval.map(|interval| interval.low),
            "ci_high": interval.map(|interval| interval.high),
            "change": interval.map(|interval| words::change(interval.ratio)),
            "interval": interval.map(|interval| words::interval_between(interval.low, interval.high)),
        })
    })
    .collect()
}

fn side_json(mut calls: KernelCalls) -> Value {
    json!({
        "name": calls.name, "calls": calls.durations.len(), "total_ns": calls.total_ns,
        "median_ns": whole_median(&mut calls.durations),
    })
}

/// B ÷ A of the median call. Calls of one capture a side: what varies between captures is not in the interval.
fn median_interval(a: &[i64], b: &[i64]) -> Option<RatioInterval> {
    let thinned = |durations: &[i64]| {
        let durations = durations.iter().map(|&duration| duration as f64);
        thin_to(durations.collect(), RESAMPLED_CALLS_MAX)
    };
    unpaired_medians(&thinned(a), &thinned(b))
}
