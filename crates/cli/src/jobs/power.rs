//! The power limit of a run, set before it and restored after it.

use llmprof_capture::{
    session::Halt,
    telemetry::nvml::{PowerLimit, stand_guard},
};
use llmprof_record::{plan::Plan, store::RunDir};
use llmprof_units::Watts;

use crate::failure::Failure;

/// Sets what the plan asks for; nothing where it asks for nothing or nothing could be set, which an issue says.
pub(super) fn limit(plan: &Plan, store: &mut RunDir) -> Result<Option<PowerLimit>, Halt> {
    let Some(watts) = plan.hardware.power_limit_w else {
        return Ok(None);
    };
    let devices = plan.hardware.cuda_devices(plan.device);
    // Without a guard the limit is restored by all but `kill -9`.
    let program = std::env::current_exe().ok();
    let (limit, issues) = PowerLimit::set_limit(&devices, Watts(watts), None, program.as_ref());
    for issue in issues {
        store.add_issue(issue)?;
    }
    Ok(limit)
}

pub(super) fn restore(limit: Option<PowerLimit>, store: &mut RunDir) -> Result<(), Halt> {
    for issue in limit.map(PowerLimit::restore_limits).unwrap_or_default() {
        store.add_issue(issue)?;
    }
    Ok(())
}

/// This program as the guard of a limit.
pub(crate) fn guard(words: &[String]) -> Result<(), Failure> {
    stand_guard(words).map_err(Failure::new)
}
