//! Tiny models against transformers and theory, and checkpoints that are wrong.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bad_weights;
mod logits;
mod quantized;
mod sequence;
mod support;
