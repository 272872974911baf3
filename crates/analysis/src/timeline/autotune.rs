//! Kernels that a compiler ran to choose among them.
//!
//! XLA's autotuner runs each candidate a few times and then checks the memory around its results (`redzone_checker_kernel`). What runs
//! between checks that follow each other closely, and as much before the first, is autotuning: work of compilation, and no step.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::row_order::sort_ascending;
use crate::timeline::intervals::add_saturating;

/// Kernels between two checks of one tuning. XLA runs a candidate twice, to warm up and to time it
/// (`AutotunerCompileUtil::ProfileExecutable`), and compares the result with a kernel; a candidate with split-K is a GEMM and a
/// reduction, and each of its buffers is filled by one: about eight. A step of a model has a kernel or more for each of its layers.
const CHECK_GAP_MAX_KERNELS: usize = 16;

/// Rows of kernels that were tried out, in order. Streams are looked at one by one: others may compute meanwhile.
pub(crate) fn tuned_kernels(trace: &Trace) -> Vec<u32> {
    let kernels = &trace.kernels;
    let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut is_check = |row: u32| {
        let name = kernels.name[row as usize];
        *known
            .entry(name)
            .or_insert_with(|| classify(trace.text(name)).category == Category::Autotune)
    };
    let all = 0..kernels.len() as u32;
    if !all.clone().any(&mut is_check) {
        return Vec::new();
    }
    let mut streams: FxHashMap<(u32, u32, u32), Vec<u32>> = FxHashMap::default();
    for row in all {
        let at = row as usize;
        let stream = (kernels.device[at], kernels.context[at], kernels.stream[at]);
        streams.entry(stream).or_default().push(row);
    }
    let mut tuned = Vec::new();
    for rows in streams.values_mut() {
        sort_ascending(rows, |&row| kernels.start[row as usize]);
        let checks: Vec<usize> = (0..rows.len()).filter(|&at| is_check(rows[at])).collect();
        let near = |a: &usize, b: &usize| b - a <= CHECK_GAP_MAX_KERNELS;
        let mut until = 0;
        for group in checks.chunk_by(near) {
            let (first, last) = (group[0], group[group.len() - 1]);
            let widest = group.windows(2).map(|pair| pair[1] - pair[0]).max();
            let begin = first.saturating_sub(widest.unwrap_or(1) - 1).max(until);
            until = last + 1;
            tuned.extend_from_slice(&rows[begin..until]);
        }
    }
    tuned.sort_unstable();
    tuned
}

/// How many kernels were tried out, and for how long.
pub(crate) fn tuning_issue(trace: &Trace) -> Option<Issue> {
    let tried = tuned_kernels(trace);
    let mut time = 0_i64;
    for &row in &tried {
        add_saturating(&mut time, trace.kernels.duration[row as usize]);
    }
    (!tried.is_empty()).then(|| {
        Issue::info(IssueCode::AnalysisAutotuning)
            .with("kernels", tried.len())
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
        assert!(tuned_kernels(&trace).into_iter().eq(40..48));
        let expected = Issue::info(IssueCode::AnalysisAutotuning);
        let expected = expected.with("kernels", 8).with("time_ns", 80);
        assert_eq!(tuning_issue(&trace), Some(expected));
    }

    #[test]
    fn a_program_without_checks_tunes_nothing() {
        let trace = trace(&["gemm_a", "gemm_b"]);
        assert!(tuned_kernels(&trace).is_empty());
        assert_eq!(tuning_issue(&trace), None);
    }

    #[test]
    fn another_stream_computes_meanwhile() {
        let mut builder = TraceBuilder::default();
        for (number, name) in ["gemm_a", "redzone_checker_kernel", "redzone_checker_kernel"]
            .into_iter()
            .enumerate()
        {
            let tried = builder.intern(name);
            let other = builder.intern("gemm_of_a_step");
            for (stream, name) in [(1, tried), (2, other)] {
                builder.kernels.push(Kernel {
                    start: 20 * number as i64,
                    duration: 10,
                    stream,
                    name,
                    ..Kernel::default()
                });
            }
        }
        let trace = builder.finish();
        let tried = tuned_kernels(&trace);
        assert_eq!(tried.len(), 2);
        assert!(
            tried
                .iter()
                .all(|&row| trace.kernels.stream[row as usize] == 1)
        );
    }
}
