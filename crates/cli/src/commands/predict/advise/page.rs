//! The page of advice: every sentence of it.

use llmprof_report::{Document, Table};
use llmprof_units::{Bytes, significant};

use super::{Advice, Advised, Figures, change::Code, measured::Tried};

pub(super) fn document(advised: &Advised) -> Document {
    let mut document = Document::new("Changes by predicted gain");
    document.subtitle = format!(
        "{} on {}, efficiencies `{}`",
        advised.model, advised.device, advised.efficiencies
    );
    document.summary = summary(advised);
    let mut table = Table::new(
        &[
            "SPEEDUP",
            "CHANGE",
            "OVERRIDES",
            "TTFT",
            "TPOT",
            "TOKENS/S",
            "DEVICES",
            "MEMORY EACH",
            "FITS",
            "RUN",
        ],
        3,
    );
    for advice in &advised.advice {
        table.row(cells(advice));
    }
    let section = document.section("advice", "Changes");
    section.table(table);
    section.list(notes(advised));
    document
}

fn cells(advice: &Advice) -> [String; 10] {
    let figures = &advice.figures;
    [
        speedup(advice),
        name(advice.code).to_owned(),
        advice.overrides.join(" "),
        figures.ttft_ns.to_string(),
        figures
            .tpot_ns
            .map_or("–".to_owned(), |time| time.to_string()),
        significant(figures.tokens_per_s),
        figures.devices.to_string(),
        Bytes(figures.memory_bytes).to_string(),
        fits(figures).to_owned(),
        if advice.runs { "yes" } else { "predict only" }.to_owned(),
    ]
}

/// `1.4× (1.2 to 1.6)`.
fn speedup(advice: &Advice) -> String {
    let middle = significant(advice.speedup);
    match advice.speedup_low.zip(advice.speedup_high) {
        Some((low, high)) => format!("{middle}× ({} to {})", significant(low), significant(high)),
        None => format!("{middle}×"),
    }
}

fn fits(figures: &Figures) -> &'static str {
    match figures.fits {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::CudaGraph => "CUDA graph of decode",
        Code::Fusion => "fused kernels (torch.compile)",
        Code::AttentionBackend => "attention backend",
        Code::Batch => "batch",
        Code::KvDtype => "KV cache dtype",
        Code::Weights => "weight format",
        Code::TensorParallel => "tensor parallel",
        Code::Device => "device",
        Code::KvHeads => "design: KV heads",
        Code::HeadSize => "design: head size",
        Code::Widths => "design: widths in whole tiles",
        Code::Experts => "design: experts",
    }
}

fn summary(advised: &Advised) -> Vec<String> {
    let base = &advised.request;
    let tpot = base
        .tpot_ns
        .map_or(String::new(), |time| format!(", TPOT {time}"));
    let mut lines = vec![format!(
        "Now: TTFT {}{tpot}, {} tokens/s, {} of memory a device (fits: {}).",
        base.ttft_ns,
        significant(base.tokens_per_s),
        Bytes(base.memory_bytes),
        fits(base)
    )];
    lines.push(match advised.advice.first() {
        Some(best) => format!(
            "Best: {} ({}), {}× tokens/s.",
            name(best.code),
            best.overrides.join(" "),
            significant(best.speedup)
        ),
        None => "No change gains half a percent.".to_owned(),
    });
    lines.extend(advised.tried.as_ref().map(tried));
    lines
}

fn tried(tried: &Tried) -> String {
    let measured = match (tried.measured_speedup, tried.ci_low, tried.ci_high) {
        (Some(ratio), Some(low), Some(high)) => format!(
            "{}× measured (95 % interval {} to {})",
            significant(ratio),
            significant(low),
            significant(high)
        ),
        (Some(ratio), _, _) => format!("{}× measured", significant(ratio)),
        (None, _, _) => "not measured: a run has no tokens per second".to_owned(),
    };
    format!(
        "Tried {}: {}× predicted, {measured}. Comparison: {}.",
        tried.overrides.join(" "),
        significant(tried.predicted_speedup),
        tried.comparison
    )
}

fn notes(advised: &Advised) -> Vec<String> {
    let mut lines = vec![
        "Speedup is tokens per second against the request as it is, each change by itself. A larger batch raises TPOT while it raises tokens per \
         second."
            .to_owned(),
        "Design edits keep the number of parameters within 1 %; what they do to quality is not predicted.".to_owned(),
    ];
    if advised.advice.iter().any(|advice| !advice.runs) {
        lines.push(
            "`predict only`: `llmprof run` does not accept the overrides with this runtime; `predict`, `model` and `simulate` do."
                .to_owned(),
        );
    }
    if advised.left_out > 0 {
        lines.push(format!(
            "{} more changes gain less than 0.5 %.",
            advised.left_out
        ));
    }
    lines
}
