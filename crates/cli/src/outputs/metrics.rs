//! `metrics.json`: the numbers, with the names that the file has always had where their meaning holds.

use llmprof_analysis::PhaseAnalysis;
use llmprof_analysis::roofline::Utilization;
use llmprof_analysis::stats::Summary;
use llmprof_analysis::steps::{StepPattern, StepPatterns};
use llmprof_record::run::RunPhase;
use llmprof_theory::device::Engine;
use serde_json::{Map, Value, json};

use super::Results;

pub(super) fn metrics(results: &Results<'_>) -> Value {
    let analysis = results.analysis;
    let latency = &analysis.latency;
    let counted = results
        .record
        .model
        .as_ref()
        .and_then(|model| model.model.as_ref());
    let used = |choose: fn(&Utilization) -> Option<f64>| {
        let mut stages = Map::new();
        let phases = [
            RunPhase::Vision,
            RunPhase::Encoder,
            RunPhase::Prefill,
            RunPhase::Decode,
        ];
        for phase in phases {
            let found = analysis.phase(phase).and_then(utilization).and_then(choose);
            if !phase.is_before_decoder() || found.is_some() {
                stages.insert(phase.name().to_owned(), json!(found));
            }
        }
        stages
    };
    let tokens: Vec<f64> = latency
        .requests
        .iter()
        .map(|request| request.output_tokens as f64)
        .collect();
    json!({
        "aggregates": {
            "prefill_ms": millis(latency.prefill_ns.as_ref()),
            "decode_ms": millis(latency.decode_ns.as_ref()),
            "ttft_ms": millis(latency.ttft_ns.as_ref()),
            "tpot_ms": millis(latency.tpot_ns.as_ref()),
            "tokens": plain(Summary::of(&tokens).as_ref()),
            "tokens_per_s": plain(latency.tokens_per_s.as_ref()),
            "decode_tokens_per_s": plain(latency.decode_tokens_per_s.as_ref()),
            "itl_ns": latency.itl_ns,
            "stage_ms": {
                "prefill": millis(latency.prefill_ns.as_ref()),
                "decode": millis(latency.decode_ns.as_ref()),
            },
        },
        "mfu_model_level": model_level(results),
        "mfu_per_stage": used(|used| used.mfu),
        "mbu_per_stage": used(|used| used.mbu),
        "phases": analysis.phases.iter().map(|phase| json!({
            "phase": phase.name(),
            "class": phase.class.class,
            "waterfall": phase.waterfall,
            "whole_wall_ns": phase.whole_wall(),
            "plain_wall_ns": phase.unrecorded_wall(),
            "capture_ratio": phase.capture_ratio,
            "step_ns": phase.traced.as_ref().and_then(|traced| traced.steps),
            "recorded": phase.traced.as_ref().and_then(|traced| traced.recorded),
        })).collect::<Vec<_>>(),
        "steps": analysis.timeline.as_ref().and_then(|timeline| timeline.steps.as_ref()).map(steps),
        "slices": analysis.timeline.as_ref().and_then(|timeline| timeline.scaled.as_ref()),
        "model": {
            "name": analysis.model,
            "family": analysis.family,
            "parameters": counted.map(llmprof_theory::Model::parameters),
        },
        "model_dims": results.record.model.as_ref().map(|model| dims(&model.design)),
        "device": analysis.device,
        "peak_tflops": peak_tflops(results),
        "predictions": results.predictions,
        "requests": latency.requests,
    })
}

/// Steps and layers by the pattern of launches, without the times of each step.
fn steps(found: &StepPatterns) -> Value {
    let pattern = |pattern: &StepPattern| {
        json!({
            "name": pattern.name,
            "launched_by": pattern.launched_by,
            "steps": pattern.steps,
            "equal": pattern.equal,
            "kernels": pattern.kernels,
            "launches": pattern.launches,
            "wall_ns": pattern.wall_ns,
            "wall_deviation_ns": pattern.wall_deviation_ns,
            "kernel_time_ns": pattern.kernel_time_ns,
            "idle_share": pattern.idle_share,
        })
    };
    json!({
        "patterns": found.patterns.iter().map(pattern).collect::<Vec<_>>(),
        "unlike": found.unlike,
    })
}

fn utilization(phase: &PhaseAnalysis) -> Option<&Utilization> {
    phase
        .plain_utilization
        .as_ref()
        .or(phase.utilization.as_ref())
}

/// The whole run: each phase's share of the peak, weighted by its time.
fn model_level(results: &Results<'_>) -> Option<f64> {
    let mut seconds = 0.0;
    let mut used = 0.0;
    for phase in &results.analysis.phases {
        let found = utilization(phase)?;
        let wall = found.wall_ns.seconds();
        seconds += wall;
        used += found.mfu? * wall;
    }
    (seconds > 0.0).then(|| used / seconds)
}

/// Times in milliseconds.
fn millis(summary: Option<&Summary>) -> Option<Value> {
    summary.map(|summary| scaled(summary, 1e-6))
}

fn plain(summary: Option<&Summary>) -> Option<Value> {
    summary.map(|summary| scaled(summary, 1.0))
}

fn scaled(summary: &Summary, by: f64) -> Value {
    json!({
        "mean": summary.mean * by,
        "std": summary.deviation.map(|deviation| deviation * by),
        "ci95_half_width": summary.ci95_half_width.map(|half| half * by),
        "count": summary.count,
    })
}

/// The sizes that people compare models by, under the names that configs of several families have for them.
fn dims(design: &Map<String, Value>) -> Value {
    let text = design.get("text_config").and_then(Value::as_object);
    let find = |names: &[&str]| {
        let places = [Some(design), text];
        let mut found = places.into_iter().flatten();
        found.find_map(|place| names.iter().find_map(|name| place.get(*name)?.as_u64()))
    };
    json!({
        "d_model": find(&["hidden_size", "n_embd"]),
        "d_ff": find(&["intermediate_size", "n_inner", "ffn_dim"]),
        "n_layers": find(&["num_hidden_layers", "n_layer"]),
    })
}

/// The device's dense peak in the format that the model multiplies.
fn peak_tflops(results: &Results<'_>) -> Option<f64> {
    let (model, device) = (
        results.record.model.as_ref()?.model.as_ref()?,
        results.device?,
    );
    let workload = results.record.workload.as_ref()?;
    let dtype = model.formats(&workload.precision).compute;
    let peak = [Engine::Tensor, Engine::Vector]
        .into_iter()
        .find_map(|engine| device.peak(dtype, engine).ok())?;
    Some(peak.dense_flops_per_s.0 / 1e12)
}
