//! Checks of a workload against a model, before anything is counted.

use crate::{
    error::WorkloadError,
    model::Model,
    vision::Vision,
    workload::{Routing, Workload},
};

/// Sequences, tokens and images beyond these are mistakes, not workloads.
const BATCH_MAX: u64 = 1 << 24;
const TOKENS_MAX: u64 = 1 << 32;
const IMAGES_MAX: u64 = 1 << 20;

impl Model {
    /// Refuses a workload that makes no sense, naming the key.
    pub fn validate_workload(&self, workload: &Workload) -> Result<(), WorkloadError> {
        let range = |field, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(WorkloadError::Invalid {
                field,
                found: value.to_string(),
                expected: format!("between {low} and {high}"),
            })
        };
        range("batch_size", workload.batch, 1, BATCH_MAX)?;
        range("prompt_tokens", workload.prompt, 0, TOKENS_MAX)?;
        range("new_tokens", workload.new_tokens, 0, TOKENS_MAX)?;
        range("cached_tokens", workload.cached, 0, TOKENS_MAX)?;
        if let Some(chunk) = workload.chunk {
            range("chunk_tokens", chunk, 1, TOKENS_MAX)?;
        }
        if let Some(dtype) = workload.precision.activations
            && !dtype.is_float()
        {
            return Err(WorkloadError::Invalid {
                field: "dtype",
                found: dtype.to_string(),
                expected: "a floating-point dtype".to_owned(),
            });
        }
        if self.encoder.is_some() {
            let cached_tokens = workload.cached;
            if cached_tokens > 0 {
                return Err(WorkloadError::Invalid {
                    field: "cached_tokens",
                    found: cached_tokens.to_string(),
                    expected: format!("0: {} keeps nothing between requests", self.family),
                });
            }
            if self.encoder_tokens(workload) == 0 {
                return Err(WorkloadError::Invalid {
                    field: "prompt_tokens",
                    found: workload.prompt.to_string(),
                    expected: "at least 1: the encoder reads it".to_owned(),
                });
            }
        }
        self.validate_images(workload)?;
        self.validate_positions(workload)?;
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
    fn validate_images(&self, workload: &Workload) -> Result<(), WorkloadError> {
        let images = &workload.images;
        for (field, count) in [
            ("images.count", images.count),
            ("images.height", images.height),
            ("images.width", images.width),
            ("images.crops_wide", images.crops_wide),
            ("images.crops_high", images.crops_high),
        ] {
            if count > IMAGES_MAX {
                return Err(WorkloadError::Invalid {
                    field,
                    found: count.to_string(),
                    expected: format!("at most {IMAGES_MAX}"),
                });
            }
        }
        match &self.vision {
            None if images.count > 0 => Err(WorkloadError::Invalid {
                field: "images.count",
                found: images.count.to_string(),
                expected: format!("0: {} takes no images", self.family),
            }),
            Some(Vision::Qwen(_))
                if images.count > 0 && (images.height == 0 || images.width == 0) =>
            {
                Err(WorkloadError::Invalid {
                    field: "images.height",
                    found: format!("{} × {}", images.height, images.width),
                    expected: "the size of the images, which this model takes as they are"
                        .to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// A table of positions ends; rotation goes on.
    fn validate_positions(&self, workload: &Workload) -> Result<(), WorkloadError> {
        let table = self.decoder.as_ref().and_then(|decoder| decoder.positions);
        let Some(table) = table else { return Ok(()) };
        let positions = table.rows - table.offset;
        let tokens = self
            .context_tokens(workload)
            .saturating_add(workload.decode_steps());
        if tokens <= positions {
            return Ok(());
        }
        Err(WorkloadError::Invalid {
            field: "prompt_tokens",
            found: format!("{tokens} tokens with what is cached and generated"),
            expected: format!("at most {positions}, the positions that the model has learned"),
        })
    }
}
