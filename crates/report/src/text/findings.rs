//! Findings: conclusion, gain, knob, evidence.

use llmprof_units::{Bytes, BytesPerSecond, FlopsPerSecond, Percent, Times, significant};

use super::time;
use crate::analyzed::{Confidence, Evidence, Finding, GainOf};

/// Gains below this factor are not printed as a figure.
const NOTICED: f64 = 1.005;

/// The conclusion in one sentence.
pub fn finding(finding: &Finding) -> String {
    finding.title.clone()
}

/// What the change would bring; nothing where no gain can be computed.
pub fn gain(finding: &Finding) -> Option<String> {
    let gain = finding.gain.as_ref()?;
    let of = match gain.of {
        GainOf::Run => "run",
        GainOf::Throughput => "throughput",
        GainOf::FirstRequest => "first request",
    };
    let is_bound =
        gain.is_bound || (gain.of == GainOf::Run && finding.confidence == Confidence::Low);
    let label = if is_bound {
        "Upper bound"
    } else {
        "Expected speedup"
    };
    if gain.factor < NOTICED {
        return Some(format!("{label}: {of} below 1.01×."));
    }
    Some(format!("{label}: {of} {}.", Times(gain.factor)))
}

/// What ran the model: a knob is something that the runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Native,
    PyTorchOnCpu,
    Gpu,
}

/// What to change, where the conclusion does not say so itself.
pub fn knob(finding: &Finding, runtime: Runtime) -> Option<&'static str> {
    finding.gain.as_ref()?;
    let (code, of) = match finding.code.split_once('.') {
        Some((code, of)) => (code, of),
        None => (finding.code.as_str(), ""),
    };
    Some(match (code, of, runtime) {
        ("batching", ..) => "Knob: `runtime.batch_size`.",
        ("quantize_weights", _, Runtime::Gpu) => "Knob: int8 weights.",
        ("inefficiency", "attention", Runtime::Gpu) => {
            "Knob: another attention backend (FlashAttention, cuDNN, FlashInfer)."
        }
        ("inefficiency", "linear" | "experts" | "products", Runtime::Gpu) => {
            "Knob: larger batches, or tuned GEMM kernels (torch.compile max-autotune)."
        }
        ("inefficiency", _, Runtime::Gpu | Runtime::PyTorchOnCpu) => {
            "Knob: fuse them with their neighbours (torch.compile)."
        }
        ("extra", _, Runtime::Gpu | Runtime::PyTorchOnCpu) => {
            "Knob: torch.compile; avoid casts, concatenations and copies."
        }
        ("copies", _, Runtime::Gpu) => {
            "Knob: keep data on the GPU; copy from pinned memory asynchronously."
        }
        // The stored sentences of the others name what to change.
        _ => return None,
    })
}

/// `share of wall time: 73.0 % (measured)`.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    let value = figure(evidence);
    format!("{}: {value} ({})", evidence.what, evidence.basis)
}

/// The number of an evidence with its unit.
pub(crate) fn figure(evidence: &Evidence) -> String {
    let value = evidence.value;
    match evidence.unit.as_str() {
        "1" => Percent(value).to_string(),
        "×" => Times(value).to_string(),
        "ns" => time(value),
        "B" => Bytes(value as u64).to_string(),
        "B/s" => BytesPerSecond(value).to_string(),
        "FLOP/s" => FlopsPerSecond(value).to_string(),
        // A count of things, which one of is no plural.
        unit => match unit.strip_suffix('s').filter(|_| value == 1.0) {
            Some(one) => format!("1 {one}"),
            None => format!("{} {unit}", significant(value)),
        },
    }
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::findings::Gain;

    use super::*;

    fn sample(code: &str, factor: f64, is_bound: bool, confidence: Confidence) -> Finding {
        Finding {
            code: code.to_owned(),
            phase: None,
            title: "it idles".to_owned(),
            evidence: Vec::new(),
            gain: Some(Gain {
                of: GainOf::Run,
                factor,
                phase_factor: None,
                saved_ns: None,
                derivation: String::new(),
                is_bound,
            }),
            confidence,
            abstains: None,
        }
    }

    /// What a title calls "up to" is no expectation, however sure the time is that would go.
    #[test]
    fn a_bound_is_called_one() {
        let line = |is_bound, confidence| gain(&sample("idle", 2.65, is_bound, confidence));
        let most = Some("Upper bound: run 2.65×.".to_owned());
        assert_eq!(line(true, Confidence::High), most);
        assert_eq!(line(false, Confidence::Low), most);
        let expected = Some("Expected speedup: run 2.65×.".to_owned());
        assert_eq!(line(false, Confidence::Medium), expected);
        let small = gain(&sample("idle", 1.001, true, Confidence::High));
        assert_eq!(small.as_deref(), Some("Upper bound: run below 1.01×."));
    }

    #[test]
    fn knobs_follow_codes() {
        let of = |code: &str| knob(&sample(code, 2.0, true, Confidence::Low), Runtime::Gpu);
        assert_eq!(of("batching"), Some("Knob: `runtime.batch_size`."));
        assert!(of("inefficiency.attention").is_some_and(|knob| knob.contains("attention")));
        assert_ne!(of("inefficiency.attention"), of("inefficiency.linear"));
        assert_eq!(of("something_new"), None);
        let mut without = sample("batching", 2.0, true, Confidence::Low);
        without.gain = None;
        assert_eq!(knob(&without, Runtime::Gpu), None);
        let attention = sample("inefficiency.attention", 2.0, true, Confidence::Low);
        assert_eq!(knob(&attention, Runtime::Native), None, "there is no other");
    }
}
