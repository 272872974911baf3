//! Models, costs and memory against independent sources, and the laws they obey.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read its data must fail"
)]

mod bad_input;
mod common_keys;
mod deepseek_ocr;
mod deepseek_ocr2;
mod encoder_decoder;
mod gated_delta;
mod memory;
mod mla;
mod properties;
mod step;
mod support;
mod truth;
