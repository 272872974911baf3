//! Checks of a workload against a model, before anything is counted.

use crate::{
    error::WorkloadError,
    model::Model,
    workload::{Routing, Workload},
};

/// Sequences, tokens and images beyond these are mistakes, not workloads.
const MAX_BATCH: u64 = 1 << 24;
const MAX_TOKENS: u64 = 1 << 32;

impl Model {
    /// Refuses a workload that makes no sense, naming the key.
    pub fn validate(&self, workload: &Workload) -> Result<(), WorkloadError> {
        let range = |field, found: u64, low: u64, high: u64| {
            if (low..=high).contains(&found) {
                return Ok(());
            }
            Err(WorkloadError::Invalid {
                field,
                found: found.to_string(),
                expected: format!("between {low} and {high}"),
            })
        };
        range("batch", workload.batch, 1, MAX_BATCH)?;
        range("prompt", workload.prompt, 0, MAX_TOKENS)?;
        range("new_tokens", workload.new_tokens, 0, MAX_TOKENS)?;
        range("cached", workload.cached, 0, MAX_TOKENS)?;
        if let Some(chunk) = workload.chunk {
            range("chunk", chunk, 1, MAX_TOKENS)?;
        }
        for (field, dtype) in [
            ("precision.activations", workload.precision.activations),
            ("precision.kv", workload.precision.kv),
        ] {
            if let Some(dtype) = dtype.filter(|dtype| !dtype.is_float() && field != "precision.kv")
            {
                return Err(WorkloadError::Invalid {
                    field,
                    found: dtype.to_string(),
                    expected: "a floating-point dtype".to_owned(),
                });
            }
        }
        if let Routing::Measured { prefill, decode } = workload.routing {
            for (field, touched) in [("routing.prefill", prefill), ("routing.decode", decode)] {
                if !(touched.is_finite() && touched >= 0.0) {
                    return Err(WorkloadError::Invalid {
                        field,
                        found: touched.to_string(),
                        expected: "a number of experts".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}
