//! Facts of a run from its record and analysis.

use std::collections::BTreeMap;

use llmprof_record::run::{PassKind, RunPhase, RunRecord};

use super::facts::{Disturbance, DisturbanceCause, OperatorTime, PhaseFacts, RunFacts, WorkRow};
use super::mean_pass::MeanPass;
use super::metric::ComparedMetric;
use super::work::WorkedTrace;
use crate::analysis::Analysis;
use crate::latency::{PassMeans, gaps_of};
use crate::phase_analysis::PhaseAnalysis;

impl RunFacts {
    /// Collects the facts of a run, or of its served load if it has one.
    pub fn from_analysis(label: &str, path: &str, record: &RunRecord, analysis: &Analysis) -> Self {
        if let (Some(served), Some(serving)) = (&record.load, &analysis.serving) {
            return Self::of_load(label, path, served, analysis, serving);
        }
        let latency = &analysis.latency;
        let kind = latency.measured_in;
        let on_device = analysis.phases.iter().any(|phase| phase.device().is_some());
        let worked = record
            .trace()
            .filter(|_| on_device)
            .map(WorkedTrace::from_trace);
        let mut facts = Self {
            label: label.to_owned(),
            path: path.to_owned(),
            traits: collect_traits(record, analysis, worked.as_ref()),
            measured_in: kind.map(PassKind::name).unwrap_or_default().to_owned(),
            disturbances: collect_disturbances(analysis),
            sm_clock_mhz: sm_clock(analysis),
            ..Self::default()
        };
        for (number, _) in kind.into_iter().flat_map(|kind| record.passes_of(kind)) {
            let means = PassMeans::from_pass(record, number);
            let rate = means.tokens.map(|(tokens, seconds)| tokens / seconds);
            let values = [
                ("ttft", means.ttft),
                ("tpot", means.tpot),
                ("itl", means.itl),
                ("e2e", means.end_to_end),
                ("tokens_per_s", rate),
            ];
            push_values(&mut facts.passes, values);
        }
        for request in &latency.requests {
            let values = [
                ("ttft", request.ttft_ns.map(|time| time.0 as f64)),
                ("tpot", request.tpot_ns),
                ("e2e", request.end_to_end_ns.map(|time| time.0 as f64)),
            ];
            push_values(&mut facts.requests, values);
        }
        let measured = kind.into_iter().flat_map(|kind| record.passes_of(kind));
        let gaps = measured
            .flat_map(|(number, _)| record.requests_of(number))
            .flat_map(gaps_of)
            .collect();
        let gaps = thin_gaps(gaps);
        if !gaps.is_empty() {
            facts.requests.insert("itl".to_owned(), gaps);
        }
        let run_values = [
            ("energy_per_token", energy_per_token(analysis)),
            ("peak_memory", peak_memory(record, analysis)),
        ];
        push_values(&mut facts.passes, run_values);
        let phases = analysis.phases.iter();
        facts.phases = phases
            .map(|phase| phase_facts(phase, analysis, worked.as_ref()))
            .collect();
        for phase in &facts.phases {
            let Some(metric) = ComparedMetric::of_phase(phase.phase, phase.has_steps) else {
                continue;
            };
            // A run with plain passes is judged by them.
            if kind != Some(PassKind::Plain) && !phase.step_ns.is_empty() {
                facts
                    .passes
                    .entry(metric.key.to_owned())
                    .or_insert_with(|| phase.step_ns.clone());
            }
        }
        facts
    }
}

fn push_values<const N: usize>(
    lists: &mut BTreeMap<String, Vec<f64>>,
    values: [(&str, Option<f64>); N],
) {
    for (key, value) in values {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            lists.entry(key.to_owned()).or_default().push(value);
        }
    }
}

/// Maximum number of gaps between tokens in a run's facts: a baseline is a file to commit.
const GAPS_MAX: usize = 10_000;

/// Sorts gaps between tokens and thins them to [`GAPS_MAX`].
pub fn thin_gaps(values: Vec<f64>) -> Vec<f64> {
    thin_to(values, GAPS_MAX)
}

/// Sorts values and keeps at most `limit` of them at even distances: percentiles stay the same to one in `limit`.
pub fn thin_to(mut values: Vec<f64>, limit: usize) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    if count <= limit {
        return values;
    }
    let at = |place: usize| values[place * (count - 1) / (limit - 1)];
    (0..limit).map(at).collect()
}

fn collect_traits(
    record: &RunRecord,
    analysis: &Analysis,
    worked: Option<&WorkedTrace<'_>>,
) -> BTreeMap<String, String> {
    // A profile of others is called by its file where nobody named the model.
    let is_named = record.plan.is_some() || record.model.is_some();
    let mut traits: Vec<(&str, Option<String>)> = vec![
        ("model", is_named.then(|| analysis.model.clone())),
        ("family", analysis.family.clone()),
        ("device", analysis.device.clone()),
    ];
    if let Some(workload) = &analysis.workload {
        let precision = &workload.precision;
        traits.extend([
            ("batch", Some(workload.batch.to_string())),
            ("prompt_tokens", Some(workload.prompt.to_string())),
            ("new_tokens", Some(workload.new_tokens.to_string())),
            (
                "weights",
                precision.weights.as_ref().map(ToString::to_string),
            ),
            (
                "dtype",
                precision.activations.map(|dtype| dtype.to_string()),
            ),
            ("kv_dtype", precision.kv.map(|dtype| dtype.to_string())),
        ]);
    }
    // The shapes of a trace name its model where nobody did.
    if let Some(shown) = worked.and_then(|worked| worked.structure.shown.as_ref()) {
        let (rows, width) = shown.table;
        traits.push(("embedding_table", Some(format!("{rows} × {width}"))));
        let attentions = shown.passes.iter().map(|pass| pass.attentions).max();
        let attentions = attentions.filter(|&calls| calls > 0);
        traits.push(("attention_calls", attentions.map(|calls| calls.to_string())));
    }
    let counted = record.model.as_ref().and_then(|model| model.model.as_ref());
    let parameters = counted.map(|model| model.parameter_count().to_string());
    traits.push(("parameters", parameters));
    if let Some(plan) = &record.plan {
        let runtime = format!("{:?}", plan.runtime.kind).to_lowercase();
        traits.push(("runtime", Some(runtime)));
        traits.push((
            "threads",
            plan.runtime.threads.map(|count| count.to_string()),
        ));
    }
    if let Some(host) = &record.host {
        traits.push(("cpu", host.cpu.model.clone()));
        if let Some(nvidia) = &host.nvidia {
            traits.push(("driver", nvidia.driver_version.clone()));
            traits.push(("gpu", nvidia.gpus.first().and_then(|gpu| gpu.name.clone())));
            let limit = nvidia.gpus.first().and_then(|gpu| gpu.power_limit_w);
            traits.push(("power_limit", limit.map(|limit| limit.to_string())));
        }
        for key in ["torch", "transformers", "cuda"] {
            traits.push((key, host.worker.get(key).cloned()));
        }
    }
    let tool = analysis
        .timeline
        .as_ref()
        .and_then(|trace| trace.tool.clone());
    traits.push(("profiler", tool));
    traits
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Joules of a token of decode, where all of it was measured.
fn energy_per_token(analysis: &Analysis) -> Option<f64> {
    let mut phases = analysis.telemetry.iter().flat_map(|seen| &seen.phases);
    let decode = phases.find(|seen| seen.phase == RunPhase::Decode)?;
    Some(decode.joules_per_token()?.0)
}

/// The most memory of the device's allocator in plain passes, else of the worker.
fn peak_memory(record: &RunRecord, analysis: &Analysis) -> Option<f64> {
    let plain = record.passes_of(PassKind::Plain);
    let facts = plain.flat_map(|(_, pass)| &pass.allocator);
    let allocated = facts.map(|facts| facts.peak_allocated_bytes.0).max();
    let worker = || Some(analysis.telemetry.as_ref()?.peak_worker_rss_bytes?.0);
    allocated.or_else(worker).map(|bytes| bytes as f64)
}

fn sm_clock(analysis: &Analysis) -> Option<f64> {
    let phases = &analysis.telemetry.as_ref()?.phases;
    let clock_in = |wanted: RunPhase| {
        let seen = phases.iter().find(|seen| seen.phase == wanted)?;
        seen.gpus.iter().find_map(|gpu| gpu.sm_clock_mhz)
    };
    clock_in(RunPhase::Decode).or_else(|| clock_in(RunPhase::Prefill))
}

fn collect_disturbances(analysis: &Analysis) -> Vec<Disturbance> {
    let Some(telemetry) = &analysis.telemetry else {
        return Vec::new();
    };
    let mut disturbances = Vec::new();
    let mut note = |cause, share: f64| {
        if share > 0.0 {
            disturbances.push(Disturbance { cause, share });
        }
    };
    if let Some(used) = &telemetry.processors {
        let all = used.processors.max(1.0);
        note(
            DisturbanceCause::ProcessorsShared,
            used.lost_to_others() / all,
        );
        note(DisturbanceCause::ProcessorsStolen, used.stolen / all);
        note(
            DisturbanceCause::ProcessorsThrottled,
            used.throttled.unwrap_or(0.0) / all,
        );
    }
    let gpus = telemetry.phases.iter().flat_map(|seen| &seen.gpus);
    let throttled = gpus.filter_map(|gpu| gpu.throttled_share);
    note(
        DisturbanceCause::GpuThrottled,
        throttled.fold(0.0, f64::max),
    );
    disturbances
}

fn phase_facts(
    phase: &PhaseAnalysis,
    analysis: &Analysis,
    worked: Option<&WorkedTrace<'_>>,
) -> PhaseFacts {
    let (count, has_steps) = count_steps(phase, analysis);
    let steps = count as f64;
    let per_step = |time: llmprof_units::Nanos| time.0 as f64 / steps;
    let waterfall = &phase.waterfall;
    let work = worked.and_then(|worked| worked.phase_work(phase, steps));
    let (mut rows, sequence) = match work {
        Some(work) => (work.rows, work.sequence),
        None => (host_work(phase, steps), Vec::new()),
    };
    add_remainder(&mut rows, per_step(waterfall.sum_ns));
    let traced = phase.traced.as_ref();
    let mut step_ns: Vec<f64> = traced
        .iter()
        .flat_map(|traced| traced.step_ns.iter().map(|step| step.0 as f64))
        .collect();
    if step_ns.is_empty() {
        let instances = traced.iter().flat_map(|traced| &traced.instances);
        let judged = instances.filter(|one| !one.left_out);
        step_ns = judged.map(|one| one.wall_ns.0 as f64).collect();
        let (per_range, ranges) = (count as usize, step_ns.len());
        if ranges > 0 && per_range != ranges {
            step_ns.clear();
        }
    }
    let causes = waterfall.idle.iter();
    PhaseFacts {
        name: phase.name().to_owned(),
        phase: phase.phase,
        on_device: phase.device().is_some(),
        steps: count,
        has_steps,
        wall_ns: per_step(waterfall.wall_ns),
        plain_wall_ns: phase.unrecorded_wall().map(per_step),
        busy_ns: per_step(waterfall.busy_ns),
        idle_ns: per_step(waterfall.idle_ns),
        overlap_ns: per_step(waterfall.overlap_ns),
        parts: waterfall_parts(phase, steps),
        idle_causes: causes
            .map(|cause| (cause.name.clone(), per_step(cause.time_ns)))
            .collect(),
        overhead_ratio: phase.capture_ratio,
        operators: phase
            .by_path
            .iter()
            .map(|group| OperatorTime {
                name: group.name.clone(),
                kind: group.kind.to_string(),
                calls: group.calls as f64 / steps,
                time_ns: per_step(group.measured_ns),
            })
            .collect(),
        work: rows,
        sequence,
        step_ns,
        pass_shape: worked.and_then(|worked| MeanPass::from_phase(phase, &worked.structure)),
    }
}

/// Parts of the waterfall by key. They sum to the wall time.
fn waterfall_parts(phase: &PhaseAnalysis, steps: f64) -> Vec<(String, f64)> {
    let waterfall = &phase.waterfall;
    let mut parts = match (waterfall.roofline_ns, waterfall.inefficiency_ns) {
        (Some(roofline), Some(rest)) => {
            vec![("roofline", roofline), ("kernel_inefficiency", rest)]
        }
        _ => vec![("matched", waterfall.matched_ns)],
    };
    parts.extend([
        ("overhead_ops", waterfall.extra_ns),
        ("copies", waterfall.copies_ns),
        ("communication", waterfall.communication_ns),
        ("unattributed", waterfall.unattributed_ns),
        ("idle", waterfall.idle_ns),
        ("overlap", -waterfall.overlap_ns),
    ]);
    parts
        .into_iter()
        .map(|(key, time)| (key.to_owned(), time.0 as f64 / steps))
        .collect()
}

/// The number of decode steps that the profiled time covers, and true; without steps the number of ranges, and false. A prefill is a
/// step.
fn count_steps(phase: &PhaseAnalysis, analysis: &Analysis) -> (u64, bool) {
    let is_prefill = phase.phase == RunPhase::Prefill;
    let Some(traced) = &phase.traced else {
        return (1, is_prefill);
    };
    if !traced.step_ns.is_empty() {
        return (traced.step_ns.len() as u64, true);
    }
    let judged = traced.instances.iter().filter(|one| !one.left_out).count();
    let ranges = (judged as u64).max(1);
    let recorded = traced.recorded.and_then(|part| part.steps);
    if let Some(steps) = recorded.filter(|steps| *steps > 0) {
        return (steps, true);
    }
    let of_decode = analysis
        .workload
        .filter(|_| phase.phase == RunPhase::Decode && analysis.latency.measured_in.is_some())
        .map(|workload| workload.new_tokens.saturating_sub(1).max(1));
    (
        ranges * of_decode.unwrap_or(1),
        is_prefill || of_decode.is_some(),
    )
}

/// Operators of the host, by place in the model.
fn host_work(phase: &PhaseAnalysis, steps: f64) -> Vec<WorkRow> {
    let row = |name: &str, category: String, calls: u64, time: i64| WorkRow {
        name: name.to_owned(),
        category,
        calls: calls as f64 / steps,
        time_ns: time as f64 / steps,
        places: vec![name.to_owned()],
    };
    let groups = phase.by_path.iter();
    let matched = groups.map(|group| {
        let kind = group.kind.to_string();
        row(&group.name, kind, group.calls, group.measured_ns.0)
    });
    let unmatched = phase.unmatched.iter();
    let unmatched = unmatched.map(|operator| {
        row(
            &operator.path,
            operator.found.clone(),
            operator.calls,
            operator.time_ns.0,
        )
    });
    matched.chain(unmatched).collect()
}

/// Name of the row for the time that no other row holds.
pub const OTHER_WORK: &str = "(other)";

/// Adds a row [`OTHER_WORK`] for the time that the lists of the analysis leave out, so that rows sum to `sum`.
fn add_remainder(rows: &mut Vec<WorkRow>, sum: f64) {
    let listed: f64 = rows.iter().map(|row| row.time_ns).sum();
    let rest = sum - listed;
    if rest.abs() > 0.5 {
        rows.push(WorkRow {
            name: OTHER_WORK.to_owned(),
            category: "other".to_owned(),
            time_ns: rest,
            ..WorkRow::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_values_keep_their_percentiles() {
        let values: Vec<f64> = (0..100_001).rev().map(f64::from).collect();
        let kept = thin_gaps(values);
        assert_eq!(kept.len(), GAPS_MAX);
        assert_eq!((kept[0], kept[GAPS_MAX - 1]), (0.0, 100_000.0));
        let p99 = kept[GAPS_MAX * 99 / 100];
        assert!((p99 / 99_000.0 - 1.0).abs() < 1e-3, "{p99}");
        assert_eq!(thin_gaps(vec![2.0, 1.0]), [1.0, 2.0]);
    }
}
