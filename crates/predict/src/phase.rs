//! The predicted time of one phase.

use llmprof_units::{Bytes, DType, Flops, Nanos};
use serde::Serialize;

use super::efficiency::{EfficiencyProfile, GraphTimes, WIDE_ROWS};
use crate::curves::KernelTime;
use llmprof_theory::{
    Kind, Operator,
    device::{DeviceKind, Engine, MissingPeak},
    roofline::{MemoryLevel, Resource, Roof},
};

/// What a phase is predicted to take, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhasePrediction {
    /// The time that a user sees: the device's, or the host's where that is longer.
    pub time_ns: Nanos,
    /// Time of the device's kernels.
    pub device_ns: Nanos,
    /// Time of the host to start them; absent where the profile captures graphs.
    pub host_ns: Option<Nanos>,
    /// The least time that any software needs.
    pub roofline_ns: Nanos,
    /// Device time of operators that matrix units hold back.
    pub tensor_ns: Nanos,
    /// Device time of operators that vector units hold back.
    pub vector_ns: Nanos,
    /// Device time of operators that memory holds back.
    pub memory_ns: Nanos,
    /// Fixed time of kernels.
    pub launch_ns: Nanos,
    /// The largest of these parts, or the host.
    pub binds: Resource,
    pub kernels: u64,
    pub flops: Flops,
    /// Bytes that no software can avoid.
    pub min_dram_bytes: Bytes,
    /// Bytes that this way of running moves.
    pub moved_bytes: Bytes,
}

impl PhasePrediction {
    /// The largest part of the device's time.
    pub(crate) fn slowest(&self) -> Resource {
        let parts = [
            (Resource::Tensor, self.tensor_ns),
            (Resource::Vector, self.vector_ns),
            (Resource::Memory, self.memory_ns),
            (Resource::Launch, self.launch_ns),
        ];
        let largest = parts.into_iter().max_by_key(|(_, time)| *time);
        largest.map_or(Resource::Memory, |(resource, _)| resource)
    }
}

/// One kind's efficiencies as factors.
#[derive(Clone, Copy, Debug)]
struct Factors {
    per_compute: f64,
    few_rows_per_compute: f64,
    per_memory: f64,
    kernels: f64,
    kernel_seconds: f64,
    /// What a wide kernel takes beyond that.
    wide_seconds: f64,
    activation_passes: f64,
    kv_passes: f64,
}

/// A device and a way of running on it, resolved for fast look-up.
#[derive(Clone, Debug)]
pub(super) struct Clock<'d> {
    pub(super) roof: Roof<'d>,
    kinds: [Factors; Kind::ALL.len()],
    pass_kernels: f64,
    small_kernel_seconds: f64,
    host_seconds_per_kernel: Option<f64>,
}

impl<'d> Clock<'d> {
    pub(super) fn new(roof: Roof<'d>, profile: &EfficiencyProfile) -> Self {
        // A CPU is its own host.
        let has_host = roof.device().kind != DeviceKind::Cpu;
        // A device file may state its own time between kernels; it then bounds what a kernel costs from below.
        let least_kernel = roof
            .device()
            .launch_latency_ns
            .as_ref()
            .map_or(0.0, |figure| figure.value.seconds());
        let seconds = |us: f64| {
            if us > 0.0 {
                (us * 1e-6).max(least_kernel)
            } else {
                0.0
            }
        };
        Self {
            roof,
            kinds: Kind::ALL.map(|kind| {
                let entry = profile.of(kind);
                Factors {
                    per_compute: 1.0 / entry.compute,
                    few_rows_per_compute: 1.0 / entry.few_rows_compute.unwrap_or(entry.compute),
                    per_memory: 1.0 / entry.memory,
                    kernels: entry.kernels,
                    kernel_seconds: seconds(entry.kernel_us),
                    wide_seconds: seconds(entry.wide_kernel_us) - seconds(entry.kernel_us),
                    activation_passes: entry.activation_passes,
                    kv_passes: entry.kv_passes,
                }
            }),
            pass_kernels: profile.pass_kernels.value,
            small_kernel_seconds: seconds(profile.default.kernel_us),
            host_seconds_per_kernel: profile
                .host_us_per_kernel
                .as_ref()
                .filter(|_| has_host)
                .map(|figure| figure.value * 1e-6),
        }
    }
}

/// How wide the kernels of a step of so many rows are, from 0 to 1: logarithmic between one row and [`WIDE_ROWS`].
pub(super) fn width(rows: u64) -> f64 {
    ((rows.max(1) as f64).log2() / (WIDE_ROWS as f64).log2()).min(1.0)
}

/// Kernels of a phase, costed one by one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelSum {
    pub(super) time: KernelTime,
    pub(super) kernels: f64,
    pub(super) bytes: f64,
}

impl KernelSum {
    /// Adds something that runs `times` times and is `launches` kernels.
    pub(super) fn add(&mut self, time: &KernelTime, (times, launches): (f64, f64), bytes: f64) {
        self.time.fixed += time.fixed * times;
        self.time.tensor += time.tensor * times;
        self.time.vector += time.vector * times;
        self.time.memory += time.memory * times;
        self.kernels += launches * times;
        self.bytes += bytes * times;
    }

    /// Adds another sum so many times.
    pub(super) fn add_times(&mut self, other: &Self, times: f64) {
        self.time.fixed += other.time.fixed * times;
        self.time.tensor += other.time.tensor * times;
        self.time.vector += other.time.vector * times;
        self.time.memory += other.time.memory * times;
        self.kernels += other.kernels * times;
        self.bytes += other.bytes * times;
    }
}

/// How the host starts the kernels of a phase's steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Launch {
    /// One by one, each for as long as the profile says, if it does.
    Kernels,
    Graph(GraphTimes),
}

/// Sums over the operators of a phase, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Timing {
    device: f64,
    by_resource: [f64; 4],
    roofline: [f64; 2],
    bytes_per_step: f64,
    kernels: f64,
    flops: f64,
    min_dram_bytes: f64,
    moved: f64,
    missing: Option<DType>,
}

impl Timing {
    /// Adds an operator of a step that is `width` wide, from 0 (one row) to 1.
    pub(super) fn add(&mut self, clock: &Clock<'_>, operator: &Operator<'_>, width: f64) {
        let layers = f64::from(operator.layers);
        let rate = |dtype, engine| clock.roof.seconds_per_flop(dtype, engine);
        let tensor = match rate(operator.tensor.dtype, Engine::Tensor) {
            Some(rate) => operator.tensor.flops as f64 * layers * rate,
            None if operator.tensor.flops == 0 => 0.0,
            None => {
                self.missing.get_or_insert(operator.tensor.dtype);
                0.0
            }
        };
        let vector = operator.vector.flops as f64
            * layers
            * rate(operator.vector.dtype, Engine::Vector).unwrap_or(0.0);
        let traffic = &operator.traffic;
        let min_dram_bytes = traffic.min_dram_bytes() as f64 * layers;
        let main = clock.roof.seconds_per_byte(MemoryLevel::Main);
        let on_chip = clock.roof.seconds_per_byte(MemoryLevel::OnChip);
        self.roofline[0] += tensor.max(vector).max(min_dram_bytes * main);
        self.roofline[1] += tensor.max(vector).max(min_dram_bytes * on_chip);
        self.bytes_per_step += min_dram_bytes / operator.steps.max(1) as f64;

        let kind = &clock.kinds[operator.kind as usize];
        let moved = (traffic.weights as f64
            + (traffic.kv_read as f64 + traffic.kv_write as f64) * kind.kv_passes
            + traffic.activations() as f64 * kind.activation_passes)
            * layers;
        let per_compute = if width < 1.0 {
            kind.few_rows_per_compute
        } else {
            kind.per_compute
        };
        let (tensor, vector, memory) = (
            tensor * per_compute,
            vector * per_compute,
            moved * main * kind.per_memory,
        );
        let (work, resource) = if memory >= tensor && memory >= vector {
            (memory, Resource::Memory)
        } else if tensor >= vector {
            (tensor, Resource::Tensor)
        } else {
            (vector, Resource::Vector)
        };
        let kernels = kind.kernels * operator.steps as f64 * layers;
        let launch = kernels * (kind.kernel_seconds + kind.wide_seconds * width);
        self.device += work + launch;
        self.by_resource[resource as usize] += work;
        self.by_resource[Resource::Launch as usize] += launch;
        self.kernels += kernels;
        self.flops += (operator.tensor.flops as f64 + operator.vector.flops as f64) * layers;
        self.min_dram_bytes += min_dram_bytes;
        self.moved += moved;
    }

    /// Adds what each of `steps` steps costs beside its operators.
    pub(super) fn add_steps(&mut self, clock: &Clock<'_>, steps: u64) {
        let kernels = clock.pass_kernels * steps as f64;
        let launch = kernels * clock.small_kernel_seconds;
        self.kernels += kernels;
        self.device += launch;
        self.by_resource[Resource::Launch as usize] += launch;
    }

    /// Work that is known as a whole, and its roofline time in seconds.
    pub(super) fn known(&mut self, flops: f64, min_dram_bytes: f64, roofline: f64) {
        self.flops = flops;
        self.min_dram_bytes = min_dram_bytes;
        self.roofline = [roofline; 2];
    }

    /// Takes times, launches and bytes of kernels instead of those of operators.
    pub(super) fn replace(&mut self, sum: &KernelSum) {
        let time = &sum.time;
        self.device = time.seconds();
        self.by_resource = [time.tensor, time.vector, time.memory, time.fixed];
        self.kernels = sum.kernels;
        self.moved = sum.bytes;
    }

    /// Everything on the device so many times as long.
    pub(super) fn scale(&mut self, factor: f64) {
        self.device *= factor;
        self.by_resource = self.by_resource.map(|part| part * factor);
    }

    /// `host_factor`: host time ÷ that of the profile. `steps`: how many are launched so.
    pub(super) fn finish(
        self,
        clock: &Clock<'_>,
        host_factor: f64,
        (launch_by, steps): (Launch, u64),
    ) -> Result<PhasePrediction, MissingPeak> {
        if let Some(dtype) = self.missing {
            clock.roof.device().peak(dtype, Engine::Tensor)?;
        }
        let roofline = match clock.roof.level(self.bytes_per_step) {
            MemoryLevel::Main => self.roofline[0],
            MemoryLevel::OnChip => self.roofline[1],
        };
        let steps = steps as f64;
        let (host, captured) = match launch_by {
            Launch::Kernels => {
                let each = clock.host_seconds_per_kernel;
                (each.map(|seconds| seconds * self.kernels), 0.0)
            }
            Launch::Graph(graph) => {
                let us = graph.step_us * steps + graph.gap_us * self.kernels;
                (None, us * 1e-6)
            }
        };
        let host = host.map(|seconds| seconds * host_factor);
        let [tensor, vector, memory, launch] = self.by_resource;
        let resources = [
            Resource::Tensor,
            Resource::Vector,
            Resource::Memory,
            Resource::Launch,
        ];
        let largest = resources
            .into_iter()
            .max_by(|a, b| self.by_resource[*a as usize].total_cmp(&self.by_resource[*b as usize]))
            .unwrap_or(Resource::Memory);
        let host_binds = host.is_some_and(|host| host > self.device);
        Ok(PhasePrediction {
            time_ns: Nanos::from_seconds(
                host.map_or(self.device, |host| host.max(self.device)) + captured,
            ),
            device_ns: Nanos::from_seconds(self.device),
            host_ns: host.map(Nanos::from_seconds),
            roofline_ns: Nanos::from_seconds(roofline),
            tensor_ns: Nanos::from_seconds(tensor),
            vector_ns: Nanos::from_seconds(vector),
            memory_ns: Nanos::from_seconds(memory),
            launch_ns: Nanos::from_seconds(launch),
            binds: if host_binds { Resource::Host } else { largest },
            kernels: self.kernels.round() as u64,
            flops: Flops(self.flops as u64),
            min_dram_bytes: Bytes(self.min_dram_bytes as u64),
            moved_bytes: Bytes(self.moved as u64),
        })
    }
}
