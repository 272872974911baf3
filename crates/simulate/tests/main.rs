//! Tests of simulations, linked once.

mod by_hand;
mod closed_forms;
mod disaggregated;
mod plan;
mod reference;
mod shift;
mod silicon;
