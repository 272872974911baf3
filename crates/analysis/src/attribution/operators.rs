//! Operators by name and by shapes: calls, time on the host and on the device, and how near they come to the limit.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{HostKind, InputsId, StrId, Trace};
use llmprof_theory::device::Device;
use llmprof_units::{Bytes, DType, Flops, Nanos};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::attribution::key_averages::SliceTimes;
use crate::attribution::operator_cost::{OperatorCost, OperatorCosts};
use crate::thresholds::ROOFLINE_TOLERANCE_RATIO;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::intervals::add_saturating;

/// Calls and times of some calls of one operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorTimes {
    /// Number of calls that the times are of.
    pub calls: u64,
    /// Time on the host less that of what it called.
    pub host_self_ns: Nanos,
    /// Time on the host, operators that it called included.
    pub host_total_ns: Nanos,
    /// Device time of what it launched itself.
    pub device_self_ns: Nanos,
    /// Device time of what was launched inside.
    pub device_total_ns: Nanos,
    /// Calls of the API by which it launched something itself.
    pub launches: u64,
    /// Device events that it launched itself; more than launches where graphs were launched.
    pub device_events: u64,
    /// Calls inside of which something was launched that the trace holds.
    #[serde(skip)]
    pub(crate) device_calls: u64,
    /// Bytes of the host's memory that it took itself less those it gave back; absent where allocations were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_self_memory_bytes: Option<i64>,
}

impl OperatorTimes {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        add_saturating(&mut self.host_self_ns.0, other.host_self_ns.0);
        add_saturating(&mut self.host_total_ns.0, other.host_total_ns.0);
        add_saturating(&mut self.device_self_ns.0, other.device_self_ns.0);
        add_saturating(&mut self.device_total_ns.0, other.device_total_ns.0);
        self.launches += other.launches;
        self.device_events += other.device_events;
        self.device_calls += other.device_calls;
        if let Some(bytes) = other.host_self_memory_bytes {
            add_saturating(self.host_self_memory_bytes.get_or_insert(0), bytes);
        }
    }
}

/// Work and traffic of calls whose cost is known, and the rates that the device reached in them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorWork {
    /// Calls whose cost is known, and whose kernels the trace holds where it holds any.
    pub calls: u64,
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Bytes that they must read and write.
    pub bytes: Bytes,
    /// Device time of these calls.
    pub device_ns: Nanos,
    /// Operations a second of device time.
    pub flops_per_s: Option<f64>,
    /// Bytes a second of device time; above the memory's bandwidth where caches served them.
    pub bytes_per_s: Option<f64>,
    /// The least time that the device needs, ns; absent without a device or a peak of it.
    pub roofline_ns: Option<f64>,
    /// The least time over the device time: 1 is the roofline. Absent above 1, where caches served what memory need not or the work
    /// is not what the shapes say.
    pub roofline: Option<f64>,
}

/// One operator of the framework over the whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorRow {
    /// Name of the operator, as `aten::mm`.
    pub name: String,
    /// Times of all its calls.
    #[serde(flatten)]
    pub times: OperatorTimes,
    /// Work of the calls whose cost is known.
    pub work: Option<OperatorWork>,
    /// The same by shapes of the inputs, the longest device time first.
    pub shapes: Vec<ShapeRow>,
}

/// The calls of an operator with one list of inputs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ShapeRow {
    /// The inputs: `bf16[128,896]` for a tensor, the value for anything else; empty where not recorded.
    pub inputs: Vec<String>,
    /// Times of the calls with these inputs.
    #[serde(flatten)]
    pub times: OperatorTimes,
    /// What one call must cost.
    pub cost: Option<OperatorCost>,
    /// Work of all of them.
    pub work: Option<OperatorWork>,
}

/// Operators beyond this many are summed up in one row: names were generated.
pub const OPERATOR_ROWS_MAX: usize = 20_000;

/// The name of the row that sums up what is beyond [`OPERATOR_ROWS_MAX`].
pub(crate) const OTHER_ROW: &str = "(other operators)";

/// Rows of shapes that are kept for one operator; the rest is in the operator's sums.
pub(crate) const SHAPE_ROWS_MAX: usize = 1000;

/// All operators of a trace, the longest own device time first.
pub(crate) fn operator_rows(
    trace: &Trace,
    times: &SliceTimes,
    attribution: &Attribution,
    events: &DeviceEvents,
    device: Option<&Device>,
) -> Vec<OperatorRow> {
    let sums = sum_times(trace, times, attribution, events);
    let multiplies_in_tf32 = multiplies_in_tf32(trace, events);
    let costs = OperatorCosts::from_trace(trace);
    let mut by_name: FxHashMap<StrId, OperatorRow> = FxHashMap::default();
    for ((name, inputs), times) in sums {
        let mut cost = costs.cost_of_call(name, inputs);
        if let Some(cost) = cost.as_mut().filter(|_| multiplies_in_tf32) {
            cost.use_tf32();
        }
        let row = by_name.entry(name).or_insert_with(|| OperatorRow {
            name: trace.text(name).to_owned(),
            times: OperatorTimes::default(),
            work: None,
            shapes: Vec::new(),
        });
        row.times.add(&times);
        row.shapes.push(ShapeRow {
            inputs: describe_inputs(trace, inputs),
            cost,
            work: cost.map(|cost| work_of_calls(&cost, &times, device)),
            times,
        });
    }
    let mut rows: Vec<OperatorRow> = by_name.into_values().collect();
    for row in &mut rows {
        row.work = sum_work(row.shapes.iter().filter_map(|shape| shape.work.as_ref()));
        row.shapes.sort_by(|a, b| {
            let key = |row: &ShapeRow| {
                std::cmp::Reverse((row.times.device_total_ns, row.times.host_total_ns))
            };
            key(a).cmp(&key(b)).then_with(|| a.inputs.cmp(&b.inputs))
        });
        row.shapes.truncate(SHAPE_ROWS_MAX);
    }
    rows.sort_by(|a, b| {
        let key = |row: &OperatorRow| {
            std::cmp::Reverse((row.times.device_self_ns, row.times.host_self_ns))
        };
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    if rows.len() > OPERATOR_ROWS_MAX {
        let mut times = OperatorTimes::default();
        for row in rows.drain(OPERATOR_ROWS_MAX..) {
            times.add(&row.times);
        }
        rows.push(OperatorRow {
            name: OTHER_ROW.to_owned(),
            times,
            work: None,
            shapes: Vec::new(),
        });
    }
    rows
}

/// Whether GEMMs of FP32 run on tensor cores in TF32, which PyTorch decides once for a process: their names say so. CUTLASS writes
/// TF32 as the lack of a format, `tensorop_s1688gemm`.
fn multiplies_in_tf32(trace: &Trace, events: &DeviceEvents) -> bool {
    let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
    events.all().iter().any(|event| {
        *known.entry(event.name).or_insert_with(|| {
            let name = trace.text(event.name);
            let says = name.contains("tf32") || name.contains("tensorop_s1688gemm");
            says && events.class_of(event.name).category == Category::Gemm
        })
    })
}

fn sum_times(
    trace: &Trace,
    times: &SliceTimes,
    attribution: &Attribution,
    events: &DeviceEvents,
) -> FxHashMap<(StrId, InputsId), OperatorTimes> {
    let hosts = &trace.hosts;
    let mut sums: FxHashMap<(StrId, InputsId), OperatorTimes> = FxHashMap::default();
    for row in 0..hosts.len() {
        if hosts.kind[row] != HostKind::OPERATOR {
            continue;
        }
        let sum = sums
            .entry((hosts.name[row], hosts.inputs[row]))
            .or_default();
        sum.calls += 1;
        add_saturating(&mut sum.host_self_ns.0, times.self_host[row]);
        add_saturating(&mut sum.host_total_ns.0, hosts.duration[row]);
        add_saturating(&mut sum.device_self_ns.0, times.self_device[row]);
        add_saturating(&mut sum.device_total_ns.0, times.device[row]);
        sum.device_calls += u64::from(times.device[row] > 0);
        if let Some(bytes) = &times.self_host_memory {
            add_saturating(sum.host_self_memory_bytes.get_or_insert(0), bytes[row]);
        }
    }
    let mut launches: Vec<(u32, u32)> = Vec::new();
    for index in 0..events.all().len() {
        let Some(operator) = attribution.operator(index) else {
            continue;
        };
        let key = (
            hosts.name[operator as usize],
            hosts.inputs[operator as usize],
        );
        sums.entry(key).or_default().device_events += 1;
        if let Some(call) = attribution.call(index) {
            launches.push((operator, call));
        }
    }
    launches.sort_unstable();
    launches.dedup();
    for (operator, _) in launches {
        let key = (
            hosts.name[operator as usize],
            hosts.inputs[operator as usize],
        );
        sums.entry(key).or_default().launches += 1;
    }
    sums
}

pub(crate) fn work_of_calls(
    cost: &OperatorCost,
    times: &OperatorTimes,
    device: Option<&Device>,
) -> OperatorWork {
    let roofline = device.and_then(|device| cost.roofline_seconds(device));
    // Calls whose kernels are not in the trace have no part in the device time.
    let calls = match times.device_calls {
        0 => times.calls,
        on_device => on_device,
    };
    work_with_rates(
        calls,
        Flops(cost.flops.0.saturating_mul(calls)),
        Bytes(cost.bytes.0.saturating_mul(calls)),
        times.device_total_ns,
        roofline.map(|roofline| roofline * 1e9 * calls as f64),
    )
}

fn work_with_rates(
    calls: u64,
    flops: Flops,
    bytes: Bytes,
    device_ns: Nanos,
    roofline_ns: Option<f64>,
) -> OperatorWork {
    let seconds = device_ns.seconds();
    let ran = device_ns > Nanos(0);
    OperatorWork {
        calls,
        flops,
        bytes,
        device_ns,
        flops_per_s: ran.then(|| flops.0 as f64 / seconds),
        bytes_per_s: ran.then(|| bytes.0 as f64 / seconds),
        roofline_ns,
        roofline: roofline_ns
            .filter(|_| ran)
            .map(|roofline| roofline / device_ns.0 as f64)
            .filter(|share| *share <= ROOFLINE_TOLERANCE_RATIO),
    }
}

fn sum_work<'a>(parts: impl Iterator<Item = &'a OperatorWork>) -> Option<OperatorWork> {
    parts.copied().reduce(|a, b| {
        work_with_rates(
            a.calls + b.calls,
            Flops(a.flops.0.saturating_add(b.flops.0)),
            Bytes(a.bytes.0.saturating_add(b.bytes.0)),
            Nanos(a.device_ns.0.saturating_add(b.device_ns.0)),
            a.roofline_ns.zip(b.roofline_ns).map(|(a, b)| a + b),
        )
    })
}

/// The inputs of a call as [`ShapeRow::inputs`] has them.
pub fn describe_inputs(trace: &Trace, inputs: InputsId) -> Vec<String> {
    let arguments = trace.inputs.arguments(inputs);
    arguments
        .map(|argument| {
            let written = trace.text(argument.dtype());
            let dtype = match written.parse::<DType>() {
                Ok(known) => known.name(),
                Err(_) => written,
            };
            let value = trace.text(argument.value());
            if !value.is_empty() {
                return value.to_owned();
            }
            let tensors: Vec<String> = argument
                .tensors()
                .map(|tensor| {
                    let dims: Vec<String> = tensor.dims.iter().map(i64::to_string).collect();
                    format!("[{}]", dims.join(","))
                })
                .collect();
            match (dtype, &tensors[..]) {
                ("", []) => "none".to_owned(),
                (dtype, []) => dtype.to_owned(),
                (dtype, [one]) => format!("{dtype}{one}"),
                (dtype, many) => format!("{dtype}({})", many.join(",")),
            }
        })
        .collect()
}
