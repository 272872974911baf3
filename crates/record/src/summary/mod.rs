//! Events summed up by name: what `nsys stats` prints, and the same made from a [`Trace`](crate::trace::Trace).
//!
//! A profile may reach us as sums alone; then these rows are all there is. From a trace they are computed, and tests
//! hold them against the tool's own reports.

mod launches;
mod nsys_csv;
mod reduce;
mod spread;

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use nsys_csv::kernel_summary_csv;
pub use reduce::{
    api_times, kernel_executions, kernel_times, memory_times, range_kernels, range_projections,
    range_times,
};
pub use spread::Spread;

use crate::issue::Issue;

/// One table of sums, with what was dropped while it was read.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SummaryTable {
    /// The rows, by the kind of the table.
    pub summary: Summary,
    /// For each call of a log of GEMMs, in order, the row that it is summed in; empty for other tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u32>,
    /// What was dropped or is doubtful.
    pub issues: Vec<Issue>,
}

/// The kinds of tables, with their rows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report", content = "rows")]
#[schemars(rename = "ImportedSummary")]
pub enum Summary {
    /// Calls of the CUDA API (`cuda_api_sum`).
    CudaApi(Vec<TimeRow>),
    /// Calls of the operating system (`osrt_sum`).
    OsRuntime(Vec<TimeRow>),
    /// Times of kernels by name (`cuda_gpu_kern_sum`).
    Kernels(Vec<TimeRow>),
    /// Kernels by name, grid and block (`cuda_gpu_kern_gb_sum`).
    KernelsBySize(Vec<TimeRow>),
    /// Times of copies and memsets (`cuda_gpu_mem_time_sum`).
    Memory(Vec<TimeRow>),
    /// Bytes of copies and memsets (`cuda_gpu_mem_size_sum`).
    MemorySizes(Vec<SizeRow>),
    /// All activities of devices (`cuda_gpu_sum`).
    Device(Vec<TimeRow>),
    /// NVTX ranges (`nvtx_sum`, `nvtx_pushpop_sum`, `nvtx_startend_sum`).
    Ranges(Vec<TimeRow>),
    /// Launch, queue and run time of kernels (`cuda_kern_exec_sum`).
    Executions(Vec<ExecutionRow>),
    /// Kernels by the NVTX range that launched them (`nvtx_kern_sum`).
    RangeKernels(Vec<RangeKernelRow>),
    /// NVTX ranges as the device saw them (`nvtx_gpu_proj_sum`).
    RangeProjections(Vec<ProjectionRow>),
    /// GEMMs by shape, without times: logs of cuBLAS and cuBLASLt.
    Gemms(Vec<GemmRow>),
}

/// Calls of one function with one shape. Matrices are column-major, as cuBLAS counts: of `y = x @ W.T` in torch, `m` is the output
/// features and `n` the rows of `x`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GemmRow {
    /// The function of cuBLAS or cuBLASLt that was called.
    pub function: String,
    /// Rows of the result (M).
    pub m: u64,
    /// Columns of the result (N).
    pub n: u64,
    /// Depth: elements of each sum.
    pub k: u64,
    /// Number of GEMMs in one call.
    pub batch: u64,
    /// Of A, by CUDA's name: `R_16BF`; empty where the log does not say.
    pub dtype: String,
    /// Whether A and B are read transposed.
    pub transposed: [bool; 2],
    /// Number of calls with this shape.
    pub calls: u64,
}

impl GemmRow {
    /// Operations of one call: `2·m·n·k·batch`, four times as many of complex numbers.
    pub fn flops(&self) -> f64 {
        let factor = if self.dtype.starts_with("C_") {
            8.0
        } else {
            2.0
        };
        factor * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }

    pub fn total_flops(&self) -> f64 {
        self.flops() * self.calls as f64
    }
}

/// Times of everything with one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TimeRow {
    /// Name of the kernel, call, range or operation.
    pub name: String,
    /// Sum of the times of all calls, ns.
    pub total_ns: Nanos,
    /// How the times are spread.
    pub times: Spread,
    /// How a range was made (`PushPop`, `StartEnd`), or the category of an activity; mostly absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    /// Blocks in the grid, where the table goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<[u32; 3]>,
    /// Threads in a block, where the table goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
}

/// Bytes of all operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SizeRow {
    /// Name of the operation, such as `[CUDA memcpy HtoD]`.
    pub name: String,
    /// Sum of all sizes, bytes.
    pub total_bytes: f64,
    /// How the sizes are spread, bytes.
    pub sizes: Spread,
}

/// A kernel as one thread launched it with one API function on one device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ExecutionRow {
    /// Id of the process that launched the kernel.
    pub process: i64,
    /// Id of the thread that launched the kernel.
    pub thread: i64,
    /// Index of the device that ran the kernel.
    pub device: u32,
    /// Name of the API call.
    pub api: String,
    /// Name of the kernel that was launched.
    pub kernel: String,
    /// From the beginning of the call to the end of the call or the kernel, whichever is later.
    pub total: Spread,
    /// Time of the API call.
    pub call: Spread,
    /// From the end of the call to the start of the kernel, of those that started after it; absent where none did.
    pub queue: Option<Spread>,
    /// Time that the kernel ran.
    pub run: Spread,
}

/// A kernel as launched inside ranges of one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RangeKernelRow {
    /// The range, `domain:text`; empty for launches outside all ranges.
    pub range: String,
    /// How the range was made; empty outside all ranges.
    pub style: String,
    /// Id of the process that launched the kernel.
    pub process: i64,
    /// Id of the thread that launched the kernel.
    pub thread: i64,
    /// How many ranges of this name launched the kernel.
    pub range_instances: u64,
    /// Name of the kernel that was launched.
    pub kernel: String,
    /// Time of the kernel in the range.
    pub total_ns: Nanos,
    /// How its times are spread.
    pub times: Spread,
}

/// Ranges of one name, projected on the device: from the start of the first to the end of the last activity that was
/// launched inside.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ProjectionRow {
    /// The range, written as `domain:text`.
    pub range: String,
    /// How the range was made: `PushPop` or `StartEnd`.
    pub style: String,
    /// Sum of the projected times.
    pub total_ns: Nanos,
    /// Sum of the ranges' own times.
    pub total_range_ns: Nanos,
    /// How the projected times are spread, over ranges that launched something.
    pub times: Spread,
    /// Activities of the device that were launched inside.
    pub operations: u64,
    /// Mean depth of the range among ranges with device work; 0 at the top.
    pub mean_level: f64,
    /// Mean number of ranges with device work directly inside.
    pub mean_children: f64,
}
