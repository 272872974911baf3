//! CSV files for spreadsheets and pandas: `operators.csv`, `kernels.csv`, `ops.csv`, `ops_by_shape.csv`.

use std::collections::BTreeMap;

use llmprof_analysis::{Analysis, CaptureCost, attribution::operators::OperatorTimes};

use super::Output;
use crate::output::csv_field;

/// Operators of the model by phase and place; of the framework where no model is known.
pub(super) fn operators(analysis: &Analysis) -> Option<Output> {
    let mut lines = Lines::new(&[
        "phase",
        "operator",
        "kind",
        "dtype",
        "calls",
        "time_ns",
        "share",
        "flops",
        "min_dram_bytes",
        "roofline_ns",
        "flops_per_s",
        "bytes_per_s",
        "intensity",
        "roofline_fraction",
    ]);
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for phase in &analysis.phases {
        for group in &phase.by_path {
            lines.add([
                phase.name().to_owned(),
                group.name.clone(),
                group.kind.to_string(),
                group.dtype.to_string(),
                group.calls.to_string(),
                group.measured_ns.0.to_string(),
                group.share.to_string(),
                group.flops.0.to_string(),
                group.min_dram_bytes.0.to_string(),
                group
                    .roofline_ns
                    .map(|roofline| roofline.0.to_string())
                    .unwrap_or_default(),
                number(group.achieved_flops_per_s.map(|rate| rate.0)),
                number(group.achieved_bytes_per_s.map(|rate| rate.0)),
                number(group.intensity),
                number(group.roofline_fraction),
            ]);
        }
    }
    if lines.rows > 0 {
        return Some(("operators.csv".to_owned(), lines.text));
    }
    framework(analysis)
}

/// What the profiler of a framework says where another trace explains the time: its operators.
pub(super) fn beside(framework: &Analysis) -> Vec<Output> {
    let operators = self::framework(framework);
    let operators = operators.map(|(name, text)| (format!("torch_profiler/{name}"), text));
    operators.into_iter().collect()
}

/// `overhead.json`: what recording cost, by phase.
pub(super) fn overhead(recorded: &Analysis) -> Option<Output> {
    let costs = CaptureCost::of(recorded);
    let rows: BTreeMap<&str, &CaptureCost> = costs
        .iter()
        .map(|cost| (cost.phase.as_str(), cost))
        .collect();
    let text = serde_json::to_string_pretty(&rows).expect("phases are string keys");
    (!rows.is_empty()).then(|| ("torch_profiler/overhead.json".to_owned(), text + "\n"))
}

/// Operators of the framework by name.
fn framework(analysis: &Analysis) -> Option<Output> {
    let timeline = analysis.timeline.as_deref()?;
    let mut lines = Lines::new(&[
        "name",
        "calls",
        "host_self_ns",
        "host_total_ns",
        "device_self_ns",
        "device_total_ns",
        "launches",
        "flops",
        "bytes",
        "flops_per_s",
        "bytes_per_s",
        "roofline",
    ]);
    for operator in &timeline.operators {
        let times = &operator.times;
        let work = operator.work.as_ref();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        lines.add([
            operator.name.clone(),
            times.calls.to_string(),
            times.host_self_ns.0.to_string(),
            times.host_total_ns.0.to_string(),
            times.device_self_ns.0.to_string(),
            times.device_total_ns.0.to_string(),
            times.launches.to_string(),
            work.map(|work| work.flops.0.to_string())
                .unwrap_or_default(),
            work.map(|work| work.bytes.0.to_string())
                .unwrap_or_default(),
            number(work.and_then(|work| work.flops_per_s)),
            number(work.and_then(|work| work.bytes_per_s)),
            number(work.and_then(|work| work.roofline)),
        ]);
    }
    (lines.rows > 0).then(|| ("operators.csv".to_owned(), lines.text))
}

pub(super) fn kernels(analysis: &Analysis) -> Option<Output> {
    let timeline = analysis.timeline.as_deref()?;
    let mut lines = Lines::new(&[
        "name",
        "category",
        "library",
        "calls",
        "total_ns",
        "share_pct",
        "mean_ns",
        "median_ns",
        "min_ns",
        "max_ns",
        "deviation_ns",
    ]);
    for kernel in &timeline.kernels {
        lines.add([
            kernel.name.clone(),
            word(&kernel.category),
            word(&kernel.library),
            kernel.calls.to_string(),
            kernel.total_ns.0.to_string(),
            kernel.share_pct.to_string(),
            kernel.mean_ns.to_string(),
            kernel.median_ns.to_string(),
            kernel.min_ns.0.to_string(),
            kernel.max_ns.0.to_string(),
            kernel.deviation_ns.to_string(),
        ]);
    }
    (lines.rows > 0).then(|| ("kernels.csv".to_owned(), lines.text))
}

/// Columns of `ops.csv` and `ops_by_shape.csv`. Times are µs, as torch's profiler has them. Memory is empty where allocations
/// were not recorded.
const OPS: [&str; 7] = [
    "key",
    "cuda_time_total_us",
    "cpu_time_total_us",
    "self_cuda_time_total_us",
    "calls",
    "input_shapes",
    "self_cpu_memory_usage_bytes",
];

/// `ops.csv`, which has one row per operator as `key_averages()` does, and `ops_by_shape.csv`, which has one per operator and
/// shapes of its inputs.
pub(super) fn ops(analysis: &Analysis) -> Vec<Output> {
    let mut by_key = Lines::new(&OPS);
    let mut by_shape = Lines::new(&OPS);
    for operator in analysis
        .timeline
        .iter()
        .flat_map(|timeline| &timeline.operators)
    {
        by_key.add(op(&operator.name, &operator.times, String::new()));
        for shape in &operator.shapes {
            let shapes = format!("[{}]", shape.inputs.join(", "));
            by_shape.add(op(&operator.name, &shape.times, shapes));
        }
    }
    [("ops.csv", by_key), ("ops_by_shape.csv", by_shape)]
        .into_iter()
        .filter(|(_, lines)| lines.rows > 0)
        .map(|(name, lines)| (name.to_owned(), lines.text))
        .collect()
}

fn op(key: &str, times: &OperatorTimes, shapes: String) -> [String; 7] {
    let micros = |ns: i64| (ns as f64 / 1e3).to_string();
    let memory = times.host_self_memory_bytes;
    [
        key.to_owned(),
        micros(times.device_total_ns.0),
        micros(times.host_total_ns.0),
        micros(times.device_self_ns.0),
        times.calls.to_string(),
        shapes,
        memory.map(|bytes| bytes.to_string()).unwrap_or_default(),
    ]
}

/// An enum as JSON spells it.
fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Lines of a CSV file.
struct Lines {
    text: String,
    rows: usize,
}

impl Lines {
    fn new(header: &[&str]) -> Self {
        Self {
            text: header.join(",") + "\n",
            rows: 0,
        }
    }

    fn add<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| csv_field(&cell));
        self.text += &cells.join(",");
        self.text.push('\n');
        self.rows += 1;
    }
}
