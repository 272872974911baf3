//! Events as columns with interned strings, on one integer clock.
//!
//! A [`Trace`] is a handful of tables, one per kind of event, each a struct of equally long [`Column`]s. Names are ids
//! into [`Strings`], shapes and dtypes ids into [`Inputs`], threads ids into [`Threads`]. An importer fills a
//! [`TraceBuilder`]; [`TraceBuilder::finish`] sorts everything into one order that does not depend on the order of
//! events in the file it came from, so equal content gives an equal trace.

mod builder;
mod chrome;
mod column;
mod device;
mod events;
mod file;
mod ids;
mod inputs;
mod launched;
mod nest;
mod order;
mod part;
mod raw_inputs;
mod redact;
mod sections;
mod sqlite;
mod stacks;
mod strings;
mod sums;
mod sync_lanes;
mod table;
mod threads;

use llmprof_units::Nanos;
use std::collections::BTreeMap;

pub use builder::{Renumbering, TraceBuilder};
pub use column::{Column, Element};
pub use device::{AcceleratorKind, DeviceProperties};
pub use events::{
    AutogradSequence, AutogradSequences, Collective, Collectives, Copies, Copy, CopyKind,
    GraphNode, GraphNodes, Host, HostKind, Hosts, Kernel, Kernels, LaunchedKernel, LaunchedKernels,
    MemoryEvent, MemoryEvents, MemoryKind, MemoryPlace, Memset, Memsets, OperatorCall,
    OperatorCalls, Range, RangeKind, Ranges, Sync, SyncKind, Syncs,
};
pub use ids::{InputsId, StrId, ThreadId};
pub use inputs::{Argument, Inputs, Tensor};
pub use raw_inputs::RawInputs;
pub use sections::TraceFileError;
pub use sqlite::SqliteExportError;
pub use stacks::{
    Collecting, CpuState, FrameId, HostSample, HostSamples, HostWait, StackFrame, StackFrames,
};
pub use strings::{Interner, Strings};
pub use threads::{Thread, Threads};

use crate::issue::Issue;

/// What happened, on one clock. Made by an importer or loaded from a `trace.llmprof` file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub strings: Strings,
    /// Every distinct list of operator inputs.
    pub inputs: Inputs,
    pub threads: Threads,
    pub hosts: Hosts,
    pub kernels: Kernels,
    pub copies: Copies,
    /// Memory fills by a device.
    pub memsets: Memsets,
    /// Annotations, NVTX ranges, marks, the capture window.
    pub ranges: Ranges,
    pub memory: MemoryEvents,
    /// Synchronizations that the tool recorded as activities; API calls that wait are in `hosts`.
    pub syncs: Syncs,
    /// Nodes of graphs, with where they were captured.
    pub graph_nodes: GraphNodes,
    /// What operator calls computed, where the recorder knows it.
    pub operator_calls: OperatorCalls,
    /// Collectives as the framework describes them.
    pub collectives: Collectives,
    /// Operators that ran with gradients enabled.
    pub autograd_sequences: AutogradSequences,
    /// Kernels that calls launch, where the calls say so.
    pub launched_kernels: LaunchedKernels,
    /// Frames of the stacks in `host_samples`; empty where no stack was sampled.
    pub stack_frames: StackFrames,
    /// What host threads did, sampled from outside.
    pub host_samples: HostSamples,
    /// The devices, in the order of their numbers.
    pub devices: Vec<DeviceProperties>,
    /// Where the clock's 0 lies, since 1970, where the tool says so.
    pub clock_origin_ns: Option<Nanos>,
    /// How many events the importer read, those that have no row of their own (flows, names of threads) included.
    pub events_read: u64,
    /// Facts about the capture that the allow-list of an importer lets through: tool, versions, options, rank.
    /// Never environment variables, command lines, or names of users and machines.
    pub metadata: BTreeMap<String, String>,
    /// What was dropped or is doubtful.
    pub issues: Vec<Issue>,
}

impl Trace {
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// The number of autograd's next node when the operator `external` began; `None` where gradients were off.
    pub fn autograd_sequence(&self, external: u64) -> Option<u64> {
        let rows = &self.autograd_sequences;
        let row = rows.external.binary_search(&external).ok()?;
        Some(rows.sequence[row])
    }

    /// The kind that all devices of the trace have; [`AcceleratorKind::Other`] where they differ.
    pub fn accelerator(&self) -> AcceleratorKind {
        let mut kinds = self.devices.iter().map(|device| device.kind);
        let Some(first) = kinds.next() else {
            return AcceleratorKind::default();
        };
        if kinds.all(|kind| kind == first) {
            first
        } else {
            AcceleratorKind::Other
        }
    }

    /// How many rows the event tables have together.
    pub fn rows(&self) -> usize {
        self.hosts.len()
            + self.kernels.len()
            + self.copies.len()
            + self.memsets.len()
            + self.ranges.len()
            + self.memory.len()
            + self.syncs.len()
            + self.host_samples.len()
    }
}
