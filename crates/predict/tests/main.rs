//! Tests of predictions, linked once.

mod eager;
mod launches;
mod memory;
mod micro;
mod native;
mod parallel;
mod physics;
mod predict;
mod serving;
mod step;
mod support;
mod traced;
