//! Changes of a request, ranked by predicted gain.

use llmprof_units::{Bytes, Nanos, Times, format_significant};

use crate::compose::predict::sentences::has_point;

pub(super) const TITLE: &str = "Changes by predicted gain";

/// The heads of the table.
pub(super) const COLUMNS: [&str; 11] = [
    "SPEEDUP",
    "CHANGE",
    "OVERRIDES",
    "TTFT",
    "TPOT",
    "TOKENS/S",
    "DEVICES",
    "MEMORY EACH",
    "FITS",
    "MEETS TARGET",
    "RUN",
];

pub(super) fn subtitle(model: &str, device: &str, profile: &str) -> String {
    format!("{model} on {device}, efficiency profile `{profile}`")
}

/// What a change is called, by its code.
pub(super) fn change(code: &str) -> &str {
    match code {
        "cuda_graph" => "CUDA Graph of decode",
        "fusion" => "fused kernels, torch.compile",
        "attention_backend" => "attention backend",
        "batch" => "batch",
        "kv_dtype" => "KV cache dtype",
        "weights" => "weight format",
        "tensor_parallel" => "tensor parallel",
        "device" => "device",
        "kv_heads" => "design: KV heads",
        "head_size" => "design: head size",
        "widths" => "design: widths in whole tiles",
        "experts" => "design: experts",
        other => other,
    }
}

/// `4.14×`, or `4.00× (2.11× to 7.60×)` with its interval where that is wider than the digits; the interval alone where it is wide.
pub(super) fn speedup(factor: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        Some(ends) if !has_point(ends) => {
            let [low, high] = ends.map(Times);
            format!("{low} to {high}")
        }
        Some(ends)
            if ends.map(|end| Times(end).to_string())
                == [(); 2].map(|()| Times(factor).to_string()) =>
        {
            Times(factor).to_string()
        }
        Some([low, high]) => format!("{} ({} to {})", Times(factor), Times(low), Times(high)),
        None => Times(factor).to_string(),
    }
}

/// Slower times than this are a cost of a change.
const COST_FACTOR: f64 = 1.1;

/// A time, and how many times as long it is as before where that is a cost.
pub(super) fn with_cost(after: Nanos, before: Nanos) -> String {
    let factor = after.seconds() / before.seconds().max(1e-12);
    if factor < COST_FACTOR {
        return after.to_string();
    }
    format!("{after} ({} as long)", Times(factor))
}

/// The overrides of a change, and of others that are predicted to come to the same.
pub(super) fn overrides(lines: &[String], alike: &[Vec<String>]) -> String {
    let all = std::iter::once(lines).chain(alike.iter().map(Vec::as_slice));
    let all: Vec<String> = all.map(|lines| lines.join(" ")).collect();
    all.join(" or ")
}

/// Whether the targets of the user are met, in a table; nothing where there are none.
pub(super) fn meets(is_met: Option<bool>) -> &'static str {
    match is_met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    }
}

/// Whether memory suffices, in a table.
pub(super) fn fits(fits: Option<bool>) -> String {
    match fits {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => crate::text::dash(),
    }
}

/// Whether `llmprof run` accepts a change, in a table.
pub(super) fn runs(runs: bool) -> &'static str {
    if runs { "yes" } else { "predict only" }
}

/// The request as it is.
pub(super) fn now(
    ttft: Nanos,
    tpot: Option<Nanos>,
    tokens_per_s: f64,
    memory: Bytes,
    is_fitting: Option<bool>,
) -> String {
    let tpot = tpot.map_or(String::new(), |time| format!(", TPOT {time}"));
    let fits = match is_fitting {
        Some(true) => ", which fits",
        Some(false) => ", which does not fit",
        None => "",
    };
    format!(
        "Now: TTFT {ttft}{tpot}, {} tokens/s, {memory} per device{fits}.",
        format_significant(tokens_per_s)
    )
}

/// The change that gains most; none where no change gains enough.
pub(super) fn best(change: Option<(&str, &[String], f64)>) -> String {
    match change {
        Some((code, overrides, factor)) => format!(
            "Best: {} ({}), {} tokens/s.",
            self::change(code),
            overrides.join(" "),
            Times(factor)
        ),
        None => "No change gains half a percent.".to_owned(),
    }
}

/// What came of running the best change in turns with the request.
pub(super) fn tried(
    overrides: &[String],
    predicted: f64,
    measured: Option<f64>,
    interval: Option<[f64; 2]>,
    comparison: &str,
) -> String {
    let measured = match (measured, interval) {
        (Some(ratio), Some([low, high])) => format!(
            "{} measured (95 % interval {} to {})",
            Times(ratio),
            Times(low),
            Times(high)
        ),
        (Some(ratio), None) => format!("{} measured", Times(ratio)),
        (None, _) => "not measured: a run has no tokens per second".to_owned(),
    };
    format!(
        "Tried {}: {} predicted, {measured}. Comparison: {comparison}.",
        overrides.join(" "),
        Times(predicted)
    )
}

/// What the table means. Of a change that `run` refuses `refused` has the overrides and the reason.
pub(super) fn notes(has_designs: bool, refused: &[(String, &str)], left_out: usize) -> Vec<String> {
    let mut lines = vec![
        "Speedup is tokens per second ÷ those of the request, each change by itself. A larger batch may raise TPOT while it raises tokens per \
         second."
            .to_owned(),
    ];
    if has_designs {
        lines.push(
            "Design edits keep the number of parameters within 1 %; what they do to quality is not predicted."
                .to_owned(),
        );
    }
    for (overrides, why) in refused {
        // The first line says no more than that it was refused.
        let why = why.lines().last().unwrap_or_default();
        lines.push(format!(
            "`predict only`: `llmprof run` refuses {overrides}: {why}."
        ));
    }
    if left_out > 0 {
        lines.push(format!("{left_out} more changes gain less than 0.5 %."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_reason_and_its_override() {
        let refused = [(
            "runtime.cuda_graph=true".to_owned(),
            "the request cannot be run\n`runtime.cuda_graph`: a CUDA graph needs device=cuda:N",
        )];
        let lines = notes(false, &refused, 3);
        assert_eq!(
            lines[1..],
            [
                "`predict only`: `llmprof run` refuses runtime.cuda_graph=true: `runtime.cuda_graph`: a CUDA graph needs device=cuda:N.",
                "3 more changes gain less than 0.5 %."
            ]
        );
    }

    #[test]
    fn speedups_have_three_digits() {
        assert_eq!(speedup(4.0, Some([1.0, 8.0])), "1.00× to 8.00×");
        assert_eq!(speedup(4.136, None), "4.14×");
        assert_eq!(speedup(2.0, Some([1.9999, 2.0])), "2.00×");
        assert_eq!(speedup(4.0, Some([2.105, 7.6])), "4.00× (2.10× to 7.60×)");
        assert_eq!(
            tried(
                &["a=1".to_owned()],
                2.0,
                Some(1.9),
                Some([1.8, 2.0]),
                "runs/c"
            ),
            "Tried a=1: 2.00× predicted, 1.90× measured (95 % interval 1.80× to 2.00×). Comparison: runs/c."
        );
    }
}
