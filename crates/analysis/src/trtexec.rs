//! Layers of a TensorRT engine: by time, and by type against the roofline.

use std::collections::BTreeMap;

use llmprof_record::import::trtexec::{Iteration, Layer, LayerTime};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Bytes, DType, Flops, stats::median};
use schemars::JsonSchema;
use serde::Serialize;

use crate::row_order::sort_descending_f64;

/// Layers of one type together.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct LayerType {
    /// Type of layer.
    pub kind: String,
    /// Layers of the type.
    pub layers: u64,
    /// Time of these layers in an iteration.
    pub average_ms: f64,
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Bytes that these layers read and write.
    pub bytes: Bytes,
    /// Layers whose operations or bytes are not known.
    pub uncounted: u64,
    /// Roofline time ÷ measured time, where everything is counted and a device is named.
    pub of_roofline: Option<f64>,
}

/// What `trtexec` measured of an engine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EngineLayers {
    /// Layers of the engine, in order.
    pub layers: Vec<LayerTime>,
    /// Layers by type, the longest first.
    pub types: Vec<LayerType>,
    /// Iterations of the profile.
    pub iterations: Option<u64>,
    /// Time of all layers in an iteration.
    pub total_ms: f64,
    /// Median latency of an inference.
    pub latency_p50_ms: Option<f64>,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
    /// The run directory.
    pub run: String,
}

/// Layers by time, and layer types against the roofline; `run` is where they are kept.
pub fn engine_layers(
    mut times: Vec<LayerTime>,
    layers: &[Layer],
    iterations: &[Iteration],
    count: Option<u64>,
    device: Option<&Device>,
    run: String,
) -> EngineLayers {
    sort_descending_f64(&mut times, |layer| layer.average_ms);
    let by_name: BTreeMap<&str, &Layer> = layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer))
        .collect();
    let mut types: BTreeMap<String, LayerType> = BTreeMap::new();
    let mut roofline: BTreeMap<String, f64> = BTreeMap::new();
    let mut strangers = 0;
    for time in &times {
        let layer = by_name.get(time.name.as_str());
        strangers += u64::from(layer.is_none() && !layers.is_empty());
        let kind = layer.map_or("", |layer| layer.kind.as_str());
        let kind = if kind.is_empty() { "unknown" } else { kind };
        let of = types.entry(kind.to_owned()).or_default();
        kind.clone_into(&mut of.kind);
        of.layers += 1;
        of.average_ms += time.average_ms;
        match layer.and_then(|layer| Some((layer, layer.tensor_bytes?))) {
            Some((layer, tensors)) => {
                let (flops, bytes) = (
                    layer.flops.unwrap_or_default(),
                    tensors + layer.weight_bytes,
                );
                of.flops += flops;
                of.bytes += bytes;
                // Without weights in it a product's operations are not known; its bytes bound it still.
                if let Some(device) = device {
                    *roofline.entry(kind.to_owned()).or_default() +=
                        seconds(flops, bytes, device) * 1e3;
                }
            }
            None => of.uncounted += 1,
        }
    }
    for of in types.values_mut() {
        of.of_roofline = roofline
            .get(&of.kind)
            .filter(|_| of.uncounted == 0 && of.average_ms > 0.0)
            .map(|ms| ms / of.average_ms);
    }
    let mut issues = Vec::new();
    if strangers > 0 {
        issues.push(Issue::warning(IssueCode::TrtexecOtherLayers).counting(strangers));
    }
    let beyond = types
        .values()
        .find(|of| of.of_roofline.is_some_and(|share| share > 1.0));
    if let Some(of) = beyond {
        let issue = Issue::warning(IssueCode::TrtexecAboveRoofline);
        issues.push(issue.with("kind", of.kind.as_str()));
    }
    let mut types: Vec<LayerType> = types.into_values().collect();
    sort_descending_f64(&mut types, |of_type| of_type.average_ms);
    let mut latencies: Vec<f64> = iterations.iter().map(|one| one.latency_ms).collect();
    EngineLayers {
        total_ms: times.iter().map(|time| time.average_ms).sum(),
        iterations: count.or_else(|| (!iterations.is_empty()).then_some(iterations.len() as u64)),
        latency_p50_ms: median(&mut latencies),
        layers: times,
        types,
        issues,
        run,
    }
}

/// Roofline time with fp16 peaks, which is what TensorRT engines compute in.
fn seconds(flops: Flops, bytes: Bytes, device: &Device) -> f64 {
    let compute = device
        .dense_peak(DType::F16, Engine::Tensor)
        .ok()
        .map(|peak| peak.dense_flops_per_s)
        .map_or(0.0, |rate| flops / rate);
    compute.max(bytes / device.memory_bandwidth())
}
