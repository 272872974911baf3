//! Tests of the analysis, linked once.

mod altered;
mod compare_trials;
mod copies;
mod cuda_graph;
mod doubtful;
mod faults;
mod golden;
mod graph_sources;
mod h200;
mod host_memory;
mod job;
mod kernel_classes;
mod named_models;
mod no_sentences;
mod occupancy;
mod programs;
mod public;
mod ranks;
mod record;
mod recordings;
mod slices;
mod stage2;
mod steps;
mod synthesized;
mod traced;
mod waterfall;
