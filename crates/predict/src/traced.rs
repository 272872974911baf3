//! Predictions for models that no family describes, from kernels that were traced.

use llmprof_units::{Bytes, DType, Flops, Nanos};

use super::{
    Calibration, EfficiencyProfile, Implementation, KernelClock, PhasePrediction, PredictError,
    PredictedPhases, Prediction, kernel_clock,
    phase::{DeviceTime, EfficiencyClock, KernelLaunch, Needed},
};
use llmprof_theory::{
    MemoryFit, Workload,
    device::{Device, Engine},
    kernels::{TracedModel, TracedStep},
    roofline::{MemoryLevel, Roof},
};

/// What a traced model takes. The trace is of `workload`: its prompt, and three decode steps (the first, the middle and the last)
/// where it has any.
pub fn predict_traced(
    traced: &TracedModel,
    device: &Device,
    profile: &EfficiencyProfile,
    workload: &Workload,
) -> Result<Prediction, PredictError> {
    let (clock, calibration) = kernel_clock(device, profile);
    let eager = profile.implementation == Some(Implementation::HfEager);
    let Some(kernels) = clock.filter(|_| eager) else {
        return Err(PredictError::NeedsKernels);
    };
    let clock = EfficiencyClock::new(Roof::new(device), profile);
    let fixed = (traced.weight_bytes.0 + traced.cache_bytes.0) as f64;
    let sum = |step: &TracedStep| sum_kernels(&kernels, step);
    let prefill = predict_phase(
        &clock,
        &sum(&traced.prefill),
        traced.prefill.matrix_flops(),
        traced.weight_bytes.0 as f64,
    );
    let first = traced.decode.first().unwrap_or(&traced.prefill);
    let decode_step = predict_phase(&clock, &sum(first), first.matrix_flops(), fixed);
    let steps = workload.decode_steps();
    let decode = (steps > 0).then(|| {
        let mut all = DeviceTime::default();
        let mut flops = 0.0;
        // As Simpson's rule weighs the first, the middle and the last.
        let weights = [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0];
        for (index, weight) in weights.into_iter().enumerate() {
            let step = traced.decode.get(index).unwrap_or(first);
            all.add_times(&sum(step), weight * steps as f64);
            flops += step.matrix_flops() * weight * steps as f64;
        }
        predict_phase(&clock, &all, flops, fixed * steps as f64)
    });
    let bands = profile.spreads.as_ref().and_then(|spreads| {
        let is_known = calibration == Calibration::Measured
            && spreads.holds_for(workload.batch, workload.prompt);
        let phases = spreads.traced.filter(|_| is_known)?;
        Some(spreads.bands_of(phases, false))
    });
    let phases = PredictedPhases {
        vision: None,
        encoder: None,
        prefill,
        decode_step,
        decode,
        calibration,
        bands,
        memory: check_fit(traced, device),
    };
    Ok(phases.into_prediction(workload))
}

/// The contexts that a trace needs for such a workload: those that decode steps find cached, first, middle and last.
pub fn traced_contexts(workload: &Workload) -> Vec<u64> {
    let prompt = (workload.cached + workload.prompt).max(1);
    match workload.decode_steps() {
        0 | 1 => vec![prompt],
        steps => vec![prompt, prompt + (steps - 1) / 2, prompt + steps - 1],
    }
}

fn sum_kernels(clock: &KernelClock, step: &TracedStep) -> DeviceTime {
    let mut sum = DeviceTime::default();
    for one in &step.kernels {
        sum.add_kernel(
            &clock.time_kernel(&one.kernel),
            (one.launches as f64, 1.0),
            one.kernel.min_traffic_bytes(),
        );
    }
    sum
}

fn predict_phase(
    clock: &EfficiencyClock<'_>,
    sum: &DeviceTime,
    flops: f64,
    min_dram_bytes: f64,
) -> PhasePrediction {
    let rate = clock.roof.seconds_per_flop(DType::Bf16, Engine::Tensor);
    let roofline = (flops * rate.unwrap_or(0.0))
        .max(min_dram_bytes * clock.roof.seconds_per_byte(MemoryLevel::Main));
    let needed = Needed {
        roofline_ns: Nanos::from_seconds(roofline),
        flops: Flops(flops as u64),
        min_dram_bytes: Bytes(min_dram_bytes as u64),
    };
    sum.build_prediction(
        clock,
        1.0,
        (KernelLaunch::Kernels { step_us: 0.0 }, 1),
        needed,
    )
}

fn check_fit(traced: &TracedModel, device: &Device) -> MemoryFit {
    let needed = Bytes(traced.weight_bytes.0 + traced.cache_bytes.0);
    let capacity = device
        .memory
        .capacity_bytes
        .as_ref()
        .map(|figure| figure.value);
    MemoryFit {
        weights_bytes: traced.weight_bytes,
        kv_bytes: traced.cache_bytes,
        needed_bytes: needed,
        capacity_bytes: capacity,
        fits: capacity.map(|capacity| needed <= capacity),
    }
}
