//! Predictions: what they rest on, and how far off they are known to be.

use llmprof_predict::{EfficiencyProfile, GraphTimes, Implementation, KnownError, Need};
use llmprof_units::Percent;

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

/// A range whose ends are further apart has no point value that means anything.
const POINT_SPAN_MAX: f64 = 4.0;

/// Whether a point value within a range says more than the range.
pub fn has_point([low, high]: [f64; 2]) -> bool {
    high <= POINT_SPAN_MAX * low
}

/// How a time is predicted.
pub fn basis(profile: &EfficiencyProfile) -> &'static str {
    if profile.implementation.is_some() {
        "prediction: the kernels that the software launches, each timed from curves measured on an H200"
    } else {
        "prediction: roofline time ÷ efficiency + a fixed time per kernel"
    }
}

/// `quantized` says that weights or a KV cache are in formats that the software was not measured with.
pub fn notes(profile: &EfficiencyProfile, quantized: bool) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Basis: {}, with the efficiency profile `{}` ({}).",
            basis(profile),
            profile.name,
            profile.title
        ),
        known_error(profile),
    ];
    if quantized {
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

/// The error where it was measured, and where it is not known.
fn known_error(profile: &EfficiencyProfile) -> String {
    let Some(known) = KnownError::of_profile(&profile.name) else {
        return format!("Known error: {}", profile.known_error);
    };
    let inside = known.coverage.map_or_else(String::new, |share| {
        format!(", {} of them in their 90 % range", Percent(share))
    });
    format!(
        "Known error: median {}, p90 {} on {} {} of models that nothing was fitted to (H200){inside}; {}",
        Percent(known.median),
        Percent(known.p90),
        known.times,
        known.what,
        profile.known_error
    )
}

#[cfg(test)]
mod tests {
    use llmprof_units::{BytesPerSecond, FlopsPerSecond, Nanos};

    use super::*;

    #[test]
    fn the_known_error_is_one_line() {
        for name in EfficiencyProfile::names() {
            let profile = EfficiencyProfile::embedded(name).unwrap();
            let lines = notes(&profile, false);
            let known: Vec<&String> = lines.iter().filter(|line| line.contains("error")).collect();
            assert_eq!(known.len(), 1, "{lines:?}");
            assert!(
                known[0].starts_with("Known error: ") && known[0].len() < 300,
                "{}: {}",
                known[0].len(),
                known[0]
            );
        }
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
