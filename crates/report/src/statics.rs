//! The static analysis as a document: `static_compute.md`, and what `llmprof model` prints.

use llmprof_analysis::statics::{PhaseStatics, Statics, Sums};
use llmprof_theory::{AttentionConvention, Logits};
use llmprof_units::{Basis, Count, Nanos, Percent, significant};

use crate::{Document, Table};

/// The whole analysis.
pub fn document(statics: &Statics) -> Document {
    let mut document = Document::new(format!("{}: what it must cost", statics.model));
    let workload = &statics.workload;
    document.paragraph(format!(
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
    ));
    document.heading("Phases");
    document.table(phases(statics));
    for (name, phase) in statics.phases.iter() {
        document.heading(format!("{} by kind of operator", phase_title(name, phase)));
        document.table(kinds(phase));
    }
    memory(&mut document, statics);
    document.heading("How this was counted");
    document.list(assumptions(statics));
    document
}

/// Everything that a reader must know to recompute the numbers.
pub fn assumptions(statics: &Statics) -> Vec<String> {
    let conventions = &statics.conventions;
    let mut items = vec![
        format!(
            "A multiply-add is {} operations. Matrix work and other arithmetic are counted apart.",
            conventions.flops_per_multiply_add
        ),
        match conventions.attention {
            AttentionConvention::Causal => {
                "Attention is counted causally: each query meets the keys it may see.".to_owned()
            }
            AttentionConvention::Full => {
                "Attention is counted in full: each query meets every key, masked ones too.".to_owned()
            }
        },
        match conventions.logits {
            Logits::Last => "Prefill computes the logits of the last position only.".to_owned(),
            Logits::All => "Prefill computes the logits of every position.".to_owned(),
        },
        format!(
            "Weights are stored as {}, activations as {}, the KV cache as {}.",
            conventions.weights, conventions.activations, conventions.kv
        ),
        "Intensity is operations per compulsory byte: weights, KV cache, the model's inputs and outputs. \
         Activations between operators count nothing there, since fusion and caches can avoid them."
            .to_owned(),
    ];
    match &statics.device {
        Some(device) => items.push(format!(
            "The floor is the least time on {device}: per operator the largest of matrix work ÷ peak, other work ÷ \
             peak and compulsory bytes ÷ bandwidth, summed. No software can be faster; real software is slower."
        )),
        None => items.push(
            "No device was chosen, so there is no floor: name one with hardware.spec (`llmprof hardware list`)."
                .to_owned(),
        ),
    }
    if statics
        .phases
        .iter()
        .any(|(_, phase)| phase.sums.basis == Basis::Expected)
    {
        items.push(
            "Which experts a token reaches is random: expert weights are an expectation under uniform routing, \
             E·(1−(1−k/E)^T) experts touched by T tokens."
                .to_owned(),
        );
    }
    for (name, phase) in statics.phases.iter() {
        if let Some(missing) = phase
            .floor
            .as_ref()
            .map(|floor| &floor.vector_peaks_missing)
            && !missing.is_empty()
        {
            let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
            items.push(format!(
                "{name}: the device states no vector rate for {}; that arithmetic is not in its floor.",
                names.join(", ")
            ));
        }
    }
    items
}

fn phases(statics: &Statics) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "FLOPs",
            "Weights",
            "KV read",
            "KV written",
            "Activations",
            "FLOP/B",
            "Floor",
            "Bound by",
        ],
        1,
    );
    for (name, phase) in statics.phases.iter() {
        let mut cells = vec![phase_title(name, phase)];
        cells.extend(sums(&phase.sums));
        cells.push(
            phase
                .floor_ns
                .map_or_else(unknown, |floor| floor.to_string()),
        );
        cells.push(
            phase
                .floor
                .as_ref()
                .map_or_else(unknown, |floor| floor.binds.to_string()),
        );
        table.row(cells);
    }
    table
}

fn kinds(phase: &PhaseStatics) -> Table {
    let mut table = Table::new(
        &[
            "Kind",
            "Calls",
            "FLOPs",
            "Weights",
            "KV read",
            "KV written",
            "Activations",
            "FLOP/B",
            "Floor",
            "Share",
        ],
        1,
    );
    let share = |floor: Option<Nanos>| {
        let (floor, whole) = (floor?, phase.floor_ns?);
        (whole.0 > 0).then(|| Percent(floor.0 as f64 / whole.0 as f64).to_string())
    };
    for kind in &phase.kinds {
        let mut cells = vec![kind.kind.to_string(), kind.sums.calls.to_string()];
        cells.extend(sums(&kind.sums));
        cells.push(
            kind.floor_ns
                .map_or_else(unknown, |floor| floor.to_string()),
        );
        cells.push(share(kind.floor_ns).unwrap_or_else(unknown));
        table.row(cells);
    }
    table
}

/// The cells that phases and kinds share.
fn sums(sums: &Sums) -> [String; 6] {
    let expected = match sums.basis {
        Basis::Expected => "≈ ",
        _ => "",
    };
    [
        sums.flops.to_string(),
        format!("{expected}{}", sums.weight_bytes),
        sums.kv_read_bytes.to_string(),
        sums.kv_write_bytes.to_string(),
        sums.activation_bytes.to_string(),
        sums.intensity.map_or_else(unknown, significant),
    ]
}

fn memory(document: &mut Document, statics: &Statics) {
    let memory = &statics.memory;
    document.heading("Memory");
    let verdict = match (memory.fits, memory.capacity_bytes) {
        (Some(true), Some(capacity)) => format!(", which fits the device's {capacity}"),
        (Some(false), Some(capacity)) => format!(", which does not fit the device's {capacity}"),
        _ => String::new(),
    };
    document.paragraph(format!(
        "Weights {}, KV cache {} after the last token, activations at their peak {}: {} in all{verdict}. The runtime's own \
         memory comes on top.",
        memory.weights_bytes, memory.kv_bytes, memory.peak_activation_bytes, memory.total_bytes
    ));
    if let (Some(batch), Some(context)) = (memory.largest_batch, memory.largest_context_tokens) {
        document.paragraph(format!(
            "At most {} fit together, or contexts of {} at this batch.",
            Count(batch, "such request"),
            Count(context, "token")
        ));
    }
}

fn phase_title(name: &str, phase: &PhaseStatics) -> String {
    match name {
        "decode_step" => format!("decode step at {}", Count(phase.context_tokens, "token")),
        "decode" => "decode, all steps".to_owned(),
        other => other.to_owned(),
    }
}

/// `494.0 M`.
fn significant_count(count: u64) -> String {
    let (value, unit) = match count {
        0..1_000_000 => return count.to_string(),
        1_000_000..1_000_000_000 => (count as f64 / 1e6, "M"),
        1_000_000_000..1_000_000_000_000 => (count as f64 / 1e9, "B"),
        _ => (count as f64 / 1e12, "T"),
    };
    format!("{} {unit}", significant(value))
}

fn unknown() -> String {
    "–".to_owned()
}
