//! The config as the job itself reads it: every interpolation replaced by its value.

use super::compose::Composed;
use super::error::Error;
use crate::node::Node;
use crate::resolve;

impl Composed {
    /// The config of the job with its interpolations resolved; nodes keep where they were written.
    ///
    /// As in Hydra the job's config has no `hydra` key, so `${hydra:job.name}` is found and `${hydra.job.name}` is not.
    pub fn resolved_job(&self) -> Result<Node, Error> {
        let mut job = self.job_config();
        let hydra = self
            .config
            .get("hydra")
            .cloned()
            .unwrap_or_else(Node::missing);
        let context = self.host.context_with_hydra(hydra, job.clone());
        resolve::resolve_all(&mut job, &context)?;
        Ok(job)
    }
}
