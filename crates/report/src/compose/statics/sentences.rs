//! Theoretical cost of a model.

use llmprof_theory::{AttentionConvention, Logits};
use llmprof_units::{Basis, Count, format_significant};

use crate::analyzed::{PhaseStatics, Statics};

pub(super) fn title(statics: &Statics) -> String {
    match &statics.device {
        Some(device) => format!("{} on {device}: theoretical cost", statics.model),
        None => format!("{}: theoretical cost", statics.model),
    }
}

/// Parameters and workload in one line.
pub(super) fn subject(statics: &Statics) -> String {
    let workload = &statics.workload;
    format!(
        "{} parameters ({}), {}, family {}. Batch {}, prompt {}, {}{}.",
        significant_count(statics.totals.parameters),
        statics.totals.parameter_bytes,
        Count(u64::from(statics.totals.layers), "layer"),
        statics.family,
        workload.batch,
        Count(workload.prompt, "token"),
        Count(workload.new_tokens, "new token"),
        match workload.cached {
            0 => String::new(),
            cached => format!(", {} cached", Count(cached, "token")),
        },
    )
}

pub(super) fn phase(name: &str, phase: &PhaseStatics) -> String {
    match name {
        "decode_step" => format!("decode step at {}", Count(phase.context_tokens, "token")),
        "decode" => "decode, all steps".to_owned(),
        other => other.to_owned(),
    }
}

/// The roofline time of each phase in a line, below one that says whose they are.
pub fn phases_summary(statics: &Statics) -> Vec<String> {
    let device = statics.device.as_deref().unwrap_or("no device");
    let title = format!("Theoretical cost of {}:", statics.model);
    let phases = statics.phases.iter().map(|(name, phase)| {
        let roofline = phase.roofline.as_ref().map(|roofline| {
            format!(
                ", roofline time {} on {device} (bound by {})",
                roofline.roofline_ns, roofline.binds
            )
        });
        format!(
            "{name:<12} {}, {} of weights{}",
            phase.sums.flops,
            phase.sums.weight_bytes,
            roofline.unwrap_or_default()
        )
    });
    std::iter::once(title).chain(phases).collect()
}

/// What memory the workload needs, and how much fits.
pub(super) fn memory(statics: &Statics) -> Vec<String> {
    let memory = &statics.memory;
    let verdict = match (memory.fits, memory.capacity_bytes) {
        (Some(true), Some(capacity)) => format!("; fits the device's {capacity}"),
        (Some(false), Some(capacity)) => format!("; does not fit the device's {capacity}"),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "Weights {}, KV cache {} after the last token, peak activations {}: {} in all{verdict}. Memory of the runtime itself is not \
         included.",
        memory.weights_bytes, memory.kv_bytes, memory.peak_activation_bytes, memory.total_bytes
    )];
    if let (Some(batch), Some(context)) = (memory.largest_batch, memory.largest_context_tokens) {
        let context = match memory.max_positions {
            Some(most) if context > most => {
                format!("memory for {context} tokens of context, the model has {most} positions")
            }
            _ => format!("longest context at this batch: {}", Count(context, "token")),
        };
        lines.push(format!(
            "Largest batch: {}; {context}.",
            Count(batch, "such request")
        ));
    }
    lines
}

/// Everything that a reader must know to recompute the numbers.
pub fn assumptions(statics: &Statics) -> Vec<String> {
    let conventions = &statics.conventions;
    let mut items = vec![
        format!(
            "A multiply-add is {} FLOPs. GEMM FLOPs and other FLOPs are counted apart.",
            conventions.flops_per_multiply_add
        ),
        match conventions.attention {
            AttentionConvention::Causal => {
                "Attention FLOPs are causal: each query attends to the keys it may see.".to_owned()
            }
            AttentionConvention::Full => {
                "Attention FLOPs are full: each query attends to every key, masked ones included.".to_owned()
            }
        },
        match conventions.logits {
            Logits::Last => "Prefill computes logits for the last position only.".to_owned(),
            Logits::All => "Prefill computes logits for every position.".to_owned(),
        },
        format!(
            "Weights are stored as {}, activations as {}, the KV cache as {}.",
            conventions.weights, conventions.activations, conventions.kv
        ),
        "Arithmetic intensity is FLOPs ÷ minimum DRAM traffic: weights, KV cache, inputs and outputs of the model. Activations \
         between operators count nothing there, since fusion and caches can keep them on chip."
            .to_owned(),
    ];
    items.push(match &statics.device {
        Some(device) => format!(
            "Roofline time on {device} is Σ over operators of max(GEMM FLOPs ÷ peak, other FLOPs ÷ peak, minimum DRAM traffic ÷ \
             bandwidth). {}",
            if statics.has_measured_peaks {
                "These peaks are what a calibration reached: a run can be faster where it was disturbed."
            } else {
                "No software can be faster."
            }
        ),
        None => {
            "No device was chosen, so there is no roofline time: set `hardware.spec` (`llmprof hardware list`)."
                .to_owned()
        }
    });
    let mut phases = statics.phases.iter();
    if phases.any(|(_, phase)| phase.sums.basis == Basis::Expected) {
        items.push(
            "Expert routing is random: expert weights are the expectation under uniform routing, E·(1−(1−k/E)^T) experts touched \
             by T tokens."
                .to_owned(),
        );
    }
    for (name, phase) in statics.phases.iter() {
        let missing = phase
            .roofline
            .as_ref()
            .map(|roofline| &roofline.vector_peaks_missing);
        if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
            let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
            items.push(format!(
                "{name}: the device file states no FP32 peak for {}; those FLOPs are not in its roofline time.",
                names.join(", ")
            ));
        }
    }
    items
}

/// `494.0 M`.
fn significant_count(count: u64) -> String {
    let (value, unit) = match count {
        0..1_000_000 => return count.to_string(),
        1_000_000..1_000_000_000 => (count as f64 / 1e6, "M"),
        1_000_000_000..1_000_000_000_000 => (count as f64 / 1e9, "B"),
        _ => (count as f64 / 1e12, "T"),
    };
    format!("{} {unit}", format_significant(value))
}
