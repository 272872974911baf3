//! Kernels, copies and memsets of a trace as one list: what the time of a device is made of.

use llmprof_record::kernel_name::{Category, KernelClass, Library, classify};
use llmprof_record::trace::{StrId, Trace};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name under which importers write a graph without its kernels.
pub(crate) const WHOLE_GRAPH: &str = "[CUDA graph]";

/// What a device event is counted as. Every event is in exactly one class.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A kernel that neither copies nor communicates.
    Compute,
    /// A kernel that exchanges data between devices.
    Communication,
    /// A copy; of XLA also an op that waits for one.
    Copy,
    /// A fill of memory with one value.
    Memset,
}

impl Class {
    /// All classes, in the order in which one covers another: time in which two are active belongs to the first.
    pub(crate) const ALL: [Self; 4] =
        [Self::Compute, Self::Communication, Self::Copy, Self::Memset];
}

/// Which table of the trace an event is a row of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum EventTable {
    Kernels,
    Copies,
    Memsets,
}

/// One kernel, copy or memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceEvent {
    /// ns on the clock of the trace.
    pub(crate) start: i64,
    /// When it ended, ns; not before `start`.
    pub(crate) end: i64,
    pub(crate) device: u32,
    /// The context and the stream in it.
    pub(crate) stream: (u32, u32),
    pub(crate) class: Class,
    pub(crate) table: EventTable,
    /// Index of the event in `table`.
    pub(crate) row: u32,
    pub(crate) name: StrId,
    /// The id that the launching call carries too; 0 where unknown.
    pub(crate) correlation: u32,
    /// The id of the operator that launched it; 0 where unknown.
    pub(crate) external: u64,
    /// Whether it came out of a launched graph.
    pub(crate) in_graph: bool,
}

impl DeviceEvent {
    /// How long it took, ns.
    pub(crate) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// All device events of a trace, by device, then start, then end.
pub(crate) struct DeviceEvents {
    events: Vec<DeviceEvent>,
    classes: FxHashMap<StrId, KernelClass>,
    unclassified: u64,
}

impl DeviceEvents {
    /// Names that are looked at; a trace with more than that has generated ones, which say nothing.
    pub(crate) const KERNEL_NAMES_MAX: usize = 50_000;

    /// The device events of `trace`.
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let (classes, unclassified) = kernel_classes(trace);
        let mut events =
            Vec::with_capacity(trace.kernels.len() + trace.copies.len() + trace.memsets.len());
        macro_rules! collect {
            ($table:ident, $kind:expr, $class:expr) => {
                let table = &trace.$table;
                let (start, duration) = (&table.start[..], &table.duration[..]);
                for row in 0..table.len() {
                    events.push(DeviceEvent {
                        start: start[row],
                        end: start[row].saturating_add(duration[row].max(0)),
                        device: table.device[row],
                        stream: (table.context[row], table.stream[row]),
                        class: $class(table.name[row]),
                        table: $kind,
                        row: row as u32,
                        name: table.name[row],
                        correlation: table.correlation[row],
                        external: table.external[row],
                        in_graph: table.graph[row] != 0 || table.graph_node[row] != 0,
                    });
                }
            };
        }
        collect!(
            kernels,
            EventTable::Kernels,
            |name| match classes.get(&name) {
                Some(class) if class.category == Category::Communication => Class::Communication,
                Some(class)
                    if class.category == Category::Copy && is_async_copy(trace.text(name)) =>
                    Class::Copy,
                _ => Class::Compute,
            }
        );
        collect!(copies, EventTable::Copies, |_| Class::Copy);
        collect!(memsets, EventTable::Memsets, |_| Class::Memset);
        // Each table is in this order already, so a stable merge sort has little to do.
        events.sort_by_key(|event| (event.device, event.start, event.end, event.table, event.row));
        Self {
            events,
            classes,
            unclassified,
        }
    }

    /// All of them in order.
    pub(crate) fn all(&self) -> &[DeviceEvent] {
        &self.events
    }

    /// The events of each device, in order.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &[DeviceEvent]> {
        self.events.chunk_by(|a, b| a.device == b.device)
    }

    /// Purpose and library of a kernel's name.
    pub(crate) fn class_of(&self, name: StrId) -> KernelClass {
        self.classes.get(&name).copied().unwrap_or(KernelClass {
            category: Category::Other,
            library: Library::Unknown,
        })
    }

    /// Distinct kernel names beyond [`KERNEL_NAMES_MAX`](Self::MOST_NAMES), which were not looked at.
    pub(crate) fn unclassified(&self) -> u64 {
        self.unclassified
    }

    /// First start and last end.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let start = self.events.iter().map(|event| event.start).min()?;
        let end = self.events.iter().map(|event| event.end).max()?;
        Some((start, end))
    }
}

/// Ops of XLA that start a copy between memories, or wait for its end: `copy-start.4`, `copy-done`.
pub(crate) fn is_async_copy(name: &str) -> bool {
    name.starts_with("copy-done") || name.starts_with("copy-start")
}

fn kernel_classes(trace: &Trace) -> (FxHashMap<StrId, KernelClass>, u64) {
    let mut names: Vec<StrId> = trace.kernels.name.to_vec();
    names.sort_unstable();
    names.dedup();
    let beyond = names.len().saturating_sub(DeviceEvents::KERNEL_NAMES_MAX) as u64;
    names.truncate(DeviceEvents::KERNEL_NAMES_MAX);
    let classes = names
        .par_iter()
        .map(|&name| (name, classify(trace.text(name))))
        .collect::<Vec<_>>();
    (classes.into_iter().collect(), beyond)
}
