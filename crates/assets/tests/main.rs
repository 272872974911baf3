//! Tests of models, datasets and sources, linked once.

mod bootstrap;
mod common;
mod dataset;
mod externals;
mod pixi;
