//! Ranks × steps: the own time of each rank in each step of a job.

use serde_json::{Value, json};

use crate::names::Named;
use crate::opened_run::OpenedRun;

const ONE_RANK: &str =
    "This run has one rank. llmprof import rank0.json rank1.json … joins the ranks of a job.";

pub(super) fn ranks_json(run: &OpenedRun) -> Value {
    let ranks = run
        .analysis
        .as_ref()
        .and_then(|analysis| analysis.ranks.as_ref());
    let Some(ranks) = ranks else {
        return json!({"why": ONE_RANK});
    };
    let Some(job) = ranks.job.as_ref().filter(|job| !job.steps.is_empty()) else {
        let why = if ranks.are_devices {
            "The GPUs of this run are in one trace, and steps of each are not told apart. The page of the run compares the GPUs."
        } else {
            "No step is in the profiles of at least two ranks. The page of the run compares the ranks."
        };
        return json!({"why": why});
    };
    let steps = job.steps.iter().map(|step| {
        let mark = step.number.map(|number| format!("ProfilerStep#{number}"));
        let is_shown = |mark: &String| run.timeline.names.find(Named::As("range"), mark).is_some();
        json!({
            "number": step.number, "median_own_ns": step.median_own_ns, "longest_own_ns": step.longest_own_ns,
            "longest_rank": step.longest_rank, "max_ns": step.max_ns, "mark": mark.filter(is_shown),
        })
    });
    json!({
        "has_marked_steps": job.has_marked_steps,
        "ranks": job.step_times.ranks,
        "own_ns": job.step_times.own_ns,
        "steps": steps.collect::<Vec<_>>(),
        "stragglers": job.stragglers.iter().map(|straggler| straggler.rank).collect::<Vec<_>>(),
    })
}
