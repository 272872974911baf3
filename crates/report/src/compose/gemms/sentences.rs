//! GEMMs of a cuBLAS log with the times of their kernels.

use llmprof_units::{Count, FlopsPerSecond, Percent};

use crate::analyzed::GemmsAnalysis;

/// How much was joined, and by what.
pub fn basis(gemms: &GemmsAnalysis) -> String {
    let mut text = format!(
        "{} has shapes and no times, the timeline times and no shapes: {} of {} are joined in launch order ({} of their time). \
         FLOP/s is 2·m·n·k·batch ÷ time; the sum after a split K counts to its GEMM. Matrices are column-major: \
         of `x @ W.T`, m is the output features and n the rows of x. `gemms.csv` has every call.",
        gemms.log,
        gemms.joined,
        Count(gemms.kernels, "GEMM kernel"),
        Percent(gemms.covered()),
    );
    if gemms.log_calls > gemms.joined {
        let more = gemms.log_calls - gemms.joined;
        text += &format!(
            " {} of the log ran before or after the timeline, as warm-up does.",
            Count(more, "call")
        );
    }
    text
}

/// One fact beside those of the trace.
pub(crate) fn summary(gemms: &GemmsAnalysis) -> String {
    let flops: f64 = gemms.shapes.iter().map(|row| row.gemm.total_flops()).sum();
    let rate = flops / gemms.joined_ns.seconds().max(1e-9);
    format!(
        "cuBLAS ran {} of {} in {}: {}.",
        Count(gemms.joined, "GEMM"),
        Count(gemms.shapes.len() as u64, "shape"),
        gemms.joined_ns,
        FlopsPerSecond(rate)
    )
}
