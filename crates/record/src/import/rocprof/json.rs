use std::collections::{HashMap, HashSet};

use llmprof_units::Bytes;
use memchr::memmem;
use serde::Deserialize;

use super::{Dispatch, JSON_FORMAT, RocprofReading};
use crate::import::torch_names::add_pushed_range;
use crate::import::{ImportError, Source};
use crate::trace::{CopyKind, DeviceProperties, Host, HostKind, Range, RangeKind, StrId, Trace};

pub(super) fn sniff(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
        && memmem::find(head, b"\"rocprofiler-sdk-tool\"").is_some()
}

#[derive(Deserialize)]
struct RocprofFile {
    #[serde(rename = "rocprofiler-sdk-tool")]
    processes: Vec<RocprofProcess>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RocprofProcess {
    metadata: RocprofMetadata,
    agents: Vec<Agent>,
    strings: RocprofStrings,
    kernel_symbols: Vec<Symbol>,
    buffer_records: Records,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RocprofMetadata {
    pid: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Agent {
    id: Handle,
    /// 1 is a CPU, 2 a GPU.
    #[serde(rename = "type")]
    kind: u32,
    logical_node_type_id: Option<u32>,
    name: String,
    product_name: String,
    cu_count: Option<u32>,
    max_engine_clk_fcompute: Option<u64>,
    wave_front_size: Option<u32>,
    mem_banks: Vec<Bank>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Bank {
    size_in_bytes: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct Handle {
    handle: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RocprofStrings {
    buffer_records: Vec<RecordKind>,
    marker_api: Vec<Marker>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordKind {
    kind: String,
    operations: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Marker {
    key: u64,
    value: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Symbol {
    kernel_id: u64,
    kernel_name: String,
    formatted_kernel_name: String,
    arch_vgpr_count: u32,
    group_segment_size: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Records {
    kernel_dispatch: Vec<KernelRecord>,
    memory_copy: Vec<CopyRecord>,
    hip_api: Vec<CallRecord>,
    marker_api: Vec<CallRecord>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Correlation {
    internal: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KernelRecord {
    correlation_id: Correlation,
    start_timestamp: i64,
    end_timestamp: i64,
    stream_id: Option<Handle>,
    dispatch_info: Option<Info>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    agent_id: Handle,
    queue_id: Handle,
    kernel_id: u64,
    group_segment_size: u32,
    workgroup_size: Axes,
    grid_size: Axes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Axes {
    x: u32,
    y: u32,
    z: u32,
}

impl Axes {
    fn array(&self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CopyRecord {
    operation: usize,
    correlation_id: Correlation,
    start_timestamp: i64,
    end_timestamp: i64,
    dst_agent_id: Handle,
    src_agent_id: Handle,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallRecord {
    operation: usize,
    thread_id: i64,
    correlation_id: Correlation,
    start_timestamp: i64,
    end_timestamp: i64,
}

pub(super) fn read(source: &Source) -> Result<Trace, ImportError> {
    let file: RocprofFile = serde_json::from_slice(source.bytes())
        .map_err(|error| source.unusable(JSON_FORMAT, error.to_string()))?;
    let mut reading = RocprofReading::default();
    reading.builder.issues = source.issues().to_vec();
    for process in &file.processes {
        process.read(&mut reading);
    }
    if reading.builder.events_read == 0 {
        let what = "it has no kernel, copy or call";
        return Err(source.unusable(JSON_FORMAT, what));
    }
    reading.issues();
    Ok(reading.builder.finish())
}

impl RocprofProcess {
    fn read(&self, reading: &mut RocprofReading) {
        let gpus: HashMap<Handle, u32> = (0..)
            .zip(self.agents.iter().filter(|agent| agent.kind == 2))
            .map(|(order, agent)| (agent.id, agent.logical_node_type_id.unwrap_or(order)))
            .collect();
        let known = &mut reading.builder.devices;
        let mut ids: HashSet<_> = known.iter().map(|device| device.id).collect();
        for agent in self.agents.iter().filter(|agent| agent.kind == 2) {
            let properties = agent.properties(gpus[&agent.id]);
            if ids.insert(properties.id) {
                known.push(properties);
            }
        }
        let device = |agent: &Handle| gpus.get(agent).copied();
        let symbols: HashMap<u64, &Symbol> = self
            .kernel_symbols
            .iter()
            .map(|s| (s.kernel_id, s))
            .collect();
        // Each name is looked at once, however many records refer to it.
        let mut names: HashMap<u64, StrId> = HashMap::new();
        for record in &self.buffer_records.kernel_dispatch {
            let Some(info) = &record.dispatch_info else {
                reading.unread += 1;
                continue;
            };
            let symbol = symbols.get(&info.kernel_id);
            let name = *names.entry(info.kernel_id).or_insert_with(|| {
                let name = symbol.map_or("", |symbol| symbol.name());
                reading.builder.intern(name)
            });
            // Streams are what a program made; queues are the hardware's.
            let queue = record.stream_id.unwrap_or(info.queue_id).handle;
            reading.dispatch(&Dispatch {
                name,
                start: record.start_timestamp,
                end: record.end_timestamp,
                device: device(&info.agent_id).unwrap_or(0),
                queue: queue as u32,
                correlation: record.correlation_id.internal as u32,
                grid: info.grid_size.array(),
                workgroup: info.workgroup_size.array(),
                registers: symbol.map_or(0, |symbol| symbol.arch_vgpr_count),
                shared: info
                    .group_segment_size
                    .max(symbol.map_or(0, |symbol| symbol.group_segment_size)),
            });
        }
        let operations = self.operations("MEMORY_COPY");
        let mut directions: HashMap<usize, (StrId, CopyKind)> = HashMap::new();
        for record in &self.buffer_records.memory_copy {
            let direction = *directions
                .entry(record.operation)
                .or_insert_with(|| reading.direction(operation_name(operations, record.operation)));
            let times = (record.start_timestamp, record.end_timestamp);
            let on = device(&record.dst_agent_id).or(device(&record.src_agent_id));
            let correlation = record.correlation_id.internal as u32;
            reading.copy(direction, times, on.unwrap_or(0), correlation);
        }
        self.read_calls(reading);
    }

    fn read_calls(&self, reading: &mut RocprofReading) {
        let pid = self.metadata.pid;
        let operations = self.operations("HIP_RUNTIME_API");
        let mut names: HashMap<usize, StrId> = HashMap::new();
        for record in &self.buffer_records.hip_api {
            let (start, duration) = reading.span(record.start_timestamp, record.end_timestamp);
            let builder = &mut reading.builder;
            let name = *names
                .entry(record.operation)
                .or_insert_with(|| builder.intern(operation_name(operations, record.operation)));
            let thread = builder.thread(pid, record.thread_id);
            builder.hosts.push(Host {
                start,
                duration,
                name,
                thread,
                kind: HostKind::RUNTIME,
                correlation: record.correlation_id.internal as u32,
                ..Host::default()
            });
        }
        let texts: HashMap<u64, &str> = self
            .strings
            .marker_api
            .iter()
            .map(|marker| (marker.key, marker.value.as_str()))
            .collect();
        let mut names: HashMap<u64, StrId> = HashMap::new();
        for record in &self.buffer_records.marker_api {
            let key = record.correlation_id.internal;
            let Some(text) = texts.get(&key) else {
                reading.unread += 1;
                continue;
            };
            let (start, duration) = reading.span(record.start_timestamp, record.end_timestamp);
            let builder = &mut reading.builder;
            let name = *names.entry(key).or_insert_with(|| builder.intern(text));
            let thread = builder.thread(pid, record.thread_id);
            add_pushed_range(
                builder,
                Range {
                    start,
                    duration,
                    name,
                    thread,
                    kind: RangeKind::NVTX,
                    ..Range::default()
                },
            );
        }
    }

    /// The names of the operations of a kind.
    fn operations(&self, kind: &str) -> &[String] {
        let mut kinds = self.strings.buffer_records.iter();
        let record = kinds.find(|record| record.kind == kind);
        record.map_or(&[], |record| &record.operations)
    }
}

fn operation_name(names: &[String], number: usize) -> &str {
    names.get(number).map_or("", String::as_str)
}

impl Symbol {
    /// Demangled, and without the suffix of a kernel descriptor.
    fn name(&self) -> &str {
        let name = if self.formatted_kernel_name.is_empty() {
            &self.kernel_name
        } else {
            &self.formatted_kernel_name
        };
        name.strip_suffix(".kd").unwrap_or(name)
    }
}

impl Agent {
    fn properties(&self, id: u32) -> DeviceProperties {
        let name = if self.product_name.is_empty() {
            &self.name
        } else {
            &self.product_name
        };
        let memory: u64 = self
            .mem_banks
            .iter()
            .map(|bank| bank.size_in_bytes)
            .fold(0, u64::saturating_add);
        DeviceProperties {
            id,
            name: name.clone(),
            memory_bytes: (memory > 0).then_some(Bytes(memory)),
            sm_count: self.cu_count,
            warp_size: self.wave_front_size,
            clock_hz: self
                .max_engine_clk_fcompute
                .map(|mhz| mhz.saturating_mul(1_000_000)),
            ..DeviceProperties::default()
        }
    }
}
