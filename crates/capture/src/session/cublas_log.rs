//! Logs of cuBLAS and cuBLASLt of the pass that Nsight Systems records: shapes of GEMMs for the kernels of its timeline.

use std::path::Path;

use llmprof_record::{
    import::{self, Limits},
    issue::{Issue, IssueCode},
    plan::Plan,
    run::RunRecord,
};

use super::{Halt, Session};
use crate::process::Launch;

const FOLDER: &str = "cublas";
/// cuBLAS hands most GEMMs on to cuBLASLt, whose log is then the whole.
const LOGS: [&str; 2] = ["cublas.log", "cublaslt.log"];

/// With the variables by which the libraries log their GEMMs, where that is asked for.
pub(super) fn enable_logs(session: &Session<'_>, launch: Launch) -> Result<Launch, Halt> {
    if session.plan.pipeline.cublas_log.enable {
        let folder = session.store.path().join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(|error| {
            Halt::failed(format!("cannot create {}: {error}", folder.display()))
        })?;
    }
    Ok(with_log_variables(
        session.plan,
        launch,
        session.store.path(),
    ))
}

/// The same without making the folder, for showing what a run would start.
pub(super) fn with_log_variables(plan: &Plan, launch: Launch, run: &Path) -> Launch {
    if !plan.pipeline.cublas_log.enable {
        return launch;
    }
    let folder = run.join(FOLDER);
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    // Level 2 has the calls that launch kernels; higher ones also every call that sets a descriptor.
    launch
        .env("CUBLAS_LOGINFO_DBG", "1")
        .env("CUBLAS_LOGDEST_DBG", file(LOGS[0]))
        .env("CUBLASLT_LOG_LEVEL", "2")
        .env("CUBLASLT_LOG_FILE", file(LOGS[1]))
}

/// Adds the logs to the record. One that is absent or has no GEMM is an issue only where the other is so too.
pub(super) fn read_logs(session: &Session<'_>, record: &mut RunRecord) {
    if !session.plan.pipeline.cublas_log.enable {
        return;
    }
    record.issues.push(Issue::info(IssueCode::CublasLogSlowed));
    let folder = session.store.path().join(FOLDER);
    let mut unusable = Vec::new();
    for name in LOGS {
        let file = format!("{FOLDER}/{name}");
        let read = import::import(&folder.join(name), &Limits::default());
        match read.map(|(_, profile)| record.add_profile(&file, profile)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => unusable.push((file, error.to_string())),
            Err(error) => unusable.push((file, error.to_string())),
        }
    }
    if unusable.len() == LOGS.len() {
        let issues = unusable.into_iter().map(|(file, why)| {
            Issue::warning(IssueCode::CublasLogUnusable)
                .with("file", file)
                .with("why", why)
        });
        record.issues.extend(issues);
    }
}
