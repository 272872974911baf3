//! The predicted time of one phase.

use llmprof_theory::{
    Kind, Operator, Work,
    device::{DeviceKind, Engine},
    roofline::{MemoryLevel, PhaseRoofline, Resource, Roof},
};
use llmprof_units::{Bytes, DType, Flops, Nanos};
use serde::Serialize;

use super::{
    curves::KernelTime,
    efficiency::{EfficiencyProfile, GraphTimes, WIDE_ROWS},
    interval::PredictionInterval,
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
    /// Device time that kernels take however small their work, summed over `kernels`.
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
    pub(crate) fn slowest_resource(&self) -> Resource {
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

/// What one step is predicted to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepTime {
    /// The time that a user sees: the device's, or the host's where that is longer.
    pub time_ns: Nanos,
    /// Time of the device's kernels.
    pub device_ns: Nanos,
    /// Time of the host to start them; absent where the step is captured as a CUDA graph.
    pub host_ns: Option<Nanos>,
    /// The largest part of the device's time, or the host.
    pub binds: Resource,
    pub kernels: u64,
    /// 90 % range of the time that a user sees; absent where its error is not known.
    pub range: Option<PredictionInterval>,
}

/// One kind's efficiencies as factors.
#[derive(Clone, Copy, Debug)]
struct KindFactors {
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
pub(super) struct EfficiencyClock<'d> {
    pub(super) roof: Roof<'d>,
    kinds: [KindFactors; Kind::ALL.len()],
    pass_kernels: f64,
    small_kernel_seconds: f64,
    host_seconds_per_kernel: Option<f64>,
}

impl<'d> EfficiencyClock<'d> {
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
                let entry = profile.efficiency_of(kind);
                KindFactors {
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

impl EfficiencyClock<'_> {
    /// The format of an operator's matrix work where the device states no rate for it.
    pub(super) fn missing_rate(&self, operator: &Operator<'_>) -> Option<DType> {
        let Work { dtype, flops } = operator.tensor;
        let rate = self.roof.seconds_per_flop(dtype, Engine::Tensor);
        (flops > 0 && rate.is_none()).then_some(dtype)
    }
}

/// Width of the kernels of a step with `rows` rows, from 0 to 1: logarithmic between one row and [`WIDE_ROWS`].
pub(super) fn kernel_width(rows: u64) -> f64 {
    ((rows.max(1) as f64).log2() / (WIDE_ROWS as f64).log2()).min(1.0)
}

/// How the host starts the kernels of a phase's steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum KernelLaunch {
    /// One by one, each for as long as the profile says, if it does. Software that captures steps of fewer tokens takes `step_us` for any step.
    Kernels {
        step_us: f64,
    },
    Graph(GraphTimes),
}

/// What the kernels of some steps take on the device, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceTime {
    pub(super) time: KernelTime,
    pub(super) kernels: f64,
    pub(super) bytes: f64,
}

impl DeviceTime {
    /// Adds a kernel that runs `times` times and is `launches` launches.
    pub(super) fn add_kernel(
        &mut self,
        time: &KernelTime,
        (times, launches): (f64, f64),
        bytes: f64,
    ) {
        let one = Self {
            time: *time,
            kernels: launches,
            bytes,
        };
        self.add_times(&one, times);
    }

    pub(super) fn add_times(&mut self, other: &Self, times: f64) {
        self.time.fixed += other.time.fixed * times;
        self.time.tensor += other.time.tensor * times;
        self.time.vector += other.time.vector * times;
        self.time.memory += other.time.memory * times;
        self.kernels += other.kernels * times;
        self.bytes += other.bytes * times;
    }

    /// Adds an operator of a step that is `width` wide, from 0 (one row) to 1, by the efficiencies of its kind.
    pub(super) fn add_operator(
        &mut self,
        clock: &EfficiencyClock<'_>,
        operator: &Operator<'_>,
        width: f64,
    ) {
        let layers = f64::from(operator.layers);
        let kind = &clock.kinds[operator.kind as usize];
        let per_compute = if width < 1.0 {
            kind.few_rows_per_compute
        } else {
            kind.per_compute
        };
        // A missing rate of the matrix units is an error of the roofline; others count nothing there too.
        let seconds = |work: &Work, engine| {
            let rate = clock.roof.seconds_per_flop(work.dtype, engine);
            work.flops as f64 * layers * rate.unwrap_or(0.0) * per_compute
        };
        let tensor = seconds(&operator.tensor, Engine::Tensor);
        let vector = seconds(&operator.vector, Engine::Vector);
        let traffic = &operator.traffic;
        let moved = (traffic.weights as f64
            + (traffic.kv_read as f64 + traffic.kv_write as f64) * kind.kv_passes
            + traffic.activation_bytes() as f64 * kind.activation_passes)
            * layers;
        let memory = moved * clock.roof.seconds_per_byte(MemoryLevel::Main) * kind.per_memory;
        if memory >= tensor && memory >= vector {
            self.time.memory += memory;
        } else if tensor >= vector {
            self.time.tensor += tensor;
        } else {
            self.time.vector += vector;
        }
        let kernels = kind.kernels * operator.steps as f64 * layers;
        self.time.fixed += kernels * (kind.kernel_seconds + kind.wide_seconds * width);
        self.kernels += kernels;
        self.bytes += moved;
    }

    /// Adds the costs of a step that belong to no operator.
    pub(super) fn add_pass_kernels(&mut self, clock: &EfficiencyClock<'_>) {
        let kernels = clock.pass_kernels;
        self.time.fixed += kernels * clock.small_kernel_seconds;
        self.kernels += kernels;
    }

    /// The same with every time multiplied by `factor`.
    pub(super) fn scaled_by(self, factor: f64) -> Self {
        Self {
            time: self.time.scaled_by(factor),
            ..self
        }
    }

    /// What a user sees of `steps` steps. `host_factor`: host time ÷ that of the profile.
    pub(super) fn visible_time(
        &self,
        clock: &EfficiencyClock<'_>,
        host_factor: f64,
        (launch, steps): (KernelLaunch, u64),
    ) -> StepTime {
        let device = self.time.seconds();
        let (host, beside_us) = match launch {
            KernelLaunch::Kernels { step_us } => {
                let each = clock.host_seconds_per_kernel;
                let host = each.map(|seconds| seconds * self.kernels * host_factor);
                (host, step_us * steps as f64)
            }
            KernelLaunch::Graph(graph) => {
                let us = graph.step_us * steps as f64 + graph.gap_us * self.kernels;
                (None, us)
            }
        };
        let KernelTime {
            fixed,
            tensor,
            vector,
            memory,
        } = self.time;
        let parts = [
            (Resource::Tensor, tensor),
            (Resource::Vector, vector),
            (Resource::Memory, memory),
            (Resource::Launch, fixed),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let is_host_bound = host.is_some_and(|host| host > device);
        StepTime {
            time_ns: Nanos::from_seconds(host.unwrap_or(0.0).max(device) + beside_us * 1e-6),
            device_ns: Nanos::from_seconds(device),
            host_ns: host.map(Nanos::from_seconds),
            binds: match largest {
                _ if is_host_bound => Resource::Host,
                Some((resource, _)) => resource,
                None => Resource::Memory,
            },
            kernels: self.kernels.round() as u64,
            range: None,
        }
    }

    /// Joins the predicted times with the roofline of the same work.
    pub(super) fn build_prediction(
        &self,
        clock: &EfficiencyClock<'_>,
        host_factor: f64,
        launch: (KernelLaunch, u64),
        needed: Needed,
    ) -> PhasePrediction {
        let seen = self.visible_time(clock, host_factor, launch);
        PhasePrediction {
            time_ns: seen.time_ns,
            device_ns: seen.device_ns,
            host_ns: seen.host_ns,
            roofline_ns: needed.roofline_ns,
            tensor_ns: Nanos::from_seconds(self.time.tensor),
            vector_ns: Nanos::from_seconds(self.time.vector),
            memory_ns: Nanos::from_seconds(self.time.memory),
            launch_ns: Nanos::from_seconds(self.time.fixed),
            binds: seen.binds,
            kernels: seen.kernels,
            flops: needed.flops,
            min_dram_bytes: needed.min_dram_bytes,
            moved_bytes: Bytes(self.bytes as u64),
        }
    }
}

/// The least that any software needs for some work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    pub(super) roofline_ns: Nanos,
    pub(super) flops: Flops,
    pub(super) min_dram_bytes: Bytes,
}

impl From<PhaseRoofline> for Needed {
    fn from(roofline: PhaseRoofline) -> Self {
        Self {
            roofline_ns: roofline.roofline_ns,
            flops: roofline.flops,
            min_dram_bytes: roofline.min_dram_bytes,
        }
    }
}
