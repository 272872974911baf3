//! The timeline of stage 2 by our own CUPTI library, where Nsight Systems is off, missing or failed.

use std::collections::HashMap;

use llmprof_record::{
    run::RunRecord,
    trace::{HostKind, Kernels, Trace},
};

use super::{Halt, Session, cupti};
use crate::{process::Launch, runner::protocol::Load};

/// Launches of the recorded batch, from its first forward pass on, as a tool sees them that begins at `cudaProfilerStart`. `None`
/// where CUDA could not be recorded, and an issue says why.
pub(super) fn record_timeline(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
) -> Result<Option<Trace>, Halt> {
    let plan = session.plan;
    if !plan.pipeline.cupti.applies(plan) {
        cupti::capture(session, launch, request, record)?;
    }
    let recorded = record
        .traces
        .iter()
        .find(|recorded| !recorded.trace.kernels.is_empty() && recorded.pass.is_some());
    let Some(recorded) = recorded else {
        return Ok(None);
    };
    let pass = recorded.pass.and_then(|pass| record.passes.get(pass));
    let begin = pass.and_then(|pass| pass.phases.iter().map(|phase| phase.start_ns.0).min());
    let mut trace = recorded.trace.clone();
    if let Some(begin) = begin {
        keep_launches(&mut trace, |at| at >= begin);
    }
    Ok(Some(trace))
}

/// The kernels that were launched inside ranges of this name.
pub(super) fn inside(trace: &Trace, range: &str) -> Trace {
    let ranges = &trace.ranges;
    let windows: Vec<(i64, i64)> = (0..ranges.len())
        .filter(|&row| trace.text(ranges.name[row]) == range)
        .map(|row| (ranges.start[row], ranges.start[row].saturating_add(ranges.duration[row])))
        .collect();
    let mut trace = trace.clone();
    keep_launches(&mut trace, |at| {
        windows.iter().any(|(start, end)| (*start..=*end).contains(&at))
    });
    trace
}

/// Keeps the kernels whose launch call, or where that is not recorded whose start, is wanted.
fn keep_launches(trace: &mut Trace, is_wanted: impl Fn(i64) -> bool) {
    let hosts = &trace.hosts;
    let mut calls: HashMap<u32, i64> = HashMap::new();
    for row in 0..hosts.len() {
        let is_call = matches!(hosts.kind[row], HostKind::RUNTIME | HostKind::DRIVER);
        if is_call && hosts.correlation[row] != 0 {
            calls.entry(hosts.correlation[row]).or_insert(hosts.start[row]);
        }
    }
    let mut kernels = Kernels::default();
    for kernel in trace.kernels.rows() {
        let launched = calls.get(&kernel.correlation).copied();
        if is_wanted(launched.unwrap_or(kernel.start)) {
            kernels.push(kernel);
        }
    }
    trace.kernels = kernels;
}
