//! GEMMs of a cuBLAS log with the times of their kernels: the log has shapes and no times, the timeline the reverse.
//!
//! Calls and launches are joined in order ([`align_launches`]). Kernels of launched graphs stay out: the log has them once, at capture.

mod align;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::{Category, Library};
use llmprof_record::run::RunRecord;
use llmprof_record::summary::{GemmRow, Summary, SummaryTable};
use llmprof_record::trace::Trace;
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Bytes, DType, Flops, Nanos, Percent};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::align::align_launches;
use crate::attribution::operator_cost::OperatorCost;
use crate::row_order::{sort_ascending, sort_descending};
use crate::thresholds::{GEMMS_JOINED_MIN_SHARE, RATE_OF_PEAK_MAX_RATIO};
use crate::timeline::device_events::{DeviceEvents, EventTable};
use crate::timeline::launches::Launches;

/// The GEMMs of a log, joined to kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GemmsAnalysis {
    /// The log that was joined.
    pub log: String,
    /// GEMM calls in it, of the whole process.
    pub log_calls: u64,
    /// GEMM kernels of the timeline outside of graphs, without the sums after a split K, and their time with those sums.
    pub kernels: u64,
    /// Time of these kernels with the sums after a split K.
    pub kernels_ns: Nanos,
    /// GEMM kernels inside of graphs.
    pub kernels_in_graphs: u64,
    /// Kernels that have a shape, and their time.
    pub joined: u64,
    /// Time of the kernels that have a shape.
    pub joined_ns: Nanos,
    /// One row per shape and kernel, the longest time first.
    pub shapes: Vec<GemmShapeRow>,
    /// In launch order: what `gemms.csv` has.
    #[serde(skip)]
    pub calls: Vec<GemmCall>,
}

/// Calls of one shape, by one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GemmShapeRow {
    #[serde(flatten)]
    pub gemm: GemmRow,
    /// Name of the kernel that ran the calls.
    pub kernel: String,
    /// Time of all calls of the shape by this kernel.
    pub total_ns: Nanos,
    /// Floating-point operations `2·m·n·k·batch` per second of mean time.
    pub flops_per_s: f64,
    /// Roofline time ÷ mean time, where the device has a peak for the format.
    pub roofline: Option<f64>,
}

/// One call of the log with the kernel that ran it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmCall {
    /// Its number in the log, from 0.
    pub call: u64,
    pub shape: usize,
    pub start_ns: Nanos,
    /// Its kernel, and the sum after a split K.
    pub duration_ns: Nanos,
}

impl GemmsAnalysis {
    /// The part of the GEMM kernels' time that has a shape.
    pub fn covered(&self) -> f64 {
        self.joined_ns.0 as f64 / self.kernels_ns.0.max(1) as f64
    }
}

/// A GEMM kernel of the timeline.
#[derive(Clone, Copy)]
struct GemmKernel {
    row: usize,
    launched_ns: Nanos,
    /// With the sum after a split K.
    duration_ns: Nanos,
}

/// Joins the log that fits best to the kernels. The issue says why no log was joined, or how many kernels were not.
pub(crate) fn analyze_gemms(
    record: &RunRecord,
    device: Option<&Device>,
) -> Option<(Option<GemmsAnalysis>, Option<Issue>)> {
    let trace = record.trace()?;
    let logs: Vec<(&str, &[GemmRow], &SummaryTable)> = record
        .summaries
        .iter()
        .filter_map(|summary| match &summary.table.summary {
            Summary::Gemms(rows) if !summary.table.order.is_empty() => {
                Some((summary.file.as_str(), rows.as_slice(), &summary.table))
            }
            _ => None,
        })
        .collect();
    if logs.is_empty() {
        return None;
    }
    let (kernels, in_graphs) = gemm_kernels(trace);
    let launches = number_kernels(trace, &kernels);
    let joined = logs.iter().filter_map(|(file, rows, table)| {
        // Order may come from a file that was changed by hand.
        let is_whole = table.order.iter().all(|row| (*row as usize) < rows.len());
        // The worker of a run ends after the pass that is captured.
        let end_together = record.plan.is_some();
        let pairs = align_launches(is_whole.then_some(&table.order)?, &launches, end_together)?;
        let count = pairs.iter().flatten().count();
        Some((count, *file, *rows, *table, pairs))
    });
    // cuBLAS hands its GEMMs on to cuBLASLt, whose log then has all of them.
    let best = joined.max_by_key(|(count, ..)| *count);
    let calls = logs.iter().map(|(_, _, table)| table.order.len()).max();
    let not_joined = |joined: usize| {
        Issue::warning(IssueCode::GemmsNotJoined)
            .with("calls", calls.unwrap_or(0))
            .with("kernels", kernels.len())
            .with("in_graphs", in_graphs)
            .with("joined", joined)
    };
    let Some((count, file, rows, table, pairs)) = best else {
        return Some((None, Some(not_joined(0))));
    };
    if (count as f64) < GEMMS_JOINED_MIN_SHARE * kernels.len() as f64 || count == 0 {
        return Some((None, Some(not_joined(count))));
    }
    let mut analysis = GemmsAnalysis {
        log: file.to_owned(),
        log_calls: table.order.len() as u64,
        kernels: kernels.len() as u64,
        kernels_ns: kernels.iter().map(|kernel| kernel.duration_ns).sum(),
        kernels_in_graphs: in_graphs as u64,
        ..GemmsAnalysis::default()
    };
    analysis.join_calls(trace, &kernels, rows, &table.order, &pairs, device);
    if let Some(row) = analysis
        .shapes
        .iter()
        .find(|row| is_impossible(row, device))
    {
        let issue = Issue::warning(IssueCode::GemmsAbovePeak)
            .with("kernel", row.kernel.as_str())
            .with("rate", format!("{:.0}", row.flops_per_s / 1e12));
        return Some((None, Some(issue)));
    }
    let issue = (analysis.joined < analysis.kernels || in_graphs > 0).then(|| {
        Issue::info(IssueCode::GemmsPartlyJoined)
            .with("joined", analysis.joined)
            .with("kernels", analysis.kernels)
            .with("in_graphs", in_graphs)
            .with("share", Percent(analysis.covered()).to_string())
    });
    Some((Some(analysis), issue))
}

/// GEMM kernels outside of graphs in the order of their launches, and how many are inside.
fn gemm_kernels(trace: &Trace) -> (Vec<GemmKernel>, usize) {
    let events = DeviceEvents::from_trace(trace);
    let calls = Launches::from_trace(trace);
    let mut ran: Vec<(GemmKernel, (u32, u32), bool)> = Vec::new();
    let mut in_graphs = 0;
    for event in events.all() {
        let class = events.class_of(event.name);
        let is_gemm = matches!(class.category, Category::Gemm | Category::Gemv);
        let may_be_cublas = matches!(
            class.library,
            Library::Cublas | Library::CublasLt | Library::Cutlass | Library::Unknown
        );
        if event.table != EventTable::Kernels || !is_gemm || !may_be_cublas {
            continue;
        }
        let call = calls.call(event);
        let of_graph = call.is_some_and(|call| {
            let name = trace.text(trace.hosts.name[call as usize]);
            name.contains("GraphLaunch")
        });
        let is_sum = is_sum_of_split(trace.text(event.name));
        if event.in_graph || of_graph {
            in_graphs += usize::from(!is_sum);
            continue;
        }
        let kernel = GemmKernel {
            row: event.row as usize,
            launched_ns: Nanos(call.map_or(event.start, |call| trace.hosts.start[call as usize])),
            duration_ns: Nanos(event.duration()),
        };
        ran.push((kernel, event.stream, is_sum));
    }
    sort_ascending(&mut ran, |(kernel, ..)| kernel.launched_ns.0);
    let mut kernels: Vec<GemmKernel> = Vec::new();
    let mut last: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    for (kernel, stream, is_sum) in ran {
        match (is_sum, last.get(&stream)) {
            (true, Some(&before)) => {
                kernels[before].duration_ns += kernel.duration_ns;
            }
            (true, None) => {}
            (false, _) => {
                last.insert(stream, kernels.len());
                kernels.push(kernel);
            }
        }
    }
    (kernels, in_graphs)
}

/// `cublasLt::splitKreduce_kernel<…>`: it belongs to the product before it.
fn is_sum_of_split(name: &str) -> bool {
    name.to_ascii_lowercase().contains("splitkreduce")
}

/// One number for each (kernel, grid, block).
fn number_kernels(trace: &Trace, kernels: &[GemmKernel]) -> Vec<u32> {
    let mut numbers = FxHashMap::default();
    let table = &trace.kernels;
    kernels
        .iter()
        .map(|kernel| {
            let row = kernel.row;
            let key = (table.name[row], table.grid[row], table.block[row]);
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        })
        .collect()
}

impl GemmsAnalysis {
    fn join_calls(
        &mut self,
        trace: &Trace,
        kernels: &[GemmKernel],
        rows: &[GemmRow],
        order: &[u32],
        pairs: &[Option<usize>],
        device: Option<&Device>,
    ) {
        let mut places = FxHashMap::default();
        for (kernel, call) in kernels.iter().zip(pairs) {
            let Some(call) = *call else { continue };
            let (row, name) = (order[call], trace.kernels.name[kernel.row]);
            let shapes = &mut self.shapes;
            let place = *places.entry((row, name)).or_insert_with(|| {
                shapes.push(GemmShapeRow {
                    gemm: GemmRow {
                        calls: 0,
                        ..rows[row as usize].clone()
                    },
                    kernel: trace.text(name).to_owned(),
                    total_ns: Nanos(0),
                    flops_per_s: 0.0,
                    roofline: None,
                });
                shapes.len() - 1
            });
            let shape = &mut self.shapes[place];
            shape.gemm.calls += 1;
            shape.total_ns += kernel.duration_ns;
            self.joined += 1;
            self.joined_ns += kernel.duration_ns;
            self.calls.push(GemmCall {
                call: call as u64,
                shape: place,
                start_ns: Nanos(trace.kernels.start[kernel.row]),
                duration_ns: kernel.duration_ns,
            });
        }
        for shape in &mut self.shapes {
            shape.compute_rates(device);
        }
        self.sort_shapes();
    }

    fn sort_shapes(&mut self) {
        let mut order: Vec<usize> = (0..self.shapes.len()).collect();
        sort_descending(&mut order, |&place| self.shapes[place].total_ns.0);
        let mut place = vec![0; order.len()];
        for (now, before) in order.iter().enumerate() {
            place[*before] = now;
        }
        for call in &mut self.calls {
            call.shape = place[call.shape];
        }
        self.shapes = order.iter().map(|at| self.shapes[*at].clone()).collect();
    }
}

impl GemmShapeRow {
    fn compute_rates(&mut self, device: Option<&Device>) {
        let seconds = self.total_ns.seconds() / self.gemm.calls.max(1) as f64;
        if seconds <= 0.0 {
            return;
        }
        self.flops_per_s = self.gemm.flops() / seconds;
        self.roofline = device.and_then(|device| {
            let least = self.cost()?.roofline_seconds(device)?;
            Some(least / seconds)
        });
    }

    /// Each matrix crosses memory once. The math mode of FP32 is not in the log, so that its peak is not known.
    fn cost(&self) -> Option<OperatorCost> {
        let gemm = &self.gemm;
        let dtype = dtype_of_cuda_name(&gemm.dtype).filter(|dtype| *dtype != DType::F32)?;
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|side| side as f64);
        let elements = gemm.batch as f64 * (m * k + k * n + m * n);
        Some(OperatorCost {
            flops: Flops(gemm.flops() as u64),
            bytes: Bytes((elements * f64::from(dtype.bits()) / 8.0) as u64),
            dtype,
            engine: Engine::Tensor,
            gemm: None,
        })
    }
}

/// Whether a rate is above what the device can do.
fn is_impossible(row: &GemmShapeRow, device: Option<&Device>) -> bool {
    let peak = device.and_then(|device| {
        let dtype = match dtype_of_cuda_name(&row.gemm.dtype)? {
            DType::F32 => DType::Tf32,
            other => other,
        };
        let peak = device.dense_peak(dtype, Engine::Tensor).ok()?;
        Some(peak.dense_flops_per_s.0)
    });
    peak.is_some_and(|peak| row.flops_per_s > RATE_OF_PEAK_MAX_RATIO * peak)
}

/// A format by CUDA's name.
fn dtype_of_cuda_name(name: &str) -> Option<DType> {
    Some(match name {
        "R_16BF" => DType::Bf16,
        "R_16F" => DType::F16,
        "R_32F" => DType::F32,
        "R_64F" => DType::F64,
        "R_8I" => DType::I8,
        "R_8F_E4M3" => DType::F8E4m3,
        "R_8F_E5M2" => DType::F8E5m2,
        _ => return None,
    })
}
