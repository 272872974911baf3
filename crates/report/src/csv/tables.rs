//! CSV files for spreadsheets and pandas: `operators.csv`, `kernels.csv`, `gemms.csv`, `ops.csv`, `ops_by_shape.csv`.

use std::collections::BTreeMap;

use llmprof_analysis::{Analysis, CaptureCost, attribution::operators::OperatorTimes};

use super::{CsvFile, csv_field};

/// Operators of the model by phase and place; of the framework where no model is known.
pub fn operators(analysis: &Analysis) -> Option<CsvFile> {
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
    for phase in &analysis.phases {
        for group in &phase.by_path {
            lines.add([
                phase.name().to_owned(),
                group.name.clone(),
                cell(&group.kind),
                cell(&group.dtype),
                cell(&group.calls),
                cell(&group.measured_ns),
                cell(&group.share),
                cell(&group.flops),
                cell(&group.min_dram_bytes),
                cell(&group.roofline_ns),
                cell(&group.achieved_flops_per_s),
                cell(&group.achieved_bytes_per_s),
                cell(&group.intensity),
                cell(&group.roofline_fraction),
            ]);
        }
    }
    if lines.rows > 0 {
        return Some(("operators.csv".to_owned(), lines.text));
    }
    framework(analysis)
}

/// What the profiler of a framework says where another trace explains the time: its operators.
pub fn beside(framework: &Analysis) -> Vec<CsvFile> {
    let operators = self::framework(framework);
    let operators = operators.map(|(name, text)| (format!("torch_profiler/{name}"), text));
    operators.into_iter().collect()
}

/// `overhead.json`: what recording cost, by phase.
pub fn overhead(recorded: &Analysis) -> Option<CsvFile> {
    let costs = CaptureCost::of(recorded);
    let rows: BTreeMap<&str, &CaptureCost> = costs
        .iter()
        .map(|cost| (cost.phase.as_str(), cost))
        .collect();
    let text = serde_json::to_string_pretty(&rows).expect("phases are string keys");
    (!rows.is_empty()).then(|| ("torch_profiler/overhead.json".to_owned(), text + "\n"))
}

/// Operators of the framework by name.
fn framework(analysis: &Analysis) -> Option<CsvFile> {
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
        lines.add([
            operator.name.clone(),
            cell(&times.calls),
            cell(&times.host_self_ns),
            cell(&times.host_total_ns),
            cell(&times.device_self_ns),
            cell(&times.device_total_ns),
            cell(&times.launches),
            cell(&work.map(|work| work.flops)),
            cell(&work.map(|work| work.bytes)),
            cell(&work.and_then(|work| work.flops_per_s)),
            cell(&work.and_then(|work| work.bytes_per_s)),
            cell(&work.and_then(|work| work.roofline)),
        ]);
    }
    (lines.rows > 0).then(|| ("operators.csv".to_owned(), lines.text))
}

pub fn kernels(analysis: &Analysis) -> Option<CsvFile> {
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
            cell(&kernel.category),
            cell(&kernel.library),
            cell(&kernel.calls),
            cell(&kernel.total_ns),
            cell(&kernel.share_pct),
            cell(&kernel.mean_ns),
            cell(&kernel.median_ns),
            cell(&kernel.min_ns),
            cell(&kernel.max_ns),
            cell(&kernel.deviation_ns),
        ]);
    }
    (lines.rows > 0).then(|| ("kernels.csv".to_owned(), lines.text))
}

/// `gemms.csv`: every GEMM of a cuBLAS log that has a kernel, in launch order.
pub fn gemms(analysis: &Analysis) -> Option<CsvFile> {
    let gemms = analysis.gemms.as_ref()?;
    let mut lines = Lines::new(&[
        "call",
        "start_ns",
        "duration_ns",
        "function",
        "m",
        "n",
        "k",
        "batch",
        "dtype",
        "transposed_a",
        "transposed_b",
        "flops",
        "flops_per_s",
        "kernel",
    ]);
    for call in &gemms.calls {
        let row = &gemms.shapes[call.shape];
        let gemm = &row.gemm;
        let seconds = call.duration_ns.seconds();
        let rate = (seconds > 0.0).then(|| gemm.flops() / seconds);
        lines.add([
            cell(&call.call),
            cell(&call.start_ns.0),
            cell(&call.duration_ns.0),
            gemm.function.clone(),
            cell(&gemm.m),
            cell(&gemm.n),
            cell(&gemm.k),
            cell(&gemm.batch),
            gemm.dtype.clone(),
            cell(&gemm.transposed[0]),
            cell(&gemm.transposed[1]),
            cell(&gemm.flops()),
            cell(&rate),
            row.kernel.clone(),
        ]);
    }
    (lines.rows > 0).then(|| ("gemms.csv".to_owned(), lines.text))
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
pub fn ops(analysis: &Analysis) -> Vec<CsvFile> {
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
    let micros = |ns: i64| cell(&(ns as f64 / 1e3));
    let memory = times.host_self_memory_bytes;
    [
        key.to_owned(),
        micros(times.device_total_ns.0),
        micros(times.host_total_ns.0),
        micros(times.device_self_ns.0),
        cell(&times.calls),
        shapes,
        cell(&memory),
    ]
}

/// A value as JSON spells it, nothing for one that is absent: a time is its number of nanoseconds, never text with a unit.
fn cell<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) | Err(_) => String::new(),
        Ok(value) => value.to_string(),
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
