//! Predictions: what they rest on, and how far off they are known to be.

use llmprof_predict::{
    Calibration, Corrections, EfficiencyProfile, Factors, GraphTimes, Implementation, KnownError,
    Need, PhaseSpreads, RatioSpread,
};
use llmprof_record::run::RunPhase;
use llmprof_units::{Nanos, Percent};

pub const TITLE: &str = "Predicted, not measured";

const UNQUANTIZED_KERNELS: &str = "This profile times the GEMMs of transformers in the dtype of activations: quantized weights and KV caches change memory, not time, \
                                   and such times have no intervals. `--efficiency vllm` has kernels that read quantized weights.";
const COMPILED_KERNELS: &str = "Quantized weights and KV caches were not measured with this profile: such times have no intervals. `--efficiency vllm` has measured kernels for them.";

const ENGINE_MEMORY: &str = "Memory is weights and KV cache. On GPUs, FITS counts as vLLM does: both, the activations of a step of 8,192 tokens, the sampling of 256 sequences \
                             and libraries within 90 % of the device's memory.";
const PLAIN_MEMORY: &str =
    "Memory is weights and KV cache; activations and the runtime's own memory are not included.";

pub const NO_RANGES_OVER_RANKS: &str =
    "Times over several GPUs have no ranges: errors were measured on one.";

/// What the time of a run that predictions start from is a time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// Passes without a profiler.
    Plain,
    /// The recorded time less what the profiler cost.
    WithoutProfiler,
    /// With what the profiler cost.
    Recorded,
}

/// A step of a run that predictions start from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredTime {
    pub phase: RunPhase,
    pub wall_ns: f64,
    pub source: TimeSource,
}

/// What a run that predictions start from took, and what it corrects. `run`: its directory, and the device that it is compared on.
pub fn from_run(
    (run, device): (&str, &str),
    times: &[MeasuredTime],
    corrections: &Corrections,
) -> String {
    let times: Vec<String> = times.iter().map(measured_time).collect();
    let factors = |name: &str, factors: &Factors| {
        format!(
            "{name}: GEMM and attention {:.2}, other kernels {:.2}, host {:.2}",
            factors.matrix, factors.other, factors.host
        )
    };
    format!(
        "from {run}: {}. Measured ÷ predicted on {device}: {}; {}",
        times.join(", "),
        factors("prefill", &corrections.prefill),
        factors("decode", &corrections.decode)
    )
}

fn measured_time(time: &MeasuredTime) -> String {
    let name = match time.phase {
        RunPhase::Decode => "decode step",
        phase => phase.name(),
    };
    let source = match time.source {
        TimeSource::Plain => "measured without a profiler",
        TimeSource::WithoutProfiler => "as recorded, less the profiler's cost",
        TimeSource::Recorded => "the profiler's cost included",
    };
    let wall = Nanos::from_seconds(time.wall_ns * 1e-9);
    format!("{name} {wall} ({source})")
}

/// Why a model's kernels were traced: no family reads it, or its attention is not the default.
pub fn traced(model: &str, is_unread: bool, attention: Option<&str>, transformers: &str) -> String {
    let why = match attention {
        _ if is_unread => "no family knows it; kernels traced".to_owned(),
        Some(attention) => format!("kernels with attention `{attention}` traced"),
        None => "kernels of eager mode traced".to_owned(),
    };
    format!("{model}: {why} on torch's meta device with transformers {transformers}")
}

/// What a prediction rests on where kernels could not be traced.
pub fn not_traced(model: &str, is_unread: bool, attention: Option<&str>, reason: &str) -> String {
    match attention {
        _ if is_unread => format!(
            "{model}: no family knows it; predicted by the keys that most configs share, since it was not traced: {reason}"
        ),
        Some(attention) => format!(
            "{model}: predicted with the default attention, since kernels of `{attention}` were not traced: {reason}"
        ),
        None => format!("{model}: kernels of eager mode were not traced: {reason}"),
    }
}

/// A range whose ends are further apart has no point value that means anything.
const POINT_SPAN_MAX: f64 = 4.0;

/// Whether a point value within a range says more than the range.
pub fn has_point([low, high]: [f64; 2]) -> bool {
    high <= POINT_SPAN_MAX * low
}

/// How times of a profile are predicted; `devices` says of each device what its times rest on.
pub fn basis(profile: &EfficiencyProfile, devices: &[(&str, Calibration)]) -> String {
    let mut sources: Vec<String> = Vec::new();
    for (device, calibration) in devices {
        let source = time_source(profile, device, *calibration);
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    format!("prediction: {}", sources.join("; "))
}

/// Where the times of a device's kernels come from.
fn time_source(profile: &EfficiencyProfile, device: &str, calibration: Calibration) -> String {
    let kernels = match (calibration, profile.is_engine()) {
        (Calibration::Efficiencies, _) => {
            return format!("roofline time on {device} ÷ efficiency + a fixed time per kernel");
        }
        (Calibration::Measured, _) if profile.implementation.is_none() => {
            return format!(
                "roofline time of the peaks measured on {device} ÷ efficiency + a fixed time per kernel"
            );
        }
        (Calibration::PublicTables, _) => format!("public tables of {device}"),
        (Calibration::Scaled, true) => {
            format!("public tables of another GPU or format, with the peaks of {device}")
        }
        (Calibration::Measured, _) => format!("curves measured on {device}"),
        (Calibration::FormatsNotMeasured, _) => {
            "kernel curves, quantized weights as in the format of activations".to_owned()
        }
        (Calibration::Scaled, false) => {
            format!("curves measured on an H200, with the peaks of {device}")
        }
    };
    format!("the kernels that the software launches, each timed from {kernels}")
}

/// What a reader must know of times of a profile, by device and what its times rest on.
pub fn notes(
    profile: &EfficiencyProfile,
    devices: &[(&str, Calibration)],
    is_from_run: bool,
) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Basis: {}, with the efficiency profile `{}` ({}).",
            basis(profile, devices),
            profile.name,
            profile.title
        ),
        known_error(profile, devices, is_from_run),
    ];
    notes.extend(unchecked(devices));
    let is_quantized =
        |(_, calibration): &(&str, Calibration)| *calibration == Calibration::FormatsNotMeasured;
    if devices.iter().any(is_quantized) {
        let note = match profile.implementation {
            Some(Implementation::TorchCompile) => COMPILED_KERNELS,
            _ => UNQUANTIZED_KERNELS,
        };
        notes.push(note.to_owned());
    }
    notes.push(times(profile));
    let memory = if profile.is_engine() {
        ENGINE_MEMORY
    } else {
        PLAIN_MEMORY
    };
    notes.push(memory.to_owned());
    notes
}

/// What is in TTFT and TPOT.
fn times(profile: &EfficiencyProfile) -> String {
    let launched = match profile.graph.map_or(0, |graph| graph.prefill_tokens) {
        0 => String::new(),
        captured => format!(" of more than {captured} tokens"),
    };
    let ttft = match &profile.host_us_per_kernel {
        None => "TTFT is GPU time.".to_owned(),
        Some(each) => format!(
            "TTFT{launched} includes the host's launch time where it exceeds GPU time, {} µs a kernel.",
            each.value
        ),
    };
    match profile.graph {
        None => {
            "TTFT and TPOT include the host's launch time where it exceeds GPU time.".to_owned()
        }
        Some(GraphTimes {
            step_us, gap_us, ..
        }) if step_us + gap_us == 0.0 => {
            format!("TPOT is the mean GPU time of a step. {ttft}")
        }
        Some(GraphTimes {
            step_us, gap_us, ..
        }) => format!(
            "TPOT is the mean GPU time of a step, plus {step_us} µs for launch, sampling and the way back to the host and {gap_us} µs of gap after \
             each kernel. {ttft}"
        ),
    }
}

/// What a target asks of the device, and whether the predicted time is within it.
pub fn need(need: &Need) -> String {
    let verdict = if need.met { "met" } else { "not met" };
    // A faster device does not help a host that takes longer.
    let host = (need.device_ns < need.predicted_ns).then(|| format!(", GPU {}", need.device_ns));
    format!(
        "{}, {} ({verdict}: {} predicted{})",
        need.flops_per_s,
        need.bytes_per_s,
        need.predicted_ns,
        host.unwrap_or_default()
    )
}

/// The devices on which nothing was measured to check times against.
fn unchecked(devices: &[(&str, Calibration)]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for (device, calibration) in devices {
        if *calibration == Calibration::Scaled && !names.contains(device) {
            names.push(device);
        }
    }
    let whose = if names.len() > 1 { "their" } else { "its" };
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!(
        "Times on {names} are scaled by {whose} peaks from those of another GPU and were not checked against measurements."
    ))
}

/// The times are of a sequence that the model's config does not allow.
pub(super) fn beyond_context(model: &str, tokens: u64, max_positions: u64) -> String {
    format!(
        "{model} has {max_positions} positions: {tokens} tokens of prompt, cache and output exceed its context length."
    )
}

/// The device on which errors were measured.
const GRADED_DEVICE: &str = "h200";

/// Errors of a profile's predictions on held-out models, where they are errors of these predictions.
pub(super) fn held_out(
    profile: &EfficiencyProfile,
    devices: &[(&str, Calibration)],
    is_from_run: bool,
) -> Option<&'static KnownError> {
    let is_graded = devices.iter().any(|(device, _)| *device == GRADED_DEVICE);
    KnownError::of_profile(&profile.name).filter(|_| is_graded && !is_from_run)
}

/// The error where it was measured, and where it is not known.
fn known_error(
    profile: &EfficiencyProfile,
    devices: &[(&str, Calibration)],
    is_from_run: bool,
) -> String {
    // Profiles that time kernels one by one on GPUs were compared with nothing elsewhere.
    let is_unchecked = |(_, calibration): &(&str, Calibration)| {
        profile.implementation.is_some() && *calibration == Calibration::Efficiencies
    };
    if devices.iter().all(is_unchecked)
        && let Some((device, _)) = devices.first()
    {
        return format!("Known error: none on {device}; nothing was measured with this profile.");
    }
    if is_from_run {
        return match profile.spreads.and_then(|spreads| spreads.from_run) {
            Some(PhaseSpreads { prefill, decode }) => format!(
                "Known error of GPU time, predicted from a run on the same device: 90 % of measured times are {} to {} times the predicted ones in prefill, {} \
                 to {} in decode (pairs of runs, H200).",
                prefill.low, prefill.high, decode.low, decode.high
            ),
            None => "Known error: none; predictions from a run were not checked with this profile."
                .to_owned(),
        };
    }
    let Some(known) = held_out(profile, devices, is_from_run) else {
        return format!("Known error: {}", profile.known_error);
    };
    let inside = known.coverage.map_or_else(String::new, |share| {
        format!(", {} of them in their 90 % range", Percent(share))
    });
    format!(
        "Known error of {}: median {}, p90 {} on {} times of models not fitted to (H200){inside}; {}",
        known.what.replace("GPU times", "GPU time"),
        Percent(known.median),
        Percent(known.p90),
        known.times,
        profile.known_error
    )
}

/// Why a time that the host decides has another range than that of the GPU.
pub(super) fn host_range(profile: &EfficiencyProfile) -> Option<String> {
    let RatioSpread { low, high } = profile.spreads?.host;
    Some(format!(
        "Where the host decides, time is that of the fastest host measured: others took {low} to {high} times as long, which is the range."
    ))
}

#[cfg(test)]
mod tests {
    use llmprof_units::{BytesPerSecond, FlopsPerSecond, Nanos};

    use super::*;

    #[test]
    fn the_known_error_is_one_line() {
        for name in EfficiencyProfile::names() {
            let profile = EfficiencyProfile::embedded(name).unwrap();
            let lines = notes(&profile, &[("h200", Calibration::Measured)], false);
            let known: Vec<&String> = lines.iter().filter(|line| line.contains("error")).collect();
            assert_eq!(known.len(), 1, "{lines:?}");
            assert!(
                known[0].starts_with("Known error") && known[0].len() < 300,
                "{}: {}",
                known[0].len(),
                known[0]
            );
        }
    }

    /// The error of 240 times on the H200 stood under predictions of CPUs, and under those that a run corrected.
    #[test]
    fn a_known_error_is_that_of_the_prediction() {
        let profile = EfficiencyProfile::embedded("hf_eager").unwrap();
        let said = |device, calibration, is_from_run| {
            known_error(&profile, &[(device, calibration)], is_from_run)
        };
        let graded = said("h200", Calibration::Measured, false);
        assert!(
            graded.starts_with("Known error of GPU time: median"),
            "{graded}"
        );
        let other = said("l4", Calibration::Scaled, false);
        assert!(other.starts_with("Known error: not known on GPUs other than the H200"));
        let cpu = said("this_cpu", Calibration::Efficiencies, false);
        assert!(
            cpu.starts_with("Known error: none on this_cpu") && !cpu.contains("H200"),
            "{cpu}"
        );
        let from_run = said("h200", Calibration::Measured, true);
        assert!(
            from_run.contains("predicted from a run") && !from_run.contains("median"),
            "{from_run}"
        );
    }

    #[test]
    fn the_basis_names_what_times_of_each_device_rest_on() {
        let basis = |profile: &str, devices: &[(&str, Calibration)]| {
            super::basis(&EfficiencyProfile::embedded(profile).unwrap(), devices)
        };
        let (public, scaled) = (Calibration::PublicTables, Calibration::Scaled);
        let two = basis(
            "vllm",
            &[("b200", public), ("b200", public), ("l4", scaled)],
        );
        assert!(two.contains("public tables of b200;"), "{two}");
        assert!(
            two.ends_with("another GPU or format, with the peaks of l4"),
            "{two}"
        );
        assert!(!two.contains("H200"), "{two}");
        let eager = basis("hf_eager", &[("l4", scaled)]);
        assert!(eager.ends_with("curves measured on an H200, with the peaks of l4"));
        let own = basis("hf_eager", &[("mine", Calibration::Measured)]);
        assert!(own.ends_with("curves measured on mine"), "{own}");
        let native = basis("native", &[("xeon_8480", Calibration::Efficiencies)]);
        assert!(
            native.starts_with("prediction: roofline time on xeon_8480"),
            "{native}"
        );
    }

    #[test]
    fn a_target_that_the_host_misses_names_the_time_of_the_gpu() {
        let need = |predicted_ns: i64, device_ns: i64| {
            super::need(&Need {
                target_ns: Nanos(5_000_000),
                predicted_ns: Nanos(predicted_ns),
                device_ns: Nanos(device_ns),
                met: predicted_ns <= 5_000_000,
                flops_per_s: FlopsPerSecond(335.1e12),
                bytes_per_s: BytesPerSecond(2.83e12),
            })
        };
        let rates = "335.1 TFLOP/s, 2.83 TB/s";
        assert_eq!(
            need(22_820_000, 4_100_000),
            format!("{rates} (not met: 22.82 ms predicted, GPU 4.1 ms)")
        );
        assert_eq!(
            need(22_820_000, 22_820_000),
            format!("{rates} (not met: 22.82 ms predicted)")
        );
        assert_eq!(
            need(4_000_000, 4_000_000),
            format!("{rates} (met: 4 ms predicted)")
        );
    }
}
