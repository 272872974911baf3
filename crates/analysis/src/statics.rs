//! What a model must cost on paper: parameters, work, traffic, memory, and the roofline on a device.

use llmprof_theory::{
    AttentionConvention, Cost, Kind, Logits, MlaDecode, Model, Pass, Phase, Workload,
    WorkloadError,
    device::{Device, MissingPeak},
    roofline::{PhaseRoofline, Roof, Rooflines},
};
use llmprof_units::{Basis, Bytes, DType, Flops, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

/// Why there is no static analysis.
#[derive(Debug, thiserror::Error)]
pub enum StaticsError {
    /// The workload does not suit the model.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The device states no rate for the work.
    #[error(transparent)]
    MissingPeak(#[from] MissingPeak),
}

/// The whole analysis: `static_compute.json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Statics {
    /// Name of the model.
    pub model: String,
    /// Family that its config was read as.
    pub family: String,
    /// What was asked of it.
    pub workload: Workload,
    /// How things were counted.
    pub conventions: Conventions,
    /// Name of the device that the rooflines are of; absent where none was chosen.
    pub device: Option<String>,
    /// Whether its peaks were measured, not stated by its vendor: a run may exceed them.
    #[serde(skip)]
    pub has_measured_peaks: bool,
    /// The model as a whole.
    pub totals: Totals,
    /// What each phase costs.
    pub phases: Phases,
    /// What has to be held at once.
    pub memory: MemoryStatics,
}

/// What has to be held at once, and what the device could hold.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MemoryStatics {
    /// The weights.
    pub weights_bytes: Bytes,
    /// Keys and values after the last token.
    pub kv_bytes: Bytes,
    /// The most that activations take at any moment, with fused attention.
    pub peak_activation_bytes: Bytes,
    /// All three.
    pub total_bytes: Bytes,
    /// What the device has; absent without a device, or where its file does not say.
    pub capacity_bytes: Option<Bytes>,
    /// Whether the total is within that.
    pub fits: Option<bool>,
    /// The largest batch of such requests that fits the device.
    pub largest_batch: Option<u64>,
    /// The longest context of each request that fits the device.
    pub largest_context_tokens: Option<u64>,
    /// The positions that the model was made for; absent where its config does not say.
    pub max_positions: Option<u64>,
}

impl MemoryStatics {
    fn of(
        model: &Model,
        workload: &Workload,
        device: Option<&Device>,
    ) -> Result<Self, WorkloadError> {
        let memory = model.count_memory(workload)?;
        let capacity_bytes = device
            .and_then(|device| device.memory.capacity_bytes.as_ref())
            .map(|figure| figure.value);
        let total_bytes = Bytes(memory.total_bytes());
        Ok(Self {
            weights_bytes: Bytes(memory.weights),
            kv_bytes: Bytes(memory.kv_cache),
            peak_activation_bytes: Bytes(memory.activations_peak),
            total_bytes,
            capacity_bytes,
            fits: capacity_bytes.map(|capacity| total_bytes <= capacity),
            largest_batch: capacity_bytes
                .and_then(|capacity| model.largest_batch(workload, capacity.0)),
            largest_context_tokens: capacity_bytes
                .and_then(|capacity| model.largest_context(workload, capacity.0)),
            max_positions: model.max_positions(),
        })
    }
}

/// How things were counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Conventions {
    /// Operations per multiply-add.
    pub flops_per_multiply_add: u32,
    /// Which scores attention is charged for.
    pub attention: AttentionConvention,
    /// Which positions of a prompt get logits.
    pub logits: Logits,
    /// What the cache of latent attention holds.
    pub mla: MlaDecode,
    /// Number format of activations.
    pub activations: DType,
    /// Storage of the weights.
    pub weights: String,
    /// Number format of the KV cache.
    pub kv: DType,
}

/// The model as a whole.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "StaticTotals")]
pub struct Totals {
    /// Parameters, tied ones once.
    pub parameters: u64,
    /// Bytes that they take in the storage of this workload.
    pub parameter_bytes: Bytes,
    /// Layers of the decoder.
    pub layers: u32,
}

/// What each phase costs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Phases {
    /// Image towers; absent without images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<PhaseStatics>,
    /// The encoder; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<PhaseStatics>,
    /// All passes over the prompt.
    pub prefill: PhaseStatics,
    /// One decode step, at the context that follows the prompt.
    pub decode_step: PhaseStatics,
    /// All decode steps; absent where prefill gives the only token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<PhaseStatics>,
}

impl Phases {
    /// The phases there are, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &PhaseStatics)> {
        [
            ("vision", self.vision.as_ref()),
            ("encoder", self.encoder.as_ref()),
            ("prefill", Some(&self.prefill)),
            ("decode_step", Some(&self.decode_step)),
            ("decode", self.decode.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, phase)| Some((name, phase?)))
    }
}

/// What one phase costs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseStatics {
    /// Work and traffic.
    #[serde(flatten)]
    pub sums: Sums,
    /// Tokens per sequence that are in the cache when it starts.
    pub context_tokens: u64,
    /// The least time on the device.
    pub roofline_ns: Option<Nanos>,
    /// More about that time.
    pub roofline: Option<PhaseRoofline>,
    /// The same by kind of operator.
    pub kinds: Vec<KindStatics>,
}

/// What the operators of one kind cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KindStatics {
    /// The kind.
    pub kind: Kind,
    /// Work and traffic.
    #[serde(flatten)]
    pub sums: Sums,
    /// The least time of these operators on the device.
    pub roofline_ns: Option<Nanos>,
}

/// Work and traffic of some operators.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sums {
    /// How often an operator is called.
    pub calls: u64,
    /// All floating-point operations.
    pub flops: Flops,
    /// Those that matrix units can do.
    pub tensor_flops: Flops,
    /// The others.
    pub vector_flops: Flops,
    /// Weights read.
    pub weight_bytes: Bytes,
    /// Activations read and written if nothing is fused.
    pub activation_bytes: Bytes,
    /// Cached keys and values read.
    pub kv_read_bytes: Bytes,
    /// Keys and values added to the cache.
    pub kv_write_bytes: Bytes,
    /// The model's inputs and outputs.
    pub boundary_bytes: Bytes,
    /// FLOPs per byte of minimum DRAM traffic (weights, KV, inputs and outputs).
    pub intensity: Option<f64>,
    /// `counted`, or `expected` where random routing decides which experts are read.
    pub basis: Basis,
}

impl From<&Cost> for Sums {
    fn from(cost: &Cost) -> Self {
        Self {
            calls: cost.calls,
            flops: Flops(cost.total_flops()),
            tensor_flops: Flops(cost.tensor.total()),
            vector_flops: Flops(cost.vector.total()),
            weight_bytes: Bytes(cost.traffic.weights),
            activation_bytes: Bytes(cost.traffic.activation_bytes()),
            kv_read_bytes: Bytes(cost.traffic.kv_read),
            kv_write_bytes: Bytes(cost.traffic.kv_write),
            boundary_bytes: Bytes(cost.traffic.boundary),
            intensity: cost.arithmetic_intensity(),
            basis: cost.basis,
        }
    }
}

/// Analyzes `workload` on `model`, and on `device` where one is given.
pub fn analyze(
    name: &str,
    model: &Model,
    workload: &Workload,
    device: Option<&Device>,
) -> Result<Statics, StaticsError> {
    let costs = model.cost_by_phase(workload)?;
    let roof = device.map(Roof::new);
    let rooflines = roof
        .as_ref()
        .map(|roof| Rooflines::of_workload(roof, model, workload))
        .transpose()?;
    let phase = |cost: &Cost, roofline: Option<&PhaseRoofline>, passes: &Passes<'_>| PhaseStatics {
        sums: Sums::from(cost),
        context_tokens: passes.context(),
        roofline_ns: roofline.map(|roofline| roofline.roofline_ns),
        roofline: roofline.cloned(),
        kinds: passes.kinds(roof.as_ref(), roofline),
    };
    let passes = |phase: Phase, list: Vec<Pass>| Passes {
        model,
        workload,
        phase,
        list,
    };
    let prefill = passes(Phase::Prefill, model.prefill_passes(workload).collect());
    let step = passes(Phase::Decode, vec![model.decode_step(workload)]);
    let decode = model
        .decode_pass(workload)
        .map(|pass| passes(Phase::Decode, vec![pass]));
    let vision = passes(Phase::Vision, Vec::new());
    let encoder = passes(Phase::Encoder, Vec::new());
    let roofline =
        |choose: fn(&Rooflines) -> Option<&PhaseRoofline>| rooflines.as_ref().and_then(choose);

    let parameter_bytes = model.parameter_bytes(&workload.precision);
    let formats = model.number_formats(&workload.precision);
    Ok(Statics {
        model: name.to_owned(),
        family: model.family.to_owned(),
        workload: *workload,
        conventions: Conventions {
            flops_per_multiply_add: 2,
            attention: workload.attention,
            logits: workload.logits,
            mla: workload.mla,
            activations: formats.activations,
            weights: formats.weights.to_string(),
            kv: formats.kv,
        },
        device: device.map(|device| device.name.clone()),
        has_measured_peaks: device.is_some_and(|device| device.basis == Basis::Measured),
        totals: Totals {
            parameters: model.parameter_count(),
            parameter_bytes: Bytes(parameter_bytes),
            layers: model
                .decoder
                .as_ref()
                .map_or(0, llmprof_theory::Decoder::layer_count),
        },
        phases: Phases {
            vision: costs
                .vision
                .as_ref()
                .map(|cost| phase(cost, roofline(|f| f.vision.as_ref()), &vision)),
            encoder: costs
                .encoder
                .as_ref()
                .map(|cost| phase(cost, roofline(|f| f.encoder.as_ref()), &encoder)),
            prefill: phase(&costs.prefill, roofline(|f| Some(&f.prefill)), &prefill),
            decode_step: phase(
                &costs.decode_step,
                roofline(|f| Some(&f.decode_step)),
                &step,
            ),
            decode: decode
                .as_ref()
                .map(|passes| phase(&costs.decode, roofline(|f| f.decode.as_ref()), passes)),
        },
        memory: MemoryStatics::of(model, workload, device)?,
    })
}

/// The passes of one phase, by which its operators are found again.
struct Passes<'a> {
    model: &'a Model,
    workload: &'a Workload,
    phase: Phase,
    list: Vec<Pass>,
}

impl Passes<'_> {
    fn context(&self) -> u64 {
        self.list.first().map_or(0, |pass| pass.past)
    }

    /// The phase by kind of operator. A kind's roofline is taken at the memory level of the whole phase, so that the kinds
    /// sum to the phase.
    fn kinds(&self, roof: Option<&Roof<'_>>, roofline: Option<&PhaseRoofline>) -> Vec<KindStatics> {
        let mut costs = [Cost::default(); Kind::ALL.len()];
        let mut seconds = [0.0; Kind::ALL.len()];
        let mut add = |operator: &llmprof_theory::Operator<'_>| {
            let index = operator.kind as usize;
            costs[index].add_operator(operator);
            if let (Some(roof), Some(roofline)) = (roof, roofline)
                && let Ok(least) = roof.operator_times(operator, roofline.memory_level)
            {
                seconds[index] += least.roofline_seconds();
            }
        };
        match self.phase {
            Phase::Vision => self.model.lower_vision(self.workload, &mut add),
            Phase::Encoder => self.model.lower_encoder(self.workload, &mut add),
            Phase::Prefill | Phase::Decode => {}
        }
        for pass in &self.list {
            self.model.lower_pass(self.workload, pass, &mut add);
        }
        Kind::ALL
            .into_iter()
            .zip(costs.iter().zip(seconds))
            .filter(|(_, (cost, _))| cost.calls > 0)
            .map(|(kind, (cost, seconds))| KindStatics {
                kind,
                sums: Sums::from(cost),
                roofline_ns: roofline.map(|_| Nanos::from_seconds(seconds)),
            })
            .collect()
    }
}
