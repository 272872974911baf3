//! Kernels that a compiler ran to choose among them.
//!
//! XLA's autotuner runs each candidate a few times and then checks the memory around its results (`redzone_checker_kernel`). What runs
//! between checks that follow each other closely, and as much before the first, is autotuning: work of compilation, and no step.

use llmprof_record::issue::Issue;
use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::timeline::intervals::add;

/// Kernels between two checks of one tuning: a candidate is initialized, run and compared. Steps of a program have more.
const BETWEEN_CHECKS: usize = 16;

/// Times on the device in which kernels were tried out, in order and apart.
pub(crate) fn windows(trace: &Trace) -> Vec<(i64, i64)> {
    let kernels = &trace.kernels;
    let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut is_check = |row: usize| {
        let name = kernels.name[row];
        *known
            .entry(name)
            .or_insert_with(|| classify(trace.text(name)).category == Category::Autotune)
    };
    let mut streams: FxHashMap<(u32, u32, u32), Vec<usize>> = FxHashMap::default();
    let has_checks = (0..kernels.len()).any(&mut is_check);
    if !has_checks {
        return Vec::new();
    }
    for row in 0..kernels.len() {
        let stream = (
            kernels.device[row],
            kernels.context[row],
            kernels.stream[row],
        );
        streams.entry(stream).or_default().push(row);
    }
    let mut found: Vec<(i64, i64)> = Vec::new();
    for rows in streams.values_mut() {
        rows.sort_by_key(|&row| kernels.start[row]);
        let checks: Vec<usize> = (0..rows.len()).filter(|&at| is_check(rows[at])).collect();
        let near = |a: &usize, b: &usize| b - a <= BETWEEN_CHECKS;
        for group in checks.chunk_by(near) {
            let (first, last) = (group[0], group[group.len() - 1]);
            let widest = group.windows(2).map(|pair| pair[1] - pair[0]).max();
            let begin = first.saturating_sub(widest.unwrap_or(1) - 1);
            let end = rows[last];
            found.push((
                kernels.start[rows[begin]],
                kernels.start[end].saturating_add(kernels.duration[end]),
            ));
        }
    }
    found.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (start, end) in found {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Whether a moment lies in one of the windows.
pub(crate) fn hold(windows: &[(i64, i64)], at: i64) -> bool {
    let begun = windows.partition_point(|window| window.0 <= at);
    begun > 0 && at <= windows[begun - 1].1
}

/// How many kernels were tried out, and for how long.
pub(crate) fn issue(trace: &Trace) -> Option<Issue> {
    let windows = windows(trace);
    let kernels = &trace.kernels;
    let (mut count, mut time) = (0_u64, 0_i64);
    for row in 0..kernels.len() {
        if hold(&windows, kernels.start[row]) {
            count += 1;
            add(&mut time, kernels.duration[row]);
        }
    }
    (count > 0).then(|| {
        Issue::info("analysis.autotuning")
            .with("kernels", count)
            .with("time_ns", time)
    })
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Kernel, TraceBuilder};

    use super::*;

    /// A kernel of 10 ns each 20 ns.
    fn trace(names: &[&str]) -> Trace {
        let mut builder = TraceBuilder::default();
        for (number, name) in names.iter().enumerate() {
            let name = builder.intern(name);
            builder.kernels.push(Kernel {
                start: 20 * number as i64,
                duration: 10,
                name,
                ..Kernel::default()
            });
        }
        builder.finish()
    }

    #[test]
    fn candidates_and_their_checks_are_autotuning() {
        let check = "redzone_checker_kernel";
        let mut names = vec!["loop_add_fusion"; 40];
        names.extend([
            "gemm_a", "gemm_a", check, check, "gemm_b", "gemm_b", check, check,
        ]);
        names.extend(["loop_add_fusion"; 40]);
        let trace = trace(&names);
        // From the first candidate to the last check.
        assert_eq!(windows(&trace), [(800, 950)]);
        let expected = Issue::info("analysis.autotuning");
        let expected = expected.with("kernels", 8).with("time_ns", 80);
        assert_eq!(issue(&trace), Some(expected));
    }

    #[test]
    fn a_program_without_checks_tunes_nothing() {
        let trace = trace(&["gemm_a", "gemm_b"]);
        assert!(windows(&trace).is_empty());
        assert_eq!(issue(&trace), None);
    }
}
