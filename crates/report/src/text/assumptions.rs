//! What derived numbers rest on.

use llmprof_units::Times;

use super::slices;
use crate::analyzed::Assumption;

pub fn assumption(assumption: &Assumption) -> String {
    match assumption {
        Assumption::MultiplyAdd => "A multiply-add is two FLOPs.".to_owned(),
        Assumption::Latency => {
            "TTFT = first token − request start; TPOT = (last token − first token) ÷ (output tokens − 1); ITL is the list of gaps."
                .to_owned()
        }
        Assumption::Intervals => {
            "Intervals are of the mean over passes, 95 %, Student's t; percentiles are interpolated linearly.".to_owned()
        }
        Assumption::Mfu => {
            "MFU = Σ over dtypes of (model FLOPs ÷ peak FLOP/s) ÷ wall time; model FLOPs are the GEMMs that the model needs."
                .to_owned()
        }
        Assumption::Mbu => {
            "MBU = (weight bytes + KV bytes read and written) ÷ (wall time × peak DRAM bandwidth).".to_owned()
        }
        Assumption::Device { name, title, basis } => {
            format!("Peaks and bandwidths are those of `{name}` ({title}, {basis}).")
        }
        Assumption::Roofline => {
            "The roofline time of an operator is the larger of FLOPs ÷ peak of the pipe that runs them and minimum DRAM traffic ÷ \
             bandwidth. Minimum DRAM traffic is weights, KV cache and the model's inputs and outputs; activations between operators \
             do not count."
                .to_owned()
        }
        Assumption::UniformRouting => {
            "Experts are taken to be chosen uniformly and independently by each token, since the trace does not say which were chosen. \
             Tokens that choose alike reach fewer experts and read fewer bytes: roofline times and MBU of phases with experts are upper bounds."
                .to_owned()
        }
        Assumption::ComputeDtype {
            dtype,
            peak_flops_per_s,
            stored_dtype,
            stored_peak_flops_per_s,
        } => format!(
            "GEMMs run in {dtype}: roofline times and MFU use its peak, {peak_flops_per_s}. static_compute.md uses the peak of \
             {stored_dtype}, in which the weights are stored: {stored_peak_flops_per_s}."
        ),
        Assumption::MeasuredPeaks { at } => {
            format!("The peaks of this CPU were calibrated at {at}; `llmprof hardware measure` calibrates again.")
        }
        Assumption::Worker {
            model_class,
            versions,
            options,
        } => format!(
            "{model_class} ran on {}: {}.",
            pairs(versions, " and "),
            pairs(options, ", ")
        ),
        Assumption::ProfilingOverhead {
            phases,
            plain_passes,
        } => {
            let phases: Vec<String> = phases
                .iter()
                .map(|phase| format!("{} {}", phase.phase, Times(phase.ratio)))
                .collect();
            let plain = match plain_passes {
                1 => "the plain pass".to_owned(),
                passes => format!("mean of {passes} plain passes"),
            };
            format!(
                "Operators and shapes are from a separate torch.profiler pass. Its wall time ÷ {plain}, for the same work: {}.",
                phases.join(", ")
            )
        }
        Assumption::ProfiledTimes { on_host: true, .. } => {
            "Times include the profiler's overhead, since no pass ran without it: programs of short ops are slowed most.".to_owned()
        }
        Assumption::ProfiledTimes { tool, .. } => format!(
            "Times include the profiler's overhead, since no pass ran without it. {}; where a GPU is the limit, it is slowed by a few percent.",
            slowed_by(tool.as_deref())
        ),
        Assumption::BetweenSlices { phases } => {
            let phases: Vec<String> = phases
                .iter()
                .map(|phase| slices::between(&phase.phase, &phase.steps))
                .collect();
            format!(
                "Profiling overhead is measured with the steps between slices: {}. Idle, MFU, MBU and speedups use the time without \
                 profiler; the waterfall is of the recorded time.",
                phases.join("; ")
            )
        }
    }
}

/// By how much a tool slows a program, by the table of docs/record.md. Programs of many short kernels are slowed most.
fn slowed_by(tool: Option<&str>) -> String {
    let measured = |tool: &str, factor: &str| {
        format!(
            "{tool} slowed a program of short kernels (Qwen2.5-0.5B, eager, batch 1) {factor} on an H200 (docs/record.md)"
        )
    };
    match tool {
        Some("kineto") => measured("torch.profiler", "1.4× to 1.9×"),
        Some("nsys") => measured("Nsight Systems", "1.9×"),
        Some("llmprof") => format!("{}, less with --overhead", slices::RECORDING_SLOWS),
        _ => "Profilers slow programs of short kernels most".to_owned(),
    }
}

fn pairs(pairs: &[(String, String)], between: &str) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    pairs.join(between)
}
