//! The least time that a device needs for some work with any software.
//!
//! Per operator: the largest of tensor FLOPs ÷ tensor peak, vector FLOPs ÷ vector peak, and minimum DRAM bytes ÷ bandwidth,
//! where minimum DRAM bytes are weights, KV cache, and the model's inputs and outputs. Activations between operators count
//! nothing, since fusion and caches can avoid them; the two engines may overlap, so their times do not add up.
//! Over a phase these are summed; the largest of the three sums is given too, for software that would overlap operators.

use llmprof_units::{Bytes, DType, Flops, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Model, Operator, Pass, Step, Workload,
    device::{Device, Engine, MissingPeak},
};

const DTYPES: usize = DType::C64 as usize + 1;

/// What holds a piece of work back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// GEMMs, on whichever pipe the device does them best.
    #[serde(rename = "matrix", alias = "tensor")]
    Tensor,
    /// Arithmetic other than GEMMs, on the FP32 pipe.
    Vector,
    Memory,
    /// The fixed time of each kernel. Only predictions know it.
    Launch,
    /// The host that starts the kernels. Only predictions know it.
    Host,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Tensor => "compute",
            Self::Vector => "FP32 pipe",
            Self::Memory => "memory",
            Self::Launch => "launch",
            Self::Host => "host",
        })
    }
}

/// Where the minimum DRAM bytes of a step can stay between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryLevel {
    /// They are more than the chip holds: main memory's bandwidth applies.
    Main,
    /// All of them fit on the chip: main memory need not be read again, and only the bandwidth of caches applies,
    /// where it is known.
    OnChip,
}

/// A device's limits, resolved for fast look-up.
#[derive(Clone, Debug)]
pub struct Roof<'d> {
    device: &'d Device,
    /// Seconds per operation by dtype; NaN where the device states none.
    tensor: [f64; DTYPES],
    vector: [f64; DTYPES],
    /// Seconds per byte of main memory.
    main: f64,
    /// Bytes that all caches hold together.
    on_chip_bytes: f64,
    /// Seconds per byte of the fastest cache; 0, which claims nothing, where a cache's bandwidth is not known.
    on_chip: f64,
}

/// The least times of one operator, all its layers and steps together, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperatorRoofline {
    /// Matrix work at the peak of the tensor cores.
    pub tensor: f64,
    /// All other arithmetic at the peak of the FP32 pipe.
    pub vector: f64,
    /// Of its minimum DRAM traffic.
    pub memory: f64,
}

impl OperatorRoofline {
    /// The largest of the three.
    pub fn roofline_seconds(&self) -> f64 {
        self.tensor.max(self.vector).max(self.memory)
    }

    /// The resource that gives the largest.
    pub fn binding_resource(&self) -> Resource {
        if self.memory >= self.tensor && self.memory >= self.vector {
            Resource::Memory
        } else if self.tensor >= self.vector {
            Resource::Tensor
        } else {
            Resource::Vector
        }
    }
}

impl<'d> Roof<'d> {
    /// The limits of a device.
    pub fn new(device: &'d Device) -> Self {
        let rates = |engine| {
            let mut rates = [f64::NAN; DTYPES];
            for dtype in DType::all() {
                if let Ok(peak) = device.dense_peak(dtype, engine) {
                    rates[dtype as usize] = 1.0 / peak.dense_flops_per_s.0;
                }
            }
            rates
        };
        let (on_chip_bytes, on_chip) = on_chip(device);
        Self {
            device,
            tensor: rates(Engine::Tensor),
            vector: rates(Engine::Vector),
            main: 1.0 / device.memory_bandwidth().0,
            on_chip_bytes,
            on_chip,
        }
    }

    pub fn device(&self) -> &'d Device {
        self.device
    }

    /// Seconds per operation; `None` where the device states no rate.
    pub fn seconds_per_flop(&self, dtype: DType, engine: Engine) -> Option<f64> {
        let rates = match engine {
            Engine::Tensor => &self.tensor,
            Engine::Vector => &self.vector,
        };
        let rate = rates[dtype as usize];
        (!rate.is_nan()).then_some(rate)
    }

    /// Seconds per byte at a level.
    pub fn seconds_per_byte(&self, level: MemoryLevel) -> f64 {
        match level {
            MemoryLevel::Main => self.main,
            MemoryLevel::OnChip => self.on_chip,
        }
    }

    /// Where a step of this much minimum DRAM traffic can keep them.
    pub fn memory_level(&self, bytes_per_step: f64) -> MemoryLevel {
        if bytes_per_step <= self.on_chip_bytes {
            MemoryLevel::OnChip
        } else {
            MemoryLevel::Main
        }
    }

    /// The least times of an operator whose bytes come from `level`.
    ///
    /// Matrix work in a format without a peak is an error. Other arithmetic in such a format counts nothing, which
    /// keeps the result a lower bound: some makers publish no vector rates at all.
    pub fn operator_times(
        &self,
        operator: &Operator<'_>,
        level: MemoryLevel,
    ) -> Result<OperatorRoofline, MissingPeak> {
        let layers = f64::from(operator.layers);
        let tensor = match self.seconds_per_flop(operator.tensor.dtype, Engine::Tensor) {
            Some(rate) => rate,
            None if operator.tensor.flops == 0 => 0.0,
            None => {
                self.device
                    .dense_peak(operator.tensor.dtype, Engine::Tensor)?;
                0.0
            }
        };
        let vector = self
            .seconds_per_flop(operator.vector.dtype, Engine::Vector)
            .unwrap_or(0.0);
        Ok(OperatorRoofline {
            tensor: operator.tensor.flops as f64 * layers * tensor,
            vector: operator.vector.flops as f64 * layers * vector,
            memory: operator.traffic.min_dram_bytes() as f64
                * layers
                * self.seconds_per_byte(level),
        })
    }
}

/// Bytes of all caches, and seconds per byte of the fastest.
fn on_chip(device: &Device) -> (f64, f64) {
    use crate::device::CacheScope;
    let units = device.units.as_ref().map_or(1.0, |units| units.count.value);
    let mut bytes = 0.0;
    let mut fastest: f64 = 0.0;
    let mut all_known = true;
    for cache in &device.caches {
        let copies = match cache.scope {
            CacheScope::Unit => units,
            CacheScope::Device => 1.0,
        };
        bytes += cache.capacity_bytes.map_or(0.0, |bytes| bytes.0 as f64) * copies;
        match cache.bandwidth_bytes_per_s {
            Some(rate) => fastest = fastest.max(rate.0 * copies),
            None => all_known = false,
        }
    }
    let seconds_per_byte = if all_known && fastest > 0.0 {
        1.0 / fastest
    } else {
        0.0
    };
    (bytes, seconds_per_byte)
}

/// The least time of one phase on a device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseRoofline {
    /// Σ over operators of each one's largest limit.
    pub roofline_ns: Nanos,
    /// The largest of the three sums below: what perfect overlap of all operators would leave.
    pub whole_ns: Nanos,
    /// Matrix work at its peak.
    pub tensor_ns: Nanos,
    /// Other arithmetic at its peak.
    pub vector_ns: Nanos,
    /// Minimum DRAM bytes at full bandwidth.
    pub memory_ns: Nanos,
    /// Which of the three is largest.
    pub binds: Resource,
    /// Where the bytes come from.
    pub memory_level: MemoryLevel,
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Minimum DRAM traffic: bytes that must cross DRAM however the work is done.
    pub min_dram_bytes: Bytes,
    /// Operations per byte of minimum DRAM traffic; absent where no bytes move.
    pub intensity: Option<f64>,
    /// Intensity at which matrix work, in the format that most of it has, takes as long as its bytes.
    pub ridge: Option<f64>,
    /// Formats of vector work for which the device states no rate; their time is not in the figures.
    pub vector_peaks_missing: Vec<DType>,
}

/// Sums over the operators of a phase.
#[derive(Clone, Debug, Default)]
struct RooflineSums {
    operators: [f64; 2],
    tensor: f64,
    vector: f64,
    bytes: f64,
    bytes_per_step: f64,
    flops: u64,
    min_dram_bytes: u64,
    tensor_by_dtype: [f64; DTYPES],
    missing: Vec<DType>,
}

impl PhaseRoofline {
    /// The roofline of the operators that `lower` sends.
    pub fn of_operators<'m>(
        roof: &Roof<'_>,
        lower: impl FnOnce(&mut dyn FnMut(&Operator<'m>)),
    ) -> Result<Self, MissingPeak> {
        let mut sums = RooflineSums::default();
        let mut failure = None;
        lower(&mut |operator| {
            if let Err(missing) = sums.add_operator(roof, operator) {
                failure.get_or_insert(missing);
            }
        });
        match failure {
            Some(missing) => Err(missing),
            None => Ok(sums.finish(roof)),
        }
    }

    /// The roofline of one pass of a model's decoder.
    pub fn of_pass(
        roof: &Roof<'_>,
        model: &Model,
        workload: &Workload,
        pass: &Pass,
    ) -> Result<Self, MissingPeak> {
        Self::of_operators(roof, |sink| model.lower_pass(workload, pass, sink))
    }

    /// The roofline of one step of a server; of the least that its facts allow where they leave a choice.
    pub fn of_step(
        roof: &Roof<'_>,
        model: &Model,
        workload: &Workload,
        step: &Step,
    ) -> Result<Self, MissingPeak> {
        Self::of_operators(roof, |sink| model.lower_step(workload, step, sink))
    }
}

impl RooflineSums {
    fn add_operator(
        &mut self,
        roof: &Roof<'_>,
        operator: &Operator<'_>,
    ) -> Result<(), MissingPeak> {
        let layers = u64::from(operator.layers);
        let main = roof.operator_times(operator, MemoryLevel::Main)?;
        let on_chip = roof.operator_times(operator, MemoryLevel::OnChip)?;
        self.operators[0] += main.roofline_seconds();
        self.operators[1] += on_chip.roofline_seconds();
        self.tensor += main.tensor;
        self.vector += main.vector;
        let bytes = operator.traffic.min_dram_bytes().saturating_mul(layers);
        self.bytes += bytes as f64;
        self.bytes_per_step += bytes as f64 / operator.steps.max(1) as f64;
        self.min_dram_bytes = self.min_dram_bytes.saturating_add(bytes);
        let flops = operator.tensor.flops.saturating_add(operator.vector.flops);
        self.flops = self.flops.saturating_add(flops.saturating_mul(layers));
        self.tensor_by_dtype[operator.tensor.dtype as usize] +=
            operator.tensor.flops as f64 * layers as f64;
        let dtype = operator.vector.dtype;
        if operator.vector.flops > 0
            && roof.seconds_per_flop(dtype, Engine::Vector).is_none()
            && !self.missing.contains(&dtype)
        {
            self.missing.push(dtype);
        }
        Ok(())
    }

    fn finish(self, roof: &Roof<'_>) -> PhaseRoofline {
        let level = roof.memory_level(self.bytes_per_step);
        let operators = match level {
            MemoryLevel::Main => self.operators[0],
            MemoryLevel::OnChip => self.operators[1],
        };
        let whole = OperatorRoofline {
            tensor: self.tensor,
            vector: self.vector,
            memory: self.bytes * roof.seconds_per_byte(level),
        };
        let busiest = DType::all()
            .filter(|dtype| self.tensor_by_dtype[*dtype as usize] > 0.0)
            .max_by(|a, b| {
                self.tensor_by_dtype[*a as usize].total_cmp(&self.tensor_by_dtype[*b as usize])
            });
        PhaseRoofline {
            roofline_ns: Nanos::from_seconds(operators),
            whole_ns: Nanos::from_seconds(whole.roofline_seconds()),
            tensor_ns: Nanos::from_seconds(whole.tensor),
            vector_ns: Nanos::from_seconds(whole.vector),
            memory_ns: Nanos::from_seconds(whole.memory),
            binds: whole.binding_resource(),
            memory_level: level,
            flops: Flops(self.flops),
            min_dram_bytes: Bytes(self.min_dram_bytes),
            intensity: (self.min_dram_bytes > 0).then(|| self.flops as f64 / self.bytes),
            ridge: busiest
                .and_then(|dtype| roof.seconds_per_flop(dtype, Engine::Tensor))
                .map(|seconds| roof.main / seconds),
            vector_peaks_missing: self.missing,
        }
    }
}

/// The rooflines of a workload by phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rooflines {
    /// Spec name of the device.
    pub device: String,
    /// Image towers; absent without images.
    pub vision: Option<PhaseRoofline>,
    /// The encoder; absent without one.
    pub encoder: Option<PhaseRoofline>,
    /// All passes over the prompt.
    pub prefill: PhaseRoofline,
    /// The decode step that makes the second token: the shortest context of all of them.
    pub decode_step: PhaseRoofline,
    /// All decode steps; absent where prefill gives the only token.
    pub decode: Option<PhaseRoofline>,
}

impl Rooflines {
    /// The rooflines of `workload` on `model`. The workload must be valid for the model ([`Model::cost_by_phase`] checks it).
    pub fn of_workload(
        roof: &Roof<'_>,
        model: &Model,
        workload: &Workload,
    ) -> Result<Self, MissingPeak> {
        let vision = PhaseRoofline::of_operators(roof, |sink| {
            if workload.images.count > 0 {
                model.lower_vision(workload, sink);
            }
        })?;
        let vision = (vision.flops > Flops(0)).then_some(vision);
        let encoder =
            PhaseRoofline::of_operators(roof, |sink| model.lower_encoder(workload, sink))?;
        let prefill = PhaseRoofline::of_operators(roof, |sink| {
            for pass in model.prefill_passes(workload) {
                model.lower_pass(workload, &pass, sink);
            }
        })?;
        let step = model.decode_step(workload);
        let decode = model
            .decode_pass(workload)
            .map(|pass| PhaseRoofline::of_pass(roof, model, workload, &pass))
            .transpose()?;
        Ok(Self {
            device: roof.device().name.clone(),
            vision,
            encoder: (encoder.flops > Flops(0)).then_some(encoder),
            prefill,
            decode_step: PhaseRoofline::of_pass(roof, model, workload, &step)?,
            decode,
        })
    }
}
