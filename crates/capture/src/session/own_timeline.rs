//! The timeline of stage 2 by our own CUPTI library, where Nsight Systems is off, missing or failed.

use llmprof_record::{run::RunRecord, trace::Trace};

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
        cupti::run_stage(session, launch, request, record)?;
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
    let begin = begin.unwrap_or(i64::MIN);
    Ok(Some(recorded.trace.launched_when(|at| at >= begin)))
}
