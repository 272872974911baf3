//! Direct inference: where a run goes on, and what its predictions become.

use std::path::Path;

use llmprof_capture::session::Feed;
use llmprof_record::{
    plan::Plan,
    predictions::DirectRequest,
    store::{RunDir, RunStatus, StoreError, StoredRun},
};

use crate::{clock, failure::Failure};

/// The directory of a run. One that direct inference did not finish is taken up where it ended, if the same is asked for.
pub(super) fn directory(dir: &Path, plan: &Plan, feed: Option<&Feed>) -> Result<RunDir, Failure> {
    let refused = |error: &StoreError| Failure::directory(error, "hydra.run.dir=DIR");
    let create =
        || RunDir::create(dir, clock::now(), crate::VERSION).map_err(|error| refused(&error));
    let Some(feed) = feed.filter(|_| plan.pipeline.direct_inference.enable) else {
        return create();
    };
    let asked = DirectRequest::new(plan, feed.samples());
    let unfinished =
        StoredRun::open(dir).is_ok_and(|run| run.manifest.status != RunStatus::Complete);
    let earlier = if unfinished {
        DirectRequest::load(dir)?
    } else {
        None
    };
    let store = match earlier {
        None => create()?,
        Some(earlier) => {
            let differences = earlier.differences(&asked);
            if !differences.is_empty() {
                let message = format!(
                    "{} holds direct inference of another request: {} differ",
                    dir.display(),
                    differences.join(", ")
                );
                let hint = "hydra.run.dir=DIR with another directory starts anew";
                return Err(Failure::new(message).hint(hint.to_owned()));
            }
            RunDir::reopen(dir, crate::VERSION).map_err(|error| refused(&error))?
        }
    };
    let (name, text) = asked.file();
    store.write(name, text)?;
    Ok(store)
}
