//! What a workload would take on a device, run in a stated way.
//!
//! The time of an operator is its work at the device's limits, divided by the efficiency of its kind, plus a fixed time
//! for each kernel it takes. Bytes include activations, as often as the kernels of that way of running move them. The
//! efficiencies are data ([`EfficiencyProfile`]) with a basis each; the result is a prediction, says what it rests on, and
//! comes with its error where one is known ([`KnownError`]).

pub mod calibrate;
mod corrected;
mod curves;
mod eager;
mod efficiency;
mod errors;
mod from_run;
mod fused;
mod grid;
mod interval;
mod kernel_clock;
mod kernel_factors;
mod lowering;
mod memory;
pub mod parallel;
mod phase;
mod predict_error;
mod routing;
mod sequences;
mod sourced;
mod target;
mod traced;

use std::cell::{Cell, RefCell};

use llmprof_units::{Basis, DType, Nanos};
use rustc_hash::FxHashMap;
use serde::Serialize;

pub use curves::{KernelClock, KernelCurves, KernelTime, MeasuredCell};
pub use efficiency::{
    EfficiencyProfile, GraphTimes, Implementation, KindEfficiency, ProfileError, ProfileFigure,
};
pub use errors::KnownError;
pub use from_run::{Corrections, Factors, MeasuredRun, MeasuredStep};
pub use grid::{Grid, GridModel, GridPoint};
use interval::Bands;
pub use interval::{Calibration, PhaseSpreads, PredictionInterval, RatioSpread, Spreads};
pub use memory::{EngineLimits, EngineMemory};
pub use phase::{PhasePrediction, StepTime};
pub use predict_error::PredictError;
pub use target::{Need, PredictionTarget};
pub use traced::{predict_traced, traced_contexts};

use curves::TableNeeds;
use kernel_clock::kernel_clock;
use llmprof_theory::{
    COMMON_KEYS, MemoryFit, Model, Operator, Pass, Precision, Routing, Step, WeightFormat,
    Workload,
    device::{Device, DeviceKind, Engine, MissingPeak},
    kernels::{Kernel, Stored},
    parallel::Parallel,
    roofline::{PhaseRoofline, Roof},
};
use lowering::KernelSelection;
use phase::{DeviceTime, EfficiencyClock, KernelLaunch, kernel_width};
use sequences::{SequenceGroup, StepSequences};

/// What a workload is predicted to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Always `predicted`: the times are computed, not measured.
    pub basis: Basis,
    /// Image towers; absent without images.
    pub vision: Option<PhasePrediction>,
    /// The encoder; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<PhasePrediction>,
    /// All passes over the prompt.
    pub prefill: PhasePrediction,
    /// The decode step that makes the second token: the shortest context of all of them.
    pub decode_step: PhasePrediction,
    /// All decode steps; absent where prefill gives the only token.
    pub decode: Option<PhasePrediction>,
    /// Time to the first token: vision, encoder and prefill, with the host's time where that is longer than the device's.
    pub ttft_ns: Nanos,
    /// 90 % interval of it; absent where nothing measured is near.
    pub ttft_interval: Option<PredictionInterval>,
    /// Time per output token after the first: decode ÷ its steps. Absent without decode steps.
    pub tpot_ns: Option<Nanos>,
    pub tpot_interval: Option<PredictionInterval>,
    /// GPU time of the passes over the prompt.
    pub prefill_gpu_ns: Nanos,
    pub prefill_gpu_interval: Option<PredictionInterval>,
    /// GPU time of the first decode step.
    pub decode_step_gpu_ns: Nanos,
    pub decode_step_gpu_interval: Option<PredictionInterval>,
    /// What the GPU times rest on.
    pub calibration: Calibration,
    /// Vision, encoder, prefill and decode.
    pub total_ns: Nanos,
    /// Generated tokens of all sequences ÷ total time.
    pub tokens_per_s: f64,
    /// Generated tokens of all sequences ÷ decode time, first tokens not counted. Absent without decode steps.
    pub decode_tokens_per_s: Option<f64>,
    /// Whether weights and KV cache fit.
    pub memory: MemoryFit,
}

/// Predicts workloads of one model on one device in one way of running.
#[derive(Clone, Debug)]
pub struct Predictor<'a> {
    model: &'a Model,
    clock: EfficiencyClock<'a>,
    /// Bytes of the weights in the formats last asked for: summing them takes longer than a prediction.
    weights: Cell<Option<(Precision, u64)>>,
    /// Activation bytes of a full engine step, with the formats and the layout that they were last computed for.
    activations: Cell<Option<(Precision, Parallel, u64)>>,
    /// Whether the software divides memory as serving engines do.
    is_engine: bool,
    /// Where the kernels of the software are known and the device is a GPU.
    kernels: Option<(Implementation, KernelClock)>,
    graph: Option<GraphTimes>,
    /// Whether the software runs kernels for the model that only a trace shows.
    needs_trace: bool,
    /// The one format that the software computes in.
    computes: Option<DType>,
    /// Steps whose kernels were costed: points of a grid share many.
    steps: RefCell<FxHashMap<(Precision, [u64; 8]), DeviceTime>>,
    /// The kernels of the last step of prefill and of decode, in order, with their times: the next step of the kind has most of them again,
    /// since little depends on the context.
    last: [RefCell<Vec<(Kernel, KernelTime)>>; 2],
    /// Memo of the last prefill and first decode step; used again where only `new_tokens` differs.
    before: Cell<Option<(Workload, [PhasePrediction; 2])>>,
    calibration: Calibration,
    spreads: Option<Spreads>,
    /// Of a measured run that predictions start from.
    corrections: Option<Corrections>,
}

/// The phases of a workload, from which the times of its requests follow.
struct PredictedPhases {
    vision: Option<PhasePrediction>,
    encoder: Option<PhasePrediction>,
    prefill: PhasePrediction,
    /// The first decode step.
    decode_step: PhasePrediction,
    /// All decode steps; absent where only one token is generated.
    decode: Option<PhasePrediction>,
    calibration: Calibration,
    bands: Option<Bands>,
    memory: MemoryFit,
}

impl PredictedPhases {
    fn into_prediction(self, workload: &Workload) -> Prediction {
        let Self {
            vision,
            encoder,
            prefill,
            decode_step,
            decode,
            calibration,
            bands,
            memory,
        } = self;
        let decode_time = decode.map_or(Nanos(0), |phase| phase.time_ns);
        let before = [vision, encoder].into_iter().flatten();
        let ttft_ns = before.fold(prefill.time_ns, |sum, phase| sum + phase.time_ns);
        let total_ns = ttft_ns + decode_time;
        let steps = workload.decode_steps();
        let rate = |tokens: u64, time: Nanos| {
            tokens as f64 * workload.batch as f64 / time.seconds().max(1e-9)
        };
        let tpot_ns =
            (steps > 0).then(|| Nanos::from_seconds(decode_time.seconds() / steps as f64));
        let seen = |time: Nanos, phase: &PhasePrediction, spread: fn(&Bands) -> RatioSpread| {
            let bands = bands.as_ref()?;
            bands.visible_interval(time, (phase.host_ns, phase.device_ns), spread(bands))
        };
        Prediction {
            basis: Basis::Predicted,
            vision,
            encoder,
            prefill,
            decode_step,
            decode,
            ttft_ns,
            // Image towers and encoders were never compared with measurements.
            ttft_interval: seen(ttft_ns, &prefill, |bands| bands.prefill)
                .filter(|_| vision.is_none() && encoder.is_none()),
            tpot_ns,
            tpot_interval: tpot_ns
                .zip(decode.as_ref())
                .and_then(|(tpot, decode)| seen(tpot, decode, |bands| bands.decode)),
            prefill_gpu_ns: prefill.device_ns,
            prefill_gpu_interval: bands
                .map(|bands| bands.prefill.interval_around(prefill.device_ns)),
            decode_step_gpu_ns: decode_step.device_ns,
            decode_step_gpu_interval: bands
                .map(|bands| bands.decode.interval_around(decode_step.device_ns)),
            calibration,
            total_ns,
            tokens_per_s: rate(workload.new_tokens, total_ns),
            decode_tokens_per_s: (steps > 0).then(|| rate(steps, decode_time)),
            memory,
        }
    }
}

/// Steps that the cache holds: about five megabytes.
const CACHED_STEPS_MAX: usize = 1 << 15;

/// Whether `llmprof hardware measure` measured the peaks: shares of the native engine refer to measured ones.
fn is_measured_cpu(device: &Device) -> bool {
    device.kind == DeviceKind::Cpu && device.calibration.is_some()
}

/// Distinct for routings that give distinct kernels.
fn routing_key(routing: Routing) -> [u64; 2] {
    match routing {
        Routing::Uniform => [0, 0],
        Routing::Measured { prefill, decode } => [prefill.to_bits(), decode.to_bits()],
    }
}

/// Cached tokens of the steps of a pass that stand for all, and how many each stands for: the first, the middle and the last, weighted as
/// Simpson's rule does, since times grow almost evenly with the context.
fn weighted_steps(pass: &Pass) -> impl Iterator<Item = (u64, f64)> {
    let (first, steps) = (pass.past, pass.steps as f64);
    let growth = pass.steps.saturating_sub(1).saturating_mul(pass.queries);
    let last = first.saturating_add(growth);
    let weights = if pass.steps <= 1 {
        [steps, 0.0, 0.0]
    } else {
        [steps / 6.0, steps * 4.0 / 6.0, steps / 6.0]
    };
    let chosen = [first, first.midpoint(last), last].into_iter().zip(weights);
    chosen.filter(|(_, weight)| *weight > 0.0)
}

impl<'a> Predictor<'a> {
    pub fn new(model: &'a Model, device: &'a Device, profile: &EfficiencyProfile) -> Self {
        let (kernels, calibration) = match model.decoder {
            // Kernels of encoders and of attention to them are not known one by one.
            Some(_) if model.encoder.is_none() => kernel_clock(device, profile),
            _ => (None, Calibration::Efficiencies),
        };
        let calibration = match calibration {
            Calibration::Efficiencies if profile.computes.is_some() && is_measured_cpu(device) => {
                Calibration::Measured
            }
            other => other,
        };
        Self {
            model,
            clock: EfficiencyClock::new(Roof::new(device), profile),
            weights: Cell::new(None),
            activations: Cell::new(None),
            is_engine: device.kind != DeviceKind::Cpu && profile.is_engine(),
            kernels: profile.implementation.zip(kernels),
            graph: profile.graph,
            needs_trace: device.kind == DeviceKind::Gpu
                && profile
                    .implementation
                    .is_some_and(|software| !lowering::knows_kernels(software, model)),
            computes: profile.computes,
            steps: RefCell::default(),
            last: Default::default(),
            before: Cell::new(None),
            calibration,
            spreads: profile.spreads,
            corrections: None,
        }
    }

    pub fn device(&self) -> &'a Device {
        self.clock.roof.device()
    }

    pub fn predict(&self, workload: &Workload) -> Result<Prediction, PredictError> {
        self.model.validate_workload(workload)?;
        if self.needs_trace {
            return Err(PredictError::NeedsTrace);
        }
        let workload = &self.in_computed_format(workload);
        let vision = (workload.images.count > 0)
            .then(|| self.predict_vision(workload))
            .transpose()?
            .flatten();
        let encoder = self.predict_encoder(workload)?;
        let [prefill, decode_step] = self.first_steps(workload)?;
        let decode = self
            .model
            .decode_pass(workload)
            .map(|pass| self.predict_phase(workload, std::iter::once(pass), self.decode_launch()))
            .transpose()?;
        let context = self.model.context_tokens(workload);
        let calibration = self.calibration_of(workload);
        let bands = self.select_bands(calibration, workload.batch, context);
        let memory = MemoryFit::for_workload(
            self.model,
            workload,
            self.device(),
            self.weight_bytes(workload),
        );
        let phases = PredictedPhases {
            vision,
            encoder,
            prefill,
            decode_step,
            decode,
            calibration,
            bands,
            memory: self.with_verdict(memory, Parallel::default(), workload)?,
        };
        Ok(phases.into_prediction(workload))
    }

    /// Says whether the memory of a rank suffices: to an engine with its usual settings, or to a program that holds weights and KV
    /// cache alone.
    fn with_verdict(
        &self,
        fit: MemoryFit,
        parallel: Parallel,
        workload: &Workload,
    ) -> Result<MemoryFit, PredictError> {
        let fits = if self.is_engine {
            let limits = EngineLimits::default();
            let activations = self.step_activations(parallel, workload, &limits)?;
            EngineMemory::new(&fit, activations, &limits).fits(fit.kv_bytes)
        } else {
            fit.capacity_bytes
                .map(|capacity| fit.needed_bytes <= capacity)
        };
        Ok(MemoryFit { fits, ..fit })
    }

    fn step_activations(
        &self,
        parallel: Parallel,
        workload: &Workload,
        limits: &EngineLimits,
    ) -> Result<u64, PredictError> {
        if let Some((precision, ranks, bytes)) = self.activations.get()
            && (precision, ranks) == (workload.precision, parallel)
        {
            return Ok(bytes);
        }
        let bytes = memory::step_activations(self.model, parallel, workload, limits)?;
        self.activations
            .set(Some((workload.precision, parallel, bytes)));
        Ok(bytes)
    }

    fn decode_launch(&self) -> KernelLaunch {
        self.graph
            .map_or(KernelLaunch::Kernels { step_us: 0.0 }, KernelLaunch::Graph)
    }

    /// Steps of few tokens are captured where the software captures more than decode.
    fn prefill_launch(&self, tokens: u64) -> KernelLaunch {
        match self.graph.filter(|graph| graph.prefill_tokens > 0) {
            Some(graph) if tokens <= graph.prefill_tokens => KernelLaunch::Graph(graph),
            graph => KernelLaunch::Kernels {
                step_us: graph.map_or(0.0, |graph| graph.step_us),
            },
        }
    }

    /// Prefill, and the first decode step.
    fn first_steps(&self, workload: &Workload) -> Result<[PhasePrediction; 2], MissingPeak> {
        let step_workload = Workload {
            new_tokens: self.cache_length(workload),
            ..*workload
        };
        if let Some((before, phases)) = self.before.get()
            && before == step_workload
        {
            return Ok(phases);
        }
        let passes: Vec<Pass> = self.model.prefill_passes(workload).collect();
        let tokens = passes.iter().map(Pass::rows).max().unwrap_or(0);
        let prefill =
            self.predict_phase(workload, passes.into_iter(), self.prefill_launch(tokens))?;
        let decode_step = self.predict_phase(
            workload,
            std::iter::once(self.model.decode_step(workload)),
            self.decode_launch(),
        )?;
        self.before
            .set(Some((step_workload, [prefill, decode_step])));
        Ok([prefill, decode_step])
    }

    /// Positions of a KV cache that has its full size from the start; 0 where it grows.
    fn cache_length(&self, workload: &Workload) -> u64 {
        let implementation = self
            .kernels
            .as_ref()
            .map(|(implementation, _)| *implementation);
        match implementation {
            Some(Implementation::HfGraph | Implementation::TorchCompile) => {
                lowering::static_cache_positions(self.model, workload)
            }
            _ => 0,
        }
    }

    /// The workload with the software's compute format, if the software supports only one ([`EfficiencyProfile`]).
    fn in_computed_format(&self, workload: &Workload) -> Workload {
        let Some(dtype) = self.computes else {
            return *workload;
        };
        Workload {
            precision: self.model.computed_in(&workload.precision, dtype),
            ..*workload
        }
    }

    /// What one step takes: any sequences with any new and cached tokens. Formats and routing are those of `workload`.
    pub fn predict_step(&self, workload: &Workload, step: &Step) -> Result<StepTime, PredictError> {
        step.validate()?;
        if self.needs_trace {
            return Err(PredictError::NeedsTrace);
        }
        let workload = &self.in_computed_format(workload);
        let device = self.device_time(workload, step)?;
        let launch = if step.prefill.is_empty() {
            self.decode_launch()
        } else {
            self.prefill_launch(step.new_tokens())
        };
        let host = self.host_factor(workload, step);
        let mut seen = device.visible_time(&self.clock, host, (launch, 1));
        let context = step
            .cached_tokens()
            .map(|cached| cached.saturating_add(step.new_tokens()) / step.sequences().max(1));
        let bands = context.and_then(|context| {
            self.select_bands(self.calibration_of(workload), step.sequences(), context)
        });
        // Steps that mix prefill and decode were never compared with measurements by themselves.
        seen.range = bands.filter(|_| !step.is_mixed()).and_then(|bands| {
            let spread = if step.prefill.is_empty() {
                bands.decode
            } else {
                bands.prefill
            };
            bands.visible_interval(seen.time_ns, (seen.host_ns, seen.device_ns), spread)
        });
        Ok(seen)
    }

    /// What the kernels of one step take on the device. Every time of steps and phases is a sum of these.
    fn device_time(&self, workload: &Workload, step: &Step) -> Result<DeviceTime, MissingPeak> {
        let sequences = StepSequences::of_step(step, workload);
        if let Some((software, clock)) = &self.kernels {
            return Ok(self.kernels_of((*software, clock), workload, &sequences));
        }
        let width = kernel_width(step.new_tokens());
        let mut device = DeviceTime::default();
        let mut missing = None;
        self.model.lower_step(workload, step, &mut |operator| {
            missing = missing.or(self.clock.missing_rate(operator));
            device.add_operator(&self.clock, operator, width);
        });
        if let Some(dtype) = missing {
            self.device().dense_peak(dtype, Engine::Tensor)?;
        }
        device.add_pass_kernels(&self.clock);
        let factors = self.correction_factors(sequences.is_decode());
        Ok(device.scaled_by(factors.map_or(1.0, |factors| factors.matrix)))
    }

    /// Host time of a step ÷ that of the profile.
    fn host_factor(&self, workload: &Workload, step: &Step) -> f64 {
        let is_decode = StepSequences::of_step(step, workload).is_decode();
        self.correction_factors(is_decode)
            .map_or(1.0, |factors| factors.host)
    }

    /// All steps of some passes.
    fn predict_phase(
        &self,
        workload: &Workload,
        passes: impl Iterator<Item = Pass> + Clone,
        launch: KernelLaunch,
    ) -> Result<PhasePrediction, MissingPeak> {
        let needed = PhaseRoofline::of_operators(&self.clock.roof, |sink| {
            for pass in passes.clone() {
                self.model.lower_pass(workload, &pass, sink);
            }
        })?;
        let mut device = DeviceTime::default();
        let mut steps = 0;
        let mut host_factor = 1.0;
        for pass in passes {
            steps += pass.steps;
            for (past, weight) in weighted_steps(&pass) {
                let step = Step::first_of(&Pass { past, ..pass });
                device.add_times(&self.device_time(workload, &step)?, weight);
                host_factor = self.host_factor(workload, &step);
            }
        }
        Ok(device.build_prediction(&self.clock, host_factor, (launch, steps), needed.into()))
    }

    /// Correction factors of a measured run for prefill or decode steps.
    fn correction_factors(&self, is_decode: bool) -> Option<Factors> {
        let corrections = self.corrections?;
        Some(if is_decode {
            corrections.decode
        } else {
            corrections.prefill
        })
    }

    /// The kernels of one step. Serving engines run sequences of different lengths in one launch: what they share and what each group of
    /// equal ones adds is costed apart, and both are remembered.
    fn kernels_of(
        &self,
        software: (Implementation, &KernelClock),
        workload: &Workload,
        sequences: &StepSequences,
    ) -> DeviceTime {
        let is_apart = sequences.groups.len() > 1 && software.0.serving_engine().is_some();
        if !is_apart {
            return self.cached_time(software, workload, sequences, KernelSelection::All);
        }
        let mut sum = self.cached_time(software, workload, sequences, KernelSelection::OverRows);
        let sides = sequences.launch_sides();
        let mut alike = StepSequences {
            groups: Vec::with_capacity(1),
            logits: 0.0,
        };
        for group in &sequences.groups {
            let side = sides[usize::from(group.is_prefill())];
            alike.groups.clear();
            alike.groups.push(SequenceGroup {
                count: side,
                ..*group
            });
            let one = self.cached_time(software, workload, &alike, KernelSelection::BySequence);
            sum.add_times(&one, group.count / side);
        }
        sum
    }

    /// Wanted kernels of a step, from the cache where its shape was seen before.
    fn cached_time(
        &self,
        software: (Implementation, &KernelClock),
        workload: &Workload,
        sequences: &StepSequences,
        wanted: KernelSelection,
    ) -> DeviceTime {
        let [routing, more] = routing_key(workload.routing);
        let shape = match (wanted, &sequences.groups[..]) {
            (KernelSelection::OverRows, _) => {
                [sequences.total_rows(), sequences.prefill_rows(), 0.0]
            }
            (_, [group]) => [group.count, group.new, group.cached],
            _ => return self.sum_kernel_times(software, workload, sequences, wanted),
        };
        let [first, second, third] = shape.map(f64::to_bits);
        let key = (
            workload.precision,
            [
                wanted as u64,
                first,
                second,
                third,
                sequences.logits.to_bits(),
                routing,
                more,
                self.cache_length(workload),
            ],
        );
        if let Some(known) = self.steps.borrow().get(&key) {
            return *known;
        }
        let sum = self.sum_kernel_times(software, workload, sequences, wanted);
        let mut steps = self.steps.borrow_mut();
        if steps.len() >= CACHED_STEPS_MAX {
            steps.clear();
        }
        steps.insert(key, sum);
        sum
    }

    fn sum_kernel_times(
        &self,
        (implementation, clock): (Implementation, &KernelClock),
        workload: &Workload,
        sequences: &StepSequences,
        wanted: KernelSelection,
    ) -> DeviceTime {
        let mut sum = DeviceTime::default();
        let is_decode = sequences.is_decode();
        let factors = self.correction_factors(is_decode);
        let mut last = self.last[usize::from(is_decode)].borrow_mut();
        let mut place = 0;
        lowering::lower_step(
            implementation,
            self.model,
            workload,
            (sequences, wanted),
            &mut |kernel, times| {
                let time = match last.get_mut(place) {
                    Some((known, time)) if known == kernel => *time,
                    Some(known) => {
                        *known = (*kernel, clock.time_kernel(kernel));
                        known.1
                    }
                    None => {
                        let time = clock.time_kernel(kernel);
                        last.push((*kernel, time));
                        time
                    }
                };
                place += 1;
                let time = match factors {
                    Some(factors) => time.scaled_by(factors.factor_of(kernel)),
                    None => time,
                };
                let launches = lowering::launches_per_kernel(implementation, kernel);
                sum.add_kernel(&time, (times, launches), kernel.min_traffic_bytes());
            },
        );
        sum
    }

    /// The kernels of a step, each with its launches and its time, in the order of launch within a layer. Empty where
    /// kernels are not costed one by one.
    pub fn list_kernels(&self, workload: &Workload, step: &Step) -> Vec<(Kernel, f64, KernelTime)> {
        let mut list = Vec::new();
        if let Some((implementation, clock)) = &self.kernels {
            lowering::lower_step(
                *implementation,
                self.model,
                workload,
                (
                    &StepSequences::of_step(step, workload),
                    KernelSelection::All,
                ),
                &mut |kernel, launches| {
                    list.push((*kernel, launches, clock.time_kernel(kernel)));
                },
            );
        }
        list
    }

    /// The cells of public tables of this device between which the time of a kernel lies; empty where there are none.
    pub fn cells_around(&self, kernel: &Kernel) -> Vec<MeasuredCell> {
        let clock = self.kernels.as_ref().map(|(_, clock)| clock);
        clock.map_or_else(Vec::new, |clock| clock.cells_around(kernel))
    }

    /// What times in the formats of a workload rest on: transformers multiplies quantized weights by kernels of optional packages, and none of them was
    /// measured; weights then count as expanded beforehand. Formats that no engine has tables of on a device take those of the H200.
    fn calibration_of(&self, workload: &Workload) -> Calibration {
        let Some((software, clock)) = &self.kernels else {
            return self.calibration;
        };
        let formats = self.model.number_formats(&workload.precision);
        let expands = !matches!(formats.weights, WeightFormat::Plain(_));
        let serves = software.serving_engine().is_some();
        if !serves && (expands || formats.kv != formats.activations) {
            return Calibration::FormatsNotMeasured;
        }
        let needs = TableNeeds {
            stored: Stored::from_format(formats.weights, formats.compute),
            has_experts: self.model.has_experts(),
            has_gated_delta: self.model.has_gated_delta(),
            cached: f64::from(formats.kv.bits()) / 8.0,
        };
        if self.calibration == Calibration::PublicTables && !clock.has_tables(&needs) {
            return Calibration::Scaled;
        }
        self.calibration
    }

    /// The spreads of a workload; `None` where nothing like it was measured.
    fn select_bands(&self, calibration: Calibration, batch: u64, context: u64) -> Option<Bands> {
        let spreads = self.spreads.as_ref()?;
        // No model with an encoder was measured.
        if self.model.encoder.is_some() || !spreads.holds_for(batch, context) {
            return None;
        }
        let phases = if self.corrections.is_some() {
            // The run was measured on this very device, whether curves were or not.
            spreads.from_run
        } else if calibration != Calibration::Measured {
            None
        } else if self.model.family == COMMON_KEYS {
            spreads.common_keys
        } else {
            Some(spreads.family)
        };
        phases.map(|phases| spreads.bands_of(phases, self.corrections.is_some()))
    }

    /// The image towers; `None` for a model without any.
    fn predict_vision(&self, workload: &Workload) -> Result<Option<PhasePrediction>, MissingPeak> {
        let lower = |sink: &mut dyn FnMut(&Operator<'a>)| self.model.lower_vision(workload, sink);
        let mut device = DeviceTime::default();
        // Towers work on hundreds of patches at once.
        lower(&mut |operator| device.add_operator(&self.clock, operator, 1.0));
        if device.kernels == 0.0 && device.bytes == 0.0 {
            return Ok(None);
        }
        self.predict_separate_phase(&device, lower).map(Some)
    }

    /// The encoder; `None` for a model without one.
    fn predict_encoder(&self, workload: &Workload) -> Result<Option<PhasePrediction>, MissingPeak> {
        if self.model.encoder.is_none() {
            return Ok(None);
        }
        let lower = |sink: &mut dyn FnMut(&Operator<'a>)| self.model.lower_encoder(workload, sink);
        let tokens = self.model.encoder_tokens(workload);
        let width = kernel_width(workload.batch.saturating_mul(tokens));
        let mut device = DeviceTime::default();
        lower(&mut |operator| device.add_operator(&self.clock, operator, width));
        device.add_pass_kernels(&self.clock);
        self.predict_separate_phase(&device, lower).map(Some)
    }

    /// A phase before the decoder's, whose kernels the host starts one by one.
    fn predict_separate_phase(
        &self,
        device: &DeviceTime,
        lower: impl FnOnce(&mut dyn FnMut(&Operator<'a>)),
    ) -> Result<PhasePrediction, MissingPeak> {
        let needed = PhaseRoofline::of_operators(&self.clock.roof, lower)?;
        Ok(device.build_prediction(
            &self.clock,
            1.0,
            (KernelLaunch::Kernels { step_us: 0.0 }, 1),
            needed.into(),
        ))
    }

    fn weight_bytes(&self, workload: &Workload) -> u64 {
        match self.weights.get() {
            Some((precision, bytes)) if precision == workload.precision => bytes,
            _ => {
                let bytes = self.model.parameter_bytes(&workload.precision);
                self.weights.set(Some((workload.precision, bytes)));
                bytes
            }
        }
    }
}
