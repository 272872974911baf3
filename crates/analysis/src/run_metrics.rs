//! `metrics.json`: the numbers, with the names that the file has always had where their meaning holds.

use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::analysis::Analysis;
use crate::bottleneck::PhaseClass;
use crate::latency::RequestRow;
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::RecordedPart;
use crate::roofline::Utilization;
use crate::stats::{RepeatSummary, ValueDistribution};
use crate::steps::{StepPattern, StepPatterns};
use crate::trace::scaled::ScaledTrace;
use crate::waterfall::Waterfall;

/// Figures of a run for tables and dashboards; `P` is what became of the samples of direct inference.
#[derive(Serialize, JsonSchema)]
pub struct RunMetrics<'a, P> {
    /// Means over the measured passes.
    aggregates: Aggregates,
    /// MFU of the whole run: that of each phase, weighted by its time.
    mfu_model_level: Option<f64>,
    /// MFU by phase, without a profiler where there is such a pass.
    mfu_per_stage: StageShares,
    /// MBU by phase, likewise.
    mbu_per_stage: StageShares,
    /// Phases in order of time.
    phases: Vec<PhaseMetrics<'a>>,
    /// Sequences of launches that repeat.
    steps: Option<StepMetrics<'a>>,
    /// What slices say of the whole run, where it was sampled.
    slices: Option<&'a ScaledTrace>,
    /// The model that ran.
    model: ModelMetrics<'a>,
    /// Sizes of the model, as its config has them.
    model_dims: Option<ModelDims>,
    /// Device whose peaks the roofline uses.
    device: &'a Option<String>,
    /// Dense peak of the device in the dtype of the GEMMs.
    peak_tflops: Option<f64>,
    /// What became of the samples of direct inference.
    predictions: Option<&'a P>,
    /// One row per request of the measured passes.
    requests: &'a [RequestRow],
}

/// Means over the measured passes; absent values were not measured.
#[derive(Serialize, JsonSchema)]
struct Aggregates {
    /// Wall time of prefill.
    prefill_ms: Option<MeanMetric>,
    /// Wall time of decode.
    decode_ms: Option<MeanMetric>,
    /// Time to first token.
    ttft_ms: Option<MeanMetric>,
    /// (last − first token) ÷ (output tokens − 1).
    tpot_ms: Option<MeanMetric>,
    /// Output tokens of a request.
    tokens: Option<MeanMetric>,
    /// Output tokens ÷ request time.
    tokens_per_s: Option<MeanMetric>,
    /// Tokens after the first ÷ decode time.
    decode_tokens_per_s: Option<MeanMetric>,
    /// Inter-token latency over all requests.
    itl_ns: Option<ValueDistribution>,
    /// `prefill_ms` and `decode_ms` by phase.
    stage_ms: StageTimes,
}

#[derive(Serialize, JsonSchema)]
struct StageTimes {
    /// Wall time of prefill, ms.
    prefill: Option<MeanMetric>,
    /// Wall time of decode, ms.
    decode: Option<MeanMetric>,
}

/// A mean in the unit of its key.
#[derive(Serialize, JsonSchema)]
struct MeanMetric {
    /// Arithmetic mean.
    mean: f64,
    /// Standard deviation; null for a single value.
    std: Option<f64>,
    /// Half of the 95 % confidence interval of the mean.
    ci95_half_width: Option<f64>,
    /// Number of values.
    count: u64,
}

/// A share of the peak by phase; null where the peak or the work is not known.
#[derive(Serialize, JsonSchema)]
struct StageShares {
    /// Image encoder.
    #[serde(skip_serializing_if = "Option::is_none")]
    vision: Option<f64>,
    /// First stack of an encoder-decoder model.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoder: Option<f64>,
    /// Prompt.
    prefill: Option<f64>,
    /// Tokens after the first.
    decode: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct PhaseMetrics<'a> {
    /// Name of the phase, as in `analysis.json`.
    phase: &'a str,
    /// Bottleneck class; null where there is no dominant bottleneck or it is unknown.
    class: Option<PhaseClass>,
    /// Where the time of the captured pass went.
    waterfall: &'a Waterfall,
    /// Wall time of the whole phase in the captured pass, slices extended to it.
    whole_wall_ns: Nanos,
    /// Wall time of the phase without a profiler.
    plain_wall_ns: Option<Nanos>,
    /// Profiling overhead: captured ÷ plain wall time of the same work.
    capture_ratio: Option<f64>,
    /// Times of the steps in the trace.
    step_ns: Option<ValueDistribution>,
    /// The part of the phase that was recorded, where it was sampled.
    recorded: Option<RecordedPart>,
}

/// Sequences of launches that repeat, without the times of each repetition.
#[derive(Serialize, JsonSchema)]
struct StepMetrics<'a> {
    /// The sequences, the longest first.
    patterns: Vec<PatternMetrics<'a>>,
    /// Repetitions that are unlike the others.
    unlike: u64,
}

#[derive(Serialize, JsonSchema)]
struct PatternMetrics<'a> {
    /// Number and kernels of the sequence, such as `pattern 1 (1006 kernels)`.
    name: &'a str,
    /// The thread that launches them, or the stream where calls are not known.
    launched_by: &'a str,
    /// Whole repetitions.
    steps: u64,
    /// Those that launch exactly the most usual sequence.
    equal: u64,
    /// Kernels of a repetition, median.
    kernels: u64,
    /// Launches of a repetition, median; a graph is one.
    launches: u64,
    /// From the start of a repetition's first kernel to that of the next.
    wall_ns: &'a ValueDistribution,
    /// Standard deviation of these times.
    wall_deviation_ns: f64,
    /// Sum of the kernel times of a repetition.
    kernel_time_ns: &'a RepeatSummary,
    /// Part of a repetition in which no device worked, median.
    idle_share: f64,
}

#[derive(Serialize, JsonSchema)]
struct ModelMetrics<'a> {
    /// Name of the model, or of the program or file that was traced.
    name: &'a str,
    /// Model family that its config was read as.
    family: &'a Option<String>,
    /// Parameters, where the family is known.
    parameters: Option<u64>,
}

/// Sizes of a model; null where its config has no such key.
#[derive(Serialize, JsonSchema)]
struct ModelDims {
    /// Width of the residual stream.
    d_model: Option<u64>,
    /// Width of the feed-forward layers.
    d_ff: Option<u64>,
    /// Layers.
    n_layers: Option<u64>,
}

pub fn run_metrics<'a, P>(
    record: &RunRecord,
    analysis: &'a Analysis,
    device: Option<&Device>,
    predictions: Option<&'a P>,
) -> RunMetrics<'a, P> {
    let latency = &analysis.latency;
    let counted = record.model.as_ref().and_then(|model| model.model.as_ref());
    let used = |choose: fn(&Utilization) -> Option<f64>| {
        let of = |phase| analysis.phase(phase).and_then(utilization).and_then(choose);
        StageShares {
            vision: of(RunPhase::Vision),
            encoder: of(RunPhase::Encoder),
            prefill: of(RunPhase::Prefill),
            decode: of(RunPhase::Decode),
        }
    };
    let tokens: Vec<f64> = latency
        .requests
        .iter()
        .map(|request| request.output_tokens as f64)
        .collect();
    let timeline = analysis.timeline.as_ref();
    RunMetrics {
        aggregates: Aggregates {
            prefill_ms: millis(latency.prefill_ns.as_ref()),
            decode_ms: millis(latency.decode_ns.as_ref()),
            ttft_ms: millis(latency.ttft_ns.as_ref()),
            tpot_ms: millis(latency.tpot_ns.as_ref()),
            tokens: plain(RepeatSummary::from_values(&tokens).as_ref()),
            tokens_per_s: plain(latency.tokens_per_s.as_ref()),
            decode_tokens_per_s: plain(latency.decode_tokens_per_s.as_ref()),
            itl_ns: latency.itl_ns,
            stage_ms: StageTimes {
                prefill: millis(latency.prefill_ns.as_ref()),
                decode: millis(latency.decode_ns.as_ref()),
            },
        },
        mfu_model_level: model_level(analysis),
        mfu_per_stage: used(|used| used.mfu),
        mbu_per_stage: used(|used| used.mbu),
        phases: analysis.phases.iter().map(phase_metrics).collect(),
        steps: timeline
            .and_then(|timeline| timeline.steps.as_ref())
            .map(steps),
        slices: timeline.and_then(|timeline| timeline.scaled.as_ref()),
        model: ModelMetrics {
            name: &analysis.model,
            family: &analysis.family,
            parameters: counted.map(llmprof_theory::Model::parameter_count),
        },
        model_dims: record.model.as_ref().map(|model| dims(&model.design)),
        device: &analysis.device,
        peak_tflops: peak_tflops(record, device),
        predictions,
        requests: &latency.requests,
    }
}

fn phase_metrics(phase: &PhaseAnalysis) -> PhaseMetrics<'_> {
    let traced = phase.traced.as_ref();
    PhaseMetrics {
        phase: phase.name(),
        class: phase.class.class,
        waterfall: &phase.waterfall,
        whole_wall_ns: phase.whole_wall(),
        plain_wall_ns: phase.unrecorded_wall(),
        capture_ratio: phase.capture_ratio,
        step_ns: traced.and_then(|traced| traced.steps),
        recorded: traced.and_then(|traced| traced.recorded),
    }
}

fn steps(found: &StepPatterns) -> StepMetrics<'_> {
    StepMetrics {
        patterns: found.patterns.iter().map(PatternMetrics::from).collect(),
        unlike: found.unlike,
    }
}

impl<'a> From<&'a StepPattern> for PatternMetrics<'a> {
    fn from(pattern: &'a StepPattern) -> Self {
        Self {
            name: &pattern.name,
            launched_by: &pattern.launched_by,
            steps: pattern.steps,
            equal: pattern.equal,
            kernels: pattern.kernels,
            launches: pattern.launches,
            wall_ns: &pattern.wall_ns,
            wall_deviation_ns: pattern.wall_deviation_ns,
            kernel_time_ns: &pattern.kernel_time_ns,
            idle_share: pattern.idle_share,
        }
    }
}

fn utilization(phase: &PhaseAnalysis) -> Option<&Utilization> {
    phase
        .plain_utilization
        .as_ref()
        .or(phase.utilization.as_ref())
}

/// The whole run: each phase's share of the peak, weighted by its time.
fn model_level(analysis: &Analysis) -> Option<f64> {
    let mut seconds = 0.0;
    let mut used = 0.0;
    for phase in &analysis.phases {
        let found = utilization(phase)?;
        let wall = found.wall_ns.seconds();
        seconds += wall;
        used += found.mfu? * wall;
    }
    (seconds > 0.0).then(|| used / seconds)
}

/// Times in milliseconds.
fn millis(summary: Option<&RepeatSummary>) -> Option<MeanMetric> {
    summary.map(|summary| scaled(summary, 1e-6))
}

fn plain(summary: Option<&RepeatSummary>) -> Option<MeanMetric> {
    summary.map(|summary| scaled(summary, 1.0))
}

fn scaled(summary: &RepeatSummary, by: f64) -> MeanMetric {
    MeanMetric {
        mean: summary.mean * by,
        std: summary.deviation.map(|deviation| deviation * by),
        ci95_half_width: summary.ci95_half_width.map(|half| half * by),
        count: summary.count,
    }
}

/// The sizes that people compare models by, under the names that configs of several families have for them.
fn dims(design: &Map<String, Value>) -> ModelDims {
    let text = design.get("text_config").and_then(Value::as_object);
    let find = |names: &[&str]| {
        let places = [Some(design), text];
        let mut found = places.into_iter().flatten();
        found.find_map(|place| names.iter().find_map(|name| place.get(*name)?.as_u64()))
    };
    ModelDims {
        d_model: find(&["hidden_size", "n_embd"]),
        d_ff: find(&["intermediate_size", "n_inner", "ffn_dim"]),
        n_layers: find(&["num_hidden_layers", "n_layer"]),
    }
}

/// The device's dense peak in the format that the model multiplies.
fn peak_tflops(record: &RunRecord, device: Option<&Device>) -> Option<f64> {
    let (model, device) = (record.model.as_ref()?.model.as_ref()?, device?);
    let workload = record.workload.as_ref()?;
    let dtype = model.number_formats(&workload.precision).compute;
    let peak = [Engine::Tensor, Engine::Vector]
        .into_iter()
        .find_map(|engine| device.dense_peak(dtype, engine).ok())?;
    Some(peak.dense_flops_per_s.0 / 1e12)
}
